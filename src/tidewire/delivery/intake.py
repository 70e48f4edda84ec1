"""What of its streams has a feed been sent, and may be stored? Kept here until it is, and asked for by ticks.

Whoever stores it asks how far it may go (``latest``), reads up to there (``read``), as often as it takes, and says when
it is done (``settle``). Between two lives what has come may be cut elsewhere: a read never depends on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

import msgspec

from tidewire.model.ids import PubendId, Tick

Places = Mapping[PubendId, Tick]
"""Of each stream, the first tick that is not meant any more."""


class Span(msgspec.Struct, frozen=True):
    """Events of one stream, in order, still encoded; without a batch: a gap, which nobody can fill."""

    first: Tick
    last: Tick
    count: int
    batch: bytes | None


class Piece(msgspec.Struct, frozen=True):
    """A part of a stream that is read in one go."""

    pubend: PubendId
    first: Tick
    end: Tick


class Taken(msgspec.Struct, frozen=True):
    """What there is between two ticks; some events may lie before the first, or at the end or behind it."""

    batches: list[bytes]
    gaps: list[tuple[Tick, Tick]]


class Intake:
    """Of one feed. What is below ``settled`` is stored already."""

    def __init__(self, settled: Places) -> None:
        self._settled = dict(settled)
        self._spans: dict[PubendId, deque[Span]] = {}
        self.held_bytes = 0
        self.events = 0
        """Those that have come, in all."""

    # -- what comes ----------------------------------------------------------------------------------------------------

    def came(self, pubend: PubendId, span: Span) -> None:
        """More of a stream."""
        assert span.first >= self._reached(pubend), f"{span.first} of stream {pubend:016x} has come before"
        self._spans.setdefault(pubend, deque()).append(span)
        self.held_bytes += _size(span)
        self.events += span.count

    def lost(self, pubend: PubendId, first: Tick, last: Tick) -> None:
        """These ticks will never come: that is told as what came is."""
        first = max(first, self._reached(pubend))
        if first <= last:
            self.came(pubend, Span(first, last, 0, None))

    def _reached(self, pubend: PubendId) -> Tick:
        spans = self._spans.get(pubend)
        return Tick(spans[-1].last + 1) if spans else self._settled.get(pubend, Tick(0))

    # -- what is asked for ---------------------------------------------------------------------------------------------

    def latest(self, start: Places, *, events_max: int) -> dict[PubendId, Tick]:
        """How far one may go from ``start`` on, with about so many events: a span of each stream in turn."""
        ends = dict(start)
        waiting = {pubend: self._from(pubend, start.get(pubend, Tick(0))) for pubend in self._spans}
        count = 0
        while waiting and count < events_max:
            for pubend in list(waiting):
                span = next(waiting[pubend], None)
                if span is None:
                    del waiting[pubend]
                    continue
                ends[pubend] = Tick(span.last + 1)
                count += span.count
        return ends

    def pieces(self, start: Places, end: Places, *, events_max: int) -> list[Piece]:
        """What lies between, in pieces of about so many events."""
        found: list[Piece] = []
        for pubend, stop in end.items():
            first, count = start.get(pubend, Tick(0)), 0
            if first >= stop:
                continue
            for span in self._from(pubend, first):
                count += span.count
                if count >= events_max and span.last + 1 < stop:
                    found.append(Piece(pubend, first, Tick(span.last + 1)))
                    first, count = Tick(span.last + 1), 0
            found.append(Piece(pubend, first, stop))
        return found

    def has(self, pubend: PubendId, end: Tick) -> bool:
        """Has all below this tick come, or been stored?"""
        return end <= max(self._reached(pubend), self._settled.get(pubend, Tick(0)))

    def read(self, pubend: PubendId, first: Tick, end: Tick) -> Taken:
        """What there is between these ticks; what is stored already is left out. Only if ``has`` says so."""
        assert self.has(pubend, end), f"stream {pubend:016x} has not come as far as {end}"
        batches: list[bytes] = []
        gaps: list[tuple[Tick, Tick]] = []
        for span in self._from(pubend, first):
            if span.first >= end:
                break
            if span.batch is not None:
                batches.append(span.batch)
            else:
                gaps.append((max(first, span.first), Tick(min(end - 1, span.last))))
        return Taken(batches, gaps)

    def _from(self, pubend: PubendId, tick: Tick) -> Iterator[Span]:
        return (span for span in self._spans.get(pubend, ()) if span.last >= tick)

    # -- what is done --------------------------------------------------------------------------------------------------

    def settle(self, ends: Places) -> dict[PubendId, Tick]:
        """All below is stored: it is kept here no longer. Which streams have moved, and to where?"""
        moved: dict[PubendId, Tick] = {}
        for pubend, end in ends.items():
            if end <= self._settled.get(pubend, Tick(0)):
                continue
            moved[pubend] = self._settled[pubend] = end
            spans = self._spans.get(pubend, deque())
            while spans and spans[0].last < end:
                self.held_bytes -= _size(spans.popleft())
        return moved

    def reached(self) -> dict[PubendId, Tick]:
        """Of each stream, the next tick that is to come."""
        return {pubend: self._reached(pubend) for pubend in (self._settled | self._spans)}

    def kept_from(self) -> dict[PubendId, Tick]:
        """Of each stream of which something is here and not stored, where that begins."""
        return {pubend: spans[0].first for pubend, spans in self._spans.items() if spans}

    @property
    def settled(self) -> dict[PubendId, Tick]:
        """Where each stream is stored up to."""
        return dict(self._settled)


def _size(span: Span) -> int:
    return len(span.batch or b"")
