"""A filter in normal form as plain English sentences, of bounded length."""

from __future__ import annotations

from typing import Final

from tidewire.language.normal import boxes
from tidewire.language.render import spell_area
from tidewire.language.spelling import (
    finite_points,
    lower_end,
    missing_points,
    prefix_of,
    spell_bound,
    spell_value,
    upper_end,
)
from tidewire.model.filters import Conjunction, Filter
from tidewire.model.geography import Area, Circle
from tidewire.model.patterns import parse_pattern
from tidewire.model.values import Bound, Kind
from tidewire.model.valuesets import ValueSet, everything

SENTENCES_MAX: Final = 12
CONSTRAINTS_SHOWN_MAX: Final = 16
VALUES_SHOWN_MAX: Final = 8
CHARACTERS_SHOWN_MAX: Final = 60

KIND_NAMES: Final = {
    Kind.BOOL: "a boolean",
    Kind.NUMBER: "a number",
    Kind.STRING: "a string",
    Kind.TIMESTAMP: "a timestamp",
    Kind.BYTES: "bytes",
    Kind.ANY_NUMBER: "a number",
}
_COMPARED: Final = {">": "greater than", ">=": "at least", "<": "less than", "<=": "at most"}
_COMPARED_TIMES: Final = {">": "after", ">=": "not before", "<": "before", "<=": "not after"}


def sentences(candidate: Filter) -> tuple[str, ...]:
    """What the filter matches."""
    count = len(candidate.conjunctions)
    if not count:
        return ("It matches no event.",)
    if count == 1:
        (only,) = candidate.conjunctions
        said = conditions(only)
        return (f"It matches an event if {said}.",) if said else ("It matches every event.",)
    shown = [f"{n}. {conditions(c)}." for n, c in enumerate(candidate.conjunctions[: SENTENCES_MAX - 2], start=1)]
    more = [f"And {count - len(shown)} more alternatives."] if count > len(shown) else []
    return (f"It matches an event if any of these {count} alternatives holds:", *shown, *more)


def conditions(conjunction: Conjunction) -> str:
    """What one conjunction asks for."""
    implied = boxes(conjunction.areas) or {}
    parts = [
        _constraint(constraint.attribute, constraint.allowed)
        for constraint in conjunction.constraints
        if implied.get(constraint.attribute) != constraint.allowed
    ]
    parts.extend(_place(area) for area in conjunction.areas)
    if len(parts) > CONSTRAINTS_SHOWN_MAX:
        parts[CONSTRAINTS_SHOWN_MAX:] = [f"{len(parts) - CONSTRAINTS_SHOWN_MAX} more conditions hold"]
    return " and ".join(parts)


def shortened(text: str) -> str:
    """The text, or its beginning if it is long."""
    return text if len(text) <= CHARACTERS_SHOWN_MAX else text[: CHARACTERS_SHOWN_MAX - 1] + "…"


def _constraint(attribute: str, allowed: ValueSet) -> str:
    name = shortened(attribute)
    if allowed.kind is Kind.ABSENT:
        return f"{name} is missing"
    if allowed.kind is Kind.PRESENT:
        return f"{name} is present, of any type"
    if allowed.kind is Kind.ANY_NUMBER:
        return f"{name} is a number"
    forms = [_form(pattern) for pattern in allowed.like] + [f"not {_form(pattern)}" for pattern in allowed.unlike]
    plain = ValueSet(allowed.kind, allowed.intervals)
    if not forms or plain != everything(Kind.STRING):
        forms.insert(0, _ranges(plain))
    return f"{name} is " + " and ".join(forms)


def _form(canonical: str) -> str:
    pattern = parse_pattern(canonical)
    if len(pattern.runs) == 1 and None not in pattern.runs[0] and pattern.open_start:
        text = shortened(spell_value("".join(c for c in pattern.runs[0] if c is not None)))
        return f"a string that contains {text}" if pattern.open_end else f"a string that ends with {text}"
    return f"a string of the form {shortened(spell_value(canonical))}"


def _ranges(allowed: ValueSet) -> str:
    kind = allowed.kind
    if allowed == everything(kind):
        return KIND_NAMES[kind] + (" and not NaN" if kind is Kind.NUMBER else "")
    points = finite_points(allowed)
    if points is not None:
        return ("one of " if len(points) > 1 else "") + _listed(kind, points)
    gaps = missing_points(kind, allowed.intervals)
    if gaps is not None:
        outer = _range(ValueSet(kind, ((allowed.intervals[0][0], allowed.intervals[-1][1]),)))
        return outer + (f" other than {_listed(kind, gaps)}" if gaps else "")
    shown = [_ranges(ValueSet(kind, (interval,))) for interval in allowed.intervals[:VALUES_SHOWN_MAX]]
    return " or ".join(shown) + _rest(len(allowed.intervals))


def _range(allowed: ValueSet) -> str:
    kind = allowed.kind
    low, high = allowed.intervals[0]
    if allowed == everything(kind):
        return KIND_NAMES[kind]
    if kind is Kind.STRING and (prefix := prefix_of((low, high))) is not None:
        return f"a string that begins with {shortened(spell_value(prefix))}"
    words = _COMPARED_TIMES if kind is Kind.TIMESTAMP else _COMPARED
    ends = (lower_end(kind, low), upper_end(kind, high))
    return " and ".join(f"{words[end[0]]} {shortened(spell_bound(kind, end[1]))}" for end in ends if end is not None)


def _listed(kind: Kind, values: list[Bound]) -> str:
    shown = [shortened(spell_bound(kind, value)) for value in values[:VALUES_SHOWN_MAX]]
    return ", ".join(shown) + _rest(len(values))


def _rest(count: int) -> str:
    return f" and {count - VALUES_SHOWN_MAX} more" if count > VALUES_SHOWN_MAX else ""


def _place(area: Area) -> str:
    where = f"({shortened(area.latitude)}, {shortened(area.longitude)})"
    if isinstance(area, Circle):
        distance = spell_area(area).rsplit(", ", 1)[1].rstrip(")")
        word = "within" if area.inside else "beyond"
        return f"{where} is {word} {distance} of {area.center_lat:g}, {area.center_lon:g}"
    return f"{where} is {'inside' if area.inside else 'outside'} a polygon of {len(area.corners)} corners"
