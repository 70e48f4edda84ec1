"""Frames and messages: what goes in comes out, however the bytes are cut; what is none is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from tidewire.model.errors import DamagedFrame
from tidewire.model.ids import BrokerId, TreeId
from tidewire.model.messages import Advertise, Hello, Message, Neighbourhood, Ping, Subscribe
from tidewire.model.routing_messages import Offer
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


def allowed(kind: Any, bounds: Meta) -> st.SearchStrategy[Any]:
    """Any value of this type within these bounds."""
    origin = getattr(kind, "__supertype__", kind)
    if origin is int:
        assert bounds.ge is not None or bounds.gt is not None
        low = int(bounds.ge) if bounds.ge is not None else int(bounds.gt or 0) + 1
        high = bounds.le if bounds.lt is None else bounds.lt - 1
        return st.integers(low, 2**64 - 1 if high is None else int(high))
    if origin is float:
        return st.floats(bounds.ge, bounds.le)
    longest = bounds.max_length or 4
    if origin is bytes:
        return st.binary(min_size=bounds.min_length or 0, max_size=longest)
    if origin is str:
        letters = st.characters(exclude_categories=["Cc", "Cs"] if bounds.pattern else ["Cs"])
        return st.text(letters, min_size=bounds.min_length or 0, max_size=longest)
    return st.lists(values_of(get_args(kind)[0]), min_size=bounds.min_length or 0, max_size=longest)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value that a field of this type can have on the wire."""
    if get_origin(kind) is Annotated:
        return allowed(*get_args(kind))
    origin = getattr(kind, "__supertype__", kind)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False),
        str: st.text(max_size=20),
        bytes: st.binary(max_size=20),
        bool: st.booleans(),
        type(None): st.none(),
    }
    if origin in plain:
        return plain[origin]
    if isinstance(kind, type) and issubclass(kind, Struct):
        return messages_of(kind)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) is list:
        return st.lists(values_of(get_args(kind)[0]), max_size=4)
    if get_origin(kind) is tuple:
        return st.tuples(*(values_of(one) for one in get_args(kind)))
    return st.one_of([values_of(one) for one in get_args(kind)])


def messages_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any message of this kind."""
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{name: values_of(hints[name]) for name in kind.__struct_fields__})


@given(st.sampled_from(KINDS).flatmap(messages_of), st.lists(st.integers(1, 40), max_size=20))
def test_a_message_comes_out_as_it_went_in(message: Message, cuts: list[int]) -> None:
    sent = message_frame(message) * 2
    reader, got, at = FrameReader(), [], 0
    for size in [*cuts, len(sent)]:
        got += list(reader.feed(sent[at : at + size]))
        at += size
    assert [kind for kind, _ in got] == [MESSAGE] * 2
    assert [decode_message(payload) for _, payload in got] == [message] * 2


@pytest.mark.parametrize(
    "message",
    [
        Hello(version=1, name="x", uses=[], publisher=-1),
        Hello(version=1, name="x", uses=[], next_sequence=2**64 - 1),
        Advertise(1, [], [], -5),
        Offer(TreeId(-5), [BrokerId("A")]),
        Offer(TreeId(5), []),
        Offer(TreeId(5), [BrokerId("")]),
        Neighbourhood(-1, "auto", "both"),
        Ping(2**63),
    ],
)
def test_a_value_out_of_range_is_no_message(message: Message) -> None:
    _, payload = next(FrameReader().feed(message_frame(message)))
    with pytest.raises(DamagedFrame):
        decode_message(payload)


def test_what_stands_behind_a_message_may_not_be_bottomless() -> None:
    """Elements that are not known are ignored, yet they are read."""
    assert decode_message(b"\x93\x05\x01" + b"\x91" * 10 + b"\x01") == Ping(1)
    with pytest.raises(DamagedFrame):
        decode_message(b"\x93\x05\x01" + b"\x91" * 100_000 + b"\x01")


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
