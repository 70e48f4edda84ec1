"""Which way does a bulletin go? By what it says: its class, where it comes from, whom it is for (peer PIE4, PIE5, M1).

LOCAL_PIE stays in its cluster, and goes to the cluster that its head is in a session with. GLOBAL_PIE goes one cluster
far; an overloaded cluster passes it on, so that it does not hide those behind it. LB_CONTROL goes to one broker, or to
all edges of a cluster. The way to a cluster that is not next to us is the one that its bulletins came by.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tidewire.model.balance_messages import GLOBAL_PIE, LB_CONTROL, LOCAL_PIE, Bulletin
from tidewire.model.ids import BrokerId


class Pass(msgspec.Struct, frozen=True):
    """To be sent to a neighbour, in the control lane."""

    neighbour: BrokerId
    bulletin: Bulletin


class Way(msgspec.Struct, frozen=True):
    """Where a bulletin goes."""

    is_for_us: bool
    passes: list[Pass]


class EdgeWays:
    """An edge speaks with its head alone."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self.head: BrokerId | None = None
        self._seen = _Seen()

    def own(self, bulletin: Bulletin) -> list[Pass]:
        """What we say ourselves."""
        return [] if self.head is None else [Pass(self.head, bulletin)]

    def heard(self, bulletin: Bulletin, *, came_from: BrokerId) -> Way:
        """What has come: an edge passes nothing on."""
        is_for_us = came_from == self.head and bulletin.sender != self._broker
        if bulletin.traffic_class == GLOBAL_PIE or (bulletin.to is not None and bulletin.to != self._broker):
            is_for_us = False
        return Way(is_for_us and self._seen.is_new(bulletin), [])


class HeadWays:
    """A head knows its edges, and the heads next to it."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self.edges: dict[BrokerId, None] = {}
        self.heads: dict[BrokerId, None] = {}
        self._learnt: dict[BrokerId, BrokerId] = {}
        self._seen = _Seen()

    def gone(self, neighbour: BrokerId) -> None:
        """A neighbour is no longer connected: nothing goes by it."""
        self.edges.pop(neighbour, None)
        self.heads.pop(neighbour, None)
        self._learnt = {cluster: by for cluster, by in self._learnt.items() if by != neighbour}

    def own(self, bulletin: Bulletin, *, partner: BrokerId | None) -> list[Pass]:
        """What we say ourselves. ``partner``: the cluster that ours is in a session with."""
        return self._passes(bulletin, came_from=None, partner=partner, is_overloaded=False)

    def heard(self, bulletin: Bulletin, *, came_from: BrokerId, partner: BrokerId | None, is_overloaded: bool) -> Way:
        """What has come from a neighbour."""
        if bulletin.sender == self._broker or not self._seen.is_new(bulletin):
            return Way(False, [])
        if bulletin.cluster != self._broker:
            self._learnt[bulletin.cluster] = came_from
        passes = self._passes(bulletin, came_from=came_from, partner=partner, is_overloaded=is_overloaded)
        return Way(self._is_for_us(bulletin, partner), passes)

    def _is_for_us(self, bulletin: Bulletin, partner: BrokerId | None) -> bool:
        if bulletin.traffic_class == GLOBAL_PIE:
            return True
        if bulletin.traffic_class == LB_CONTROL:
            return bulletin.to == self._broker
        return bulletin.cluster == self._broker or (bulletin.toward == self._broker and bulletin.cluster == partner)

    def _passes(
        self, bulletin: Bulletin, *, came_from: BrokerId | None, partner: BrokerId | None, is_overloaded: bool
    ) -> list[Pass]:
        if bulletin.traffic_class == GLOBAL_PIE:
            to_heads = came_from is None or is_overloaded
            return self._further(bulletin, self.heads if to_heads else {}, came_from)
        is_ours = bulletin.toward in (None, self._broker)
        if not is_ours:
            return self._further(bulletin, self._toward(bulletin.toward), came_from)
        if bulletin.to is not None:
            return [Pass(bulletin.to, bulletin)] if bulletin.to in self.edges else []
        if bulletin.traffic_class == LOCAL_PIE and bulletin.cluster not in (self._broker, partner):
            return []
        passes = [Pass(edge, bulletin) for edge in self.edges if edge != came_from]
        if bulletin.traffic_class == LOCAL_PIE and bulletin.cluster == self._broker and partner is not None:
            passes += self._further(replace(bulletin, toward=partner), self._toward(partner), came_from)
        return passes

    def _toward(self, cluster: BrokerId | None) -> dict[BrokerId, None]:
        if cluster is None:
            return {}
        way = cluster if cluster in self.heads else self._learnt.get(cluster)
        return {} if way is None else {way: None}

    def _further(self, bulletin: Bulletin, to: dict[BrokerId, None], came_from: BrokerId | None) -> list[Pass]:
        """To other heads; one hop less is left, unless it is we who say it."""
        if bulletin.hops == 0:
            return []
        left = bulletin if came_from is None else replace(bulletin, hops=bulletin.hops - 1)
        return [Pass(head, left) for head in to if head != came_from]


class _Seen:
    """The same bulletin may come by several ways, and one that was overtaken says what is no longer so."""

    def __init__(self) -> None:
        self._last: dict[tuple[BrokerId, str], tuple[int, int]] = {}

    def is_new(self, bulletin: Bulletin) -> bool:
        """Control goes by one way and is in order: what a session says is never left out."""
        if bulletin.traffic_class == LB_CONTROL:
            return True
        key, place = (bulletin.sender, bulletin.traffic_class), (bulletin.life, bulletin.number)
        if place <= self._last.get(key, (-1, -1)):
            return False
        self._last[key] = place
        return True
