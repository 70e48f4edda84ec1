"""Connections that have not said who they are. Each has a bounded time, all of them have a bounded number.

A newcomer is never refused for the guests that are there. If there are too many, one of them has to go: the oldest from
the place that most of them are from. So those who open connections and say nothing push out each other, and somebody
from elsewhere has all the time that there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import msgspec

from tidewire.model.ids import Conn, Nanoseconds


class _Guest(msgspec.Struct, frozen=True):
    place: str
    until_ns: int


class Guests:
    """All of them, the oldest first: they all may take the same time."""

    def __init__(self, *, most: int, patience_ns: int) -> None:
        self._most = most
        self._patience_ns = patience_ns
        self._guests: dict[Conn, _Guest] = {}
        self._places: dict[str, dict[Conn, None]] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def __contains__(self, conn: Conn) -> bool:
        return conn in self._guests

    def __iter__(self) -> Iterator[Conn]:
        return iter(self._guests)

    def come(self, conn: Conn, place: str, now_ns: Nanoseconds) -> Conn | None:
        """One more, from there. Who has to go for it?"""
        leaves = self.make_room() if len(self._guests) >= self._most else None
        self._guests[conn] = _Guest(place, now_ns + self._patience_ns)
        self._places.setdefault(place, {})[conn] = None
        return leaves

    def make_room(self) -> Conn | None:
        """Who has to go, if there is anybody? It is no longer a guest."""
        crowd = max(self._places.values(), key=len, default=None)
        if crowd is None:
            return None
        leaves = next(iter(crowd))
        self.leave(leaves)
        return leaves

    def leave(self, conn: Conn) -> None:
        """It has said who it is, or has ended; nothing if it was none of them."""
        guest = self._guests.pop(conn, None)
        if guest is None:
            return
        there = self._places[guest.place]
        del there[conn]
        if not there:
            del self._places[guest.place]

    def overdue(self, now_ns: Nanoseconds) -> list[Conn]:
        """Those whose time is over. They are no longer guests."""
        found = [conn for conn, _ in takewhile(lambda one: now_ns >= one[1].until_ns, self._guests.items())]
        for conn in found:
            self.leave(conn)
        return found

    def deadline_ns(self) -> int | None:
        """When the oldest one's time is over."""
        return next((guest.until_ns for guest in self._guests.values()), None)
