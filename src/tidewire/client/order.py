"""Has the application had this event, or a later one of the same publisher? The last gate in front of it.

While a session is served without a break, brokers bring every event once and in order. After a break the next broker
may bring again what the last one had brought, and what a publisher said on a connection that broke may come behind what
it said on the next one. Both are known by the sequence, which only grows: what is late counts as lost in the break.
"""

from __future__ import annotations

from typing import Final

PUBLISHERS_REMEMBERED: Final = 65_536


class Order:
    """The last sequence of each publisher. Asked where events are handed to the application, behind every move."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def is_next(self, publisher: int, sequence: int) -> bool:
        """May this event go to the application? Then nothing up to it may any more."""
        if sequence <= self._last.get(publisher, 0):
            return False
        self._last[publisher] = sequence
        if len(self._last) > 2 * PUBLISHERS_REMEMBERED:
            for old in list(self._last)[:PUBLISHERS_REMEMBERED]:
                del self._last[old]
        return True
