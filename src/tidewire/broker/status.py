"""How a broker is, for people and scripts: one document, made on demand."""

from __future__ import annotations

import msgspec

from tidewire.balancing.load import Load
from tidewire.broker.core import BrokerCore
from tidewire.dataplane.protocol import Engine


class NeighbourStatus(msgspec.Struct, frozen=True):
    """A neighbour, as this broker sees it."""

    broker: str
    address: str
    role: str | None
    is_full: bool
    is_leaving: bool
    events_in: int
    events_out: int
    bytes_in: int
    bytes_out: int
    queued_bytes: int


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One broker at one moment."""

    broker: str
    address: str
    role: str
    is_leaving: bool
    clients: int
    publishers: int
    subscribers: int
    neighbours: list[NeighbourStatus]
    links_stuck: int
    """Links that have ended because nothing moved on them while somebody waited."""
    trees: int
    events: int
    deliveries: int
    forwards: int
    matches: int
    refused: int
    routes: int
    """Subscriptions in the index: those of clients, and those of neighbours by tree."""

    index_bytes: int
    busy_s: float
    load: Load | None
    """None in the first second."""


def status_of(core: BrokerCore, engine: Engine, load: Load | None) -> BrokerStatus:
    """What there is to say."""
    work = engine.work()
    neighbours = []
    for neighbour in core.links.up():
        traffic = engine.traffic(neighbour.lanes["data"])
        about = neighbour.about
        neighbours.append(
            NeighbourStatus(
                neighbour.broker,
                neighbour.address,
                None if about is None else about.role,
                about is not None and about.is_full,
                about is not None and about.is_leaving,
                traffic.events_in,
                traffic.events_out,
                traffic.bytes_in,
                traffic.bytes_out,
                traffic.queued_bytes,
            )
        )
    return BrokerStatus(
        broker=core.config.broker,
        address=core.config.address,
        role=core.links.role,
        is_leaving=core.links.is_leaving,
        clients=len(core.clients),
        publishers=len(core.clients.using("publish")),
        subscribers=len(core.clients.using("subscribe")),
        neighbours=neighbours,
        links_stuck=core.links.stuck,
        trees=core.router.tree_count(),
        events=work.events,
        deliveries=work.deliveries,
        forwards=work.forwards,
        matches=work.matches,
        refused=work.refused,
        routes=work.subscriptions,
        index_bytes=work.memory_bytes,
        busy_s=work.busy_ns / 1e9,
        load=load,
    )
