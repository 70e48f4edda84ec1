"""Events become rows: a block of a stream, decoded by the kernel in bulk, as Arrow has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidewire._kernel._native import read_columns
from tidewire._kernel.codec import decode
from tidewire.channels.schemas import ColumnType
from tidewire.model.ticks import COUNTER_BITS
from tidewire.spark.datasets import Declared

TIME: Final = pa.timestamp("us", tz="UTC")
DAY: Final = "tw_day"
"""What tables are partitioned by: the day on which an event was published."""

_TYPES: Final[dict[ColumnType, tuple[int, pa.DataType]]] = {
    ColumnType.BOOLEAN: (1, pa.bool_()),
    ColumnType.BIGINT: (2, pa.int64()),
    ColumnType.DOUBLE: (3, pa.float64()),
    ColumnType.STRING: (4, pa.string()),
    ColumnType.TIMESTAMP: (5, TIME),
    ColumnType.BINARY: (6, pa.binary()),
}
"""What the kernel calls it, and what Arrow does."""

_WHERE: Final = [pa.field("tw_stream", pa.string()), pa.field("tw_tick", pa.int64()), pa.field("tw_time", TIME)]
_BODY: Final = [pa.field("tw_body", pa.binary()), pa.field("tw_content_type", pa.string())]
_DAY: Final = pa.field(DAY, pa.date32())
ASIDE: Final = pa.schema(
    [
        *_WHERE,
        pa.field("tw_last", pa.int64()),
        pa.field("fault", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("attributes", pa.string()),
        pa.field("event", pa.binary()),
        _DAY,
    ]
)
"""What did not fit: where it was, the last tick if it was more than one, and what is known of it."""


def arrow_type(kind: ColumnType) -> pa.DataType:
    """What Arrow calls it."""
    return _TYPES[kind][1]


def declared_schema(declared: Declared) -> pa.Schema:
    """The columns that were declared, as Arrow has them."""
    return pa.schema([pa.field(column.name, _TYPES[column.type][1]) for column in declared.columns])


def schema_of(declared: Declared) -> pa.Schema:
    """Of the rows of a dataset; those that are fed say where they come from."""
    columns = list(declared_schema(declared))
    return pa.schema(columns if declared.feed is None else [*columns, *_WHERE, *_BODY, _DAY])


def fed_rows(declared: Declared, columns: Mapping[str, Sequence[Any]], *, stream: str, first: int) -> pa.Table:
    """Rows as they are stored of a stream's events without a body, the first of which has this tick."""
    count = len(next(iter(columns.values())))
    ticks = pa.array(range(first, first + count), pa.int64())
    time = _times(ticks)
    schema = declared_schema(declared)
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    arrays += [pa.repeat(pa.scalar(stream), count), ticks, time]
    arrays += [pa.nulls(count, pa.binary()), pa.nulls(count, pa.string()), time.cast(pa.date32())]
    return pa.Table.from_arrays(arrays, schema=schema_of(declared))


class Block(msgspec.Struct, frozen=True):
    """A part of a stream as a reader gets it."""

    stream: str
    first: int
    end: int
    batch: bytes
    gaps: list[tuple[int, int]] = []


def rows_of(declared: Declared, block: Block) -> tuple[pa.Table, pa.Table]:
    """The rows of a block, and what is set aside."""
    feed = declared.feed
    assert feed is not None, f"{declared.name} is not fed"
    names = [column.name for column in declared.columns]
    wanted = [(column.name, _TYPES[column.type][0], column.name in declared.key) for column in declared.columns]
    ticks, bodies, content_types, columns, faults = read_columns(
        block.batch,
        wanted,
        block.first,
        block.end,
        takes_others=feed.takes_others,
        time_column=-1 if feed.time is None else names.index(feed.time),
        late_us=int(feed.late_s * 1e6),
    )
    schema = schema_of(declared)
    tick = _array(ticks, pa.int64())
    time = _times(tick)
    arrays = [_array(column, field.type) for column, field in zip(columns, schema, strict=False)]
    arrays += [pa.repeat(pa.scalar(block.stream), len(tick)), tick, time]
    arrays += [_array(bodies, pa.binary()), _array(content_types, pa.string()), time.cast(pa.date32())]
    return pa.Table.from_arrays(arrays, schema=schema), _aside(block, faults)


def _array(buffers: tuple[int, int, bytes, bytes | None, bytes], kind: pa.DataType) -> pa.Array:
    rows, nulls, valid, offsets, data = buffers
    given = [pa.py_buffer(valid) if nulls else None]
    given += [] if offsets is None else [pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, rows, [*given, pa.py_buffer(data)], nulls)


def _times(ticks: pa.Array) -> pa.Array:
    ms = pc.shift_right(ticks, pa.scalar(COUNTER_BITS, pa.int64()))
    return pc.multiply(ms, pa.scalar(1000, pa.int64())).cast(TIME)


def _aside(block: Block, faults: list[tuple[int, str, str, bytes]]) -> pa.Table:
    gap = "these ticks are lost: they were released or damaged before they were read"
    found = [(tick, tick, fault, reason, _text(event), event) for tick, fault, reason, event in faults]
    found += [(first, last, "gap", gap, None, None) for first, last in block.gaps]  # type: ignore[misc]
    columns: list[Any] = list(zip(*found, strict=True)) if found else [()] * 6
    ticks = pa.array(columns[0], pa.int64())
    time = _times(ticks)
    arrays = [pa.repeat(pa.scalar(block.stream), len(ticks)), ticks, time, pa.array(columns[1], pa.int64())]
    arrays += [pa.array(column, pa.string()) for column in columns[2:5]]
    arrays += [pa.array(columns[5], pa.binary()), time.cast(pa.date32())]
    return pa.Table.from_arrays(arrays, schema=ASIDE)


def _text(event: bytes) -> str | None:
    """The attributes, for people and other tools; the event itself is beside them."""
    try:
        attributes = dict(decode(event).attributes)
    except ValueError:
        return None
    return msgspec.json.encode(attributes, enc_hook=str).decode()
