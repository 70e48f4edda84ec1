"""Areas: what covering claims of circles and polygons holds for places, also near poles, date line and antipode."""

from __future__ import annotations

import itertools
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.matching.building import circle, conjunction, where
from tests.matching.strategies import areas, places
from tidewire.matching.covering import Relation, relation
from tidewire.model.filters import Filter, area_holds
from tidewire.model.geography import EARTH_RADIUS_M, Area, Circle
from tidewire.model.values import Kind
from tidewire.model.valuesets import ValueSet

HALF_TURN_M = math.pi * EARTH_RADIUS_M


def destination(area: Circle, bearing: float, distance_m: float) -> dict[str, float]:
    """The place in this direction and distance from the centre."""
    angle, lat, lon = distance_m / EARTH_RADIUS_M, math.radians(area.center_lat), math.radians(area.center_lon)
    to_lat = math.asin(
        max(-1.0, min(1.0, math.sin(lat) * math.cos(angle) + math.cos(lat) * math.sin(angle) * math.cos(bearing)))
    )
    to_lon = lon + math.atan2(
        math.sin(bearing) * math.sin(angle) * math.cos(lat), math.cos(angle) - math.sin(lat) * math.sin(to_lat)
    )
    return {"lat": math.degrees(to_lat), "lon": max(-360.0, min(360.0, math.degrees(to_lon)))}


free_circles = st.builds(
    circle,
    st.floats(-90, 90),
    st.floats(-180, 180),
    st.one_of(st.floats(0, 5e6), st.floats(0, 2.1e7), st.sampled_from((HALF_TURN_M - 0.01, HALF_TURN_M))),
    inside=st.booleans(),
)


@given(free_circles, free_circles, st.floats(0, 1), st.floats(0, 7), st.floats(0.9999999, 1.0000001))
def test_no_place_at_a_rim_contradicts(one: Circle, other: Circle, turn: float, bearing: float, stretch: float) -> None:
    """peer L3 for circles: asked at the rim of either circle and at a place between."""
    a, b = Filter((_only(one),)), Filter((_only(other),))
    claimed = relation(a, b)
    for area in (one, other):
        for distance_m in (area.radius_m * stretch, area.radius_m * turn):
            place = destination(area, bearing, distance_m)
            in_a, in_b = a.accepts(place), b.accepts(place)
            assert not (in_a and not in_b and claimed in {Relation.EQUAL, Relation.COVERED})
            assert not (in_b and not in_a and claimed in {Relation.EQUAL, Relation.COVERS})
            assert not (in_a and in_b and claimed is Relation.DISJOINT)


def _only(area: Area) -> Any:
    found = conjunction({}, (area,))
    assert found is not None
    return found


@given(st.floats(-80, 80), st.floats(-180, 180), st.floats(0, 7), st.floats(1, 1e6), st.floats(1.01, 3))
def test_nested_circles_are_found(lat: float, lon: float, bearing: float, radius_m: float, factor: float) -> None:
    """A circle that lies well inside another is covered, and one well outside is disjoint."""
    wide = circle(lat, lon, radius_m * factor)
    for distance_m, expected in (
        (radius_m * (factor - 1) * 0.99 - 0.002, Relation.COVERS),
        (radius_m * (factor + 1) * 1.01 + 0.002, Relation.DISJOINT),
    ):
        at = destination(wide, bearing, max(0.0, distance_m))
        assert relation(where(wide), where(circle(at["lat"], at["lon"], radius_m))) is expected


@given(areas(), places())
def test_no_place_of_an_area_is_outside_its_box(area: Area, place: dict[str, Any]) -> None:
    """The bounding box that normal forms carry loses nothing, and is one set in its one representation."""
    lats, lons = (ValueSet(Kind.NUMBER, intervals) for intervals in area.box())
    if area_holds(area, place) is True:
        assert lats.has(place["lat"])
        assert lons.has(place["lon"])
    for box in (lats, lons):
        assert box.meet(box) == box
        assert all(high < low for (_, high), (low, _) in zip(box.intervals, box.intervals[1:], strict=False))


def test_a_full_turn_has_one_interval() -> None:
    """A circle that reaches almost around a parallel does not give two turns that overlap."""
    for spread_m in (9_990_000.0, 10_007_543.0, 10_007_556.0, 10_007_557.2):
        lons = circle(0.0, 0.1, spread_m).box()[1]
        assert all(high < low for (_, high), (low, _) in itertools.pairwise(lons))
