"""What can the matching index take? Predicates that compare a column of the new row with what a subscription knows.

Of each subscription they become one filter, so the index that serves brokers finds the subscriptions of a new row.
What it cannot take is asked after the match.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidewire.channels.expressions import BOOLEAN, COMPARISONS, Call, Field, Node, sources_of
from tidewire.channels.kinds import mirrored
from tidewire.channels.meaning import Surroundings, circle_of, value_of
from tidewire.channels.schemas import Row
from tidewire.language.normal import normalise
from tidewire.language.syntax import And, Compare, Expression, In, InArea, IsNull, Like, Not, Or, Truth
from tidewire.model.errors import UsageError
from tidewire.model.filters import ALL, CONJUNCTIONS_MAX, NOTHING, Filter
from tidewire.model.patterns import canonical_pattern
from tidewire.model.values import Value

ALTERNATIVES_MAX: Final = CONJUNCTIONS_MAX // 2
_NEVER: Final = Truth(False)


def attribute_of(field: Field) -> str:
    """The name of a column in the index: that of the driving feed is the attribute's own."""
    return field.name if field.source == 0 else f"t{field.source}.{field.name}"


def attributes_of(rows: Iterable[tuple[int, Row]]) -> dict[str, Value]:
    """A new row, with the rows of other sources that were joined to it, as the index sees it."""
    return {
        name if source == 0 else f"t{source}.{name}": value
        for source, row in rows
        for name, value in row.items()
        if value is not None
    }


def is_indexable(node: Node, *, new: frozenset[int]) -> bool:
    """Can the index take this condition (in normal form), if the new row has the columns of these sources?"""
    return _fits(node, new) and _alternatives(node) <= ALTERNATIVES_MAX


def _fits(node: Node, new: frozenset[int]) -> bool:
    if not sources_of(node) & new:
        return True
    if isinstance(node, Field):
        return node.type is BOOLEAN
    if not isinstance(node, Call):
        return False
    parts = node.arguments
    if node.operation in ("and", "or", "not"):
        return all(_fits(one, new) for one in parts)
    if node.operation in COMPARISONS:
        return _is_split(parts[:1], parts[1:], new) or _is_split(parts[1:], parts[:1], new)
    if node.operation in ("in", "like", "is null"):
        return _is_split(parts[:1], parts[1:], new)
    if node.operation == "within":
        radius = parts[4:]
        return parts[0] != parts[1] and (
            _is_split(parts[:2], parts[2:], new) or (_is_split(parts[2:4], parts[:2] + radius, new))
        )
    return False


def _is_split(columns: tuple[Node, ...], known: tuple[Node, ...], new: frozenset[int]) -> bool:
    """Are these columns of the new row, and is all else known before it comes?"""
    are_columns = all(isinstance(one, Field) and one.source in new for one in columns)
    return are_columns and not any(sources_of(one) & new for one in known)


def _alternatives(node: Node) -> int:
    """How many conjunctions the condition becomes, at most."""
    if not isinstance(node, Call) or node.operation not in ("and", "or"):
        return 1
    counts = [_alternatives(one) for one in node.arguments]
    if node.operation == "or":
        return sum(counts)
    product = 1
    for count in counts:
        product *= count
    return product


def filter_of(conditions: Iterable[Node], *, new: frozenset[int], around: Surroundings) -> Filter:
    """The filter that accepts a new row exactly if all these conditions, which the index can take, are true of it."""
    expressions = tuple(_expression(node, new, around) for node in conditions)
    if not expressions:
        return ALL
    if _NEVER in expressions:
        return NOTHING
    return normalise(expressions[0] if len(expressions) == 1 else And(expressions))


def _expression(node: Node, new: frozenset[int], around: Surroundings) -> Expression:
    """In normal form ``not`` stands before predicates only: so what is unknown can be false."""
    if not sources_of(node) & new:
        return Truth(value_of(node, around) is True)
    if isinstance(node, Field):
        return Compare(attribute_of(node), "=", True)
    assert isinstance(node, Call)
    if node.operation in ("and", "or"):
        parts = tuple(_expression(one, new, around) for one in node.arguments)
        return And(parts) if node.operation == "and" else Or(parts)
    if node.operation == "not":
        found = _predicate(node.arguments[0], new, around, is_negated=True)
        return _NEVER if found is None else Not(found)
    found = _predicate(node, new, around)
    return _NEVER if found is None else found


def _predicate(node: Node, new: frozenset[int], around: Surroundings, *, is_negated: bool = False) -> Expression | None:
    """One predicate with what the subscription knows in it; None if it is never true (negated: never false)."""
    if isinstance(node, Field):
        return Compare(attribute_of(node), "=", True)
    assert isinstance(node, Call)
    if node.operation == "within":
        return _area(node, new, around)
    operation, parts = node.operation, node.arguments
    if operation in COMPARISONS and not _is_split(parts[:1], parts[1:], new):
        operation, parts = mirrored(operation), parts[::-1]
    column = parts[0]
    assert isinstance(column, Field)
    attribute = attribute_of(column)
    if operation == "is null":
        return IsNull(attribute)
    values = [value_of(one, around) for one in parts[1:]]
    if operation == "in":
        options = tuple(value for value in values if value is not None)
        # With a null among the options it may be true, but is never false.
        is_decided = bool(options) and not (is_negated and len(options) < len(values))
        return In(attribute, options) if is_decided else None
    if None in values:
        return None
    if operation == "like":
        return _pattern(attribute, str(values[0]), str(values[1]))
    return Compare(attribute, operation, values[0])  # type: ignore[arg-type]


def _pattern(attribute: str, pattern: str, escape: str) -> Expression | None:
    try:
        return Like(attribute, canonical_pattern(pattern, escape=escape))
    except UsageError:
        return None


def _area(node: Call, new: frozenset[int], around: Surroundings) -> Expression | None:
    parts = node.arguments
    if not _is_split(parts[:2], parts[2:], new):
        parts = parts[2:4] + parts[:2] + parts[4:]
    latitude, longitude = parts[0], parts[1]
    assert isinstance(latitude, Field)
    assert isinstance(longitude, Field)
    values = [value_of(one, around) for one in parts[2:]]
    if None in values:
        return None
    circle = circle_of(attribute_of(latitude), attribute_of(longitude), values)
    return None if circle is None else InArea(circle)
