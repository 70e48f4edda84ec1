"""How many of many vectors have each bit? All counters at once: plane i holds bit i of every counter.

Adding a vector is then an addition with carry, of all its bits in the same few operations, however long it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Tally:
    """A counter for each bit of vectors."""

    def __init__(self) -> None:
        self._planes: list[int] = []

    def add(self, vectors: Sequence[int]) -> None:
        """Count these vectors."""
        carry = 0
        for place, other in _counted(vectors):
            if place == len(self._planes):
                self._planes.append(0)
            plane = self._planes[place]
            self._planes[place] = plane ^ other ^ carry
            carry = plane & other | carry & (plane ^ other)
        self._ripple(carry, len(vectors).bit_length())

    def remove(self, vectors: Sequence[int]) -> None:
        """Take back vectors that were counted."""
        borrow = 0
        for place, other in _counted(vectors):
            plane = self._plane(place)
            if place < len(self._planes):
                self._planes[place] = plane ^ other ^ borrow
            borrow = ~plane & (other | borrow) | other & borrow
        for place in range(len(vectors).bit_length(), len(self._planes)):
            plane = self._planes[place]
            self._planes[place], borrow = plane ^ borrow, ~plane & borrow

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
        for place in reversed(range(max(len(self._planes), len(other._planes)))):
            found &= ~(self._plane(place) ^ other._plane(place))
            if not found:
                break
        return found

    def _ripple(self, carry: int, place: int) -> None:
        while carry:
            if place == len(self._planes):
                self._planes.append(0)
            self._planes[place], carry = self._planes[place] ^ carry, self._planes[place] & carry
            place += 1

    def _plane(self, place: int) -> int:
        return self._planes[place] if place < len(self._planes) else 0


def _counted(vectors: Sequence[int]) -> Iterable[tuple[int, int]]:
    """The planes of many vectors, as many as their number has digits.

    They stand side by side in one long integer, whose halves are added until a single vector is left: each step adds
    half of those that are there, all at once.
    """
    width = (max(vectors, default=0).bit_length() + 7) // 8
    planes = [int.from_bytes(b"".join([bits.to_bytes(width, "little") for bits in vectors]), "little")]
    count = len(vectors)
    while count > 1:
        count = (count + 1) // 2
        shift = count * width * 8
        lower, carry, added = (1 << shift) - 1, 0, []
        for plane in planes:
            left, right = plane & lower, plane >> shift
            added.append(left ^ right ^ carry)
            carry = left & right | carry & (left ^ right)
        planes = [*added, carry] if carry else added
    return enumerate(planes + [0] * (len(vectors).bit_length() - len(planes)))
