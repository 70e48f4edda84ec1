"""Filter pairs for each of the five relations of peer L3, with the hard cases of our types."""

from __future__ import annotations

import math

import pytest

from tests.matching.building import any_of, both, circle, either, eq, ge, gt, le, lt, polygon, where
from tidewire.matching.covering import Relation, covers, relation
from tidewire.model.filters import ALL, NOTHING, Filter
from tidewire.model.values import INT64_MAX, INT64_MIN, Kind, Timestamp
from tidewire.model.valuesets import (
    ABSENT,
    ANY_NUMBER,
    PRESENT,
    ValueSet,
    all_but,
    beginning_with,
    everything,
    matching,
    not_matching,
)

NEXT = math.nextafter(0.1, 1.0)
BIG = 2**53
TRIANGLE = polygon((0.0, 0.0), (0.0, 2.0), (2.0, 0.0))
OUTSIDE_TRIANGLE = polygon((0.0, 0.0), (0.0, 2.0), (2.0, 0.0), inside=False)
STOCK = where(class_=eq("STOCK"))


def but(value: object) -> ValueSet:
    found = all_but(Kind.STRING if isinstance(value, str) else Kind.NUMBER, value)
    assert found is not None
    return found


def unlike(pattern: str) -> ValueSet:
    found = not_matching(pattern)
    assert found is not None
    return found


Pair = tuple[Filter, Filter]

EQUAL: list[Pair] = [
    (where(x=gt(5)), where(x=gt(5))),
    (where(x=gt(5)), where(x=gt(5.0))),
    (where(x=gt(0.1)), where(x=ge(NEXT))),
    (where(x=le(0.1)), where(x=lt(NEXT))),
    (where(x=gt(BIG)), where(x=ge(BIG + 1))),
    (where(x=gt(INT64_MAX)), where(x=ge(2.0**63))),
    (where(x=lt(INT64_MIN)), where(x=le(math.nextafter(-(2.0**63), -math.inf)))),
    (where(x=eq(float(BIG))), where(x=eq(BIG))),
    (where(x=eq(-0.0)), where(x=both(ge(0), le(0.0)))),
    (where(x=le(math.inf)), where(x=everything(Kind.NUMBER))),
    (where(s=beginning_with("")), where(s=ge(""))),
    (where(s=beginning_with("ab")), where(s=both(ge("ab"), lt("ac")))),
    (where(s=beginning_with("\ud7ff")), where(s=both(ge("\ud7ff"), lt("\ue000")))),
    (where(s=eq("a", "b")), where(s=any_of(eq("b"), eq("a")))),
    (where(s=matching("ab")), where(s=eq("ab"))),
    (where(s=both(eq("ab", "cd"), matching("%b"))), where(s=eq("ab"))),
    (where(t=gt(Timestamp(5))), where(t=ge(Timestamp(6)))),
    (where(f=gt(False)), where(f=eq(True))),
    (where(f=le(True)), where(f=eq(False, True))),
    (where(d=eq(b"")), where(d=lt(b"\0"))),
    (where(circle(38.3, 142.4, 3e5)), where(circle(38.3, 142.4, 3e5))),
    (where(circle(0, 0, 2.1e7)), where(circle(5, 5, 2.2e7))),
    (either(where(x=gt(1)), where(y=ABSENT)), either(where(y=ABSENT), where(x=gt(1)))),
    (either(where(x=gt(1)), where(x=gt(2))), where(x=gt(1))),
    (NOTHING, NOTHING),
    (NOTHING, where(circle(0, 0, 1.0), circle(40, 0, 1.0, inside=False), circle(0, 0, 2.0, inside=False))),
]

COVERS: list[Pair] = [
    (ALL, STOCK),
    (ALL, where(x=ABSENT)),
    (STOCK, where(class_=eq("STOCK"), symbol=eq("YHOO"))),
    (STOCK, where(class_=eq("STOCK"), volume=gt(1000))),
    (where(a=gt(5)), where(a=gt(9))),
    (where(x=ge(0.1)), where(x=gt(0.1))),
    (where(x=ge(BIG)), where(x=ge(BIG + 1))),
    (where(x=le(2.0**63)), where(x=le(INT64_MAX))),
    (where(x=gt(INT64_MAX - 1)), where(x=eq(INT64_MAX))),
    (where(x=PRESENT), where(x=ANY_NUMBER)),
    (where(x=ANY_NUMBER), where(x=everything(Kind.NUMBER))),
    (where(x=everything(Kind.NUMBER)), where(x=lt(math.inf))),
    (where(x=but(3)), where(x=any_of(lt(3), gt(4)))),
    (where(s=beginning_with("a")), where(s=beginning_with("ab"))),
    (where(s=beginning_with("a")), where(s=eq("a", "ab\U0010ffff"))),
    (where(s=beginning_with("a")), where(s=matching("ab%c_"))),
    (where(s=matching("%c")), where(s=matching("a%bc"))),
    (where(s=matching("%b%")), where(s=matching("%abc"))),
    (where(s=matching("%b")), where(s=eq("ab", "b"))),
    (where(s=unlike("%b")), where(s=unlike("%b%"), t=gt(Timestamp(1)))),
    (where(s=but("a")), where(s=beginning_with("b"))),
    (where(t=ge(Timestamp(INT64_MIN))), where(t=lt(Timestamp(0)))),
    (where(circle(0, 0, 1e6)), where(circle(1, 1, 1e5))),
    (where(circle(0, 0, 1e6)), where(circle(0, 0, 1e6), x=gt(1))),
    (where(circle(10, 179.9, 1e5)), where(circle(10, -179.9, 1e4))),
    (where(circle(0, 0, 2.1e7)), where(circle(3, 3, 10.0, inside=False))),
    (where(circle(0, 0, 1e5, inside=False)), where(circle(0, 0, 1e6, inside=False))),
    (where(circle(0, 0, 1e5, inside=False)), where(circle(40, 0, 1e6))),
    (where(OUTSIDE_TRIANGLE), where(circle(40, 0, 1e5))),
    (where(circle(0, 0, 1e5)), where(lat=eq(0), lon=eq(0.5, -0.25))),
    (where(TRIANGLE), where(TRIANGLE, x=gt(1))),
    (either(where(x=gt(1)), where(y=gt(1))), where(x=gt(2))),
    (either(where(x=gt(1)), where(y=gt(1))), either(where(x=gt(2)), where(x=gt(0), y=gt(1)))),
]

INTERSECTS: list[Pair] = [
    (where(class_=eq("STOCK"), symbol=eq("YHOO")), where(class_=eq("STOCK"), volume=gt(1000))),
    (where(x=gt(1)), where(y=gt(1))),
    (where(x=ge(0.1)), where(x=le(0.1))),
    (where(x=ge(BIG)), where(x=le(BIG))),
    (where(x=ge(INT64_MAX)), where(x=lt(2.0**63))),
    (where(x=eq(1, 2)), where(x=eq(2, 3))),
    (where(x=but(3)), where(x=but(4))),
    (where(x=gt(1), y=lt(1)), where(x=gt(0), y=lt(0))),
    (where(x=ABSENT), where(y=ABSENT)),
    (where(x=PRESENT), where(y=ABSENT)),
    (where(x=PRESENT, y=gt(1)), where(x=gt(5))),
    (where(s=beginning_with("ab")), where(s=lt("abc"))),
    (where(s=matching("%a")), where(s=matching("b%"))),
    (where(s=unlike("%a")), where(s=beginning_with("a"))),
    (where(t=le(Timestamp(5))), where(t=ge(Timestamp(5)))),
    (where(d=le(b"a")), where(d=ge(b"a"))),
    (where(circle(0, 0, 1e5)), where(circle(0, 1, 1e5))),
    (where(circle(0, 0, 1e5)), where(circle(0, 0, 1e4, inside=False))),
    (where(circle(0, 0, 1e5)), where(TRIANGLE)),
    (where(circle(0, 0, 1e5)), where(lat=eq(0), lon=eq(0.5, 50))),
    (either(where(x=gt(5)), where(x=lt(1))), where(x=lt(7))),
    (either(where(x=gt(5)), where(y=eq(1))), either(where(x=gt(6)), where(y=eq(1, 2)))),
]

DISJOINT: list[Pair] = [
    (STOCK, where(class_=eq("SPORTS"))),
    (STOCK, where(class_=ABSENT)),
    (where(x=gt(5)), where(x=le(5.0))),
    (where(x=gt(0.1)), where(x=lt(NEXT))),
    (where(x=gt(BIG)), where(x=lt(BIG + 1))),
    (where(x=gt(INT64_MAX)), where(x=lt(2.0**63))),
    (where(x=gt(INT64_MAX)), where(x=le(INT64_MAX))),
    (where(x=eq(BIG + 1)), where(x=eq(float(BIG)))),
    (where(x=eq(1)), where(x=eq(True))),
    (where(x=eq("1")), where(x=ANY_NUMBER)),
    (where(x=eq("a")), where(x=eq(b"a"))),
    (where(x=gt(0)), where(x=gt(Timestamp(0)))),
    (where(x=PRESENT), where(x=ABSENT)),
    (where(x=ANY_NUMBER), where(x=ABSENT)),
    (where(s=beginning_with("ab")), where(s=beginning_with("ac"))),
    (where(s=beginning_with("\ud7ff")), where(s=ge("\ue000"))),
    (where(s=matching("ab%c")), where(s=beginning_with("b"))),
    (where(s=matching("%b")), where(s=unlike("%b"))),
    (where(s=matching("%b")), where(s=eq("a", "ba"))),
    (where(x=gt(1), y=gt(1)), where(x=gt(0), y=le(1))),
    (where(t=lt(Timestamp(1))), where(t=ge(Timestamp(1)))),
    (where(circle(0, 0, 1e5)), where(circle(0, 2, 1e5))),
    (where(circle(0, 0, 1e5)), where(circle(0, 0.1, 2e5, inside=False))),
    (where(TRIANGLE), where(OUTSIDE_TRIANGLE)),
    (where(TRIANGLE), where(circle(40, 0, 1e5))),
    (where(circle(0, 0, 1e5)), where(lat=ge(10))),
    (either(where(x=gt(5)), where(x=lt(1))), either(where(x=eq(2)), where(x=ABSENT))),
    (NOTHING, STOCK),
    (NOTHING, ALL),
]

CASES = [
    pytest.param(a, b, expected, id=f"{expected.value}-{number}")
    for expected, pairs in (
        (Relation.EQUAL, EQUAL),
        (Relation.COVERS, COVERS),
        (Relation.COVERED, [(b, a) for a, b in COVERS]),
        (Relation.INTERSECTS, INTERSECTS),
        (Relation.DISJOINT, DISJOINT),
    )
    for number, (a, b) in enumerate(pairs)
]


@pytest.mark.parametrize(("a", "b", "expected"), CASES)
def test_the_relation_is_the_one_of_the_table(a: Filter, b: Filter, expected: Relation) -> None:
    """peer L3: exactly one of equal, covers, covered, intersects and disjoint; and its mirror."""
    assert relation(a, b) is expected
    assert relation(b, a) is expected.mirrored


@pytest.mark.parametrize(("a", "b", "expected"), CASES)
def test_covers_agrees_with_the_relation(a: Filter, b: Filter, expected: Relation) -> None:
    """``covers`` is the covering half of the relation, except that all cover what is never true."""
    assert covers(a, b) is (expected in {Relation.EQUAL, Relation.COVERS} or b == NOTHING)


def test_the_example_of_the_sheet() -> None:
    """peer L5, G1: of five subscriptions STOCK and SPORTS are covered by no other."""
    five = [
        STOCK,
        where(class_=eq("STOCK"), symbol=eq("YHOO")),
        where(class_=eq("STOCK"), volume=gt(1000)),
        where(class_=eq("SPORTS")),
        where(class_=eq("SPORTS"), type=eq("RACING")),
    ]
    maximal = [one for one in five if not any(relation(other, one) is Relation.COVERS for other in five)]
    assert maximal == [five[0], five[3]]
    assert [relation(five[0], one) for one in five[1:3]] == [Relation.COVERS] * 2
    assert relation(five[3], five[4]) is Relation.COVERS
    assert relation(five[1], five[2]) is Relation.INTERSECTS


def test_two_subscriptions_of_the_routing_example() -> None:
    """peer G2: a > 9 is covered by a > 5, so it stops at B2."""
    assert covers(where(a=gt(5)), where(a=gt(9)))
    assert not covers(where(a=gt(9)), where(a=gt(5)))
