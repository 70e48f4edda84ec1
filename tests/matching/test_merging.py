"""Perfect merging: the same events, fewer conjunctions."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.building import any_of, both, circle, either, eq, ge, gt, lt, where
from tests.matching.strategies import critical_events, events_near, normal_filters, simple_sets
from tidewire.matching.covering import Relation, relation
from tidewire.matching.merging import merge, merge_all
from tidewire.model.filters import ALL, INTERVALS_MAX, NOTHING, Filter, checked
from tidewire.model.values import Kind
from tidewire.model.valuesets import ABSENT, ANY_NUMBER, PRESENT, ValueSet, beginning_with, everything, matching


def between(low: int, high: int) -> ValueSet:
    return both(ge(low), lt(high))


MERGED: list[tuple[Filter, Filter, Filter]] = [
    (where(x=gt(1)), where(x=gt(1)), where(x=gt(1))),
    (where(x=gt(1)), where(x=gt(2), y=eq(1)), where(x=gt(1))),
    (where(x=between(0, 5)), where(x=between(5, 9)), where(x=between(0, 9))),
    (where(x=between(0, 2)), where(x=between(5, 9)), where(x=any_of(between(0, 2), between(5, 9)))),
    (where(s=eq("a"), y=gt(1)), where(s=eq("b"), y=gt(1)), where(s=eq("a", "b"), y=gt(1))),
    (where(s=eq("a"), y=gt(1)), where(s=eq("a"), y=lt(-1)), where(s=eq("a"), y=any_of(gt(1), lt(-1)))),
    (where(s=beginning_with("a")), where(s=beginning_with("b")), where(s=both(ge("a"), lt("c")))),
    (where(s=matching("%a"), y=eq(1)), where(s=matching("%a"), y=eq(2)), where(s=matching("%a"), y=eq(1, 2))),
    (where(x=ABSENT), where(x=PRESENT), ALL),
    (where(x=ABSENT, y=gt(1)), where(x=PRESENT, y=gt(1)), where(y=gt(1))),
    (where(x=ANY_NUMBER), where(x=gt(1)), where(x=ANY_NUMBER)),
    (where(x=PRESENT), where(x=eq("a")), where(x=PRESENT)),
    (where(circle(0, 0, 1e5), x=eq(1)), where(circle(0, 0, 1e5), x=eq(2)), where(circle(0, 0, 1e5), x=eq(1, 2))),
    (where(circle(0, 0, 1e6)), where(circle(1, 1, 1e5)), where(circle(0, 0, 1e6))),
    (NOTHING, where(x=gt(1)), where(x=gt(1))),
    (where(x=gt(1)), NOTHING, where(x=gt(1))),
    (ALL, where(x=gt(1)), ALL),
    (either(where(x=gt(1)), where(y=gt(1))), where(x=lt(0)), either(where(x=any_of(gt(1), lt(0))), where(y=gt(1)))),
    (
        either(where(x=gt(1)), where(y=gt(1))),
        either(where(x=gt(1)), where(z=gt(1))),
        either(where(x=gt(1)), where(y=gt(1)), where(z=gt(1))),
    ),
]

UNMERGED: list[tuple[Filter, Filter]] = [
    (where(x=gt(1)), where(y=gt(1))),
    (where(x=between(0, 2), y=between(0, 2)), where(x=between(1, 3), y=between(1, 3))),
    (where(x=eq(1)), where(x=eq("a"))),
    (where(x=eq(1)), where(x=ABSENT)),
    (where(s=matching("%a")), where(s=matching("%b"))),
    (where(circle(0, 0, 1e5)), where(circle(5, 5, 1e5))),
    (either(where(x=gt(1)), where(y=gt(1))), either(where(z=gt(1)), where(u=gt(1)))),
]


@pytest.mark.parametrize(("a", "b", "expected"), MERGED)
def test_two_filters_become_one(a: Filter, b: Filter, expected: Filter) -> None:
    """The union, with fewer conjunctions, from either side."""
    assert merge(a, b) == expected
    assert merge(b, a) == expected


@pytest.mark.parametrize(("a", "b"), UNMERGED)
def test_no_filter_says_both(a: Filter, b: Filter) -> None:
    """Without a saving there is no merging."""
    assert merge(a, b) is None
    assert merge(b, a) is None


@given(normal_filters(), normal_filters(), st.data())
def test_a_merged_filter_is_exactly_the_union(a: Filter, b: Filter, data: Any) -> None:
    """For events near the bounds, whatever the filters."""
    merged = merge(a, b)
    if merged is not None:
        assert len(merged.conjunctions) < len(a.conjunctions) + len(b.conjunctions) or NOTHING in {a, b}
        for attributes in data.draw(events_near(a, b)):
            assert merged.accepts(attributes) is (a.accepts(attributes) or b.accepts(attributes))


plain_filters = normal_filters(simple_sets(), names=("a", "b"), with_areas=False, conjunctions_max=2)


@given(plain_filters, plain_filters)
def test_merging_is_exact_in_every_region(a: Filter, b: Filter) -> None:
    """For plain filters, by search; and a filter that covers the other is what they merge into."""
    merged = merge(a, b)
    if merged is not None:
        for attributes in critical_events(a, b):
            assert merged.accepts(attributes) is (a.accepts(attributes) or b.accepts(attributes))
    if relation(a, b) in {Relation.COVERS, Relation.COVERED, Relation.EQUAL}:
        assert merged is not None


@given(st.lists(normal_filters(names=("a", "b")), max_size=8), st.data())
def test_merging_all_is_exact_and_idempotent(filters: list[Filter], data: Any) -> None:
    """The same union, never more filters, the same answer for any order, and a second time changes nothing."""
    merged = merge_all(filters)
    assert len(merged) <= len(filters)
    assert merge_all(merged) == merged
    assert merge_all(data.draw(st.permutations(filters * 2))) == merged
    for attributes in data.draw(events_near(*filters)):
        expected = any(one.accepts(attributes) for one in filters)
        assert any(one.accepts(attributes) for one in merged) is expected


def test_merging_all_of_a_grid_leaves_the_rectangle() -> None:
    """Rows become one, then columns: joins make new joins possible."""
    cells = [where(x=between(i, i + 1), y=between(j, j + 1)) for i in range(12) for j in range(9)]
    random.Random(1).shuffle(cells)
    assert merge_all(cells) == [where(x=between(0, 12), y=between(0, 9))]


def test_merging_all_drops_what_a_shorter_conjunction_says() -> None:
    """An attribute that one filter leaves open makes the others superfluous, also after a join."""
    assert merge_all([where(y=gt(1)), where(x=eq(1), y=gt(1)), where(x=eq("a"), y=gt(1))]) == [where(y=gt(1))]
    halves = [where(y=between(0, 5)), where(y=between(5, 9))]
    assert merge_all([*halves, where(x=eq(1), y=between(0, 9))]) == [where(y=between(0, 9))]
    assert merge_all([NOTHING, NOTHING]) == []
    assert merge_all([where(s=beginning_with("a")), where(s=matching("a%b"))]) == [where(s=beginning_with("a"))]


def test_merging_all_knows_the_kinds() -> None:
    """Any number takes in all numbers, presence takes in all values; other kinds stay apart."""
    some = [where(x=gt(1)), where(x=eq(-1)), where(x=eq("a")), where(x=ABSENT)]
    assert len(merge_all(some)) == 3
    assert set(merge_all([*some, where(x=ANY_NUMBER)])) == {where(x=ANY_NUMBER), *some[2:]}
    assert set(merge_all([*some[:3], where(x=PRESENT)])) == {where(x=PRESENT)}
    assert merge_all([*some, where(x=PRESENT)]) == [ALL]


def test_merging_all_of_patterns_is_stable() -> None:
    """One pattern taking in another would depend on which comes first: only plain sets take in patterns."""
    wide, narrow = where(s=matching("%a")), where(s=both(matching("%a"), matching("%ba")))
    for first in (wide, either(where(a=gt(1)), wide), either(where(z=gt(1)), wide)):
        merged = merge_all([first, narrow])
        assert len(merged) == 2
        assert merge_all(merged) == merged
    assert merge_all([wide, narrow, where(s=beginning_with(""))]) == [where(s=beginning_with(""))]


def test_merged_filters_stay_within_the_bounds() -> None:
    """A union that one filter may not hold is several filters, each of which may be sent."""
    points = [where(s=eq(f"{i:05d}")) for i in range(2 * INTERVALS_MAX + 10)]
    merged = merge_all(points)
    assert len(merged) == 3
    assert [checked(one) for one in merged] == merged
    assert merge_all(merged) == merged
    assert sum(len(one.conjunctions[0].constraints[0].allowed.intervals) for one in merged) == len(points)
    full = max(merged, key=lambda one: len(one.conjunctions[0].constraints[0].allowed.intervals))
    assert merge(full, where(s=eq("x"))) is None


@pytest.mark.slow
def test_a_hundred_thousand_filters_merge_in_one_go() -> None:
    """By hashing: all pairs would be five thousand million. The result is known by construction."""
    rows = [
        where(class_=eq("STOCK"), symbol=eq(f"S{i % 500}"), price=between(i // 500, i // 500 + 1), kind=NUMBER)
        for i in range(100_000)
    ]
    random.Random(2).shuffle(rows)
    symbols = eq(*(f"S{i}" for i in range(500)))
    assert merge_all(rows) == [where(class_=eq("STOCK"), symbol=symbols, price=between(0, 200), kind=NUMBER)]


NUMBER = everything(Kind.NUMBER)
