"""Of what kind is this channel? Channels that differ in names and literals only are of one kind, and share its plan.

The normal form: ``not`` stands before predicates only, comparisons have their column on the left, conditions are
sorted, literals are parameters. A subscription is then a row of the kind's table: what the channel's literals are, and
what the subscription gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, cast

import msgspec

from tidewire.channels.expressions import (
    BOOLEAN,
    COMPARISONS,
    Call,
    Constant,
    Field,
    Node,
    Parameter,
    rebuilt,
    sources_of,
)
from tidewire.channels.queries import Declaration, Kind, Output, Query, Source, conjuncts
from tidewire.channels.schemas import ColumnType
from tidewire.channels.spelling import spell, spell_query
from tidewire.language.syntax import MIRRORED, NEGATED
from tidewire.model.values import Value

_MIRRORED: Final = cast("Mapping[str, str]", MIRRORED)
_NEGATED: Final = cast("Mapping[str, str]", NEGATED)
_TRUE: Final = Constant(True, BOOLEAN)


class Member(msgspec.Struct, frozen=True):
    """A channel as one of its kind."""

    channel: str
    kind: Kind
    arguments: tuple[Parameter | Constant, ...]
    """For each parameter of the kind: a parameter of the channel, or a literal."""

    def row_values(self, given: Sequence[Value]) -> tuple[Value, ...]:
        """A subscription's row in the table of the kind, from what it gave to the channel."""
        return tuple(one.value if isinstance(one, Constant) else given[one.number] for one in self.arguments)


def member_of_kind(declaration: Declaration) -> Member:
    """The kind of a channel, and the channel's place in it."""
    numbering = _Numbering()
    query = numbering.query(_normal_query(declaration.query))
    types = tuple(one.type for one in numbering.arguments)
    listed = ", ".join(f"p{number} {one}" for number, one in enumerate(types, start=1))
    text = f"({listed}) {spell_query(query)}"
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    kind = Kind(query=query, parameters=types, text=text, id=digest)
    return Member(declaration.name, kind, tuple(numbering.arguments))


class _Numbering:
    """Gives the parameters of the kind their numbers, in the order in which they appear."""

    def __init__(self) -> None:
        self.arguments: list[Parameter | Constant] = []
        self._given: dict[Parameter | Constant, Parameter] = {}

    def query(self, query: Query) -> Query:
        where = tuple(self._node(node) for node in query.where)
        sources = tuple(
            Source(one.dataset, None if one.optional_on is None else self._node(one.optional_on))
            for one in query.sources
        )
        # Behind the conditions equal literals are one parameter: what is grouped by must look like what is selected.
        return Query(
            sources=sources,
            where=where,
            outputs=tuple(
                Output(f"c{number}", self._node(one.node, is_shared=True))
                for number, one in enumerate(query.outputs, start=1)
            ),
            group_by=tuple(self._node(node, is_shared=True) for node in query.group_by),
            having=None if query.having is None else self._node(query.having, is_shared=True),
            is_grouped=query.is_grouped,
        )

    def _node(self, node: Node, *, is_shared: bool = False) -> Node:
        if isinstance(node, Call) and node.operation == "like":
            text, pattern = (self._node(one, is_shared=is_shared) for one in node.arguments[:2])
            return Call("like", (text, pattern, node.arguments[2]), BOOLEAN)
        if isinstance(node, Call):
            parts = tuple(self._node(one, is_shared=is_shared) for one in node.arguments)
            return Call(node.operation, parts, node.type)
        return node if isinstance(node, Field) else self._parameter(node, is_shared=is_shared)

    def _parameter(self, leaf: Parameter | Constant, *, is_shared: bool) -> Parameter:
        known = self._given.get(leaf)
        if known is not None and (is_shared or isinstance(leaf, Parameter)):
            return known
        parameter = Parameter(len(self.arguments), leaf.type)
        self.arguments.append(leaf)
        if is_shared or isinstance(leaf, Parameter):
            self._given[leaf] = parameter
        return parameter


def _normal_query(query: Query) -> Query:
    conditions = [part for node in query.where for part in conjuncts(normal_condition(node)) if part != _TRUE]
    sources = tuple(
        Source(one.dataset, None if one.optional_on is None else normal_condition(one.optional_on))
        for one in query.sources
    )
    having = None if query.having is None else normal_condition(query.having)
    where = tuple(sorted(dict.fromkeys(conditions), key=_without_names))
    return msgspec.structs.replace(query, where=where, sources=sources, having=having)


def normal_condition(node: Node, *, is_negated: bool = False) -> Node:
    """The condition, or its opposite, in normal form: the same of every row, unknown included."""
    if not isinstance(node, Call) or node.type is not BOOLEAN:
        return Call("not", (node,), BOOLEAN) if is_negated else node
    if node.operation == "not":
        return normal_condition(node.arguments[0], is_negated=not is_negated)
    if node.operation in ("and", "or"):
        name = node.operation if not is_negated else {"and": "or", "or": "and"}[node.operation]
        parts = [normal_condition(one, is_negated=is_negated) for one in node.arguments]
        flat = [
            inner
            for one in parts
            for inner in (one.arguments if _is_call(one, name) else (one,))  # type: ignore[union-attr]
        ]
        operands = tuple(sorted(dict.fromkeys(flat), key=_without_names))
        return operands[0] if len(operands) == 1 else Call(name, operands, BOOLEAN)
    if node.operation in COMPARISONS:
        return _normal_comparison(node, is_negated=is_negated)
    return Call("not", (node,), BOOLEAN) if is_negated else node


def mirrored(operation: str) -> str:
    """The same comparison with its sides exchanged."""
    return _MIRRORED[operation]


def _is_call(node: Node, operation: str) -> bool:
    return isinstance(node, Call) and node.operation == operation


def _normal_comparison(node: Call, *, is_negated: bool) -> Node:
    left, right = node.arguments
    operation = _NEGATED[node.operation] if is_negated else node.operation
    is_turned = bool(sources_of(right)) and (not sources_of(left) or _without_names(right) < _without_names(left))
    if is_turned:
        return Call(_MIRRORED[operation], (right, left), BOOLEAN)
    return Call(operation, (left, right), BOOLEAN)


def _without_names(node: Node) -> str:
    """A key to sort by that does not depend on the names of parameters, nor on literals."""
    nameless = rebuilt(node, lambda leaf: leaf if isinstance(leaf, Field) else Parameter(0, leaf.type))
    return spell(nameless, _nameless)


def _nameless(leaf: Field | Parameter) -> str:
    return f"t{leaf.source}.{leaf.name}" if isinstance(leaf, Field) else f"?{ColumnType(leaf.type)}"
