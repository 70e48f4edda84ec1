"""What should the data cluster answer? Every row with every row, exactly: slow, and plain enough to be believed.

It is the oracle for the cluster on Spark, and stands for it in the simulator. A run of a channel looks at the rows that
have come into its feed since the run before; a row is seen by each channel once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tidewire.channels.expressions import OPERATIONS, Call, Node
from tidewire.channels.meaning import Surroundings, applied, holds, in_range, value_of
from tidewire.channels.queries import Declaration, Query
from tidewire.channels.results import Origin, Result, ResultRow, SubscriptionId
from tidewire.channels.schemas import Catalog, Cell, ColumnType, Dataset, Row, cell_of
from tidewire.model.errors import UnsupportedType
from tidewire.model.values import Value, as_bound


class FedRow(msgspec.Struct, frozen=True):
    """A row that has come, and the event that it was made from."""

    row: Row
    origin: Origin | None = None


class Table:
    """One dataset: what has come, in order, and what stands there now."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.log: list[FedRow] = []
        self._standing: dict[object, Row] = {}

    def append(self, row: Row, origin: Origin | None = None) -> None:
        """One more row; with a key, it replaces the one with the same key. UnsupportedType if it does not fit."""
        known = {column.name for column in self.dataset.columns}
        odd = next((name for name in row if name not in known), None)
        if odd is not None:
            raise UnsupportedType(f"{self.dataset.name} has no column {odd!r}")
        cells = {column.name: cell_of(column, row.get(column.name)) for column in self.dataset.columns}
        self.log.append(FedRow(cells, origin))
        key = tuple(cells[name] for name in self.dataset.key) if self.dataset.key else len(self.log)
        self._standing.pop(key, None)
        self._standing[key] = cells

    def standing(self) -> list[Row]:
        """The rows that are there now."""
        return list(self._standing.values())


class Evaluator:
    """The datasets, and what each channel has seen of its feed."""

    def __init__(self, catalog: Catalog) -> None:
        self.tables = {dataset.name: Table(dataset) for dataset in catalog}
        self._seen: dict[str, int] = {}

    def append(self, dataset: str, rows: Iterable[Row | FedRow]) -> None:
        """These rows have come."""
        table = self.tables[dataset]
        for one in rows:
            fed = one if isinstance(one, FedRow) else FedRow(one)
            table.append(fed.row, fed.origin)

    def begin(self, declaration: Declaration, *, seen: int | None = None) -> None:
        """A channel is created: it tells of what comes from now on, or, after a restart, of what it has not seen."""
        self._seen[declaration.name] = self.fed(declaration.feed) if seen is None else seen

    def fed(self, dataset: str) -> int:
        """How many rows have come into a dataset."""
        return len(self.tables[dataset].log)

    def end(self, declaration: Declaration) -> None:
        """A channel is no more."""
        del self._seen[declaration.name]

    def run(
        self, declaration: Declaration, subscriptions: Mapping[SubscriptionId, Sequence[Value]]
    ) -> tuple[Result, ...]:
        """What has come since the last run, for all subscriptions (by id, with what they gave to the channel)."""
        log = self.tables[declaration.feed].log
        new = log[self._seen[declaration.name] :]
        self._seen[declaration.name] = len(log)
        others = [self.tables[source.dataset].standing() for source in declaration.query.sources[1:]]
        found: list[Result] = []
        for subscription, given in subscriptions.items():
            rows = evaluate(declaration.query, new, others, given)
            if rows:
                found.append(Result(subscription, rows))
        return tuple(found)


def evaluate(
    query: Query, new: Sequence[FedRow], others: Sequence[Sequence[Row]], given: Sequence[Value]
) -> tuple[ResultRow, ...]:
    """The answer for one subscription: in the order of the new rows, and of the rows that they are joined with."""
    found: list[tuple[FedRow, Surroundings]] = []
    for fed in new:
        for rows in _joined(query, (fed.row,), others, given):
            around = Surroundings(given, rows)
            if all(holds(node, around) for node in query.where):
                found.append((fed, around))
    if query.is_grouped:
        return grouped(query, found)
    return tuple(
        ResultRow(tuple(value_of(output.node, around) for output in query.outputs), _origins((fed,)))
        for fed, around in found
    )


def _joined(
    query: Query, rows: tuple[Row | None, ...], others: Sequence[Sequence[Row]], given: Sequence[Value]
) -> Iterator[tuple[Row | None, ...]]:
    """The row with every combination of rows of the other sources."""
    number = len(rows)
    if number == len(query.sources):
        yield rows
        return
    on = query.sources[number].optional_on
    candidates: list[Row | None] = list(others[number - 1])
    if on is not None:
        candidates = [row for row in candidates if holds(on, Surroundings(given, (*rows, row)))] or [None]
    for row in candidates:
        yield from _joined(query, (*rows, row), others, given)


def _origins(rows: Iterable[FedRow]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(fed.origin for fed in rows if fed.origin is not None))


def grouped(query: Query, found: list[tuple[FedRow, Surroundings]]) -> tuple[ResultRow, ...]:
    """One result for each group of these matches that ``having`` lets pass."""
    groups: dict[tuple[object, ...], list[tuple[FedRow, Surroundings]]] = {}
    for fed, around in found:
        key = tuple(_as_key(value_of(node, around)) for node in query.group_by)
        groups.setdefault(key, []).append((fed, around))
    results: list[ResultRow] = []
    for members in groups.values():
        group = [around for _, around in members]
        if query.having is None or _over(query.having, group) is True:
            cells = tuple(_over(output.node, group) for output in query.outputs)
            results.append(ResultRow(cells, _origins(fed for fed, _ in members)))
    return tuple(results)


def _as_key(value: Cell) -> object:
    return None if value is None else (type(value).__name__, as_bound(value))


def _over(node: Node, group: list[Surroundings]) -> Cell:
    """The value of an expression for a whole group."""
    if not isinstance(node, Call):
        return value_of(node, group[0])
    if not OPERATIONS[node.operation].is_aggregate:
        return applied(node, [_over(one, group) for one in node.arguments])
    if not node.arguments:
        return len(group)
    columns = [[value_of(one, around) for one in node.arguments] for around in group]
    known = [values for values in columns if values[-1] is not None]
    return _aggregated(node, known)


def _aggregated(node: Call, rows: list[list[Any]]) -> Cell:
    """One aggregate, of the rows whose last argument is not null."""
    name = node.operation
    if name == "count":
        return len(rows)
    if not rows:
        return None
    values = [row[0] for row in rows]
    if name in ("min", "max"):
        return (min if name == "min" else max)(values, key=as_bound)  # type: ignore[no-any-return]
    if name in ("min_by", "max_by"):
        return _chosen(rows, is_least=name == "min_by")
    total = _sum_of_doubles(values) if node.type is ColumnType.DOUBLE else sum(values)
    return in_range(total / len(values) if name == "avg" else total)


def _sum_of_doubles(values: list[float]) -> float:
    """Rounded once; beyond what a double holds, on the way or of infinities, as doubles are added."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return float(sum(values))


def _chosen(rows: list[list[Any]], *, is_least: bool) -> Cell:
    """The value beside the least (or greatest) one; of several, the least (or greatest) value that is not null."""
    best = (min if is_least else max)((row[1] for row in rows), key=as_bound)
    values = [row[0] for row in rows if as_bound(row[1]) == as_bound(best) and row[0] is not None]
    return (min if is_least else max)(values, key=as_bound) if values else None
