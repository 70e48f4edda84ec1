"""The subscriptions of a kind as files that Spark's tasks read: what changed, in its order, now and then all of them.

They are made anew whenever the data cluster begins: what must not be lost is in the ledger.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidewire.channels.queries import Kind
from tidewire.channels.results import SubscriptionId, SubscriptionRow
from tidewire.channels.schemas import ColumnType
from tidewire.model.values import Timestamp
from tidewire.spark.jobs import Changes, Subscriptions
from tidewire.spark.places import Place
from tidewire.spark.worker import parameter_type

FILE_ROWS_MAX: Final = 100_000
CHANGES_MAX: Final = 64
"""So many files of changes may be behind the snapshot, and so many before it are kept for tasks that know those."""
_GONE: Final = -1

Waiting = dict[SubscriptionId, SubscriptionRow | None]
"""Changes that no file has yet; None: it is gone."""


class SubscriptionFiles:
    """Those of one kind."""

    def __init__(self, folder: Place, kind: Kind, *, life: str) -> None:
        self._folder = folder
        self._life = life
        self._types = kind.parameters
        fields = [pa.field(f"p{number}", parameter_type(one)) for number, one in enumerate(kind.parameters)]
        self._schema = pa.schema([pa.field("id", pa.int64()), pa.field("channel", pa.int32()), *fields])
        self._waiting: Waiting = {}
        self._numbers: dict[str, int] = {}
        self._next = 1
        self._snapshot: list[Changes] = []
        self._old: deque[Changes] = deque()
        """Changes that are in the snapshot."""
        self._new: list[Changes] = []
        self.rows = 0
        """About how many there are."""
        folder.prepare()

    def number_of(self, channel: str) -> int:
        """Of a channel in this kind."""
        return self._numbers.setdefault(channel, len(self._numbers))

    def add(self, row: SubscriptionRow) -> None:
        """One more, from the next run on."""
        self._waiting[row.id] = row
        self.rows += 1

    def remove(self, subscription: SubscriptionId) -> None:
        """One less."""
        self._waiting[subscription] = None
        self.rows -= 1

    def take(self) -> Waiting:
        """What has changed since the last time: to be written, or given back."""
        taken, self._waiting = self._waiting, {}
        return taken

    def give_back(self, taken: Waiting) -> None:
        """It was not written."""
        self._waiting = {**taken, **self._waiting}

    def present(self, taken: Waiting) -> Subscriptions:
        """All of them, in files, with these changes."""
        changes = list(taken.items())
        for first in range(0, len(changes), FILE_ROWS_MAX):
            self._new.append(self._written(self._table(changes[first : first + FILE_ROWS_MAX])))
        if len(self._new) > CHANGES_MAX:
            self._summarise()
        return Subscriptions(
            life=self._life,
            snapshot=tuple(self._snapshot),
            changes=(*self._old, *self._new),
            upto=self._next - 1,
        )

    def clear(self) -> None:
        """There are no more channels of this kind."""
        for one in (*self._snapshot, *self._old, *self._new):
            self._folder.at(one.path).delete()

    def _table(self, changes: list[tuple[SubscriptionId, SubscriptionRow | None]]) -> pa.Table:
        nothing = (None,) * len(self._types)
        rows = [(_GONE, nothing) if row is None else (self.number_of(row.channel), row.values) for _, row in changes]
        values: list[Any] = list(zip(*(row[1] for row in rows), strict=True)) if self._types else []
        columns = [pa.array([one for one, _ in changes], pa.int64()), pa.array([row[0] for row in rows], pa.int32())]
        columns += [_column(cells, kind) for cells, kind in zip(values, self._types, strict=True)]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _written(self, table: pa.Table, *, first: int | None = None) -> Changes:
        """A file; of a snapshot, in the place of all changes up to now."""
        if first is None:
            first, self._next = self._next, self._next + len(table)
        last = self._next - 1
        path = self._folder / f"{self._life}-{first}-{last}-{len(table)}.arrow"
        path.write_arrow(table)
        return Changes(str(path), first, last)

    def _summarise(self) -> None:
        """One snapshot in the place of the last one and of what came after it."""
        replaced = self._snapshot
        tables = [self._folder.at(one.path).read_arrow() for one in (*self._snapshot, *self._new)]
        table = pa.concat_tables(tables)
        ids = table["id"].to_numpy()[::-1]
        last = len(ids) - 1 - np.unique(ids, return_index=True)[1]
        table = table.take(np.sort(last[table["channel"].to_numpy()[last] != _GONE]))
        parts = [table.slice(at, FILE_ROWS_MAX) for at in range(0, max(1, len(table)), FILE_ROWS_MAX)]
        self._snapshot = [self._written(part, first=-number) for number, part in enumerate(parts, start=1)]
        self._old.extend(self._new)
        self._new = []
        self.rows = len(table)
        for one in replaced:
            self._folder.at(one.path).delete()
        while len(self._old) > CHANGES_MAX:
            self._folder.at(self._old.popleft().path).delete()


def _column(cells: tuple[Any, ...], kind: ColumnType) -> pa.Array:
    if kind is ColumnType.TIMESTAMP:
        return pa.array([one.ns if isinstance(one, Timestamp) else None for one in cells], pa.int64())
    return pa.array(cells, parameter_type(kind))
