"""Do rates say what brokers do? One small run of bursts, over rates and with brokers, event by event.

Both run the same agents. Brokers measure and sample what comes; what they find in it is compared with what rates say:
utilisations in each part of the run, who is moved where, and what is delivered.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf
from random import Random
from statistics import fmean
from typing import Final

import msgspec

from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.drd.policies import policy
from tidewire.model.ids import Nanoseconds
from tidewire.papers.epeer.workload import BURST, HEAD, Workload, surplus
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.costs import Peer, Steady
from tidewire.simulator.rate_drd import RateDrd
from tidewire.simulator.rate_moves import Moves
from tidewire.simulator.rates import Rates, Traffic
from tidewire.simulator.world import World
from tidewire.traffic.config import ClassConfig, TrafficConfig

CLASSES: Final = 40
SHRINK: Final = 100.0
"""So many times less of everything: brokers that match about 250 events a second."""

BURSTS_S: Final = (10, 22)
END_S: Final = 34
SETTLE_S: Final = 4
"""So long after a burst it is not looked at: then it is being answered."""

BEGIN_S: Final = 5
"""With brokers: until then all connect."""

FRAME_BYTES: Final = 115
"""What an event takes on the wire beside its body, with what its broker stamps on it, about."""


SEED: Final = 13
"""With it there is one offload after each burst."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    matching: list[dict[str, float]]
    """Of each edge, before the bursts, after the first, after both: of what it can match."""

    offloads: list[tuple[str, str, str]]
    """Donor, class, acceptor; in the order of time, and of names where they went together."""

    offload_times_s: list[float]
    deliveries: float
    output_bytes: float
    """What the edges sent, all together."""

    lines: dict[str, list[float]]
    """Of each edge, second by second."""

    @property
    def last_hosts(self) -> dict[str, str]:
        """Where each class that was moved ended."""
        return {name: to for _, name, to in self.offloads}


class Apart(msgspec.Struct, frozen=True, kw_only=True):
    """How far rates and brokers differ."""

    matching: float
    """The largest difference of utilisations, of any edge in any part of the run."""
    deliveries: float
    output_bytes: float
    """Shares of what brokers did."""
    moves_s: float
    """Of the times of the same offload, at most; infinite: they are not the same."""


def apart(rates: Seen, brokers: Seen) -> Apart:
    """Hold them against each other."""
    utilisations = [
        abs(one[edge] - other[edge])
        for one, other in zip(rates.matching, brokers.matching, strict=True)
        for edge in one
    ]
    times = zip(rates.offload_times_s, brokers.offload_times_s, strict=False)
    return Apart(
        matching=max(utilisations),
        deliveries=abs(rates.deliveries / brokers.deliveries - 1),
        output_bytes=abs(rates.output_bytes / brokers.output_bytes - 1),
        moves_s=max((abs(one - other) for one, other in times), default=0.0)
        if rates.offloads == brokers.offloads
        else inf,
    )


def work_of(seed: int, *, shrink: float = SHRINK) -> Workload:
    """The workload of both: that of the experiments, smaller and with bursts sooner."""
    work = surplus(seed, classes=CLASSES, shrink=shrink)
    bursts = tuple(msgspec.structs.replace(one, at_s=at_s) for one, at_s in zip(work.bursts, BURSTS_S, strict=True))
    return msgspec.structs.replace(work, bursts=bursts)


def _parts() -> list[range]:
    begins = [0, *(at_s + SETTLE_S for at_s in BURSTS_S)]
    return [range(begin + 2, end) for begin, end in zip(begins, [*BURSTS_S, END_S], strict=True)]


def _seen(
    lines: dict[str, list[float]],
    offloads: list[tuple[float, str, str, str]],
    *,
    deliveries: float,
    output_bytes: float,
) -> Seen:
    ordered = sorted(offloads)
    return Seen(
        matching=[{edge: fmean(values[at - 1] for at in part) for edge, values in lines.items()} for part in _parts()],
        offloads=[(donor, name, to) for _, donor, name, to in ordered],
        offload_times_s=[at_s for at_s, *_ in ordered],
        deliveries=deliveries,
        output_bytes=output_bytes,
        lines=lines,
    )


# -- over rates --------------------------------------------------------------------------------------------------------


def placed(work: Workload) -> list[str]:
    """Where each class begins: as the head places them, one after the other."""
    rates = Rates(HEAD, work.machines, work.traffic, chance=Random(0))
    cluster = RateDrd(rates, Moves(rates, Random(0)), policy("drd", DrdConfig(), chance=Random(0)))
    found = []
    for number in range(len(work.traffic)):
        now_ns = Nanoseconds((number + 1) * 1_000_000_000)
        found.append(cluster.place(number, now_ns=now_ns))
        rates.join(number, found[-1])
        rates.advance()
        cluster.second(now_ns)
    return found


def by_rates(work: Workload) -> Seen:
    """As the experiments do it, without noise."""
    rates = Rates(HEAD, work.machines, work.traffic, chance=Random(0))
    moves = Moves(rates, Random(0))
    cluster = RateDrd(rates, moves, policy("drd", DrdConfig(), chance=Random(0)))
    for number, edge in enumerate(placed(work)):
        rates.join(number, edge)
    lines: dict[str, list[float]] = {edge: [] for edge in rates.edges}
    offloads: list[tuple[float, str, str, str]] = []
    deliveries = output_bytes = 0.0
    for second in range(1, END_S + 1):
        for burst in work.bursts:
            if burst.at_s == second:
                for number in burst.classes:
                    rates.factor[number] = BURST
        before = {one.key: dict(hosts) for one, hosts in zip(rates.traffic, rates.hosts, strict=True)}
        moves.run(Nanoseconds(second * 1_000_000_000))
        offloads += _moved(rates, before, second)
        rates.advance()
        cluster.second(Nanoseconds(second * 1_000_000_000))
        for edge, used in rates.utilisations().items():
            if edge != HEAD:
                lines[edge].append(used[2])
        counts = [len(one.subscribers) for one in rates.traffic]
        deliveries += sum(events * count for events, count in zip(rates.events, counts, strict=True))
        output_bytes += sum(size * count for size, count in zip(rates.bytes, counts, strict=True))
    return _seen(lines, offloads, deliveries=deliveries, output_bytes=output_bytes)


def _moved(
    rates: Rates, before: dict[str, dict[str, dict[str, None]]], second: int
) -> list[tuple[float, str, str, str]]:
    found = []
    for one, hosts in zip(rates.traffic, rates.hosts, strict=True):
        was = before[one.key]
        if list(was) != list(hosts):
            found.append((float(second), next(iter(was)), one.key, next(iter(hosts))))
    return found


# -- with brokers ------------------------------------------------------------------------------------------------------


def by_brokers(work: Workload) -> Seen:
    """With a head and edges that measure, sample, agree and move their clients, event by event."""
    world = World(work.seed, engine="kernel")
    classes = [ClassConfig(name=one.key, filter=f"class = '{one.key}'", delay_s=one.delay_s) for one in work.traffic]
    for name, machine in work.machines.items():
        world.add_broker(
            name,
            role="head" if name == HEAD else "edge",
            costs=Peer(mhz=1e12) if name == HEAD else Steady(events_s=machine.matches_s),
            balancing="drd",
            traffic=TrafficConfig(classes=classes),
            matching_events_s=machine.matches_s,
            input_bytes_s=machine.input_bytes_s,
            output_bytes_s=machine.output_bytes_s,
            heartbeat_s=1000.0,
        )
        if name != HEAD:
            world.link(name, HEAD)
    world.run(2)
    began = _Publishing(world, work)
    subscribers: dict[str, ClientHost] = {}
    for one, edge in zip(work.traffic, placed(work), strict=True):
        for name in one.subscribers:
            subscribers[name] = world.add_client(name, edge)
            subscribers[name].subscribe(1, f"class = '{one.key}'")
    world.run(BEGIN_S - world.agenda.now_s)
    began.start()
    edges = [name for name in work.machines if name != HEAD]
    lines: dict[str, list[float]] = {edge: [] for edge in edges}
    done = dict.fromkeys(edges, 0)
    for _ in range(END_S):
        world.run(1.0)
        for edge in edges:
            node = world.brokers[edge].node
            assert node is not None
            events = node.engine.work().events
            lines[edge].append((events - done[edge]) / work.machines[edge].matches_s)
            done[edge] = events
    world.drain(seconds_max=60.0)
    offloads = _served(work, subscribers)
    deliveries = sum(len(one.receipts) for one in subscribers.values())
    sent = [host.node.engine.totals().bytes_out for name, host in world.brokers.items() if name != HEAD and host.node]
    return _seen(lines, offloads, deliveries=float(deliveries), output_bytes=float(sum(sent)))


def _served(work: Workload, subscribers: dict[str, ClientHost]) -> list[tuple[float, str, str, str]]:
    """By whom each class was served, one broker after the other."""
    found: dict[tuple[str, str, str], float] = {}
    for one in work.traffic:
        for name in one.subscribers:
            served = subscribers[name].served
            for (_, donor), (at_ns, to) in pairwise(served):
                if donor != to:
                    found.setdefault((donor, one.key, to), round(at_ns / 1e9 - BEGIN_S, 3))
    return [(at_s, donor, key, to) for (donor, key, to), at_s in found.items()]


class _Publishing:
    """Each publisher publishes evenly, from some moment of its first interval on."""

    def __init__(self, world: World, work: Workload) -> None:
        self._world, self._work = world, work
        self._chance = Random(f"epeer/phases/{work.seed}")
        self._clients = [world.add_client(f"p{one.key}", HEAD) for one in work.traffic]
        for client in self._clients:
            client.advertise(1)

    def start(self) -> None:
        """From now on, until the end."""
        began_s = self._world.agenda.now_s
        for number, one in enumerate(self._work.traffic):
            for source in one.sources:
                self._beat(number, one, source.events_s, source.event_bytes, began_s)

    def _beat(self, number: int, traffic: Traffic, events_s: float, event_bytes: int, began_s: float) -> None:
        world = self._world
        bursts = [burst.at_s for burst in self._work.bursts if number in burst.classes]
        body = "x" * max(1, event_bytes - FRAME_BYTES)

        def send() -> None:
            at_s = world.agenda.now_s - began_s
            if at_s >= END_S:
                return
            self._clients[number].publish({"class": traffic.key, "body": body})
            # the second with number n is over at n: a burst that begins with it begins when the one before is over
            factor = BURST if any(at_s >= burst - 1 for burst in bursts) else 1.0
            world.at(world.agenda.now_s + 1 / (events_s * factor), send)

        world.at(began_s + self._chance.random() / events_s, send)
