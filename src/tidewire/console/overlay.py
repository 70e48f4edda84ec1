"""The network as it is: brokers asked one by one, neighbours found from what they say, rates from two looks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import time
from typing import Final

import msgspec

from tidewire.broker.status import BrokerStatus, NeighbourStatus
from tidewire.console.documents import BrokerDocument, LinkDocument, OverlayDocument, Rates, load_document
from tidewire.console.network import Network
from tidewire.live.credentials import Credentials
from tidewire.model.errors import NotAuthenticated, NotPermitted, TidewireError, Unavailable
from tidewire.model.messages import Member

LOOK_EVERY_S: Final = 1.0
REMEMBER_S: Final = 300.0
"""A broker that has ended without leaving is shown as unreachable for so long; its neighbours forget it at once."""
BROKERS_MAX: Final = 1000
_AT_ONCE: Final = 32
WATCHES_MAX: Final = 64
"""Identities whose last look is remembered."""


class Look(msgspec.Struct, frozen=True):
    """What the brokers said at one moment."""

    at_s: float
    """On the loop's clock."""
    unix_s: float
    statuses: dict[str, BrokerStatus]
    """By the broker's name."""
    unreachable: dict[str, str]
    """Addresses that did not answer, and the brokers that should be there; their address if nobody knows."""


class Watch:
    """The network as one identity may see it; looked at once a second at most, whoever asks."""

    def __init__(self, network: Network, credentials: Credentials) -> None:
        self._network = network
        self._credentials = credentials
        self._lock = asyncio.Lock()
        self._last: Look | None = None
        self._before: Look | None = None
        self._answered: dict[str, tuple[str, float]] = {}
        """By address: who answered there, and when it last did."""

    async def look(self) -> tuple[Look, Look | None]:
        """The last look, and the one before it."""
        async with self._lock:
            now_s = asyncio.get_running_loop().time()
            if self._last is None or now_s - self._last.at_s >= LOOK_EVERY_S * 0.95:
                found = await self._look(now_s)
                self._before, self._last = self._last, found
            return self._last, self._before

    async def _look(self, now_s: float) -> Look:
        members = await self._members()
        written = self._network.written
        names = {address: name for address, (name, _) in self._answered.items()}
        names |= {one.address: str(one.broker) for one in members}
        wanted = dict.fromkeys([*self._network.brokers, *(one.address for one in members if one.is_alive)])
        wanted |= dict.fromkeys(address for address, (_, at_s) in self._answered.items() if now_s - at_s < REMEMBER_S)
        statuses: dict[str, BrokerStatus] = {}
        failed: dict[str, TidewireError] = {}
        asked: dict[str, None] = {}
        while wanted and len(asked) < BROKERS_MAX:
            asked |= wanted
            for address, answer in await self._ask_all(wanted):
                if isinstance(answer, BrokerStatus):
                    statuses[answer.broker] = answer
                    asked[written(answer.address)] = None
                    names |= {written(one.address): one.broker for one in answer.neighbours}
                else:
                    failed[address] = answer
            known = [written(one.address) for status in statuses.values() for one in status.neighbours]
            wanted = dict.fromkeys(address for address in known if address not in asked)
        _refuse_if_nobody_speaks(statuses, failed.values())
        self._remember(statuses.values(), now_s)
        unreachable = {address: names.get(address, address) for address in failed if names.get(address) not in statuses}
        return Look(now_s, time(), statuses, unreachable)

    def _remember(self, statuses: Iterable[BrokerStatus], now_s: float) -> None:
        for status in statuses:
            address = self._network.written(status.address)
            if status.is_leaving:
                self._answered.pop(address, None)  # when it ends, it has left
            else:
                self._answered[address] = status.broker, now_s
        old = [address for address, (_, at_s) in self._answered.items() if now_s - at_s >= REMEMBER_S]
        for address in old:
            del self._answered[address]

    async def _members(self) -> list[Member]:
        """Whom the coordinator knows: it helps to find brokers, and may be gone."""
        try:
            return await self._network.members(self._credentials)
        except Unavailable:
            return []

    async def _ask_all(self, addresses: Iterable[str]) -> list[tuple[str, BrokerStatus | TidewireError]]:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def ask(address: str) -> tuple[str, BrokerStatus | TidewireError]:
            async with turns:
                try:
                    return address, await self._network.status(address, self._credentials)
                except TidewireError as error:
                    return address, error

        return await asyncio.gather(*(ask(address) for address in addresses))


def _refuse_if_nobody_speaks(statuses: dict[str, BrokerStatus], errors: Iterable[TidewireError]) -> None:
    """A broker that does not answer is a fact; one that will not tell this identity is an error."""
    for error in errors:
        if not statuses and isinstance(error, NotAuthenticated | NotPermitted):
            raise error


class Watches:
    """A watch for each identity that asked lately."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._watches: dict[Credentials, Watch] = {}

    def of(self, credentials: Credentials) -> Watch:
        """The watch of this identity."""
        watch = self._watches.pop(credentials, None) or Watch(self._network, credentials)
        self._watches[credentials] = watch
        while len(self._watches) > WATCHES_MAX:
            del self._watches[next(iter(self._watches))]
        return watch


def overlay_document(look: Look, before: Look | None) -> OverlayDocument:
    """Brokers and links, with what passed per second between the two looks."""
    full = {neighbour.broker: neighbour.is_full for status in look.statuses.values() for neighbour in status.neighbours}
    brokers = [
        _broker(status, _Since(look, before, name), is_full=full.get(name, False))
        for name, status in look.statuses.items()
    ]
    brokers += [
        BrokerDocument(broker=name, address=address, is_reachable=False) for address, name in look.unreachable.items()
    ]
    links = [
        _link(name, neighbour, _Since(look, before, name))
        for name, status in look.statuses.items()
        for neighbour in status.neighbours
    ]
    return OverlayDocument(at=look.unix_s, brokers=sorted(brokers, key=lambda one: one.broker), links=links)


class _Since:
    """What passed at one broker between two looks."""

    def __init__(self, look: Look, before: Look | None, broker: str) -> None:
        self.before = None if before is None else before.statuses.get(broker)
        self._seconds = 0.0 if before is None else look.at_s - before.at_s

    def per_s(self, now: float, before: float) -> float:
        """None passed if the broker has begun anew."""
        return max(0.0, now - before) / self._seconds if self._seconds else 0.0

    def neighbour(self, broker: str) -> NeighbourStatus | None:
        known = [] if self.before is None else self.before.neighbours
        return next((one for one in known if one.broker == broker), None)


def _broker(status: BrokerStatus, since: _Since, *, is_full: bool) -> BrokerDocument:
    rates = None
    if since.before is not None:
        rates = Rates(
            events_per_s=since.per_s(status.events, since.before.events),
            deliveries_per_s=since.per_s(status.deliveries, since.before.deliveries),
            forwards_per_s=since.per_s(status.forwards, since.before.forwards),
            bytes_in_per_s=0.0 if status.load is None else status.load.input_bytes_s,
            bytes_out_per_s=0.0 if status.load is None else status.load.output_bytes_s,
        )
    return BrokerDocument(
        broker=status.broker,
        address=status.address,
        is_reachable=True,
        role=status.role,
        is_leaving=status.is_leaving,
        is_full=is_full,
        clients=status.clients,
        publishers=status.publishers,
        subscribers=status.subscribers,
        routes=status.routes,
        rates=rates,
        load=load_document(status.load),
    )


def _link(broker: str, to: NeighbourStatus, since: _Since) -> LinkDocument:
    before = since.neighbour(to.broker) or to
    return LinkDocument(
        sender=broker,
        receiver=to.broker,
        events_per_s=since.per_s(to.events_out, before.events_out),
        bytes_per_s=since.per_s(to.bytes_out, before.bytes_out),
        queued_bytes=to.queued_bytes,
    )
