"""When is an event due, whose order must it keep, and what does its traffic class give it? In the engines in Python.

An event carries how long it lives (``ttl_ns``); when it was born stands ahead of it, on the clock of whoever reads it.
Both together are its deadline.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from tidewire.dataplane.protocol import TrafficClass
from tidewire.model.events import Event
from tidewire.model.filters import Filter
from tidewire.wire.frames import BORN, DELIVER, FORWARD, HEAD, HOP, MESSAGE, MORE

_EVENT_HEAD: Final = struct.Struct("<2sHIII")
_UINT64: Final = struct.Struct("<Q")
_INT64: Final = struct.Struct("<q")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_PUBLISHER, _PUBEND, _TICK, _CLASS, _TTL, _VALUE = 0, 2, 3, 6, 7, 8

Line = tuple[str, int]
"""What keeps its order: the events of one publisher, the guaranteed ones of one stream, receipts."""

RECEIPTS: Final[Line] = ("receipts", 0)


class Due(NamedTuple):
    """What an output queue has to know of a frame."""

    line: Line | None
    """None: a message, which nothing overtakes."""

    deadline_ns: int | None = None
    may_expire: bool = False


def deadline_of(*, born_ns: int, ttl_ns: int) -> int:
    """When an event is due that was born then and lives so long; beyond all times, at the last one."""
    return min(_INT64_MAX, max(_INT64_MIN, born_ns + ttl_ns))


def is_expired(event: Event, *, born_ns: int, now_ns: int) -> bool:
    """Is it past its deadline? One that is guaranteed is late, and no more."""
    ttl_ns = event.envelope.ttl_ns
    if ttl_ns is None or event.envelope.tick is not None:
        return False
    return deadline_of(born_ns=born_ns, ttl_ns=ttl_ns) < now_ns


def due_of(frame: bytes) -> Due:
    """Of a frame that a broker is about to send."""
    kind = frame[4]
    if kind == MESSAGE:
        return Due(None)
    if kind not in (FORWARD, DELIVER):
        return Due(RECEIPTS)
    start = HEAD.size + HOP.size
    if kind == DELIVER:
        start += 1 if frame[start] == MORE else 1 + 4 * frame[start]
    bits = _EVENT_HEAD.unpack_from(frame, start)[1]
    start += _EVENT_HEAD.size
    is_guaranteed = bool(bits >> _TICK & 1)
    of = _PUBEND if is_guaranteed else _PUBLISHER
    name = _UINT64.unpack_from(frame, start + offset_of(bits, of))[0] if bits >> of & 1 else 0
    line = ("stream" if is_guaranteed else "publisher", name)
    if not bits >> _TTL & 1:
        return Due(line)
    born_ns = BORN.unpack_from(frame, HEAD.size)[0]
    ttl_ns = _INT64.unpack_from(frame, start + offset_of(bits, _TTL))[0]
    return Due(line, deadline_of(born_ns=born_ns, ttl_ns=ttl_ns), not is_guaranteed)


def offset_of(bits: int, field: int) -> int:
    """Where a field of the envelope stands behind the header: all ahead of the tenant have 8 bytes but the class, 4."""
    before = bits & ((1 << field) - 1)
    return 8 * before.bit_count() - 4 * (before >> _CLASS & 1)


class KnownClass(NamedTuple):
    """A traffic class with its filter read."""

    what: TrafficClass
    wanted: Filter


def completed(encoded: bytes, event: Event, classes: Iterable[KnownClass]) -> bytes:
    """The event with what the first class that it matches gives it, as far as it carries none."""
    of = next((one.what for one in classes if one.wanted.accepts(event.attributes)), None)
    if of is None:
        return encoded
    magic, bits, counts, size, body = _EVENT_HEAD.unpack_from(encoded)
    given = (
        (_CLASS, struct.pack("<I", of.number)),
        (_TTL, None if of.ttl_ns is None else _INT64.pack(of.ttl_ns)),
        (_VALUE, None if of.value is None else struct.pack("<d", of.value)),
    )
    gets = {field: data for field, data in given if data is not None and not bits >> field & 1}
    envelope, made, at = encoded[_EVENT_HEAD.size :], b"", 0
    for field, data in gets.items():
        end = offset_of(bits, field)
        made += envelope[at:end] + data
        at = end
    grown = sum(map(len, gets.values()))
    bits |= sum(1 << field for field in gets)
    head = _EVENT_HEAD.pack(magic, bits, counts, size + grown, body + grown if body else 0)
    return head + made + envelope[at:]
