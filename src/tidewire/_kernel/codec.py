"""Events ⇄ bytes, through the kernel. The encoding is described in ``cpp/event.hpp``."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from msgspec.structs import astuple

from tidewire._kernel._native import decode_event, encode_event, join_events
from tidewire.model.events import NO_ENVELOPE, Envelope, Event


def encode(event: Event) -> bytes:
    """The event's bytes, as the kernel, the log and the wire have them."""
    fields = None if event.envelope == NO_ENVELOPE else astuple(event.envelope)
    return encode_event(dict(event.attributes), fields, event.body, event.content_type)


def decode(data: bytes) -> Event:
    """The inverse of ``encode``; DamagedEvent if these bytes are no event."""
    attributes, fields, body, content_type = decode_event(data)
    envelope = NO_ENVELOPE if fields is None else Envelope(**dict(zip(Envelope.__struct_fields__, fields, strict=True)))
    return Event(MappingProxyType(attributes), body, content_type, envelope)


def encode_batch(events: Iterable[Event]) -> bytes:
    """Events one behind the other, each behind its length."""
    return join_events([encode(event) for event in events])
