"""What the data cluster's readers ask for, and what they are answered: requests and blocks of events, pure.

A request is u32 length, then msgpack. An answer is the same, and behind it as many bytes of events as it says.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from tidewire.model.errors import DamagedFrame

LENGTH: Final = struct.Struct("<I")
REQUEST_BYTES_MAX: Final = 16 << 20

Offsets = dict[str, dict[str, int]]
"""By feed and stream (16 hexadecimal digits): the first tick that is not meant any more."""


class Enter(msgspec.Struct, frozen=True, tag="enter"):
    """Who asks; the first thing that is said. Nothing but the secret of this data cluster opens the door."""

    secret: str


class Latest(msgspec.Struct, frozen=True, tag="latest"):
    """How far may one go from here, with about so many events of each feed? Answered by Ends."""

    start: Offsets
    events_max: int


class Divide(msgspec.Struct, frozen=True, tag="divide"):
    """What is to be read between these, in pieces of about so many events? Answered by Pieces."""

    start: Offsets
    end: Offsets
    events_max: int


class Read(msgspec.Struct, frozen=True, tag="read"):
    """The events of a stream from one tick up to another, which is not included. Answered by Block."""

    feed: str
    stream: str
    first: int
    end: int


class Settle(msgspec.Struct, frozen=True, tag="settle"):
    """All below is stored. Answered by Ends, with where the feeds are now."""

    ends: Offsets


Request = Enter | Latest | Divide | Read | Settle


class Ends(msgspec.Struct, frozen=True, tag="ends"):
    """So far."""

    ends: Offsets


class Pieces(msgspec.Struct, frozen=True, tag="pieces"):
    """What to ask for, one after the other or all at once."""

    pieces: list[Read]


class Block(msgspec.Struct, frozen=True, tag="block"):
    """So many bytes follow: a batch of events, each behind its length. Gaps: the first tick and the last, both lost."""

    size: int
    gaps: list[tuple[int, int]] = []


class Refusal(msgspec.Struct, frozen=True, tag="refusal"):
    """It cannot be had, and why."""

    code: str
    reason: str


Answer = Ends | Pieces | Block | Refusal

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def framed(message: Request | Answer) -> bytes:
    """The bytes of a request, or of an answer without its events."""
    payload = _encoder.encode(message)
    return LENGTH.pack(len(payload)) + payload


def length_of(head: bytes) -> int:
    """How long is what follows? DamagedFrame if nobody speaks so."""
    (length,) = LENGTH.unpack(head)
    if not 0 < length <= REQUEST_BYTES_MAX:
        raise DamagedFrame(f"a message of {length} bytes: from 1 to {REQUEST_BYTES_MAX} are allowed")
    return int(length)


def request_of(payload: bytes) -> Request:
    """What a reader asks for."""
    try:
        return _requests.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedFrame(f"a reader's request cannot be read: {error}") from None


def answer_of(payload: bytes) -> Answer:
    """What a reader is answered."""
    try:
        return _answers.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedFrame(f"the answer to a reader cannot be read: {error}") from None
