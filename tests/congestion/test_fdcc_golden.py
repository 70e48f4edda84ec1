"""Utilities, tiers, selection and filters as epeer §5 gives them: G14–G20, and the arithmetic of G21."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.congestion.fdcc.rate_filter import FixedWindows, TokenBucket
from tidewire.congestion.fdcc.selection import Budget, Flow, FlowKey, select
from tidewire.congestion.fdcc.tiers import Tiers
from tidewire.congestion.fdcc.utility import (
    Judgement,
    average,
    experience,
    importance,
    judgement,
    keyword_utility,
)
from tidewire.model.ids import Nanoseconds
from tidewire.model.traffic import ClassKey

OUTPUT = Budget("output")


def flow(key: str, traffic_class: str, utility: float, needs: float) -> Flow:
    """A publisher that needs so much of the one budget that there is."""
    return Flow(FlowKey(key), ClassKey(traffic_class), utility, needs, ((OUTPUT, 1.0),))


def test_the_utility_of_words() -> None:
    """epeer G14, Eq 8: two of four interests, two of three words; without words 0, without interests no answer."""
    interests = ["tsunami", "wave", "height", "evacuate"]
    assert keyword_utility(interests, ["tsunami", "evacuate", "road"]) == pytest.approx(1 / 3)
    assert keyword_utility(interests, reversed(interests)) == 1  # type: ignore[arg-type]
    assert keyword_utility(interests, ["road", "music"]) == 0
    assert keyword_utility(interests, []) == 0
    assert keyword_utility([], ["tsunami"]) is None


def test_the_utility_of_a_publisher() -> None:
    """epeer G15: Eq 1 and 2, and what they make of the rate; sums of sums are the same."""
    assert average([0.2, 0.4, 0.9]) == pytest.approx(0.5)
    tiers = Tiers(FdccConfig())
    alike = judgement(0.5) + judgement(0.3)
    assert alike.utility == pytest.approx(0.4)
    assert tiers.limit_msgs_s(alike.utility or 0) == 500
    unlike = judgement(0.5) + judgement(0.3, weight=0.5)
    assert unlike.utility == pytest.approx(0.325)
    assert tiers.limit_msgs_s(unlike.utility or 0) == 200
    assert Judgement().utility is None, "nobody has spoken: the last value stays"


@pytest.mark.parametrize(
    ("utility", "limit"), [(0, 10), (0.19, 10), (0.2, 200), (0.4, 500), (0.6, 900), (0.8, 2000), (1, 2000)]
)
def test_tiers(utility: float, limit: float) -> None:
    """epeer G16: an edge belongs to the tier above it."""
    assert Tiers(FdccConfig()).limit_msgs_s(utility) == limit


def test_the_importance_of_a_class() -> None:
    """epeer G17: Eq 3 and Eq 4."""
    utility = average([0.4, 0.8])
    assert utility == pytest.approx(0.6)
    assert importance(utility or 0, subscribers=30, rate_msgs_s=600) == pytest.approx(0.03)


def test_selection() -> None:
    """epeer G18: by importance; a class that does not fit keeps its best, and the next one has its turn (E15)."""
    important = {
        ClassKey("t1"): importance(0.8, subscribers=10, rate_msgs_s=100),
        ClassKey("t2"): importance(0.5, subscribers=40, rate_msgs_s=200),
        ClassKey("t3"): importance(0.9, subscribers=2, rate_msgs_s=50),
    }
    assert [round(value, 9) for value in important.values()] == [0.08, 0.1, 0.036]
    flows = [flow("p1", "t1", 0.9, 300), flow("p2", "t1", 0.7, 200), flow("p3", "t2", 0.5, 600)]
    flows.append(flow("p4", "t3", 0.9, 90))
    selected = select(flows, important, {OUTPUT: 1000.0})
    assert selected.limits == {"p2": 0.0}
    assert selected.left[OUTPUT] == pytest.approx(10)


def test_the_last_may_get_a_part() -> None:
    """epeer §2.10, ``fractional_last``: the first that does not fit gets what is left, and those behind it nothing."""
    flows = [flow("p1", "t", 0.9, 600), flow("p2", "t", 0.7, 600), flow("p3", "t", 0.5, 600)]
    selected = select(flows, {}, {OUTPUT: 1000.0}, fractional_last=True)
    assert selected.limits == {"p2": pytest.approx(400), "p3": 0.0}
    assert selected.left[OUTPUT] == pytest.approx(0)


def test_experience() -> None:
    """epeer G19: Eq 5 and 6 do not ask how much comes of each, only whether anything does (E12, E13)."""
    before = average([0.5, 0.1])
    assert before == pytest.approx(0.3)
    assert experience([(1.0, before or 0), (1.0, 0.7)]) == pytest.approx(0.5)
    slowed = [average([0.5] * 100), average([0.1] * 1)]
    assert average(one for one in slowed if one is not None) == pytest.approx(0.3)
    stopped = [average([0.5] * 100), average([])]
    assert average(one for one in stopped if one is not None) == pytest.approx(0.5)


def test_the_filter() -> None:
    """epeer G20: ten of twenty-five pass; with 0 none do. A token bucket lets the same through in its first second."""
    at = [Nanoseconds(40_000_000 * i) for i in range(25)]
    assert sum(filter_.passes(now_ns=now) for filter_ in [FixedWindows(10)] for now in at) == 10
    assert not any(FixedWindows(0).passes(now_ns=now) for now in at)
    burst = TokenBucket(10, now_ns=at[0])
    assert sum(burst.passes(now_ns=at[0]) for _ in range(25)) == 10
    assert not any(TokenBucket(0, now_ns=at[0]).passes(now_ns=now) for now in at)


def test_headline_arithmetic() -> None:
    """epeer G21, of the experience: the ratio of the means."""
    gain = (Fraction("0.3348") - Fraction("0.2671")) / Fraction("0.2671")
    assert round(float(gain * 100), 3) == 25.346
