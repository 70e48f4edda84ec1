"""The network as it is, for whoever asks: one look a second for each identity, shared by all its requests."""

from __future__ import annotations

import asyncio
from typing import Final

from tidewire.broker.decisions import Decision
from tidewire.console.documents import (
    BrokerDocument,
    DecisionDocument,
    DecisionsDocument,
    LinkDocument,
    LoadsDocument,
    OverlayDocument,
    Rates,
    load_document,
)
from tidewire.console.network import LOOK_S, Network
from tidewire.live.credentials import Credentials
from tidewire.live.survey import Surveyor
from tidewire.model.errors import NotAuthenticated, NotPermitted, error_of
from tidewire.observe.network import UNREACHABLE, Answered, BrokerState
from tidewire.observe.network import Network as Look

LOOK_EVERY_S: Final = 1.0
WATCHES_MAX: Final = 64
"""Identities whose last look is remembered."""


class Watch:
    """The network as one identity may see it; looked at once a second at most, whoever asks."""

    def __init__(self, network: Network, credentials: Credentials) -> None:
        self._network = network
        self._credentials = credentials
        self._lock = asyncio.Lock()
        self._surveyor: Surveyor | None = None
        self._last: tuple[float, Look] | None = None

    async def look(self) -> Look:
        """The last look; NotAuthenticated or NotPermitted if no broker would say anything to this identity."""
        async with self._lock:
            now_s = asyncio.get_running_loop().time()
            if self._last is None or now_s - self._last[0] >= LOOK_EVERY_S * 0.95:
                self._last = now_s, await self._look()
            look = self._last[1]
        refused = [one for one in look.silent if one.code in (NotAuthenticated.code, NotPermitted.code)]
        if refused and not look.brokers:
            raise error_of(refused[0].code, refused[0].reason)
        return look

    async def _look(self) -> Look:
        if self._surveyor is None:
            brokers = await self._network.addresses(self._credentials)
            self._surveyor = Surveyor(brokers, seconds=LOOK_S, credentials=self._credentials)
        look = await self._surveyor.look()
        if not look.brokers:
            self._surveyor = None  # others may be there next time
        return look


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


def overlay_document(look: Look) -> OverlayDocument:
    """Brokers and links, with what passed per second since the look before."""
    full = {one.broker: one.is_full for answered in look.brokers for one in answered.status.neighbours}
    states = look.states()
    brokers = [
        _broker(one, states[one.status.broker], is_full=full.get(one.status.broker, False)) for one in look.brokers
    ]
    brokers += [
        BrokerDocument(broker=one.broker or one.address, address=one.address, state=UNREACHABLE, is_reachable=False)
        for one in look.silent
    ]
    links = [link for one in look.brokers for link in _links(one)]
    return OverlayDocument(at=look.at_unix_s, brokers=sorted(brokers, key=lambda one: one.broker), links=links)


def _broker(answered: Answered, state: BrokerState, *, is_full: bool) -> BrokerDocument:
    status, rates = answered.status, answered.rates
    return BrokerDocument(
        broker=status.broker,
        address=status.address,
        state=state,
        is_reachable=True,
        role=status.role,
        is_leaving=status.is_leaving,
        is_full=is_full,
        clients=status.clients,
        publishers=status.publishers,
        subscribers=status.subscribers,
        routes=status.routes,
        rates=None
        if rates is None
        else Rates(
            events_per_s=rates.events_s,
            deliveries_per_s=rates.deliveries_s,
            forwards_per_s=rates.forwards_s,
            bytes_in_per_s=rates.bytes_in_s,
            bytes_out_per_s=rates.bytes_out_s,
        ),
        load=load_document(status.load),
    )


def _links(answered: Answered) -> list[LinkDocument]:
    """Those that begin here."""
    rates = {} if answered.rates is None else {one.neighbour: one for one in answered.rates.links}
    return [
        LinkDocument(
            sender=answered.status.broker,
            receiver=to.broker,
            events_per_s=rates[to.broker].events_out_s if to.broker in rates else 0.0,
            bytes_per_s=rates[to.broker].bytes_out_s if to.broker in rates else 0.0,
            queued_bytes=to.queued_bytes,
        )
        for to in answered.status.neighbours
    ]


def loads_document(look: Look) -> LoadsDocument:
    """The load indices, by broker."""
    return LoadsDocument(
        at=look.at_unix_s, loads={one.status.broker: load_document(one.status.load) for one in look.brokers}
    )


def decisions_document(look: Look, *, since: float) -> DecisionsDocument:
    """What all brokers decided, in the order of time, after this moment."""
    found = [
        DecisionDocument(
            at=_when(one, look), broker=answered.status.broker, what=one.what, times=one.times, facts=one.facts
        )
        for answered in look.brokers
        for one in answered.status.decisions
        if _when(one, look) > since
    ]
    return DecisionsDocument(at=look.at_unix_s, decisions=sorted(found, key=lambda one: one.at))


def _when(decision: Decision, look: Look) -> float:
    return look.at_unix_s - decision.age_s if decision.at_unix_s is None else decision.at_unix_s
