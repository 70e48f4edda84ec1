"""A set of ticks as runs, sorted, apart from each other, half open: what is known, what is lost, what one lacks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tidewire.model.ids import Tick

Range = tuple[Tick, Tick]


class Spans:
    """Ticks, by runs from a first one up to the one behind the last."""

    __slots__ = ("_ends", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[Range]:
        return ((Tick(first), Tick(end)) for first, end in zip(self._firsts, self._ends, strict=True))

    def __contains__(self, tick: int) -> bool:
        at = bisect_right(self._firsts, tick) - 1
        return at >= 0 and tick < self._ends[at]

    def add(self, first: int, end: int) -> None:
        """These too; runs that touch become one."""
        if first >= end:
            return
        if self._ends and first == self._ends[-1]:  # the head of a stream
            self._ends[-1] = end
            return
        low = bisect_left(self._ends, first)
        high = bisect_right(self._firsts, end)
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
        self._firsts[low:high] = [first]
        self._ends[low:high] = [end]

    def remove(self, first: int, end: int) -> None:
        """These no longer."""
        if first >= end:
            return
        low = bisect_right(self._ends, first)
        high = bisect_left(self._firsts, end)
        if low >= high:
            return
        left, right = self._firsts[low], self._ends[high - 1]
        rest = [(left, first)] if left < first else []
        rest += [(end, right)] if end < right else []
        self._firsts[low:high] = [one for one, _ in rest]
        self._ends[low:high] = [one for _, one in rest]

    def end_of(self, tick: int) -> Tick:
        """The first tick from here on that is not in the set."""
        at = bisect_right(self._firsts, tick) - 1
        return Tick(max(tick, self._ends[at]) if at >= 0 else tick)

    def within(self, first: int, end: int) -> list[Range]:
        """The runs of the set in this range."""
        low, high = bisect_right(self._ends, first), bisect_left(self._firsts, end)
        return [(Tick(max(first, self._firsts[at])), Tick(min(end, self._ends[at]))) for at in range(low, high)]

    def gaps(self, first: int, end: int) -> list[Range]:
        """The runs of this range that are not in the set."""
        found: list[Range] = []
        for known_first, known_end in self.within(first, end):
            if first < known_first:
                found.append((Tick(first), known_first))
            first = known_end
        return [*found, (Tick(first), Tick(end))] if first < end else found
