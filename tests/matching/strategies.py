"""Random values, value sets, filters in normal form and attributes, from small pools so that they collide."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from itertools import product

from hypothesis import strategies as st

from tests.matching.building import conjunction
from tidewire.model.filters import Conjunction, Filter, filter_of
from tidewire.model.geography import Area, Circle, Polygon
from tidewire.model.values import (
    BOTTOM,
    INT64_MAX,
    INT64_MIN,
    Bound,
    Kind,
    Timestamp,
    Value,
    as_bound,
    kind_of,
    previous_number,
    successor,
)
from tidewire.model.valuesets import (
    ABSENT,
    ANY_NUMBER,
    PRESENT,
    ValueSet,
    above,
    all_but,
    at_least,
    at_most,
    beginning_with,
    below,
    everything,
    matching,
    members,
    not_matching,
    shown,
)

NAMES = ("a", "b", "c.d", "é")
NUMBERS: tuple[int | float, ...] = (
    -math.inf,
    math.nextafter(-(2.0**63), -math.inf),
    INT64_MIN,
    INT64_MIN + 1,
    -(2**53) - 1,
    -(2.0**53),
    -1,
    -5e-324,
    -0.0,
    0,
    5e-324,
    0.1,
    math.nextafter(0.1, 1.0),
    1,
    1.0,
    1.5,
    2**53 - 1,
    2.0**53,
    2**53 + 1,
    2**53 + 2,
    INT64_MAX - 1,
    INT64_MAX,
    2.0**63,
    1.7976931348623157e308,
    math.inf,
)
STRINGS = (
    "",
    "\0",
    "a",
    "a\0",
    "ab",
    "ab\0",
    "abc",
    "abcb",
    "b",
    "bab",
    "é",
    "\ud7ff",
    "\ud7ff\U0010ffff",
    "\ue000",
    "\U0010ffff",
    "\U0010ffffa",
    "a\U0010ffff",
    "%_\\",
)
TIMES = tuple(Timestamp(ns) for ns in (INT64_MIN, -1, 0, 1, 10**18, INT64_MAX))
BLOBS = (b"", b"\0", b"a", b"ab", b"\xff", b"\xff\xff")
PATTERNS = ("%a", "%ab", "%b%", "a%b", "_", "a_%", "%a%b%", "ab%b", "%\U0010ffff", "%\\%%", "_%_")
PREFIXES = ("", "a", "ab", "\ud7ff", "\U0010ffff", "a\U0010ffff", "é")
POOL: tuple[Value, ...] = (False, True, *NUMBERS, *STRINGS, *TIMES, *BLOBS)
PLACES = ((0.0, 0.0), (0, 1), (38.3, 142.4), (38.4, 142.5), (89.9, 10.0), (-90, 0), (10.0, 179.9), (10.0, -179.9))
RINGS = (
    ((0.0, 0.0), (0.0, 2.0), (2.0, 0.0)),
    ((-1.0, -1.0), (-1.0, 3.0), (3.0, 3.0), (3.0, -1.0)),
    ((9.0, 179.0), (9.0, 181.0), (11.0, 181.0), (11.0, 179.0)),
)
OFFSETS = (0.0, 0.0, 0.00899, 0.009, 0.13, 0.135, 0.9, 1.0, -1.0)
_TYPED = (Kind.BOOL, Kind.NUMBER, Kind.STRING, Kind.TIMESTAMP, Kind.BYTES)


def _only(kind: Kind, bound: Bound) -> ValueSet:
    return members(kind, [bound])


_MADE: tuple[ValueSet | None, ...] = tuple(
    make(kind_of(value), as_bound(value))
    for value in POOL
    for make in (at_least, at_most, above, below, all_but, _only)
)
PLAIN_SETS: tuple[ValueSet, ...] = (
    *(ABSENT, PRESENT, ANY_NUMBER) * 4,
    *map(everything, _TYPED),
    *map(beginning_with, PREFIXES * 3),
    *(made for made in _MADE if made is not None),
)
PATTERN_SETS = tuple(made for p in PATTERNS for made in (matching(p), not_matching(p)) if made is not None)
AREAS: tuple[Area, ...] = (
    *(
        Circle("lat", "lon", inside, float(lat), float(lon), radius_m)
        for lat, lon in PLACES
        for radius_m in (0.0, 1.0, 1000.0, 1000.01, 15_000.0, 111_000.0, 112_000.0, 9e6, 1.2e7, 2.0015e7, 3e7)
        for inside in (True, False)
    ),
    *(Polygon("lat", "lon", inside, ring) for ring in RINGS * 8 for inside in (True, False)),
)
_FREE_VALUES: st.SearchStrategy[Value] = st.one_of(
    st.integers(INT64_MIN, INT64_MAX),
    st.floats(),
    st.text(st.sampled_from("ab\0é\ud7ff\ue000\U0010ffff"), max_size=4),
    st.binary(max_size=3),
)
_VALUES = st.one_of(st.sampled_from((*POOL, math.nan)), st.sampled_from((*POOL, math.nan)), _FREE_VALUES)


def values() -> st.SearchStrategy[Value]:
    """Any value that an event can carry; NaN among them."""
    return _VALUES


def bounds() -> st.SearchStrategy[tuple[Kind, Bound]]:
    """A bound of any kind; never NaN."""
    return _VALUES.filter(lambda value: value == value).map(lambda value: (kind_of(value), as_bound(value)))


def _combined(parts: list[tuple[ValueSet, bool]]) -> ValueSet:
    """A few sets, met or joined where that is something."""
    found = parts[0][0]
    for other, is_met in parts[1:]:
        found = (found.meet(other) if is_met else found.join(other)) or found
    return found


def _sets(pool: tuple[ValueSet, ...]) -> st.SearchStrategy[ValueSet]:
    single = st.sampled_from(pool)
    return st.one_of(single, st.lists(st.tuples(single, st.booleans()), min_size=2, max_size=4).map(_combined))


_SIMPLE_SETS = _sets(PLAIN_SETS)
_VALUE_SETS = _sets(PLAIN_SETS + PATTERN_SETS * 8)


def simple_sets() -> st.SearchStrategy[ValueSet]:
    """Sets of every kind, without LIKE patterns."""
    return _SIMPLE_SETS


def value_sets() -> st.SearchStrategy[ValueSet]:
    """Sets of every kind."""
    return _VALUE_SETS


def areas() -> st.SearchStrategy[Area]:
    """Circles and polygons over ``lat`` and ``lon``, some of them the same."""
    return st.sampled_from(AREAS)


_FEW_AREAS = st.one_of(st.just(()), st.just(()), st.lists(st.sampled_from(AREAS), max_size=2).map(tuple))


def conjunctions(
    sets: st.SearchStrategy[ValueSet] = _VALUE_SETS, *, names: tuple[str, ...] = NAMES, with_areas: bool = True
) -> st.SearchStrategy[Conjunction]:
    """Conjunctions in normal form that are not plainly impossible."""
    allowed = st.lists(st.tuples(st.sampled_from(names), sets), max_size=3)
    return st.builds(
        lambda pairs, where: conjunction(dict(pairs), where) or Conjunction(),
        allowed,
        _FEW_AREAS if with_areas else st.just(()),
    )


def normal_filters(
    sets: st.SearchStrategy[ValueSet] = _VALUE_SETS,
    *,
    names: tuple[str, ...] = NAMES,
    with_areas: bool = True,
    conjunctions_max: int = 3,
) -> st.SearchStrategy[Filter]:
    """Filters in normal form: disjunctions of conjunctions of every kind, the never true one too."""
    one = conjunctions(sets, names=names, with_areas=with_areas)
    return st.lists(one, max_size=conjunctions_max).map(filter_of)


def attribute_maps(*, names: tuple[str, ...] = NAMES) -> st.SearchStrategy[dict[str, Value]]:
    """What an event may carry, often over the attributes of the filters."""
    return st.builds(
        lambda attributes, place: dict(attributes) | place,
        st.lists(st.tuples(st.sampled_from(names), values()), max_size=len(names)),
        st.one_of(st.just({}), places()),
    )


def places() -> st.SearchStrategy[dict[str, Value]]:
    """Coordinates at, near and far from the areas' centres, and some that are none."""
    offset = st.one_of(st.sampled_from(OFFSETS), st.floats(-2.0, 2.0))
    near = st.builds(
        lambda place, north, east: {"lat": place[0] + north, "lon": place[1] + east},
        st.sampled_from(PLACES),
        offset,
        offset,
    )
    far = st.fixed_dictionaries({"lat": st.floats(-90.0, 90.0), "lon": st.floats(-360.0, 360.0)})
    return st.one_of(near, far, st.sampled_from(({"lat": 0}, {"lat": math.nan, "lon": 0.0}, {"lat": "0", "lon": 0.0})))


def critical_values(sets: Iterable[ValueSet]) -> list[Value | None]:
    """One value of every region on which all these sets (without patterns) are constant; None is absence.

    Intervals are half open, so between two bounds membership does not change, and the lower one stands for all.
    """
    found: dict[tuple[Kind, Bound], None] = {(kind, BOTTOM[kind]): None for kind in _TYPED}
    for one in sets:
        for interval in one.intervals:
            found |= {(one.kind, bound): None for bound in interval if bound is not None}
    return [None, math.nan, *(shown(kind, bound) for kind, bound in found)]


def critical_events(*filters: Filter) -> list[dict[str, Value]]:
    """One event of every region on which all these filters (without patterns and areas) are constant."""
    sets: dict[str, list[ValueSet]] = {}
    for candidate in filters:
        for one in candidate.conjunctions:
            for constraint in one.constraints:
                sets.setdefault(constraint.attribute, []).append(constraint.allowed)
    grid = product(*map(critical_values, sets.values()))
    return [{name: value for name, value in zip(sets, row, strict=True) if value is not None} for row in grid]


def events_near(*filters: Filter, count: int = 8) -> st.SearchStrategy[list[dict[str, Value]]]:
    """Some attribute maps at or beside the bounds of these filters; from one seed, because many draws are slow."""
    beside = [
        [(constraint.attribute, _beside(constraint.allowed)) for constraint in one.constraints]
        for candidate in filters
        for one in candidate.conjunctions
    ]
    return st.integers(0, 2**32).map(lambda seed: [_near(random.Random(f"{seed} {i}"), beside) for i in range(count)])


def _near(chance: random.Random, beside: list[list[tuple[str, list[Value | None]]]]) -> dict[str, Value]:
    found: dict[str, Value | None] = {}
    for name in NAMES:
        if chance.random() < 0.3:
            found[name] = chance.choice(POOL)
    if chance.random() < 0.7:
        lat, lon = chance.choice(PLACES)
        found |= {"lat": lat + chance.choice(OFFSETS), "lon": lon + chance.choice(OFFSETS)}
    for pairs in beside:
        if chance.random() < 0.6:
            found |= {name: chance.choice(near) for name, near in pairs if name in NAMES or chance.random() < 0.1}
    return {name: value for name, value in found.items() if value is not None}


def _beside(allowed: ValueSet) -> list[Value | None]:
    found: list[Value | None] = [None]
    for low, high in allowed.intervals:
        ends: list[Bound | None] = [low, high, successor(allowed.kind, low)]
        if allowed.kind is Kind.NUMBER:
            ends += [previous_number(low), None if high is None else previous_number(high)]
        if allowed.kind is Kind.STRING:
            ends += [low + "ab", low + "b"]
        found += [shown(allowed.kind, end) for end in ends if end is not None]
    return found
