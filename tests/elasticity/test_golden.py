"""The golden values of esilbops §6."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.elasticity.engine import Engine, named
from tidewire.elasticity.connection_point import ConnectionPoint, HandOver
from tidewire.elasticity.controller import Controller, Launch, Persist, Record
from tidewire.elasticity.exit_point import ExitPoint
from tidewire.elasticity.matcher_slice import Match, MatcherSlice
from tidewire.elasticity.messages import Batch, CountChange, ExitChange, Part, Partial, PreEnd, Result, Tell
from tidewire.elasticity.selectors import SELECTORS, chosen
from tidewire.elasticity.speedup import drain_rate, efficiency, held_batches, serial_fraction, slices_counted
from tidewire.elasticity.views import SliceId, View
from tidewire.model.errors import Unavailable, UnknownName, UsageError

A0, A1, M0, M1, M2, E0 = (SliceId(name) for name in ("a0", "a1", "m0", "m1", "m2", "e0"))


def engine(access: int, matchers: int, exits: int) -> Engine:
    """With the paper's selector."""
    return Engine(access=access, matchers=matchers, exits=exits, selector="modulo", random=Random(1))


def parts(made: Engine) -> dict[tuple[SliceId, int], list[int]]:
    """Who sent which subscriptions to whom; the receiver by its place."""
    return {
        (sender, message.view.matchers.index(to)): sorted(message.subscriptions)
        for sender, to, message in made.sent
        if isinstance(message, Part)
    }


def held(made: Engine) -> list[list[int]]:
    """By matcher of the view: what it holds."""
    return [sorted(made.matchers[one].present) for one in made.remembered.view.matchers]


def scaled(made: Engine, matchers: int) -> Engine:
    """To so many, and to the end."""
    made.run()
    made.sent.clear()
    made.scale(matchers=matchers)
    made.run()
    return made


def test_a_state_is_parted_by_the_selector() -> None:
    """esilbops S1: 2 → 3."""
    made = engine(1, 2, 1)
    for subscription in range(6):
        made.subscribe(A0, subscription, (0,))
    made.run()
    assert held(made) == [[0, 2, 4], [1, 3, 5]]
    scaled(made, 3)
    new = made.remembered.view.matchers[2]
    assert parts(made) == {
        (M0, 0): [0], (M0, 1): [4], (M0, 2): [2],
        (M1, 0): [3], (M1, 1): [1], (M1, 2): [5],
        (new, 0): [], (new, 1): [], (new, 2): [],
    }  # fmt: skip
    assert held(made) == [[0, 3], [1, 4], [2, 5]]


def test_scaling_in_brings_it_back() -> None:
    """esilbops S2: 3 → 2; each of the two waits for three parts, the third is empty."""
    made = engine(1, 3, 1)
    for subscription in range(6):
        made.subscribe(A0, subscription, (0,))
    scaled(made, 2)
    assert held(made) == [[0, 2, 4], [1, 3, 5]]
    assert Counter(place for _, place in parts(made)) == {0: 3, 1: 3}
    assert made.matchers[M2].present == {}


@pytest.mark.parametrize(
    ("shape", "matchers", "expected"),
    [
        ((1, 1, 1), 3, {"Begin": 3, "Part": 9, "Ready": 3, "CountChange": 1 + 1, "StateChange": 3, "CountChanged": 1}),
        ((2, 2, 2), 3, {"Begin": 6, "Part": 9, "Ready": 3, "CountChange": 4 + 8, "StateChange": 6, "CountChanged": 2}),
    ],
)
def test_messages_are_as_many_as_counted(shape: tuple[int, int, int], matchers: int, expected: dict[str, int]) -> None:
    """esilbops S3, S4; START counts from access points to matchers."""
    made = scaled(engine(*shape), matchers)
    counts = Counter(type(message).__name__ for sender, _, message in made.sent if sender != "controller")
    assert {name: counts[name] for name in expected} == expected


def batch(access: SliceId, number: int) -> Batch:
    """Of one publisher."""
    return Batch(access, number, (0,), {0: [number]})


def test_all_matchers_agree_on_the_cut() -> None:
    """esilbops S5: AP1 sends N1, N3, EPS, N5; APn sends N2, EPS, N4, in any order."""
    old = View(number=0, access=(A0, A1), matchers=(M0,), exits=(E0,), selector="modulo")
    new = View(number=1, access=(A0, A1), matchers=(M0,), exits=named("e", 2), selector="modulo")
    orders = [
        [(A0, 1), (A0, 3), (A1, 2), (A0, 0), (A1, 0), (A0, 5), (A1, 4)],
        [(A1, 2), (A0, 1), (A0, 3), (A1, 0), (A1, 4), (A0, 0), (A0, 5)],
    ]
    for order in orders:
        matcher = MatcherSlice(M0, old)
        views: dict[int, int] = {}
        for sender, number in order:
            message = ExitChange(new) if number == 0 else batch(sender, number)
            effects = matcher.heard(sender, message)
            if number == 4 and order is orders[1]:
                assert effects == [], "N4 is held although the marker of AP1 has not come"
            views |= {one.batch.number: one.view.number for one in effects if isinstance(one, Match)}
        assert views == {1: 0, 2: 0, 3: 0, 4: 1, 5: 1}


def test_what_is_pending_waits_for_as_many_as_it_did() -> None:
    """esilbops S6: 2 → 3; N is delivered after M2's partial, and does not wait for a third."""
    view = View(number=0, access=(A0,), matchers=(M0, M1), exits=(E0,))
    exit_point = ExitPoint(E0, view)
    exit_point.heard(Partial(A0, 1, M0, (0,), ["first"]))
    exit_point.heard(CountChange(1, A0, 3))
    told = exit_point.heard(Partial(A0, 1, M1, (0,), ["second"]))
    assert [one.message for one in told] == [Result(A0, 1, E0, (0,), (["first"], ["second"]))]
    exit_point.heard(Partial(A0, 2, M0, (0,), []))
    assert exit_point.heard(Partial(A0, 2, M1, (0,), [])) == []
    assert exit_point.heard(Partial(A0, 2, M2, (0,), []))


def test_answers_become_one_message() -> None:
    """esilbops S7: partials {c1:{s1},c2:{s2}} and {c1:{s3}}: one to c1 for {s1,s3}, one to c2 for {s2}."""
    exit_point = ExitPoint(E0, View(number=0, access=(A0,), matchers=(M0, M1), exits=(E0,)))
    exit_point.heard(Partial(A0, 1, M0, (0,), {"c1": ["s1"], "c2": ["s2"]}))
    [told] = exit_point.heard(Partial(A0, 1, M1, (0,), {"c1": ["s3"]}))
    assert isinstance(told.message, Result)
    merged: dict[str, list[str]] = {}
    for part in told.message.found:
        for client, subscriptions in part.items():
            merged.setdefault(client, []).extend(subscriptions)
    assert merged == {"c1": ["s1", "s3"], "c2": ["s2"]}


@pytest.mark.parametrize(("slices", "expected"), [(6, 0.566667), (7, 0.485714), (8, 0.425)])
def test_efficiency(slices: int, expected: float) -> None:
    """esilbops S8."""
    assert efficiency(3.4, slices) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("speedup", "slices", "expected"),
    [(3.4, 6, 0.152941), (3.4, 7, 0.176471), (3.4, 8, 0.193277), (2, 4, 1 / 3), (5, 5, 0), (1, 5, 1)],
)
def test_serial_fraction(speedup: float, slices: int, expected: float) -> None:
    """esilbops S9."""
    assert serial_fraction(speedup, slices) == pytest.approx(expected, abs=5e-7)
    with pytest.raises(ValueError, match="one slice"):
        serial_fraction(1.0, 1)
    assert slices_counted(matchers=3, exits=1) == slices_counted(matchers=2, exits=2) == 3


def test_buffers() -> None:
    """esilbops S10: about 980 are buffered, and drained at about 10,000 a second."""
    assert held_batches(events_s=2000, switch_s=0.49) == pytest.approx(980)
    assert drain_rate(events_s=2000, switch_s=0.49, flush_s=0.098) == pytest.approx(10_000)


# -- beyond the paper --------------------------------------------------------------------------------------------------


def moved(selector: str, before: list[str], after: list[str]) -> float:
    """The share of keys that are held elsewhere."""
    keys = range(4000)
    return sum(chosen(selector, before, key) != chosen(selector, after, key) for key in keys) / len(keys)


def test_a_selector_moves_no_more_than_it_has_to() -> None:
    """esilbops §8: about (n - o) / n of the state; modulo moves most of it."""
    few, more = ["m0", "m1", "m2"], ["m0", "m1", "m2", "m3"]
    assert moved("modulo", few, more) > 0.7
    for selector in ("jump", "rendezvous"):
        assert moved(selector, few, more) == pytest.approx(0.25, abs=0.03)
        assert moved(selector, more, few) == pytest.approx(0.25, abs=0.03)
    assert moved("rendezvous", more, ["m0", "m2", "m3"]) == pytest.approx(0.25, abs=0.03)
    with pytest.raises(UnknownName):
        chosen("random", few, 1)


@pytest.mark.parametrize("selector", ["jump", "rendezvous"])
def test_a_selector_spreads_evenly(selector: str) -> None:
    """Also where keys follow each other."""
    counts = Counter(chosen(selector, [f"m{i}" for i in range(5)], key) for key in range(10_000))
    assert max(counts.values()) / min(counts.values()) < 1.15
    assert list(SELECTORS) == ["modulo", "jump", "rendezvous"]


def test_a_slice_is_replaced() -> None:
    """esilbops §8: the stack of the paper cannot; here the one that is named goes, and another takes over."""
    made = Engine(access=1, matchers=3, exits=1, random=Random(1))
    for subscription in range(30):
        made.subscribe(A0, subscription, (0,))
    made.run()
    made.scale(matchers=3, without=(M1,))
    made.run()
    matchers = made.remembered.view.matchers
    assert len(matchers) == 3
    assert M1 not in matchers
    made.check(dict.fromkeys(range(30), (0,)))


def controller(phase: Any = "normal") -> Controller:
    """Of an engine 1-1-1."""
    view = View(number=0, access=(A0,), matchers=(M0,), exits=(E0,))
    return Controller(Record(view, phase))


def test_one_change_at_a_time() -> None:
    """esilbops §5."""
    made = controller()
    made.scale(matchers=2)
    with pytest.raises(Unavailable, match="launch"):
        made.scale(matchers=3)


@pytest.mark.parametrize(
    ("layers", "part"),
    [
        ({}, "one layer"),
        ({"matchers": 1, "exits": 1}, "one layer"),
        ({"matchers": 0}, "from 1"),
        ({"exits": 65}, "from 1"),
        ({"matchers": 1, "without": (SliceId("m9"),)}, "no slice m9"),
    ],
)
def test_what_cannot_be_is_refused(layers: dict[str, Any], part: str) -> None:
    """With what can be."""
    with pytest.raises(UsageError, match=part):
        controller().scale(**layers)


def test_what_must_be_known_after_a_restart_is_durable_first() -> None:
    """esilbops §5: phases are persisted before anything is done about them."""
    effects = controller().scale(matchers=2)
    assert isinstance(effects[0], Persist)
    assert any(isinstance(one, Launch) for one in effects)


def test_nothing_is_handed_over_twice_after_a_loss() -> None:
    """What was sent again and had been through is known by its number."""
    connection = ConnectionPoint(SliceId("c0"))
    result = Result(A0, 1, E0, (0,), ())
    first, second = connection.heard(result), connection.heard(result)
    assert [type(one) for one in first] == [HandOver, Tell]
    assert [type(one) for one in second] == [Tell]


def test_results_of_publishers_that_moved_wait() -> None:
    """esilbops §3.2: until the old exit point has told all it had."""
    old = View(number=0, access=(A0,), matchers=(M0,), exits=(E0,), selector="modulo")
    exit_point, connection = ExitPoint(E0, old), ConnectionPoint(SliceId("c0"))
    later = Result(A0, 2, SliceId("e1"), (1,), (), waits=((1, E0),))
    assert connection.heard(later) == []
    [told, _] = exit_point.heard(PreEnd(1, A0, M0, 1))
    assert [type(one) for one in connection.heard(told.message)] == [HandOver, Tell]
