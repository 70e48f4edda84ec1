"""Whose turn is it to be pinged? There may be very many clients: some with every beat, nobody forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from tidewire.model.ids import Conn, Nanoseconds

PINGS_AT_ONCE: Final = 64
"""Of those who publish, everybody is pinged with every heartbeat, so many at a time: their clocks matter. Of those who
only listen so many are with every heartbeat: they ping us."""


class Turns:
    """Of those who have advertised something, and of the others."""

    def __init__(self, *, heartbeat_s: float) -> None:
        self._heartbeat_ns = int(heartbeat_s * 1e9)
        self._publishing: dict[Conn, None] = {}
        self._listening: dict[Conn, None] = {}
        self._next_round_ns = Nanoseconds(0)
        self.next_ns = Nanoseconds(0)
        """When the next of them are due."""

    def came(self, conn: Conn) -> None:
        """A client; it publishes nothing yet."""
        self._listening[conn] = None

    def gone(self, conn: Conn) -> None:
        """It has ended."""
        self._listening.pop(conn, None)
        self._publishing.pop(conn, None)

    def publishes(self, conn: Conn) -> None:
        """It has advertised something."""
        self._listening.pop(conn, None)
        self._publishing[conn] = None

    def publishes_no_more(self, conn: Conn) -> None:
        """It has advertised nothing any more."""
        if conn in self._publishing:
            del self._publishing[conn]
            self._listening[conn] = None

    def publishing(self) -> list[Conn]:
        """Those who have advertised something."""
        return list(self._publishing)

    def begins_round(self, now_ns: Nanoseconds) -> bool:
        """Has a heartbeat gone by since this was last true?"""
        if now_ns < self._next_round_ns:
            return False
        self._next_round_ns = Nanoseconds(now_ns + self._heartbeat_ns)
        return True

    def due(self, now_ns: Nanoseconds) -> Iterator[Conn]:
        """Whom to ping now."""
        steps = max(1, -(-len(self._publishing) // PINGS_AT_ONCE))
        self.next_ns = Nanoseconds(now_ns + self._heartbeat_ns // steps)
        yield from _first(self._publishing, PINGS_AT_ONCE)
        yield from _first(self._listening, -(-PINGS_AT_ONCE // steps))


def _first(turns: dict[Conn, None], count: int) -> list[Conn]:
    """Those whose turn it is; then they stand behind all others."""
    found = list(islice(turns, count))
    for conn in found:
        turns[conn] = turns.pop(conn)
    return found
