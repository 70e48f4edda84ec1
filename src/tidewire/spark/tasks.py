"""A run of a kind on Spark: tasks match pieces of what is new; where groups are asked for, others put them together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tidewire.channels.evaluator import FedRow, grouped
from tidewire.channels.expressions import Field
from tidewire.channels.meaning import Surroundings
from tidewire.channels.plans import Plan
from tidewire.channels.results import ResultRow
from tidewire.channels.schemas import Cell, Row
from tidewire.model.ids import PubendId, Tick
from tidewire.spark.frames import cells_of, column_of
from tidewire.spark.jobs import Job
from tidewire.spark.worker import selected, work

BUCKETS: Final = 4
"""Tasks that put groups together: each has the matches of some subscriptions."""

_SCHEMA: Final = "bucket int, found binary"
_ARROW: Final = pa.schema([pa.field("bucket", pa.int32()), pa.field("found", pa.binary())])


class _Matching:
    """What a task does with its pieces. Results go through Spark as they are, a block at a time."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = [self._job.pieces[number] for batch in batches for number in batch["id"].to_pylist()]
        for found in work(self._job, pieces):
            if self._job.plan.query.is_grouped:
                yield from _divided(found)
            else:
                yield _block(0, found)


class _Grouping:
    """What a task does with the matches of its subscriptions."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = [table_of(block) for batch in batches for block in batch["found"].to_pylist()]
        if tables:
            yield _block(0, grouped_results(self._plan, pa.concat_tables(tables)))


def run_job(spark: SparkSession, job: Job) -> pa.Table | None:
    """All results of a run, by channel and subscription, as the new rows came; None if there are none."""
    tasks = min(len(job.pieces), spark.sparkContext.defaultParallelism)
    found = spark.range(0, len(job.pieces), 1, max(1, tasks)).mapInArrow(_Matching(job), _SCHEMA)
    if job.plan.query.is_grouped:
        found = found.repartition(BUCKETS, "bucket").mapInArrow(_Grouping(job.plan), _SCHEMA)
    tables = [table_of(bytes(row.found)) for row in found.collect()]
    return in_order(tables)


def in_order(tables: list[pa.Table]) -> pa.Table | None:
    """By channel and subscription, then as the new rows came."""
    if not tables:
        return None
    table = pa.concat_tables(tables)
    names = [name for name in ("tw_channel", "tw_subscription", "tw_tick", "tw_stream") if name in table.column_names]
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])).combine_chunks()


def _block(bucket: int, table: pa.Table) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.RecordBatch.from_arrays(
        [pa.array([bucket], pa.int32()), pa.array([sink.getvalue().to_pybytes()])], schema=_ARROW
    )


def table_of(block: bytes) -> pa.Table:
    """A block of results."""
    return pa.ipc.open_stream(block).read_all()


def _divided(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """By subscription, into as many parts as there are tasks."""
    of = pc.bit_wise_and(table["tw_subscription"], pa.scalar(BUCKETS - 1, pa.int64()))
    for bucket in range(BUCKETS):
        part = table.filter(pc.equal(of, pa.scalar(bucket, pa.int64())))
        if len(part):
            yield _block(bucket, part)


def grouped_results(plan: Plan, table: pa.Table) -> pa.Table:
    """One row for each group of each subscription."""
    leaves = selected(plan)
    columns = [cells_of(table[name]) for name, _ in leaves]
    members: defaultdict[tuple[int, int], list[tuple[FedRow, Surroundings]]] = defaultdict(list)
    origins = zip(table["tw_stream"].to_pylist(), table["tw_tick"].to_pylist(), strict=True)
    cells = zip(*columns, strict=True) if columns else iter([()] * len(table))
    ids = zip(table["tw_channel"].to_pylist(), table["tw_subscription"].to_pylist(), strict=True)
    for one, (stream, tick), row in zip(ids, origins, cells, strict=True):
        fed = FedRow({}, (PubendId(int(stream, 16)), Tick(tick)))
        members[one].append((fed, _surroundings(plan, leaves, row)))
    found = [(one, row) for one, matches in members.items() for row in grouped(plan.query, matches)]
    return _as_table(plan, found)


def _surroundings(plan: Plan, leaves: list[tuple[str, Any]], row: tuple[Cell, ...]) -> Surroundings:
    parameters: dict[int, Any] = {}
    rows: list[dict[str, Cell]] = [{} for _ in plan.query.sources]
    for (_, leaf), cell in zip(leaves, row, strict=True):
        if isinstance(leaf, Field):
            rows[leaf.source][leaf.name] = cell
        else:
            parameters[leaf.number] = cell
    shown: list[Row | None] = list(rows)
    return Surroundings(parameters, shown)  # type: ignore[arg-type]  # by number, as a list is


def _as_table(plan: Plan, found: list[tuple[tuple[int, int], ResultRow]]) -> pa.Table:
    outputs = plan.query.outputs
    columns = {"tw_channel": pa.array([one[0] for one, _ in found], pa.int64())}
    columns["tw_subscription"] = pa.array([one[1] for one, _ in found], pa.int64())
    streams = [[f"{pubend:016x}" for pubend, _ in row.origins] for _, row in found]
    columns["tw_streams"] = pa.array(streams, pa.list_(pa.string()))
    columns["tw_ticks"] = pa.array([[tick for _, tick in row.origins] for _, row in found], pa.list_(pa.int64()))
    for number, output in enumerate(outputs):
        columns[output.name] = column_of([row.cells[number] for _, row in found], output.node.type)
    return pa.table(columns)
