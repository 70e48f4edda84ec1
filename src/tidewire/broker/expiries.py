"""Who may stay until when? Ordered by time, so that a crowd costs nothing while nobody's time is over."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from tidewire.model.ids import Conn

_STALE_MIN: Final = 64
"""Entries of those who have gone are cleared away when there are more of them than of the others, and than this."""


class Expiries:
    """The times at which connections expire. Seconds of 1970."""

    def __init__(self) -> None:
        self._until_s: dict[Conn, float] = {}
        self._heap: list[tuple[float, Conn]] = []
        """Also of those who have gone: an entry counts if the time is still that connection's."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, conn: Conn, until_s: float) -> None:
        """It may stay until then."""
        self._until_s[conn] = until_s
        heappush(self._heap, (until_s, conn))

    def remove(self, conn: Conn) -> None:
        """It has gone, if it was here."""
        self._until_s.pop(conn, None)
        if len(self._heap) > 2 * len(self._until_s) + _STALE_MIN:
            self._heap = [(until_s, conn) for conn, until_s in self._until_s.items()]
            heapify(self._heap)

    def due(self, unix_s: float) -> list[Conn]:
        """Those whose time is over, the earliest first; each is said once."""
        found: list[Conn] = []
        while self._heap and self._heap[0][0] <= unix_s:
            until_s, conn = heappop(self._heap)
            if self._until_s.get(conn) == until_s:
                del self._until_s[conn]
                found.append(conn)
        return found
