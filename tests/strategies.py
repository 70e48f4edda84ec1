"""Hypothesis strategies that every test may use: values, events' attributes, expressions and filters.

Values come from a small pool with many ties and edges as often as from the whole range, so that random filters and
random events meet; so do attribute names.
"""

from __future__ import annotations

import math

from hypothesis import strategies as st

from tidewire.language.normal import normalise
from tidewire.language.syntax import (
    TYPE_NAMES,
    And,
    Between,
    Compare,
    Expression,
    In,
    InArea,
    IsNull,
    IsType,
    Like,
    Not,
    Operator,
    Or,
    Truth,
)
from tidewire.model.errors import FilterTooCostly
from tidewire.model.filters import Filter
from tidewire.model.geography import Area, Circle, Polygon
from tidewire.model.patterns import canonical_pattern
from tidewire.model.values import INT64_MAX, INT64_MIN, Timestamp, Value

NAMES = ("a", "b", "c", "class", "lat", "lon", "odd name", "größe.x", "and", 'quo"te')

_NEAR = (-2, -1, 0, 1, 2)
INTEGERS = (
    *(base + step for base in (0, 5, 10, 2**53, -(2**53), 2**62) for step in _NEAR),
    *(INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1),
)

FLOATS = (
    -0.0,
    0.0,
    0.5,
    4.9,
    5.0,
    math.nextafter(5.0, math.inf),
    math.nextafter(5.0, -math.inf),
    5e-324,
    -5e-324,
    2.0**53,
    2.0**53 + 2,
    2.0**63,
    -(2.0**63),
    math.nextafter(2.0**63, 0.0),
    1e20,
    -1e20,
    1.7976931348623157e308,
    -1.7976931348623157e308,
)
UNREAL = (math.nan, math.inf, -math.inf)

STRINGS = (
    "",
    "\0",
    "a",
    "a\0",
    "ab",
    "abc",
    "abd",
    "b",
    "bab",
    "5",
    "it's",
    "%",
    "a_c",
    "\\",
    "ÿ",
    "größe",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "\U0010ffff\U0010ffff",
    "𝔘nicode",
    "true",
    "\n",
)
BYTES = (b"", b"\0", b"a", b"a\0", b"ab", b"\xff", b"\xff\xff")
TIMES = (0, 1, -1, 1_267_252_451_000_000_000, 1_267_252_451_530_000_000, INT64_MIN, INT64_MAX, INT64_MAX - 1)
PATTERNS = (
    "",
    "%",
    "_",
    "a%",
    "%a",
    "%a%",
    "a%b",
    "a_c",
    "%b_",
    "__",
    "%%",
    "a\\%%",
    "%\\_%",
    "\\\\%",
    "ab%c%d",
    "%'%",
    "\U0010ffff%",
)
_COORDINATES = (0, 0.0, 38.3, 38, 39.5, 90, -90, 90.5, 140, 142.4, 179.9, -179.9, 360, -217.6, 361)


def integers() -> st.SearchStrategy[int]:
    """Any int64, near the edges as often as not."""
    return st.sampled_from(INTEGERS) | st.integers(-20, 20) | st.integers(INT64_MIN, INT64_MAX)


def finite_floats() -> st.SearchStrategy[float]:
    """Any float64 that has a literal."""
    return st.sampled_from(FLOATS) | st.floats(allow_nan=False, allow_infinity=False)


def strings() -> st.SearchStrategy[str]:
    """Any text without halves of surrogate pairs."""
    return (
        st.sampled_from(STRINGS)
        | st.text(alphabet="ab%_\\'\0", max_size=4)
        | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    )


def timestamps() -> st.SearchStrategy[Timestamp]:
    """Any timestamp."""
    return (st.sampled_from(TIMES) | st.integers(INT64_MIN, INT64_MAX)).map(Timestamp)


def byte_strings() -> st.SearchStrategy[bytes]:
    """Any short bytes."""
    return st.sampled_from(BYTES) | st.binary(max_size=4)


def ordered_literals() -> st.SearchStrategy[Value]:
    """Any value that has a literal and an order."""
    return st.one_of(integers(), finite_floats(), strings(), timestamps(), byte_strings())


def literals() -> st.SearchStrategy[Value]:
    """Any value that can be written in a filter."""
    return ordered_literals() | st.booleans()


def values() -> st.SearchStrategy[Value]:
    """Any value that an event can hold: NaN and the infinities too."""
    return literals() | st.sampled_from(UNREAL) | st.sampled_from(_COORDINATES)


def names() -> st.SearchStrategy[str]:
    """Attribute names, few and often the same."""
    return st.sampled_from(NAMES[:4]) | st.sampled_from(NAMES)


def attributes() -> st.SearchStrategy[dict[str, Value]]:
    """An event's attributes."""
    return st.dictionaries(names(), values(), max_size=len(NAMES))


def patterns() -> st.SearchStrategy[str]:
    """LIKE patterns in canonical spelling."""
    loose = st.text(alphabet="ab_%'c", max_size=6).map(lambda text: canonical_pattern(text, escape=None))
    return st.sampled_from(PATTERNS).map(lambda text: canonical_pattern(text, escape="\\")) | loose


def areas() -> st.SearchStrategy[Area]:
    """Circles and polygons, near the pole and the date line too."""
    lats = st.sampled_from((0.0, 38.3, 37.0, 39.5, 89.9, -90.0)) | st.floats(-90, 90).map(lambda x: x + 0.0)
    lons = st.sampled_from((0.0, 140.0, 142.4, 179.9, -179.9)) | st.floats(-360, 360).map(lambda x: x + 0.0)
    radii = st.sampled_from((0.0, 1.0, 300_000.0, 300.5, 2e7, 3e7)) | st.floats(0, 3e7).map(lambda x: x + 0.0)
    circles = st.builds(Circle, st.just("lat"), st.just("lon"), st.just(True), lats, lons, radii)
    corners = st.lists(st.tuples(lats, lons), min_size=3, max_size=6, unique=True).map(tuple)
    return circles | st.builds(Polygon, st.just("lat"), st.just("lon"), st.just(True), corners)


def comparisons() -> st.SearchStrategy[Expression]:
    """``name op literal``."""
    equalities: tuple[Operator, ...] = ("=", "<>")
    orders: tuple[Operator, ...] = ("<", "<=", ">", ">=")
    return st.builds(Compare, names(), st.sampled_from(equalities), literals()) | st.builds(
        Compare, names(), st.sampled_from(orders), ordered_literals()
    )


def betweens() -> st.SearchStrategy[Expression]:
    """``name between low and high``, both of one type."""
    numbers = integers() | finite_floats()
    ends: list[st.SearchStrategy[tuple[Value, Value]]] = [
        st.tuples(numbers, numbers),
        st.tuples(strings(), strings()),
        st.tuples(timestamps(), timestamps()),
        st.tuples(byte_strings(), byte_strings()),
    ]
    return st.builds(
        lambda name, pair, negated: Between(name, pair[0], pair[1], negated),
        names(),
        st.one_of(ends),
        st.booleans(),
    )


def predicates() -> st.SearchStrategy[Expression]:
    """Any leaf of a syntax tree."""
    lists = st.lists(literals(), min_size=1, max_size=5) | st.lists(integers(), min_size=1, max_size=5)
    return st.one_of(
        comparisons(),
        betweens(),
        st.builds(In, names(), lists.map(tuple), st.booleans()),
        st.builds(Like, names(), patterns(), st.booleans()),
        st.builds(IsNull, names(), st.booleans()),
        st.builds(IsType, names(), st.sampled_from(sorted(TYPE_NAMES.values())), st.booleans()),
        st.builds(InArea, areas()),
        st.builds(Truth, st.booleans()),
    )


def expressions(max_leaves: int = 8) -> st.SearchStrategy[Expression]:
    """Any syntax tree that ``parse`` can give."""
    return st.recursive(
        predicates(),
        lambda inner: st.one_of(
            st.builds(And, st.lists(inner, min_size=2, max_size=4).map(tuple)),
            st.builds(Or, st.lists(inner, min_size=2, max_size=4).map(tuple)),
            st.builds(Not, inner),
        ),
        max_leaves=max_leaves,
    )


def filters(max_leaves: int = 8) -> st.SearchStrategy[Filter]:
    """Filters in normal form, as ``normalise`` gives them."""
    return _normal(expressions(max_leaves))


def conjunctive_filters(max_predicates: int = 6) -> st.SearchStrategy[Filter]:
    """Filters in normal form, from one ``and`` of predicates: mostly one conjunction."""
    return _normal(st.lists(predicates(), min_size=2, max_size=max_predicates).map(lambda some: And(tuple(some))))


def _normal(trees: st.SearchStrategy[Expression]) -> st.SearchStrategy[Filter]:
    return trees.map(_normalised).flatmap(lambda found: st.nothing() if found is None else st.just(found))


def _normalised(expression: Expression) -> Filter | None:
    try:
        return normalise(expression)
    except FilterTooCostly:
        return None
