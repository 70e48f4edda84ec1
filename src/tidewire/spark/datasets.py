"""Which datasets are there, and what are they? Declarations, one file each, in the place that holds their tables.

A dataset is a folder that any reader of Delta tables can use:

    rows       what was fed or loaded; with a key, one row for each: the current one
    changes    with a key: every row that ever came, in its order
    aside      what was fed and did not fit: malformed, late, or lost on the way
"""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from tidewire.channels.schemas import TYPE_NAMES, Catalog, Column, ColumnType, Dataset
from tidewire.language import compile_filter
from tidewire.model.errors import BadConfiguration, StoreDamaged, StoreLocked, UnknownName
from tidewire.model.filters import Filter
from tidewire.spark.leases import LEASE_S, Lease
from tidewire.spark.places import Folder, Place, decoded, encoded, place_of

OWN: Final = "tw_"
"""How the names of the columns begin that every dataset has."""

_FILE: Final = "dataset.json"
_STREAMS: Final = "streams.json"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_NOT_IN_COLUMNS: Final = re.compile(r"[ ,;{}()\n\t=`]")


class Feed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events become rows."""

    wanted: str
    """The filter."""

    since_ms: int = 0
    """Where it begins, in milliseconds since 1970; -1: now; 0: with the earliest event that is kept."""

    takes_others: bool = False
    """May an event have attributes that no column is for? Else it is set aside: the schema may have changed."""

    time: str | None = None
    """The column that says when it happened."""

    late_s: float = 86_400.0
    """What happened longer ago than this when it was published is late, and set aside."""


class Declared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dataset as it was declared."""

    name: str
    id: str
    """Of this one alone: another of the same name, later, is not this one."""

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    feed: Feed | None = None
    retain_days: float | None = None
    """Rows that were published longer ago than this are removed; None: never."""

    @property
    def dataset(self) -> Dataset:
        """As queries know it."""
        return Dataset(name=self.name, columns=self.columns, is_feed=self.feed is not None, key=self.key)

    @property
    def holder(self) -> str:
        """The name by which brokers hold events for its feed."""
        return f"dataset/{self.name}/{self.id}"


def columns_of(text: str) -> list[Column]:
    """Columns as people write them: ``magnitude double, place string``."""
    found = []
    for part in text.split(","):
        words = part.split()
        if len(words) != 2:
            raise BadConfiguration(f"column {part.strip()!r}: write a name and a type, such as magnitude double")
        kind = TYPE_NAMES.get(words[1].lower())
        if kind is None:
            raise UnknownName(words[1], what="type of column", known=TYPE_NAMES)
        found.append(Column(words[0], kind))
    return found


def declare(
    name: str,
    columns: list[Column],
    *,
    key: tuple[str, ...] = (),
    feed: Feed | None = None,
    retain_days: float | None = None,
) -> Declared:
    """A new dataset; BadConfiguration says what cannot be."""
    if _NAME.fullmatch(name) is None:
        raise BadConfiguration(f"dataset {name!r}: a name is letters, digits and _, and begins with a letter")
    for column in columns:
        if column.name.startswith(OWN) or _NOT_IN_COLUMNS.search(column.name):
            raise BadConfiguration(
                f"column {column.name!r}: names that begin with {OWN} are our own, and tables know no spaces, "
                "commas, semicolons, brackets, = or ` in names"
            )
    made = Declared(name=name, id=uuid4().hex[:8], columns=tuple(columns), key=key, feed=feed, retain_days=retain_days)
    Catalog([made.dataset])
    if retain_days is not None and retain_days <= 0:
        raise BadConfiguration(f"retain_days {retain_days:g}: it is more than 0; without it all is kept")
    if feed is not None:
        wanted = compile_filter(feed.wanted)
        if not feed.takes_others:
            _refuse_strangers(name, wanted, [column.name for column in columns])
        time = None if feed.time is None else made.dataset.column(feed.time)
        if feed.time is not None and (time is None or time.type is not ColumnType.TIMESTAMP):
            raise BadConfiguration(f"time {feed.time!r}: it is the name of a column of type timestamp")
    return made


def _refuse_strangers(name: str, wanted: Filter, columns: list[str]) -> None:
    """BadConfiguration if events have to have what no column is for: all of them would be set aside."""
    for conjunction in wanted.conjunctions:
        needed = [one.attribute for one in conjunction.constraints if not one.allowed.has(None)]
        strangers = [attribute for attribute in needed if attribute not in columns]
        if strangers:
            raise BadConfiguration(
                f"dataset {name!r}: its feed wants events by {', '.join(strangers)}, which is no column, so all of them"
                " would be set aside: add the column, or leave out what no column is for (--others)"
            )


class Warehouse:
    """The place of a data cluster: its datasets, and what it must know after a restart."""

    def __init__(self, root: Path | Place, *, state: Path | None = None) -> None:
        """``state``: what stays on this machine if the rest is elsewhere."""
        self.root = place_of(root)
        self.state = root.path if isinstance(root, Folder) else root if isinstance(root, Path) else state
        self._lease: Lease | None = None

    @property
    def checkpoint(self) -> Path:
        """Spark's; what it lacks the tables know. Where others may have been at work since, each lease begins anew."""
        assert self.state is not None, "only a data cluster has one"
        return self.state / ("checkpoint" if self._lease is None else f"checkpoint-{self._lease.number}")

    @property
    def log(self) -> Path:
        """What Spark says."""
        assert self.state is not None, "only a data cluster has one"
        return self.state / "spark.log"

    @property
    def life(self) -> int:
        """The number of the lease, if there are leases."""
        return 1 if self._lease is None else self._lease.number

    def options(self) -> dict[str, str]:
        """For Spark's sources and sinks, wherever they run; it shows nobody what is called secret."""
        where, secret = encoded(self.root)
        return {"root": where, "root_secret": secret}

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Warehouse:
        """What `options` told."""
        return cls(decoded(options["root"], options["root_secret"]))

    def folder(self, name: str) -> Place:
        """Of one dataset."""
        return self.root / "datasets" / name

    def table(self, declared: Declared, part: str) -> Place:
        """Of one of its tables: rows, changes, aside."""
        return self.folder(declared.name) / part

    def all(self) -> list[Declared]:
        """Every dataset, by name."""
        datasets = self.root / "datasets"
        found = (_declared(datasets / name / _FILE) for name in datasets.names())
        return [one for one in found if one is not None]

    def get(self, name: str) -> Declared:
        """The one of this name; UnknownName if there is none."""
        found = None if _NAME.fullmatch(name) is None else _declared(self.folder(name) / _FILE)
        if found is None:
            raise UnknownName(name, what="dataset", known=[one.name for one in self.all()])
        return found

    def refuse_taken(self, name: str) -> None:
        """BadConfiguration if there is one of this name."""
        if (self.folder(name) / _FILE).exists():
            raise BadConfiguration(f"dataset {name!r}: there is one of this name already")

    def add(self, declared: Declared) -> None:
        """Its declaration, where it stays; the tables come first."""
        if not (self.folder(declared.name) / _FILE).create(_document(declared)):
            raise BadConfiguration(f"dataset {declared.name!r}: there is one of this name already")

    def streams(self, declared: Declared) -> list[str]:
        """Those that something was stored of; how far, its tables know."""
        file = self.folder(declared.name) / _STREAMS
        try:
            return msgspec.json.decode(file.read(), type=list[str])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            raise StoreDamaged(f"{file} is not a list of streams: {error}") from None

    def note_streams(self, declared: Declared, streams: Iterable[str]) -> None:
        """Before something is stored of them: a table can be asked about a stream, not which there are."""
        known = self.streams(declared)
        new = [stream for stream in streams if stream not in known]
        if new:
            (self.folder(declared.name) / _STREAMS).write(_document(known + new))

    @contextmanager
    def locked(self, *, tell: Callable[[str], None] = lambda _: None, lease_s: float = LEASE_S) -> Iterator[None]:
        """One data cluster at a time; StoreLocked if another one is at work here."""
        assert self.state is not None, "only a data cluster locks"
        self.state.mkdir(parents=True, exist_ok=True)
        with (self.state / "lock").open("w") as file:
            try:
                flock(file, LOCK_EX | LOCK_NB)
            except OSError:
                raise StoreLocked(
                    f"another data cluster is at work in {self.state}: end it, or take another folder"
                ) from None
            if not self.root.is_remote:
                yield
                return
            lease = Lease(self.root / "leases", node=self._node(), machine=socket.gethostname(), lease_s=lease_s)
            lease.take(tell)
            self._lease = lease
            for old in self.state.glob("checkpoint-*"):
                shutil.rmtree(old, ignore_errors=True)
            try:
                yield
            finally:
                lease.release()

    def check(self) -> None:
        """StoreLocked or Unavailable if it is no longer ours alone."""
        if self._lease is not None:
            self._lease.check()

    def look(self) -> None:
        """The same, and not as of a moment ago: before something is stored that others must not have stored."""
        if self._lease is not None:
            self._lease.look()

    def _node(self) -> str:
        """By which the folder on this machine is known to others: as long as it is locked, nobody else says this."""
        assert self.state is not None, "only a data cluster has one"
        file = Folder(self.state / "node")
        file.create(uuid4().hex.encode())
        return file.read().decode()


def _document(found: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def _declared(file: Place) -> Declared | None:
    """None: there is no such file."""
    try:
        return msgspec.json.decode(file.read(), type=Declared)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise BadConfiguration(f"{file} is not the declaration of a dataset: {error}") from None
