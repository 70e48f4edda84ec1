"""The baseline: every distinct filter asked about every event, by numpy, one vector pass per constrained attribute.

It is given more than the kernel is: events come decoded, with strings as codes, and it stops at the distinct filters
that match, where the kernel goes on to group subscriptions by destination. Columns are float64; an equality takes one
comparison, a one-sided bound one, a two-sided range two; the boolean results are combined in place, in buffers that
are allocated once. Filters must be conjunctions of numeric ranges and string equalities, and events must have every
attribute that is constrained: both are true of the workloads.

``by_shape`` sorts the rows by which attributes they constrain, one block per combination, so that a row is asked about
nothing that it does not mention: faster where combinations are few, and reported beside the plain scan.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidewire.model.values import Kind

_INFINITY: Final = float("inf")
_decode = msgspec.msgpack.Decoder().decode
Rows = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Shape = tuple[tuple[str, bool], ...]
"""The attributes that a filter constrains, each with: is it an equality?"""


class _Wanted(NamedTuple):
    """The filters of one shape: their rows, and for each the two ends of each constraint, flat."""

    rows: array[int]
    ends: array[float]

    def columns(self, shape: Shape) -> Iterator[tuple[str, bool, Floats, Floats]]:
        """Attribute, is it an equality, lower ends, upper ends."""
        ends = np.frombuffer(self.ends, dtype=np.float64).reshape(len(self.rows), len(shape), 2)
        for i, (attribute, is_equality) in enumerate(shape):
            yield attribute, is_equality, ends[:, i, 0], ends[:, i, 1]


class FilterTable:
    """Distinct filters read from their bytes. Row i is the i-th distinct filter that came; strings become codes."""

    def __init__(self, filters: Sequence[bytes]) -> None:
        row_of: dict[bytes, int] = {}
        self.codes: dict[str, float] = {}
        self.shapes: dict[Shape, _Wanted] = {}
        self.row_of_subscription = np.fromiter(
            (row_of.setdefault(one, len(row_of)) for one in filters), np.int64, len(filters)
        )
        for row, encoded in enumerate(row_of):
            self._read(row, encoded)
        self.rows = len(row_of)

    def _read(self, row: int, encoded: bytes) -> None:
        shape: list[tuple[str, bool]] = []
        ends: list[float] = []
        ((constraints, _areas),) = _decode(encoded)[0]
        for attribute, (kind, ((low, high),), _like, _unlike) in constraints:
            is_equality = kind == Kind.STRING
            shape.append((attribute, is_equality))
            if is_equality:
                code = self.codes.setdefault(low, float(len(self.codes)))
                ends += (code, code)
            else:
                ends += (low, _INFINITY if high is None else high)
        wanted = self.shapes.get(key := tuple(shape))
        if wanted is None:
            wanted = self.shapes[key] = _Wanted(array("q"), array("d"))
        wanted.rows.append(row)
        wanted.ends.extend(ends)


class _Column:
    """What the rows of a block want of one attribute: a code to equal, or a lower and an upper bound."""

    __slots__ = ("_free", "_passes", "nbytes")

    def __init__(self, rows: int, parts: Sequence[tuple[Rows, bool, Floats, Floats]]) -> None:
        is_equality = parts[0][1]
        low, high = np.full(rows, np.nan if is_equality else -np.inf), np.full(rows, np.inf)
        for at, part_is_equality, lows, highs in parts:
            assert part_is_equality == is_equality, "an attribute is compared as a string or as a number, not both"
            low[at], high[at] = lows, highs
        # Who has no equality here is not asked; nobody is asked for a bound that no row has.
        free = np.isnan(low)
        self._free = free if is_equality and free.any() else None
        self._passes: list[tuple[np.ufunc, Floats]] = []
        if is_equality:
            self._passes.append((np.equal, low))
        else:
            self._passes += [(np.less_equal, low)] if not np.isneginf(low).all() else []
            self._passes += [(np.greater, high)] if not np.isposinf(high).all() else []
        self.nbytes = sum(bounds.nbytes for _, bounds in self._passes)
        self.nbytes += 0 if self._free is None else self._free.nbytes

    def narrow(self, value: float, hits: Bools, spare: Bools, *, is_first: bool) -> None:
        """Take away the rows that do not want this value."""
        for compare, bounds in self._passes:
            into = hits if is_first else spare
            compare(bounds, value, out=into)
            if self._free is not None:
                np.logical_or(into, self._free, out=into)
            if not is_first:
                np.logical_and(hits, spare, out=hits)
            is_first = False


class _Block:
    """Rows side by side, with a column for each attribute that one of them constrains."""

    def __init__(self, shapes: Mapping[Shape, _Wanted]) -> None:
        self.rows = np.concatenate([np.frombuffer(wanted.rows, dtype=np.int64) for wanted in shapes.values()])
        count = len(self.rows)
        parts: dict[str, list[tuple[Rows, bool, Floats, Floats]]] = {}
        start = 0
        for shape, wanted in shapes.items():
            at = np.arange(start, start + len(wanted.rows))
            for attribute, is_equality, low, high in wanted.columns(shape):
                parts.setdefault(attribute, []).append((at, is_equality, low, high))
            start += len(wanted.rows)
        self.columns = {name: _Column(count, parts[name]) for name in sorted(parts)}
        self.dead: Bools | None = None
        self._hits, self._spare = np.ones(count, dtype=np.bool_), np.empty(count, dtype=np.bool_)

    def match(self, event: Mapping[str, float]) -> Rows:
        """The places in the block of the rows that want the event."""
        hits, is_first = self._hits, True
        for name, column in self.columns.items():
            column.narrow(event[name], hits, self._spare, is_first=is_first)
            is_first = False
        if self.dead is not None:
            np.greater(hits, self.dead, out=hits)
        return np.flatnonzero(hits)


class NumpyScan:
    """The rows of a table, ready to be asked."""

    def __init__(self, table: FilterTable, *, by_shape: bool = False) -> None:
        self._codes = table.codes
        self._subscribers = np.bincount(table.row_of_subscription, minlength=table.rows)
        groups = [{shape: wanted} for shape, wanted in table.shapes.items()] if by_shape else [table.shapes]
        self._blocks = [_Block(group) for group in groups]

    def __len__(self) -> int:
        return len(self._subscribers)

    def remove(self, rows: Rows) -> None:
        """One subscription less for each of these rows; a row that has none left matches nothing."""
        self._subscribers -= np.bincount(rows, minlength=len(self))
        self._mark_dead()

    def insert_again(self, rows: Rows) -> None:
        """One subscription more for each of these rows, which were here before."""
        self._subscribers += np.bincount(rows, minlength=len(self))
        self._mark_dead()

    def _mark_dead(self) -> None:
        for block in self._blocks:
            dead = self._subscribers[block.rows] == 0
            block.dead = dead if dead.any() else None

    def prepare(self, event: Mapping[str, Any]) -> dict[str, float]:
        """The event as the scan wants it: numbers, and strings as their codes."""
        return {
            name: self._codes.get(value, -1.0) if isinstance(value, str) else float(value)
            for name, value in event.items()
        }

    def match(self, event: Mapping[str, float]) -> Rows:
        """The rows that want this prepared event, block by block."""
        found = [block.rows[block.match(event)] for block in self._blocks]
        return found[0] if len(found) == 1 else np.concatenate(found)

    @property
    def nbytes(self) -> int:
        """What the columns take, without the dictionary that finds equal filters."""
        return sum(column.nbytes for block in self._blocks for column in block.columns.values())
