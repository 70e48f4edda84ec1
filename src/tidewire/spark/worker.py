"""What a task of Spark does about a kind of channel: matches its part of what is new, and joins, asks and selects.

A worker process serves many tasks. It keeps, for each kind, the subscriptions in their index and the datasets that are
joined, and brings them up to date by what has changed: a million subscriptions are read once, not once a second.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidewire.channels.expressions import Field, Node, Parameter, walk
from tidewire.channels.plans import Join, Plan
from tidewire.channels.schemas import ColumnType
from tidewire.model.values import Timestamp
from tidewire.spark.entries import Entries
from tidewire.spark.frames import Columns, Frame, Numbers, Scope, column_of
from tidewire.spark.jobs import Job, Piece, Standing
from tidewire.spark.lookups import Lookup
from tidewire.spark.places import Place
from tidewire.spark.rows import arrow_type

KINDS_MAX: Final = 64
"""A process remembers so many kinds; of the others it reads everything anew."""
ROWS_AT_ONCE_MAX: Final = 20_000
"""New rows that are matched at a time."""
PLACE: Final = ("tw_stream", "tw_tick")


class Dataset:
    """The rows of a joined dataset, and the joins that look into it."""

    def __init__(self, standing: Standing, columns: Columns) -> None:
        self.version = -1
        self._key = standing.key
        self.columns = columns
        self._current: dict[tuple[Any, ...], int] = {}
        self._alive: dict[int, None] = {}
        self.lookups: list[Lookup] = []

    def look_up(self, join: Join) -> Lookup:
        """For one join."""
        made = Lookup(join, self.columns, self._alive)
        self.lookups.append(made)
        return made

    def load(self, standing: Standing, store: Place) -> tuple[list[int], list[int]]:
        """What came after the version that it has; with a key, in the place of other rows. What came, and what went?"""
        files = [path for version, path in standing.more if version > max(self.version, standing.base)]
        if self.version < 0:
            files = [*standing.files, *files]
        elif self.version < standing.base:
            files = [path for version, path in standing.more if version > self.version]
        came: dict[int, None] = {}
        went: list[int] = []
        for path in files:
            table = store.at(path).read_rows([*self.columns.cells])
            for number in self.columns.append(table):
                key = tuple(self.columns.cells[name][number] for name in self._key) if self._key else None
                if key is not None:
                    other = self._current.get(key)
                    if other is not None and self._is_newer(other, number):
                        continue
                    self._current[key] = number
                    if other is not None and came.pop(other, 0) == 0:
                        went.append(other)
                came[number] = None
        for number in went:
            del self._alive[number]
        self._alive.update(came)
        for lookup in self.lookups:
            lookup.remove(went)
            lookup.add(came)
        self.version = standing.version
        return list(came), went

    def _is_newer(self, one: int, other: int) -> bool:
        if PLACE[1] not in self.columns.cells:
            return False
        ticks, streams = self.columns.cells[PLACE[1]], self.columns.cells[PLACE[0]]
        return (ticks[one], streams[one]) > (ticks[other], streams[other])

    def can_go_on(self, standing: Standing) -> bool:
        """Is it enough to hear what came later? Not if most of the rows that it has are no more."""
        is_wasteful = self.columns.end > 2 * len(self._alive) + 10_000
        return self.version >= 0 and standing.floor <= self.version <= standing.version and not is_wasteful


class Kind:
    """What a process remembers of a kind."""

    def __init__(self, job: Job) -> None:
        plan = self.plan = job.plan
        self.life, self.upto = job.subscriptions.life, 0
        self._types = [one.type for one in _parameters(plan)]
        self._values: list[list[Any]] = [[] for _ in self._types]
        self._ids: list[int] = []
        self._channels: list[int] = []
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._arrays: tuple[Numbers, Numbers] | None = None
        needed = columns_needed(plan)
        self._new_names = needed[0]
        self._sources: dict[int, Columns] = {}
        self._scope = Scope(self._sources, self._values)
        self._datasets: dict[int, Dataset] = {}
        self._lookups: dict[int, Lookup] = {}
        for join in (*plan.new_joins, *plan.subscription_joins, *plan.match_joins):
            self._begin(join, job.datasets[join.source])
        self._entries = Entries(plan, self._scope)

    # -- what is remembered --------------------------------------------------------------------------------------------

    def is_up_to(self, job: Job) -> bool:
        """Can it be brought up to date? Else it is made anew."""
        known = job.subscriptions
        if self.life != known.life or self.plan != job.plan:
            return False
        return self.upto >= known.upto or (bool(known.changes) and known.changes[0].first <= self.upto + 1)

    def _begin(self, join: Join, standing: Standing) -> None:
        columns = self._sources[join.source] = Columns(standing.columns)
        dataset = self._datasets[join.source] = Dataset(standing, columns)
        self._lookups[join.source] = dataset.look_up(join)

    def update(self, job: Job) -> bool:
        """The present, as the job knows it; is anything new?"""
        before = self.upto, [dataset.version for dataset in self._datasets.values()]
        for join in (*self.plan.new_joins, *self.plan.subscription_joins, *self.plan.match_joins):
            self._update_dataset(join, job.datasets[join.source], job.store)
        known = job.subscriptions
        if self.upto < known.upto:
            is_new = self.upto == 0
            for change in chain(known.snapshot if is_new else (), known.changes):
                if change.last > self.upto:
                    self._change(job.store.at(change.path).read_arrow())
                    self.upto = change.last
            self.upto = known.upto
        return before != (self.upto, [dataset.version for dataset in self._datasets.values()])

    def _update_dataset(self, join: Join, standing: Standing, store: Place) -> None:
        known = self._datasets[join.source]
        if known.version == standing.version:
            return
        goes_on = known.can_go_on(standing)
        if known.version >= 0 and not goes_on:
            self._begin(join, standing)
        came, went = self._datasets[join.source].load(standing, store)
        if join in self.plan.subscription_joins and self._slot_of:
            self._renew(join.source, came if goes_on else None, went)

    def _change(self, table: pa.Table) -> None:
        """Of an id that is there more than once, the last word counts."""
        ids = table["id"].to_pylist()
        channels = table["channel"].to_pylist()
        values = [_given(table[f"p{number}"], one) for number, one in enumerate(self._types)]
        last = {one: at for at, one in enumerate(ids)}
        gone = [self._slot_of.pop(one) for one in last if one in self._slot_of]
        self._entries.remove(gone)
        self._free += gone
        added = []
        for one, at in last.items():
            if channels[at] < 0:
                continue
            slot = self._free.pop() if self._free else self._new_slot()
            self._ids[slot], self._channels[slot], self._slot_of[one] = one, channels[at], slot
            for column, given in zip(self._values, values, strict=True):
                column[slot] = given[at]
            added.append(slot)
        self._arrays = None
        self._entries.add(added, self._lookups)

    def _new_slot(self) -> int:
        self._ids.append(0)
        self._channels.append(0)
        for column in self._values:
            column.append(None)
        return len(self._ids) - 1

    def _renew(self, source: int, came: list[int] | None, went: list[int]) -> None:
        """Rows have changed that are joined to subscriptions: the entries of those concerned are made anew."""
        slots = list(self._slot_of.values())
        lookup = self._lookups[source]
        first = self.plan.subscription_joins[0]
        is_found = source == first.source and lookup.keys and all(not _fields(node) for node in lookup.probes)
        if came is not None and is_found:
            keys = {lookup.key_of(number) for number in chain(came, went)}
            numbers = np.fromiter(slots, np.int64)
            frame = Frame(len(numbers), {}, numbers)
            probes = zip(*(self._scope.values(node, frame) for node in lookup.probes), strict=True)
            slots = [slot for slot, probe in zip(slots, probes, strict=True) if probe in keys]
        self._entries.remove(slots)
        self._entries.add(slots, self._lookups)

    # -- a run ---------------------------------------------------------------------------------------------------------

    def run(self, table: pa.Table, version: int, seen: dict[int, int]) -> pa.Table:
        """What new rows have to tell whom."""
        columns = self._sources[0] = Columns(self._new_names)
        frame = Frame(len(table), {0: np.arange(1, 1 + len(table))})
        columns.append(table)
        frame = self._scope.true_of(self.plan.new_conditions, frame)
        for join in self.plan.new_joins:
            frame = self._lookups[join.source].joined(frame, self._scope)
        frame = self._of_running(self._entries.matches(frame), version, seen)
        frame = self._scope.true_of(self.plan.rest, frame)
        for join in self.plan.match_joins:
            frame = self._lookups[join.source].joined(frame, self._scope)
        return self._selected(frame, table)

    def _of_running(self, frame: Frame, version: int, seen: dict[int, int]) -> Frame:
        """Only the channels that run now, and have not seen these rows."""
        assert frame.slots is not None
        runs = np.zeros(1 + max(chain(self._channels, seen), default=0), np.bool_)
        for channel, upto in seen.items():
            runs[channel] = upto < version
        if runs[: len(runs)].all():
            return frame
        return frame.take(runs[self._slot_arrays()[1][frame.slots]])

    def _slot_arrays(self) -> tuple[Numbers, Numbers]:
        if self._arrays is None:
            self._arrays = np.array(self._ids, np.int64), np.array(self._channels, np.int64)
        return self._arrays

    def _selected(self, frame: Frame, table: pa.Table) -> pa.Table:
        assert frame.slots is not None
        at = pa.array(frame.rows[0] - 1)
        ids, channels = self._slot_arrays()
        found = {"tw_channel": pa.array(channels[frame.slots]), "tw_subscription": pa.array(ids[frame.slots])}
        found |= {name: pc.take(table[name], at).combine_chunks() for name in PLACE}
        for name, node in selected(self.plan):
            if isinstance(node, Field) and node.source == 0:
                found[name] = pc.take(table[node.name], at).combine_chunks()
            else:
                found[name] = column_of(self._scope.values(node, frame), node.type)
        return pa.table(found)


_remembered: OrderedDict[str, Kind] = OrderedDict()


def remembered(job: Job) -> Kind:
    """What this process knows of a kind, brought up to date."""
    kind = _remembered.pop(job.kind, None)
    if kind is None or not kind.is_up_to(job):
        kind = Kind(job)
    if kind.update(job):
        # Spark's workers look for garbage after each task: what is remembered is none, and may be much.
        gc.freeze()
    _remembered[job.kind] = kind
    while len(_remembered) > KINDS_MAX:
        _remembered.popitem(last=False)
    return kind


def work(job: Job, pieces: Iterable[Piece]) -> Iterator[pa.Table]:
    """The results of these pieces, some at a time."""
    kind = remembered(job)
    names = [*columns_needed(job.plan)[0]]
    for piece in pieces:
        table = job.store.at(piece.path).read_rows(names).slice(piece.first, piece.count)
        for first in range(0, len(table), ROWS_AT_ONCE_MAX):
            found = kind.run(table.slice(first, ROWS_AT_ONCE_MAX), piece.version, job.seen)
            if len(found):
                yield found


def selected(plan: Plan) -> list[tuple[str, Node]]:
    """What is told of each match: the outputs, or what groups are made of."""
    query = plan.query
    if not query.is_grouped:
        return [(output.name, output.node) for output in query.outputs]
    nodes = [*query.group_by, *([] if query.having is None else [query.having]), *(one.node for one in query.outputs)]
    leaves = dict.fromkeys(leaf for node in nodes for leaf in walk(node) if isinstance(leaf, Field | Parameter))
    return [(f"g{number}", leaf) for number, leaf in enumerate(leaves)]


def columns_needed(plan: Plan) -> dict[int, dict[str, None]]:
    """Of each source, the columns that anything asks for; of the driving one, and of keyed ones, also the place."""
    needed: dict[int, dict[str, None]] = {number: {} for number in range(len(plan.query.sources))}
    for node in plan.query.nodes():
        for leaf in walk(node):
            if isinstance(leaf, Field):
                needed[leaf.source][leaf.name] = None
    needed[0] |= dict.fromkeys(PLACE)
    return needed


def _parameters(plan: Plan) -> list[Parameter]:
    leaves = {one.number: one for node in plan.query.nodes() for one in walk(node) if isinstance(one, Parameter)}
    return [leaves[number] for number in range(len(leaves))]


def _fields(node: Node) -> list[Field]:
    return [one for one in walk(node) if isinstance(one, Field)]


def _given(column: pa.ChunkedArray, kind: ColumnType) -> list[Any]:
    values = column.to_pylist()
    return [None if ns is None else Timestamp(ns) for ns in values] if kind is ColumnType.TIMESTAMP else values


def parameter_type(kind: ColumnType) -> pa.DataType:
    """In files of subscriptions; timestamps are nanoseconds, as they were given."""
    return pa.int64() if kind is ColumnType.TIMESTAMP else arrow_type(kind)
