"""What is probably wrong with a filter that is well formed?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tidewire.language.english import KIND_NAMES, shortened
from tidewire.language.leafsets import AttributeLeaf, true_sets
from tidewire.language.lexer import number_of
from tidewire.language.render import render_leaf
from tidewire.language.spelling import spell_name, spell_value
from tidewire.language.syntax import (
    And,
    Between,
    Compare,
    Expression,
    In,
    InArea,
    Leaf,
    Not,
    Or,
    Truth,
    leaves,
)
from tidewire.model.filters import ALL, NOTHING, Filter
from tidewire.model.values import Value, kind_of
from tidewire.model.valuesets import ValueSet

WARNINGS_MAX: Final = 16
_LIKE_A_TIMESTAMP: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]++(?:Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)


def warnings_about(expression: Expression, found: Filter) -> tuple[str, ...]:
    """Sentences for people, the most important first."""
    general = []
    if found == NOTHING:
        general.append("it is never true: no event can match")
    if found == ALL and expression != Truth(True):
        general.append("it is always true: every event matches")
    warnings = dict.fromkeys(
        [
            *general,
            *_contradictions(expression),
            *(warning for leaf in leaves(expression) for warning in _about_leaf(leaf)),
            *_mixed_types(expression),
        ]
    )
    return tuple(warnings)[:WARNINGS_MAX]


def _contradictions(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Not):
        yield from _contradictions(expression.operand)
    elif isinstance(expression, And | Or):
        if isinstance(expression, And):
            yield from _contradictory(expression)
        for operand in expression.operands:
            yield from _contradictions(operand)


def _contradictory(conjunction: And) -> Iterator[str]:
    """Predicates of one ``and`` that cannot hold with those before them."""
    left: dict[str, tuple[ValueSet, str]] = {}
    for operand in conjunction.operands:
        if isinstance(operand, And | Or | Not | Truth | InArea):
            continue
        allowed = true_sets(operand, negated=False)
        if len(allowed) != 1:
            continue
        text = shortened(render_leaf(operand))
        known = left.get(operand.attribute)
        met = allowed[0] if known is None else known[0].meet(allowed[0])
        if met is None:
            assert known is not None
            yield f"{text} contradicts {known[1]}: both are never true together"
        else:
            left[operand.attribute] = (met, text)


def _about_leaf(leaf: Leaf) -> Iterator[str]:
    if isinstance(leaf, Truth | InArea):
        return
    if not true_sets(leaf, negated=False):
        yield f"{shortened(render_leaf(leaf))} is never true: {_never_because(leaf)}"
    for value in _literals(leaf):
        if isinstance(value, str):
            yield from _about_string(leaf.attribute, value)


def _never_because(leaf: AttributeLeaf) -> str:
    if isinstance(leaf, In):
        return "the list has several types, and a value of one type is unknown beside another"
    if isinstance(leaf, Between):
        return "its ends are in the wrong order"
    return "no value is like that"


def _about_string(attribute: str, value: str) -> Iterator[str]:
    quoted = shortened(spell_value(value))
    if number_of(value) is not None:
        yield f"{quoted} is a string: if {shortened(attribute)} is a number, write it without quotes"
    elif value.lower() in ("true", "false"):
        yield f"{quoted} is a string; a boolean is written without quotes"
    elif _LIKE_A_TIMESTAMP.fullmatch(value):
        yield f"{quoted} is a string; a timestamp is written without quotes, or as timestamp {quoted}"


def _literals(leaf: AttributeLeaf) -> tuple[Value, ...]:
    if isinstance(leaf, Compare):
        return (leaf.value,)
    if isinstance(leaf, In):
        return leaf.values
    return (leaf.low, leaf.high) if isinstance(leaf, Between) else ()


def _mixed_types(expression: Expression) -> Iterator[str]:
    kinds: dict[str, dict[str, None]] = {}
    for leaf in leaves(expression):
        if not isinstance(leaf, Truth | InArea):
            found = kinds.setdefault(leaf.attribute, {})
            found.update(dict.fromkeys(KIND_NAMES[kind_of(value)] for value in _literals(leaf)))
    for attribute, names in kinds.items():
        if len(names) > 1:
            yield f"{shortened(spell_name(attribute))} is compared with {' and with '.join(names)}"
