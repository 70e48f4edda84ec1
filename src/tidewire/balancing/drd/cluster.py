"""What does a head know of its edges and of the clusters next to it, and whom may it count on?

Everything has a lease: what is not said again is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.drd.distribution import Edge
from tidewire.balancing.drd.edge_agent import FORGOTTEN_PERIODS, Heard, told
from tidewire.balancing.drd.loads import Load
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.offload_messages import ClusterStatus, LoadState, LoadUpdate, Offer

STATUS_PERIODS = 10
"""A cluster's status is told when its state changes, and else so often."""


class _Status(msgspec.Struct, frozen=True):
    status: ClusterStatus
    until_ns: int


class Cluster:
    """A head's book."""

    def __init__(self, head: BrokerId, config: DrdConfig) -> None:
        self._head = head
        self._config = config
        self.addresses: dict[BrokerId, str] = {}
        """Of its edges."""
        self.heads: dict[BrokerId, None] = {}
        """Those next to it."""
        self._since_ns: dict[BrokerId, int] = {}
        """When each of them came."""
        self._edges: dict[BrokerId, Heard] = {}
        self._clusters: dict[BrokerId, _Status] = {}
        self._busy: dict[BrokerId, int] = {}
        """Who is in a session, or kept for one, and until when."""

    def connected(
        self, edges: Mapping[BrokerId, str], heads: Iterable[BrokerId], now_ns: Nanoseconds
    ) -> list[BrokerId]:
        """These are our neighbours now; the edges that are no longer there."""
        gone = [edge for edge in self.addresses if edge not in edges]
        self._since_ns = {edge: self._since_ns.get(edge, now_ns) for edge in edges}
        self.addresses, self.heads = dict(edges), dict.fromkeys(heads)
        self._edges = {edge: one for edge, one in self._edges.items() if edge in edges}
        self._clusters = {head: one for head, one in self._clusters.items() if head in self.heads}
        for broker in gone:
            self._busy.pop(broker, None)
        return gone

    def edge_said(self, edge: BrokerId, update: LoadUpdate, now_ns: Nanoseconds) -> None:
        """How an edge is."""
        if edge in self.addresses and Load(update.used, update.capacity).is_sound():
            until_ns = now_ns + int(FORGOTTEN_PERIODS * self._config.period_s * 1e9)
            self._edges[edge] = told(update, self._edges.get(edge), until_ns=until_ns)

    def cluster_said(self, head: BrokerId, status: ClusterStatus, now_ns: Nanoseconds) -> None:
        """How the cluster of a head next to us is."""
        if head in self.heads:
            until_ns = now_ns + int(FORGOTTEN_PERIODS * STATUS_PERIODS * self._config.period_s * 1e9)
            self._clusters[head] = _Status(status, until_ns)

    def is_complete(self, now_ns: Nanoseconds) -> bool:
        """Has everybody been heard of who has been here for a while?"""
        patience_ns = int(FORGOTTEN_PERIODS * self._config.period_s * 1e9)
        known = self.edges(now_ns)
        return all(edge in known or now_ns >= since + patience_ns for edge, since in self._since_ns.items())

    # -- sessions ------------------------------------------------------------------------------------------------------

    def keep(self, broker: BrokerId, *, until_ns: int) -> None:
        """It is in a session, or kept for one."""
        self._busy[broker] = until_ns

    def let_go(self, broker: BrokerId) -> None:
        """It no longer is."""
        self._busy.pop(broker, None)

    def is_kept(self, broker: BrokerId, now_ns: Nanoseconds) -> bool:
        """Is it out of every other session?"""
        return now_ns < self._busy.get(broker, 0)

    # -- what is known -------------------------------------------------------------------------------------------------

    def edges(self, now_ns: Nanoseconds) -> dict[BrokerId, tuple[LoadState, Load]]:
        """Those that were heard of lately; who is kept for a session is BUSY."""
        return {
            edge: ("BUSY" if self.is_kept(edge, now_ns) else one.update.state, one.load)
            for edge, one in sorted(self._edges.items())
            if now_ns < one.until_ns
        }

    def offers(self, edges: Iterable[BrokerId]) -> list[Offer]:
        """What these edges can take."""
        found = []
        for edge in edges:
            one, address = self._edges[edge], self.addresses[edge]
            classes = sorted(str(name) for name in one.classes)
            found.append(Offer(edge, self._head, address, one.update.used, one.update.capacity, classes))
        return found

    def low_edges(self, now_ns: Nanoseconds) -> list[BrokerId]:
        """Those that can take something."""
        return [edge for edge, (state, _) in self.edges(now_ns).items() if state == "LOW"]

    def low_clusters(self, now_ns: Nanoseconds) -> list[BrokerId]:
        """Heads next to us that said so of their clusters."""
        return sorted(
            head for head, one in self._clusters.items() if now_ns < one.until_ns and one.status.state == "LOW"
        )

    def known_clusters(self, now_ns: Nanoseconds) -> list[BrokerId]:
        """Heads next to us whose status is known."""
        return sorted(head for head, one in self._clusters.items() if now_ns < one.until_ns)

    def places(self) -> dict[BrokerId, tuple[float, float]]:
        """Latitude and longitude of those edges that told them."""
        return {edge: one.update.place for edge, one in self._edges.items() if one.update.place is not None}

    def state(self, now_ns: Nanoseconds) -> LoadState:
        """LOW, if at least one edge is; OVERLOAD if all are (epeer §2.6)."""
        states = [state for state, _ in self.edges(now_ns).values()]
        if not states or "LOW" in states:
            return "LOW"
        return "OVERLOAD" if all(state == "OVERLOAD" for state in states) else "HIGH"

    def edges_available(self, now_ns: Nanoseconds) -> float:
        """Of all edges together."""
        return sum(one.update.available for one in self._edges.values() if now_ns < one.until_ns)

    def choices(self, distances: Mapping[BrokerId, float], now_ns: Nanoseconds) -> list[Edge]:
        """The edges, for a newcomer; of one that has said nothing yet, nothing speaks against it."""
        states = self.edges(now_ns)
        found = []
        for edge in sorted(self.addresses):
            distance = distances.get(edge, float("inf"))
            one = self._edges.get(edge)
            if one is None or edge not in states:
                found.append(Edge(broker=edge, state="HIGH", available=0.0, distance=distance))
                continue
            # a session does not keep newcomers away: by its load alone it is not BUSY
            state = one.update.state if one.update.state != "BUSY" else "HIGH"
            found.append(
                Edge(
                    broker=edge,
                    state=state,
                    available=one.update.available,
                    utilisation=one.load.highest,
                    hosts=one.classes,
                    distance=distance,
                )
            )
        return found
