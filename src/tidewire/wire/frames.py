"""Frames and the messages in them. Frames with events are the kernel's; they are written here for clients and tests."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from tidewire.model.errors import DamagedFrame
from tidewire.model.messages import Message

MESSAGE: Final = 1
PUBLISH: Final = 2
FORWARD: Final = 3
DELIVER: Final = 4
GUARANTEE: Final = 5
STREAM: Final = 6
RECOVER: Final = 7
RECEIPT: Final = 8
TAKEN: Final = 9

FRAME_BYTES_MAX: Final = 2 << 20
"""Unless a node is configured otherwise."""

MORE: Final = 255
"""In place of the count of numbers: more than 16 subscriptions matched."""

HEAD: Final = struct.Struct("<IB")
LENGTH_BYTES: Final = 4
"""Ahead of what the length of a frame counts."""
BORN: Final = struct.Struct("<q")
HOP: Final = struct.Struct("<qIQ")
PROMISE: Final = struct.Struct("<qQ")
"""Ahead of a guaranteed event: born_ns and the publisher's sequence."""
GUARANTEE_AHEAD: Final = HEAD.size + PROMISE.size
SPAN: Final = struct.Struct("<QQqI")
"""Of a stream: the first tick, the last one, and born_ns and error_us of the event there."""
STREAM_HEAD: Final = struct.Struct("<QQB")
"""Ahead of a span: tree, pubend, and what it is."""
RECOVER_HEAD: Final = struct.Struct("<IB")
"""Ahead of a span: the asker's number, and what it is."""
PLAIN: Final = 0
"""What a span is: silent up to its last tick, where the event is; silent altogether if there is none."""
LOST: Final = 1
"""Nobody will ever know."""
LAST: Final = 2
"""Of a replay: silent, and the end of it."""
ANSWER: Final = 3
"""Of a stream: as PLAIN, to one who lacked it, by all that it wants now."""
RECEIPT_BODY: Final = struct.Struct("<QQ")
"""A sequence, and its tick: the log has all up to it."""
TAKEN_BODY: Final = struct.Struct("<IQQ")
"""A follower's number, a pubend, and a tick: all up to it is done with."""
EVENT_AHEAD_MAX: Final = 24 + 1 + HOP.size + 1 + 16 * 4
"""What a published event gets on its way, at most: the stamp in its envelope, and what DELIVER has ahead of it."""
TICK_BYTES: Final = 8
"""What a guaranteed one gets besides, in its stamp."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class Delivered(msgspec.Struct, frozen=True):
    """A DELIVER frame, its event still encoded."""

    born_ns: int
    error_us: int
    position: int
    numbers: tuple[int, ...]
    more: bool
    event: bytes


def frame(kind: int, payload: bytes) -> bytes:
    """One frame."""
    return HEAD.pack(len(payload) + 1, kind) + payload


def message_frame(message: Message) -> bytes:
    """A message in its frame."""
    return frame(MESSAGE, _encoder.encode(message))


def publish_frame(event: bytes, *, born_ns: int) -> bytes:
    """An encoded event in the frame that a client sends."""
    return HEAD.pack(len(event) + 9, PUBLISH) + BORN.pack(born_ns) + event


def guarantee_frame(event: bytes, *, born_ns: int, sequence: int) -> bytes:
    """An encoded event in the frame in which a client sends it into a log."""
    return HEAD.pack(len(event) + 17, GUARANTEE) + PROMISE.pack(born_ns, sequence) + event


def excess(event_bytes: int, frame_bytes_max: int, *, is_guaranteed: bool) -> str | None:
    """Why a broker does not take an event of this size, and by how much; None: it does.

    It must fit with what it gets on its way; a guaranteed one gets its tick as well.
    """
    most = frame_bytes_max - EVENT_AHEAD_MAX - is_guaranteed * TICK_BYTES
    if event_bytes <= most:
        return None
    return (
        f"this event has {event_bytes:,} bytes, {event_bytes - most:,} too many: this broker takes {most:,}"
        f" (its frame_bytes_max is {frame_bytes_max:,}, and an event gets more on its way)"
    )


def taken_frame(number: int, pubend: int, tick: int) -> bytes:
    """A follower's application is done with all up to this tick."""
    return frame(TAKEN, TAKEN_BODY.pack(number, pubend, tick))


def decode_receipt(payload: bytes | memoryview) -> tuple[int, int]:
    """The sequence and the tick of a RECEIPT."""
    if len(payload) != RECEIPT_BODY.size:
        raise DamagedFrame("a receipt has a sequence and a tick, and nothing else")
    sequence, tick = RECEIPT_BODY.unpack(payload)
    return sequence, tick


def decode_message(payload: bytes | memoryview) -> Message:
    """The message of a MESSAGE frame; DamagedFrame if it is none."""
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFrame(f"a message cannot be read: {error}") from None


def decode_delivered(payload: bytes | memoryview) -> Delivered:
    """What a DELIVER frame says."""
    try:
        born_ns, error_us, position = HOP.unpack_from(payload)
        count = payload[HOP.size]
        start = HOP.size + 1
        more = count == MORE
        numbers = () if more else struct.unpack_from(f"<{count}I", payload, start)
    except (struct.error, IndexError):
        raise DamagedFrame("a delivery ends too early") from None
    return Delivered(born_ns, error_us, position, numbers, more, bytes(payload[start + 4 * len(numbers) :]))


class FrameReader:
    """Cuts a stream of bytes into frames. Bytes that end inside a frame wait for the rest."""

    def __init__(self, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._rest = bytearray()
        self._max = frame_bytes_max

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[tuple[int, bytes]]:
        """The kind and payload of each frame that is complete; DamagedFrame if the stream cannot be one of frames."""
        self._rest += data
        at, end = 0, len(self._rest)
        try:
            while end - at >= HEAD.size:
                length, kind = HEAD.unpack_from(self._rest, at)
                if not 0 < length <= self._max:
                    raise DamagedFrame(f"a frame of {length} bytes: from 1 to {self._max} are allowed")
                if end - at < 4 + length:
                    return
                payload = bytes(memoryview(self._rest)[at + 5 : at + 4 + length])
                at += 4 + length
                yield kind, payload
        finally:
            del self._rest[:at]
