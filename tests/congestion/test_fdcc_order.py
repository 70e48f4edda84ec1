"""Publishers by what they are worth, whatever class they are of: beyond epeer §2.10."""

from __future__ import annotations

import pytest

from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.congestion.fdcc.controller import Controller, Offered, View
from tidewire.congestion.fdcc.selection import Budget, Flow, FlowKey, select, worth
from tidewire.congestion.fdcc.utility import Judgement
from tidewire.model.ids import Nanoseconds
from tidewire.model.traffic import ClassKey

EDGE, HEAD = Budget("edge"), Budget("head")


def flow(key: str, traffic_class: str, utility: float, rate: float, cost: float = 1.0) -> Flow:
    return Flow(FlowKey(key), ClassKey(traffic_class), utility, rate, ((EDGE, cost),))


def test_the_useless_of_an_important_class_gives_way_to_the_useful_of_another() -> None:
    """By class, all of the more important one is admitted first (epeer §2.10); by publisher its useless part is not."""
    flows = [flow("good", "t", 0.9, 50), flow("bad", "t", 0.0, 50), flow("other", "u", 0.5, 50)]
    importances = {ClassKey("t"): 2.0, ClassKey("u"): 1.0}
    by_class = select(flows, importances, {EDGE: 100.0})
    assert list(by_class.limits) == ["other"]
    worths = {one.key: worth(one, 1.0, {EDGE: 100.0}) for one in flows}
    by_publisher = select(flows, importances, {EDGE: 100.0}, worths=worths)
    assert list(by_publisher.limits) == ["bad"]


def test_worth_is_utility_for_what_is_taken_of_all_budgets() -> None:
    """As much utility to as many for half of the bytes is worth twice as much."""
    budgets = {EDGE: 100.0, HEAD: 50.0}
    small, large = (
        Flow(FlowKey("f"), ClassKey("t"), 0.5, 1.0, ((EDGE, 3 * size), (HEAD, size))) for size in (10.0, 20.0)
    )
    assert worth(small, 3.0, budgets) == pytest.approx(0.5 * 3 / (30 / 100 + 10 / 50))
    assert worth(small, 3.0, budgets) == pytest.approx(2 * worth(large, 3.0, budgets))


def test_the_controller_goes_by_the_order_that_it_is_told() -> None:
    """``order``: the class's importance, or each publisher's worth. No budget is exceeded by either."""
    for order, silent in (("class", "other"), ("publisher", "bad")):
        controller = Controller(FdccConfig(policy="fdcc", tiers=False, order=order))  # type: ignore[arg-type]
        offered = []
        for key, traffic_class, utility in (("good", "t", 0.9), ("bad", "t", 0.1), ("other", "u", 0.45)):
            controller.hear(FlowKey(key), Judgement(utility, 1.0))
            offered.append(
                Offered(
                    key=FlowKey(key),
                    traffic_class=ClassKey(traffic_class),
                    offered_msgs_s=45.0,
                    accepted_msgs_s=45.0,
                    costs=((EDGE, 1.0),),
                )
            )
        view = View(
            flows=tuple(offered),
            subscribers={ClassKey("t"): 4.0, ClassKey("u"): 1.0},
            capacities={EDGE: 100.0},
            used={EDGE: 135.0},
            is_short=True,
        )
        decision = controller.decide(view, now_ns=Nanoseconds(1_000_000_000))
        assert {key: limit.msgs_s for key, limit in controller.limits.items()} == {silent: 0.0}
        assert decision.predicted[EDGE] <= 0.95
