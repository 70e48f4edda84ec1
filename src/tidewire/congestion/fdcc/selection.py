"""Which publishers keep publishing, when not all can? The most important classes first, in them the best publishers:
epeer §2.10, within the budget of every broker on the way of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final, NewType

import msgspec

from tidewire.model.traffic import ClassKey

FlowKey = NewType("FlowKey", str)
"""One publisher in one class (epeer E23)."""
Budget = NewType("Budget", str)
"""Something that there is so much of per second: what a broker may send, take in, or match."""

_ROUNDING: Final = 1e-9
"""Of a budget: a tenth, ten times, is all of it."""


class Flow(msgspec.Struct, frozen=True):
    """What one publisher would send in one class."""

    key: FlowKey
    traffic_class: ClassKey
    utility: float
    rate_msgs_s: float
    costs: tuple[tuple[Budget, float], ...]
    """What one message takes of each budget on its way: at an edge its size times the subscribers there, at a head its
    size times the neighbours that it goes to."""

    @property
    def needs(self) -> dict[Budget, float]:
        """What all of it takes."""
        return {budget: self.rate_msgs_s * cost for budget, cost in self.costs}


class Selection(msgspec.Struct, frozen=True):
    """Who is limited, and what is left."""

    limits: dict[FlowKey, float]
    """Messages per second of those that are not admitted in full."""
    left: dict[Budget, float]


def select(
    flows: Iterable[Flow],
    importances: Mapping[ClassKey, float],
    budgets: Mapping[Budget, float],
    *,
    fractional_last: bool = False,
    floor_msgs_s: float = 0.0,
    worths: Mapping[FlowKey, float] | None = None,
    reserves: Mapping[Budget, float] | None = None,
) -> Selection:
    """Admit what fits, by importance of the classes and then by utility; of those who do not fit nothing is taken.

    A class that does not fit as a whole keeps the best of its publishers up to the first that does not fit; then it is
    the next one's turn (epeer E15). Equal classes and publishers go by their names. ``floor_msgs_s`` is kept for
    everybody beforehand. ``reserves`` are for what waits already: all but the first leave them alone.
    ``worths``: each publisher by itself, by what it is worth, whatever class it is of.
    """
    chosen = _Chosen(budgets, fractional_last=fractional_last)
    classes: dict[ClassKey, list[Flow]] = {}
    for flow in flows:
        classes.setdefault(flow.traffic_class, []).append(flow)
        chosen.take(flow, min(floor_msgs_s, flow.rate_msgs_s))
    if worths is None:
        order = sorted(classes, key=lambda key: (-importances.get(key, 0.0), key))
        groups = [sorted(classes[key], key=lambda flow: (-flow.utility, flow.key)) for key in order]
    else:
        alone = [flow for of_class in classes.values() for flow in of_class]
        groups = [[flow] for flow in sorted(alone, key=lambda flow: (-worths.get(flow.key, 0.0), flow.key))]
    for group in groups:
        chosen.admit(group, floor_msgs_s)
        chosen.keep(reserves or {})
        reserves = None
    return Selection(chosen.limits, chosen.left)


def worth(flow: Flow, subscribers: float, budgets: Mapping[Budget, float]) -> float:
    """What is had of a message for what it takes: its utility to all who get it, over its shares of all budgets."""
    taken = sum(cost / budgets[budget] for budget, cost in flow.costs if budgets.get(budget, 0.0) > 0)
    return flow.utility * subscribers / taken if taken > 0 else inf


class _Chosen:
    """One selection, in the making."""

    def __init__(self, budgets: Mapping[Budget, float], *, fractional_last: bool) -> None:
        self.left = dict(budgets)
        self.limits: dict[FlowKey, float] = {}
        self._slack = {budget: abs(amount) * _ROUNDING for budget, amount in budgets.items()}
        self._is_fractional = fractional_last

    def take(self, flow: Flow, msgs_s: float) -> None:
        """So much of it is admitted."""
        for budget, cost in flow.costs:
            if budget in self.left:
                self.left[budget] -= cost * msgs_s

    def keep(self, reserves: Mapping[Budget, float]) -> None:
        """So much is not handed out."""
        for budget, amount in reserves.items():
            if budget in self.left:
                self.left[budget] -= amount

    def admit(self, ranked: list[Flow], floor_msgs_s: float) -> None:
        """One class, its best publishers first: all, or those up to the first that does not fit."""
        needs: dict[Budget, float] = {}
        more = [max(0.0, flow.rate_msgs_s - floor_msgs_s) for flow in ranked]
        for flow, msgs_s in zip(ranked, more, strict=True):
            for budget, cost in flow.costs:
                needs[budget] = needs.get(budget, 0.0) + cost * msgs_s
        is_open = True
        fits_whole = self._fits(needs.items())
        for flow, msgs_s in zip(ranked, more, strict=True):
            if fits_whole or (is_open and self._fits((budget, cost * msgs_s) for budget, cost in flow.costs)):
                self.take(flow, msgs_s)
                continue
            part = self._part(flow, msgs_s) if is_open and self._is_fractional else 0.0
            self.take(flow, part)
            self.limits[flow.key] = min(floor_msgs_s, flow.rate_msgs_s) + part
            is_open = False

    def _fits(self, needs: Iterable[tuple[Budget, float]]) -> bool:
        """What needs nothing fits, also where too much is taken already."""
        return all(
            need <= 0 or need <= self.left[budget] + self._slack[budget]
            for budget, need in needs
            if budget in self.left
        )

    def _part(self, flow: Flow, msgs_s: float) -> float:
        """How much of it still fits."""
        rooms = (self.left[budget] / cost for budget, cost in flow.costs if budget in self.left and cost > 0)
        return max(0.0, min(msgs_s, min(rooms, default=inf)))
