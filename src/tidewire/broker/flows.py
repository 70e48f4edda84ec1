"""What is published here, by publisher and class, and what of it may be: as head of its publishers' tree.

Offers are what publishers say; what they send is measured. Who says more than it ever sent is believed up to a bound,
and who says less is believed what it sends: a lie gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from tidewire.congestion.fdcc.controller import Limit
from tidewire.congestion.fdcc.selection import FlowKey
from tidewire.model.ids import BrokerId, Conn, TreeId
from tidewire.model.shortage_messages import FlowLimit, FlowTold, LimitFlow, Limits, OfferedClass, Why
from tidewire.model.traffic import ClassKey
from tidewire.traffic.classes import UNCLASSED

BELIEVED: Final = 3.0
"""Who is limited may say that it would send so many times what it once sent when it was free."""
PATIENCE: Final = 3
"""Periods in which a publisher sends more than it may, before its connection is ended."""
TOLERANCE: Final = 1.5
SLACK_MSGS_S: Final = 20.0
SAID_AGAIN: Final = 3
"""Limits of another head that has not said them again for so many periods hold no longer."""


def flow_key(tree: TreeId, publisher: int, traffic_class: ClassKey) -> FlowKey:
    """The name of one publisher in one class, in the whole network."""
    return FlowKey(f"{tree:x}/{publisher:x}/{traffic_class}")


class Publishing(msgspec.Struct):
    """One publisher, as it is seen here."""

    publisher: int
    owner: str
    counters: tuple[int, int] | None = None
    accepted_msgs_s: float = 0.0
    size_bytes: float = 0.0
    said: dict[ClassKey, OfferedClass] = {}
    best: dict[ClassKey, float] = {}
    """What it sent in each class when it was free."""
    told: dict[tuple[ClassKey, bool], tuple[float, Why]] = {}
    """The limits that it knows."""
    beyond: int = 0
    """For how many periods it has sent more than it may."""


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """One publisher in one class."""

    key: FlowKey
    publisher: int
    traffic_class: ClassKey
    offered_msgs_s: float
    accepted_msgs_s: float
    guaranteed_msgs_s: float
    size_bytes: float
    owner: str


class OwnFlows:
    """All that is published at one broker."""

    def __init__(self, tree: TreeId) -> None:
        self._tree = tree
        self._publishing: dict[Conn, Publishing] = {}
        self._by_others: dict[BrokerId, tuple[int, dict[FlowKey, Limit]]] = {}
        """Limits that other heads have set, and in which period they last said so."""
        self._period = 0
        self.ended = 0

    def __len__(self) -> int:
        return len(self._publishing)

    def gone(self, conn: Conn) -> None:
        """A publisher has ended."""
        self._publishing.pop(conn, None)

    def said(self, conn: Conn, offers: Iterable[OfferedClass]) -> None:
        """A publisher says what it would send."""
        if conn in self._publishing:
            self._publishing[conn].said = {ClassKey(one.traffic_class): one for one in offers}

    def measured(
        self, counters: Iterable[tuple[Conn, int, int]], who: Mapping[Conn, tuple[int, str]], *, elapsed_s: float
    ) -> None:
        """So many events and bytes have come from each that publishes here; who each is, and whose."""
        self._period += 1
        there: dict[Conn, Publishing] = {}
        for conn, events, size in counters:
            publisher, owner = who[conn]
            one = self._publishing.get(conn) or Publishing(publisher, owner)
            if one.counters is not None and elapsed_s > 0:
                came = events - one.counters[0]
                one.accepted_msgs_s = came / elapsed_s
                one.size_bytes = (size - one.counters[1]) / came if came > 0 else one.size_bytes
            one.counters = events, size
            there[conn] = one
        self._publishing = there
        for broker in [broker for broker, (at, _) in self._by_others.items() if self._period - at > SAID_AGAIN]:
            del self._by_others[broker]

    def limited_by(self, broker: BrokerId, limits: Iterable[LimitFlow]) -> None:
        """Another head lets no more than this into its cluster: all of it, at this moment."""
        found = {
            flow_key(self._tree, one.publisher, ClassKey(one.traffic_class)): Limit(one.msgs_s, one.why)
            for one in limits
        }
        self._by_others[broker] = self._period, found

    def by_others(self) -> dict[FlowKey, Limit]:
        """The least that other heads allow."""
        found: dict[FlowKey, Limit] = {}
        for _, limits in self._by_others.values():
            for key, limit in limits.items():
                if key not in found or limit.msgs_s < found[key].msgs_s:
                    found[key] = limit
        return found

    def has(self, publisher: int, traffic_class: ClassKey) -> bool:
        """Is this published, at present?"""
        mine = (one for one in self._publishing.values() if one.publisher == publisher)
        return any(one.accepted_msgs_s > 0 and (traffic_class in one.said or not one.said) for one in mine)

    def flows(self) -> list[Flow]:
        """What is published, by publisher and class."""
        return [flow for one in self._publishing.values() for flow in self._flows_of(one)]

    def _flows_of(self, one: Publishing) -> Iterable[Flow]:
        said = one.said or {UNCLASSED: OfferedClass(UNCLASSED, 1.0, 0.0, 0.0)}
        total = sum(claim.offered_msgs_s for claim in said.values())
        claimed_bytes = sum(claim.offered_msgs_s * claim.size_bytes for claim in said.values())
        for kind, claim in said.items():
            part = claim.offered_msgs_s / total if total > 0 else 1 / len(said)
            accepted = part * one.accepted_msgs_s
            is_free = not any(key == kind for key, _ in one.told)
            if is_free:
                one.best[kind] = max(accepted, 0.5 * one.best.get(kind, 0.0))
                offered = accepted
            else:
                offered = max(accepted, min(claim.offered_msgs_s, BELIEVED * one.best.get(kind, 0.0)))
            scale = claim.size_bytes * total / claimed_bytes if claimed_bytes > 0 and claim.size_bytes > 0 else 1.0
            yield Flow(
                key=flow_key(self._tree, one.publisher, kind),
                publisher=one.publisher,
                traffic_class=kind,
                offered_msgs_s=offered,
                accepted_msgs_s=accepted,
                guaranteed_msgs_s=min(offered, claim.guaranteed_msgs_s),
                size_bytes=one.size_bytes * scale,
                owner=one.owner,
            )

    def told_down(self, utilities: Mapping[FlowKey, float]) -> list[FlowTold]:
        """What others must know of it."""
        return [
            FlowTold(
                flow.publisher,
                flow.traffic_class,
                flow.offered_msgs_s,
                flow.accepted_msgs_s,
                flow.size_bytes,
                utilities.get(flow.key, 1.0),
                flow.owner,
            )
            for flow in self.flows()
        ]

    def news(self, limits: Mapping[FlowKey, Limit], shares: Mapping[FlowKey, float]) -> Iterable[tuple[Conn, Limits]]:
        """What publishers have to be told, now that these limits hold. ``shares`` are for guaranteed events alone."""
        for conn, one in self._publishing.items():
            wanted: dict[tuple[ClassKey, bool], tuple[float, Why]] = {}
            for kind in one.said or (UNCLASSED,):
                key = flow_key(self._tree, one.publisher, kind)
                if key in limits:
                    wanted[kind, False] = limits[key].msgs_s, limits[key].reason
                if key in shares:
                    wanted[kind, True] = shares[key], "share"
            changed = [
                FlowLimit(kind, None, "selection", only) for kind, only in one.told if (kind, only) not in wanted
            ]
            changed += [
                FlowLimit(kind, msgs_s, why, only)
                for (kind, only), (msgs_s, why) in wanted.items()
                if one.told.get((kind, only)) != (msgs_s, why)
            ]
            one.told = wanted
            if changed:
                yield conn, Limits(changed)

    def beyond(self) -> list[Conn]:
        """Who has sent more than it may, for some periods in a row, though it was told. Each is said once."""
        found = []
        for conn, one in self._publishing.items():
            free = [kind for kind in one.said or (UNCLASSED,) if (kind, False) not in one.told]
            most = sum(msgs_s for (_, only), (msgs_s, _) in one.told.items() if not only)
            is_beyond = not free and one.accepted_msgs_s > TOLERANCE * most + SLACK_MSGS_S
            one.beyond = one.beyond + 1 if is_beyond else 0
            if one.beyond >= PATIENCE:
                one.beyond = 0
                self.ended += 1
                found.append(conn)
        return found
