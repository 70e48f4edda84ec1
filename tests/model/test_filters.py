"""Filters as bytes: what was encoded comes back, and what is no filter in normal form is refused with the reason."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.strategies import normal_filters
from tidewire.model.errors import DamagedFilter
from tidewire.model.filters import CONJUNCTIONS_MAX, Filter, decode_filter, encode_filter

NUMBER, STRING, TIMESTAMP, BOOL, PRESENT = 3, 4, 5, 2, 1
BOX = [["lat", [NUMBER, [[0, 9]], [], []]], ["lon", [NUMBER, [[0, 9]], [], []]]]


def one(kind: int, *intervals: Any, like: tuple[str, ...] = (), name: str = "a") -> list[Any]:
    return [[[[[name, [kind, intervals, like, ()]]], []]]]


DAMAGED: list[tuple[Any, str]] = [
    (None, "array"),
    ([[[[["a"]], []]]], "length"),
    (one(9, [1, 2]), "enum"),
    (one(NUMBER), "intervals do not fit"),
    (one(PRESENT, [1, 2]), "intervals do not fit"),
    (one(NUMBER, ["x", "y"]), "bound"),
    (one(NUMBER, [True, 2]), "bound"),
    (one(NUMBER, [math.nan, 2]), "bound"),
    (one(NUMBER, [1, 2**63]), "bound"),
    (one(NUMBER, [None, 2]), "bound"),
    (one(BOOL, [0, 1]), "bound"),
    (one(TIMESTAMP, [0.5, 1]), "bound"),
    (one(STRING, ["a", b"b"]), "bound"),
    (one(STRING, [[], None]), "bound"),
    (one(NUMBER, [2, 2]), "empty"),
    (one(NUMBER, [2, 1]), "empty"),
    (one(NUMBER, [3, 4], [1, 2]), "order"),
    (one(NUMBER, [3, None], [5, 6]), "order"),
    (one(NUMBER, [1, 2], like=("%x",)), "only strings"),
    (one(STRING, ["", None], like=("%%x",)), "pattern"),
    (one(STRING, ["", None], like=("x\\",)), "pattern"),
    (one(PRESENT, name=""), "attributes"),
    (one(PRESENT, name="a" * 256), "at most 255"),
    ([[[[["b", [PRESENT]], ["a", [PRESENT]]], []]]], "in order"),
    ([[[[["a", [PRESENT]], ["a", [PRESENT]]], []]]], "in order"),
    ([[[[], [[0, "lat", "lon", True, 1.0, 1.0, 1.0]]]]], "box"),
    ([[[BOX, [[0, "lat", "lon", True, 91.0, 1.0, 1.0]]]]], "Earth"),
    ([[[BOX, [[0, "lat", "lon", True, 1.0, 1.0, -1.0]]]]], "radius"),
    ([[[BOX, [[0, "lat", "lon", True, 1.0, math.nan, 1.0]]]]], "Earth"),
    ([[[BOX, [[1, "lat", "lon", True, [[1.0, 2.0]]]]]]], "corners"),
    ([[[[], []]] * (CONJUNCTIONS_MAX + 1)], "conjunctions"),
]


@pytest.mark.parametrize(("document", "reason"), DAMAGED, ids=lambda case: str(case)[:40])
def test_a_damaged_filter_is_refused_with_the_reason(document: Any, reason: str) -> None:
    with pytest.raises(DamagedFilter) as caught:
        decode_filter(msgspec.msgpack.encode(document))
    assert reason in str(caught.value)
    assert caught.value.code == "filter-damaged"


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x91", b"\x91\x90\x00", b"\x91" * 5000, b"\xa1\xff"])
def test_bytes_that_are_no_document_are_refused(data: bytes) -> None:
    with pytest.raises(DamagedFilter):
        decode_filter(data)


@given(normal_filters())
def test_what_was_encoded_comes_back(candidate: Filter) -> None:
    assert decode_filter(encode_filter(candidate)) == candidate


@given(normal_filters(), st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_gives_a_filter_that_can_be_used(candidate: Filter, place: int, byte: int) -> None:
    data = bytearray(encode_filter(candidate))
    data[place % len(data)] = byte
    with suppress(DamagedFilter):
        found = decode_filter(bytes(data))
        for value in (True, 1, 0.5, math.nan, "x", b"x"):
            found.accepts(dict.fromkeys(("a", "b", "lat", "lon"), value))
