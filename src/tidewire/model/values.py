"""What an attribute may hold, and the total order of each type.

Six types: bool, int64, float64, string, timestamp (nanoseconds) and bytes. For filters int64 and float64 are one
kind, *number*: one finite, totally ordered set in which every value but the last has a successor. So do the other
kinds, which lets any filter be written with half-open intervals alone (``model/valuesets.py``).
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, Final

import msgspec

from tidewire.model.errors import UnsupportedType, ValueOutOfRange

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_EXACT_INTEGERS: Final = 2**53
_LAST_CHARACTER: Final = 0x10FFFF
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def shown_float(number: float) -> float | str:
    """A number as JSON can say it: what is none, and what has no end, are strings."""
    if math.isfinite(number):
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"


def shown_value(value: Value) -> bool | int | float | str:
    """A value as JSON can say it: a timestamp as RFC 3339 has it, bytes in base64."""
    if isinstance(value, Timestamp):
        return str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return shown_float(value) if isinstance(value, float) else value


class Timestamp(msgspec.Struct, frozen=True, order=True):
    """A point in time: nanoseconds since 1970-01-01T00:00:00Z."""

    ns: int

    @classmethod
    def parse(cls, text: str) -> Timestamp:
        """Read RFC 3339, with up to nine decimals of a second."""
        found = _RFC3339.fullmatch(text)
        if found is None:
            raise ValueOutOfRange(f"{text!r} is not an RFC 3339 timestamp; write it like 2010-02-27T06:34:11.53Z")
        day, clock, fraction, zone = found.groups()
        try:
            moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}")
        except ValueError as problem:
            raise ValueOutOfRange(f"{text!r} is not a date and time of the calendar: {problem}") from problem
        return cls._since_epoch(moment, extra_ns=int(fraction.ljust(9, "0")) if fraction else 0)

    @classmethod
    def of(cls, moment: datetime, *, extra_ns: int = 0) -> Timestamp:
        """Take over an aware datetime, exactly."""
        if moment.utcoffset() is None:
            raise UnsupportedType(f"the datetime {moment} has no time zone; use an aware one")
        return cls._since_epoch(moment, extra_ns=extra_ns)

    @classmethod
    def _since_epoch(cls, moment: datetime, *, extra_ns: int) -> Timestamp:
        since = moment - _EPOCH
        ns = ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000 + extra_ns
        if not INT64_MIN <= ns <= INT64_MAX:
            raise ValueOutOfRange(f"{moment} is outside 1677-09-21 to 2262-04-11, the range of a timestamp")
        return cls(ns)

    def __str__(self) -> str:
        seconds, fraction = divmod(self.ns, 10**9)
        text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
        return text + (f".{fraction:09d}".rstrip("0") if fraction else "") + "Z"


type_names: Final = "bool, int, float, str, bytes, Timestamp or an aware datetime"

Value = bool | int | float | str | Timestamp | bytes
"""What an event's attribute holds."""

Bound = Any
"""An end of an interval: bool, int, float, str or bytes; a timestamp's bound is its nanoseconds.

All bounds of one set are of one kind and compare; a union type would say that they do not."""


class Kind(IntEnum):
    """What a constraint says of an attribute's presence and type. The numbers are part of the encoding."""

    ABSENT = 0
    PRESENT = 1
    BOOL = 2
    NUMBER = 3
    STRING = 4
    TIMESTAMP = 5
    BYTES = 6
    ANY_NUMBER = 7
    """A number or NaN; NUMBER has no NaN, because a comparison with NaN is never true."""


BOTTOM: Final[dict[Kind, Bound]] = {
    Kind.BOOL: False,
    Kind.NUMBER: -math.inf,
    Kind.STRING: "",
    Kind.TIMESTAMP: INT64_MIN,
    Kind.BYTES: b"",
}


def kind_of(value: Value) -> Kind:
    """Which kind of constraint can accept this value? NaN is ANY_NUMBER."""
    if isinstance(value, bool):
        return Kind.BOOL
    if isinstance(value, int | float):
        return Kind.ANY_NUMBER if value != value else Kind.NUMBER
    if isinstance(value, str):
        return Kind.STRING
    return Kind.TIMESTAMP if isinstance(value, Timestamp) else Kind.BYTES


def as_bound(value: Value) -> Bound:
    """The value as an end of an interval, in its one canonical form."""
    if isinstance(value, Timestamp):
        return value.ns
    return canonical_number(value) if isinstance(value, float) else value


def canonical_number(value: float) -> int | float:
    """One spelling per number: an integer where int64 holds it exactly, else a float."""
    if isinstance(value, int) or not value.is_integer():
        return value
    return int(value) if INT64_MIN <= value <= INT64_MAX else value


def successor(kind: Kind, bound: Bound) -> Bound | None:
    """The smallest value of the kind above this one; None if there is none."""
    if isinstance(bound, str):
        return bound + "\0"
    if isinstance(bound, bytes):
        return bound + b"\0"
    if isinstance(bound, bool):
        return None if bound else True
    if kind is Kind.TIMESTAMP:
        assert isinstance(bound, int)
        return bound + 1 if bound < INT64_MAX else None
    return _next_number(bound)


def _next_number(number: float) -> int | float | None:
    if isinstance(number, int) and abs(number) >= _EXACT_INTEGERS:
        return number + 1 if number < INT64_MAX else 2.0**63
    return None if number == math.inf else canonical_number(math.nextafter(number, math.inf))


def previous_number(number: float) -> int | float | None:
    """The largest number below this one; None below minus infinity."""
    if isinstance(number, int) and abs(number) >= _EXACT_INTEGERS and number > INT64_MIN:
        return number - 1
    if number == 2.0**63:
        return INT64_MAX
    return None if number == -math.inf else canonical_number(math.nextafter(number, -math.inf))


def after_prefix(prefix: str) -> str | None:
    """The smallest string above every string that begins so; None if there is none."""
    kept = prefix.rstrip(chr(_LAST_CHARACTER))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)
