"""What is missing in a stream at an edge, and may be asked for now? The consolidated stream of gryphon §1.2.

Two windows begin at the doubt horizon and move with it. What comes from beyond the *receive window* is ignored, which
bounds the memory; it will be asked for later. What is missing is asked for inside the *NACK window* only, whose width
is a matter of congestion control and handed in. Widths are in ticks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from tidewire.delivery.knowledge import Knowledge, Run, State
from tidewire.model.ids import Nanoseconds, Tick


class _Asked(msgspec.Struct):
    """A NACK that is not answered yet."""

    start: Tick
    end: Tick
    first_ns: Nanoseconds
    last_ns: Nanoseconds


class EdgeStream:
    """One pubend's stream at an edge, or a part of it that is caught up with."""

    def __init__(
        self, *, start: Tick, receive_window: int, nack_size: int, patience_ns: int = 0, now_ns: Nanoseconds
    ) -> None:
        """``patience_ns``: only after so long without an update is something missing because of ``heard_of``.

        For that comes in the control lane, ahead of data that is still on its way.
        """
        self.knowledge = Knowledge(start=start)
        self._receive_window = receive_window
        self._nack_size = nack_size
        self._patience_ns = patience_ns
        self._arrived = start
        self._announced = start
        self._update_ns = now_ns
        self._asked: list[_Asked] = []
        self._answered: list[Nanoseconds] = []
        self._ignored: Tick | None = None

    @property
    def horizon(self) -> Tick:
        """Everything below is known: delivered, or to be delivered now."""
        return self.knowledge.horizon

    @property
    def is_recovering(self) -> bool:
        """Has it ignored what it still lacks? To lack something is not enough: one lost message is no recovery."""
        return self._ignored is not None

    def update(self, start: Tick, end: Tick, state: State, *, now_ns: Nanoseconds) -> list[Run]:
        """A message in the data lane tells this. What of it is new?

        The windows move as it is taken in: what goes on from the horizon is never ignored, however long it is.
        """
        self._update_ns = now_ns
        self._arrived = max(self._arrived, end)
        news: list[Run] = []
        while start < end:
            bound = min(end, Tick(self.horizon + self._receive_window))
            if start >= bound:
                self._ignored = max(self._ignored or start, Tick(end - 1))
                break
            news += self.knowledge.tell(start, bound, state)
            start = bound
        if self._ignored is not None and self.horizon > self._ignored:
            self._ignored = None
        if news:
            self._settle(news[0][0], news[-1][1])
        return news

    def heard_of(self, latest: Tick) -> None:
        """A query says that there are ticks up to this one."""
        self._announced = max(self._announced, Tick(latest + 1))

    def nacks(self, *, window: int, retry_ns: int, now_ns: Nanoseconds) -> list[Run]:
        """What to ask for now: what is missing inside the window, and not asked for within ``retry_ns``.

        Only ticks of which the stream is known to have got there: beyond, nothing may have been published yet.
        """
        is_stalled = now_ns - self._update_ns >= self._patience_ns
        known = max(self._arrived, self._announced) if is_stalled else self._arrived
        end = min(known, Tick(self.horizon + min(window, self._receive_window)))
        if self.horizon >= end:
            return []
        late = [asked for asked in self._asked if now_ns - asked.last_ns >= retry_ns]
        if late:
            self._asked = [asked for asked in self._asked if now_ns - asked.last_ns < retry_ns]
        wanted = list(self._pieces(_without(self.knowledge.unknown(self.horizon, end), self._asked)))
        if wanted:
            self._asked += (_Asked(*piece, _first_asked(piece, late, now_ns), now_ns) for piece in wanted)
            self._asked.sort(key=_start_of)
        return wanted

    def answered(self) -> list[Nanoseconds]:
        """When was asked for what has come since the last call? The first time counts, if it was asked for again."""
        answered, self._answered = self._answered, []
        return answered

    def finish(self, *, below: Tick) -> None:
        """All below is done with: delivered, and acknowledged."""
        assert below <= self.horizon, "what is not known cannot have been delivered"
        self.knowledge.forget(below=below)

    def _pieces(self, runs: Iterable[Run]) -> Iterator[Run]:
        """As many NACKs as it takes."""
        for start, end in runs:
            for at in range(start, end, self._nack_size):
                yield Tick(at), Tick(min(end, at + self._nack_size))

    def _settle(self, start: Tick, end: Tick) -> None:
        """Something is known in here: which NACKs have been answered with it?"""
        low = bisect_right(self._asked, start, key=_end_of)
        high = bisect_left(self._asked, end, key=_start_of)
        waiting = []
        for asked in self._asked[low:high]:
            if next(self.knowledge.unknown(asked.start, asked.end), None) is None:
                self._answered.append(asked.first_ns)
            else:
                waiting.append(asked)
        self._asked[low:high] = waiting


def _start_of(asked: _Asked) -> Tick:
    return asked.start


def _end_of(asked: _Asked) -> Tick:
    return asked.end


def _first_asked(piece: Run, late: list[_Asked], now_ns: Nanoseconds) -> Nanoseconds:
    """When was this, or some of it, asked for before? The late ones are in order."""
    at = bisect_right(late, piece[0], key=_end_of)
    return late[at].first_ns if at < len(late) and late[at].start < piece[1] else now_ns


def _without(runs: Iterable[Run], asked: list[_Asked]) -> Iterator[Run]:
    """What of these runs has not been asked for. Both are in order, and none overlaps another of its kind."""
    at = 0
    for start, end in runs:
        begin = start
        while at < len(asked) and asked[at].start < end:
            if begin < asked[at].start:
                yield begin, asked[at].start
            begin = max(begin, asked[at].end)
            if asked[at].end > end:
                break  # it may reach into the next run, too
            at += 1
        if begin < end:
            yield begin, end
