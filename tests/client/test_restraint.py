"""What a publisher may make under shortage, and what it says of itself (epeer §2.10, client pipeline)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tidewire.client.restraint import Restraint
from tidewire.model.errors import Overloaded
from tidewire.model.ids import Nanoseconds
from tidewire.model.shortage_messages import AskOpinions, FlowLimit, Limits, Quench
from tidewire.model.traffic import ClassKey
from tidewire.model.values import Value

SECOND = 1_000_000_000
QUAKE, NEWS = {"class": "QUAKE"}, {"class": "NEWS"}


def at(seconds: float) -> Nanoseconds:
    return Nanoseconds(round(seconds * SECOND))


def class_of(attributes: Mapping[str, Value]) -> ClassKey:
    return ClassKey(f"={attributes['class']!s}")


def restraint() -> Restraint:
    return Restraint(AskOpinions(1.0, "class"), class_of, now_ns=at(0))


def passes(one: Restraint, attributes: Mapping[str, Value], second: float, *, guaranteed: bool = False) -> bool:
    """Is it made? Not if nobody wants it, nor beyond a limit."""
    offers = {1: lambda event: event["class"] == "QUAKE", 2: lambda event: event["class"] == "NEWS"}
    try:
        return one.check(attributes, is_guaranteed=guaranteed, offers=offers, now_ns=at(second)) is not None
    except Overloaded:
        return False


def test_without_limits_all_pass_and_are_told() -> None:
    """epeer §2.11, OFFERED_RATE: once in a period, by class."""
    one = restraint()
    assert all(passes(one, QUAKE, i / 100) for i in range(100))
    assert passes(one, NEWS, 0.5, guaranteed=True)
    one.sent(ClassKey("=QUAKE"), 600)
    assert one.due(now_ns=at(0.9)) is None
    said = one.due(now_ns=at(2))
    assert said is not None
    assert [(o.traffic_class, o.offered_msgs_s, o.guaranteed_msgs_s, o.size_bytes) for o in said.offers] == [
        ("=QUAKE", 50.0, 0.0, 600.0),
        ("=NEWS", 0.5, 0.5, 0.0),
    ]
    silent = one.due(now_ns=at(3))
    assert silent is not None, "that there is nothing more is said too, once"
    assert [o.offered_msgs_s for o in silent.offers] == [0.0, 0.0]
    assert one.due(now_ns=at(4)) is None
    assert one.deadline_ns() is None


def test_a_limit_holds_for_its_class() -> None:
    """epeer G20, live: a token bucket; the error says how much, why and when. What is offered counts all the same."""
    one = restraint()
    one.limited(Limits([FlowLimit("=QUAKE", 10.0, "tier")]), now_ns=at(0))
    assert sum(passes(one, QUAKE, 0) for _ in range(25)) == 10
    assert all(passes(one, NEWS, 0) for _ in range(25))
    with pytest.raises(Overloaded) as caught:
        one.check(QUAKE, is_guaranteed=False, offers={}, now_ns=at(0))
    assert (caught.value.limit_msgs_s, caught.value.reason) == (10.0, "tier")
    assert caught.value.retry_after_s == pytest.approx(0.1)
    assert one.held_back == 16
    said = one.due(now_ns=at(1))
    assert said is not None
    assert said.offers[0].offered_msgs_s == 26.0
    one.limited(Limits([FlowLimit("=QUAKE", None)]), now_ns=at(1))
    assert all(passes(one, QUAKE, 1) for _ in range(100))


def test_a_limit_of_none_at_all() -> None:
    """Limit 0: nothing passes; it is tried again when limits are looked at again."""
    one = restraint()
    one.limited(Limits([FlowLimit("=QUAKE", 0.0)]), now_ns=at(0))
    with pytest.raises(Overloaded) as caught:
        one.check(QUAKE, is_guaranteed=False, offers={}, now_ns=at(100))
    assert caught.value.retry_after_s == 1.0
    assert one.limits == {"=QUAKE": (0.0, "selection")}


def test_the_least_of_two_limits_holds() -> None:
    """design §3.6: a share of a stream is for guaranteed events, beside the limit of all."""
    one = restraint()
    both = [FlowLimit("=QUAKE", 10.0, "tier"), FlowLimit("=QUAKE", 2.0, "share", guaranteed_only=True)]
    one.limited(Limits(both), now_ns=at(0))
    assert sum(passes(one, QUAKE, 0, guaranteed=True) for _ in range(25)) == 2
    assert sum(passes(one, QUAKE, 0) for _ in range(25)) == 8
    assert one.limits == {"=QUAKE": (2.0, "share")}


def test_what_nobody_wants_is_not_made() -> None:
    """epeer §2.11, QUENCH: best effort alone; and it is made again as soon as somebody does."""
    one = restraint()
    one.quench(Quench(1, [1], []))
    assert not passes(one, QUAKE, 0)
    assert passes(one, QUAKE, 0, guaranteed=True)
    assert passes(one, NEWS, 0)
    assert one.unwanted == 1
    one.quench(Quench(2, [], [1]))
    assert passes(one, QUAKE, 0)
