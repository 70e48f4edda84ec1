"""What is this expression worth, for these rows and parameters? Exact, and no error: what has no answer is null."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidewire.channels.expressions import COMPARISONS, Call, Constant, Field, Node, Parameter
from tidewire.channels.schemas import Cell, ColumnType, Row
from tidewire.language.truth import compare
from tidewire.model.errors import UsageError
from tidewire.model.geography import EARTH_RADIUS_M, LATITUDE_MAX, LONGITUDE_MAX, Circle, unit_vector
from tidewire.model.patterns import canonical_pattern, matches_pattern, parse_pattern
from tidewire.model.values import INT64_MAX, INT64_MIN, Value


class Surroundings:
    """What columns and parameters stand for. Of a source without a row, all columns are null."""

    __slots__ = ("parameters", "rows")

    def __init__(self, parameters: Sequence[Value], rows: Sequence[Row | None]) -> None:
        self.parameters = parameters
        self.rows = rows


def value_of(node: Node, around: Surroundings) -> Cell:
    """The value of an expression without aggregates."""
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Parameter):
        return around.parameters[node.number]
    if isinstance(node, Field):
        row = around.rows[node.source]
        return None if row is None else row.get(node.name)
    return applied(node, [value_of(one, around) for one in node.arguments])


def holds(node: Node, around: Surroundings) -> bool:
    """Is the condition true? Unknown is not."""
    return value_of(node, around) is True


def applied(call: Call, values: list[Cell]) -> Cell:
    """An operation's answer for these arguments."""
    name = call.operation
    if name in ("and", "or"):
        decisive = name == "or"
        if any(value is decisive for value in values):
            return decisive
        return None if None in values else not decisive
    if name == "is null":
        return values[0] is None
    if name == "coalesce":
        found = next((value for value in values if value is not None), None)
        return float(found) if call.type is ColumnType.DOUBLE and found is not None else found  # type: ignore[arg-type]
    if name == "in":
        return _among(values[0], values[1:])
    if None in values:
        return None
    if name in COMPARISONS:
        return compare(name, *values)  # type: ignore[arg-type]
    return _calculated(call, values) if name in _ARITHMETIC else _STRICT[name](values)


def _among(value: Cell, options: list[Cell]) -> bool | None:
    if value is None:
        return None
    if any(option is not None and compare("=", value, option) for option in options):
        return True
    return None if None in options else False


def _calculated(call: Call, values: list[Any]) -> Cell:
    if call.type is ColumnType.DOUBLE:
        values = [float(value) for value in values]
    try:
        return in_range(_ARITHMETIC[call.operation](*values))
    except (ZeroDivisionError, OverflowError):
        return None


def in_range(number: float) -> int | float | None:
    """The number if a column can hold it; else null."""
    if isinstance(number, int):
        return number if INT64_MIN <= number <= INT64_MAX else None
    return number + 0.0 if math.isfinite(number) else None


def _like(values: list[Any]) -> Cell:
    text, pattern, escape = values
    try:
        return matches_pattern(parse_pattern(canonical_pattern(pattern, escape=escape)), text)
    except UsageError:
        return None


def circle_of(latitude: str, longitude: str, center: Sequence[Any]) -> Circle | None:
    """The circle with this latitude, longitude and radius; None if there is none."""
    lat, lon, radius_m = center
    if not (_is_place(lat, lon) and 0 <= radius_m < math.inf):
        return None
    return Circle(latitude, longitude, True, float(lat) + 0.0, float(lon) + 0.0, float(radius_m) + 0.0)


def _is_place(lat: float, lon: float) -> bool:
    return abs(lat) <= LATITUDE_MAX and abs(lon) <= LONGITUDE_MAX


def _within(values: list[Any]) -> Cell:
    circle = circle_of("", "", values[2:])
    if circle is None or not _is_place(values[0], values[1]):
        return None
    return circle.holds(float(values[0]), float(values[1]))


def _distance_m(values: list[Any]) -> Cell:
    if not (_is_place(values[0], values[1]) and _is_place(values[2], values[3])):
        return None
    ours, theirs = unit_vector(float(values[0]), float(values[1])), unit_vector(float(values[2]), float(values[3]))
    chord = math.sqrt(sum((one - other) ** 2 for one, other in zip(ours, theirs, strict=True)))
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, chord / 2.0))


_ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "abs": operator.abs,
    "negative": operator.neg,
}
_STRICT: Final[dict[str, Callable[[list[Any]], Cell]]] = {
    "not": lambda values: not values[0],
    "like": _like,
    "concat": "".join,
    "within": _within,
    "distance_m": _distance_m,
}
"""Operations that are null when one of their arguments is."""
