"""What was asked? A channel's query, checked and resolved: names have become numbers, and every node has its type."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidewire.channels.expressions import Call, Node
from tidewire.channels.schemas import Column, ColumnType


class Source(msgspec.Struct, frozen=True):
    """A dataset that the query reads. The first one drives it: of that, only what is new; of the others, all rows."""

    dataset: str
    optional_on: Node | None = None
    """Of a left join, its condition: where no row fulfils it, its columns are null."""


class Output(msgspec.Struct, frozen=True):
    """A column of the results."""

    name: str
    node: Node


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """``select outputs from sources where all of these group by these having that``."""

    sources: tuple[Source, ...]
    where: tuple[Node, ...]
    """Conditions that must all hold: those of ``where``, and those of its inner joins."""

    outputs: tuple[Output, ...]
    group_by: tuple[Node, ...] = ()
    having: Node | None = None
    is_grouped: bool = False
    """Is there one result for each group, rather than for each row?"""

    def nodes(self) -> Iterator[Node]:
        """Every tree in it, in a fixed order."""
        yield from self.where
        yield from (source.optional_on for source in self.sources if source.optional_on is not None)
        yield from self.group_by
        yield from (() if self.having is None else (self.having,))
        yield from (output.node for output in self.outputs)

    def columns(self) -> tuple[Column, ...]:
        """Of a result."""
        return tuple(Column(output.name, output.node.type) for output in self.outputs)


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """A channel, as it was created."""

    name: str
    parameters: tuple[Column, ...]
    period_ms: int | None
    """Every so often it looks at what is new; None: at each micro-batch (a continuous channel)."""

    query: Query
    text: str

    @property
    def feed(self) -> str:
        """The dataset whose new rows it looks at."""
        return self.query.sources[0].dataset


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What channels have in common that differ in names and literals only: they share one plan, and one job.

    Its query has no constants and its parameters are numbered as they appear; outputs are named c1, c2, ….
    """

    query: Query
    parameters: tuple[ColumnType, ...]
    text: str
    """Equal texts are equal kinds."""

    id: str
    """A digest of the text."""


def conjuncts(node: Node) -> tuple[Node, ...]:
    """The conditions that ``and`` holds together at the top."""
    if isinstance(node, Call) and node.operation == "and":
        return tuple(part for argument in node.arguments for part in conjuncts(argument))
    return (node,)
