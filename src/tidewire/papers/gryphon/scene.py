"""The scenes of the paper's experiments: brokers with shaped links, pubends with publishers, subscribers, a probe.

All is the simulator's: the broker machines, the kernel as their engine, logs on simulated disks, in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tidewire._kernel.codec import encode
from tidewire.broker.attending import Coming
from tidewire.congestion.config import CongestionConfig
from tidewire.dataplane.streams import CACHE_BYTES_MAX, StreamState
from tidewire.model.events import make_event
from tidewire.model.ids import Conn, PubendId
from tidewire.model.ticks import ms_of
from tidewire.model.values import Value
from tidewire.simulator import faults
from tidewire.simulator.agenda import in_ns
from tidewire.simulator.brokers import BrokerHost
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.costs import Costs
from tidewire.simulator.world import World
from tidewire.wire.frames import HEAD, SPAN, STREAM_HEAD

KB: Final = 1024
EVENT_BYTES: Final = 360
"""On a link between brokers (gryphon §6)."""

STAMP_BYTES: Final = 32
"""What a pubend adds: publisher, sequence, pubend, tick."""

PUBENDS: Final = 4
RATE_MSGS_S: Final = 500.0
"""Of all pubends together."""

OUTSTANDING_MAX: Final = 32
"""A publisher waits for receipts when it has so many events without one: that is how it feels its limit."""

BATCH: Final = 2
"""Events that it publishes at once: simulating it takes less than if each came alone."""

QUEUE_BYTES_MAX: Final = 5 * KB * KB
CACHE_BYTES: Final = 256 * KB
"""Of each stream at a broker on the way: about 6 s. The paper does not say; most comes from the pubend there too."""

PACKET_BYTES: Final = 1460
SOCKET_BYTES: Final = 64 * KB
GROUPS: Final = 5
"""An event belongs to one of so many groups, in turn, and each subscriber wants some of them."""


def event(group: int) -> dict[str, Value]:
    """An event that takes ``EVENT_BYTES`` on a link."""
    made: dict[str, Value] = {"group": group, "text": ""}
    around = HEAD.size + STREAM_HEAD.size + SPAN.size + STAMP_BYTES
    made["text"] = "x" * (EVENT_BYTES - around - len(encode(make_event(made))))
    return made


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


EVENTS: Final = [event(group) for group in range(GROUPS)]


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


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe saw, once in a while."""

    at_s: float
    published: int
    """Events in the log, of all pubends."""

    published_by: tuple[int, ...]
    delivered: dict[str, int]
    queues: dict[tuple[str, str], int]
    """Bytes that wait in a broker for a neighbour."""

    dropped: int
    """Events that found no room in a link's queue, in all."""

    behind_ms: dict[str, list[int]]
    """Of each edge and pubend: how far its horizon is behind the pubend."""

    coming: dict[str, list[Coming]]
    limits: list[float | None]
    alerts: tuple[int, int]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What the brokers of a scene are like."""

    congestion: CongestionConfig
    is_fair: bool = True
    scale: float = 1.0
    """So many times less is published, and links, queues and caches on the way carry and hold so much less."""

    queue_bytes: int = QUEUE_BYTES_MAX
    edge_cache_bytes: int = CACHE_BYTES_MAX
    root_costs: Costs | None = None
    seed: int = 1


class Scene:
    """A tree of brokers below one that hosts the pubends."""

    def __init__(
        self, links: Sequence[tuple[str, str]], *, edges: Mapping[str, Sequence[int]], setting: Setting
    ) -> None:
        """``edges``: by name, the groups that its subscribers want. The first broker of the first link is the root."""
        scale = self.scale = setting.scale
        self.msgs_s = RATE_MSGS_S / scale
        self.queue_bytes = round(setting.queue_bytes / scale)
        self.world = World(setting.seed, engine="kernel")
        self.world.network.packet_bytes = PACKET_BYTES
        self.world.network.window_bytes = SOCKET_BYTES
        self.root = links[0][0]
        common: dict[str, Any] = {
            "congestion": setting.congestion,
            "fair_streams": setting.is_fair,
            "link_queue_bytes_max": self.queue_bytes,
            "tree_memory_s": 600.0,
        }
        for name in dict.fromkeys(name for link in links for name in link):
            hosts: dict[str, Any] = {"pubends": PUBENDS, "store": "log"} if name == self.root else {}
            cache = setting.edge_cache_bytes if name in edges else round(CACHE_BYTES / scale)
            self.world.add_broker(
                name,
                costs=setting.root_costs if name == self.root else None,
                role="edge" if name in edges else "head",
                stream_cache_bytes=cache,
                **common,
                **hosts,
            )
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
        self.moments: list[Moment] = []
        self._dropped: dict[tuple[str, Conn], int] = {}

    # -- what happens to it --------------------------------------------------------------------------------------------

    def shape(self, a: str, b: str, kb_s: float) -> None:
        """A link carries so much from now on, less by the scale."""
        self.world.network.path(a, b).set(mbps=kb_s / self.scale * KB * 8 / 1e6)

    def capacity_msgs_s(self, kb_s: float) -> float:
        """What such a link carries if it carries nothing but events."""
        return kb_s / self.scale * KB / EVENT_BYTES

    def cut(self, a: str, b: str) -> None:
        """A link fails: what waits for it is lost, its connections end."""
        faults.cut(self.world, a, b)

    def mend(self, a: str, b: str) -> None:
        """It works again."""
        faults.mend(self.world, a, b)

    def run(
        self,
        seconds: float,
        tell: Callable[[int], object] | None = None,
        *,
        every_s: float = 1.0,
        until: Callable[[Moment], bool] | None = None,
    ) -> bool:
        """Let time pass, and look every so often; true as soon as it is as it should be."""
        end_s = self.now_s + seconds
        while self.now_s < end_s - 1e-9:
            self.world.run(min(every_s, end_s - self.now_s))
            self.moments.append(self._look())
            if tell is not None:
                tell(round(self.now_s))
            if until is not None and until(self.moments[-1]):
                return True
        return False

    @property
    def now_s(self) -> float:
        """Since the first event."""
        return self.world.agenda.now_s - self.start_s

    # -- what is seen of it --------------------------------------------------------------------------------------------

    def disorders(self) -> int:
        """Events that came to a subscriber twice, or not in the order of their ticks."""
        return sum(one.disorders for one in self.subscribers)

    def _look(self) -> Moment:
        root = self.world.brokers[self.root]
        assert root.node is not None
        hosted = {state.pubend: state for state in _streams(root) if state.tree is None}
        behind: dict[str, list[int]] = {}
        coming: dict[str, list[Coming]] = {}
        for one in self.subscribers:
            host = self.world.brokers[one.edge]
            assert host.node is not None
            behind[one.edge] = [
                ms_of(hosted[state.pubend].heard) - ms_of(state.horizon)
                for state in _streams(host)
                if state.horizon is not None and state.pubend in hosted
            ]
            coming[one.edge] = list(host.node.core.streams.attending.coming().values())
        return Moment(
            at_s=self.now_s,
            published=sum(state.events for state in hosted.values()),
            published_by=tuple(state.events for state in hosted.values()),
            delivered={one.edge: one.count() for one in self.subscribers},
            queues=self._queues(),
            dropped=sum(self._dropped.values()),
            behind_ms=behind,
            coming=coming,
            limits=[limit for _, limit in root.node.core.streams.pubends.states()],
            alerts=root.node.core.streams.pubends.alerts(),
        )

    def _queues(self) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for name, host in self.world.brokers.items():
            for neighbour in host.node.core.links.up() if host.node is not None else ():
                conn = neighbour.lanes["data"]
                traffic = host.node.engine.traffic(conn) if host.node is not None else None
                if traffic is not None:
                    found[name, neighbour.broker] = traffic.queued_bytes
                    self._dropped[name, conn] = max(self._dropped.get((name, conn), 0), traffic.dropped)
        return found


def _streams(host: BrokerHost) -> list[StreamState]:
    assert host.node is not None
    assert host.node.streams is not None
    return host.node.streams.engine.streams()
