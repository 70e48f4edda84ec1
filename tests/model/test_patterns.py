"""LIKE patterns against a plain reference, and in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.model.errors import FilterMeaningless, FilterTooLong
from tidewire.model.patterns import (
    PATTERN_CHARACTERS_MAX,
    WILD_RUN_CHARACTERS_MAX,
    canonical_pattern,
    matches_pattern,
    parse_pattern,
    spell_pattern,
)

texts = st.text(st.sampled_from("ab%_\n"), max_size=10)


def as_regex(text: str) -> re.Pattern[str]:
    return re.compile("".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in text), re.DOTALL)


@given(texts, texts)
@settings(max_examples=2 * settings().max_examples)
def test_a_pattern_matches_what_its_regex_does(pattern: str, text: str) -> None:
    """``%`` is any run, ``_`` is one character, newlines included."""
    parsed = parse_pattern(canonical_pattern(pattern, escape=None))
    assert matches_pattern(parsed, text) is (as_regex(pattern).fullmatch(text) is not None)


@given(st.lists(st.sampled_from(["%", "_", "a", "!%", "!_", "!!"]), max_size=8).map("".join))
def test_the_spelling_is_canonical(pattern: str) -> None:
    """Any escape becomes the one escape, and reading what was spelled gives the same pattern."""
    spelled = canonical_pattern(pattern, escape="!")
    assert spell_pattern(parse_pattern(spelled)) == spelled
    assert canonical_pattern(spelled, escape="\\") == spelled


@given(st.text(max_size=8))
def test_an_escaped_text_matches_itself_only(text: str) -> None:
    """Everything can be said literally."""
    escaped = "".join("!" + c if c in "!%_" else c for c in text)
    parsed = parse_pattern(canonical_pattern(escaped, escape="!"))
    assert parsed.is_literal
    assert matches_pattern(parsed, text)
    assert not matches_pattern(parsed, text + "a")


def test_a_hostile_pattern_takes_no_time() -> None:
    """No backtracking: this would not end otherwise."""
    parsed = parse_pattern("%a" * 200 + "%b")
    assert not matches_pattern(parsed, "a" * 20_000)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a!", FilterMeaningless),
        ("!a", FilterMeaningless),
        ("a" * (PATTERN_CHARACTERS_MAX + 1), FilterTooLong),
        ("%" + "_" * (WILD_RUN_CHARACTERS_MAX + 1) + "%", FilterTooLong),
    ],
)
def test_a_bad_pattern_is_refused(text: str, error: type[Exception]) -> None:
    """A dangling escape, an escape before an ordinary character, and too long ones."""
    with pytest.raises(error):
        canonical_pattern(text, escape="!")
