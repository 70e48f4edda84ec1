"""The normal form is true exactly where the three-valued reading of the tree is; text and trees round-trip."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from tests.strategies import (
    BYTES,
    FLOATS,
    INTEGERS,
    PATTERNS,
    STRINGS,
    TIMES,
    UNREAL,
    attributes,
    expressions,
    filters,
    predicates,
    values,
)
from tidewire.language import compile_filter, normalise, parse, render, render_expression, truth_of
from tidewire.language.normal import simplified
from tidewire.language.parser import locate
from tidewire.language.syntax import (
    NEGATED,
    TYPE_NAMES,
    And,
    Between,
    Compare,
    Expression,
    In,
    IsNull,
    IsType,
    Like,
    Not,
    Or,
    Truth,
    leaves,
)
from tidewire.model.errors import FilterTooCostly
from tidewire.model.filters import Filter, decode_filter, encode_filter
from tidewire.model.patterns import canonical_pattern
from tidewire.model.values import Timestamp, Value

EVENTS = st.lists(attributes(), min_size=1, max_size=8)
LITERALS: tuple[Value, ...] = (*INTEGERS, *FLOATS, *STRINGS, *map(Timestamp, TIMES), *BYTES, False, True)
VALUES: tuple[Value, ...] = (*LITERALS, *UNREAL)
STATES: list[dict[str, Value]] = [{}, *({"a": value} for value in VALUES)]


def _agree(expression: Expression, events: list[dict[str, Value]]) -> None:
    try:
        is_true, is_false = normalise(expression), normalise(Not(expression))
    except FilterTooCostly:
        reject()
    for event in events:
        truth = truth_of(expression, event)
        assert (is_true.accepts(event), is_false.accepts(event)) == (truth is True, truth is False), event


@given(expressions(), EVENTS)
@example(Like("a", "a%b", True), [{"a": "acb"}])
@example(Or((Compare("a", "<", 0), Compare("a", ">=", 0))), [{"a": float("nan")}, {"a": float("inf")}])
def test_the_normal_form_agrees_with_three_valued_logic(expression: Expression, events: list[dict[str, Value]]) -> None:
    _agree(expression, events)


@given(predicates(), predicates(), predicates(), st.lists(values(), min_size=1, max_size=20))
def test_so_it_does_when_all_predicates_are_about_one_attribute(
    one: Expression, two: Expression, three: Expression, found: list[Value]
) -> None:
    some = [_about_a(leaf) for leaf in (one, two, three)]
    events: list[dict[str, Value]] = [{}, *({"a": value} for value in found)]
    for combination in (And(tuple(some)), Or(tuple(some)), Or((And(tuple(some[:2])), Not(some[2])))):
        _agree(combination, events)


def _about_a(leaf: Expression) -> Expression:
    if isinstance(leaf, Compare):
        return Compare("a", leaf.op, leaf.value)
    if isinstance(leaf, In):
        return In("a", leaf.values, leaf.negated)
    if isinstance(leaf, Between):
        return Between("a", leaf.low, leaf.high, leaf.negated)
    if isinstance(leaf, Like):
        return Like("a", leaf.pattern, leaf.negated)
    return Compare("a", "<>", 5)


@pytest.mark.parametrize("op", sorted(NEGATED))
def test_every_comparison_of_every_pair_of_edge_values(op: str) -> None:
    for literal in LITERALS:
        if isinstance(literal, bool) and op not in ("=", "<>"):
            continue
        _agree(Compare("a", op, literal), STATES)  # type: ignore[arg-type]


def test_every_pattern_list_type_and_range_of_edge_values() -> None:
    leaves_of_one: list[Expression] = [
        *(Like("a", canonical_pattern(pattern, escape="\\")) for pattern in PATTERNS),
        *(IsType("a", kind) for kind in TYPE_NAMES.values()),
        *(In("a", values) for values in itertools.combinations(LITERALS[::6], 2)),
        *(Between("a", low, high) for low, high in itertools.product(INTEGERS[::4] + FLOATS[::3], repeat=2)),
        *(Between("a", low, high) for low, high in itertools.product(STRINGS[::3], repeat=2)),
        IsNull("a"),
        Truth(True),
    ]
    for leaf in leaves_of_one:
        _agree(leaf, STATES)


@given(expressions())
def test_a_rendered_tree_parses_to_itself(expression: Expression) -> None:
    assert parse(render_expression(expression)) == expression


@given(expressions())
def test_each_predicate_stands_where_locate_says(expression: Expression) -> None:
    text = render_expression(expression)
    assert [parse(text[start:end]) for start, end in locate(text)] == list(leaves(expression))


@given(filters())
def test_a_rendered_filter_compiles_to_itself(candidate: Filter) -> None:
    assert compile_filter(render(candidate)) == candidate


@given(filters())
def test_a_normal_form_is_as_simple_as_it_gets_and_survives_its_encoding(candidate: Filter) -> None:
    assert simplified(candidate) == candidate
    assert decode_filter(encode_filter(candidate)) == candidate
