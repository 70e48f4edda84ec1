"""What is an expression for an event: true, false or unknown? The syntax tree, read as it stands.

Plain comparisons of plain values, without the normal form: this is what the normal form is tested against.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

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
    Like,
    Not,
    Or,
    Truth,
)
from tidewire.model.filters import area_holds
from tidewire.model.patterns import matches_pattern, parse_pattern
from tidewire.model.values import Kind, Timestamp, Value, kind_of

TRUTHS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth_of(expression: Expression, attributes: Mapping[str, Value]) -> bool | None:
    """True, False, or None for unknown."""
    if isinstance(expression, And):
        return all_true(truth_of(operand, attributes) for operand in expression.operands)
    if isinstance(expression, Or):
        return negated(all_true(negated(truth_of(operand, attributes)) for operand in expression.operands))
    if isinstance(expression, Not):
        return negated(truth_of(expression.operand, attributes))
    return leaf_truth(expression, attributes)


def all_true(outcomes: Iterable[bool | None]) -> bool | None:
    """Kleene's *and*: false if one is, else unknown if one is."""
    result: bool | None = True
    for outcome in outcomes:
        if outcome is False:
            return False
        if outcome is None:
            result = None
    return result


def negated(outcome: bool | None) -> bool | None:
    """Kleene's *not*."""
    return None if outcome is None else not outcome


def leaf_truth(leaf: Leaf, attributes: Mapping[str, Value]) -> bool | None:
    """The truth of one predicate."""
    if isinstance(leaf, Truth):
        return leaf.value
    if isinstance(leaf, InArea):
        return area_holds(leaf.area, attributes)
    value = attributes.get(leaf.attribute)
    if isinstance(leaf, IsNull):
        return (value is None) is not leaf.negated
    if value is None:
        return None
    if isinstance(leaf, Compare):
        return compare(leaf.op, value, leaf.value)
    outcome = _plain(leaf, value)
    return negated(outcome) if leaf.negated else outcome


def _plain(leaf: In | Like | Between | IsType, value: Value) -> bool | None:
    if isinstance(leaf, In):
        return negated(all_true(compare("<>", value, candidate) for candidate in leaf.values))
    if isinstance(leaf, Between):
        return all_true((compare(">=", value, leaf.low), compare("<=", value, leaf.high)))
    if isinstance(leaf, Like):
        return matches_pattern(parse_pattern(leaf.pattern), value) if isinstance(value, str) else None
    kind = kind_of(value)
    return leaf.kind is (Kind.ANY_NUMBER if kind is Kind.NUMBER else kind)


def compare(op: str, one: Value, other: Value) -> bool | None:
    """The comparison of two values; unknown if their types differ or one is NaN."""
    kind = kind_of(one)
    if kind is not kind_of(other) or kind is Kind.ANY_NUMBER:
        return None
    if isinstance(one, Timestamp) and isinstance(other, Timestamp):
        return TRUTHS[op](one.ns, other.ns)
    return TRUTHS[op](one, other)
