"""Filters and syntax trees back into text that reads well and compiles to the very same.

``compile_filter(render(f)) == f`` for every filter that ``normalise`` gives, as long as its text stays within
``TEXT_CHARACTERS_MAX``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidewire.language.areas import METRES
from tidewire.language.normal import boxes
from tidewire.language.parser import IN_VALUES_MAX
from tidewire.language.spelling import (
    finite_points,
    last_of,
    lower_end,
    missing_points,
    prefix_of,
    spell_bound,
    spell_like,
    spell_name,
    spell_value,
    upper_end,
)
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
    Leaf,
    Not,
    Or,
    Truth,
)
from tidewire.model.filters import Conjunction, Filter
from tidewire.model.geography import Area, Circle
from tidewire.model.patterns import Pattern, spell_pattern
from tidewire.model.values import BOTTOM, Bound, Kind
from tidewire.model.valuesets import Interval, ValueSet, everything, matching

TYPE_OF_KIND: Final = {kind: name for name, kind in TYPE_NAMES.items()}


def render(candidate: Filter) -> str:
    """The filter as text."""
    if not candidate.conjunctions:
        return "false"
    return " or ".join(render_conjunction(conjunction) for conjunction in candidate.conjunctions)


def render_conjunction(conjunction: Conjunction) -> str:
    """One conjunction as text; bounding boxes, which the areas imply, are left out."""
    implied = boxes(conjunction.areas) or {}
    parts = [
        part
        for constraint in conjunction.constraints
        if implied.get(constraint.attribute) != constraint.allowed
        for part in _constraint(
            spell_name(constraint.attribute), _beyond(constraint.allowed, implied.get(constraint.attribute))
        )
    ]
    parts.extend(spell_area(area) for area in conjunction.areas)
    return " and ".join(parts) or "true"


def _beyond(allowed: ValueSet, box: ValueSet | None) -> ValueSet:
    """The set without an end that the bounding box sets anyway."""
    if box is None or len(allowed.intervals) != 1 or len(box.intervals) != 1:
        return allowed
    (low, high), (box_low, box_high) = allowed.intervals[0], box.intervals[0]
    open_low = BOTTOM[Kind.NUMBER] if low == box_low else low
    return ValueSet(Kind.NUMBER, ((open_low, None if high == box_high else high),))


def spell_area(area: Area) -> str:
    """An area as a predicate."""
    where = f"{spell_name(area.latitude)}, {spell_name(area.longitude)}"
    negation = "" if area.inside else "not "
    if isinstance(area, Circle):
        center = f"{_short(area.center_lat)}, {_short(area.center_lon)}"
        return f"{negation}within({where}, {center}, {_distance(area.radius_m)})"
    corners = ", ".join(f"{_short(lat)} {_short(lon)}" for lat, lon in area.corners)
    return f"{negation}inside({where}, polygon({corners}))"


def _distance(metres: float) -> str:
    kilometres = metres / METRES["km"]
    is_exact = kilometres * METRES["km"] == metres and metres >= METRES["km"]
    return f"{_short(kilometres)} km" if is_exact else f"{_short(metres)} m"


def _short(number: float) -> str:
    return repr(number).removesuffix(".0")


def _constraint(name: str, allowed: ValueSet) -> list[str]:
    """Predicates that together say what the set says."""
    kind = allowed.kind
    if kind is Kind.ABSENT:
        return [f"{name} is null"]
    if kind is Kind.PRESENT:
        return [f"{name} is not null"]
    if kind is Kind.ANY_NUMBER:
        return [f"{name} is number"]
    parts = [f"{name} like {spell_like(pattern)}" for pattern in allowed.like]
    parts += [f"{name} not like {spell_like(pattern)}" for pattern in allowed.unlike]
    if not parts or allowed.intervals != _intervals_of(allowed.like):
        parts += _ranges(name, kind, allowed)
    return parts


def _intervals_of(patterns: Iterable[str]) -> tuple[Interval, ...]:
    """What the beginnings of the patterns leave."""
    left: ValueSet | None = everything(Kind.STRING)
    for pattern in patterns:
        left = left and left.meet(ValueSet(Kind.STRING, matching(pattern).intervals))
    return left.intervals if left else ()


def _ranges(name: str, kind: Kind, allowed: ValueSet) -> list[str]:
    plain = ValueSet(kind, allowed.intervals)
    if plain == everything(kind):
        return [f"({name} < 0 or {name} >= 0)" if kind is Kind.NUMBER else f"{name} is {TYPE_OF_KIND[kind]}"]
    points = finite_points(plain)
    if points is not None:
        return [_any_of(_lists(name, kind, points, negated=False))]
    gaps = missing_points(kind, plain.intervals)
    if gaps is not None:
        outer = (plain.intervals[0][0], plain.intervals[-1][1])
        return _range(name, kind, outer) + _lists(name, kind, gaps, negated=True)
    return [_any_of(_alternatives(name, kind, plain.intervals))]


def _alternatives(name: str, kind: Kind, intervals: tuple[Interval, ...]) -> list[str]:
    points: list[Bound] = []
    wide: list[str] = []
    for interval in intervals:
        single = finite_points(ValueSet(kind, (interval,)))
        if single is None:
            wide.append(" and ".join(_range(name, kind, interval)))
        else:
            points += single
    return _lists(name, kind, points, negated=False) + wide


def _any_of(alternatives: list[str]) -> str:
    return alternatives[0] if len(alternatives) == 1 else "(" + " or ".join(alternatives) + ")"


def _lists(name: str, kind: Kind, values: list[Bound], *, negated: bool) -> list[str]:
    if len(values) == 1:
        return [f"{name} {'<>' if negated else '='} {spell_bound(kind, values[0])}"]
    chunks = [values[start : start + IN_VALUES_MAX] for start in range(0, len(values), IN_VALUES_MAX)]
    verb = "not in" if negated else "in"
    return [f"{name} {verb} ({', '.join(spell_bound(kind, v) for v in chunk)})" for chunk in chunks]


def _range(name: str, kind: Kind, interval: Interval) -> list[str]:
    """One interval; nothing to say of one without ends."""
    low, high = interval
    if kind is Kind.STRING and (prefix := prefix_of(interval)) is not None:
        pattern = Pattern(runs=(tuple(prefix),), open_start=False, open_end=True)
        return [f"{name} like {spell_like(spell_pattern(pattern))}"]
    lower, upper = lower_end(kind, low), upper_end(kind, high)
    if lower is not None and upper is not None:
        last = last_of(kind, high)
        if lower[0] == ">=" and last is not None and (upper[0] == "<=" or kind is Kind.TIMESTAMP):
            return [f"{name} between {spell_bound(kind, low)} and {spell_bound(kind, last)}"]
    return [f"{name} {end[0]} {spell_bound(kind, end[1])}" for end in (lower, upper) if end is not None]


def render_expression(expression: Expression) -> str:
    """The syntax tree as text; ``parse`` gives the same tree again."""
    if isinstance(expression, And | Or):
        word = " and " if isinstance(expression, And) else " or "
        return word.join(_grouped(operand, inside=expression) for operand in expression.operands)
    if isinstance(expression, Not):
        return "not " + _grouped(expression.operand, inside=expression)
    return render_leaf(expression)


def _grouped(operand: Expression, *, inside: Expression) -> str:
    text = render_expression(operand)
    stands_alone = isinstance(inside, Or) and isinstance(operand, And)
    return f"({text})" if isinstance(operand, And | Or) and not stands_alone else text


def render_leaf(leaf: Leaf) -> str:
    """One predicate as text."""
    if isinstance(leaf, Truth):
        return spell_value(leaf.value)
    if isinstance(leaf, InArea):
        return spell_area(leaf.area)
    name = spell_name(leaf.attribute)
    if isinstance(leaf, Compare):
        return f"{name} {leaf.op} {spell_value(leaf.value)}"
    negation = "not " if leaf.negated else ""
    if isinstance(leaf, IsNull):
        return f"{name} is {negation}null"
    if isinstance(leaf, IsType):
        return f"{name} is {negation}{TYPE_OF_KIND[leaf.kind]}"
    if isinstance(leaf, In):
        return f"{name} {negation}in ({', '.join(map(spell_value, leaf.values))})"
    if isinstance(leaf, Between):
        return f"{name} {negation}between {spell_value(leaf.low)} and {spell_value(leaf.high)}"
    return f"{name} {negation}like {spell_like(leaf.pattern)}"
