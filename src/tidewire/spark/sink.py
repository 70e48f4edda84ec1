"""The datasets as a streaming sink of Spark: executors write files, the driver commits each part of a stream once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidewire.spark.datasets import Declared, Warehouse
from tidewire.spark.rows import ASIDE, Block, rows_of, schema_of
from tidewire.spark.tables import (
    Written,
    append_files,
    create_table,
    is_due,
    open_table,
    stored_ends,
    tidy,
    upsert_files,
    write_files,
)
from tidewire.wire.feeds import Offsets

NAME: Final = "tidewire_datasets"
SCHEMA: Final = "feed string, stream string, first bigint, end bigint, gaps array<bigint>, batch binary"
ROWS_MAX: Final = 1_000_000
"""Rows that a task keeps before it writes a file."""


@dataclass
class Part:
    """What a task has written for one dataset."""

    rows: list[Written] = field(default_factory=list)
    aside: list[Written] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)


@dataclass
class Parts(WriterCommitMessage):
    """What a task has written, by dataset."""

    parts: dict[str, Part]


class DatasetsSink(DataSource):
    """Options: ``root`` of the tables, and ``root_secret``: how it is reached."""

    @classmethod
    def name(cls) -> str:
        """What to ask Spark for."""
        return NAME

    def schema(self) -> str:
        """Parts of streams."""
        return SCHEMA

    def streamWriter(self, schema: StructType, overwrite: bool) -> DatasetsWriter:  # noqa: ARG002, N802 - Spark's name
        """One for all datasets."""
        return DatasetsWriter(dict(self.options))


class DatasetsWriter(DataSourceStreamArrowWriter):
    """Of one query."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Parts:
        """Where a task runs: events become rows, rows become files."""
        warehouse = Warehouse.of(self._options)
        declared = {one.id: one for one in warehouse.all()}
        parts: dict[str, Part] = {}
        for batch in iterator:
            for row in batch.to_pylist():
                one = declared.get(row["feed"])
                if one is None:  # the dataset is gone, and its rows with it
                    continue
                gaps = list(zip(row["gaps"][::2], row["gaps"][1::2], strict=True))
                block = Block(row["stream"], row["first"], row["end"], row["batch"], gaps)
                _write(warehouse, one, block, parts.setdefault(one.id, Part()))
        return Parts(parts)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """In the driver, when all tasks are done; again after a crash, so it looks at what is stored."""
        warehouse = Warehouse.of(self._options)
        merged: dict[str, Part] = {}
        for message in messages:
            for feed, part in message.parts.items() if isinstance(message, Parts) else ():
                into = merged.setdefault(feed, Part())
                into.rows += part.rows
                into.aside += part.aside
                for stream, end in part.ends.items():
                    into.ends[stream] = max(end, into.ends.get(stream, 0))
        declared = {one.id: one for one in warehouse.all()}
        for feed, part in merged.items():
            commit_part(warehouse, declared[feed], part)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was written is in no table: it is removed as what nobody needs."""


def _write(warehouse: Warehouse, declared: Declared, block: Block, part: Part) -> None:
    rows, aside = rows_of(declared, block)
    part.ends[block.stream] = max(block.end, part.ends.get(block.stream, 0))
    if len(rows):
        part.rows += write_files(warehouse.table(declared, "changes" if declared.key else "rows"), rows)
    if len(aside):
        part.aside += write_files(warehouse.table(declared, "aside"), aside)


def commit_part(warehouse: Warehouse, declared: Declared, part: Part) -> None:
    """Into each table of a dataset, once, the rows last: who sees them sees what was set aside with them."""
    warehouse.note_streams(declared, part.ends)
    rows, changes, aside = (warehouse.table(declared, name) for name in ("rows", "changes", "aside"))
    if part.aside:
        append_files(aside, ASIDE, part.aside, part.ends)
    if declared.key:
        append_files(changes, schema_of(declared), part.rows, part.ends)
        upsert_files(rows, changes, part.rows, declared.key, part.ends)
    else:
        append_files(rows, schema_of(declared), part.rows, part.ends)
    if is_due(rows):
        for path in (rows, aside, *([changes] if declared.key else [])):
            tidy(path, retain_days=declared.retain_days, now=datetime.now(UTC))


def create_tables(warehouse: Warehouse, declared: Declared) -> None:
    """Those of a new dataset."""
    schema = schema_of(declared)
    if declared.feed is None:
        create_table(warehouse.table(declared, "rows"), schema)
        return
    create_table(warehouse.table(declared, "aside"), ASIDE)
    if declared.key:
        create_table(warehouse.table(declared, "changes"), schema)
        schema = pa.schema([one for one in schema if one.name != "tw_day"])
    create_table(warehouse.table(declared, "rows"), schema)


def stored(warehouse: Warehouse) -> Offsets:
    """How far every feed is stored, as its tables know it."""
    return {one.id: stored_of(warehouse, one) for one in warehouse.all() if one.feed is not None}


def stored_of(warehouse: Warehouse, declared: Declared) -> dict[str, int]:
    """How far one feed is stored."""
    return stored_ends(open_table(warehouse.table(declared, "rows")), warehouse.streams(declared))
