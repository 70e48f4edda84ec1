"""A workload file, played: what each broker had to do, what each subscriber got, and whether all went well."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidewire.simulator.checkers import check
from tidewire.simulator.workloads import Workload
from tidewire.simulator.world import World


class PlayedBroker(msgspec.Struct, frozen=True, kw_only=True):
    """One broker in the end, and over the whole time."""

    broker: str
    role: str
    subscriptions: int
    """In its own index and in its routes."""

    events: int
    deliveries: int
    forwards: int
    cpu_busy: float
    """Share of the time."""

    output_busy: float | None
    """Share of its output bandwidth; None: it has no bound."""

    queued_bytes: int


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    simulated_s: float
    engine: str
    events: int
    deliveries: int
    brokers: list[PlayedBroker]
    received: dict[str, int]
    """By subscriber."""

    violations: list[str]


def play_workload(
    text: str,
    *,
    seconds: float,
    engine: str = "kernel",
    seed: int = 0,
    on_second: Callable[[float], object] = lambda _now_s: None,
) -> Played:
    """Play this file for so many seconds of its own time."""
    world = World(seed, engine=engine)
    Workload(text, world)
    while world.agenda.now_s < seconds:
        world.run(min(1.0, seconds - world.agenda.now_s))
        on_second(world.agenda.now_s)
    subscribers = {name: client for name, client in world.clients.items() if client.spans}
    received = {name: sum(one.count for one in client.receipts) for name, client in subscribers.items()}
    return Played(
        simulated_s=seconds,
        engine=engine,
        events=world.publications.events,
        deliveries=sum(received.values()),
        brokers=[_broker(world, name) for name in world.brokers],
        received=received,
        violations=check(world),
    )


def _broker(world: World, name: str) -> PlayedBroker:
    host, uplink = world.brokers[name], world.network.uplinks.get(name)
    assert host.node is not None  # nobody ends it
    work = host.node.engine.work()
    elapsed_ns = world.agenda.now_ns
    return PlayedBroker(
        broker=name,
        role=host.node.core.links.role,
        subscriptions=work.subscriptions,
        events=work.events,
        deliveries=work.deliveries,
        forwards=work.forwards,
        cpu_busy=min(1.0, host.busy_ns / elapsed_ns),
        output_busy=None if uplink is None else min(1.0, uplink.busy_ns / elapsed_ns),
        queued_bytes=host.node.queued_bytes(),
    )
