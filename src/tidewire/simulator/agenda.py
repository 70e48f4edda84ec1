"""What happens next? Virtual time: actions in the order of their times, and of their making where times are equal."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

SECOND_NS: Final = 1_000_000_000
MILLISECOND_NS: Final = 1_000_000


def in_ns(seconds: float) -> int:
    """Seconds in the unit of the agenda."""
    return round(seconds * SECOND_NS)


class Agenda:
    """The only clock of a world. Nothing takes time unless it says so here."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.steps = 0
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._count = 0

    @property
    def now_s(self) -> float:
        """The time in seconds, for people."""
        return self.now_ns / SECOND_NS

    def at(self, time_ns: int, action: Callable[[], object]) -> None:
        """Do this then; what lies in the past is done next."""
        self._count += 1
        heappush(self._heap, (max(time_ns, self.now_ns), self._count, action))

    def after(self, delay_ns: int, action: Callable[[], object]) -> None:
        """Do this so much later."""
        self.at(self.now_ns + delay_ns, action)

    def run(self, *, until_ns: int) -> None:
        """Let time pass up to then, with all that is due."""
        heap = self._heap
        while heap and heap[0][0] <= until_ns:
            self.now_ns, _, action = heappop(heap)
            self.steps += 1
            action()
        self.now_ns = max(self.now_ns, until_ns)
