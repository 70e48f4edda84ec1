"""The order of each kind: successors are exact, numbers compare without rounding, prefixes end where they must."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.strategies import NUMBERS, STRINGS, bounds
from tidewire.model.errors import UnsupportedType, ValueOutOfRange
from tidewire.model.values import (
    INT64_MAX,
    INT64_MIN,
    Bound,
    Kind,
    Timestamp,
    after_prefix,
    as_bound,
    canonical_number,
    kind_of,
    previous_number,
    successor,
)

numbers = st.one_of(st.sampled_from(NUMBERS), st.integers(INT64_MIN, INT64_MAX), st.floats(allow_nan=False)).map(
    canonical_number
)


def exact(number: float) -> Fraction | float:
    return number if number in {math.inf, -math.inf} else Fraction(number)


def float_above(number: float) -> float:
    """The smallest float that is greater, compared exactly."""
    if number == math.inf:
        return math.inf
    near = math.inf if number > 1.7976931348623157e308 else float(number)
    return near if near > number else math.nextafter(near, math.inf)


@given(numbers)
def test_nothing_lies_between_a_number_and_its_successor(number: float) -> None:
    """The next one is the next integer of int64 or the next float, whichever is nearer."""
    candidates: list[float] = [float_above(number)]
    if INT64_MIN <= number < INT64_MAX:
        candidates.append(math.floor(number) + 1)
    following = successor(Kind.NUMBER, number)
    if number == math.inf:
        assert following is None
    else:
        assert following is not None
        assert exact(following) == min(map(exact, candidates))
        assert exact(following) > exact(number)


@given(numbers)
def test_previous_undoes_successor(number: float) -> None:
    """And the other way round, with one spelling for each number."""
    following, before = successor(Kind.NUMBER, number), previous_number(number)
    for neighbour, back in ((following, previous_number), (before, lambda n: successor(Kind.NUMBER, n))):
        if neighbour is not None:
            assert repr(back(neighbour)) == repr(number)
            assert repr(canonical_number(neighbour)) == repr(neighbour)


@pytest.mark.parametrize(
    ("number", "following"),
    [
        (2**53 - 1, 2**53),
        (2**53, 2**53 + 1),
        (-(2**53) - 1, -(2**53)),
        (-(2**53), -(2**53) + 1),
        (INT64_MAX, 2.0**63),
        (INT64_MIN, INT64_MIN + 1),
        (math.nextafter(-(2.0**63), -math.inf), INT64_MIN),
        (0, 5e-324),
        (-5e-324, 0),
        (0.1, 0.10000000000000002),
        (-math.inf, -1.7976931348623157e308),
        (1.7976931348623157e308, math.inf),
    ],
)
def test_the_steps_at_the_edges(number: float, following: float) -> None:
    """Where int64 and float64 hand over to each other."""
    assert repr(successor(Kind.NUMBER, number)) == repr(following)
    assert repr(previous_number(following)) == repr(number)


def test_the_ends_have_no_neighbour() -> None:
    """The last value of a kind has no successor."""
    assert successor(Kind.NUMBER, math.inf) is None
    assert previous_number(-math.inf) is None
    assert successor(Kind.TIMESTAMP, INT64_MAX) is None
    assert successor(Kind.BOOL, True) is None
    assert successor(Kind.BOOL, False) is True
    assert successor(Kind.TIMESTAMP, 2**53) == 2**53 + 1


@given(bounds(), bounds())
def test_a_successor_is_the_next(one: tuple[Kind, Bound], other: tuple[Kind, Bound]) -> None:
    """No value of the kind lies between, for any kind."""
    if one[0] is other[0] and other[1] > one[1]:
        following = successor(*one)
        assert following is not None
        assert one[1] < following <= other[1]


@pytest.mark.parametrize(
    ("prefix", "following"),
    [
        ("", None),
        ("a", "b"),
        ("ab", "ac"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("\U0010ffff\U0010ffff", None),
        ("\ud7ff", "\ue000"),
        ("x\ud7ff\U0010ffff", "x\ue000"),
        ("\0", "\1"),
    ],
)
def test_prefixes_end_at_the_next_character(prefix: str, following: str | None) -> None:
    """Surrogates are no characters, and the last character has none after it."""
    assert after_prefix(prefix) == following


@given(st.text(st.sampled_from("ab\ud7ff\ue000\U0010ffff"), max_size=3), st.sampled_from(STRINGS), st.text(max_size=3))
def test_a_prefix_is_an_interval(prefix: str, text: str, tail: str) -> None:
    """Strings from the prefix up to its end are those that begin so."""
    end = after_prefix(prefix)
    for candidate in (text, text + tail, prefix + tail, prefix[:-1] + tail):
        assert candidate.startswith(prefix) is (prefix <= candidate and (end is None or candidate < end))


@given(st.text(), st.text())
def test_strings_compare_as_their_bytes(one: str, other: str) -> None:
    """The kernel compares UTF-8; the order is the same."""
    assert (one < other) is (one.encode() < other.encode())


def test_kinds_tell_types_apart() -> None:
    """A bool is no number, NaN is a number that compares with none."""
    kinds = [kind_of(value) for value in (True, 1, 1.0, math.nan, "1", Timestamp(1), b"1")]
    assert kinds == [
        Kind.BOOL,
        Kind.NUMBER,
        Kind.NUMBER,
        Kind.ANY_NUMBER,
        Kind.STRING,
        Kind.TIMESTAMP,
        Kind.BYTES,
    ]
    assert repr(as_bound(-0.0)) == "0"
    assert repr(as_bound(2.0**53)) == str(2**53)
    assert repr(as_bound(2.0**63)) == repr(2.0**63)
    assert as_bound(Timestamp(7)) == 7
    assert as_bound(True) is True


class Undecided(tzinfo):
    """A time zone that does not know its offset, which makes a datetime naive."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return None

    def dst(self, dt: datetime | None) -> timedelta | None:
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        return None


def test_timestamps_take_aware_datetimes_exactly() -> None:
    """To the microsecond, from any zone; naive ones are refused, and years beyond int64."""
    moment = datetime(2010, 2, 27, 3, 34, 11, 530001, tzinfo=timezone(timedelta(hours=-3)))
    assert Timestamp.of(moment) == Timestamp.parse("2010-02-27T06:34:11.530001Z") == Timestamp(1267252451530001000)
    for naive in (datetime(2010, 2, 27), datetime(2010, 2, 27, tzinfo=Undecided())):  # noqa: DTZ001
        with pytest.raises(UnsupportedType):
            Timestamp.of(naive)
    for far in (datetime(1600, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)):
        with pytest.raises(ValueOutOfRange):
            Timestamp.of(far)


@given(st.integers(INT64_MIN, INT64_MAX))
def test_timestamps_are_written_and_read(ns: int) -> None:
    """RFC 3339 with nine decimals loses nothing."""
    assert Timestamp.parse(str(Timestamp(ns))) == Timestamp(ns)
