"""An event on its way through an engine in Python: checked, stamped, on our clock, and what a frame has ahead of it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, Protocol

from tidewire._kernel.codec import decode
from tidewire.dataplane.deadlines import KnownClass, completed
from tidewire.dataplane.protocol import ERROR_UNKNOWN_US
from tidewire.matching.covering import allows
from tidewire.matching.protocol import Delivery
from tidewire.model.balance_messages import RESERVED_CLASSES
from tidewire.model.errors import (
    DamagedEvent,
    EventTooLarge,
    NotAdvertised,
    NotPermitted,
    ReservedClass,
    TidewireError,
)
from tidewire.model.events import Event
from tidewire.model.filters import Filter
from tidewire.model.ids import Nanoseconds, TreeId
from tidewire.wire.frames import MORE, excess

_EVENT_HEAD: Final = struct.Struct("<2sHIII")
_STAMP: Final = struct.Struct("<QQQ")
_GUARANTEED_STAMP: Final = struct.Struct("<QQQQ")
_INT64: Final = 2**63


def decoded(data: bytes) -> Event:
    """The event in these bytes; DamagedEvent if there is none."""
    try:
        return decode(data)
    except TidewireError as problem:
        raise DamagedEvent(problem.message) from None


class Publisher(Protocol):
    """What a publisher may publish; None: anything."""

    permitted: list[Filter] | None
    advertised: list[Filter] | None


def checked(
    data: bytes,
    source: Publisher,
    *,
    frame_bytes_max: int,
    classes: Iterable[KnownClass],
    is_guaranteed: bool = False,
) -> tuple[Event, bytes]:
    """The event that a client publishes, with what its traffic class gives it; a TidewireError if it is refused."""
    event = decoded(data)
    given = event.envelope
    if any(one is not None for one in (given.publisher, given.sequence, given.pubend, given.tick, given.tree)):
        raise DamagedEvent("its envelope has fields that only a broker writes")
    if excess(len(data), frame_bytes_max, is_guaranteed=is_guaranteed):
        raise EventTooLarge("it does not fit into a frame")
    if event.attributes.get("class") in RESERVED_CLASSES:
        raise ReservedClass("its class is reserved for brokers: choose another one")
    permitted, advertised = source.permitted, source.advertised
    if permitted is not None and not any(one.accepts(event.attributes) for one in permitted):
        raise NotPermitted("its publisher may not publish this")
    if advertised is not None and not any(allows(one, event.attributes) for one in advertised):
        raise NotAdvertised("it is outside of what was advertised")
    encoded = completed(data, event, classes)
    if encoded == data:
        return event, data
    if excess(len(encoded), frame_bytes_max, is_guaranteed=is_guaranteed):
        raise EventTooLarge("it does not fit into a frame")
    return decoded(encoded), encoded


def stamped(event: bytes, publisher: int, sequence: int, tree: TreeId) -> bytes:
    """With fields 0, 1 and 4 of the envelope, of whose first five it has none (``event.hpp``)."""
    magic, bits, counts, size, body = _EVENT_HEAD.unpack_from(event)
    head = _EVENT_HEAD.pack(magic, bits | 0b10011, counts, size + _STAMP.size, body + _STAMP.size if body else 0)
    return head + _STAMP.pack(publisher, sequence, tree) + event[_EVENT_HEAD.size :]


def guaranteed_stamp(event: bytes, publisher: int, sequence: int, pubend: int, tick: int) -> bytes:
    """With fields 0 to 3 of the envelope; the tree is not among them, for the event outlives it."""
    magic, bits, counts, size, body = _EVENT_HEAD.unpack_from(event)
    grown = _GUARANTEED_STAMP.size
    head = _EVENT_HEAD.pack(magic, bits | 0b01111, counts, size + grown, body + grown if body else 0)
    return head + _GUARANTEED_STAMP.pack(publisher, sequence, pubend, tick) + event[_EVENT_HEAD.size :]


def sequence_at(event: bytes, start: int = 0) -> int | None:
    """Where the sequence stands in an encoded event that begins there: field 1 of the envelope, if it has one."""
    if len(event) < start + _EVENT_HEAD.size + 16:
        return None
    bits = _EVENT_HEAD.unpack_from(event, start)[1]
    return start + _EVENT_HEAD.size + 8 * (bits & 1) if bits & 0b10 else None


def in_int64(time_ns: int) -> int:
    """Times wrap around, as they do in the kernel."""
    return (time_ns + _INT64) % (2 * _INT64) - _INT64


def on_our_clock(clock: tuple[int, int] | None, *, born_ns: int, error_us: int, now_ns: Nanoseconds) -> tuple[int, int]:
    """When an event was born, and how far off that may be; ``clock`` is that of where it came from."""
    if clock is None:
        return now_ns, ERROR_UNKNOWN_US
    offset_ns, own_error_us = clock
    return in_int64(born_ns + offset_ns), min(ERROR_UNKNOWN_US, error_us + own_error_us)


def numbers_ahead(delivery: Delivery) -> bytes:
    """What stands in a DELIVER frame between the hop and the event."""
    if delivery.more:
        return bytes([MORE])
    return bytes([len(delivery.numbers)]) + b"".join(number.to_bytes(4, "little") for number in delivery.numbers)
