"""What can a channel's query say? A small tree of our own: columns, parameters, constants, and calls of operations.

Every operation is in one table with the types that it takes. What is not in it is refused when a channel is created.
No operation can fail on a row: what has no answer (a division by zero, an integer beyond 64 bits) is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tidewire.channels.schemas import ColumnType
from tidewire.model.values import Value

BOOLEAN, BIGINT, DOUBLE, STRING = ColumnType.BOOLEAN, ColumnType.BIGINT, ColumnType.DOUBLE, ColumnType.STRING


class Field(msgspec.Struct, frozen=True, tag="field", tag_field="node"):
    """A column of one of the query's sources; source 0 is the one that drives the channel."""

    source: int
    name: str
    type: ColumnType


class Parameter(msgspec.Struct, frozen=True, tag="parameter", tag_field="node"):
    """What a subscription gives, by its place in the list of parameters."""

    number: int
    type: ColumnType


class Constant(msgspec.Struct, frozen=True, tag="constant", tag_field="node"):
    """A literal of the text."""

    value: Value
    type: ColumnType


class Call(msgspec.Struct, frozen=True, tag="call", tag_field="node"):
    """An operation and what it is applied to."""

    operation: str
    arguments: tuple[Node, ...]
    type: ColumnType


Node = Field | Parameter | Constant | Call
Types = tuple[ColumnType, ...]


class Operation(msgspec.Struct, frozen=True):
    """What an operation takes and gives."""

    result: Callable[[Types], ColumnType | None]
    """The type of its answer; None if it does not take these."""

    takes: str
    """In words, for those who gave it something else."""

    is_aggregate: bool = False


def _comparison(types: Types) -> ColumnType | None:
    return BOOLEAN if len(types) == 2 and are_comparable(types) else None


def _membership(types: Types) -> ColumnType | None:
    return BOOLEAN if len(types) >= 2 and are_comparable(types) else None


def are_comparable(types: Types) -> bool:
    """Are these all numbers, or all of one type?"""
    return all(one.is_number for one in types) or len(dict.fromkeys(types)) == 1


def _logic(types: Types) -> ColumnType | None:
    return BOOLEAN if types and all(one is BOOLEAN for one in types) else None


def _single_logic(types: Types) -> ColumnType | None:
    return _logic(types) if len(types) == 1 else None


def _sum(types: Types) -> ColumnType | None:
    return _wider(types) if len(types) == 2 else None


def _wider(types: Types) -> ColumnType | None:
    if not types or not all(one.is_number for one in types):
        return None
    return DOUBLE if DOUBLE in types else BIGINT


def _quotient(types: Types) -> ColumnType | None:
    return DOUBLE if len(types) == 2 and _wider(types) else None


def _same_number(types: Types) -> ColumnType | None:
    return types[0] if len(types) == 1 and types[0].is_number else None


def _alike(types: Types) -> ColumnType | None:
    if types and all(one.is_number for one in types):
        return _wider(types)
    return types[0] if types and are_comparable(types) else None


def _strings(count: int | None, result: ColumnType) -> Callable[[Types], ColumnType | None]:
    def fits(types: Types) -> ColumnType | None:
        is_right_count = bool(types) if count is None else len(types) == count
        return result if is_right_count and all(one is STRING for one in types) else None

    return fits


def _numbers(count: int, result: ColumnType) -> Callable[[Types], ColumnType | None]:
    def fits(types: Types) -> ColumnType | None:
        return result if len(types) == count and all(one.is_number for one in types) else None

    return fits


def _anything(count: int, result: ColumnType | None = None) -> Callable[[Types], ColumnType | None]:
    def fits(types: Types) -> ColumnType | None:
        return (result or types[0]) if len(types) == count else None

    return fits


_COMPARED: Final = Operation(_comparison, "two numbers, or two values of one type")
_CALCULATED: Final = Operation(_sum, "two numbers")
_COMBINED: Final = Operation(_logic, "conditions")

OPERATIONS: Final[dict[str, Operation]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _COMPARED),
    **dict.fromkeys(("+", "-", "*"), _CALCULATED),
    "/": Operation(_quotient, "two numbers"),
    "and": _COMBINED,
    "or": _COMBINED,
    "not": Operation(_single_logic, "a condition"),
    "in": Operation(_membership, "a value and a list of values of its type"),
    "like": Operation(_strings(3, BOOLEAN), "two strings"),
    "is null": Operation(_anything(1, BOOLEAN), "a value"),
    "abs": Operation(_same_number, "a number"),
    "negative": Operation(_same_number, "a number"),
    "coalesce": Operation(_alike, "values of one type"),
    "concat": Operation(_strings(None, STRING), "strings"),
    "within": Operation(_numbers(5, BOOLEAN), "latitude, longitude, latitude, longitude and a radius in metres"),
    "distance_m": Operation(_numbers(4, DOUBLE), "latitude, longitude, latitude, longitude"),
    "count": Operation(lambda types: BIGINT if len(types) <= 1 else None, "* or a value", is_aggregate=True),
    "sum": Operation(_same_number, "a number", is_aggregate=True),
    "avg": Operation(_numbers(1, DOUBLE), "a number", is_aggregate=True),
    "min": Operation(_anything(1), "a value", is_aggregate=True),
    "max": Operation(_anything(1), "a value", is_aggregate=True),
    "min_by": Operation(_anything(2), "a value, and what is to be least", is_aggregate=True),
    "max_by": Operation(_anything(2), "a value, and what is to be greatest", is_aggregate=True),
}
"""All that can be asked. The third argument of ``like`` is its escape character, or nothing."""

COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")


def walk(node: Node) -> Iterator[Node]:
    """The node and all that is below it, from left to right."""
    yield node
    if isinstance(node, Call):
        for argument in node.arguments:
            yield from walk(argument)


def sources_of(node: Node) -> frozenset[int]:
    """The sources whose columns are in it."""
    return frozenset(one.source for one in walk(node) if isinstance(one, Field))


def parameters_of(node: Node) -> frozenset[int]:
    """The parameters that are in it, by number."""
    return frozenset(one.number for one in walk(node) if isinstance(one, Parameter))


def is_aggregated(node: Node) -> bool:
    """Does it look at several rows at once?"""
    return any(isinstance(one, Call) and OPERATIONS[one.operation].is_aggregate for one in walk(node))


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The same tree with every leaf as ``change`` gives it."""
    if isinstance(node, Call):
        return Call(node.operation, tuple(rebuilt(one, change) for one in node.arguments), node.type)
    return change(node)
