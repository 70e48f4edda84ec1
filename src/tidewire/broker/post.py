"""How does what agents say get to whom it is for? As bulletins, by the ways that all about load goes (epeer §2.11)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewire.balancing.bulletins import EdgeWays, HeadWays, Pass
from tidewire.model.balance_messages import GLOBAL_PIE, LB_CONTROL, LOCAL_PIE, Bulletin, ControlClass
from tidewire.model.ids import BrokerId
from tidewire.model.offload_messages import ClusterStatus, LoadUpdate, OffloadPayload


class Letter(msgspec.Struct, frozen=True):
    """What has come for us."""

    sender: BrokerId
    payload: OffloadPayload


class Post:
    """Of one broker, as edge or as head."""

    def __init__(self, broker: BrokerId, *, life: int) -> None:
        self._broker = broker
        self._life = life
        self._number = 0
        self._lives: dict[BrokerId, int] = {}
        self._edge = EdgeWays(broker)
        self._head: HeadWays | None = None

    def as_edge(self, head: BrokerId | None) -> None:
        """We are an edge, and this is our head."""
        self._head = None
        self._edge.head = head

    def as_head(self, edges: Iterable[BrokerId], heads: Iterable[BrokerId]) -> None:
        """We are a head, and these are our neighbours."""
        self._head = self._head or HeadWays(self._broker)
        there = dict.fromkeys([*edges, *heads])
        for gone in [one for one in (*self._head.edges, *self._head.heads) if one not in there]:
            self._head.gone(gone)
        self._head.edges, self._head.heads = dict.fromkeys(edges), dict.fromkeys(heads)

    def say(
        self, payload: OffloadPayload, *, to: BrokerId | None = None, cluster: BrokerId | None = None
    ) -> list[Pass]:
        """To one broker in a cluster, or to all that such news are for."""
        self._number += 1
        bulletin = Bulletin(
            traffic_class=_class_of(payload),
            sender=self._broker,
            life=self._life,
            number=self._number,
            cluster=self._broker if self._head is not None else self._edge.head or self._broker,
            toward=cluster,
            to=to,
            payload=payload,
        )
        return self._edge.own(bulletin) if self._head is None else self._head.own(bulletin, partner=None)

    def heard(self, bulletin: Bulletin, *, came_from: BrokerId) -> tuple[Letter | None, list[Pass]]:
        """What of it is for us, and to whom it is passed on. What an earlier life said is no longer so."""
        if self._head is None:
            way = self._edge.heard(bulletin, came_from=came_from)
        else:
            way = self._head.heard(bulletin, came_from=came_from, partner=None, is_overloaded=False)
        known = self._lives.get(bulletin.sender, bulletin.life)
        if not way.is_for_us or bulletin.life < known or not isinstance(bulletin.payload, OffloadPayload):
            return None, way.passes
        self._lives[bulletin.sender] = bulletin.life
        return Letter(bulletin.sender, bulletin.payload), way.passes


def _class_of(payload: OffloadPayload) -> ControlClass:
    match payload:
        case LoadUpdate():
            return LOCAL_PIE
        case ClusterStatus():
            return GLOBAL_PIE
        case _:
            return LB_CONTROL
