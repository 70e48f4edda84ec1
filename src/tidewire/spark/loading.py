"""Reference data in bulk: files of rows, whole, into a dataset that is not fed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.json
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError

from tidewire.model.errors import BadConfiguration, StoreFailed, TidewireError, UsageError
from tidewire.spark.datasets import Declared, Warehouse
from tidewire.spark.places import Place
from tidewire.spark.rows import declared_schema
from tidewire.spark.tables import last_rows, open_table, told

FORMATS: Final = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}


def load(warehouse: Warehouse, declared: Declared, file: Path, *, replace: bool) -> int:
    """Add the rows of a file to a dataset, or put them in place of all others; how many? All of them, or none.

    With a key the last row of each counts, as of events.
    """
    if declared.feed is not None:
        raise UsageError(f"dataset {declared.name!r} is fed by events: publish them, or load into one without a feed")
    schema = declared_schema(declared)
    counted = _Counted(declared, read_rows(file, schema))
    reader = pa.RecordBatchReader.from_batches(schema, iter(counted))
    try:
        with told(table := warehouse.table(declared, "rows")):
            stored = _store(table, declared, reader, replace=replace)
    except (DeltaError, pa.ArrowException, TidewireError) as error:
        explained = error if isinstance(error, TidewireError) else None
        failed = explained or StoreFailed(f"dataset {declared.name!r} cannot be written: {error}")
        raise counted.error or failed from None
    return counted.rows if stored is None else stored


def _store(path: Place, declared: Declared, reader: pa.RecordBatchReader, *, replace: bool) -> int | None:
    """How many rows there were to store; None: all that came."""
    rows: pa.RecordBatchReader | pa.Table = reader
    if declared.key:
        rows = last_rows(reader.read_all(), declared.key)
        if not replace:
            _upsert(path, declared, rows)
            return len(rows)
    mode: Literal["overwrite", "append"] = "overwrite" if replace else "append"
    write_deltalake(str(path), rows, mode=mode, storage_options=path.options)
    return len(rows) if isinstance(rows, pa.Table) else None


class _Counted:
    """Batches as they pass; what is wrong with them is kept, because who writes them says it in other words."""

    def __init__(self, declared: Declared, batches: Iterator[pa.RecordBatch]) -> None:
        self.rows = 0
        self.error: TidewireError | None = None
        self._key = declared.key
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                for name in self._key:
                    if batch[name].null_count:
                        raise UsageError(f"a row has no {name!r}, and that is the key")
                self.rows += len(batch)
                yield batch
        except TidewireError as error:
            self.error = error
            raise


def _upsert(path: Place, declared: Declared, rows: pa.Table) -> None:
    same = " and ".join(f"stored.`{name}` = came.`{name}`" for name in declared.key)
    merge = open_table(path).merge(rows, predicate=same, source_alias="came", target_alias="stored")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def read_rows(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in the columns that are wanted; UsageError says what does not fit."""
    form = FORMATS.get(file.suffix.lower())
    if form is None:
        raise BadConfiguration(f"{file}: its name ends in none of {', '.join(FORMATS)}")
    if not file.exists():
        raise BadConfiguration(f"{file}: there is no such file")
    try:
        source = _dataset(file, form, schema)
        missing = [name for name in schema.names if name not in source.schema.names]
        if missing:
            raise UsageError(f"{file} has no column {missing[0]!r}; it has {', '.join(source.schema.names)}")
        for batch in source.to_batches(columns=schema.names):
            yield pa.RecordBatch.from_arrays(
                [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)], schema=schema
            )
    except (pa.ArrowException, OSError) as error:
        said = str(error).splitlines()[0].rpartition("Invalid: ")[2]
        raise UsageError(f"{file} does not fit: {said}") from None


def _dataset(file: Path, form: str, schema: pa.Schema) -> pyarrow.dataset.Dataset:
    types = {field.name: field.type for field in schema}
    if form == "csv":
        options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        return pyarrow.dataset.dataset(str(file), format=pyarrow.dataset.CsvFileFormat(convert_options=options))
    if form == "json":
        parse = pyarrow.json.ParseOptions(explicit_schema=schema)
        return pyarrow.dataset.dataset(str(file), format=pyarrow.dataset.JsonFileFormat(parse_options=parse))
    return pyarrow.dataset.dataset(str(file), format="parquet")
