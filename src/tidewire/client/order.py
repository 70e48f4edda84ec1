"""Has the application had this event, or a later one of the same publisher? The last gate in front of it.

While a session is served without a break, brokers bring every event once, and those of one publisher in order. After
a break the next broker may bring again what the last one had brought, and what a publisher said on a connection that
broke may come behind what it said on the next one. In a move two brokers bring the same. All this is known by the
sequence, which only grows: what is late counts as lost in the break. (Not by the position in a source tree: urgent
events overtake those of other publishers, differently on every way.)
"""

from __future__ import annotations

from typing import Final

PUBLISHERS_REMEMBERED: Final = 65_536


class Order:
    """The last sequence of each publisher. Asked where events are handed to the application, behind every move.

    At least the publishers of whom something came last are remembered, ``PUBLISHERS_REMEMBERED`` of them.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._before: dict[int, int] = {}
        """Of those who have been silent for longer."""

    def is_next(self, publisher: int, sequence: int) -> bool:
        """May this event go to the application? Then nothing up to it may any more."""
        last = self._last.get(publisher)
        if last is None:
            last = self._before.get(publisher, 0)
            if len(self._last) >= PUBLISHERS_REMEMBERED:
                self._before, self._last = self._last, {}
            self._last[publisher] = last
        if sequence <= last:
            return False
        self._last[publisher] = sequence
        return True
