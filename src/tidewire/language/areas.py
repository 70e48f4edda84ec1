"""Geography in a filter's text: ``within(lat, lon, 38.3, 142.4, 300 km)`` and ``inside(lat, lon, polygon(...))``."""

from __future__ import annotations

import re
from typing import Final

from tidewire.language.cursor import Cursor, in_range
from tidewire.language.lexer import CIRCLE, OTHER, number_of
from tidewire.model.errors import FilterMeaningless, FilterTooLong
from tidewire.model.geography import CORNERS_MIN, LATITUDE_MAX, LONGITUDE_MAX, VERTICES_MAX, Area, Circle, Polygon

AREAS: Final = frozenset(("within", "inside"))
METRES: Final = {"m": 1.0, "km": 1000.0, "mi": 1609.344, "nmi": 1852.0}
_circle_parts: Final = re.compile(CIRCLE).fullmatch
_JOINED_UNIT: Final = re.compile(r"([0-9.]++(?:[eE][+-]?+[0-9]++)?+)([a-z]++)", re.ASCII)


def simple_circle(phrase: str) -> Circle:
    """The circle of a phrase that the lexer found to be one."""
    found = _circle_parts(phrase)
    assert found is not None
    latitude, longitude, lat, lon, amount, unit = found.groups()
    _refuse_one_attribute(latitude, longitude)
    center_lat, center_lon = _place(float(lat) + 0.0, float(lon) + 0.0)
    return Circle(latitude, longitude, True, center_lat, center_lon, float(amount) * METRES[unit])


def area_ahead(cursor: Cursor, word: str) -> Area | None:
    """Step over an area, if one stands here. These words are attributes too, where no parenthesis follows."""
    if word not in AREAS or cursor.word(1) != "(":
        return None
    cursor.at += 2
    latitude = cursor.attribute()
    cursor.take(",")
    longitude = cursor.attribute()
    cursor.take(",")
    _refuse_one_attribute(latitude, longitude)
    area: Area
    if word == "within":
        center_lat, center_lon = _corner(cursor, separator=",")
        cursor.take(",")
        area = Circle(latitude, longitude, True, center_lat, center_lon, _radius(cursor))
    else:
        area = Polygon(latitude, longitude, True, _corners(cursor))
    cursor.take(")")
    return area


def _corner(cursor: Cursor, *, separator: str) -> tuple[float, float]:
    start = cursor.at
    lat = float(cursor.number()) + 0.0  # of the two zeros, one
    if separator:
        cursor.take(separator)
    lon = float(cursor.number()) + 0.0
    cursor.blamed = start
    return _place(lat, lon)


def _refuse_one_attribute(latitude: str, longitude: str) -> None:
    if latitude == longitude:
        raise FilterMeaningless(f"latitude and longitude are two attributes, not twice {latitude!r}")


def _place(lat: float, lon: float) -> tuple[float, float]:
    if abs(lat) > LATITUDE_MAX or abs(lon) > LONGITUDE_MAX:
        raise FilterMeaningless(
            f"{lat:g} {lon:g} is no place: latitude is at most ±{LATITUDE_MAX:g} degrees"
            f" and stands first, longitude at most ±{LONGITUDE_MAX:g}"
        )
    return lat, lon


def _radius(cursor: Cursor) -> float:
    cursor.blamed = start = cursor.at
    spelling = cursor.tokens[start][OTHER]
    joined = _JOINED_UNIT.fullmatch(spelling)
    number = number_of(joined.group(1)) if joined else None
    if joined and number is not None and joined.group(2) in METRES:
        cursor.at += 1
        metres = in_range(number, joined.group(1)) * METRES[joined.group(2)]
    else:
        amount = float(cursor.number())
        metres = amount * (1.0 if cursor.word() == ")" else METRES[cursor.take(*METRES)])
    if metres < 0 or metres == float("inf"):
        cursor.blamed = start
        raise FilterMeaningless(f"a radius of {metres:g} m is not possible")
    return float(metres) + 0.0


def _corners(cursor: Cursor) -> tuple[tuple[float, float], ...]:
    cursor.take("polygon")
    cursor.take("(")
    corners = [_corner(cursor, separator="")]
    while cursor.take(",", ")") == ",":
        corners.append(_corner(cursor, separator=""))
    if len(corners) > 1 and corners[0] == corners[-1]:
        corners.pop()
    if len(corners) < CORNERS_MIN:
        raise FilterMeaningless(f"a polygon has at least {CORNERS_MIN} corners, this one {len(corners)}")
    if len(corners) > VERTICES_MAX:
        raise FilterTooLong(f"a polygon has {len(corners)} corners; at most {VERTICES_MAX} are allowed")
    return tuple(corners)
