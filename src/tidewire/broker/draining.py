"""Operators who want a broker to be left by all its clients, and wait until it is."""

from __future__ import annotations

from collections.abc import Iterator

from tidewire.broker.clients import Clients
from tidewire.broker.effects import Effect, Note
from tidewire.broker.links import Links
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import Done, Refused, Use
from tidewire.wire.connections import Send


class Draining:
    """Of one broker."""

    def __init__(self, links: Links, clients: Clients) -> None:
        self._links = links
        self._clients = clients
        self._waiting: list[tuple[Conn, int]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def begin(self, conn: Conn, request: int, *, broker: str, operator: str) -> list[Effect]:
        """An operator, who may, asks for it."""
        count = len(self._clients)
        self._links.is_leaving = True
        if count and not self._links.refuges():
            self._links.is_leaving = False
            reason = f"{broker} has no neighbour that could take its {count} clients"
            return [Send(conn, Refused(request, "unavailable", reason))]
        self._waiting.append((conn, request))
        return [Note("draining", {"clients": count, "by": operator})]

    def gone(self, conn: Conn) -> None:
        """This operator waits no longer."""
        self._waiting = [one for one in self._waiting if one[0] != conn]

    def settle(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """Move those that belong elsewhere (peer A3); while draining, all."""
        uses: tuple[Use, ...] = ("publish", "subscribe")
        links, clients, refuges = self._links, self._clients, self._links.refuges()
        for conn in clients.idle() if refuges else []:
            to = refuges[0]
            yield from clients.move(conn, "subscribe", broker=to.broker, address=to.address, now_ns=now_ns)
        for use in uses:
            if not refuges and not links.hosts(use):
                continue
            for conn in clients.using(use):
                found = links.hosts(use) or refuges
                yield from clients.move(conn, use, broker=found[0].broker, address=found[0].address, now_ns=now_ns)

    def done(self) -> Iterator[Effect]:
        """Whoever waits is told, once the last client has gone."""
        if self._waiting and not len(self._clients):
            yield from (Send(conn, Done(request)) for conn, request in self._waiting)
            self._waiting = []
