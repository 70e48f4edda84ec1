"""Golden normal forms, and how they are written."""

from __future__ import annotations

import pytest

from tidewire.language import compile_filter, render
from tidewire.language.parser import IN_VALUES_MAX
from tidewire.model.filters import ALL, NOTHING, Conjunction, Constraint, Filter
from tidewire.model.values import Kind
from tidewire.model.valuesets import ABSENT, ANY_NUMBER, PRESENT, ValueSet, beginning_with, members

SETS: list[tuple[str, ValueSet]] = [
    ("a = 5", members(Kind.NUMBER, [5])),
    ("a = 5.0", members(Kind.NUMBER, [5])),
    ("a in (3, 1, 3.0, 2.5)", members(Kind.NUMBER, [1, 2.5, 3])),
    ("a = 1 or a = 3 or a = 2.5", members(Kind.NUMBER, [1, 2.5, 3])),
    ("not (a <> 'x')", members(Kind.STRING, ["x"])),
    ("a >= 5 and a < 9", ValueSet(Kind.NUMBER, ((5, 9),))),
    ("a > 9007199254740992 and a <= 9007199254740993", members(Kind.NUMBER, [9007199254740993])),
    ("a like 'ab%'", beginning_with("ab")),
    ("a like 'ab%' and a >= 'b' or a = 'x'", members(Kind.STRING, ["x"])),
    ("a like 'ab'", members(Kind.STRING, ["ab"])),
    ("a like '%b' and a in ('ab', 'ac')", members(Kind.STRING, ["ab"])),
    ("a like 'a%b'", ValueSet(Kind.STRING, (("a", "b"),), like=("a%b",))),
    ("a not like 'a%b'", ValueSet(Kind.STRING, (("", None),), unlike=("a%b",))),
    ("a is null", ABSENT),
    ("a is not null", PRESENT),
    ("a is number", ANY_NUMBER),
    ("a is number or a > 5", ANY_NUMBER),
    ("a is not null and a > 5 or a = 5", ValueSet(Kind.NUMBER, ((5, None),))),
    ("a or not a", ValueSet(Kind.BOOL, ((False, None),))),
    ("a < 5 or a >= 5", ValueSet(Kind.NUMBER, ((float("-inf"), None),))),
]


@pytest.mark.parametrize(("text", "allowed"), SETS)
def test_predicates_on_one_attribute_are_one_set(text: str, allowed: ValueSet) -> None:
    assert compile_filter(text) == Filter((Conjunction((Constraint("a", allowed),)),))


WRITTEN: list[tuple[str, str]] = [
    ("a > 5 and a <> 7", "a > 5 and a <> 7"),
    ("a = 1 or a = 2", "a in (1, 2)"),
    ("a >= 5 and a <= 9", "a between 5 and 9"),
    ("a >= 5 and a < 9", "a >= 5 and a < 9"),
    ("a >= 5.000000000000001", "a > 5"),
    ("a < 5.000000000000001", "a <= 5"),
    ("not (a between 3 and 9)", "(a < 3 or a > 9)"),
    ("a not in (3, 4)", "a not in (3, 4)"),
    ("b = 1 and (a in (1, 2) or a between 5 and 6 or a > 9)", "(a in (1, 2) or a between 5 and 6 or a > 9) and b = 1"),
    ("a < 0 or a >= 0", "(a < 0 or a >= 0)"),
    ("a <= 1.7976931348623157e308 and a >= 0", "a between 0 and 1.7976931348623157e+308"),
    ("x not in ('a', 5)", "false"),
    ("x in ('a', 5)", "x = 5 or x = 'a'"),
    ("x is not number", "x is boolean or x is string or x is timestamp or x is bytes"),
    ("not flag", "flag = false"),
    ("n like 'it''s%' and n > 'it''s a'", "n > 'it''s a' and n < 'it''t'"),
    ("n like '10!%%' escape '!'", "n like '10\\%%' escape '\\'"),
    ("n like '%a!%\\%' escape '!'", "n like '%a!%\\%' escape '!'"),
    ("n like '%a%' and n not like 'b%c' and n > 'b'", "n like '%a%' and n not like 'b%c' and n > 'b'"),
    ("b > x'00'", "b > x'00'"),
    ("t > 2010-02-27T06:34:11.5Z", "t > 2010-02-27T06:34:11.5Z"),
    (
        "t between 2010-02-27T06:34:11Z and 2010-02-28T00:00:00Z",
        "t between 2010-02-27T06:34:11Z and 2010-02-28T00:00:00Z",
    ),
    ('"odd name" = 1 and "and" = 2', '"and" = 2 and "odd name" = 1'),
    ("within(lat, lon, 38.3, 142.4, 300 km)", "within(lat, lon, 38.3, 142.4, 300 km)"),
    ("lat > 38 and within(lat, lon, 38.3, 142.4, 300500)", "lat > 38 and within(lat, lon, 38.3, 142.4, 300.5 km)"),
    ("not within(lat, lon, 1, 2, 5) and lat < 5", "lat < 5 and not within(lat, lon, 1, 2, 5 m)"),
    ("inside(lat, lon, polygon(1 2, 3 4.5, 5 0))", "inside(lat, lon, polygon(1 2, 3 4.5, 5 0))"),
    (
        "within(lat, lon, 0, 0, 100 km) or lat = 0.8 and lon = 0.8",
        "lat = 0.8 and lon = 0.8 or within(lat, lon, 0, 0, 100 km)",
    ),
    ("within(lat, lon, 0, 0, 1 km) or within(lat, lon, 0, 0, 1 km) and b = 1", "within(lat, lon, 0, 0, 1 km)"),
    ("a = 1 or b = 2 and c = 3", "a = 1 or b = 2 and c = 3"),
    ("(a = 1 or b = 1) and (a = 1 or c = 1)", "a = 1 or b = 1 and c = 1"),
    ("a > 5 or a > 3 and b = 1 or a > 7 and b = 2", "a > 3 and b = 1 or a > 5"),
    ("b = 1 and a = 1 or b = 1 and a = 2", "a in (1, 2) and b = 1"),
    ("a = 1 and b = 1 or a = 1 and b is null", "a = 1 and b = 1 or a = 1 and b is null"),
    ("a is null and b = 1 or a is not null and b = 1", "b = 1"),
    ("not (a = 1 or b = 2)", "a <> 1 and b <> 2"),
    ("not (a is null or a = 1)", "a <> 1"),
    ("not (a = 1 and (b = 2 or c))", "a <> 1 or b <> 2 and c = false"),
]


@pytest.mark.parametrize(("text", "written"), WRITTEN)
def test_a_normal_form_reads_well(text: str, written: str) -> None:
    found = compile_filter(text)
    assert sorted(render(found).split(" or ")) == sorted(written.split(" or "))
    assert compile_filter(render(found)) == found


NEVER = [
    "false",
    "a = 1 and a = 2",
    "a > 5 and a < 5",
    "a > 5 and a = 'x'",
    "a = 1 and a is null",
    "a between 3 and 1",
    "a not in (1, 'a')",
    "a like 'x%' and a < 'x'",
    "a like '%x' and a not like '%x'",
    "not true",
    "a is number and a is string",
    "within(lat, lon, 0, 0, 1 km) and lat > 1",
    "within(lat, lon, 0, 0, 1 km) and not within(lat, lon, 0, 0, 1 km)",
    "b > 9223372036854775807 and b < 9.223372036854775808e18",
]


@pytest.mark.parametrize("text", NEVER)
def test_what_cannot_be_true_is_nothing(text: str) -> None:
    assert compile_filter(text) == NOTHING
    assert render(NOTHING) == "false"


@pytest.mark.parametrize(
    "text", ["true", "not false", "a = 1 or true", "a is null or a is not null", "a < 1 or not false"]
)
def test_what_is_always_true_is_all(text: str) -> None:
    assert compile_filter(text) == ALL
    assert render(ALL) == "true"


def test_long_chains_of_alternatives_stay_one_conjunction() -> None:
    chain = compile_filter(" or ".join(f"a = {n}" for n in range(0, 2000, 2)))
    listed = compile_filter("a in (" + ", ".join(str(n) for n in range(0, 2000, 2)) + ")")
    assert chain == listed
    assert len(chain.conjunctions) == 1


def test_long_chains_of_exceptions_are_one_set_too() -> None:
    chain = " and ".join(f"a <> {n}" for n in range(0, 1600, 2))
    listed = "a not in (" + ", ".join(str(n) for n in range(0, 1600, 2)) + ")"
    assert compile_filter(chain) == compile_filter(listed)
    assert compile_filter(f"{chain} and a = 7") == compile_filter("a = 7")
    assert compile_filter(f"{chain} and a = 8") == NOTHING
    assert compile_filter(f"{chain} and a = 7 and a = 9") == NOTHING


def test_more_points_than_a_list_may_have_are_written_as_two_lists() -> None:
    points = members(Kind.NUMBER, range(IN_VALUES_MAX + 6))
    wide = Filter((Conjunction((Constraint("a", points),)),))
    text = render(wide)
    assert text.count(" in (") == 2
    assert compile_filter(text) == wide


def test_alternatives_of_two_attributes_multiply_only_as_sets() -> None:
    text = " and ".join("(" + " or ".join(f"{name} = {n}" for n in range(10)) + ")" for name in "abcdef")
    assert len(compile_filter(text).conjunctions) == 1
