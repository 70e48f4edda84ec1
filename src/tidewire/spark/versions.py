"""What has come into a table, version by version? Read from its log, so that only what is new is looked at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from tidewire.model.errors import StoreDamaged
from tidewire.spark.datasets import Declared, Warehouse
from tidewire.spark.jobs import Piece, Standing
from tidewire.spark.places import Place
from tidewire.spark.tables import open_table

PIECE_ROWS_MAX: Final = 20_000
"""What one task matches at a time."""
FILES_MAX: Final = 64
"""So many files may be behind the version of which all files are known."""


class _File(msgspec.Struct, rename="camel"):
    path: str
    data_change: bool = True
    stats: str | None = None


class _Action(msgspec.Struct):
    add: _File | None = None
    remove: _File | None = None


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int


class Version(msgspec.Struct, frozen=True):
    """One commit of a table."""

    number: int
    added: tuple[tuple[str, int], ...]
    """Files with new rows, and how many those are."""

    has_removed: bool
    """Are rows gone?"""


class TableLog:
    """The log of one table."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self._log = path / "_delta_log"
        self._last = open_table(path).version()

    def last(self) -> int:
        """The present version: asked often, so it costs one look at the folder."""
        while self._file(self._last + 1).exists():
            self._last += 1
        return self._last

    def between(self, after: int, upto: int) -> Iterator[Version]:
        """The versions behind one and up to another; StoreDamaged if one of them is no longer known."""
        for number in range(after + 1, upto + 1):
            try:
                lines = self._file(number).read().splitlines()
                actions = [msgspec.json.decode(line, type=_Action) for line in lines if line]
            except (OSError, msgspec.DecodeError) as error:
                raise StoreDamaged(f"version {number} of {self._path} cannot be read: {error}") from None
            added = [one.add for one in actions if one.add is not None and one.add.data_change]
            removed = any(one.remove is not None and one.remove.data_change for one in actions)
            yield Version(number, tuple(self._sized(file) for file in added), removed)

    def _file(self, number: int) -> Place:
        return self._log / f"{number:020d}.json"

    def _sized(self, file: _File) -> tuple[str, int]:
        path = self._path.inside(file.path)
        if file.stats is not None:
            return path, msgspec.json.decode(file.stats, type=_Stats).num_records
        return path, self._path.at(path).count_rows()


def pieces_of(log: TableLog, *, after: int, upto: int) -> tuple[Piece, ...]:
    """The new rows of a feed, for tasks."""
    return tuple(
        Piece(path, version.number, first, min(PIECE_ROWS_MAX, rows - first))
        for version in log.between(after, upto)
        for path, rows in version.added
        for first in range(0, rows, PIECE_ROWS_MAX)
    )


def driving_table(warehouse: Warehouse, declared: Declared) -> Place:
    """The table that every row comes into: one that is loaded has no other."""
    return warehouse.table(declared, "changes" if declared.key and declared.feed is not None else "rows")


class Present:
    """The rows of a dataset as they stand, run after run.

    With a key and a feed there are two tables: the current rows, and every change. A change comes into the second one,
    then into the first one, and only then the next. So the rows have all changes but perhaps the last one, and none
    that comes after they are looked at: with the changes between they are one version. Rows that are in both do no
    harm, because of equal keys the newest counts.
    """

    def __init__(self, warehouse: Warehouse, declared: Declared) -> None:
        self._declared = declared
        self._rows = warehouse.table(declared, "rows")
        self._log = TableLog(driving_table(warehouse, declared))
        self._base = -1
        self._files: tuple[str, ...] = ()
        self._more: deque[tuple[int, str]] = deque()
        self._floor = -1
        self._version = -1
        self._has_changes = bool(declared.key) and declared.feed is not None

    def standing(self, columns: dict[str, None]) -> Standing:
        """With these columns, and those that tell which row is the current one."""
        version = self._log.last()
        if self._base < 0:
            self._begin(version)
        elif version > self._version:
            self._go_on(version)
        own = ("tw_stream", "tw_tick") if self._has_changes else ()
        return Standing(
            columns=tuple(dict.fromkeys([*columns, *self._declared.key, *own])),
            key=self._declared.key if self._declared.feed is not None else (),
            version=self._version,
            base=self._base,
            files=self._files,
            more=tuple(self._more),
            floor=self._floor,
        )

    def _begin(self, version: int) -> None:
        table = open_table(self._rows)
        self._version = self._base = version
        if not self._has_changes:
            table.load_as_version(version)  # it may have grown meanwhile
        self._files = tuple(map(self._rows.inside, table.file_uris()))
        if self._has_changes:
            self._base = version - 1
            self._version = self._log.last()
            known = self._more[-1][0] if self._more else self._base
            self._more.extend(self._changes(max(known, self._base), self._version))

    def _changes(self, after: int, upto: int) -> Iterator[tuple[int, str]]:
        return ((one.number, path) for one in self._log.between(after, upto) for path, _ in one.added)

    def _go_on(self, version: int) -> None:
        found = list(self._log.between(self._version, version))
        if self._declared.feed is None or any(one.has_removed for one in found):
            self._more.clear()
            self._begin(version)
            self._floor = version
            return
        self._version = version
        self._more.extend((one.number, path) for one in found for path, _ in one.added)
        if sum(number > self._base for number, _ in self._more) > FILES_MAX:
            self._begin(version)
        while len(self._more) > 2 * FILES_MAX:
            self._floor = self._more.popleft()[0]
