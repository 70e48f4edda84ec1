"""What must the data cluster know of its channels after a restart? Which there are, how far each is, who wants what.

How far a channel is is written *before* the results of its run are stored, with the number of the run; the table of
results knows which run it has stored last. So after a crash the one that counts is the one whose run is stored.

Beside tables in a folder the book is a database on the disk. Beside tables in a store that many machines reach it is
there too, so that a data cluster can begin on any of them: all of it now and then, and each change since, as files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidewire.channels.cluster_events import Discard, Keep, Kept
from tidewire.channels.messages import read_values
from tidewire.model.errors import StoreDamaged, StoreFailed
from tidewire.model.ids import Tick
from tidewire.spark.journals import Journal
from tidewire.spark.places import Folder, Place

_kept: msgspec.msgpack.Decoder[Kept] = msgspec.msgpack.Decoder(Kept, dec_hook=read_values)
_encode = msgspec.msgpack.Encoder().encode
_FORMAT: Final = 1
_TABLES: Final = """
create table if not exists channels (
  name text primary key, text text not null, is_paused integer not null, floor integer not null,
  run integer not null, batch integer not null, tick integer not null,
  batch_before integer not null, tick_before integer not null
) strict;
create table if not exists subscriptions (id integer primary key, record blob not null) strict;
"""
_STATEMENTS: Final = {
    "channel": f"insert into channels values ({', '.join('?' * 9)}) on conflict do update set is_paused = ?3",
    "no channel": "delete from channels where name = ?",
    "run": "update channels set run = ?, batch = ?, tick = ?, batch_before = ?, tick_before = ? where name = ?",
    "keep": "insert or replace into subscriptions values (?, ?)",
    "discard": "delete from subscriptions where id = ?",
}
"""By the names that stand in journals."""

_Rows = Sequence[tuple[str | int | bytes | bool, ...]]
_Change = tuple[str, _Rows]
"""A statement, with what is given to it."""


class Progress(msgspec.Struct, frozen=True):
    """How far a channel is: the version of its feed that it has seen, and the tick of that run."""

    batch: int
    tick: Tick


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """A channel, as it is kept."""

    name: str
    text: str
    is_paused: bool
    floor: Tick
    """Results up to here are of an earlier channel of this name."""

    run: int
    """The last run of its kind in which it ran."""

    place: Progress
    before: Progress
    """Where it was before that run."""

    @classmethod
    def new(cls, name: str, text: str, *, run: int, place: Progress) -> Noted:
        """One that begins here."""
        return cls(name=name, text=text, is_paused=False, floor=place.tick, run=run, place=place, before=place)

    def place_after(self, stored_run: int) -> Progress:
        """Where it is, if this is the last run of its kind that is stored."""
        return self.place if self.run <= stored_run else self.before


class ChannelBook:
    """Every call is on the disk, or in the store, when it returns."""

    def __init__(self, place: Place, *, life: int = 1) -> None:
        """``life``: later ones know what earlier ones noted, never the other way round."""
        self._name = str(place)
        self._journal = None if isinstance(place, Folder) else Journal(place / "book", life)
        place.prepare()
        path = ":memory:" if self._journal is not None else str(place / "channels.db")
        try:
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            if self._journal is not None:
                self._recall(self._journal)
            for pragma in ("journal_mode=WAL", "synchronous=FULL"):
                self._base.execute(f"PRAGMA {pragma}")
            [[found]] = self._base.execute("PRAGMA user_version").fetchall()
            if found not in (0, _FORMAT):
                raise StoreDamaged(f"{path} is of format {found}, which this version does not know")
            self._base.executescript(_TABLES)
            self._base.execute(f"PRAGMA user_version = {_FORMAT}")
            if self._journal is not None:
                self._journal.begin(self._base.serialize())
        except sqlite3.Error as error:
            raise StoreDamaged(f"the book of channels in {place} cannot be opened: {error}") from None

    def _recall(self, journal: Journal) -> None:
        """What earlier lives noted."""
        whole, changes = journal.recalled()
        if whole is not None:
            self._base.deserialize(whole)
        for change in changes:
            self._apply(_changes_of(change))

    def close(self) -> None:
        """Nothing more is noted."""
        self._base.close()

    def channels(self) -> list[Noted]:
        """All of them, as they were created."""
        rows = self._base.execute(
            "select name, text, is_paused, floor, run, batch, tick, batch_before, tick_before from channels"
            " order by rowid"
        )
        return [
            Noted(
                name=name, text=text, is_paused=bool(paused), floor=Tick(floor), run=run,
                place=Progress(batch, Tick(tick)), before=Progress(batch_before, Tick(tick_before)),
            )
            for name, text, paused, floor, run, batch, tick, batch_before, tick_before in rows
        ]  # fmt: skip

    def subscriptions(self) -> list[Kept]:
        """All of them."""
        try:
            return [_kept.decode(record) for (record,) in self._base.execute("select record from subscriptions")]
        except msgspec.DecodeError as error:
            raise StoreDamaged(f"a subscription in the book of channels cannot be read: {error}") from None

    def note_channel(self, noted: Noted) -> None:
        """A channel, or what is new of it."""
        row = (
            noted.name, noted.text, noted.is_paused, noted.floor, noted.run, noted.place.batch, noted.place.tick,
            noted.before.batch, noted.before.tick,
        )  # fmt: skip
        self._write([("channel", [row])])

    def forget_channel(self, name: str, effects: Iterable[Keep | Discard]) -> None:
        """A channel is no more, nor what was subscribed to it."""
        self._write([("no channel", [(name,)]), *_changes(effects)])

    def note(self, effects: Iterable[Keep | Discard]) -> None:
        """What is to be kept of subscriptions."""
        self._write(_changes(effects))

    def note_run(self, run: int, places: Iterable[tuple[str, Progress, Progress]]) -> None:
        """These channels will be there when this run is stored; until then they are where they were before."""
        rows = [(run, now.batch, now.tick, before.batch, before.tick, name) for name, now, before in places]
        self._write([("run", rows)])

    def _write(self, changes: Sequence[_Change]) -> None:
        """All of it, or nothing."""
        if self._journal is not None:
            self._journal.add(_encode(changes))
        self._apply(changes)
        if self._journal is not None and self._journal.is_long:
            self._journal.replace(self._base.serialize())

    def _apply(self, changes: Sequence[_Change]) -> None:
        try:
            self._base.execute("begin")
            for statement, rows in changes:
                self._base.executemany(_STATEMENTS[statement], rows)
            self._base.execute("commit")
        except sqlite3.Error as error:
            if self._base.in_transaction:
                self._base.execute("rollback")
            raise StoreFailed(f"the book of channels in {self._name} cannot be written: {error}") from None


def _changes_of(change: bytes) -> list[_Change]:
    try:
        found: list[_Change] = msgspec.msgpack.decode(change, type=list[tuple[str, list[tuple[Any, ...]]]])
    except msgspec.DecodeError as error:
        raise StoreDamaged(f"a change in the book of channels cannot be read: {error}") from None
    return found


def _changes(effects: Iterable[Keep | Discard]) -> list[_Change]:
    """The last word about each subscription."""
    last: dict[int, Kept | None] = {}
    for one in effects:
        if isinstance(one, Keep):
            last[one.record.id] = one.record
        else:
            last[one.id] = None
    kept = [(number, _encode(record)) for number, record in last.items() if record is not None]
    gone = [(number,) for number, record in last.items() if record is None]
    found: list[_Change] = []
    if kept:
        found.append(("keep", kept))
    if gone:
        found.append(("discard", gone))
    return found
