"""What does the head of a cluster decide under shortage? About all that comes to its brokers, by what they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Note, Step
from tidewire.broker.flows import Flow, flow_key
from tidewire.broker.links import Links
from tidewire.broker.pubends import Pubends
from tidewire.broker.rooms import OwnRoom, Rooms, budget
from tidewire.broker.shortage_status import FlowStatus
from tidewire.broker.wanted_classes import ClassOverlap
from tidewire.congestion.fdcc.controller import Controller, Decision, Limit, Offered, View
from tidewire.congestion.fdcc.selection import Budget, FlowKey
from tidewire.congestion.fdcc.shares import Claim, shares
from tidewire.model.ids import Nanoseconds, PubendId, TreeId
from tidewire.model.shortage_messages import FlowTold, LimitFlow
from tidewire.model.traffic import ClassKey
from tidewire.routing.router import Router

LIMITED_MAX: Final = 100
"""In a status: the first."""
FIT_MIN: Final = 0.05
FIT_MAX: Final = 1.25
"""What flows are thought to need is corrected by what was measured, within these bounds; beyond, it is others'."""
FIT_NEWEST: Final = 0.3

MEASURED_AFTER: Final = 5
"""Periods under limits, after which people are told what came of them."""

BudgetUse = tuple[str, float, float]
"""What it is, how much there is, and how much of it is used."""


class HeadShortage:
    """Of one broker, as long as it is a head, or alone."""

    def __init__(
        self,
        config: BrokerConfig,
        router: Router,
        links: Links,
        overlap: ClassOverlap,
        room: OwnRoom,
        rooms: Rooms,
    ) -> None:
        self._config = config
        self._router = router
        self._links = links
        self._overlap = overlap
        self._room = room
        self._rooms = rooms
        self.controller = Controller(config.fdcc)
        self._fit: dict[Budget, float] = {}
        self._importances: dict[ClassKey, float] = {}
        self.triggers = self._limited_for = 0
        self._expected: dict[str, float] = {}
        """How loaded everything was to be by now."""
        self.demand: dict[str, float] = {}
        self.predicted: dict[str, float] = {}
        self.measured: dict[str, float] = {}

    def name(self, what: str) -> Budget:
        """Of something that this broker has."""
        return budget(self._config.broker, what)

    # -- deciding ------------------------------------------------------------------------------------------------------

    def decide(
        self,
        own_tree: TreeId,
        own: list[Flow],
        remote: list[tuple[TreeId, FlowTold]],
        wanted: dict[ClassKey, tuple[int, int]],
        budgets: list[BudgetUse],
        *,
        is_short: bool,
        now_ns: Nanoseconds,
    ) -> Iterator[Step]:
        """A period has passed."""
        capacities, used = self._capacities(budgets)
        costs = {
            (tree, kind): self._costs(tree, kind, wanted.get(kind, (0, 0))[0])
            for tree, kind in dict.fromkeys(
                [(own_tree, flow.traffic_class) for flow in own]
                + [(tree, ClassKey(one.traffic_class)) for tree, one in remote]
            )
        }
        flows = [self._offered_here(flow, costs[own_tree, flow.traffic_class]) for flow in own]
        flows += [self._offered_there(tree, one, costs[tree, ClassKey(one.traffic_class)]) for tree, one in remote]
        names = {one.lanes["data"]: one.broker for one in self._links.up()}
        voices = self._rooms.voices()
        for kind, (_, count) in wanted.items():
            voices[kind] = voices.get(kind, 0.0) + count
        view = View(
            flows=tuple(self._fitted(flows, used)),
            subscribers=voices,
            capacities=capacities,
            used=used,
            is_short=is_short or self._rooms.is_any_short,
            reserves={self.name(what): amount for what, amount in self._room.reserves(names)},
        )
        self._importances = self.controller.importances(view)
        decision = self.controller.decide(view, now_ns=now_ns)
        self.demand = {str(name): round(value, 4) for name, value in decision.demand.items()}
        self.predicted = {str(name): round(value, 4) for name, value in decision.predicted.items()}
        self.measured = {name: round(used[name] / capacity, 4) for name, capacity in capacities.items() if capacity > 0}
        yield from self._notes(decision)

    def _capacities(self, budgets: list[BudgetUse]) -> tuple[dict[Budget, float], dict[Budget, float]]:
        """What there is in the cluster, and what of it is used."""
        capacities = {self.name(what): capacity for what, capacity, _ in budgets}
        used = {self.name(what): amount for what, _, amount in budgets}
        for edge, one in self._rooms.budgets():
            capacities[budget(edge, one.what)] = one.capacity
            used[budget(edge, one.what)] = one.used
        return capacities, used

    def _costs(self, tree: TreeId, kind: ClassKey, connections: int) -> tuple[dict[Budget, float], dict[Budget, float]]:
        """What one message of a class takes of each budget on its way: per byte of it, and for each."""
        per_byte: dict[Budget, float] = {}
        branch = self._router.branch(tree)
        output = float(connections)
        for link, routes in () if branch is None else branch.routes.items():
            lane = self._links.lane_of(link)
            if lane is not None and self._overlap.is_wanted_by(kind, routes.values()):
                per_byte[self.name(f">{lane[0].broker}")] = 1.0
                output += 1
        per_byte[self.name("output")] = output
        each = {self.name("match"): 1.0}
        for edge, room in self._rooms.edges().items():
            count = next((one.connections for one in room.wanted if one.traffic_class == kind), 0.0)
            if count:
                per_byte[budget(edge, "output")] = count
                each[budget(edge, "match")] = 1.0
        return per_byte, each

    def _offered_here(self, flow: Flow, costs: tuple[dict[Budget, float], dict[Budget, float]]) -> Offered:
        return Offered(
            key=flow.key,
            traffic_class=flow.traffic_class,
            offered_msgs_s=flow.offered_msgs_s,
            accepted_msgs_s=flow.accepted_msgs_s,
            costs=_priced(costs, flow.size_bytes),
            owner=flow.owner,
        )

    def _offered_there(
        self, tree: TreeId, flow: FlowTold, costs: tuple[dict[Budget, float], dict[Budget, float]]
    ) -> Offered:
        kind = ClassKey(flow.traffic_class)
        return Offered(
            key=flow_key(tree, flow.publisher, kind),
            traffic_class=kind,
            offered_msgs_s=flow.offered_msgs_s,
            accepted_msgs_s=flow.accepted_msgs_s,
            costs=_priced(costs, flow.size_bytes),
            owner=flow.owner,
            utility=flow.utility,
        )

    def _fitted(self, flows: list[Offered], used: dict[Budget, float]) -> Iterable[Offered]:
        """Not every event of a class goes to all who want some of it: what was measured says how far that is so."""
        thought: dict[Budget, float] = {}
        for flow in flows:
            for name, cost in flow.costs:
                thought[name] = thought.get(name, 0.0) + flow.accepted_msgs_s * cost
        if self.controller.mode == "normal":
            for name, amount in thought.items():
                if amount > 0 and used.get(name, 0.0) > 0:
                    fit = min(FIT_MAX, max(FIT_MIN, used[name] / amount))
                    self._fit[name] = FIT_NEWEST * fit + (1 - FIT_NEWEST) * self._fit.get(name, fit)
        for flow in flows:
            costs = tuple((name, cost * self._fit.get(name, 1.0)) for name, cost in flow.costs)
            yield Offered(
                key=flow.key,
                traffic_class=flow.traffic_class,
                offered_msgs_s=flow.offered_msgs_s,
                accepted_msgs_s=flow.accepted_msgs_s,
                costs=costs,
                owner=flow.owner,
                utility=flow.utility,
            )

    def _notes(self, decision: Decision) -> Iterator[Note]:
        self._limited_for = self._limited_for + 1 if decision.mode == decision.was == "limited" else 0
        if self._limited_for == MEASURED_AFTER:
            most = max(self.measured, key=lambda name: self.measured[name], default="")
            loads: dict[str, str | int | float] = {"most loaded": most, "measured": self.measured.get(most, 0.0)}
            yield Note("measured under limits", loads | {"predicted": self._expected.get(most, 0.0)})
        self._expected = {str(name): round(load, 3) for name, load in decision.predicted.items()}
        if decision.mode == decision.was:
            return
        worst = max(decision.demand, key=lambda name: decision.demand[name], default=None)
        facts: dict[str, str | int | float] = {"limits": len(self.controller.limits)}
        if worst is not None:
            facts |= {
                "most loaded": str(worst),
                "offered": round(decision.demand[worst], 3),
                "predicted": round(decision.predicted[worst], 3),
                "measured": self.measured.get(str(worst), 0.0),
            }
        if decision.mode == "limited":
            self.triggers += 1
            yield Note("shortage", facts)
        elif decision.mode == "recovering":
            yield Note("shortage over", facts)

    # -- what follows --------------------------------------------------------------------------------------------------

    def for_others(self, remote: list[tuple[TreeId, FlowTold]]) -> Iterator[tuple[TreeId, list[LimitFlow]]]:
        """Limits of publishers at other heads; also that there are none any more, as long as there were."""
        by_tree: dict[TreeId, list[LimitFlow]] = {}
        for tree, flow in remote:
            limit = self.controller.limits.get(flow_key(tree, flow.publisher, ClassKey(flow.traffic_class)))
            if limit is not None:
                told = LimitFlow(flow.publisher, flow.traffic_class, limit.msgs_s, limit.reason)
                by_tree.setdefault(tree, []).append(told)
            elif self.controller.mode == "recovering":
                by_tree.setdefault(tree, [])
        yield from by_tree.items()

    def least(self, own: list[Flow], by_others: dict[FlowKey, Limit]) -> dict[FlowKey, Limit]:
        """What holds for our own publishers: the least of what is decided here and by others."""
        found: dict[FlowKey, Limit] = {}
        for flow in own:
            limits = [one[flow.key] for one in (self.controller.limits, by_others) if flow.key in one]
            if limits:
                found[flow.key] = min(limits, key=lambda limit: limit.msgs_s)
        return found

    def shares(self, own: list[Flow], pubends: Pubends) -> dict[FlowKey, float]:
        """What each may send into a stream that may not take all: by importance, then by utility (design §3.6)."""
        by_pubend: dict[PubendId, tuple[float, list[Claim]]] = {}
        for flow in own:
            pace = pubends.pace_of(flow.publisher)
            if pace is None or pace[1] is None or flow.guaranteed_msgs_s <= 0:
                continue
            claim = Claim(
                flow.key,
                self._importances.get(flow.traffic_class, 0.0),
                self.controller.utility(flow.key),
                flow.guaranteed_msgs_s,
            )
            by_pubend.setdefault(pace[0], (pace[1], []))[1].append(claim)
        found: dict[FlowKey, float] = {}
        for limit, claims in by_pubend.values():
            found |= shares(claims, limit_msgs_s=limit)
        return found

    def limited(self, own: list[Flow]) -> list[FlowStatus]:
        """Our own publishers that are limited, for people."""
        found = [(flow, self.controller.limits[flow.key]) for flow in own if flow.key in self.controller.limits]
        return [
            FlowStatus(
                publisher=f"{flow.publisher:x}",
                traffic_class=flow.traffic_class,
                limit_msgs_s=round(limit.msgs_s, 3),
                reason=limit.reason,
                offered_msgs_s=round(flow.offered_msgs_s, 3),
                utility=round(self.controller.utility(flow.key), 4),
            )
            for flow, limit in found[:LIMITED_MAX]
        ]


def _priced(
    costs: tuple[dict[Budget, float], dict[Budget, float]], size_bytes: float
) -> tuple[tuple[Budget, float], ...]:
    per_byte, each = costs
    return (*((name, count * size_bytes) for name, count in per_byte.items()), *each.items())
