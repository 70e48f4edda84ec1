"""The results of a kind's runs, in a Delta table: stored once each, found by channel, subscription and tick.

A run is one file, which one commit adds together with its number. The last runs are in memory too; others are read when
a broker asks for them. What nobody needs any more is removed, some runs at a time; of that, the last tick of each
subscription is kept, so that one who comes too late hears of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from tidewire.channels.packing import joined, pack_each
from tidewire.channels.queries import Query
from tidewire.channels.results import BEGINNING, Found, Packed, SubscriptionId
from tidewire.model.errors import StoreFailed
from tidewire.model.ids import Tick
from tidewire.spark.frames import Numbers, cells_of
from tidewire.spark.places import Place, arrow_bytes
from tidewire.spark.rows import arrow_type
from tidewire.spark.tables import UNUSED_HOURS, Written, create_table, open_table, write_file

REMOVED_AT_ONCE: Final = 32
"""Runs that are removed together: a removal is a commit."""
ROWS_IN_MEMORY_MAX: Final = 2_000_000
"""Of a kind; older runs are read again."""
RUNS_IN_MEMORY_MAX: Final = 200
PACKED_MAX: Final = 4
"""The last runs, of which brokers are just being told."""
LOOKED_AT: Final = "tidewire_looked_at"
"""In the commit of a run: the versions of all tables that it looked at."""
_RUN: Final = "run"


class StoredRun:
    """One run: its rows by channel and subscription, in memory or in a file."""

    def __init__(self, number: int, file: Written, rows: pa.Table | None, *, folder: Place, reached: int) -> None:
        self.number = number
        self.file = file
        self.reached = reached
        """No run up to this one has a later tick."""
        self._folder = folder
        self._rows = rows
        self._spans: dict[str, tuple[int, int]] | None = None
        self._packed: list[bytes] | None = None

    def table(self) -> pa.Table:
        """Its rows, read if they are not at hand."""
        if self._rows is None:
            self._rows = (self._folder / self.file.path).read_rows()
        return self._rows

    def forget(self, *, is_at_hand: bool = False) -> None:
        """The rows are in the file."""
        self._packed = None
        if not is_at_hand:
            self._rows = self._spans = None

    def spans(self) -> dict[str, tuple[int, int]]:
        """The rows of each channel, which stand together."""
        if self._spans is None:
            channels = self.table()["tw_channel"].combine_chunks().dictionary_encode()
            numbers = channels.indices.to_numpy()
            starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
            ends = [*starts[1:], len(numbers)]
            names = channels.dictionary.to_pylist()
            self._spans = {
                names[numbers[first]]: (first, last) for first, last in zip(starts, ends, strict=True)
            }  # fmt: skip
        return self._spans

    def tick(self, first: int) -> Tick:
        """Of the run of the channel with this row."""
        return Tick(self.table()["tw_run_tick"][first].as_py())

    def ticks(self) -> dict[str, Tick]:
        """Of each channel that this run has something of."""
        return {channel: self.tick(first) for channel, (first, _) in self.spans().items()}

    def packed(self, outputs: Sequence[str], first: int, last: int) -> Packed:
        """Some of its rows, as brokers get them."""
        if self._packed is None:
            found = [self.table()[name] for name in outputs]
            timed = [at for at, one in enumerate(found) if pa.types.is_timestamp(one.type)]
            self._packed = pack_each([cells_of(one) for one in found], _origins(self.table()), timed=timed)
        return Packed(last - first, joined(self._packed[first:last]))


def _origins(rows: pa.Table) -> list[tuple[tuple[int, int], ...]]:
    if "tw_tick" in rows.column_names:
        streams = rows["tw_stream"].combine_chunks().dictionary_encode()
        known = [int(stream, 16) for stream in streams.dictionary.to_pylist()]
        ticks = rows["tw_tick"].to_pylist()
        return [((known[at], tick),) for at, tick in zip(streams.indices.to_pylist(), ticks, strict=True)]
    lists = zip(rows["tw_streams"].to_pylist(), rows["tw_ticks"].to_pylist(), strict=True)
    return [
        tuple((int(stream, 16), tick) for stream, tick in zip(streams, ticks, strict=True)) for streams, ticks in lists
    ]


def results_schema(query: Query) -> pa.Schema:
    """Of the table of a kind."""
    origin = [pa.field("tw_stream", pa.string()), pa.field("tw_tick", pa.int64())]
    if query.is_grouped:
        origin = [pa.field("tw_streams", pa.list_(pa.string())), pa.field("tw_ticks", pa.list_(pa.int64()))]
    outputs = [pa.field(one.name, arrow_type(one.node.type)) for one in query.outputs]
    first = [pa.field("tw_channel", pa.string()), pa.field("tw_run_tick", pa.int64())]
    return pa.schema([*first, pa.field("tw_subscription", pa.int64()), *origin, *outputs])


class ResultTable:
    """The results of one kind."""

    def __init__(self, folder: Place, query: Query) -> None:
        self._folder = folder
        self._schema = results_schema(query)
        self._outputs = [one.name for one in query.outputs]
        create_table(folder, self._schema)
        self._table = open_table(folder)
        self.last_run = self._table.transaction_version(_RUN) or 0
        self._runs: list[StoredRun] = self._found_runs()
        self._trimmed: dict[str, Tick] = {}
        self._lost = _Lost(folder / "_lost.arrow")

    def _found_runs(self) -> list[StoredRun]:
        actions = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        runs: list[StoredRun] = []
        reached = BEGINNING
        for one in sorted(actions, key=lambda one: _number(one["path"])):
            reached = max(reached, one["max.tw_run_tick"])
            file = Written(one["path"], one["size_bytes"], one["num_records"], None, "")
            runs.append(StoredRun(_number(file.path), file, None, folder=self._folder, reached=reached))
        return runs

    # -- storing -------------------------------------------------------------------------------------------------------

    def store(self, number: int, rows: pa.Table, looked_at: Mapping[str, int] | None = None) -> None:
        """The results of a run, sorted by channel and subscription: all of them, or StoreFailed.

        ``looked_at``: what it looked at, for whoever wants to do it again: see ``Job.looked_at``.
        """
        rows = rows.select(self._schema.names).cast(self._schema)
        try:
            file = write_file(self._folder, rows, name=f"run-{number:012d}")
            add = AddAction(file.path, file.size, {}, _now_ms(), True, file.stats)
            self._commit([add], number, looked_at or {})
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise StoreFailed(f"the results of a run cannot be stored: {error}") from None
        self.last_run = number
        reached = max(self._runs[-1].reached if self._runs else BEGINNING, pc.max(rows["tw_run_tick"]).as_py())
        self._runs.append(StoredRun(number, file, rows, folder=self._folder, reached=reached))
        self._forget()

    def _forget(self) -> None:
        """Older runs are in their files."""
        kept = 0
        for back, run in enumerate(reversed(self._runs)):
            kept += run.file.rows
            if back >= PACKED_MAX:
                run.forget(is_at_hand=kept <= ROWS_IN_MEMORY_MAX and back < RUNS_IN_MEMORY_MAX)
            if back > RUNS_IN_MEMORY_MAX:
                break

    def _commit(
        self,
        actions: Sequence[AddAction | RemoveAction],
        number: int | None,
        looked_at: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        made = CommitProperties(
            app_transactions=None if number is None else [Transaction(_RUN, number)],
            custom_metadata={LOOKED_AT: msgspec.json.encode(looked_at).decode()} if looked_at else None,
        )
        self._table.create_write_transaction(list(actions), "append", self._table.schema(), commit_properties=made)
        self._table.update_incremental()

    # -- finding -------------------------------------------------------------------------------------------------------

    def find(
        self, channel: str, places: Sequence[tuple[SubscriptionId, Tick]], *, upto: Tick, floor: Tick, rows_max: int
    ) -> list[Found]:
        """What each of these subscriptions is owed behind its tick: at least one run, then up to so many rows."""
        wanted = np.array([one for one, _ in places], np.int64)
        after = np.array([max(tick, floor) for _, tick in places], np.int64)
        runs: list[list[tuple[Tick, Packed]]] = [[] for _ in places]
        ends: list[Tick | None] = [None] * len(places)
        rows = [rows_max] * len(places)
        least = int(after.min(initial=upto))
        for run in self._behind(least):
            first, last = run.spans().get(channel, (0, 0))
            if first == last or (tick := run.tick(first)) <= least or tick > upto:
                continue
            starts, stops = self._located(run, wanted, first, last)
            for at in np.flatnonzero((stops > starts) & (after < tick)).tolist():
                count = int(stops[at] - starts[at])
                if ends[at] is not None or (runs[at] and count > rows[at]):
                    ends[at] = ends[at] or runs[at][-1][0]
                    continue
                runs[at].append((tick, run.packed(self._outputs, int(starts[at]), int(stops[at]))))
                rows[at] -= count
        return [
            Found(
                subscription=one,
                after=place,
                upto=Tick(max(place, ends[at] or upto)),
                runs=tuple(runs[at]),
                lost_upto=lost if (lost := self._lost.tick(one)) > max(place, floor) else BEGINNING,
            )
            for at, (one, place) in enumerate(places)
        ]

    def _behind(self, least: int) -> list[StoredRun]:
        """The runs that may have something behind a tick."""
        return self._runs[bisect_right(self._runs, least, key=lambda run: run.reached) :]

    def _located(self, run: StoredRun, wanted: Numbers, first: int, last: int) -> tuple[Numbers, Numbers]:
        ids = run.table()["tw_subscription"].to_numpy()[first:last]
        return first + np.searchsorted(ids, wanted, "left"), first + np.searchsorted(ids, wanted, "right")

    # -- removing ------------------------------------------------------------------------------------------------------

    def trim(self, channel: str, upto: Tick) -> None:
        """What is not behind this tick is no longer needed; of a channel that is no more, nothing is."""
        self._trimmed[channel] = upto

    def remove_old(self, channels: Mapping[str, object]) -> None:
        """The runs that no channel needs go, if they are many."""
        gone: list[StoredRun] = []
        for run in self._runs:
            if len(gone) == REMOVED_AT_ONCE or not self._is_over(run, channels):
                break
            gone.append(run)
        if len(gone) < REMOVED_AT_ONCE:
            return
        self._lost.add([run.table() for run in gone])
        removes = [RemoveAction(run.file.path, True, _now_ms(), run.file.size) for run in gone]
        try:
            self._commit(removes, None)
            self._table.vacuum(retention_hours=UNUSED_HOURS, dry_run=False, enforce_retention_duration=False)
        except DeltaError as error:
            raise StoreFailed(f"old results cannot be removed: {error}") from None
        del self._runs[: len(gone)]

    def _is_over(self, run: StoredRun, channels: Mapping[str, object]) -> bool:
        return all(
            name not in channels or tick <= self._trimmed.get(name, BEGINNING) for name, tick in run.ticks().items()
        )

    def drop(self) -> None:
        """No channel of this kind is left."""
        self._folder.delete_all()


class _Lost:
    """The last tick of each subscription whose results were removed."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self._ticks: dict[int, int] = {}
        if path.exists():
            found = path.read_arrow()
            self._ticks = dict(zip(found["id"].to_pylist(), found["tick"].to_pylist(), strict=True))

    def tick(self, one: SubscriptionId) -> Tick:
        return Tick(self._ticks.get(one, BEGINNING))

    def add(self, tables: Iterable[pa.Table]) -> None:
        """On the disk before the runs are removed."""
        for table in tables:
            distinct = table.group_by("tw_subscription").aggregate([("tw_run_tick", "max")])
            ids, ticks = (distinct[name].to_pylist() for name in ("tw_subscription", "tw_run_tick_max"))
            for one, tick in zip(ids, ticks, strict=True):
                self._ticks[one] = max(tick, self._ticks.get(one, 0))
        ids, ticks = pa.array(self._ticks, pa.int64()), pa.array(self._ticks.values(), pa.int64())
        self._path.write(arrow_bytes(pa.table({"id": ids, "tick": ticks})))


def _number(path: str) -> int:
    """Of a run, from the name of its file."""
    return int(PurePosixPath(path).name.split(".")[0].split("-")[1])


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)
