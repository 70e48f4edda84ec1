"""What has been asked for, and when? Nothing is asked for twice while its answer may still come.

An answer that has not come in time may be waiting behind others: with each time that nothing has come, the wait for the
next is twice as long, or the answers to what is asked again would be all that the way carries. When a piece
of it comes, the next wait is as short as the first.
"""

from __future__ import annotations

from typing import Final

from tidewire.delivery.spans import Range, Spans
from tidewire.model.ids import Nanoseconds, Tick

PATIENCE_MAX: Final = 32
"""Times the first wait."""


class Nacks:
    """What one stream lacks and has asked for."""

    def __init__(self) -> None:
        self._asked: list[tuple[Nanoseconds, Tick, Tick]] = []
        self._patience = 1
        self._horizon = Tick(0)

    def ask(self, ranges: list[Range], *, retry_ns: int, now_ns: Nanoseconds) -> list[Range]:
        """Of these, what is to be asked for now: what has not been asked for, or not for so long."""
        waiting = [one for one in self._asked if now_ns < one[0] + retry_ns * self._patience]
        if len(waiting) < len(self._asked):
            self._patience = min(PATIENCE_MAX, 2 * self._patience)
        self._asked = waiting
        outstanding = Spans()
        for _, first, end in self._asked:
            outstanding.add(first, end)
        found = [gap for first, end in ranges for gap in outstanding.gaps(first, end)]
        self._asked += [(now_ns, first, end) for first, end in found]
        return found

    def known(self, horizon: Tick) -> list[Nanoseconds]:
        """The horizon is here: when were those asked for that are known now?"""
        if horizon > self._horizon and any(first < horizon for _, first, _ in self._asked):
            self._patience = 1
        self._horizon = horizon
        found = [at_ns for at_ns, _, end in self._asked if end <= horizon]
        self._asked = [one for one in self._asked if one[2] > horizon]
        return found
