"""How two filters relate: equal, covers, covered, intersects or disjoint (peer L3); overlap with advertisements (L4).

The space of a filter is the set of events that it accepts. Whatever is claimed here holds for every event; what
cannot be shown is not claimed, and the answer is then the weaker one. For conjunctions over numbers, string sets,
ranges and prefixes everything that holds is shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from itertools import combinations, product
from typing import Final

import msgspec

from tidewire.model.filters import Conjunction, Constraint, Filter, area_holds
from tidewire.model.geography import EARTH_RADIUS_M, Area, Circle, Polygon, chord_squared, unit_vector
from tidewire.model.values import Kind, Value
from tidewire.model.valuesets import ABSENT, ValueSet

_QUARTER_TURN_M: Final = EARTH_RADIUS_M * math.pi / 2.0
_MARGIN_M: Final = 1e-3
_WIDE_MARGIN_M: Final = 1.0
"""Near the antipode a chord says little about the distance: its rounding is then up to some decimetres."""

_POINTS_MAX: Final = 64


class Relation(Enum):
    """How the space of one filter lies to that of another; exactly one of these is given."""

    EQUAL = "equal"
    COVERS = "covers"
    COVERED = "covered"
    INTERSECTS = "intersects"
    DISJOINT = "disjoint"

    @property
    def mirrored(self) -> Relation:
        """The same, seen from the other filter."""
        return _MIRRORED.get(self, self)


_MIRRORED: Final = {Relation.COVERS: Relation.COVERED, Relation.COVERED: Relation.COVERS}


def relation(a: Filter, b: Filter) -> Relation:
    """How a lies to b (peer L3). A filter that is never true is disjoint from all but its like."""
    if a == b:
        return Relation.EQUAL
    ours, theirs = _possible(a), _possible(b)
    if not ours or not theirs:
        return Relation.DISJOINT if ours or theirs else Relation.EQUAL
    if len(ours) == len(theirs) == 1 and not ours[0].areas and not theirs[0].areas:
        return _relation_of_constraints(ours[0].constraints, theirs[0].constraints)
    wider, narrower = _all_covered(ours, theirs), _all_covered(theirs, ours)
    if wider:
        return Relation.EQUAL if narrower else Relation.COVERS
    if narrower:
        return Relation.COVERED
    return Relation.DISJOINT if all(_apart(one, other) for one in ours for other in theirs) else Relation.INTERSECTS


def covers(a: Filter, b: Filter) -> bool:
    """Is every event of b one of a? Never claimed wrongly; true of equal filters, and if b is never true."""
    return a == b or _all_covered(_possible(a), _possible(b))


def overlaps(wanted: Filter, advertisement: Filter) -> bool:
    """Can the filter be true for an event that the advertisement allows (peer L4)? Never denied wrongly.

    An allowed event has no attribute that its conjunction of the advertisement does not name, so ``x is null``
    overlaps an advertisement that does not name x, and ``x > 5`` does not.
    """
    offers = _possible(advertisement)
    return any(_can_be_true(asked, offer) for asked in _possible(wanted) for offer in offers)


def allows(advertisement: Filter, attributes: Mapping[str, Value]) -> bool:
    """May an event with these attributes be published under the advertisement?"""
    return any(
        offer.accepts(attributes) and attributes.keys() <= {c.attribute for c in offer.constraints}
        for offer in _possible(advertisement)
    )


def conjunction_covers(wide: Conjunction, narrow: Conjunction) -> bool:
    """Is every event of the narrow conjunction one of the wide one? Never claimed wrongly."""
    if not wide.areas:
        return _constraints_cover(wide.constraints, narrow.constraints)
    if not all(_implied(area, narrow) for area in wide.areas):
        return False
    boxed = _boxed(narrow.constraints, wide.areas)  # it lies in these areas, hence in their boxes
    return boxed is None or _constraints_cover(wide.constraints, boxed)


def _relation_of_constraints(ours: tuple[Constraint, ...], theirs: tuple[Constraint, ...]) -> Relation:
    """The same answer in one walk, for the most frequent case: one conjunction each, without areas."""
    given = {c.attribute: c.allowed for c in theirs}
    shared = 0
    wider = narrower = True
    for c in ours:
        other = given.get(c.attribute)
        if other is None:
            wider = False
            continue
        shared += 1
        if c.allowed != other:
            if c.allowed.meet(other) is None:
                return Relation.DISJOINT
            wider = wider and c.allowed.covers(other)
            narrower = narrower and other.covers(c.allowed)
    narrower = narrower and shared == len(given)
    if wider:
        return Relation.EQUAL if narrower else Relation.COVERS
    return Relation.COVERED if narrower else Relation.INTERSECTS


def _all_covered(wide: list[Conjunction], narrow: list[Conjunction]) -> bool:
    return all(any(conjunction_covers(one, other) for one in wide) for other in narrow)


def _constraints_cover(wide: tuple[Constraint, ...], narrow: tuple[Constraint, ...]) -> bool:
    if len(wide) > len(narrow):
        return False
    given = {c.attribute: c.allowed for c in narrow}
    return all((allowed := given.get(c.attribute)) is not None and c.allowed.covers(allowed) for c in wide)


def _apart(one: Conjunction, other: Conjunction) -> bool:
    """True only if no event satisfies both."""
    given = {c.attribute: c.allowed for c in other.constraints}
    if any(
        (allowed := given.get(c.attribute)) is not None and c.allowed.meet(allowed) is None for c in one.constraints
    ):
        return True
    return any(_conflict(ours, theirs) for ours in one.areas for theirs in other.areas)


def _can_be_true(asked: Conjunction, offer: Conjunction) -> bool:
    offered = {c.attribute: c.allowed for c in offer.constraints}
    return all(c.allowed.meet(offered.get(c.attribute, ABSENT)) is not None for c in asked.constraints) and not any(
        _conflict(ours, theirs) for ours in asked.areas for theirs in offer.areas
    )


def _possible(candidate: Filter) -> list[Conjunction]:
    """The conjunctions, without those that are plainly never true; each names the coordinates of its areas."""
    found = []
    for conjunction in candidate.conjunctions:
        if not conjunction.areas:
            found.append(conjunction)
            continue
        boxed = _boxed(conjunction.constraints, conjunction.areas)
        if boxed is not None and not any(_conflict(a, b) for a, b in combinations(conjunction.areas, 2)):
            kept = Conjunction(boxed, conjunction.areas)
            if all(_truth_at_points(area, kept) is not False for area in kept.areas):
                found.append(kept)
    return found


def _boxed(constraints: tuple[Constraint, ...], areas: tuple[Area, ...]) -> tuple[Constraint, ...] | None:
    """The constraints, narrowed to the bounding boxes of these areas; None if nothing is left."""
    allowed = {c.attribute: c.allowed for c in constraints}
    for area in areas:
        for attribute, intervals in zip((area.latitude, area.longitude), area.box(), strict=True):
            box = ValueSet(Kind.NUMBER, intervals)
            narrower = box.meet(allowed.get(attribute, box))
            if narrower is None:
                return None
            allowed[attribute] = narrower
    return tuple(Constraint(attribute, allowed[attribute]) for attribute in sorted(allowed))


def _implied(wanted: Area, narrow: Conjunction) -> bool:
    """Does every event of the conjunction lie in the area?"""
    return any(_leads_to(given, wanted) for given in narrow.areas) or _truth_at_points(wanted, narrow) is True


def _truth_at_points(area: Area, conjunction: Conjunction) -> bool | None:
    """Is the area predicate true at every place that the conjunction names (False: at none)? None if not known."""
    allowed = {c.attribute: c.allowed for c in conjunction.constraints}
    lats, lons = (_points(allowed.get(attribute)) for attribute in (area.latitude, area.longitude))
    if lats is None or lons is None or len(lats) * len(lons) > _POINTS_MAX:
        return None
    found = [area_holds(area, {area.latitude: lat, area.longitude: lon}) is True for lat, lon in product(lats, lons)]
    return True if all(found) else None if any(found) else False


def _points(allowed: ValueSet | None) -> tuple[float, ...] | None:
    return allowed.points() if allowed is not None and allowed.kind is Kind.NUMBER else None


def _leads_to(given: Area, wanted: Area) -> bool:
    """Is every place of the given area one of the wanted one?"""
    if not _same_coordinates(given, wanted):
        return False
    if wanted.inside:
        return _lies_in(given, wanted) if given.inside else _is_everywhere(wanted)
    return _shapes_apart(given, wanted) if given.inside else _lies_in(wanted, given)


def _conflict(one: Area, other: Area) -> bool:
    """True only if no place is in both areas."""
    if not _same_coordinates(one, other):
        return False
    if one.inside and other.inside:
        return _shapes_apart(one, other)
    if one.inside or other.inside:
        inner, outer = (one, other) if one.inside else (other, one)
        return _lies_in(inner, outer)
    return _is_everywhere(one) or _is_everywhere(other)


def _same_coordinates(one: Area, other: Area) -> bool:
    return one.latitude == other.latitude and one.longitude == other.longitude


# What follows is about shapes: whether an area means their inside or their outside no longer matters.


def _is_everywhere(shape: Area) -> bool:
    return isinstance(shape, Circle) and chord_squared(shape.radius_m) > 4.0


def _lies_in(inner: Area, outer: Area) -> bool:
    if _is_everywhere(outer):
        return True
    if isinstance(inner, Polygon) and isinstance(outer, Polygon):
        return inner.corners == outer.corners
    if not (isinstance(inner, Circle) and isinstance(outer, Circle)):
        return False
    if (inner.center_lat, inner.center_lon) == (outer.center_lat, outer.center_lon):
        return chord_squared(inner.radius_m) <= chord_squared(outer.radius_m)
    reach_m = _distance_m(inner, outer) + inner.radius_m
    return reach_m + _margin_m(inner, outer) <= outer.radius_m


def _shapes_apart(one: Area, other: Area) -> bool:
    if isinstance(one, Circle) and isinstance(other, Circle):
        return _distance_m(one, other) > one.radius_m + other.radius_m + _margin_m(one, other)
    boxes = zip(*(msgspec.structs.replace(shape, inside=True).box() for shape in (one, other)), strict=True)
    return any(ValueSet(Kind.NUMBER, ours).meet(ValueSet(Kind.NUMBER, theirs)) is None for ours, theirs in boxes)


def _distance_m(one: Circle, other: Circle) -> float:
    """Between the centres, along the sphere."""
    ax, ay, az = unit_vector(one.center_lat, one.center_lon)
    bx, by, bz = unit_vector(other.center_lat, other.center_lon)
    across = math.hypot(ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx)
    return EARTH_RADIUS_M * math.atan2(across, (ax * bx + ay * by) + az * bz)


def _margin_m(one: Circle, other: Circle) -> float:
    return _MARGIN_M if max(one.radius_m, other.radius_m) < _QUARTER_TURN_M else _WIDE_MARGIN_M
