"""Three truth values: Kleene's tables, and what makes a predicate unknown."""

from __future__ import annotations

import math

import pytest

from tidewire.language import parse, truth_of
from tidewire.model.values import Timestamp, Value

T, F, U = True, False, None
STATE = {T: "t = 1", F: "t = 2", U: "u = 1"}
EVENT: dict[str, Value] = {"t": 1}


@pytest.mark.parametrize(("one", "other", "both"), [
    (T, T, T), (T, F, F), (T, U, U), (F, T, F), (F, F, F), (F, U, F), (U, T, U), (U, F, F), (U, U, U),
])  # fmt: skip
def test_and_is_kleene_s(one: bool | None, other: bool | None, both: bool | None) -> None:
    assert truth_of(parse(f"{STATE[one]} and {STATE[other]}"), EVENT) is both


@pytest.mark.parametrize(("one", "other", "either"), [
    (T, T, T), (T, F, T), (T, U, T), (F, T, T), (F, F, F), (F, U, U), (U, T, T), (U, F, U), (U, U, U),
])  # fmt: skip
def test_or_is_kleene_s(one: bool | None, other: bool | None, either: bool | None) -> None:
    assert truth_of(parse(f"{STATE[one]} or {STATE[other]}"), EVENT) is either


@pytest.mark.parametrize(("one", "opposite"), [(T, F), (F, T), (U, U)])
def test_not_is_kleene_s(one: bool | None, opposite: bool | None) -> None:
    assert truth_of(parse(f"not ({STATE[one]})"), EVENT) is opposite


PREDICATES: list[tuple[str, Value | None, bool | None]] = [
    ("a = 1", 1, T),
    ("a = 1", 1.0, T),
    ("a = 1", True, U),
    ("a = 1", "1", U),
    ("a = 1", None, U),
    ("a = 1", math.nan, U),
    ("a <> 1", math.nan, U),
    ("a <> 1", "1", U),
    ("a < 1", -math.inf, T),
    ("a > 1.7976931348623157e308", math.inf, T),
    ("a = 0", -0.0, T),
    ("a = 9007199254740993", 9007199254740992.0, F),
    ("a > 9007199254740992.0", 9007199254740993, T),
    ("a < 9.223372036854775808e18", 2**63 - 1, T),
    ("a = 'x'", "x", T),
    ("a < 'b'", "B", T),
    ("a < 'é'", "z", T),
    ("a > '\uffff'", "\U00010000", T),
    ("a = x'00'", b"\0", T),
    ("a = x'00'", "\0", U),
    ("a > 2010-02-27T06:34:11Z", Timestamp.parse("2010-02-27T06:34:11.000000001Z"), T),
    ("a > 2010-02-27T06:34:11Z", 2**62, U),
    ("a", True, T),
    ("a", 1, U),
    ("a <> true", False, T),
    ("a between 1 and 3", 3, T),
    ("a between 1 and 3", 3.5, F),
    ("a between 3 and 1", 2, F),
    ("a not between 3 and 1", 2, T),
    ("a not between 1 and 3", "2", U),
    ("a in (1, 2)", 2.0, T),
    ("a in (1, 2)", 3, F),
    ("a in (1, 2)", "1", U),
    ("a in ('a', 5)", "a", T),
    ("a in ('a', 5)", "b", U),
    ("a not in ('a', 5)", "b", U),
    ("a not in ('a', 5)", "a", F),
    ("a not in ('a', 'b')", "c", T),
    ("a like 'x%'", "xyz", T),
    ("a like 'x%'", "ayz", F),
    ("a like '%'", 5, U),
    ("a not like 'x%'", None, U),
    ("a is null", None, T),
    ("a is null", math.nan, F),
    ("a is not null", False, T),
    ("a is number", math.nan, T),
    ("a is number", True, F),
    ("a is not number", "5", T),
    ("a is not number", None, U),
    ("a is bytes", b"", T),
    ("true", None, T),
    ("false", None, F),
]


@pytest.mark.parametrize(("text", "value", "truth"), PREDICATES)
def test_a_predicate_is_unknown_for_what_it_cannot_compare(text: str, value: Value | None, truth: bool | None) -> None:
    event = {} if value is None else {"a": value}
    assert truth_of(parse(text), event) is truth


PLACES: list[tuple[Value | None, Value | None, bool | None]] = [
    (38.3, 142.4, T),
    (38, 140, T),
    (0, 0.0, F),
    (38.3, 142.4 - 360, T),
    (None, 142.4, U),
    (38.3, "142.4", U),
    (91, 0, U),
    (0, 361, U),
    (math.nan, 0, U),
    (True, 0, U),
]


@pytest.mark.parametrize(("lat", "lon", "truth"), PLACES)
def test_a_place_is_unknown_without_two_coordinates(lat: Value | None, lon: Value | None, truth: bool | None) -> None:
    event = {name: value for name, value in (("lat", lat), ("lon", lon)) if value is not None}
    area = parse("within(lat, lon, 38.3, 142.4, 300 km)")
    assert truth_of(area, event) is truth
