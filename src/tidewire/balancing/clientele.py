"""Who wants what at this edge, and what covers what? Kept up to date, so that no decision begins with a look at all.

A decision works on copies: of the covering order with all that is in it, which is much less than to make it anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tidewire._kernel._native import Poset
from tidewire.model.ids import Conn

Wanted = tuple[bytes, ...]
"""The encoded filters of a client's subscriptions, in the order of their bytes; one that it has twice stands twice."""


class Clientele:
    """The clients of an edge, by what they want."""

    def __init__(self, wanted: Mapping[Conn, Wanted] | None = None) -> None:
        self._wanted: dict[Conn, Wanted] = {}
        self._alike: dict[Wanted, dict[Conn, None]] = {}
        self._come: dict[Wanted, None] = {}
        self._gone: list[Wanted] = []
        """What the order does not know yet, and what it has too much."""
        self._order: Poset | None = None
        self._covering: dict[bytes, None] = {}
        for client, filters in (wanted or {}).items():
            self.wants(client, filters)

    def wants(self, client: Conn, filters: Wanted) -> None:
        """This is what it wants from now on; nothing, if it has gone."""
        before = self._wanted.get(client, ())
        if filters == before:
            return
        if before:
            alike = self._alike[before]
            del alike[client], self._wanted[client]
            if not alike:
                del self._alike[before]
                if before in self._come:
                    del self._come[before]
                else:
                    self._gone.append(before)
        if filters:
            self._wanted[client] = filters
            alike = self._alike.setdefault(filters, {})
            if not alike:
                self._come[filters] = None
            alike[client] = None

    def wanted_by(self, client: Conn) -> Wanted:
        """What it wants."""
        return self._wanted.get(client, ())

    def alike(self, *, without: Collection[Conn] = ()) -> Iterator[tuple[Wanted, tuple[Conn, ...]]]:
        """Clients that want the same, together."""
        fewer = {self._wanted[client] for client in without if client in self._wanted}
        for filters, clients in self._alike.items():
            if filters not in fewer:
                yield filters, tuple(clients)
            elif left := tuple(client for client in clients if client not in without):
                yield filters, left

    # -- the covering order --------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Bring the order up to date: little by little this costs nobody a pause."""
        if self._order is None:
            self._order = Poset(0)
            self._order.changes()
        if not (self._come or self._gone):
            return
        come, self._come = self._come, {}
        gone, self._gone = self._gone, []
        self._order.insert([one for filters in come for one in filters])
        self._order.forget([one for filters in gone for one in filters])
        risen, sunk = self._order.changes()
        for one in sunk:
            del self._covering[one]
        self._covering |= dict.fromkeys(risen)

    def covering(self) -> Mapping[bytes, None]:
        """The filters that no other one covers."""
        self.settle()
        return self._covering

    def order(self) -> Poset:
        """A copy of the covering order: each filter was inserted once for each distinct want that it is part of."""
        self.settle()
        assert self._order is not None
        return self._order.copy()
