"""The thesis's networks in the simulator: clusters of brokers that have little CPU and bandwidth.

What is seen of a run are *looks*, one every few seconds, and what the brokers noted about their sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.model.balance_messages import Condition
from tidewire.model.notes import Note
from tidewire.papers.peer.workload import Published, Workload
from tidewire.simulator.agenda import in_ns
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.costs import Peer
from tidewire.simulator.listeners import Counts, Listener
from tidewire.simulator.world import World

LOOK_S: Final = 10.0
HEARTBEAT_S: Final = 20_000.0
"""The thesis has none: they would only be overhead. Nothing fails here."""

MEASURED_S: Final = 30.0
"""Rates are measured over this, which the thesis does not say. Its indices fluctuate by up to 0.025 (output) and 0.005
(input) at rest (peer E1i); here by 0.025 and 0.016 over this time, and by 0.068 and 0.028 over 10 s."""

ROOM_BYTES: Final = 1 << 30
"""Queues are without bound in the thesis; here the bound is never reached."""


def parameters(**others: Any) -> BalancingConfig:
    """Those of Table 5.2, but for these."""
    return BalancingConfig(load_window_s=MEASURED_S, **others)


class Machine(msgspec.Struct, frozen=True):
    """What a broker runs on (peer §9.2)."""

    mhz: float
    memory_mb: float
    mbps: float


class Cluster(msgspec.Struct, frozen=True):
    """A head and its edges."""

    head: str
    machine: Machine
    edges: Mapping[str, Machine]


class Seen(msgspec.Struct, frozen=True):
    """One edge at one look."""

    input: float
    output: float
    delay_s: float
    cpu: float
    subscribers: int
    """Also those that are on their way to another broker."""

    input_wait_s: float
    output_wait_s: float
    condition: Condition


class Look(msgspec.Struct, frozen=True):
    """The network, once in a while. What is counted is so since the look before."""

    at_s: float
    edges: dict[str, Seen]
    delivered: int
    delivery_s: float
    """From the publisher to the subscriber, on average."""

    overhead: float
    """The share of messages in all that brokers and listeners get."""


class Session(msgspec.Struct, kw_only=True):
    """One session, as its donor noted it."""

    began_s: float
    ended_s: float
    donor: str
    acceptor: str
    action: str
    moved: int
    predicted: dict[str, float]
    """What the donor expected: ``input``, ``output``, ``delay_s`` of its own, and of the acceptor with ``there_``."""


class Scene:
    """A network of clusters, publishers at the first head and subscribers that join one edge."""

    def __init__(
        self,
        clusters: Sequence[Cluster],
        links: Sequence[tuple[str, str]],
        work: Workload,
        *,
        balance: BalancingConfig,
        is_balanced: bool = True,
        seed: int = 1,
    ) -> None:
        self.world = World(seed, engine="kernel")
        self.world.network.window_bytes = ROOM_BYTES
        self.clusters = clusters
        self.edges = {name: machine for cluster in clusters for name, machine in cluster.edges.items()}
        self.looks: list[Look] = []
        self.listeners: list[Listener] = []
        self.counts: dict[str, Counts] = {}
        self.owed_from: dict[str, list[int]] = {}
        """By listener that is confirmed: how many events each publisher had published by then."""
        self.work = work
        self.balance, self._is_balanced = balance, is_balanced
        self._chance = Random(f"{seed}/scene")
        self._before = (0, 0, 0, 0)
        for cluster in clusters:
            self.add(cluster)
        for near, far in links:
            self.world.link(near, far)
        self.publishers: list[Publisher] = []

    def add(self, cluster: Cluster) -> None:
        """Its brokers begin."""
        self._broker(cluster.head, cluster.machine, "head")
        for name, machine in cluster.edges.items():
            self.add_edge(name, machine, cluster.head)

    def add_edge(self, name: str, machine: Machine, head: str) -> None:
        """An edge begins."""
        self.edges[name] = machine
        self._broker(name, machine, "edge")
        self.world.link(name, head)

    def _broker(self, name: str, machine: Machine, role: str) -> None:
        costs = Peer(mhz=machine.mhz)
        self.world.add_broker(
            name,
            costs=costs,
            matching_slope_s=costs.slope_s,
            mbps=machine.mbps,
            role=role,
            balancing="peer" if self._is_balanced else "never",
            balance=self.balance,
            output_bytes_s=machine.mbps * 1e6 / 8,
            memory_bytes=ROOM_BYTES * 4,
            heartbeat_s=HEARTBEAT_S,
            link_queue_bytes_max=ROOM_BYTES,
            queue_bytes_max=ROOM_BYTES,
            tree_memory_s=HEARTBEAT_S,
        )
        host = self.world.brokers[name]
        host.on_connection_lost = lambda _end: None
        host.on_blocked = lambda: None
        self.counts[name] = Counts()

    # -- who comes -----------------------------------------------------------------------------------------------------

    def publish_from(self, start_s: float, head: str, *, apart_s: float = 0.1) -> None:
        """The publishers come, one after the other."""
        for number, one in enumerate(self.work.publishers):
            publisher = Publisher(self.world, f"P{number}", head, one, phase=self._chance.random())
            self.publishers.append(publisher)
            self.world.at(start_s + number * apart_s, publisher.begin)

    def join(self, edge: str, start_s: float, end_s: float) -> None:
        """The subscribers come, evenly."""
        wanted = self.work.wanted
        for number, one in enumerate(wanted):
            at_s = start_s + (end_s - start_s) * number / len(wanted)
            self.world.at(at_s, lambda number=number, one=one: self._join(f"S{number}", edge, one))  # type: ignore[misc]

    def _join(self, name: str, edge: str, wanted: bytes) -> None:
        world = self.world
        listener = Listener(world.agenda, world.network, name, edge, seed=world.seed, counts=self.counts)
        self.listeners.append(listener)
        listener.on_confirmed = lambda: self._confirmed(listener)
        listener.subscribe(wanted)

    def _confirmed(self, listener: Listener) -> None:
        """It gets all that is published from now on."""
        self.owed_from[listener.name] = [one.count for one in self.publishers]
        listener.since = sum(one.count for one in self.publishers)

    def double(self, share: float) -> None:
        """So many of the publishers publish twice as often from now on."""
        for one in self._chance.sample(self.publishers, round(share * len(self.publishers))):
            one.per_s *= 2

    def swing(self, share: float, *, period_s: float) -> None:
        """So many of the publishers double their rates for half of every period from now on."""
        swinging = self._chance.sample(self.publishers, round(share * len(self.publishers)))

        def turn(factor: float) -> None:
            for one in swinging:
                one.per_s *= factor
            self.world.agenda.after(in_ns(period_s / 2), lambda: turn(1 / factor))

        turn(2.0)

    # -- time ----------------------------------------------------------------------------------------------------------

    def run(self, until_s: float, tell: Callable[[int], object] | None = None) -> None:
        """Let time pass, and look."""
        while self.world.agenda.now_s < until_s - 1e-9:
            self.world.run(min(LOOK_S, until_s - self.world.agenda.now_s))
            self.looks.append(self._look())
            if tell is not None:
                tell(round(self.world.agenda.now_s))

    def finish(self, patience_s: float) -> None:
        """The publishers end, and what is under way arrives. Nobody looks any more."""
        for one in self.publishers:
            one.is_over = True
        self.world.run(patience_s)

    def _look(self) -> Look:
        events = messages = 0
        for host in self.world.brokers.values():
            if host.node is not None:
                messages += host.node.messages
                events += host.node.engine.work().events
        events += sum(one.events for one in self.counts.values())
        messages += sum(one.messages for one in self.counts.values())
        delivered = sum(one.events for one in self.counts.values())
        delay_ns = sum(one.delay_ns for one in self.counts.values())
        before, self._before = self._before, (events, messages, delivered, delay_ns)
        events, messages, delivered, delay_ns = (now - then for now, then in zip(self._before, before, strict=True))
        return Look(
            self.world.agenda.now_s,
            {name: self._seen(name) for name in self.edges},
            delivered,
            delay_ns / 1e9 / delivered if delivered else 0.0,
            messages / (events + messages) if events + messages else 0.0,
        )

    def _seen(self, name: str) -> Seen:
        host = self.world.brokers[name]
        node, uplink = host.node, self.world.network.uplinks[name]
        assert node is not None
        assert node.modelled is not None
        load, edge = node.meter.load(), node.core.balancing.edge
        totals, work = node.engine.totals(), node.engine.work()
        waiting = node.modelled.unread_bytes * work.events / totals.bytes_in if totals.bytes_in else 0.0
        return Seen(
            0.0 if load is None else load.input_utilisation,
            0.0 if load is None else load.output_utilisation,
            0.0 if load is None else load.matching_delay_s,
            0.0 if load is None else load.cpu_utilisation,
            len(node.core.clients.using("subscribe")),
            0.0 if load is None else waiting * load.matching_delay_s,
            uplink.delay_ns(self.world.agenda.now_ns) / 1e9,
            "OK" if edge is None else edge.condition,
        )

    # -- what was noted ------------------------------------------------------------------------------------------------

    def notes(self, broker: str, what: str) -> list[tuple[float, Note]]:
        """What a broker said of this kind, and when."""
        return [(at_ns / 1e9, note) for at_ns, note in self.world.brokers[broker].notes if note.what == what]

    def sessions(self) -> list[Session]:
        """Those that are over, in the order of their ends."""
        found: list[Session] = []
        for donor in self.edges:
            began_s, predicted = 0.0, dict[str, float]()
            for at_ns, note in self.world.brokers[donor].notes:
                facts = note.facts
                if note.what == "session began":
                    began_s, predicted = at_ns / 1e9, {}
                elif note.what == "clients are to move":
                    predicted = {
                        key.replace("predicted ", "").replace("there ", "there_"): float(value)
                        for key, value in facts.items()
                        if key.startswith("predicted")
                    }
                elif note.what == "session ended" and "acceptor" in facts:
                    found.append(
                        Session(
                            began_s=began_s,
                            ended_s=at_ns / 1e9,
                            donor=donor,
                            acceptor=str(facts["acceptor"]),
                            action=str(facts["action"]),
                            moved=int(facts["moved"]),
                            predicted=predicted,
                        )
                    )
        return sorted(found, key=lambda one: one.ended_s)


class Publisher:
    """Publishes its quotes at its own pace."""

    def __init__(self, world: World, name: str, head: str, published: Published, *, phase: float) -> None:
        self._world, self._name, self._head = world, name, head
        self.published = published
        self.per_s = published.per_s
        self._phase = phase
        self.count = 0
        """Of the events that it has published."""
        self.is_over = False
        self._client: ClientHost | None = None

    def begin(self) -> None:
        """It connects, says what it will publish, and begins."""
        self._client = self._world.add_client(self._name, self._head)
        self._client.advertise(1)
        self._world.agenda.after(in_ns(self._phase / max(self.per_s, 1e-3)), self._beat)

    def _beat(self) -> None:
        assert self._client is not None
        if self.is_over:
            return
        events = self.published.events
        self._client.publish(events[self.count % len(events)])
        self.count += 1
        self._world.agenda.after(in_ns(1 / max(self.per_s, 1e-3)), self._beat)
