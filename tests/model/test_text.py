"""Text of others, safe to show."""

from __future__ import annotations

import json
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.model.text import visible, visible_json

ANY = st.text(st.characters(categories=["Cc", "Cf", "Cs", "Cn", "Zl", "Zp", "Zs", "L", "S", "P"]), max_size=40)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, Grüße, 你好, \u3000wide", "plain, Grüße, 你好, \u3000wide"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202etxt.exe\u2028", r"\u202etxt.exe\u2028"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_are_seen(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(ANY)
def test_nothing_that_steers_is_left(text: str) -> None:
    shown = visible(text)
    assert not [one for one in shown if category(one) in ("Cc", "Cs", "Cn", "Zl", "Zp", "Co")]
    assert len(shown.splitlines()) <= 1
    assert visible(shown) == shown
    assert visible("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@given(st.text(max_size=40))
def test_json_says_the_same_without_them(text: str) -> None:
    shown = visible_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(shown) == {"text": text}
    assert not [one for one in shown if category(one) == "Cc" or one in "\u2028\u2029\u202e\u2066"]
