"""How names, values and intervals are written, so that reading them gives the very same."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from tidewire.language.lexer import RESERVED, is_plain_name
from tidewire.language.syntax import Operator
from tidewire.model.patterns import PATTERN_CHARACTERS_MAX, Pattern, parse_pattern
from tidewire.model.values import BOTTOM, Bound, Kind, Value, after_prefix, previous_number, successor
from tidewire.model.valuesets import Interval, ValueSet, shown

_ESCAPES: Final = "\\!#$^~|/@&*+=:;,.?<>()[]{}"
_NEIGHBOURS_MAX: Final = 8
_FIRST_PRIVATE_CHARACTER: Final = 0xE000


def spell_name(name: str) -> str:
    """An attribute's name as it stands in a filter."""
    if is_plain_name(name) and name.lower() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def spell_value(value: Value) -> str:
    """A value as a literal; infinities and NaN have none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float):
        assert math.isfinite(value), "there is no literal for it"
        return repr(value)
    return str(value)


def spell_bound(kind: Kind, bound: Bound) -> str:
    """An end of an interval as a literal."""
    return spell_value(shown(kind, bound))


def spell_like(canonical: str) -> str:
    """A pattern as a literal, with the escape that it needs."""
    pattern = parse_pattern(canonical)
    literal = "".join(c for run in pattern.runs for c in run if c is not None)
    if "%" not in literal and "_" not in literal:
        return spell_value(_written(pattern, escape=""))
    escape = _escape_beside(literal)
    return f"{spell_value(_written(pattern, escape=escape))} escape {spell_value(escape)}"


def _escape_beside(literal: str) -> str:
    """A character that the text does not have: then only wildcards need it, and no pattern outgrows its bound."""
    fits = next((c for c in _ESCAPES if c not in literal), None)
    if fits is not None:
        return fits
    return next(c for c in map(chr, range(_FIRST_PRIVATE_CHARACTER, 0xF8FF)) if c not in literal)


def _written(pattern: Pattern, *, escape: str) -> str:
    middle = "%".join(
        "".join("_" if c is None else escape + c if c in "%_" else c for c in run) for run in pattern.runs
    )
    if not pattern.runs:
        return "%" if pattern.open_start else ""
    return ("%" if pattern.open_start else "") + middle + ("%" if pattern.open_end else "")


def prefix_of(interval: Interval) -> str | None:
    """The prefix that all strings of the interval have and no others; None if there is none to write."""
    low, high = interval
    if not low or high is None or after_prefix(low) != high:
        return None
    return low if len(low) + low.count("%") + low.count("_") < PATTERN_CHARACTERS_MAX else None


def lower_end(kind: Kind, low: Bound) -> tuple[Operator, Bound] | None:
    """``>=`` or ``>`` and a value, whichever is shorter; None if the interval begins with its kind."""
    if low == BOTTOM[kind]:
        return None
    before = _before(kind, low)
    if before is not None and _is_shorter(kind, before, low):
        return ">", before
    return ">=", low


def upper_end(kind: Kind, high: Bound | None) -> tuple[Operator, Bound] | None:
    """``<`` or ``<=`` and a value, whichever is shorter; None if the interval has no end."""
    if high is None:
        return None
    before = _before(kind, high)
    if before is not None and _is_shorter(kind, before, high):
        return "<=", before
    return "<", high


def last_of(kind: Kind, high: Bound) -> Bound | None:
    """The largest value below; None if there is no single one."""
    return _before(kind, high)


def _before(kind: Kind, bound: Bound) -> Bound | None:
    if kind is Kind.NUMBER:
        return previous_number(bound)
    if kind is Kind.TIMESTAMP:
        return bound - 1 if bound > BOTTOM[kind] else None
    if kind is Kind.STRING:
        return bound[:-1] if bound.endswith("\0") else None
    if kind is Kind.BYTES:
        return bound[:-1] if bound.endswith(b"\0") else None
    return False if bound else None


def _is_shorter(kind: Kind, one: Bound, other: Bound) -> bool:
    if one in (math.inf, -math.inf) or other in (math.inf, -math.inf):
        return other in (math.inf, -math.inf)
    return len(spell_bound(kind, one)) < len(spell_bound(kind, other))


def finite_points(allowed: ValueSet) -> list[Bound] | None:
    """The members, if all intervals are single values that have a literal."""
    points = allowed.points()
    if points is None or any(point in (math.inf, -math.inf) for point in points):
        return None
    return list(points)


def missing_points(kind: Kind, intervals: tuple[Interval, ...]) -> list[Bound] | None:
    """The values between the intervals, if each gap is one value or a few neighbours."""
    points: list[Bound] = []
    for (_, end), (start, _) in pairwise(intervals):
        missing = end
        for _ in range(_NEIGHBOURS_MAX):
            points.append(missing)
            missing = successor(kind, missing)
            if missing == start:
                break
        else:
            return None
    return points
