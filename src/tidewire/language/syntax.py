"""What a filter's text says: the syntax tree, as written, before any rewriting.

Leaves stand in the tree in the order of the text, so the places that ``parser.locate`` returns belong to
``leaves(expression)`` one by one. The nodes do not carry their places: equal texts with other blanks give equal trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from tidewire.model.geography import Area
from tidewire.model.values import Kind, Value

Operator = Literal["=", "<>", "<", "<=", ">", ">="]

NEGATED: Final[dict[Operator, Operator]] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The comparison that is true where this one is false, and unknown where it is unknown."""

MIRRORED: Final[dict[Operator, Operator]] = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The same comparison with its sides exchanged."""

TYPE_NAMES: Final[dict[str, Kind]] = {
    "number": Kind.ANY_NUMBER,
    "string": Kind.STRING,
    "boolean": Kind.BOOL,
    "timestamp": Kind.TIMESTAMP,
    "bytes": Kind.BYTES,
}


class Truth(msgspec.Struct, frozen=True, gc=False):
    """``true`` or ``false`` as a whole condition."""

    value: bool


class Compare(msgspec.Struct, frozen=True, gc=False):
    """``attribute op value``."""

    attribute: str
    op: Operator
    value: Value


class In(msgspec.Struct, frozen=True, gc=False):
    """``attribute [not] in (values)``; the values may be of several types."""

    attribute: str
    values: tuple[Value, ...]
    negated: bool = False


class Like(msgspec.Struct, frozen=True, gc=False):
    """``attribute [not] like pattern``, the pattern in its canonical spelling."""

    attribute: str
    pattern: str
    negated: bool = False


class Between(msgspec.Struct, frozen=True, gc=False):
    """``attribute [not] between low and high``, both ends of one type."""

    attribute: str
    low: Value
    high: Value
    negated: bool = False


class IsNull(msgspec.Struct, frozen=True, gc=False):
    """``attribute is [not] null``: never unknown."""

    attribute: str
    negated: bool = False


class IsType(msgspec.Struct, frozen=True, gc=False):
    """``attribute is [not] number``: unknown if the attribute is missing."""

    attribute: str
    kind: Kind
    negated: bool = False


class InArea(msgspec.Struct, frozen=True, gc=False):
    """``within(...)`` or ``inside(...)``."""

    area: Area


class And(msgspec.Struct, frozen=True, gc=False):
    """All operands (at least two)."""

    operands: tuple[Expression, ...]


class Or(msgspec.Struct, frozen=True, gc=False):
    """Any operand (of at least two)."""

    operands: tuple[Expression, ...]


class Not(msgspec.Struct, frozen=True, gc=False):
    """The opposite; of unknown, unknown."""

    operand: Expression


Leaf = Truth | Compare | In | Like | Between | IsNull | IsType | InArea
Expression = And | Or | Not | Leaf


def leaves(expression: Expression) -> Iterator[Leaf]:
    """The predicates, in the order of the text."""
    if isinstance(expression, And | Or):
        for operand in expression.operands:
            yield from leaves(operand)
    elif isinstance(expression, Not):
        yield from leaves(expression.operand)
    else:
        yield expression
