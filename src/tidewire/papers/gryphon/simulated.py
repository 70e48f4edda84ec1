"""A scene in the simulator: the machines and the kernel that serve users, logs on simulated disks, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidewire.broker.status import BrokerStatus
from tidewire.model.ids import Nanoseconds, PubendId
from tidewire.papers.gryphon.scene import BATCH, EVENTS, GROUPS, KB, OUTSTANDING_MAX, PUBENDS, Scene, Setting
from tidewire.simulator import faults
from tidewire.simulator.agenda import in_ns
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.costs import Costs
from tidewire.simulator.world import World

PACKET_BYTES: Final = 1460
SOCKET_BYTES: Final = 64 * KB


class Publisher:
    """Publishes guaranteed events at its own pace, as long as not too many of them have no receipt."""

    def __init__(self, world: World, client: ClientHost, *, msgs_s: float, start_s: float) -> None:
        self.client = client
        self._world = world
        self._every_ns = in_ns(BATCH / msgs_s)
        self.published = 0
        self.withheld = 0
        """Times that it could not publish, because it was slowed."""
        world.at(start_s, self._beat)

    def _beat(self) -> None:
        self._world.agenda.after(self._every_ns, self._beat)
        for _ in range(BATCH):
            if self.client.outstanding >= OUTSTANDING_MAX:
                self.withheld += 1
                return
            self.published += 1
            self.client.guarantee(EVENTS[self.published % GROUPS])


class Subscribers:
    """The subscribers of one edge: each wants one group, all together what the edge is sent."""

    def __init__(self, world: World, edge: str, groups: Sequence[int]) -> None:
        self.edge = edge
        self.clients = [world.add_client(f"{edge}-{group}", edge) for group in groups]
        self.delivered = 0
        self.disorders = 0
        """Events that came twice, or not in the order of their ticks."""
        self._last: dict[tuple[str, PubendId], int] = {}
        for client, group in zip(self.clients, groups, strict=True):
            client.follow(1, f"group = {group}", client.name)

    def count(self) -> int:
        """How many have come in all. What has been counted is forgotten."""
        for client in self.clients:
            for record in client.followed.values():
                for one in record.received:
                    key = client.name, one.pubend
                    self.disorders += one.tick <= self._last.get(key, 0)
                    self._last[key] = one.tick
                self.delivered += len(record.received)
                record.received.clear()
        return self.delivered


class SimulatedScene(Scene):
    """In virtual time; all chance comes from a seed."""

    def __init__(
        self,
        links: Sequence[tuple[str, str]],
        *,
        edges: Mapping[str, Sequence[int]],
        setting: Setting,
        root_costs: Costs | None = None,
        seed: int = 1,
    ) -> None:
        super().__init__(links, edges=edges, setting=setting)
        self.world = World(seed, engine="kernel")
        self.world.network.packet_bytes = PACKET_BYTES
        self.world.network.window_bytes = SOCKET_BYTES
        for name in self.names:
            if name == self.root:
                self.world.add_broker(name, costs=root_costs, store="log", **self.settings_of(name))
            else:
                self.world.add_broker(name, **self.settings_of(name))
        for above, below in links:
            self.world.link(below, above)
        self.world.run(1.0)
        clients = [self.world.add_client(f"publisher-{i}", self.root) for i in range(PUBENDS)]
        for client in clients:
            client.advertise(1)
        self.world.run(1.0)
        self.subscribers = [Subscribers(self.world, edge, groups) for edge, groups in edges.items()]
        self.world.run(2.0)
        start_s = self.world.agenda.now_s
        self.publishers = [
            Publisher(self.world, client, msgs_s=self.msgs_s / PUBENDS, start_s=start_s + i / self.msgs_s)
            for i, client in enumerate(clients)
        ]
        self.start_s = start_s

    def shape(self, a: str, b: str, kb_s: float) -> None:
        self.world.network.path(a, b).set(mbps=kb_s / self.scale * KB * 8 / 1e6)

    def cut(self, a: str, b: str) -> None:
        faults.cut(self.world, a, b)

    def mend(self, a: str, b: str) -> None:
        faults.mend(self.world, a, b)

    def close(self) -> None:
        """There is nothing to end."""

    def wait(self, seconds: float) -> None:
        self.world.run(seconds)

    @property
    def now_s(self) -> float:
        return self.world.agenda.now_s - self.start_s

    def statuses(self) -> Mapping[str, BrokerStatus]:
        now_ns = Nanoseconds(self.world.agenda.now_ns)
        return {name: host.node.status(now_ns=now_ns) for name, host in self.world.brokers.items() if host.node}

    def delivered(self) -> dict[str, int]:
        return {one.edge: one.count() for one in self.subscribers}

    def disorders(self) -> int:
        return sum(one.disorders for one in self.subscribers)
