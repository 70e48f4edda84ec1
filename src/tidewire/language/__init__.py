"""Text into filters and back: SQL-style selectors, the tuple notation of PADRES, the normal form, explanations."""

from __future__ import annotations

from tidewire.language.explain import Decision, Explanation, explain
from tidewire.language.lexer import TEXT_CHARACTERS_MAX, decode_text
from tidewire.language.normal import conjoined, normalise
from tidewire.language.parser import DEPTH_MAX, IN_VALUES_MAX, PREDICATES_MAX, parse
from tidewire.language.render import render, render_expression
from tidewire.language.syntax import Expression
from tidewire.language.truth import truth_of
from tidewire.language.tuples import read_publication, read_tuples, write_publication, write_tuples
from tidewire.model.filters import Filter

__all__ = [
    "DEPTH_MAX",
    "IN_VALUES_MAX",
    "PREDICATES_MAX",
    "TEXT_CHARACTERS_MAX",
    "Decision",
    "Explanation",
    "Expression",
    "as_selector",
    "compile_filter",
    "conjoined",
    "decode_text",
    "explain",
    "normalise",
    "parse",
    "read_publication",
    "read_tuples",
    "render",
    "render_expression",
    "truth_of",
    "write_publication",
    "write_tuples",
]


def compile_filter(text: str) -> Filter:
    """The normal form of a filter's text."""
    return normalise(parse(text))


def as_selector(text: str) -> str:
    """The text of a filter; tuples are rewritten as the selector that says the same."""
    return render(read_tuples(text)) if text.lstrip().startswith("[") else text
