"""Delta tables: executors write files, one process commits them, once for each part of a stream.

How far each stream is stored is in the table itself, in the commit that stored it: as a transaction of the application
``stream/<stream>`` whose version is a tick. So whatever is tried again, after whatever crash, is known by the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from tidewire.model.errors import StoreDamaged
from tidewire.spark.places import Place
from tidewire.spark.rows import DAY

_STREAM: Final = "stream/"
TIDY_EVERY: Final = 100
"""After so many commits small files are put together, and those that nobody needs are removed."""
UNUSED_HOURS: Final = 24
"""A file that is in no table any more stays for so long: somebody may be reading it."""

Ends = Mapping[str, int]
"""By stream: the first tick that is not stored."""


class Written(msgspec.Struct, frozen=True):
    """A file that an executor has written, and nobody has committed."""

    path: str
    """Below the table's folder."""

    size: int
    rows: int
    day: str | None
    stats: str


def create_table(path: Place, schema: pa.Schema) -> None:
    """An empty one, partitioned by day if its rows have one."""
    path.prepare()
    partition_by = [DAY] if DAY in schema.names else None
    with told(path):
        DeltaTable.create(
            str(path), schema=schema, mode="ignore", partition_by=partition_by, storage_options=path.options
        )


def open_table(path: Place) -> DeltaTable:
    """As it stands; StoreDamaged if there is none."""
    try:
        with told(path):
            return DeltaTable(str(path), storage_options=path.options)
    except TableNotFoundError as error:
        raise StoreDamaged(f"there is no table in {path}, though its dataset is declared: {error}") from None


@contextmanager
def told(path: Place) -> Iterator[None]:
    """What a store far away says is told with whose fault it is; a table that is not there is for the caller."""
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError) as error:
        if not path.is_remote:
            raise
        from tidewire.spark.remote import explained

        raise explained(str(path), error) from None


def stored_ends(table: DeltaTable, streams: Iterable[str]) -> dict[str, int]:
    """How far each of these streams is stored in it, of those that are."""
    found = {stream: table.transaction_version(f"{_STREAM}{stream}") for stream in streams}
    return {stream: end for stream, end in found.items() if end is not None}


def write_files(path: Place, rows: pa.Table) -> list[Written]:
    """The rows as files in a table's folder, one for each day; they count when they are committed."""
    if DAY not in rows.column_names:
        return [write_file(path, rows)] if len(rows) else []
    days = pc.unique(rows[DAY]).to_pylist()
    if len(days) == 1:
        return [write_file(path, rows.drop_columns(DAY), day=days[0].isoformat())]
    parts = [(day, rows.filter(pc.equal(rows[DAY], pa.scalar(day, pa.date32())))) for day in days]
    return [write_file(path, part.drop_columns(DAY), day=day.isoformat()) for day, part in parts]


def write_file(path: Place, rows: pa.Table, *, day: str | None = None, name: str = "part") -> Written:
    """One file in a table's folder."""
    file = f"{name}-{uuid4().hex}.zstd.parquet"
    below = file if day is None else f"{DAY}={day}/{file}"
    size = (path / below).write_rows(rows)
    return Written(below, size, len(rows), day, msgspec.json.encode(_stats(rows)).decode())


def _stats(rows: pa.Table) -> dict[str, object]:
    """By which readers leave out files that they do not need."""
    least: dict[str, object] = {}
    most: dict[str, object] = {}
    for field in rows.schema:
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            found = pc.min_max(rows[field.name]).as_py()
            if found["min"] is not None and found["min"] == found["min"]:
                least[field.name], most[field.name] = found["min"], found["max"]
    nulls = {name: rows[name].null_count for name in rows.column_names}
    return {"numRecords": len(rows), "minValues": least, "maxValues": most, "nullCount": nulls}


def _transactions(ends: Ends) -> CommitProperties:
    made = [Transaction(f"{_STREAM}{stream}", end) for stream, end in ends.items()]
    return CommitProperties(app_transactions=made)


def is_stored(table: DeltaTable, ends: Ends) -> bool:
    """Is all below these ticks in it already?"""
    known = stored_ends(table, ends)
    return all(known.get(stream, 0) >= end for stream, end in ends.items())


def append_files(path: Place, schema: pa.Schema, files: Iterable[Written], ends: Ends) -> bool:
    """Commit files, with how far the streams are stored by that; false if that had been done before."""
    table = open_table(path)
    if is_stored(table, ends):
        return False
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    actions: list[AddAction | RemoveAction] = [
        AddAction(file.path, file.size, {} if file.day is None else {DAY: file.day}, now_ms, True, file.stats)
        for file in files
    ]
    partition_by = [DAY] if DAY in schema.names else None
    table.create_write_transaction(
        actions, "append", table.schema(), partition_by=partition_by, commit_properties=_transactions(ends)
    )
    return True


def upsert_files(path: Place, changes: Place, files: Iterable[Written], key: tuple[str, ...], ends: Ends) -> bool:
    """The last row of each key in these files takes the place of the one that is there, unless that is newer."""
    table = open_table(path)
    if is_stored(table, ends):
        return False
    found = [(changes / file.path).read_rows() for file in files]
    if not found:
        table.create_write_transaction([], "append", table.schema(), commit_properties=_transactions(ends))
        return True
    rows = last_of_each(pa.concat_tables(found), key)
    same = " and ".join(f"stored.`{name}` = came.`{name}`" for name in key)
    newer = "came.tw_tick > stored.tw_tick or (came.tw_tick = stored.tw_tick and came.tw_stream >= stored.tw_stream)"
    (
        table.merge(
            rows, predicate=same, source_alias="came", target_alias="stored", commit_properties=_transactions(ends)
        )
        .when_matched_update_all(predicate=newer)
        .when_not_matched_insert_all()
        .execute()
    )
    return True


def last_of_each(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Of the rows of each key the one that was published last."""
    order = [(name, "ascending") for name in (*key, "tw_tick", "tw_stream")]
    return last_rows(rows.take(pc.sort_indices(rows, sort_keys=order)), key)


def last_rows(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Of the rows of each key the one that stands last."""
    at = pa.table({"at": pa.array(range(len(rows)), pa.int64()), **{name: rows[name] for name in key}})
    last = at.group_by(list(key)).aggregate([("at", "max")])["at_max"].combine_chunks()
    return rows.take(last.sort())


def tidy(path: Place, *, retain_days: float | None, now: datetime) -> None:
    """Old rows go, small files are put together, and what nobody needs any more is removed."""
    table = open_table(path)
    if retain_days is not None:
        until = now - timedelta(days=retain_days)
        if any(field.name == DAY for field in table.schema().fields):
            table.delete(f"{DAY} < '{until.date().isoformat()}'")
        else:
            table.delete(f"tw_time < '{until.strftime('%Y-%m-%dT%H:%M:%SZ')}'")
    table.optimize.compact()
    table.vacuum(retention_hours=UNUSED_HOURS, dry_run=False, enforce_retention_duration=False)


def is_due(path: Place) -> bool:
    """Is it time to tidy up?"""
    return open_table(path).version() % TIDY_EVERY == 0
