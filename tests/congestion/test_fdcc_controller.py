"""When traffic gives way, who, and until when: epeer §2.10 and §2.12, and nobody gains by lying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.congestion.fdcc.controller import Controller, Decision, Limit, Offered, View
from tidewire.congestion.fdcc.rate_filter import TokenBucket
from tidewire.congestion.fdcc.selection import Budget, Flow, FlowKey, select
from tidewire.congestion.fdcc.shares import Claim, shares
from tidewire.congestion.fdcc.utility import judgement
from tidewire.model.errors import BadConfiguration
from tidewire.model.ids import Nanoseconds
from tidewire.model.traffic import ClassKey

EDGE, HEAD = Budget("edge output"), Budget("head output")
GOOD, BAD = FlowKey("good"), FlowKey("bad")


def at(second: float) -> Nanoseconds:
    return Nanoseconds(round(second * 1e9))


class Scene:
    """Two publishers in two classes, each with subscribers at one edge, and a controller."""

    def __init__(self, **settings: Any) -> None:
        self.controller = Controller(FdccConfig(**{"tiers": False} | settings))
        self.second = 0
        self.offered = {GOOD: 100.0, BAD: 100.0}
        self.capacity = 1000.0
        self.is_short = False

    def limit(self, key: FlowKey) -> float | None:
        limit = self.controller.limits.get(key)
        return None if limit is None else limit.msgs_s

    def view(self, *, owner: Mapping[FlowKey, str] | None = None) -> View:
        flows = []
        for key, offered in self.offered.items():
            limit = self.limit(key)
            accepted = offered if limit is None else min(offered, limit)
            kind = ClassKey(key.split("-")[0])
            whose = (owner or {}).get(key, "")
            costs = (EDGE, 2.0), (HEAD, 1.0)
            flow = Offered(
                key=key, traffic_class=kind, offered_msgs_s=offered, accepted_msgs_s=accepted, costs=costs, owner=whose
            )
            flows.append(flow)
        return View(
            flows=tuple(flows),
            subscribers={flow.traffic_class: 2 for flow in flows},
            capacities={EDGE: self.capacity, HEAD: 10_000.0},
            used={EDGE: sum(min(2 * flow.accepted_msgs_s, self.capacity) for flow in flows)},
            is_short=self.is_short,
        )

    def period(self, utilities: Mapping[FlowKey, float] | None = None, **view: Any) -> Decision:
        for key, utility in (utilities or {}).items():
            self.controller.hear(key, judgement(utility))
        self.second += 1
        return self.controller.decide(self.view(**view), now_ns=at(self.second))


def test_nobody_gives_way_without_a_shortage() -> None:
    """epeer §2.10, trigger: overloaded, and nobody can take it; else balancing is the answer."""
    scene = Scene()
    scene.capacity = 100.0
    assert scene.period({GOOD: 0.9, BAD: 0.1}).mode == "normal"
    scene.is_short = True
    assert scene.period({GOOD: 0.9, BAD: 0.1}).mode == "limited"


def test_a_shortage_that_publishers_did_not_make_is_not_theirs() -> None:
    """What they offer would fit: to slow them would not help."""
    scene = Scene()
    scene.is_short = True
    assert scene.period().mode == "normal"


def test_the_least_valuable_gives_way_and_comes_back() -> None:
    """epeer §2.12: LIMITED as long as what is *offered* does not fit, then all limits are lifted at once."""
    scene = Scene()
    scene.period({GOOD: 0.9, BAD: 0.1})
    scene.capacity, scene.is_short = 300.0, True
    decision = scene.period({GOOD: 0.9, BAD: 0.1})
    assert decision.limits == {BAD: Limit(0.0, "selection")}
    assert decision.demand[EDGE] == pytest.approx(400 / 300)
    assert decision.predicted[EDGE] <= 0.95
    scene.is_short = False  # what passes fits by now: that is no reason to lift anything
    for _ in range(5):
        assert scene.period({GOOD: 0.9}).mode == "limited"
        assert scene.limit(BAD) == 0
    scene.capacity = 1000.0
    lifted = scene.period({GOOD: 0.9})
    assert (lifted.mode, lifted.limits, scene.limit(BAD)) == ("recovering", {BAD: None}, None)
    assert scene.period().mode == "normal"


def test_limits_are_lifted_with_room_to_spare() -> None:
    """epeer §2.10, recovery: below TH_low under offered load; between the thresholds all stays as it is."""
    scene = Scene()
    scene.capacity, scene.is_short = 300.0, True
    scene.period({GOOD: 0.9, BAD: 0.1})
    scene.is_short = False
    scene.capacity = 400 / 0.90
    assert scene.period().mode == "limited"
    scene.capacity = 400 / 0.89
    assert scene.period().mode == "recovering"


def test_a_shortage_that_returns_at_once_limits_at_once() -> None:
    scene = Scene()
    scene.capacity, scene.is_short = 300.0, True
    scene.period({GOOD: 0.9, BAD: 0.1})
    scene.capacity = 1000.0
    assert scene.period().mode == "recovering"
    scene.capacity = 300.0
    assert scene.period().mode == "limited"
    assert scene.limit(BAD) == 0


def test_tiers_hold_only_under_shortage() -> None:
    """epeer §2.10 and E17: utilities are followed always, tiers hold while LIMITED."""
    scene = Scene(tiers=True)
    assert scene.period({GOOD: 0.9, BAD: 0.1}).limits == {}
    scene.capacity, scene.is_short = 250.0, True
    decision = scene.period({GOOD: 0.9, BAD: 0.1})
    assert decision.limits == {GOOD: Limit(2000.0, "tier"), BAD: Limit(10.0, "tier")}
    assert decision.predicted[EDGE] == pytest.approx(220 / 250)


def test_the_last_opinion_stays() -> None:
    """epeer Eq 2: who is silent gets no feedback, and keeps the value that it had."""
    scene = Scene()
    scene.period({BAD: 0.1})
    for _ in range(3):
        scene.period()
    assert scene.controller.utility(BAD) == pytest.approx(0.1)
    assert scene.controller.utility(GOOD) == 1.0, "nobody has said anything yet"


def test_a_floor_lets_publishers_be_judged_anew() -> None:
    """``floor_msgs_s``: who has become valuable is heard, and the selection follows."""
    scene = Scene(floor_msgs_s=1.0)
    scene.capacity, scene.is_short = 300.0, True
    scene.period({GOOD: 0.9, BAD: 0.1})
    assert (scene.limit(GOOD), scene.limit(BAD)) == (None, 1.0)
    scene.period({GOOD: 0.1, BAD: 0.9})
    assert (scene.limit(GOOD), scene.limit(BAD)) == (1.0, None)


def test_what_others_send_is_not_handed_out() -> None:
    """Traffic that no flow explains keeps its place in the budget."""
    scene = Scene()
    scene.capacity, scene.is_short = 300.0, True
    view = scene.view()
    crowded = View(
        flows=view.flows, subscribers=view.subscribers, capacities=view.capacities, used={EDGE: 500.0}, is_short=True
    )
    decision = scene.controller.decide(crowded, now_ns=at(1))
    assert decision.limits == {BAD: Limit(0.0, "selection"), GOOD: Limit(0.0, "selection")}


def test_to_come_again_is_not_to_begin_anew() -> None:
    """A publisher that nobody values comes back under another number: its owner is known by what it did."""
    scene = Scene(tiers=True)
    scene.period({BAD: 0.1}, owner={BAD: "eve"})
    again = FlowKey("bad-again")
    del scene.offered[BAD]
    scene.offered[again] = 100.0
    scene.period(owner={again: "eve"})
    assert scene.controller.utility(again) == pytest.approx(0.1)


def test_many_connections_have_one_tier() -> None:
    """One owner with ten publishers in a class may send no more than with one."""
    scene = Scene(tiers=True)
    many = [FlowKey(f"bad-{i}") for i in range(10)]
    scene.offered = {GOOD: 100.0} | dict.fromkeys(many, 100.0)
    scene.capacity, scene.is_short = 500.0, True
    scene.period(dict.fromkeys(many, 0.1) | {GOOD: 0.9}, owner=dict.fromkeys(many, "eve"))
    assert sum(scene.limit(key) or 0 for key in many) == pytest.approx(10)


KEYS = st.sampled_from("abcdef")
FLOWS = st.lists(st.tuples(KEYS, st.floats(0, 1), st.floats(0, 1e4), st.floats(0, 1e3), st.floats(0, 1e3)), max_size=12)


@given(FLOWS, st.floats(0, 1e6), st.floats(0, 1e6), st.booleans())
def test_what_is_admitted_fits_everywhere(
    made: list[tuple[str, float, float, float, float]], edge: float, head: float, is_fractional: bool
) -> None:
    """epeer §2.10, invariant: of no budget more is used than there is."""
    flows = [
        Flow(FlowKey(f"p{i}"), ClassKey(kind), utility, rate, ((EDGE, at_edge), (HEAD, at_head)))
        for i, (kind, utility, rate, at_edge, at_head) in enumerate(made)
    ]
    budgets = {EDGE: edge, HEAD: head}
    selected = select(flows, {}, budgets, fractional_last=is_fractional)
    used = dict.fromkeys(budgets, 0.0)
    for flow in flows:
        rate = min(flow.rate_msgs_s, selected.limits.get(flow.key, flow.rate_msgs_s))
        for budget, cost in flow.costs:
            used[budget] += rate * cost
    for budget, amount in budgets.items():
        assert used[budget] <= amount * (1 + 1e-6) + 1e-6


@given(FLOWS, st.floats(0, 1e5))
def test_shares_keep_to_the_limit_and_to_rank(made: list[tuple[str, float, float, float, float]], limit: float) -> None:
    """design §3.6: together no more than PDCC allows; who has less than it asks for leaves nothing to those behind."""
    claims = [
        Claim(FlowKey(f"p{i}"), importance, utility, rate) for i, (_, utility, rate, importance, _) in enumerate(made)
    ]
    found = shares(claims, limit_msgs_s=limit)
    assert sum(found.values()) <= limit * (1 + 1e-9)
    for one in claims:
        if found[one.key] < one.rate_msgs_s * (1 - 1e-9) - 1e-9:
            behind = [c for c in claims if (c.importance, c.utility) < (one.importance, one.utility)]
            assert all(found[c.key] <= limit * 1e-9 for c in behind)


def test_equals_share_evenly() -> None:
    claims = [Claim(FlowKey(key), 1.0, 1.0, rate) for key, rate in (("a", 10.0), ("b", 100.0), ("c", 100.0))]
    assert shares(claims, limit_msgs_s=90.0) == {"a": 10.0, "b": 40.0, "c": 40.0}


def test_a_bucket_fills_with_time() -> None:
    """Never more than a second's worth at once, never more than the limit for long."""
    bucket = TokenBucket(10, now_ns=at(0))
    passed = sum(bucket.passes(now_ns=at(i / 1000)) for i in range(5000))
    assert passed == pytest.approx(10 + 50, abs=1)
    assert bucket.retry_after_s(now_ns=at(5)) == pytest.approx(0.1, abs=0.1)
    bucket.limit(0, now_ns=at(6))
    assert not bucket.passes(now_ns=at(100))
    assert bucket.retry_after_s(now_ns=at(100)) == float("inf")


@pytest.mark.parametrize(
    "settings",
    [
        {"tier_edges": (0.4, 0.2, 0.6, 0.8)},
        {"tier_limits_msgs_s": (1.0,)},
        {"threshold_low": 0.96},
        {"budget_fraction": 0.0},
        {"feedback_s": 0.0},
        {"floor_msgs_s": -1.0},
        {"overloaded_periods": 0},
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(BadConfiguration):
        FdccConfig(**settings)
