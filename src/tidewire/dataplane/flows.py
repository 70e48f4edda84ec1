"""A flow is n equal events told at once. Only for the simulator: no wire carries it, the other engines refuse it.

A FLOW frame says of the PUBLISH, FORWARD or DELIVER frame right behind it: this stands for ``count`` frames. From one
to the next the position and the sequence ascend by one, and the time of birth by ``every_ns``; all else is equal. Both
frames always travel together, in one piece, so no frame is larger than it would be without. (A time between two events,
and not a time for all: so any part of a flow is a flow with the same births.)

What a flow weighs are its *virtual bytes*: what its events would weigh one by one. ``size_of`` says it of bytes with
flows in them, of all others it says their length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from tidewire.dataplane.events import in_int64, sequence_at
from tidewire.model.errors import DamagedFrame
from tidewire.wire.frames import BORN, DELIVER, HEAD, HOP, MORE, PUBLISH, FrameReader, frame

FLOW: Final = 64
_REPEAT: Final = struct.Struct("<QQ")
_UINT64: Final = struct.Struct("<Q")
_POSITION_AT: Final = HEAD.size + 12
_HOP_END: Final = HEAD.size + HOP.size


class Repeat(msgspec.Struct, frozen=True):
    """What a FLOW frame says of the one behind it."""

    count: int
    every_ns: int


class Bulk(bytes):
    """Bytes with flows in them. Never cut or joined: their size would be lost."""

    size: int
    """In virtual bytes."""


def bulk(data: bytes, size: int) -> Bulk:
    """These bytes stand for so many."""
    made = Bulk(data)
    made.size = size
    return made


def size_of(data: bytes) -> int:
    """In virtual bytes."""
    return data.size if isinstance(data, Bulk) else len(data)


def flow(one: bytes, repeat: Repeat) -> bytes:
    """A frame, and that it stands for several; one alone is told as it is."""
    return one if repeat.count == 1 else frame(FLOW, _REPEAT.pack(repeat.count, repeat.every_ns)) + one


def decode_repeat(payload: bytes) -> Repeat:
    """What a FLOW frame says."""
    if len(payload) != _REPEAT.size:
        raise DamagedFrame("a flow says how often and how far apart, and nothing else")
    repeat = Repeat(*_REPEAT.unpack(payload))
    if repeat.count < 1:
        raise DamagedFrame("a flow has at least one event")
    return repeat


def later(one: bytes, steps: int, every_ns: int) -> bytes:
    """The frame that comes so many events behind this one in a flow."""
    if not steps:
        return one
    made, start = bytearray(one), HEAD.size + BORN.size
    BORN.pack_into(made, HEAD.size, in_int64(BORN.unpack_from(one, HEAD.size)[0] + steps * every_ns))
    if one[4] != PUBLISH:
        _UINT64.pack_into(made, _POSITION_AT, _UINT64.unpack_from(one, _POSITION_AT)[0] + steps)
        start = _HOP_END
    if one[4] == DELIVER:
        start += 1 if one[start] == MORE else 1 + 4 * one[start]
    at = sequence_at(one, start)
    if at is not None:
        _UINT64.pack_into(made, at, _UINT64.unpack_from(one, at)[0] + steps)
    return bytes(made)


def step_between(one: bytes, other: bytes) -> int:
    """How much later than the one was the other born?"""
    return int(BORN.unpack_from(other, HEAD.size)[0] - BORN.unpack_from(one, HEAD.size)[0])


def events_of(one: bytes, repeat: Repeat) -> Iterator[bytes]:
    """The frames that a flow stands for, one by one."""
    return (later(one, i, repeat.every_ns) for i in range(repeat.count))


def expanded(data: bytes) -> bytes:
    """The same without flows, as far as its frames are whole."""
    reader, repeat = FrameReader(frame_bytes_max=1 << 30), Repeat(1, 0)
    made: list[bytes] = []
    for kind, payload in reader.feed(data):
        if kind == FLOW:
            repeat = decode_repeat(payload)
            continue
        made += events_of(frame(kind, payload), repeat)
        repeat = Repeat(1, 0)
    return b"".join(made)
