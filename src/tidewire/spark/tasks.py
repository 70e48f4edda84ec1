"""Runs of kinds on Spark: tasks match pieces of what is new; where groups are asked for, they are put together.

Every job of Spark costs a tenth of a second of somebody's time, whatever it does. So kinds that run at the same time,
and have little to do, are one job; what goes wrong in one of them is told as its answer, and hurts no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tidewire.channels.evaluator import FedRow, grouped
from tidewire.channels.expressions import Field
from tidewire.channels.meaning import Surroundings
from tidewire.channels.plans import Plan
from tidewire.channels.results import ResultRow
from tidewire.channels.schemas import Cell, Row
from tidewire.model.errors import TidewireError, Unavailable
from tidewire.model.ids import PubendId, Tick
from tidewire.spark.frames import cells_of, column_of
from tidewire.spark.jobs import Job
from tidewire.spark.worker import selected, work

TASK_ROWS: Final = 10_000
"""A task costs something too: one for about so many new rows, or as many as there are cores."""
GROUPED_AT_ONCE_MAX: Final = 50_000
"""Up to so many new rows one task puts groups together; of more, each task those of some subscriptions."""
BUCKETS: Final = 4

Answer: TypeAlias = pa.Table | TidewireError | None
"""The results of a run by channel and subscription, as the new rows came; why there are none; None: nothing is new."""

_Share = tuple[int, tuple[int, ...]]
"""Some pieces of a job, all by number."""


class _Matching:
    """What a task does with its shares. Results go through Spark as blocks, each with the number of its job."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs

    def __call__(self, shares: Iterable[_Share]) -> Iterator[tuple[int, bytes | str]]:
        for number, pieces in shares:
            try:
                yield from [(number, _block(table)) for table in self._found(self._jobs[number], pieces)]
            except Exception as error:  # noqa: BLE001 - whatever it is, it is one kind's: the others go on
                yield number, f"{type(error).__name__}: {error}"

    def _found(self, job: Job, pieces: tuple[int, ...]) -> Iterator[pa.Table]:
        found = work(job, [job.pieces[piece] for piece in pieces])
        if not job.plan.query.is_grouped or _is_large(job):
            yield from found
        elif tables := list(found):
            yield grouped_results(job.plan, pa.concat_tables(tables))


def run_jobs(spark: SparkSession, jobs: Sequence[Job]) -> list[Answer]:
    """An answer to each; if Spark itself fails, that is raised."""
    shares = [share for number, job in enumerate(jobs) for share in _shares(number, job)]
    if not shares:
        return [None] * len(jobs)
    context = spark.sparkContext
    rows = sum(_rows(job) for job in jobs)
    tasks = max(1, min(len(shares), context.defaultParallelism, rows // TASK_ROWS))
    found = context.parallelize(shares, tasks).mapPartitions(_Matching(jobs))
    answers: dict[int, list[pa.Table]] = defaultdict(list)
    failures: dict[int, str] = {}
    for number, block in found.collect():
        if isinstance(block, str):
            failures[number] = block
        else:
            answers[number].append(table_of(block))
    return [
        Unavailable(f"a run of kind {job.kind} has failed: {failures[number]}")
        if number in failures
        else in_order(_grouped_apart(spark, job, answers[number]) if _is_large(job) else answers[number])
        for number, job in enumerate(jobs)
    ]


def _rows(job: Job) -> int:
    return sum(piece.count for piece in job.pieces)


def _is_large(job: Job) -> bool:
    """Are there too many groups for one task?"""
    return job.plan.query.is_grouped and _rows(job) > GROUPED_AT_ONCE_MAX


def _shares(number: int, job: Job) -> list[_Share]:
    pieces = range(len(job.pieces))
    if job.plan.query.is_grouped and not _is_large(job):
        return [(number, tuple(pieces))] if pieces else []
    return [(number, (piece,)) for piece in pieces]


def _grouped_apart(spark: SparkSession, job: Job, tables: list[pa.Table]) -> list[pa.Table]:
    """The groups of some subscriptions in each task."""
    if not tables:
        return []
    table = pa.concat_tables(tables)
    of = pc.bit_wise_and(table["tw_subscription"], pa.scalar(BUCKETS - 1, pa.int64()))
    parts = [table.filter(pc.equal(of, pa.scalar(bucket, pa.int64()))) for bucket in range(BUCKETS)]
    blocks = [_block(part) for part in parts if len(part)]
    found = spark.sparkContext.parallelize(blocks, len(blocks)).map(_Grouping(job.plan)).collect()
    return [table_of(block) for block in found]


class _Grouping:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, block: bytes) -> bytes:
        return _block(grouped_results(self._plan, table_of(block)))


def in_order(tables: list[pa.Table]) -> pa.Table | None:
    """By channel and subscription, then as the new rows came."""
    if not tables:
        return None
    table = pa.concat_tables(tables)
    names = [name for name in ("tw_channel", "tw_subscription", "tw_tick", "tw_stream") if name in table.column_names]
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])).combine_chunks()


def _block(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    block: bytes = sink.getvalue().to_pybytes()
    return block


def table_of(block: bytes) -> pa.Table:
    """A block of results."""
    return pa.ipc.open_stream(block).read_all()


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
