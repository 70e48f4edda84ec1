"""`tidewire bench overlay`: events across chains and trees of live brokers, with covering and without."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from tidewire.benchmarks.dialects import Step, Tidewire, quote_event
from tidewire.benchmarks.load import (
    Delays,
    Load,
    Loaded,
    Traffic,
    connected,
    connection_lines,
    median_delays,
    plan_head,
)
from tidewire.benchmarks.measure import machine
from tidewire.benchmarks.networks import BrokerNetwork, chain, tree
from tidewire.benchmarks.processes import free_port
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.language import compile_filter
from tidewire.live.operate import status_of
from tidewire.model.filters import encode_filter
from tidewire.model.messages import Done, Subscribe
from tidewire.wire.frames import message_frame, publish_frame

SHAPES: Final[dict[str, Callable[[int], list[int]]]] = {"chain": chain, "tree": tree}
FILTERS: Final = 1_000
"""Of each subscriber: one that covers all the others, which are narrower."""

PACE: Final = 1_000.0
"""Events a second while delays are measured."""

_SYMBOL: Final = "TIDE"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Which networks, and for how long."""

    sizes: Sequence[int] = (1, 2, 4, 8)
    shapes: Sequence[str] = tuple(SHAPES)
    turns: int = 7
    turn_s: float = 1.0

    def shortened(self) -> Plan:
        """The same with few and short turns."""
        return msgspec.structs.replace(self, turns=3, turn_s=0.2)


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """One network: medians over the turns, at full speed but for the delays."""

    shape: str
    brokers: int
    covering: bool
    subscribers: int
    events_per_s: float
    deliveries_per_s: float
    delay_us: Delays
    """At a thousand events a second."""

    cpu_us_per_delivery: float
    """Of all its brokers together."""

    routes: int
    """Entries in the routing tables of all its brokers; each subscriber has a thousand and one subscriptions."""

    link_bytes_before_events: int
    """That brokers have sent to each other until all was subscribed."""


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What covering saves in one network, as shares of what there is without it."""

    shape: str
    brokers: int
    routes: float
    link_bytes_before_events: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    benchmark: str
    machine: str
    turns: int
    filters_per_subscriber: int
    networks: list[Network]
    covering_saves: list[Saved]


class _Link(msgspec.Struct):
    bytes_out: int


class _Status(msgspec.Struct):
    routes: int
    neighbours: list[_Link]


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """One network after the other: a publisher at the first broker, a subscriber at each of the last."""
    found = []
    for shape in plan.shapes:
        for brokers in plan.sizes:
            for covering in (True, False):
                tell(f"{shape} of {brokers}, covering {'on' if covering else 'off'}")
                found.append(_measured(plan, shape, brokers, covering=covering))
    return Report(
        benchmark="overlay",
        machine=machine(),
        turns=plan.turns,
        filters_per_subscriber=FILTERS + 1,
        networks=found,
        covering_saves=[_saved(on, off) for on, off in zip(found[::2], found[1::2], strict=True)],
    )


def _saved(on: Network, off: Network) -> Saved:
    return Saved(
        shape=on.shape,
        brokers=on.brokers,
        routes=1 - on.routes / off.routes,
        link_bytes_before_events=1 - (on.link_bytes_before_events or 1) / (off.link_bytes_before_events or 1),
    )


def _measured(plan: Plan, shape: str, brokers: int, *, covering: bool) -> Network:
    network, port = BrokerNetwork(SHAPES[shape](brokers), covering=covering), free_port()
    network.start(port)
    try:
        ports = network.subscriber_ports(port)
        with _loaded(network, port, ports) as load:
            states = [
                msgspec.json.decode(asyncio.run(status_of(f"127.0.0.1:{one}")), type=_Status) for one in network.ports
            ]
            turns, events = [], 1_000
            for turn in range(-2, plan.turns):
                loaded = load.go(events=events, expect=events * len(ports))
                events = max(100, round(loaded.deliveries_per_s / len(ports) * plan.turn_s))
                if turn >= 0:
                    turns.append(loaded)
        with _loaded(network, port, ports, rate=PACE) as load:
            events = max(1, round(PACE * plan.turn_s))
            paced = [load.go(events=events, expect=events * len(ports)) for _ in range(plan.turns)]
    finally:
        network.stop()

    def median(of: Callable[[Loaded], float]) -> float:
        return statistics.median(of(one) for one in turns)

    return Network(
        shape=shape,
        brokers=brokers,
        covering=covering,
        subscribers=len(ports),
        events_per_s=median(lambda one: one.deliveries_per_s) / len(ports),
        deliveries_per_s=median(lambda one: one.deliveries_per_s),
        delay_us=median_delays(paced),
        cpu_us_per_delivery=median(lambda one: one.server_us_per_delivery),
        routes=sum(state.routes for state in states),
        link_bytes_before_events=sum(link.bytes_out for state in states for link in state.neighbours),
    )


@contextlib.contextmanager
def _loaded(network: BrokerNetwork, port: int, ports: Sequence[int], *, rate: float = 0.0) -> Iterator[Load]:
    dialect = Tidewire()
    head = plan_head(dialect, Traffic(events=1, idle_s=5.0, rate=rate))
    message = publish_frame(quote_event(_SYMBOL), born_ns=0)
    publish = head + connection_lines("publish", port, dialect.publisher(_SYMBOL), [message])
    subscribe = list(head)
    for one in ports:
        subscribe += connection_lines("subscribe", one, _subscriber(dialect))
    with connected(
        publish="\n".join(publish) + "\n", subscribe="\n".join(subscribe) + "\n", server_cpu_s=network.cpu_s
    ) as load:
        yield load


def _subscriber(dialect: Tidewire) -> list[Step]:
    """The wide filter first: what it covers need not travel."""
    wide = f"class = 'STOCK' and symbol = '{_SYMBOL}'"
    texts = [wide, *(f"{wide} and price > {1_000 + i}" for i in range(FILTERS))]
    filters = [encode_filter(compile_filter(text)) for text in texts]
    subscribe = Subscribe(1, list(range(len(filters))), filters)
    return [
        *dialect.hello("subscribe"),
        Step("send", message_frame(subscribe)),
        Step("await", message_frame(Done(1))),
    ]
