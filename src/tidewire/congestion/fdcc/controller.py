"""When does traffic give way, who, and until when? NORMAL → LIMITED → RECOVERING → NORMAL: epeer §2.10, §2.12.

One controller serves one head, for the brokers of its cluster. It is told once in every period how things are, and
answers which limits have changed. Others' limits are others' business: a publisher keeps to the least of all.

Limits are lifted by what is *offered*, never by what passes the limits, which would lift them and lower them in turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final, Literal

import msgspec

from tidewire.congestion.config import nanoseconds
from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.congestion.fdcc.selection import Budget, Flow, FlowKey, select, worth
from tidewire.congestion.fdcc.tiers import Tiers
from tidewire.congestion.fdcc.utility import Judgement, average, importance
from tidewire.model.ids import Nanoseconds
from tidewire.model.traffic import ClassKey

Mode = Literal["normal", "limited", "recovering"]
Reason = Literal["selection", "tier", "share"]

OWNERS_MAX: Final = 10_000
"""Of so many owners and classes the utility is remembered when their publishers have gone."""


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """One publisher in one class, as its head knows it."""

    key: FlowKey
    traffic_class: ClassKey
    offered_msgs_s: float
    """What it would send, were it not for our limits."""
    accepted_msgs_s: float
    """What it does send."""
    costs: tuple[tuple[Budget, float], ...]
    owner: str = ""
    """Whose it is: all publishers of one owner in a class have one tier together. Empty: nobody knows."""
    utility: float | None = None
    """As another head knows it, where the publisher is; None: as it was heard here."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """How things are."""

    flows: tuple[Offered, ...]
    subscribers: Mapping[ClassKey, float]
    """Of each class; one that speaks with several connections counts once."""
    capacities: Mapping[Budget, float]
    used: Mapping[Budget, float]
    """As measured. What is more than the flows explain is others', and they keep it."""
    is_short: bool
    """Is a broker overloaded, and nobody can take its load?"""
    reserves: Mapping[Budget, float] = {}
    """To work off what waits already."""


class Limit(msgspec.Struct, frozen=True):
    """What a flow may send, and why."""

    msgs_s: float
    reason: Reason


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What has been decided."""

    mode: Mode
    was: Mode
    limits: dict[FlowKey, Limit | None]
    """Those that have changed; None: it is free."""
    demand: dict[Budget, float]
    """How loaded everything would be with all that is offered."""
    predicted: dict[Budget, float]
    """How loaded everything will be under the limits."""


class Controller:
    """Of one head."""

    def __init__(self, config: FdccConfig) -> None:
        self._config = config
        self._tiers = Tiers(config)
        self.mode: Mode = "normal"
        self._heard: dict[FlowKey, Judgement] = {}
        self._judged_ns: Nanoseconds | None = None
        self._utilities: dict[FlowKey, float] = {}
        self._of_owners: dict[tuple[str, ClassKey], float] = {}
        self._accepted: dict[FlowKey, float] = {}
        self.limits: dict[FlowKey, Limit] = {}
        """Those that hold; who is not among them is free."""

    def hear(self, key: FlowKey, judgement: Judgement) -> None:
        """What subscribers think of a flow; what comes within one window is added up."""
        self._heard[key] = self._heard.get(key, Judgement()) + judgement

    def utility(self, key: FlowKey) -> float:
        """Of a publisher in its class: the last that is known, 1 before anybody has said anything."""
        return self._utilities.get(key, 1.0)

    def decide(self, view: View, *, now_ns: Nanoseconds) -> Decision:
        """A period has passed, or an attempt to move load elsewhere has failed."""
        self._judge(view, now_ns)
        others = self._others(view)
        demand = _loads(view, others, {flow.key: flow.offered_msgs_s for flow in view.flows})
        was, self.mode = self.mode, self._next_mode(view, demand)
        limits = self._limits(view, others) if self.mode == "limited" else {}
        changed: dict[FlowKey, Limit | None] = {key: None for key in self.limits if key not in limits}
        changed |= {key: limit for key, limit in limits.items() if self.limits.get(key) != limit}
        self.limits = limits
        rates = {
            flow.key: min(flow.offered_msgs_s, limits[flow.key].msgs_s if flow.key in limits else inf)
            for flow in view.flows
        }
        predicted = _loads(view, others, rates)
        return Decision(mode=self.mode, was=was, limits=changed, demand=demand, predicted=predicted)

    def importances(self, view: View) -> dict[ClassKey, float]:
        """Of the classes that anybody publishes (Eq 3, Eq 4)."""
        classes: dict[ClassKey, list[Offered]] = {}
        for flow in view.flows:
            classes.setdefault(flow.traffic_class, []).append(flow)
        return {
            key: importance(
                average(self.utility(flow.key) for flow in flows) or 0.0,
                subscribers=view.subscribers.get(key, 0.0),
                rate_msgs_s=sum(flow.offered_msgs_s for flow in flows),
            )
            for key, flows in classes.items()
        }

    def _judge(self, view: View, now_ns: Nanoseconds) -> None:
        """At the end of a window what was heard counts; of whom nobody spoke the last value stays (Eq 2)."""
        for flow in view.flows:
            if flow.utility is not None:
                self._utilities[flow.key] = flow.utility
            elif flow.key not in self._utilities and flow.owner:  # it does not begin anew by coming again
                self._utilities[flow.key] = self._of_owners.get((flow.owner, flow.traffic_class), 1.0)
        window_ns = nanoseconds(self._config.utility_window_s)
        if self._judged_ns is not None and now_ns - self._judged_ns < window_ns * 9 // 10:  # timers are not exact
            return
        self._judged_ns = now_ns
        known: dict[FlowKey, float] = {}
        for flow in view.flows:
            utility = self._heard.get(flow.key, Judgement()).utility
            known[flow.key] = self.utility(flow.key) if utility is None else utility
            if flow.owner and utility is not None:
                self._of_owners.pop((flow.owner, flow.traffic_class), None)
                self._of_owners[flow.owner, flow.traffic_class] = utility
        while len(self._of_owners) > OWNERS_MAX:
            del self._of_owners[next(iter(self._of_owners))]
        self._utilities = known
        self._heard = {}

    def _others(self, view: View) -> dict[Budget, float]:
        """What is used by none of the flows. A queue that is full uses less than what is sent to it: never below 0.

        Others measure a moment earlier or later than we do: what a flow sent a period ago may be what they have seen.
        """
        before, self._accepted = self._accepted, {flow.key: flow.accepted_msgs_s for flow in view.flows}
        known = dict.fromkeys(view.capacities, 0.0)
        for flow in view.flows:
            msgs_s = max(flow.accepted_msgs_s, before.get(flow.key, 0.0))
            for budget, cost in flow.costs:
                if budget in known:
                    known[budget] += msgs_s * cost
        return {budget: max(0.0, view.used.get(budget, 0.0) - amount) for budget, amount in known.items()}

    def _next_mode(self, view: View, demand: dict[Budget, float]) -> Mode:
        if self.mode == "limited":
            fits = all(load < self._config.threshold_low for load in demand.values())
            return "recovering" if fits else "limited"
        if view.is_short and any(load > self._config.threshold_high for load in demand.values()):
            return "limited"
        return "normal"

    def _limits(self, view: View, others: dict[Budget, float]) -> dict[FlowKey, Limit]:
        """The least of tier and selection, of each flow that has one."""
        tiers = self._tier_limits(view) if self._config.tiers else {}
        wanted = [
            Flow(
                key=flow.key,
                traffic_class=flow.traffic_class,
                utility=self.utility(flow.key),
                rate_msgs_s=min(flow.offered_msgs_s, tiers.get(flow.key, inf)),
                costs=flow.costs,
            )
            for flow in view.flows
        ]
        fraction = self._config.budget_fraction
        budgets = {budget: fraction * capacity - others[budget] for budget, capacity in view.capacities.items()}
        worths = {one.key: worth(one, view.subscribers.get(one.traffic_class, 0.0), budgets) for one in wanted}
        selected = select(
            wanted,
            self.importances(view),
            budgets,
            worths=worths if self._config.order == "publisher" else None,
            fractional_last=self._config.fractional_last,
            floor_msgs_s=self._config.floor_msgs_s,
            reserves=view.reserves,
        )
        found = {key: Limit(msgs_s, "tier") for key, msgs_s in tiers.items()}
        for key, msgs_s in selected.limits.items():
            if msgs_s < tiers.get(key, inf):
                found[key] = Limit(msgs_s, "selection")
        return found

    def _tier_limits(self, view: View) -> dict[FlowKey, float]:
        """Publishers of one owner in one class share the tier of each: to come twice brings nothing."""
        counts: dict[tuple[str, ClassKey], int] = {}
        for flow in view.flows:
            counts[flow.owner, flow.traffic_class] = counts.get((flow.owner, flow.traffic_class), 0) + 1
        return {
            flow.key: self._tiers.limit_msgs_s(self.utility(flow.key))
            / (counts[flow.owner, flow.traffic_class] if flow.owner else 1)
            for flow in view.flows
        }


def _loads(view: View, others: dict[Budget, float], rates: Mapping[FlowKey, float]) -> dict[Budget, float]:
    """How loaded everything is when the flows go so fast, as a share of its capacity."""
    total = dict(others)
    for flow in view.flows:
        for budget, cost in flow.costs:
            if budget in total:
                total[budget] += rates[flow.key] * cost
    return {
        budget: total[budget] / capacity if capacity > 0 else (inf if total[budget] > 0 else 0.0)
        for budget, capacity in view.capacities.items()
    }
