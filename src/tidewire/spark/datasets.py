"""Which datasets are there, and what are they? Declarations, one file each, in the folder that holds their tables.

A dataset is a folder that any reader of Delta tables can use:

    rows       what was fed or loaded; with a key, one row for each: the current one
    changes    with a key: every row that ever came, in its order
    aside      what was fed and did not fit: malformed, late, or lost on the way
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
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
    """The folder of a data cluster: its datasets, and what it must know after a restart."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checkpoint = root / "checkpoint"
        self.log = root / "spark.log"

    @classmethod
    def at(cls, root: str) -> Warehouse:
        """As an option of Spark says it."""
        return cls(Path(root))

    def folder(self, name: str) -> Path:
        """Of one dataset."""
        return self.root / "datasets" / name

    def table(self, declared: Declared, part: str) -> Path:
        """Of one of its tables: rows, changes, aside."""
        return self.folder(declared.name) / part

    def all(self) -> list[Declared]:
        """Every dataset, by name."""
        files = sorted((self.root / "datasets").glob(f"*/{_FILE}"))
        return [_read(file) for file in files]

    def get(self, name: str) -> Declared:
        """The one of this name; UnknownName if there is none."""
        file = self.folder(name) / _FILE
        if _NAME.fullmatch(name) is None or not file.exists():
            raise UnknownName(name, what="dataset", known=[one.name for one in self.all()])
        return _read(file)

    def refuse_taken(self, name: str) -> None:
        """BadConfiguration if there is one of this name."""
        if (self.folder(name) / _FILE).exists():
            raise BadConfiguration(f"dataset {name!r}: there is one of this name already")

    def add(self, declared: Declared) -> None:
        """Its declaration, on the disk; the tables come first."""
        folder = self.folder(declared.name)
        folder.mkdir(parents=True, exist_ok=True)
        written = _written(folder / f".{_FILE}.{os.getpid()}", declared)
        try:
            os.link(written, folder / _FILE)
        except FileExistsError:
            raise BadConfiguration(f"dataset {declared.name!r}: there is one of this name already") from None
        finally:
            written.unlink()

    def streams(self, declared: Declared) -> list[str]:
        """Those that something was stored of; how far, its tables know."""
        file = self.folder(declared.name) / _STREAMS
        try:
            return msgspec.json.decode(file.read_bytes(), type=list[str])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            raise StoreDamaged(f"{file} is not a list of streams: {error}") from None

    def note_streams(self, declared: Declared, streams: Iterable[str]) -> None:
        """Before something is stored of them: a table can be asked about a stream, not which there are."""
        known = self.streams(declared)
        new = [stream for stream in streams if stream not in known]
        if new:
            folder = self.folder(declared.name)
            _written(folder / f".{_STREAMS}.{os.getpid()}", known + new).replace(folder / _STREAMS)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One data cluster at a time; StoreLocked if another one is at work here."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as file:
            try:
                flock(file, LOCK_EX | LOCK_NB)
            except OSError:
                raise StoreLocked(
                    f"another data cluster is at work in {self.root}: end it, or take another folder"
                ) from None
            yield


def _written(file: Path, document: object) -> Path:
    """On the disk, before anybody is told."""
    with file.open("wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    return file


def _read(file: Path) -> Declared:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Declared)
    except (OSError, msgspec.DecodeError) as error:
        raise BadConfiguration(f"{file} is not the declaration of a dataset: {error}") from None
