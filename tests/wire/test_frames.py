"""Frames and messages: what goes in comes out, however the bytes are cut; what is none is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.model.errors import DamagedFrame
from tidewire.model.messages import Message, Ping, Subscribe
from tidewire.wire.frames import (
    DELIVER,
    HOP,
    MESSAGE,
    MORE,
    Delivered,
    FrameReader,
    decode_delivered,
    decode_message,
    frame,
    message_frame,
)

KINDS = get_args(Message)
st.register_type_strategy(int, st.integers(-(2**63), 2**63 - 1))
st.register_type_strategy(float, st.floats(allow_nan=False))
st.register_type_strategy(str, st.text())


@given(st.sampled_from(KINDS).flatmap(st.from_type), st.lists(st.integers(1, 40), max_size=20))
def test_a_message_comes_out_as_it_went_in(message: Message, cuts: list[int]) -> None:
    sent = message_frame(message) * 2
    reader, got, at = FrameReader(), [], 0
    for size in [*cuts, len(sent)]:
        got += list(reader.feed(sent[at : at + size]))
        at += size
    assert [kind for kind, _ in got] == [MESSAGE] * 2
    assert [decode_message(payload) for _, payload in got] == [message] * 2


def test_tags_are_unique_and_stay() -> None:
    """A tag is what the wire knows a message by: it never changes."""
    tags = {kind.__struct_config__.tag: kind.__name__ for kind in KINDS}
    assert len(tags) == len(KINDS)
    assert (tags[1], tags[10], tags[30], tags[62]) == ("Hello", "Subscribe", "Offer", "Status")


def test_elements_behind_those_that_are_known_are_ignored() -> None:
    payload = message_frame(Ping(7))[5:]
    assert decode_message(b"\x93" + payload[1:] + b"\xc0") == Ping(7)


@given(st.binary(max_size=200))
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with suppress(DamagedFrame):
        decode_message(data)


@pytest.mark.parametrize("length", [0, 2**31])
def test_a_length_that_cannot_be_is_refused(length: int) -> None:
    with pytest.raises(DamagedFrame, match="a frame of"):
        list(FrameReader().feed(length.to_bytes(4, "little") + b"\1"))


def test_deliveries() -> None:
    hop = HOP.pack(-5, 7, 9)
    few = decode_delivered(hop + bytes([2]) + (3).to_bytes(4, "little") + (4).to_bytes(4, "little") + b"event")
    assert few == Delivered(-5, 7, 9, (3, 4), False, b"event")
    many = decode_delivered(hop + bytes([MORE]) + b"event")
    assert (many.numbers, many.more, many.event) == ((), True, b"event")
    for size in range(len(hop) + 1):
        with pytest.raises(DamagedFrame):
            decode_delivered((hop + bytes([2]) + b"\0\0")[:size])
    assert next(iter(FrameReader().feed(frame(DELIVER, b"x")))) == (DELIVER, b"x")


def test_a_large_request_is_one_frame() -> None:
    message = Subscribe(1, list(range(1000)), [b"x" * 100] * 1000)
    [(kind, payload)] = FrameReader().feed(message_frame(message))
    assert (kind, decode_message(payload)) == (MESSAGE, message)
