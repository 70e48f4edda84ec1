"""What has been asked for, and when? Nothing is asked for twice while its answer may still come."""

from __future__ import annotations

from tidewire.delivery.spans import Range, Spans
from tidewire.model.ids import Nanoseconds, Tick


class Nacks:
    """What one stream lacks and has asked for."""

    def __init__(self) -> None:
        self._asked: list[tuple[Nanoseconds, Tick, Tick]] = []

    def ask(self, ranges: list[Range], *, retry_ns: int, now_ns: Nanoseconds) -> list[Range]:
        """Of these, what is to be asked for now: what has not been asked for, or not for so long."""
        self._asked = [one for one in self._asked if now_ns < one[0] + retry_ns]
        outstanding = Spans()
        for _, first, end in self._asked:
            outstanding.add(first, end)
        found = [gap for first, end in ranges for gap in outstanding.gaps(first, end)]
        self._asked += [(now_ns, first, end) for first, end in found]
        return found

    def known(self, horizon: Tick) -> list[Nanoseconds]:
        """The horizon is here: when were those asked for that are known now?"""
        found = [at_ns for at_ns, _, end in self._asked if end <= horizon]
        self._asked = [one for one in self._asked if one[2] > horizon]
        return found
