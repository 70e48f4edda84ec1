"""The normal form is true exactly where the three-valued reading of the tree is; text and trees round-trip."""

from __future__ import annotations

from hypothesis import example, given, settings

from tests.strategies import attributes, expressions, filters
from tidewire.language import compile_filter, parse
from tidewire.language.lexer import TEXT_CHARACTERS_MAX
from tidewire.language.normal import normalise, simplified
from tidewire.language.render import render, render_expression
from tidewire.language.syntax import Expression, Like, Not
from tidewire.language.truth import truth_of
from tidewire.model.filters import Filter, decode_filter, encode_filter
from tidewire.model.values import Value


@settings(max_examples=4000)
@given(expressions(), attributes())
@example(Not(Like("a", "a%b")), {"a": "acb"})
def test_the_normal_form_is_true_where_the_tree_is(expression: Expression, event: dict[str, Value]) -> None:
    assert normalise(expression).accepts(event) is (truth_of(expression, event) is True)


@settings(max_examples=2000)
@given(expressions(), attributes())
def test_a_negation_is_true_where_the_tree_is_false(expression: Expression, event: dict[str, Value]) -> None:
    assert normalise(Not(expression)).accepts(event) is (truth_of(expression, event) is False)


@settings(max_examples=2000)
@given(expressions())
def test_a_rendered_tree_parses_to_itself(expression: Expression) -> None:
    assert parse(render_expression(expression)) == expression


@settings(max_examples=3000)
@given(filters())
def test_a_rendered_filter_compiles_to_itself(candidate: Filter) -> None:
    text = render(candidate)
    assert len(text) <= TEXT_CHARACTERS_MAX
    assert compile_filter(text) == candidate


@given(filters())
def test_a_normal_form_is_as_simple_as_it_gets(candidate: Filter) -> None:
    assert simplified(candidate) == candidate


@given(filters())
def test_a_normal_form_survives_its_encoding(candidate: Filter) -> None:
    assert decode_filter(encode_filter(candidate)) == candidate
