"""What is stored in the data cluster? Datasets: their columns, their types, their keys, and about how many rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

import msgspec

from tidewire.model.errors import BadConfiguration, UnknownName, UnsupportedType
from tidewire.model.names import refuse_bad_name
from tidewire.model.values import INT64_MAX, INT64_MIN, Timestamp, Value

COLUMNS_MAX: Final = 256
ROWS_GUESSED: Final = 1000


class ColumnType(StrEnum):
    """What a column holds, by the name that Spark has for it."""

    BOOLEAN = "boolean"
    BIGINT = "bigint"
    DOUBLE = "double"
    STRING = "string"
    TIMESTAMP = "timestamp"
    BINARY = "binary"

    @property
    def is_number(self) -> bool:
        """Can it be calculated with?"""
        return self in (ColumnType.BIGINT, ColumnType.DOUBLE)


TYPE_NAMES: Final[Mapping[str, ColumnType]] = {
    "boolean": ColumnType.BOOLEAN,
    "tinyint": ColumnType.BIGINT,
    "smallint": ColumnType.BIGINT,
    "int": ColumnType.BIGINT,
    "integer": ColumnType.BIGINT,
    "bigint": ColumnType.BIGINT,
    "long": ColumnType.BIGINT,
    "float": ColumnType.DOUBLE,
    "double": ColumnType.DOUBLE,
    "string": ColumnType.STRING,
    "varchar": ColumnType.STRING,
    "timestamp": ColumnType.TIMESTAMP,
    "binary": ColumnType.BINARY,
}
"""The names under which a type may be asked for. Integers are 64 bits wide, as in events."""

_HOLDS: Final[Mapping[ColumnType, tuple[type, ...]]] = {
    ColumnType.BOOLEAN: (bool,),
    ColumnType.BIGINT: (int,),
    ColumnType.DOUBLE: (float, int),
    ColumnType.STRING: (str,),
    ColumnType.TIMESTAMP: (Timestamp,),
    ColumnType.BINARY: (bytes,),
}

Cell = Value | None
"""What a row has in a column; None where it has nothing."""

Row = Mapping[str, Cell]


class Column(msgspec.Struct, frozen=True):
    """A name and what is under it. Parameters of a channel are columns too: of the table of its subscriptions."""

    name: str
    type: ColumnType


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under one name: fed from a stream of events, or loaded."""

    name: str
    columns: tuple[Column, ...]
    is_feed: bool = False
    """Do rows come in as events are published? Only such a dataset can drive a channel."""

    key: tuple[str, ...] = ()
    """With a key, a new row replaces the one with the same key: there is one row for each."""

    rows: int = ROWS_GUESSED
    """About how many there are; of a feed without a key, how many are kept."""

    def column(self, name: str) -> Column | None:
        """The column of this name, if there is one."""
        return next((column for column in self.columns if column.name == name), None)


class Catalog:
    """The datasets that a query can name."""

    def __init__(self, datasets: Iterable[Dataset] = ()) -> None:
        self._datasets: dict[str, Dataset] = {}
        for dataset in datasets:
            self.add(dataset)

    def __iter__(self) -> Iterator[Dataset]:
        return iter(self._datasets.values())

    def add(self, dataset: Dataset) -> None:
        """One more; BadConfiguration if it cannot be right, or its name is taken."""
        flaw = _flaw_of(dataset)
        if flaw is None and dataset.name in self._datasets:
            flaw = "there is one of this name already"
        if flaw is not None:
            raise BadConfiguration(f"dataset {dataset.name!r}: {flaw}")
        self._datasets[dataset.name] = dataset

    def dataset(self, name: str) -> Dataset:
        """The dataset of this name; UnknownName if there is none."""
        found = self._datasets.get(name)
        if found is None:
            raise UnknownName(name, what="dataset", known=self._datasets)
        return found


def _flaw_of(dataset: Dataset) -> str | None:
    """What keeps it from being a dataset; None if it is one."""
    if not dataset.name or not dataset.columns:
        return "it needs a name and at least one column"
    if len(dataset.columns) > COLUMNS_MAX:
        return f"it has {len(dataset.columns)} columns; at most {COLUMNS_MAX} are allowed"
    names: dict[str, str] = {}
    for column in dataset.columns:
        refuse_bad_name(column.name)
        other = names.setdefault(column.name.lower(), column.name)
        if other is not column.name:
            return f"the columns {other!r} and {column.name!r} differ in case at most; Spark takes them for one"
    missing = [name for name in dataset.key if dataset.column(name) is None]
    if missing:
        return f"its key {missing[0]!r} is no column of it"
    return None


def cell_of(column: Column, value: object) -> Cell:
    """The value as this column holds it. What is missing, and NaN, is nothing; UnsupportedType if it does not fit."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    fits = isinstance(value, _HOLDS[column.type]) and (isinstance(value, bool) is (column.type is ColumnType.BOOLEAN))
    if not fits or (isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX):
        raise UnsupportedType(f"{column.name} is a {column.type}: {shown_cell(value)} does not fit")
    if column.type is ColumnType.DOUBLE:
        return float(value) + 0.0  # type: ignore[arg-type]  # of the two zeros, one
    return value  # type: ignore[return-value]


def shown_cell(value: object) -> str:
    """A value for people, short."""
    text = str(value) if isinstance(value, Timestamp) else repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def similar(name: str, known: Iterable[str]) -> str:
    """What was probably meant, as the end of a sentence."""
    names = list(known)
    lower = {one.lower(): one for one in names}
    close = [lower[found] for found in get_close_matches(name.lower(), lower, n=1, cutoff=0.6)]
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are: {', '.join(names[:20])}" if names else ""
