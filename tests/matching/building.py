"""Filters in normal form, written shortly: ``where(x=gt(5), class_=eq("STOCK"))``."""

from __future__ import annotations

from tidewire.model.filters import Conjunction, Constraint, Filter, filter_of
from tidewire.model.geography import Area, Circle, Polygon
from tidewire.model.values import Kind, Value, as_bound, kind_of
from tidewire.model.valuesets import ValueSet, above, at_least, at_most, below, members


def eq(*values: Value) -> ValueSet:
    """One of these values."""
    return members(kind_of(values[0]), [as_bound(value) for value in values])


def ge(value: Value) -> ValueSet:
    """At least this."""
    return at_least(kind_of(value), as_bound(value))


def le(value: Value) -> ValueSet:
    """At most this."""
    return at_most(kind_of(value), as_bound(value))


def gt(value: Value) -> ValueSet:
    """More than this."""
    found = above(kind_of(value), as_bound(value))
    assert found is not None
    return found


def lt(value: Value) -> ValueSet:
    """Less than this."""
    found = below(kind_of(value), as_bound(value))
    assert found is not None
    return found


def both(*sets: ValueSet) -> ValueSet:
    """What all of these have; there is something."""
    found: ValueSet | None = sets[0]
    for one in sets[1:]:
        assert found is not None
        found = found.meet(one)
    assert found is not None
    return found


def any_of(*sets: ValueSet) -> ValueSet:
    """What one of these has; one set can say it."""
    found: ValueSet | None = sets[0]
    for one in sets[1:]:
        assert found is not None
        found = found.join(one)
    assert found is not None
    return found


def conjunction(allowed: dict[str, ValueSet], areas: tuple[Area, ...] = ()) -> Conjunction | None:
    """In normal form: sorted, with the boxes of its areas; None if that is plainly never true."""
    allowed = dict(allowed)
    for area in areas:
        for attribute, intervals in zip((area.latitude, area.longitude), area.box(), strict=True):
            narrowed = ValueSet(Kind.NUMBER, intervals).meet(allowed.get(attribute, ValueSet(Kind.NUMBER, intervals)))
            if narrowed is None:
                return None
            allowed[attribute] = narrowed
    return Conjunction(tuple(Constraint(name, allowed[name]) for name in sorted(allowed)), areas)


def where(*areas: Area, **allowed: ValueSet) -> Filter:
    """One conjunction; a trailing underscore in a name is dropped."""
    found = conjunction({name.rstrip("_"): one for name, one in allowed.items()}, areas)
    assert found is not None
    return Filter((found,))


def either(*filters: Filter) -> Filter:
    """Any of these, as they are."""
    return filter_of(one for candidate in filters for one in candidate.conjunctions)


def circle(lat: float, lon: float, radius_m: float, *, inside: bool = True) -> Circle:
    """Around a point, over ``lat`` and ``lon``."""
    return Circle("lat", "lon", inside, lat, lon, radius_m)


def polygon(*corners: tuple[float, float], inside: bool = True) -> Polygon:
    """Of these corners, over ``lat`` and ``lon``."""
    return Polygon("lat", "lon", inside, corners)
