"""What came of a run? Results, by the subscription that they are for, and where each of them came from.

A channel is a stream, and its runs are the ticks of it. A run is stored once, whoever tries again: its batch tells it
from every other.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NewType

import msgspec

from tidewire.channels.packing import pack_rows, unpack_rows
from tidewire.channels.schemas import Cell
from tidewire.model.ids import PubendId, Tick
from tidewire.model.values import Value

SubscriptionId = NewType("SubscriptionId", int)
"""A back-end subscription: one for each channel and parameters, whoever asked for it. Unsigned 63-bit."""

Origin = tuple[PubendId, Tick]
"""The event that a row was made from."""

BEGINNING: Final = Tick(0)
"""Before the first run of any channel."""


class SubscriptionRow(msgspec.Struct, frozen=True):
    """A back-end subscription in the table of its kind."""

    id: SubscriptionId
    channel: str
    values: tuple[Value, ...]
    """For each parameter of the kind."""


class ResultRow(msgspec.Struct, frozen=True):
    """One thing to tell."""

    cells: tuple[Cell, ...]
    """In the order of the channel's outputs."""

    origins: tuple[Origin, ...] = ()
    """The new rows that it comes from; several if they were aggregated."""


Rows = tuple[ResultRow, ...]


class Packed(msgspec.Struct, frozen=True):
    """Rows in bytes: brokers carry them and do not look inside."""

    count: int
    data: bytes

    @classmethod
    def of(cls, rows: Rows) -> Packed:
        """These rows."""
        return cls(len(rows), pack_rows([(row.cells, row.origins) for row in rows]))

    def rows(self) -> Rows:
        """The rows again; DamagedFrame if these are none."""
        found = unpack_rows(self.data)
        return tuple(
            ResultRow(cells, tuple((PubendId(pubend), Tick(tick)) for pubend, tick in origins))
            for cells, origins in found
        )


class Result(msgspec.Struct, frozen=True):
    """What a run has to tell one subscription. If it has nothing to tell, there is no result."""

    subscription: SubscriptionId
    rows: Rows


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """All that one run of a channel has to tell."""

    channel: str
    batch: int
    """The run, by the number of what it looked at: the same if it is done again after a crash."""

    tick: Tick
    """Its place in the channel's stream, which also tells when it was."""

    results: tuple[Result, ...]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """All results of one subscription behind one tick and up to another."""

    subscription: SubscriptionId
    after: Tick
    upto: Tick
    runs: tuple[tuple[Tick, Packed], ...]
    lost_upto: Tick = BEGINNING
    """If it is behind ``after``: up to here there were results that are no longer kept."""


class ResultStore:
    """The results of all channels, in memory: what the data cluster keeps in a dataset."""

    def __init__(self) -> None:
        self._stored: dict[str, tuple[int, Tick]] = {}
        self._lost: dict[str, dict[SubscriptionId, Tick]] = {}
        """The last run with something for a subscription that is no longer kept."""
        self._runs: dict[str, dict[SubscriptionId, list[tuple[Tick, Rows]]]] = {}

    def store(self, outcome: Outcome) -> bool:
        """Keep it; false if this batch, or a later one, is there already."""
        if outcome.batch <= self.last(outcome.channel)[0]:
            return False
        self._stored[outcome.channel] = (outcome.batch, outcome.tick)
        kept = self._runs.setdefault(outcome.channel, {})
        for result in outcome.results:
            kept.setdefault(result.subscription, []).append((outcome.tick, result.rows))
        return True

    def last(self, channel: str) -> tuple[int, Tick]:
        """The batch and the tick of the last run that is stored."""
        return self._stored.get(channel, (-1, BEGINNING))

    def find(self, channel: str, subscription: SubscriptionId, after: Tick, *, rows_max: int) -> Found:
        """What this subscription is owed behind a tick: at least one run, then up to so many rows."""
        runs = self._runs.get(channel, {}).get(subscription, [])
        upto, taken = self.last(channel)[1], list[tuple[Tick, Rows]]()
        left = rows_max
        for tick, rows in runs[bisect_right(runs, after, key=lambda run: run[0]) :]:
            if taken and len(rows) > left:
                upto = taken[-1][0]
                break
            taken.append((tick, rows))
            left -= len(rows)
        lost = self._lost.get(channel, {}).get(subscription, BEGINNING)
        return Found(
            subscription=subscription,
            after=after,
            upto=Tick(max(after, upto)),
            runs=tuple((tick, Packed.of(rows)) for tick, rows in taken),
            lost_upto=lost if lost > after else BEGINNING,
        )

    def trim(self, channel: str, upto: Tick) -> None:
        """What is not behind this tick is no longer kept."""
        kept, lost = self._runs.get(channel, {}), self._lost.setdefault(channel, {})
        for subscription, runs in list(kept.items()):
            gone = bisect_right(runs, upto, key=lambda run: run[0])
            if gone:
                lost[subscription] = runs[gone - 1][0]
                kept[subscription] = runs[gone:]
            if not kept[subscription]:
                del kept[subscription]

    def drop(self, channel: str) -> None:
        """The channel is no more."""
        self._stored.pop(channel, None)
        self._lost.pop(channel, None)
        self._runs.pop(channel, None)
