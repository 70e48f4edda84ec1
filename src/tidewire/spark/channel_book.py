"""What must the data cluster know of its channels after a restart? Which there are, how far each is, who wants what.

How far a channel is is written *before* the results of its run are stored, with the number of the run; the table of
results knows which run it has stored last. So after a crash the one that counts is the one whose run is stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tidewire.channels.cluster_events import Discard, Keep, Kept
from tidewire.channels.messages import read_values
from tidewire.model.errors import StoreDamaged, StoreFailed
from tidewire.model.ids import Tick

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


class Place(msgspec.Struct, frozen=True):
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

    place: Place
    before: Place
    """Where it was before that run."""

    def place_after(self, stored_run: int) -> Place:
        """Where it is, if this is the last run of its kind that is stored."""
        return self.place if self.run <= stored_run else self.before


class ChannelBook:
    """In one file; every call is on the disk when it returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            for pragma in ("journal_mode=WAL", "synchronous=FULL"):
                self._base.execute(f"PRAGMA {pragma}")
            [[found]] = self._base.execute("PRAGMA user_version").fetchall()
            if found not in (0, _FORMAT):
                raise StoreDamaged(f"{path} is of format {found}, which this version does not know")
            self._base.executescript(_TABLES)
            self._base.execute(f"PRAGMA user_version = {_FORMAT}")
        except sqlite3.Error as error:
            raise StoreDamaged(f"{path} cannot be opened: {error}") from None

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
                place=Place(batch, Tick(tick)), before=Place(batch_before, Tick(tick_before)),
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
        marks = ", ".join("?" * len(row))
        self._write([(f"insert into channels values ({marks}) on conflict do update set is_paused = ?3", [row])])

    def forget_channel(self, name: str, effects: Iterable[Keep | Discard]) -> None:
        """A channel is no more, nor what was subscribed to it."""
        self._write([("delete from channels where name = ?", [(name,)]), *_changes(effects)])

    def note(self, effects: Iterable[Keep | Discard]) -> None:
        """What is to be kept of subscriptions."""
        self._write(_changes(effects))

    def note_run(self, run: int, places: Iterable[tuple[str, Place, Place]]) -> None:
        """These channels will be there when this run is stored; until then they are where they were before."""
        rows = [(run, now.batch, now.tick, before.batch, before.tick, name) for name, now, before in places]
        statement = "update channels set run = ?, batch = ?, tick = ?, batch_before = ?, tick_before = ? where name = ?"
        self._write([(statement, rows)])

    def _write(self, changes: Sequence[tuple[str, Sequence[tuple[object, ...]]]]) -> None:
        """All of it, or nothing."""
        try:
            self._base.execute("begin")
            for statement, rows in changes:
                self._base.executemany(statement, rows)
            self._base.execute("commit")
        except sqlite3.Error as error:
            if self._base.in_transaction:
                self._base.execute("rollback")
            raise StoreFailed(f"the book of channels cannot be written: {error}") from None


def _changes(effects: Iterable[Keep | Discard]) -> list[tuple[str, list[tuple[object, ...]]]]:
    """The last word about each subscription."""
    last: dict[int, Kept | None] = {}
    for one in effects:
        if isinstance(one, Keep):
            last[one.record.id] = one.record
        else:
            last[one.id] = None
    kept = [(number, _encode(record)) for number, record in last.items() if record is not None]
    gone: list[tuple[object, ...]] = [(number,) for number, record in last.items() if record is None]
    found: list[tuple[str, list[tuple[object, ...]]]] = []
    if kept:
        found.append(("insert or replace into subscriptions values (?, ?)", list(kept)))
    if gone:
        found.append(("delete from subscriptions where id = ?", gone))
    return found
