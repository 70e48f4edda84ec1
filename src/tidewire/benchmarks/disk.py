"""How long the disk takes to make something durable: whoever syncs before he acknowledges waits for it."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Final

import msgspec

from tidewire.benchmarks.measure import Spread, spread
from tidewire.model.errors import UsageError

_WRITE_BYTES: Final = 4096
_SYNCS: Final = 100
_IN_MEMORY: Final = ("tmpfs", "ramfs")


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """One small write and its fdatasync, in µs, spread over the rounds."""

    file_system: str
    written_bytes: int
    overwrite_p50: Spread
    """Into a file whose blocks are there."""

    overwrite_p99: Spread
    append_p50: Spread
    """At the end of a file, which grows."""

    append_p99: Spread


class DiskProbe:
    """Asks the disk below a folder again and again."""

    def __init__(self, folder: Path) -> None:
        """UsageError if that is no disk."""
        self._file = folder / "fdatasync.probe"
        self._file_system = file_system_of(folder)
        self._quantiles: dict[str, list[float]] = {}
        if self._file_system in _IN_MEMORY:
            raise UsageError(f"{folder} is in memory ({self._file_system}): choose a folder on a disk")

    def take_turn(self) -> None:
        """Some writes of either kind."""
        try:
            self._measure("overwrite", os.O_CREAT | os.O_WRONLY, ahead=bytes(_WRITE_BYTES * _SYNCS))
            self._measure("append", os.O_TRUNC | os.O_WRONLY)
        finally:
            self._file.unlink(missing_ok=True)

    def _measure(self, kind: str, flags: int, *, ahead: bytes = b"") -> None:
        descriptor = os.open(self._file, flags, 0o600)
        try:
            os.write(descriptor, ahead)
            os.fsync(descriptor)
            os.lseek(descriptor, 0, os.SEEK_SET)
            taken = sorted(self._sync(descriptor) for _ in range(_SYNCS))
        finally:
            os.close(descriptor)
        for share in (50, 99):
            self._quantiles.setdefault(f"{kind}_p{share}", []).append(taken[_SYNCS * share // 100 - 1])

    def _sync(self, descriptor: int) -> float:
        start = perf_counter()
        os.write(descriptor, bytes(_WRITE_BYTES))
        os.fdatasync(descriptor)
        return (perf_counter() - start) * 1e6

    def found(self) -> Disk:
        """Over the turns so far."""
        quantiles = {name: spread(values) for name, values in self._quantiles.items()}
        return Disk(file_system=self._file_system, written_bytes=_WRITE_BYTES, **quantiles)


def file_system_of(folder: Path, *, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The kind of file system that a folder is on; unknown if the machine does not say."""
    if not mounts.exists():
        return "unknown"
    place, kinds = folder.resolve(), {}
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        _, where, kind, *_ = line.split()
        kinds[Path(where.replace("\\040", " "))] = kind  # of two on one place the later is seen
    return next((kinds[one] for one in (place, *place.parents) if one in kinds), "unknown")
