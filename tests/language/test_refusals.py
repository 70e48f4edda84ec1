"""What is refused, by which code, where, and what would have been right; and that nothing else ever happens."""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import expressions
from tidewire.language import (
    DEPTH_MAX,
    IN_VALUES_MAX,
    PREDICATES_MAX,
    TEXT_CHARACTERS_MAX,
    compile_filter,
    decode_text,
    explain,
    normalise,
    parse,
    read_publication,
    read_tuples,
    render_expression,
)
from tidewire.language.syntax import Compare, Expression
from tidewire.model.errors import (
    BadAttributeName,
    FilterMeaningless,
    FilterSyntaxError,
    FilterTooCostly,
    FilterTooDeep,
    FilterTooLong,
    TidewireError,
    UsageError,
    ValueOutOfRange,
)
from tidewire.model.geography import VERTICES_MAX

SYNTAX: list[tuple[str, int, str]] = [
    ("", 0, "a predicate"),
    (" \n\t ", 0, "a predicate"),
    ("a =", 3, "a literal"),
    ("a = \n", 3, "a literal"),
    ("a = b", 4, "a literal"),
    ("a = 'x", 4, "'"),
    ("a = 5 and", 9, "an attribute"),
    ("a = 5 or or b", 9, "an attribute"),
    ("and = 5", 0, "an attribute"),
    ("a = 5 and or = 5", 10, "an attribute"),
    ("not", 3, "an attribute"),
    ("not = 5", 4, "an attribute"),
    ("a b", 2, "like"),
    ("a = 5 6", 6, "or"),
    ("a = 5 b = 6", 6, "and"),
    ("(a = 5", 6, ")"),
    ("a = 5)", 5, "end of the filter"),
    ("()", 1, "an attribute"),
    ("a == 5", 2, "="),
    ("a = null", 4, "a literal"),
    ("a > = 5", 4, "a literal"),
    ("10 < 20", 5, "an attribute"),
    ("10", 2, "="),
    ("5 and a", 2, "="),
    ("10 < price = 5", 5, "an attribute"),
    ("a between 5", 11, "and"),
    ("a between 5 or 6", 12, "and"),
    ("a not 5", 6, "between"),
    ("a not = 5", 6, "in"),
    ("a in 5", 5, "("),
    ("a in ()", 6, "a literal"),
    ("a in (1,)", 8, "a literal"),
    ("a in (1, b)", 9, "a literal"),
    ("a in (1 2)", 8, ","),
    ("a in (1", 7, ")"),
    ("a like 5", 7, "a string in '...'"),
    ("a like b", 7, "a string in '...'"),
    ("a like 'x' escape", 17, "a string in '...'"),
    ("a is 5", 5, "null"),
    ("a is not", 8, "number"),
    ("a is integer", 5, "boolean"),
    ("a = 5x", 4, "a number"),
    ("a = 1.2.3", 4, "a number"),
    ("a = 5é", 4, "a number"),
    ("a = 1e", 4, "a number"),
    ("a = ٣", 4, "a literal"),
    ("a = - 5", 4, "a literal"),
    ("a = x'ABC'", 4, "x'DEADBEEF'"),
    ("a = x'zz'", 4, "x'DEADBEEF'"),
    ("a = x'", 4, "a literal"),
    ('a = "b"', 4, "a literal"),
    ('"" = 5', 0, ""),
    ('"a = 5', 0, "an attribute"),
    ("a. = 5", 1, "like"),
    ("a # 5", 2, "like"),
    ("‘a’ = 5", 0, "an attribute"),
    ("a\x00 = 5", 1, "like"),
    ("a = 5;", 5, "and"),
    ("a\u00a0= 5", 1, "like"),
    ("within(lat, lon, 1, 2)", 21, ","),
    ("within(lat, lon, 1, 2, 3 ft)", 25, "km"),
    ("within(lat, 5, 1, 2, 3)", 12, "an attribute"),
    ("within(lat, lon, x, 2, 3)", 17, "a number"),
    ("within(lat, lon, 1, 2, 3", 24, "m"),
    ("inside(lat, lon, 1 2, 3 4)", 17, "polygon"),
    ("inside(lat, lon, polygon(1, 2))", 26, "a number"),
    ("line = 1 and\nother = = 2", 21, "a literal"),
    ("a = 'half \ud800'", 10, ""),
]


@pytest.mark.parametrize(("text", "position", "expected"), SYNTAX)
def test_a_syntax_error_says_where_and_what_was_expected(text: str, position: int, expected: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    assert caught.value.code == "filter-syntax"
    assert caught.value.position == position
    assert not expected or expected in caught.value.expected or expected in " ".join(caught.value.expected).split()


POINTED_OUT: list[tuple[str, str, int]] = [
    ("b = 1 and a < true", "filter-meaningless", 14),
    ("b = 1 and true > a", "filter-meaningless", 17),
    ('"a" > false', "filter-meaningless", 6),
    ("a between 1 and 'x'", "filter-meaningless", 2),
    ("a like 'x!' escape '!'", "filter-meaningless", 7),
    ("a like 'x' escape 'ab'", "filter-meaningless", 18),
    ("b is number and within(lat, lon, 95, 2, 3)", "filter-meaningless", 33),
    ("within(lat, lat, 1, 2, 3)", "filter-meaningless", 12),
    ("within(lat, lon, 1, 2, -3 km)", "filter-meaningless", 23),
    ("b = 1\n and a = 2010-02-30T06:34:11Z", "value-range", 15),
    ("a = 9223372036854775808", "value-range", 4),
    ("b = 1 and 9223372036854775808 > a", "value-range", 10),
    ("a in (true, 9223372036854775808)", "value-range", 12),
    ("b = 1 and " + "a" * 256 + " = 1", "attribute-name", 10),
    ('"' + "é" * 128 + '" = 1', "attribute-name", 0),
    ("within(" + "a" * 256 + ", lon, 1, 2, 3)", "attribute-name", 0),
]


@pytest.mark.parametrize(("text", "code", "position"), POINTED_OUT, ids=lambda case: str(case)[:40])
def test_what_has_no_meaning_is_pointed_out_in_the_text(text: str, code: str, position: int) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    assert caught.value.code == code
    assert str(caught.value).startswith(f"line {line}, column {column}: ")
    assert str(caught.value).endswith("^")


def test_a_name_at_the_bound_is_taken_and_one_beyond_is_refused_with_the_bound() -> None:
    """No event has a longer one, and the kernel would refuse the filter."""
    assert compile_filter("a" * 255 + " = 1").conjunctions
    with pytest.raises(BadAttributeName, match="at most 255"):
        compile_filter("a" * 256 + " = 1")
    with pytest.raises(BadAttributeName, match="at most 255"):
        normalise(Compare("a" * 256, "=", 1))


@pytest.mark.parametrize(("given", "hint"), [(None, "NoneType"), (5, "int"), (b"a = 1", "decode_text")])
def test_what_is_no_text_is_refused(given: Any, hint: str) -> None:
    for read in (compile_filter, read_tuples, read_publication):
        with pytest.raises(UsageError, match=hint):
            read(given)


def test_a_syntax_error_draws_the_line_and_a_caret() -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse("a = 1 and\n  price >> 5\n and b = 2")
    lines = str(caught.value).split("\n")
    assert lines[0].startswith("line 2, column 10: ")
    assert lines[1:3] == ["    price >> 5", "           ^"]
    assert lines[3] == "expected a literal"


HINTS = [
    ("price = high", "single quotes: 'high'"),
    ("a == 5", "equality is written ="),
    ("a = null", "is null"),
    ("", "true"),
    ("or = 5", "double quotes"),
    ("a = “x”", "strings stand in '...'"),
    ("a = 9223372036854775808", "1e20"),
]


@pytest.mark.parametrize(("text", "hint"), HINTS)
def test_a_frequent_mistake_gets_a_hint(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert hint in str(caught.value)


OTHERS: list[tuple[str, type[UsageError]]] = [
    ("a < true", FilterMeaningless),
    ("true >= a", FilterMeaningless),
    ('"a" > false', FilterMeaningless),
    ("a between false and true", FilterMeaningless),
    ("a between 1 and 'x'", FilterMeaningless),
    ("a between timestamp '2010-02-27T06:34:11Z' and 5", FilterMeaningless),
    ("a like 'x!' escape '!'", FilterMeaningless),
    ("a like 'x' escape 'ab'", FilterMeaningless),
    ("a like 'x' escape ''", FilterMeaningless),
    ("within(lat, lat, 1, 2, 3)", FilterMeaningless),
    ("within(lat, lon, 91, 2, 3)", FilterMeaningless),
    ("within(lat, lon, 1, 2, -3)", FilterMeaningless),
    ("within(lat, lon, 1, 361, 3)", FilterMeaningless),
    ("within(lat, lon, 1, 2, 1e308 km)", FilterMeaningless),
    ("inside(lat, lon, polygon(1 2, 3 4))", FilterMeaningless),
    ("inside(lat, lon, polygon(1 2, 3 4, 1 2))", FilterMeaningless),
    ("a = 9223372036854775808", ValueOutOfRange),
    ("a = -9223372036854775809", ValueOutOfRange),
    ("a in (1, 99999999999999999999)", ValueOutOfRange),
    ("a between 1 and 99999999999999999999", ValueOutOfRange),
    ("a = " + "9" * 5000, ValueOutOfRange),
    ("9" * 5000 + " < a", ValueOutOfRange),
    ("a = 1e999", ValueOutOfRange),
    ("a in (-1e400)", ValueOutOfRange),
    ("a = 2010-02-30T06:34:11Z", ValueOutOfRange),
    ("a = 2010-02-27", ValueOutOfRange),
    ("a = timestamp 'yesterday'", ValueOutOfRange),
    ("a = 9999-01-01T00:00:00Z", ValueOutOfRange),
    ("a in (" + ",".join(["1"] * (IN_VALUES_MAX + 1)) + ")", FilterTooLong),
    ("a in (" + ",".join(["true"] * (IN_VALUES_MAX + 1)) + ")", FilterTooLong),
    (" or ".join(["a"] * (PREDICATES_MAX + 1)), FilterTooLong),
    (" or ".join(["a=1"] * (PREDICATES_MAX + 1)), FilterTooLong),
    ("a" + " " * TEXT_CHARACTERS_MAX, FilterTooLong),
    ("a like '" + "x" * 1025 + "'", FilterTooLong),
    ("a like '" + "x" * 1025 + "!%' escape '!'", FilterTooLong),
    ("inside(lat, lon, polygon(" + ",".join(f"1 {n}" for n in range(VERTICES_MAX + 1)) + "))", FilterTooLong),
    ("(" * (DEPTH_MAX + 1) + "a" + ")" * (DEPTH_MAX + 1), FilterTooDeep),
    ("not " * (DEPTH_MAX + 1) + "a", FilterTooDeep),
    ("(" * 16000, FilterTooDeep),
    ("not " * 4000, FilterTooDeep),
    ("not(" * 4000, FilterTooDeep),
]


@pytest.mark.parametrize(("text", "error"), OTHERS, ids=lambda case: str(case)[:40])
def test_a_filter_beyond_a_bound_or_without_meaning_is_refused_by_its_code(text: str, error: type[UsageError]) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert type(caught.value) is error
    assert len(str(caught.value)) < 400


def test_what_is_too_long_or_too_deep_is_pointed_at() -> None:
    for text, column in (
        ("a = 1 and " + "(" * (DEPTH_MAX + 1) + "b", len("a = 1 and ") + DEPTH_MAX + 1),
        ("not " * (DEPTH_MAX + 1) + "a", 4 * DEPTH_MAX + 1),
        ("a=1 or " * PREDICATES_MAX + "b", 7 * PREDICATES_MAX + 1),
        ("a" * (TEXT_CHARACTERS_MAX + 1), TEXT_CHARACTERS_MAX + 1),
        ("b like '" + "x" * 1025 + "'", len("b ") + 1),
    ):
        with pytest.raises((FilterTooDeep, FilterTooLong)) as caught:
            parse(text)
        assert str(caught.value).startswith(f"line 1, column {column}: ")
        assert str(caught.value).endswith("^")


AT_THE_BOUND = [
    "(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX,
    "not " * DEPTH_MAX + "a",
    "not(" * (DEPTH_MAX // 2) + "a" + ")" * (DEPTH_MAX // 2),
    "a in (" + ",".join(map(str, range(IN_VALUES_MAX))) + ")",
    " or ".join(["a=1"] * PREDICATES_MAX),
    "a" + " " * (TEXT_CHARACTERS_MAX - 1),
    "a = " + "0" * 16_000 + "7",
    "a like '" + "x" * 1023 + "%'",
]


@pytest.mark.parametrize("text", AT_THE_BOUND, ids=lambda text: text[:20])
def test_a_filter_at_the_bound_is_taken(text: str) -> None:
    assert len(compile_filter(text).conjunctions) == 1


def test_depth_is_the_filter_s_not_the_caller_s() -> None:
    """A nested filter needs few enough frames to be parsed far down a call stack."""

    def deep(levels: int) -> int:
        return deep(levels - 1) if levels else len(compile_filter(AT_THE_BOUND[0]).conjunctions)

    assert deep(sys.getrecursionlimit() // 2) == 1


EXPLOSIVE = [
    " and ".join(f"(a{n} = 1 or b{n} = 1)" for n in range(20)),
    "not (" + " or ".join(f"(a{n} = 1 and b{n} = 1)" for n in range(20)) + ")",
    " or ".join(f"a{n} = 1" for n in range(400)),
    " or ".join(f"a like '%{n}%'" for n in range(400)),
    # each factor leaves the alternatives as many as they are, but makes them be compared anew
    "("
    + " or ".join(f"p = 1 and a{n} = 1" for n in range(120))
    + ") and "
    + " and ".join(f"(p = 1 or q{n} = 1)" for n in range(390)),
]


@pytest.mark.parametrize("text", EXPLOSIVE, ids=lambda text: text[:30])
def test_a_filter_whose_normal_form_explodes_is_refused(text: str) -> None:
    with pytest.raises(FilterTooCostly) as caught:
        compile_filter(text)
    assert "split" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "position"), [(b"a = \xff", 4), (b"\xc3", 0), ("größe = '".encode() + b"\xed\xa0\x80'", 9)]
)
def test_bytes_that_are_not_utf_8_are_refused_at_the_byte(data: bytes, position: int) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        decode_text(data)
    assert caught.value.position == position


def test_utf_8_is_decoded_and_bounded() -> None:
    assert decode_text("größe = '日'".encode()) == "größe = '日'"
    with pytest.raises(FilterTooLong):
        decode_text(b"a" * (4 * TEXT_CHARACTERS_MAX + 1))


def _survives(text: str) -> None:
    for read in (explain, read_tuples, read_publication):
        with suppress(TidewireError):
            read(text)


PIECES = (
    "and", "or", "not", "between", "in", "like", "escape", "is", "null", "true", "timestamp", "within", "inside",
    "polygon", "number", "a", "b.c", '"q"', "'s'", "'", '"', "''", "x'0f'", "1", "-2.5e3", "99999999999999999999",
    "2010-02-27T06:34:11Z", "(", ")", ",", "[", "]", "=", "<>", "!=", "<", ">=", "*", "eq", "km", "\0", "é", "\ud800",
    " ", "\n", "%", "\\", "+", "-", ".",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.sampled_from(["", " "]))
@example(["x'", "a"], "")
def test_random_pieces_of_the_language_never_crash(pieces: list[str], separator: str) -> None:
    _survives(separator.join(pieces))


@given(st.text(max_size=200))
def test_random_text_never_crashes(text: str) -> None:
    _survives(text)


@given(expressions(), st.integers(0, 10_000), st.characters())
def test_a_truncated_or_damaged_filter_never_crashes(expression: Expression, place: int, other: str) -> None:
    text = render_expression(expression)
    place %= len(text) + 1
    _survives(text[:place])
    _survives(text[:place] + other + text[place + 1 :])


def test_a_million_random_bytes_never_crash() -> None:
    source = random.Random(7)
    parsed = 0
    for size in [1000] * 500 + [5] * 20_000 + [50] * 8_000:
        data = source.randbytes(size)
        # Most random bytes are not UTF-8; as Latin-1 they reach the parser.
        for read in (decode_text, lambda data: "a = 1 and (" + data.decode("latin-1")):
            with suppress(TidewireError):
                parse(read(data))
                parsed += 1
    assert parsed
