"""Rows by the column: what an expression is worth for all of them at once, as ``channels/meaning.py`` says it of one.

A *frame* is a list of combinations: of each source a row, by its number, and a subscription, by its slot. Row 0 of
every source is the one whose columns are all null, which a left join takes where there is no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewire.channels.expressions import Call, Constant, Field, Node, Parameter
from tidewire.channels.meaning import applied
from tidewire.channels.schemas import Cell, ColumnType
from tidewire.model.values import Timestamp, Value
from tidewire.spark.rows import arrow_type

Numbers = npt.NDArray[np.int64]
_NS_IN_US = 1000


def cells_of(column: pa.ChunkedArray | pa.Array) -> list[Cell]:
    """A column of a table as cells: NaN is null, and of the two zeros there is one."""
    if pa.types.is_timestamp(column.type):
        return [None if us is None else Timestamp(us * _NS_IN_US) for us in column.cast(pa.int64()).to_pylist()]
    cells: list[Cell] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [None if cell is None or cell != cell else cell + 0.0 for cell in cells]  # type: ignore[operator]
    return cells


def column_of(cells: Sequence[Cell], kind: ColumnType) -> pa.Array:
    """Cells as a column of a table."""
    if kind is ColumnType.TIMESTAMP:
        times = [cell.ns // _NS_IN_US if isinstance(cell, Timestamp) else None for cell in cells]
        return pa.array(times, pa.int64()).cast(arrow_type(kind))
    return pa.array(cells, arrow_type(kind))


class Columns:
    """The rows of a source. Numbers of rows begin with 1."""

    def __init__(self, names: Iterable[str]) -> None:
        self.cells: dict[str, list[Cell]] = {name: [None] for name in names}
        self.end = 1
        """The number of the next row."""

    def append(self, table: pa.Table) -> range:
        """Rows of a table; their numbers."""
        for name, cells in self.cells.items():
            cells.extend(cells_of(table[name]))
        first, self.end = self.end, self.end + len(table)
        return range(first, self.end)


class Frame:
    """Combinations of rows and subscriptions."""

    __slots__ = ("rows", "size", "slots")

    def __init__(self, size: int, rows: Mapping[int, Numbers], slots: Numbers | None = None) -> None:
        self.size = size
        self.rows = rows
        self.slots = slots

    def take(self, at: npt.NDArray[Any]) -> Frame:
        """Some of them, by number or by mask."""
        rows = {source: numbers[at] for source, numbers in self.rows.items()}
        slots = None if self.slots is None else self.slots[at]
        size = int(np.count_nonzero(at)) if at.dtype == np.bool_ else len(at)
        return Frame(size, rows, slots)

    def having(self, source: int, numbers: Numbers) -> Frame:
        """The same with rows of one more source."""
        return Frame(self.size, {**self.rows, source: numbers}, self.slots)


class Scope:
    """What the numbers of frames stand for."""

    def __init__(self, sources: Mapping[int, Columns], parameters: Sequence[Sequence[Value | None]]) -> None:
        self.sources = sources
        self.parameters = parameters
        """For each parameter of the kind, its values by slot."""

    def values(self, node: Node, frame: Frame) -> list[Cell]:
        """What an expression without aggregates is worth for each combination."""
        match node:
            case Constant():
                return [node.value] * frame.size
            case Parameter():
                assert frame.slots is not None, "a parameter is of a subscription"
                given = self.parameters[node.number]
                return [given[slot] for slot in frame.slots.tolist()]
            case Field():
                cells = self.sources[node.source].cells[node.name]
                return [cells[number] for number in frame.rows[node.source].tolist()]
            case Call():
                arguments = [self.values(one, frame) for one in node.arguments]
                return [applied(node, list(one)) for one in zip(*arguments, strict=True)]

    def true_of(self, conditions: Iterable[Node], frame: Frame) -> Frame:
        """Those combinations of which all conditions are true."""
        for node in conditions:
            if frame.size:
                held = [value is True for value in self.values(node, frame)]
                frame = frame.take(np.array(held, dtype=np.bool_))
        return frame
