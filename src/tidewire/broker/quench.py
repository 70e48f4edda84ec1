"""Who publishes what nobody wants? It is told so, and makes no message of it; and is told again when somebody does.

A confirmed subscription misses no event that is published later. So the source of a tree turns no sync around, and
confirms no subscription of its own clients, before every publisher that was told to be silent, and is wanted now, has
said that it knows. Who does not say so in time is ended: when it comes again it knows nothing of silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tidewire.broker.effects import Note, Step
from tidewire.matching.covering import overlaps
from tidewire.model.filters import decode_filter
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.model.messages import ANYTHING, Bye
from tidewire.model.shortage_messages import FLOWS_MAX, Quench
from tidewire.routing.router import Router
from tidewire.wire.connections import Close, Send

LOOKS_MAX: Final = 200_000
"""So many filters are compared in one period; the rest has its turn in the next."""


class _Witness(msgspec.Struct, frozen=True):
    """Somebody who wants something that is advertised."""

    conn: Conn
    number: int
    wanted: bytes
    is_route: bool


class _Awaited(msgspec.Struct, frozen=True):
    """A publisher that is to say that it speaks again."""

    token: int
    until_ns: int


class Quenches:
    """The publishers of one broker that were told to be silent."""

    def __init__(self, router: Router, own_tree: TreeId, *, ack_s: float) -> None:
        self._router = router
        self._own = own_tree
        self._ack_ns = int(ack_s * 1e9)
        self._tokens = 0
        self._told: dict[Conn, dict[int, bytes]] = {}
        """Advertisements that nobody wants, and whose publisher knows it."""
        self._awaited: dict[Conn, _Awaited] = {}
        self._witnesses: dict[Conn, dict[int, tuple[bytes, _Witness]]] = {}
        """By publisher and advertisement: as long as this one is there, somebody wants it."""
        self.ended = 0
        """Publishers that did not say in time that they speak again."""

    @property
    def count(self) -> int:
        """How many advertisements are unwanted, and their publishers know?"""
        return sum(len(numbers) for numbers in self._told.values())

    def deadline_ns(self) -> int | None:
        """When somebody should have answered."""
        return min((one.until_ns for one in self._awaited.values()), default=None)

    def look(self, conns: Iterable[Conn]) -> Iterator[Step]:
        """Who of these publishes what nobody wants, and does not know it?"""
        looks = LOOKS_MAX
        for conn in conns:
            fresh: list[int] = []
            for number, advertised in self._router.advertisements(conn).items():
                if self._told.get(conn, {}).get(number) == advertised or self._has_witness(conn, number, advertised):
                    continue
                found, cost = self._search(advertised, looks)
                looks -= cost
                if found is not None:
                    self._witnesses.setdefault(conn, {})[number] = advertised, found
                else:
                    fresh.append(number)
                    self._told.setdefault(conn, {})[number] = advertised
            if fresh:
                self._tokens += 1
                yield from (
                    Send(conn, Quench(self._tokens, fresh[at : at + FLOWS_MAX], []), "control")
                    for at in range(0, len(fresh), FLOWS_MAX)
                )
            if looks <= 0:
                return

    def widened(self, filters: Iterable[bytes], *, now_ns: Nanoseconds) -> Iterator[Step]:
        """Somebody wants these: publishers that were silent are told, and syncs wait until they have said so."""
        if not self._told:
            return
        wanted = list(filters)
        for conn, told in list(self._told.items()):
            numbers = [number for number, advertised in told.items() if _may_match(advertised, wanted)]
            for number in numbers:
                del told[number]
            if not told:
                del self._told[conn]
            if numbers:
                self._tokens += 1
                self._awaited[conn] = _Awaited(self._tokens, now_ns + self._ack_ns)
                self._router.hold_syncs()
                yield Send(conn, Quench(self._tokens, [], numbers), "control")

    def heard(self, conn: Conn, token: int) -> Iterator[Step]:
        """A publisher knows."""
        awaited = self._awaited.get(conn)
        if awaited is not None and awaited.token == token:
            yield from self._no_longer_awaited(conn)

    def gone(self, conn: Conn) -> Iterator[Step]:
        """A client has ended, or publishes no longer here."""
        self._told.pop(conn, None)
        self._witnesses.pop(conn, None)
        yield from self._no_longer_awaited(conn)

    def overdue(self, *, now_ns: Nanoseconds) -> Iterator[Step]:
        """Who has not answered in time is ended: nobody waits for ever."""
        for conn, awaited in list(self._awaited.items()):
            if now_ns < awaited.until_ns:
                continue
            self.ended += 1
            bye = Bye("silent", "you were told that somebody wants what you publish, and did not answer in time", 0.5)
            yield Send(conn, bye, "control")
            yield Close(conn)
            yield Note("publisher did not speak again in time", {"seconds": self._ack_ns / 1e9})
            yield from self._no_longer_awaited(conn)

    def _no_longer_awaited(self, conn: Conn) -> Iterator[Step]:
        if self._awaited.pop(conn, None) is not None and not self._awaited:
            yield from self._router.let_syncs_go()

    # -- who wants it --------------------------------------------------------------------------------------------------

    def _has_witness(self, conn: Conn, number: int, advertised: bytes) -> bool:
        known = self._witnesses.get(conn, {}).get(number)
        if known is None or known[0] != advertised:
            return False
        witness = known[1]
        if witness.is_route:
            branch = self._router.branch(self._own)
            there = {} if branch is None else branch.routes.get(witness.conn, {})
        else:
            there = self._router.subscriptions(witness.conn)
        if there.get(witness.number) == witness.wanted:
            return True
        del self._witnesses[conn][number]
        return False

    def _search(self, advertised: bytes, most: int) -> tuple[_Witness | None, int]:
        """Somebody who wants it, and how many were asked; after so many, nobody is found, and none are left."""
        looked = 0
        for witness in self._all_wanted():
            looked += 1
            if _may_match(advertised, [witness.wanted]):
                return witness, looked
            if looked >= most:
                return witness, looked  # it counts as wanted until there is time to look at all
        return None, looked

    def _all_wanted(self) -> Iterator[_Witness]:
        branch = self._router.branch(self._own)
        for link, routes in () if branch is None else branch.routes.items():
            yield from (_Witness(link, number, wanted, True) for number, wanted in routes.items())
        for conn in self._router.subscribers():
            yield from (
                _Witness(conn, number, wanted, False) for number, wanted in self._router.subscriptions(conn).items()
            )


def _may_match(advertised: bytes, filters: Iterable[bytes]) -> bool:
    if advertised == ANYTHING:
        return any(True for _ in filters)
    offered = decode_filter(advertised)
    return any(overlaps(decode_filter(wanted), offered) for wanted in filters)
