"""What does a filter mean, what does it cost, and why does it match this event or not?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from tidewire.language.advice import warnings_about
from tidewire.language.english import KIND_NAMES, sentences, shortened
from tidewire.language.normal import normalise
from tidewire.language.parser import locate, parse
from tidewire.language.render import render, render_expression, render_leaf
from tidewire.language.spelling import finite_points, spell_name, spell_value
from tidewire.language.syntax import (
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
    leaves,
)
from tidewire.language.truth import all_true, leaf_truth, negated
from tidewire.model.filters import ACCESS_VALUES_MAX, COST_MAX, Conjunction, Filter, cost_of
from tidewire.model.values import Kind, Value, kind_of
from tidewire.model.valuesets import ValueSet, everything

DECISIONS_MAX: Final = 8
ALTERNATIVES_SHOWN_MAX: Final = 8
OUTCOMES: Final = {True: "true", False: "false", None: "unknown"}


class Decision(msgspec.Struct, frozen=True):
    """One predicate that decided, and why it came out so; its place in the text, if there is a text."""

    predicate: str
    outcome: str
    because: str
    start: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        return f"{self.predicate} is {self.outcome}: {self.because}"


class Explanation(msgspec.Struct, frozen=True):
    """All that can be said about a filter; the outcome and the decisions if there is an event."""

    text: str
    meaning: tuple[str, ...]
    normal_form: str
    conjunctions: int
    cost: int
    cost_meaning: str
    access: tuple[str, ...]
    warnings: tuple[str, ...]
    outcome: str | None = None
    decisions: tuple[Decision, ...] = ()


def explain(source: str | Expression, event: Mapping[str, Value] | None = None) -> Explanation:
    """Explain a filter's text or tree and, given an event's attributes, its outcome."""
    expression = parse(source) if isinstance(source, str) else source
    found = normalise(expression)
    cost = cost_of(found)
    explanation = Explanation(
        text=source if isinstance(source, str) else render_expression(expression),
        meaning=sentences(found),
        normal_form=render(found),
        conjunctions=len(found.conjunctions),
        cost=cost,
        cost_meaning=f"at most {cost} comparison{'' if cost == 1 else 's'} for an event that reaches it;"
        f" {COST_MAX} are allowed",
        access=access_to(found),
        warnings=warnings_about(expression, found),
    )
    if event is None:
        return explanation
    places = locate(source) if isinstance(source, str) else None
    outcome, decisions = decide(expression, event, text=explanation.text, places=places)
    return msgspec.structs.replace(explanation, outcome=OUTCOMES[outcome], decisions=tuple(decisions[:DECISIONS_MAX]))


def access_to(candidate: Filter) -> tuple[str, ...]:
    """By what the index can reach each conjunction, so that most events never touch it."""
    shown = [_access(conjunction) for conjunction in candidate.conjunctions[:ALTERNATIVES_SHOWN_MAX]]
    return tuple(dict.fromkeys(shown))


def _access(conjunction: Conjunction) -> str:
    listed = {c.attribute: finite_points(c.allowed) for c in conjunction.constraints}
    equal = [name for name, points in listed.items() if points is not None and len(points) <= ACCESS_VALUES_MAX]
    if equal:
        return f"equality: found by the value of {_names(equal)} (hash)"
    ranged = [c.attribute for c in conjunction.constraints if _is_range(c.allowed)]
    if ranged:
        return f"range: found by where the value of {_names(ranged)} lies (bitmaps)"
    present = [c.attribute for c in conjunction.constraints if c.allowed.kind is not Kind.ABSENT]
    if present:
        which = "" if len(present) == 1 else "the rarest of "
        return f"presence: looked at for every event that has {which}{_names(present)}; an equality would help"
    return "none: looked at for every event (scan); an equality or a range would help"


def _is_range(allowed: ValueSet) -> bool:
    return bool(allowed.intervals) and allowed.intervals != everything(allowed.kind).intervals


def _names(attributes: list[str]) -> str:
    shown = ", ".join(shortened(spell_name(name)) for name in attributes[:3])
    return shown + (f" or {len(attributes) - 3} more" if len(attributes) > 3 else "")


def decide(
    expression: Expression,
    event: Mapping[str, Value],
    *,
    text: str = "",
    places: list[tuple[int, int]] | None = None,
) -> tuple[bool | None, list[Decision]]:
    """The outcome in three-valued logic, and the predicates that made it so."""
    found = list(leaves(expression))
    known = places if places is not None else [None] * len(found)
    judged = iter([_judged(leaf, event, text, place) for leaf, place in zip(found, known, strict=True)])
    return _folded(expression, judged)


_Judged = tuple[bool | None, list[Decision]]


def _folded(expression: Expression, judged: Iterator[_Judged]) -> _Judged:
    if isinstance(expression, Not):
        outcome, decisions = _folded(expression.operand, judged)
        return negated(outcome), decisions
    if not isinstance(expression, And | Or):
        return next(judged)
    parts = [_folded(operand, judged) for operand in expression.operands]
    if isinstance(expression, And):
        outcome = all_true(part for part, _ in parts)
    else:
        outcome = negated(all_true(negated(part) for part, _ in parts))
    return outcome, [decision for part, decisions in parts if part is outcome for decision in decisions]


def _judged(leaf: Leaf, event: Mapping[str, Value], text: str, place: tuple[int, int] | None) -> _Judged:
    outcome = leaf_truth(leaf, event)
    start, end = place or (None, None)
    because = _because(leaf, event, outcome)
    predicate = shortened(_as_written(leaf, text[start:end]))
    return outcome, [Decision(predicate, OUTCOMES[outcome], because, start, end)]


def _as_written(leaf: Leaf, written: str) -> str:
    """The predicate; an attribute alone stays alone, though it means that it is true."""
    is_bare = isinstance(leaf, Compare) and written in (leaf.attribute, '"' + leaf.attribute.replace('"', '""') + '"')
    return written if is_bare else render_leaf(leaf)


def _because(leaf: Leaf, event: Mapping[str, Value], outcome: bool | None) -> str:
    if isinstance(leaf, Truth):
        return "it says so"
    if isinstance(leaf, InArea):
        names = (leaf.area.latitude, leaf.area.longitude)
        return " and ".join(_state(name, event) for name in names) + (", no place on Earth" if outcome is None else "")
    value = event.get(leaf.attribute)
    said = _state(leaf.attribute, event)
    if outcome is not None or value is None or isinstance(leaf, IsNull | IsType):
        return said
    if value != value:
        return said + ", which compares with nothing"
    if isinstance(leaf, In) and any(kind_of(other) is kind_of(value) for other in leaf.values):
        return f"{said}, not in the list; beside values of other types that is unknown"
    return f"{said}, {KIND_NAMES[kind_of(value)]}, not {_wanted(leaf)}"


def _state(attribute: str, event: Mapping[str, Value]) -> str:
    value = event.get(attribute)
    if value is None:
        return f"{shortened(attribute)} is missing"
    if isinstance(value, float):
        return f"{shortened(attribute)} is {'NaN' if value != value else repr(value)}"
    return f"{shortened(attribute)} is {shortened(spell_value(value))}"


def _wanted(leaf: Leaf) -> str:
    literals: tuple[Value, ...] = ("",)
    if isinstance(leaf, Compare):
        literals = (leaf.value,)
    elif isinstance(leaf, In):
        literals = leaf.values
    elif isinstance(leaf, Between):
        literals = (leaf.low,)
    kinds: dict[Kind, None] = dict.fromkeys(kind_of(value) for value in literals)
    return " or ".join(KIND_NAMES[kind] for kind in kinds)
