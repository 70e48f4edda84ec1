"""How many of many vectors have each bit? All counters at once: plane i holds bit i of every counter.

Adding a vector is then an addition with carry, of all its bits in the same few operations, however long it is.
"""

from __future__ import annotations


class Tally:
    """A counter for each bit of vectors."""

    def __init__(self) -> None:
        self._planes: list[int] = []

    def add(self, bits: int, *, times: int = 1) -> None:
        """Count a vector, several times."""
        planes = self._planes
        for place in _ones(times):
            carry, at = bits, place
            while carry:
                while len(planes) <= at:
                    planes.append(0)
                planes[at], carry = planes[at] ^ carry, planes[at] & carry
                at += 1

    def remove(self, bits: int) -> None:
        """Take back a vector that was counted."""
        borrow, at = bits, 0
        while borrow:
            self._planes[at], borrow = self._planes[at] ^ borrow, ~self._planes[at] & borrow
            at += 1

    @property
    def some(self) -> int:
        """The bits that were counted at least once."""
        found = 0
        for plane in self._planes:
            found |= plane
        return found

    def exactly(self, count: int) -> int:
        """The bits that were counted so many times, at least once."""
        if count >> len(self._planes):
            return 0
        found = self.some
        for place, plane in enumerate(self._planes):
            found &= plane if count >> place & 1 else ~plane
        return found

    def at_most(self, count: int) -> int:
        """The bits that were counted at least once, and not more often than this."""
        same = self.some
        if count >> len(self._planes):
            return same
        below = 0
        for place in reversed(range(len(self._planes))):
            plane = self._planes[place]
            if count >> place & 1:
                below |= same & ~plane
                same &= plane
            else:
                same &= ~plane
        return below | same

    def same_as(self, other: Tally) -> int:
        """The bits that both have counted equally often, at least once."""
        found = self.some
        for place in range(max(len(self._planes), len(other._planes))):
            found &= ~(self._plane(place) ^ other._plane(place))
        return found

    def _plane(self, place: int) -> int:
        return self._planes[place] if place < len(self._planes) else 0


def _ones(number: int) -> list[int]:
    return [place for place in range(number.bit_length()) if number >> place & 1]
