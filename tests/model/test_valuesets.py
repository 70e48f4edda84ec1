"""Value sets are sets: meet, join and covers agree with membership, and each set has one representation."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matching.strategies import (
    PATTERNS,
    POOL,
    STRINGS,
    bounds,
    critical_values,
    simple_sets,
    value_sets,
    values,
)
from tidewire.model.patterns import matches_pattern, parse_pattern
from tidewire.model.values import Bound, Kind, Value, as_bound, kind_of
from tidewire.model.valuesets import (
    ABSENT,
    ANY_NUMBER,
    PRESENT,
    ValueSet,
    above,
    all_but,
    at_least,
    at_most,
    beginning_with,
    below,
    everything,
    joined,
    matching,
    members,
    not_matching,
    shown,
)

SAMPLES: tuple[Value | None, ...] = (None, float("nan"), *POOL, *(a + b for a in STRINGS for b in ("a", "b", "ab")))
encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(ValueSet).decode


def has(found: ValueSet | None, value: Value | None) -> bool:
    return found is not None and found.has(value)


@given(value_sets(), value_sets(), st.lists(values(), max_size=5))
def test_meet_is_intersection(one: ValueSet, other: ValueSet, extra: list[Value]) -> None:
    """A value is in the meet iff it is in both; a meet that is None has no member."""
    met = one.meet(other)
    for value in (*SAMPLES, *extra, *critical_values([one, other])):
        assert has(met, value) is (one.has(value) and other.has(value))
    assert other.meet(one) == met


@given(value_sets(), value_sets(), st.lists(values(), max_size=5))
def test_join_is_union(one: ValueSet, other: ValueSet, extra: list[Value]) -> None:
    """A value is in the join iff it is in one of them; whether there is a join does not depend on the order."""
    union = one.join(other)
    assert (other.join(one) is None) is (union is None)
    if union is not None:
        for value in (*SAMPLES, *extra, *critical_values([one, other])):
            assert union.has(value) is (one.has(value) or other.has(value))


@given(value_sets(), value_sets(), st.lists(values(), max_size=5))
def test_covers_is_never_claimed_wrongly(one: ValueSet, other: ValueSet, extra: list[Value]) -> None:
    """Every value of the covered set is in the covering one, with patterns too."""
    if one.covers(other):
        for value in (*SAMPLES, *extra, *critical_values([one, other])):
            assert one.has(value) or not other.has(value)
    met = one.meet(other)
    assert met is None or (one.covers(met) and other.covers(met))


@given(simple_sets(), simple_sets())
@settings(max_examples=2 * settings().max_examples)
def test_plain_sets_are_exact(one: ValueSet, other: ValueSet) -> None:
    """Without patterns covering and emptiness are complete, and equal sets are equal: one value per region decides."""
    regions = [(one.has(value), other.has(value)) for value in critical_values([one, other])]
    assert one.covers(other) is ((False, True) not in regions)
    assert (one.meet(other) is not None) is ((True, True) in regions)
    assert (one == other) is (regions == [(in_one, in_one) for in_one, _ in regions])
    assert (encode(one) == encode(other)) is (one == other)
    assert any(in_one for in_one, _ in regions), "never empty"


@given(simple_sets(), simple_sets(), simple_sets())
def test_plain_sets_form_a_lattice(a: ValueSet, b: ValueSet, c: ValueSet) -> None:
    """Associative meets, absorption, idempotence."""
    ab, bc = a.meet(b), b.meet(c)
    assert (ab and ab.meet(c)) == (bc and a.meet(bc))
    assert a.meet(a) == a.join(a) == a
    joined_ab = a.join(b)
    assert joined_ab is None or a.meet(joined_ab) == a
    assert ab is None or a.join(ab) == a


@given(value_sets())
def test_the_representation_is_canonical(one: ValueSet) -> None:
    """Intervals are sorted, apart and never empty; the set survives msgpack, types of bounds included."""
    assert all(high is None or low < high for low, high in one.intervals)
    assert all(high is not None and high < low for (_, high), (low, _) in pairwise(one.intervals))
    assert repr(decode(encode(one))) == repr(one)


@given(st.lists(bounds(), min_size=1, max_size=5))
def test_points_are_the_members(chosen: list[tuple[Kind, Bound]]) -> None:
    """Exactly the values, sorted; unless neighbours have grown together."""
    kind = chosen[0][0]
    wanted = sorted({bound for other, bound in chosen if other is kind})
    one = members(kind, wanted)
    points = one.points()
    assert points is None or list(points) == wanted
    assert all(one.has(shown(kind, bound)) for bound in wanted)
    if len(wanted) == 1:
        assert points == tuple(wanted)


def test_points_are_not_claimed_of_ranges() -> None:
    """Nor of sets of no type."""
    assert [s.points() for s in (PRESENT, ABSENT, ANY_NUMBER, everything(Kind.BOOL), beginning_with("a"))] == [None] * 5
    assert members(Kind.TIMESTAMP, [2**63 - 1]).points() == (2**63 - 1,)


@given(bounds(), values())
def test_comparisons_mean_what_they_say(bound: tuple[Kind, Bound], value: Value) -> None:
    """Each constructor against the operator; another kind and NaN are in none of them."""
    kind, end = bound
    is_same = kind_of(value) is kind
    number = as_bound(value)
    assert at_least(kind, end).has(value) is (is_same and number >= end)
    assert at_most(kind, end).has(value) is (is_same and number <= end)
    assert has(above(kind, end), value) is (is_same and number > end)
    assert has(below(kind, end), value) is (is_same and number < end)
    assert has(all_but(kind, end), value) is (is_same and number != end)
    assert members(kind, [end]).has(value) is (is_same and number == end)


@given(st.sampled_from(PATTERNS), st.text(st.sampled_from("ab%_\\"), max_size=5))
def test_like_and_not_like_share_the_strings(pattern: str, text: str) -> None:
    """Each string is in exactly one of them, by the pattern; no other type is in either."""
    fits = matches_pattern(parse_pattern(pattern), text)
    assert matching(pattern).has(text) is fits
    assert has(not_matching(pattern), text) is not fits
    assert not matching(pattern).has(text.encode())
    assert not has(not_matching(pattern), 1)


def test_absence_and_presence() -> None:
    """``is null`` has what is missing and nothing else; NaN is present, and a number that compares with none."""
    nan = float("nan")
    assert ABSENT.has(None)
    assert not any(ABSENT.has(value) for value in POOL)
    assert all(PRESENT.has(value) for value in (*POOL, nan))
    assert not PRESENT.has(None)
    assert ANY_NUMBER.has(nan)
    assert not everything(Kind.NUMBER).has(nan)


@given(st.lists(bounds(), min_size=1, max_size=6))
def test_many_join_as_one_by_one(chosen: list[tuple[Kind, Bound]]) -> None:
    """The union of many is the union of each with the rest."""
    kind = chosen[0][0]
    sets = [members(kind, [bound]) for other, bound in chosen if other is kind]
    step: ValueSet | None = sets[0]
    for one in sets[1:]:
        assert step is not None
        step = step.join(one)
    assert joined(sets) == step


def test_unions_of_nested_touching_and_apart_intervals() -> None:
    """A long interval is not cut by a short one inside it; those that touch are one."""

    def of(*spans: tuple[int, int | None]) -> ValueSet:
        return ValueSet(Kind.NUMBER, spans)

    assert of((0, 10)).join(of((2, 3), (20, 30))) == of((0, 10), (20, 30))
    assert of((0, 10)).join(of((2, 3), (10, 30))) == of((0, 30))
    assert of((0, 10), (40, None)).join(of((-5, 20), (50, 60))) == of((-5, 20), (40, None))
    assert of((0, 10), (20, 30)).join(of((12, 15))) == of((0, 10), (12, 15), (20, 30))
    assert of((0, 10), (20, 30)).meet(of((5, 25))) == of((5, 10), (20, 25))
    assert of((0, 10), (20, 30)).meet(of((10, 20), (30, None))) is None


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("%b", "%ab"), ("%b%", "%b"), ("%b%", "a%b"), ("%a%", "_a_"), ("%ab", "x_ab"), ("%b", "ab%b")],
)
def test_a_pattern_follows_from_a_stricter_one(wide: str, narrow: str) -> None:
    """What is sure of suffixes and parts is found, and the converse is not claimed."""
    assert matching(wide).covers(matching(narrow))
    assert not matching(narrow).covers(matching(wide))
    strict, loose = not_matching(wide), not_matching(narrow)
    assert strict is not None
    assert loose is not None
    assert loose.covers(strict)
    assert not strict.covers(loose)
