"""Explanations: what a filter means, what it costs, and which predicate decided."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, reject

from tests.strategies import attributes, expressions
from tidewire.language import Explanation, compile_filter, explain, parse, truth_of
from tidewire.language.english import SENTENCES_MAX
from tidewire.language.explain import DECISIONS_MAX, OUTCOMES, decide
from tidewire.language.syntax import Expression
from tidewire.model.errors import FilterTooCostly
from tidewire.model.filters import cost_of
from tidewire.model.values import Timestamp, Value

MEANINGS: list[tuple[str, tuple[str, ...]]] = [
    ("true", ("It matches every event.",)),
    ("a = 1 and a = 2", ("It matches no event.",)),
    ("class = 'STOCK' and volume > 15", ("It matches an event if class is 'STOCK' and volume is greater than 15.",)),
    ("a between 1 and 2", ("It matches an event if a is at least 1 and at most 2.",)),
    ("a in (1, 2) and b <> 'x'", ("It matches an event if a is one of 1, 2 and b is a string other than 'x'.",)),
    ("n like 'ab%'", ("It matches an event if n is a string that begins with 'ab'.",)),
    ("n like '%ab'", ("It matches an event if n is a string that ends with 'ab'.",)),
    (
        "n like '%ab%' and n not like 'x_z'",
        ("It matches an event if n is a string that contains 'ab' and not a string of the form 'x_z'.",),
    ),
    ("a is null and b is not null", ("It matches an event if a is missing and b is present, of any type.",)),
    ("a is number and b is bytes", ("It matches an event if a is a number and b is bytes.",)),
    ("t >= 2010-02-27T06:34:11Z", ("It matches an event if t is not before 2010-02-27T06:34:11Z.",)),
    ("a < 1 or a > 9", ("It matches an event if a is less than 1 or greater than 9.",)),
    (
        "m > 6 and within(lat, lon, 38.3, 142.4, 300 km)",
        ("It matches an event if m is greater than 6 and (lat, lon) is within 300 km of 38.3, 142.4.",),
    ),
    (
        "not inside(lat, lon, polygon(1 2, 3 4, 5 0))",
        ("It matches an event if (lat, lon) is outside a polygon of 3 corners.",),
    ),
    (
        "a = 1 or b = 2",
        ("It matches an event if any of these 2 alternatives holds:", "1. a is 1.", "2. b is 2."),
    ),
]


@pytest.mark.parametrize(("text", "meaning"), MEANINGS)
def test_the_meaning_is_plain_english(text: str, meaning: tuple[str, ...]) -> None:
    assert explain(text).meaning == meaning


DECIDED: list[tuple[str, dict[str, Value], str, list[str]]] = [
    (
        "class = 'STOCK' and volume > 15",
        {"class": "STOCK", "volume": 10},
        "false",
        ["volume > 15 is false: volume is 10"],
    ),
    ("price > 5", {}, "unknown", ["price > 5 is unknown: price is missing"]),
    ("price > 5", {"price": "7"}, "unknown", ["price > 5 is unknown: price is '7', a string, not a number"]),
    ("a = 'x'", {"a": 5}, "unknown", ["a = 'x' is unknown: a is 5, a number, not a string"]),
    (
        "a in (1, 'x')",
        {"a": True},
        "unknown",
        ["a in (1, 'x') is unknown: a is true, a boolean, not a number or a string"],
    ),
    (
        "x in (1, 'a', true)",
        {"x": 2},
        "unknown",
        ["x in (1, 'a', true) is unknown: x is 2, not in the list; beside values of other types that is unknown"],
    ),
    (
        "x not in (1, 'a')",
        {"x": "b"},
        "unknown",
        ["x not in (1, 'a') is unknown: x is 'b', not in the list; beside values of other types that is unknown"],
    ),
    ("not x", {}, "unknown", ["x is unknown: x is missing"]),
    ('"x y" and x = true', {"x": True, "x y": False}, "false", ['"x y" is false: x y is false']),
    ("x = true", {"x": False}, "false", ["x = true is false: x is false"]),
    ("a > 5", {"a": math.nan}, "unknown", ["a > 5 is unknown: a is NaN, which compares with nothing"]),
    ("a > 5", {"a": math.inf}, "true", ["a > 5 is true: a is inf"]),
    ("a = 1 and b = 1", {"a": 1, "b": 1}, "true", ["a = 1 is true: a is 1", "b = 1 is true: b is 1"]),
    ("a = 1 or b = 1", {"a": 1, "b": 2}, "true", ["a = 1 is true: a is 1"]),
    ("a = 1 or b = 1", {"a": 2, "b": 2}, "false", ["a = 1 is false: a is 2", "b = 1 is false: b is 2"]),
    ("a = 1 and b = 1", {"b": 2}, "false", ["b = 1 is false: b is 2"]),
    ("not (a = 1 and b = 1)", {"b": 2}, "true", ["b = 1 is false: b is 2"]),
    ("not a = 1", {"a": 1}, "false", ["a = 1 is true: a is 1"]),
    ("a is null", {"a": b"\1"}, "false", ["a is null is false: a is x'01'"]),
    (
        "a like 'x%'",
        {"a": Timestamp(0)},
        "unknown",
        ["a like 'x%' is unknown: a is 1970-01-01T00:00:00Z, a timestamp, not a string"],
    ),
    (
        "within(lat, lon, 38.3, 142.4, 300 km)",
        {"lat": 91, "lon": 1},
        "unknown",
        ["within(lat, lon, 38.3, 142.4, 300 km) is unknown: lat is 91 and lon is 1, no place on Earth"],
    ),
]


@pytest.mark.parametrize(("text", "event", "outcome", "decisions"), DECIDED)
def test_the_deciding_predicates_are_named_with_the_reason(
    text: str, event: dict[str, Value], outcome: str, decisions: list[str]
) -> None:
    found = explain(text, event)
    assert found.outcome == outcome
    assert [str(decision) for decision in found.decisions] == decisions


def test_a_decision_points_into_the_text() -> None:
    text = "class = 'STOCK'  and\n( volume>15 or price between 1 and 2 )"
    found = explain(text, {"class": "STOCK", "volume": 10, "price": 3})
    assert [text[d.start : d.end] for d in found.decisions] == ["volume>15", "price between 1 and 2"]


WARNED: list[tuple[str, str]] = [
    ("a > 5 and b = 1 and a < 3", "a < 3 contradicts a > 5"),
    ("a > 5 and b = 1 and a < 3", "never true"),
    ("a is null or a is not null", "always true"),
    ("volume = '5'", "'5' is a string: if volume is a number, write it without quotes"),
    ("volume in ('5', 'x')", "'5' is a string"),
    ("flag = 'true'", "'true' is a string; a boolean"),
    ("t > '2010-02-27T06:34:11Z'", "timestamp is written without quotes"),
    ("a between 9 and 1", "a between 9 and 1 is never true: its ends are in the wrong order"),
    ("a not in (1, 'x') or b = 1", "several types"),
    ("a > 5 or a = 'x'", "a is compared with a number and with a string"),
]


@pytest.mark.parametrize(("text", "warning"), WARNED)
def test_a_probable_mistake_is_warned_of(text: str, warning: str) -> None:
    assert any(warning in found for found in explain(text).warnings)


@pytest.mark.parametrize("text", ["true", "class = 'STOCK' and volume > 15", "a in (1, 2) or b = 'x'"])
def test_an_ordinary_filter_gets_no_warning(text: str) -> None:
    assert explain(text).warnings == ()


ACCESS = [
    ("class = 'STOCK' and volume > 15", "equality", "class"),
    ("a in (1, 2, 3, 4, 5, 6, 7, 8)", "equality", "a"),
    ("a in (1, 3, 5, 7, 9, 11, 13, 15, 17)", "range", "a"),
    ("volume > 15 and n like '%x%'", "range", "volume"),
    ("within(lat, lon, 1, 2, 3 km)", "range", "lat"),
    ("n like 'ab%'", "range", "n"),
    ("n like '%x%' and b is not null", "presence", "the rarest of b, n"),
    ("class is not null", "presence", "every event that has class"),
    ("class is null", "none", "scan"),
    ("true", "none", "scan"),
]


@pytest.mark.parametrize(("text", "kind", "by"), ACCESS)
def test_the_access_is_by_equality_then_by_range(text: str, kind: str, by: str) -> None:
    (access,) = explain(text).access
    assert access.startswith(kind)
    assert by in access


def test_cost_and_size_are_those_of_the_normal_form() -> None:
    found = explain("a = 1 or b like '%x%' and c > 2")
    assert found.conjunctions == 2
    assert found.cost == cost_of(compile_filter(found.normal_form))
    assert str(found.cost) in found.cost_meaning
    assert "at most 1 comparison for" in explain("true").cost_meaning


@given(expressions(), attributes())
def test_the_outcome_is_that_of_three_valued_logic_and_follows_from_the_decisions(
    expression: Expression, event: dict[str, Value]
) -> None:
    truth = truth_of(expression, event)
    outcome, decisions = decide(expression, event)
    assert outcome is truth
    assert decisions
    assert {decision.outcome for decision in decisions} <= set(OUTCOMES.values())
    if truth is None:
        assert {decision.outcome for decision in decisions} == {"unknown"}


@given(expressions(max_leaves=40), attributes())
def test_an_explanation_is_bounded_and_survives_json(expression: Expression, event: dict[str, Value]) -> None:
    try:
        found = explain(expression, event)
    except FilterTooCostly:
        reject()
    assert len(found.meaning) <= SENTENCES_MAX
    assert max(map(len, found.meaning)) < 8_000
    assert len(found.decisions) <= DECISIONS_MAX
    assert msgspec.json.decode(msgspec.json.encode(found), type=Explanation) == found
    assert parse(found.text) == expression
