"""Areas on the Earth: circles and polygons over two attributes, latitude and longitude in degrees.

The arithmetic here is the kernel's, operation by operation, so that both give the same answer for every event. A
distance is measured on the sphere of the mean Earth radius, through the chord between unit vectors. A polygon's edges
are straight lines in degrees; its longitudes may run past 180 to cross the date line. Coordinates beyond ±90 and ±360
degrees make the predicate unknown.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from tidewire.model.values import Bound, Kind, as_bound, canonical_number, successor

EARTH_RADIUS_M: Final = 6_371_008.8
LATITUDE_MAX: Final = 90.0
LONGITUDE_MAX: Final = 360.0
CORNERS_MIN: Final = 3
VERTICES_MAX: Final = 256
_DEGREE: Final = math.pi / 180.0
_TURNS: Final = (0.0, -360.0, 360.0, -720.0, 720.0)
"""A longitude of the valid range and a corner may be up to two turns apart."""

_MARGIN_DEGREES: Final = 1e-6
"""Bounding boxes are this much wider than the circle (about 0.1 m), far beyond the rounding of the chord."""

Interval = tuple[Bound, Bound | None]


class Circle(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Within (or, if not ``inside``, beyond) ``radius_m`` metres of a point."""

    latitude: str
    longitude: str
    inside: bool
    center_lat: float
    center_lon: float
    radius_m: float

    def holds(self, lat: float, lon: float) -> bool:
        """Is the point in this area? The coordinates are in range."""
        x, y, z = unit_vector(lat, lon)
        cx, cy, cz = unit_vector(self.center_lat, self.center_lon)
        dx, dy, dz = x - cx, y - cy, z - cz
        return ((dx * dx + dy * dy) + dz * dz <= chord_squared(self.radius_m)) == self.inside

    def box(self) -> tuple[tuple[Interval, ...], tuple[Interval, ...]]:
        """Latitudes and longitudes outside which the predicate is never true."""
        if not self.inside:
            return whole_earth()
        reach = self.radius_m / EARTH_RADIUS_M / _DEGREE + _MARGIN_DEGREES
        south, north = self.center_lat - reach, self.center_lat + reach
        if south <= -LATITUDE_MAX or north >= LATITUDE_MAX:
            return (_closed(max(south, -LATITUDE_MAX), min(north, LATITUDE_MAX)),), whole_earth()[1]
        ratio = math.sin(reach * _DEGREE) / math.cos(self.center_lat * _DEGREE)
        spread = math.asin(min(1.0, ratio)) / _DEGREE + _MARGIN_DEGREES if ratio < 1.0 else LONGITUDE_MAX
        return (_closed(south, north),), _turns(self.center_lon - spread, self.center_lon + spread)


class Polygon(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Inside (or outside) a closed ring of (latitude, longitude) corners."""

    latitude: str
    longitude: str
    inside: bool
    corners: tuple[tuple[float, float], ...]

    def holds(self, lat: float, lon: float) -> bool:
        """Is the point in this area? The coordinates are in range."""
        within = any(self._has(lat, lon + turn) for turn in _TURNS)
        return within == self.inside

    def _has(self, lat: float, lon: float) -> bool:
        odd = False
        previous_lat, previous_lon = self.corners[-1]
        for corner_lat, corner_lon in self.corners:
            if (corner_lat > lat) != (previous_lat > lat):
                slope = (previous_lon - corner_lon) * (lat - corner_lat) / (previous_lat - corner_lat)
                odd ^= lon < slope + corner_lon
            previous_lat, previous_lon = corner_lat, corner_lon
        return odd

    def box(self) -> tuple[tuple[Interval, ...], tuple[Interval, ...]]:
        """Latitudes and longitudes outside which the predicate is never true."""
        if not self.inside:
            return whole_earth()
        lats = [lat for lat, _ in self.corners]
        lons = [lon for _, lon in self.corners]
        margin = _MARGIN_DEGREES
        south, north = max(min(lats) - margin, -LATITUDE_MAX), min(max(lats) + margin, LATITUDE_MAX)
        return (_closed(south, north),), _turns(min(lons) - margin, max(lons) + margin)


Area = Circle | Polygon


def flaw_of_area(area: Area) -> str | None:
    """What keeps this, which came from elsewhere, from being an area; None if it is one."""
    if isinstance(area, Circle):
        places: tuple[tuple[float, float], ...] = ((area.center_lat, area.center_lon),)
        if not 0.0 <= area.radius_m < math.inf:
            return "a radius is not possible"
    else:
        places = area.corners
        if not CORNERS_MIN <= len(places) <= VERTICES_MAX:
            return f"a polygon has {len(places)} corners"
    if not all(abs(lat) <= LATITUDE_MAX and abs(lon) <= LONGITUDE_MAX for lat, lon in places):
        return "an area is not on the Earth"
    return None


def whole_earth() -> tuple[tuple[Interval, ...], tuple[Interval, ...]]:
    """All valid latitudes and longitudes."""
    return (_closed(-LATITUDE_MAX, LATITUDE_MAX),), (_closed(-LONGITUDE_MAX, LONGITUDE_MAX),)


def chord_squared(radius_m: float) -> float:
    """The square of the longest chord, on the unit sphere, within this distance."""
    half = radius_m / (2.0 * EARTH_RADIUS_M)
    if half >= math.pi / 2.0:
        return 5.0
    chord = 2.0 * math.sin(half)
    return chord * chord


def unit_vector(lat: float, lon: float) -> tuple[float, float, float]:
    """The point on the unit sphere."""
    phi, theta = lat * _DEGREE, lon * _DEGREE
    around = math.cos(phi)
    return around * math.cos(theta), around * math.sin(theta), math.sin(phi)


def _closed(low: float, high: float) -> Interval:
    return canonical_number(low), successor(Kind.NUMBER, as_bound(high))


def _turns(west: float, east: float) -> tuple[Interval, ...]:
    """The longitudes from west to east, on every turn of the valid range."""
    if east - west >= 360.0 - _MARGIN_DEGREES:  # nearer to a full turn, rounding could make two turns overlap
        return whole_earth()[1]
    spans = [(max(west + turn, -LONGITUDE_MAX), min(east + turn, LONGITUDE_MAX)) for turn in sorted(_TURNS)]
    return tuple(_closed(low, high) for low, high in spans if low <= high)
