"""Events whose answer is known before all their matches are found: it stays the answer of the scan."""

from __future__ import annotations

import random

import pytest

from tests.matching.building import eq, gt, where
from tidewire._kernel._native import simd_paths
from tidewire._kernel.codec import encode_batch
from tidewire.matching.index import KernelMatcher
from tidewire.matching.protocol import NUMBERS_MAX, Destination, SubscriptionNumber
from tidewire.matching.scan import ScanMatcher
from tidewire.model.events import Event, make_event
from tidewire.model.filters import Conjunction, Constraint, Filter

Item = tuple[Destination, SubscriptionNumber, Filter]
Name = tuple[Destination, SubscriptionNumber]

DESTINATIONS = 16
CROWD_EACH = 10
LADDER = 1600


def name(destination: int, number: int) -> Name:
    """A subscription's name."""
    return Destination(destination), SubscriptionNumber(number)


def step(least: int) -> Filter:
    """One filter of the ladder."""
    return where(a=eq("x"), v=gt(least))


def ladder(*, steps: int = LADDER, first: int = 1000) -> list[Item]:
    """``a = x and v > i`` for many i, in turn for all destinations."""
    return [(*name(i % DESTINATIONS, first + i // DESTINATIONS), step(i)) for i in range(steps)]


def readings(*values: int) -> list[Event]:
    """One event for each value."""
    return [make_event({"a": "x", "v": value}) for value in values]


class Both:
    """The kernel and the scan, with the same subscriptions."""

    def __init__(self, rows: list[Item], simd: str = "") -> None:
        self.kernel, self.scan = KernelMatcher(simd=simd), ScanMatcher()
        self.insert(rows)

    def insert(self, rows: list[Item]) -> None:
        self.kernel.insert(rows)
        self.scan.insert(rows)

    def remove(self, names: list[Name]) -> None:
        self.kernel.remove(names)
        self.scan.remove(names)

    def agree(self, events: list[Event], *, times: int = 3) -> None:
        """What is remembered of the first times does not change the answer of the next."""
        expected = self.scan.match(events)
        for _ in range(times):
            assert self.kernel.match(events) == expected

    def found(self, event: Event) -> int:
        """How many distinct filters the kernel finds before it stops."""
        return int(self.kernel.native.match(encode_batch([event]), limit=NUMBERS_MAX).entries_matched)


@pytest.mark.parametrize("simd", simd_paths())
def test_what_a_segment_surely_gives_settles_an_event(simd: str) -> None:
    """Asked often enough, the kernel stops before the segment; where too little is sure it goes on."""
    both = Both(ladder(), simd)
    events = readings(-1, 0, 40, 100, 255, 256, 271, 272, 273, 288, 600, 900, 1599, 5000)
    both.agree(events)
    assert both.found(events[-1]) < LADDER / 2
    assert both.kernel.native.match(encode_batch(events[-1:]), settle=False).entries_matched == LADDER


def test_crowds_and_segments_settle_an_event_together() -> None:
    """Neither is enough alone: ten for each by one filter, ten by another, the rest by the segment."""
    rows = ladder()
    for start, wanted in ((0, where(a=eq("x"))), (100, where(a=eq("x"), b=eq("y")))):
        rows += [(*name(d, start + i), wanted) for d in range(DESTINATIONS) for i in range(CROWD_EACH)]
    rows += [(*name(DESTINATIONS, i), step(i)) for i in range(17)]
    both = Both(rows)
    events = [make_event({"a": "x", "b": "y", "v": value}) for value in (0, 10, 16, 17, 18, 1000)]
    both.agree(events)
    both.agree(readings(0, 16, 17, 1000))


def test_what_goes_is_not_counted_any_more() -> None:
    """One destination's subscriptions go one by one, past the number where they can all be named."""
    both = Both(ladder())
    events = readings(700, 1599, 5000)
    both.agree(events)
    mine = [name(3, 1000 + i) for i in range(LADDER // DESTINATIONS)]
    both.remove(mine[:60])
    for gone in mine[60:]:
        both.agree(events, times=1)
        both.remove([gone])
    both.agree(events)


def test_a_shared_filter_loses_one_subscriber_at_a_time() -> None:
    """The filters of the segment stay, with fewer subscribers: nobody is counted after leaving."""
    shared = [(*name(d, 5000 + i), step(i)) for i in range(400) for d in (0, 1)]
    both = Both([*ladder(), *shared])
    events = readings(399, 800, 5000)
    both.agree(events)
    both.remove([name(0, 1000 + i) for i in range(LADDER // DESTINATIONS)])
    both.agree(events)
    for i in range(400):
        both.remove([name(0, 5000 + i)])
        if i >= 370:
            both.agree(events, times=1)
    both.agree(events)


def test_who_comes_later_is_not_forgotten() -> None:
    """A new destination with too few matches keeps an event open that was settled before."""
    both = Both(ladder())
    events = readings(700, 1599, 5000)
    both.agree(events)
    for i in range(NUMBERS_MAX + 2):
        both.insert([(*name(DESTINATIONS + 20, i), step(i))])
        both.agree(events, times=1)


def test_several_conjunctions_of_a_subscription_count_once() -> None:
    """All of a destination's matches are conjunctions of few subscriptions: it is named each of them."""
    steps = [Conjunction((Constraint("a", eq("x")), Constraint("v", gt(i)))) for i in range(400)]
    several = [(*name(DESTINATIONS, i), Filter(tuple(steps[i::10]))) for i in range(10)]
    both = Both([*ladder(), *several])
    events = readings(0, 5, 9, 700, 1599)
    both.agree(events)
    assert len(both.scan.match(events)[-1][-1].numbers) == len(several)


def test_two_crowds_of_the_same_subscriptions_count_once() -> None:
    """Ten for each destination, found twice: all are named."""
    either = Filter(
        tuple(Conjunction((Constraint("a", eq("x")), Constraint(other, eq("y")))) for other in ("b", "c")),
    )
    both = Both([*ladder(), *((*name(d, i), either) for d in range(DESTINATIONS) for i in range(CROWD_EACH))])
    both.agree([make_event({"a": "x", "b": "y", "c": "y", "v": value}) for value in (-1, 40, 1599)])


@pytest.mark.parametrize("seed", range(3))
def test_settled_answers_stay_right_under_churn(seed: int) -> None:
    """Random comings and goings between the events, few enough for what is remembered to be used."""
    chance = random.Random(seed)
    both = Both(ladder())
    live = [(destination, number) for destination, number, _ in ladder()]
    for turn in range(60):
        chance.shuffle(live)
        leaving = [live.pop() for _ in range(chance.choice([1, 3, 40]))]
        both.remove(leaving)
        fresh: list[Item] = [
            (
                *name(chance.randrange(DESTINATIONS), 10_000 + 100 * turn + i),
                where(a=eq("x"), v=gt(chance.randrange(2000))),
            )
            for i in range(chance.choice([0, 2, 20]))
        ]
        both.insert(fresh)
        live += [(destination, number) for destination, number, _ in fresh]
        both.agree(readings(*(chance.randrange(2000) for _ in range(4)), 5000), times=1)
