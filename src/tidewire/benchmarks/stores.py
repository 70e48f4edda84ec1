"""Stores of events in the same clothes: our log, and what well-kept libraries give.

Each keeps events by tick, commits a group so that it survives a loss of power, and reads everything back in order. The
libraries are wheels that are unpacked into a folder, never installed; SQLite is Python's own.
"""

from __future__ import annotations

import importlib
import os
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

from tidewire._kernel._native import Log, PosixFiles, join_events
from tidewire.benchmarks.unpack import unpack_wheel
from tidewire.model.errors import Unavailable

CACHE: Final = Path(".cache/stores")
_EVERYTHING: Final = 2**63
_PIECE_BYTES: Final = 1 << 20
_MAP_BYTES: Final = 16 << 30


class EventStore(ABC):
    """Opened on an empty folder."""

    name: ClassVar[str]
    promise: ClassVar[str]
    """What has happened when a commit returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.next_tick = 1

    requirement: ClassVar[str] = ""
    """The wheel that it needs, name==version, and the hashes of its files; none: it is there."""
    hashes: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def fetch(cls, cache: Path = CACHE) -> None:
        """Get what it needs; Unavailable with the reason if that cannot be."""
        if not cls.requirement:
            return
        place = cache.resolve() / f"{cls.name}-{sys.implementation.cache_tag}"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=place.parent) as folder:
                fresh = Path(folder) / cls.name
                fresh.mkdir()
                unpack_wheel(fresh, cls.requirement, cls.hashes)
                fresh.rename(place)
        if str(place) not in sys.path:
            sys.path.append(str(place))

    def _library(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError as problem:
            raise Unavailable(f"{self.name}: {problem}") from problem

    @property
    def version(self) -> str:
        """Of the library."""
        return self.requirement.partition("==")[2]

    @abstractmethod
    def commit(self, events: Sequence[bytes]) -> None:
        """These events, one behind the other, durable when it returns."""

    @abstractmethod
    def read_all(self) -> int:
        """Reads every event in order; how many."""

    @abstractmethod
    def close(self) -> None:
        """Nothing is open any more."""

    def _ticks(self, count: int) -> range:
        ticks = range(self.next_tick, self.next_tick + count)
        self.next_tick = ticks.stop
        return ticks


class SegmentLog(EventStore):
    """Ours."""

    name = "tidewire"
    promise = "one write and one fdatasync in a file that is filled beforehand"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._log = Log(PosixFiles(str(folder / "log")))
        self._log.start()
        self._joined: tuple[Sequence[bytes], bytes] = ((), b"")

    @property
    def version(self) -> str:
        import tidewire

        return tidewire.__version__

    def commit(self, events: Sequence[bytes]) -> None:
        if events is not self._joined[0]:  # a broker has its events in such batches already
            self._joined = (events, join_events(list(events)))
        ticks = self._ticks(len(events))
        done = self._log.append_batch(1, ticks.start, 1, ticks.start, 0, 0, self._joined[1])
        while done < len(events):  # the next segment is not ready yet
            self._log.commit()
            left = join_events(list(events[done:]))
            done += self._log.append_batch(1, ticks.start + done, 1, ticks.start + done, 0, 0, left)
        if not self._log.commit():
            raise Unavailable(self._log.trouble_text)
        self._log.take()

    def read_all(self) -> int:
        at, count = 1, 0
        while at < self.next_tick:
            records, lost, following = self._log.read_batch(1, at, _EVERYTHING, _PIECE_BYTES)
            assert records
            assert not lost
            count += following - at
            at = following
        return count

    def close(self) -> None:
        self._log.close()


class Rocks(EventStore):
    """RocksDB through rocksdict: a batch of writes with sync."""

    name = "rocksdb"
    promise = "WriteBatch with sync=true: the write-ahead log is fdatasynced"
    requirement = "rocksdict==0.3.29"
    hashes = (
        "63ebb60cde75a872c24b96837a9a373c68db229016a9284132ef06e0ee82d477",  # x86_64: 3.11, 3.12, 3.13, 3.14
        "36d336d9d796d08923badb2df778365676cd5a66b4762ffc2d0b952dfca8b276",
        "a9f1589664b138d92dfbd709714509c339dbacb096dc708b5cd1245f823ede58",
        "cb5f0a75a4d490822a4f09a76bc1fee24979c0ae04e0efb2a83aeb8f37457ef9",
        "f595d5438490450e2c6f797da491005e77c862f441ca2c4ed7346db6487a2983",  # aarch64
        "bec97acb9ac9797f26ecd75d25a3523c571907960c381c9dcab606979ac9c1c2",
        "b286433f9ffbd7dbcc274f331f7e0ba5556f797fd9b3bcad46d2b42c4042066d",
        "8bd5e4e3863f61e6f6537f6419e20f5d76051e72553a49353fbdc8c81ead0399",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._rocks = self._library("rocksdict")
        options = self._rocks.Options(raw_mode=True)
        options.create_if_missing(True)
        self._base = self._rocks.Rdict(str(folder / "rocks"), options=options)
        self._sync = self._rocks.WriteOptions()
        self._sync.sync = True

    def commit(self, events: Sequence[bytes]) -> None:
        batch = self._rocks.WriteBatch(raw_mode=True)
        for tick, event in zip(self._ticks(len(events)), events, strict=True):
            batch.put(tick.to_bytes(8, "big"), event)
        self._base.write(batch, self._sync)

    def read_all(self) -> int:
        return sum(1 for _ in self._base.items())

    def close(self) -> None:
        self._base.close()


class Lmdb(EventStore):
    """LMDB: one transaction for a group."""

    name = "lmdb"
    promise = "a transaction with sync: pages, then the meta page, each fdatasynced"
    requirement = "lmdb==3.0.0"
    hashes = (
        "5d66373b7ce51e8362ca677dfd6cf6b252fc6d64d8cf354b0aca1dd3b5c5bf8f",  # x86_64: 3.11, 3.12, 3.13, 3.14
        "99dab02837f6254cc045d95cc5df721a2e5c07a6fcf08826d47328e553adcf8e",
        "169bf3966a529beeb1b5fcaada312e6cf50a71e0f1548166da9f1c087695b588",
        "3e7b803b40ea4c3cb0fa4bc331cf8c44c7d79f91c27e92609a8e90d2bd2f25f6",
        "86d1f9c0194f60fa67a1782c89903d63b6ba11dafcc357a1eb794b8e616559f3",  # aarch64
        "9d97a9d2349941b89d8ddb054c4a9e5a8e398009e2e838ae1d6f35b858db4fb8",
        "5badcac838f9ce06601de42d02db7d9bed9276e2d99046074304d8eda72b7700",
        "f8f515911ea712a5a0ae0a51e331dcb5ab2265f355b89d328183fd257fdb9bc4",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._base = self._library("lmdb").open(str(folder / "lmdb"), map_size=_MAP_BYTES)

    def commit(self, events: Sequence[bytes]) -> None:
        items = [(tick.to_bytes(8, "big"), event) for tick, event in zip(self._ticks(len(events)), events, strict=True)]
        with self._base.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(items, append=True)

    def read_all(self) -> int:
        with self._base.begin() as transaction, transaction.cursor() as cursor:
            return sum(1 for _ in cursor.iternext())

    def close(self) -> None:
        self._base.close()


class Sqlite(EventStore):
    """SQLite with a write-ahead log."""

    name = "sqlite"
    promise = "WAL with synchronous=FULL: the log is fdatasynced at each transaction"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._base = sqlite3.connect(folder / "sqlite", isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._base.execute(f"PRAGMA {pragma}")
        self._base.execute("CREATE TABLE events (tick INTEGER PRIMARY KEY, event BLOB)")

    @property
    def version(self) -> str:
        return sqlite3.sqlite_version

    def commit(self, events: Sequence[bytes]) -> None:
        self._base.execute("BEGIN")
        rows = zip(self._ticks(len(events)), events, strict=True)
        self._base.executemany("INSERT INTO events VALUES (?, ?)", rows)
        self._base.execute("COMMIT")

    def read_all(self) -> int:
        return sum(1 for _ in self._base.execute("SELECT tick, event FROM events ORDER BY tick"))

    def close(self) -> None:
        self._base.close()


class Disk(EventStore):
    """No store: what the disk gives, a write and an fdatasync in a file that is filled beforehand."""

    name = "disk"
    promise = "nothing can be found in it"
    _BYTES: Final = 64 << 20

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file = os.open(folder / "disk", os.O_RDWR | os.O_CREAT)
        for at in range(0, self._BYTES, _PIECE_BYTES):
            os.pwrite(self._file, bytes(_PIECE_BYTES), at)
        os.fsync(self._file)
        self._at = 0
        self._joined: tuple[Sequence[bytes], bytes] = ((), b"")

    def commit(self, events: Sequence[bytes]) -> None:
        if events is not self._joined[0]:
            self._joined = (events, b"".join(events))
        written = self._joined[1]
        if self._at + len(written) > self._BYTES:
            self._at = 0
        os.pwrite(self._file, written, self._at)
        os.fdatasync(self._file)
        self._at += len(written)
        self._ticks(len(events))

    def read_all(self) -> int:
        event_bytes = max(1, len(self._joined[1]) // max(1, len(self._joined[0])))
        left = total = min((self.next_tick - 1) * event_bytes, self._BYTES)
        while left > 0:
            left -= len(os.pread(self._file, _PIECE_BYTES, total - left))
        return total // event_bytes

    def close(self) -> None:
        os.close(self._file)


STORES: Final[dict[str, type[EventStore]]] = {store.name: store for store in (SegmentLog, Rocks, Lmdb, Sqlite, Disk)}
