"""Where is one predicate true? As sets of values, each of one kind.

Three-valued logic ends here: where a predicate is unknown neither it nor its negation is true, so each has its own
sets, and both leave out a missing attribute, another type and NaN.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from tidewire.language.syntax import NEGATED, Between, Compare, In, IsNull, IsType, Like, Operator
from tidewire.model.errors import FilterMeaningless
from tidewire.model.values import Bound, Kind, Timestamp, Value, as_bound, kind_of, successor
from tidewire.model.valuesets import (
    ABSENT,
    ANY_NUMBER,
    PRESENT,
    ValueSet,
    above,
    all_but,
    at_least,
    at_most,
    below,
    everything,
    matching,
    members,
    narrowed,
    not_matching,
)

AttributeLeaf = Compare | In | Like | Between | IsNull | IsType
_KINDS: Final[dict[type, Kind]] = {
    bool: Kind.BOOL,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
    Timestamp: Kind.TIMESTAMP,
    bytes: Kind.BYTES,
}
_OTHER_TYPES: Final = (Kind.BOOL, Kind.ANY_NUMBER, Kind.STRING, Kind.TIMESTAMP, Kind.BYTES)


def compared(op: Operator, value: Value) -> ValueSet | None:
    """The values for which ``op value`` is true; None if there are none."""
    kind = _KINDS[type(value)]
    bound: Bound = value if kind is Kind.STRING else as_bound(value)
    if op == "=":
        return ValueSet(kind, ((bound, successor(kind, bound)),))
    if op == "<>":
        return all_but(kind, bound)
    if kind is Kind.BOOL:
        raise FilterMeaningless("booleans have no order: compare them with = or <>")
    if op == "<":
        return below(kind, bound)
    if op == ">":
        return above(kind, bound)
    return at_most(kind, bound) if op == "<=" else at_least(kind, bound)


def true_sets(leaf: AttributeLeaf, *, negated: bool) -> list[ValueSet]:
    """The sets in any of which the predicate (or, if asked, its negation) is true."""
    if isinstance(leaf, Compare):
        return _some(compared(NEGATED[leaf.op] if negated else leaf.op, leaf.value))
    negated = negated is not leaf.negated
    if isinstance(leaf, In):
        return _none_of(leaf.values) if negated else _any_of(leaf.values)
    if isinstance(leaf, Between):
        return _between(leaf, negated=negated)
    if isinstance(leaf, Like):
        return _some(not_matching(leaf.pattern)) if negated else [matching(leaf.pattern)]
    if isinstance(leaf, IsNull):
        return [PRESENT if negated else ABSENT]
    return [_whole(kind) for kind in _OTHER_TYPES if (kind is leaf.kind) is not negated]


def _some(allowed: ValueSet | None) -> list[ValueSet]:
    return [] if allowed is None else [allowed]


def _whole(kind: Kind) -> ValueSet:
    return ANY_NUMBER if kind is Kind.ANY_NUMBER else everything(kind)


def _by_kind(values: tuple[Value, ...]) -> dict[Kind, list[Bound]]:
    grouped: dict[Kind, list[Bound]] = {}
    for value in values:
        grouped.setdefault(kind_of(value), []).append(as_bound(value))
    return grouped


def _any_of(values: tuple[Value, ...]) -> list[ValueSet]:
    return [members(kind, bounds) for kind, bounds in _by_kind(values).items()]


def _none_of(values: tuple[Value, ...]) -> list[ValueSet]:
    grouped = _by_kind(values)
    if len(grouped) > 1:
        return []  # whatever the attribute is, it is of another type than one of the values
    ((kind, bounds),) = grouped.items()
    gaps = members(kind, bounds).intervals
    outside: list[ValueSet | None] = [below(kind, gaps[0][0])]
    for (_, end), (start, _) in pairwise(gaps):
        outside.append(narrowed(kind, ((end, start),)))
    last = gaps[-1][1]
    outside.append(None if last is None else at_least(kind, last))
    intervals = tuple(interval for part in outside if part is not None for interval in part.intervals)
    return _some(narrowed(kind, intervals))


def _between(leaf: Between, *, negated: bool) -> list[ValueSet]:
    low, high = leaf.low, leaf.high
    if not negated:
        from_low, to_high = compared(">=", low), compared("<=", high)
        assert from_low is not None
        assert to_high is not None
        return _some(from_low.meet(to_high))
    under, over = compared("<", low), compared(">", high)
    if under is None or over is None:
        return _some(under or over)
    joined = under.join(over)
    assert joined is not None, "two sets of one kind without patterns have a union"
    return [joined]
