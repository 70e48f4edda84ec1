"""Events: typed attributes, an optional opaque body, and the envelope that every event carries.

``make_event`` is the one door: what comes out of it has only names and values that filters, the wire and the kernel
can handle. Nested mappings become dotted names, ``None`` means that the attribute is absent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

import msgspec

from tidewire.model.errors import BadAttributeName, EventTooLarge, UnsupportedType, ValueOutOfRange
from tidewire.model.names import NAME_BYTES_MAX, refuse_bad_name
from tidewire.model.values import INT64_MAX, INT64_MIN, Timestamp, Value, type_names

ATTRIBUTES_MAX: Final = 1024
NESTING_MAX: Final = 32
NAMES_BYTES_MAX: Final = 65_535
"""All names of an event together, with two bytes for each."""

VALUE_BYTES_MAX: Final = 1 << 20
BODY_BYTES_MAX: Final = 16 << 20
CONTENT_TYPE_BYTES_MAX: Final = 255
DEADLINE_S_MIN: Final = 1e-6
DEADLINE_S_MAX: Final = 1e9
TRACE_BYTES: Final = 25
"""A trace id of 16 bytes, a span id of 8, one byte of flags."""

_CERTAINLY_FEW: Final = NAMES_BYTES_MAX // (NAME_BYTES_MAX + 2)
_U64_MAX: Final = 2**64 - 1
_U32_MAX: Final = 2**32 - 1
_INTEGER_FIELDS: Final = (
    ("publisher", 0, _U64_MAX),
    ("sequence", 0, _U64_MAX),
    ("pubend", 0, _U64_MAX),
    ("tick", 0, _U64_MAX),
    ("tree", 0, _U64_MAX),
    ("published_ns", INT64_MIN, INT64_MAX),
    ("traffic_class", 0, _U32_MAX),
    ("ttl_ns", INT64_MIN, INT64_MAX),
    ("tenant", 0, _U32_MAX),
)
_SCALARS: Final = frozenset({bool, int, float, str, bytes, Timestamp})
"""Types that need not be asked whether they are mappings, which is slow."""

_Default = TypeVar("_Default")


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What the system knows about an event; an absent field is None and costs one bit.

    Identifiers are unsigned 64-bit, ``traffic_class`` and ``tenant`` unsigned 32-bit, times are signed nanoseconds
    since 1970. The order of the fields is the order of their bits. ``ttl_ns`` is how long the event lives from its
    birth on: clocks differ, spans of time do not. What is past it is late, and if it is best effort, thrown away.
    """

    publisher: int | None = None
    sequence: int | None = None
    pubend: int | None = None
    tick: int | None = None
    tree: int | None = None
    published_ns: int | None = None
    traffic_class: int | None = None
    ttl_ns: int | None = None
    value: float | None = None
    tenant: int | None = None
    trace: bytes | None = None

    def __post_init__(self) -> None:
        for name, low, high in _INTEGER_FIELDS:
            number = getattr(self, name)
            if number is not None:
                _refuse_integer(name, number, low, high)
        if self.value is not None:
            _refuse_value(self.value)
        if self.trace is not None:
            _refuse_trace(self.trace)


def _refuse_integer(name: str, number: object, low: int, high: int) -> None:
    if type(number) is not int:
        raise UnsupportedType(f"the envelope's {name} is a {type(number).__name__}; it must be an int")
    if not low <= number <= high:
        raise ValueOutOfRange(f"the envelope's {name} is {number}; it must be from {low} to {high}")


def _refuse_value(value: object) -> None:
    if type(value) is not float:
        raise UnsupportedType(f"the envelope's value is a {type(value).__name__}; it must be a float")
    if not math.isfinite(value):
        raise ValueOutOfRange(f"the envelope's value is {value}; it must be finite, because values are added up")


def _refuse_trace(trace: object) -> None:
    if type(trace) is not bytes:
        raise UnsupportedType(f"the envelope's trace is a {type(trace).__name__}; it must be bytes")
    if len(trace) != TRACE_BYTES:
        raise ValueOutOfRange(f"the envelope's trace has {len(trace)} bytes; it must have {TRACE_BYTES}")


NO_ENVELOPE: Final = Envelope()


class Event(msgspec.Struct, frozen=True, eq=False):
    """What a publisher said, as ``make_event`` checked it. Reads like a mapping of its attributes."""

    attributes: Mapping[str, Value]
    body: bytes | None = None
    content_type: str | None = None
    envelope: Envelope = NO_ENVELOPE

    def __getitem__(self, name: str) -> Value:
        return self.attributes[name]

    @overload
    def get(self, name: str) -> Value | None: ...

    @overload
    def get(self, name: str, default: _Default) -> Value | _Default: ...

    def get(self, name: str, default: object = None) -> object:
        """The attribute's value; the default if it is absent."""
        return self.attributes.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self.attributes

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __eq__(self, other: object) -> bool:
        """Can nobody tell them apart? 1, 1.0 and True differ, -0.0 and 0.0 too; NaN equals NaN."""
        return self._compared() == other._compared() if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._compared())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (dict(self.attributes), self.body, self.content_type, self.envelope)

    def _compared(self) -> tuple[object, ...]:
        exact = frozenset(
            (name, type(value), value.hex() if isinstance(value, float) else value)
            for name, value in self.attributes.items()
        )
        return exact, self.body, self.content_type, self.envelope


def _restored(attributes: dict[str, Value], body: bytes | None, content_type: str | None, envelope: Envelope) -> Event:
    return Event(MappingProxyType(attributes), body, content_type, envelope)


def make_event(
    attributes: Mapping[str, Any],
    *,
    body: bytes | bytearray | memoryview | None = None,
    content_type: str | None = None,
    envelope: Envelope = NO_ENVELOPE,
) -> Event:
    """The event of these attributes, each checked and flattened; a UsageError that names what is wrong."""
    flat = MappingProxyType(flatten(attributes))
    if body is None and content_type is None:
        return Event(flat, None, None, envelope)
    kind_of_body = _checked_content_type(content_type, has_body=body is not None)
    return Event(flat, _checked_body(body), kind_of_body, envelope)


def with_deadline(event: Event, *, deadline_s: float | None = None, value: float | None = None) -> Event:
    """The event, of use for so long from its publication on, and worth so much; None: as it was. Else a UsageError."""
    if deadline_s is None and value is None:
        return event
    if deadline_s is not None and not DEADLINE_S_MIN <= deadline_s <= DEADLINE_S_MAX:
        raise ValueOutOfRange(
            f"deadline_s = {deadline_s}: an event is of use for {DEADLINE_S_MIN:g} to {DEADLINE_S_MAX:g} s from its"
            " publication on; without it, for ever"
        )
    if value is not None and not 0 <= value <= 1:
        raise ValueOutOfRange(f"value = {value}: what an event is worth is from 0 to 1")
    known = event.envelope
    envelope = msgspec.structs.replace(
        known,
        ttl_ns=known.ttl_ns if deadline_s is None else round(deadline_s * 1e9),
        value=known.value if value is None else float(value),
    )
    return msgspec.structs.replace(event, envelope=envelope)


def flatten(attributes: Mapping[str, Any]) -> dict[str, Value]:
    """Names and values as an event carries them, in the order given."""
    flat = _taken_as_is(attributes) if type(attributes) is dict else None
    return _Flattening(attributes).flat if flat is None else flat


def _taken_as_is(attributes: dict[Any, Any]) -> dict[str, Value] | None:
    """The quick way for what needs no second look; None if anything does."""
    if len(attributes) > _CERTAINLY_FEW:
        return None
    for name, value in attributes.items():
        if type(name) is not str or not 0 < len(name) <= NAME_BYTES_MAX or not name.isascii():
            return None
        kind = type(value)
        if kind is str:
            if len(value) > VALUE_BYTES_MAX or not value.isascii():
                return None
        elif kind is int:
            if not INT64_MIN <= value <= INT64_MAX:
                return None
        elif kind is not float and kind is not bool and not (kind is Timestamp and _is_timestamp(value)):
            return None
    return attributes.copy()


def _is_timestamp(value: Timestamp) -> bool:
    return type(value.ns) is int and INT64_MIN <= value.ns <= INT64_MAX


class _Flattening:
    """One walk through nested mappings."""

    __slots__ = ("_mappings", "flat")

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        self.flat: dict[str, Value] = {}
        self._mappings = 0
        if not isinstance(attributes, Mapping):
            raise UnsupportedType(
                f"an event's attributes are a mapping of names to values, not a {type(attributes).__name__}"
            )
        self._walk(attributes, prefix="", depth=1)
        if len(self.flat) > _CERTAINLY_FEW:
            size = sum(len(name.encode()) + 2 for name in self.flat)
            _refuse_size("the event's attribute names, with two bytes for each", size, NAMES_BYTES_MAX)

    def _walk(self, attributes: Mapping[str, Any], *, prefix: str, depth: int) -> None:
        self._mappings += 1
        if depth > NESTING_MAX:
            raise EventTooLarge(f"attributes nest deeper than {NESTING_MAX} at {prefix[:80]!r}: flatten them")
        if self._mappings > ATTRIBUTES_MAX:
            raise EventTooLarge(f"the attributes hold more than {ATTRIBUTES_MAX} mappings: put them into the body")
        for key, value in attributes.items():
            name = prefix + _checked_key(key, prefix)
            if value is None:
                continue
            if type(value) in _SCALARS or not isinstance(value, Mapping):
                self._put(name, value)
            else:
                self._walk(value, prefix=name + ".", depth=depth + 1)

    def _put(self, name: str, value: object) -> None:
        if name in self.flat:
            raise BadAttributeName(f"two paths give the attribute {name!r}: rename one of them")
        refuse_bad_name(name)
        self.flat[name] = checked_value(name, value)
        if len(self.flat) > ATTRIBUTES_MAX:
            raise EventTooLarge(f"an event has at most {ATTRIBUTES_MAX} attributes: put the rest into the body")


def _checked_key(key: object, prefix: str) -> str:
    where = f" inside {prefix[:-1]!r}" if prefix else ""
    if not isinstance(key, str):
        raise BadAttributeName(f"the attribute name {key!r}{where} is a {type(key).__name__}, not a str")
    if not key:
        raise BadAttributeName(f"an attribute name{where} is empty")
    return str.__str__(key)


def checked_value(name: str, value: object) -> Value:
    """The value as an event carries it, of exactly one of the six types."""
    if isinstance(value, bool | float):
        return value if isinstance(value, bool) else float.__float__(value)
    if isinstance(value, int):
        return _checked_integer(name, int.__int__(value))
    if isinstance(value, str):
        return _checked_text(name, str.__str__(value))
    if isinstance(value, bytes | bytearray | memoryview):
        size = value.nbytes if isinstance(value, memoryview) else len(value)
        _refuse_size(f"the attribute {name!r}", size, VALUE_BYTES_MAX)
        return bytes(value)
    if isinstance(value, Timestamp):
        return Timestamp(_checked_integer(name, int(value.ns)))
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return Timestamp.of(value)
    raise UnsupportedType(f"the attribute {name!r} is a {type(value).__name__}: {_advice(value)}")


def _checked_integer(name: str, number: int) -> int:
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueOutOfRange(f"the attribute {name!r} is an integer beyond 64 bits: send it as a float or as a string")
    return number


def _checked_text(name: str, text: str) -> str:
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise ValueOutOfRange(
            f"the string of the attribute {name!r} has a lone surrogate in it: it is no text; send it as bytes"
        ) from None
    _refuse_size(f"the attribute {name!r}", size, VALUE_BYTES_MAX)
    return text


def _advice(value: object) -> str:
    if isinstance(value, datetime):
        return "it has no time zone; use an aware datetime, such as datetime.now(UTC)"
    if isinstance(value, date):
        return "use an aware datetime, or its isoformat() as a string"
    if isinstance(value, list | tuple | set | frozenset):
        return "give each element an attribute of its own, or put them into the body"
    if isinstance(value, Decimal):
        return "convert it to a float, or to an int of the smallest unit"
    return f"use {type_names}, or put it into the body"


def _checked_body(body: object) -> bytes | None:
    if body is None:
        return None
    if not isinstance(body, bytes | bytearray | memoryview):
        raise UnsupportedType(f"the body is a {type(body).__name__}; it must be bytes: encode it first")
    _refuse_size("the body", body.nbytes if isinstance(body, memoryview) else len(body), BODY_BYTES_MAX)
    return bytes(body)


def _checked_content_type(content_type: object, *, has_body: bool) -> str | None:
    if content_type is None:
        return None
    if not isinstance(content_type, str):
        raise UnsupportedType(f"the content type is a {type(content_type).__name__}; it must be a str")
    if not has_body:
        raise UnsupportedType("a content type says what the body is: give a body too, or b'' if it is empty")
    try:
        size = len(content_type.encode())
    except UnicodeEncodeError:
        raise ValueOutOfRange("the content type has a lone surrogate in it") from None
    _refuse_size("the content type", size, CONTENT_TYPE_BYTES_MAX)
    return str.__str__(content_type) or None


def _refuse_size(what: str, size: int, bound: int) -> None:
    if size > bound:
        raise EventTooLarge(f"{what}: {size} bytes; at most {bound} are allowed")
