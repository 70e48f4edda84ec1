"""Files that their owner alone can read, changed by one process at a time, and never half."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Final

from tidewire.model.errors import BadConfiguration

LOCK: Final = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else changes what is in the folder meanwhile: what is read here is still so when it is written."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadConfiguration(f"nothing can be changed in {folder}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def write_secret(file: Path, data: bytes) -> None:
    """For nobody but us to read, from its first moment; in place of what was there."""
    with staged(file, data) as put:
        put()


@contextmanager
def staged(file: Path, data: bytes) -> Iterator[Callable[[], None]]:
    """The file, written and safe, beside its place: call what comes to put it there. Else it is gone at the end.

    BadConfiguration if it cannot be written there.
    """
    try:
        fresh = _written(file, data)
    except OSError as error:
        raise _unwritable(file, error) from None
    try:
        yield lambda: _put(fresh, file)
    finally:
        with suppress(FileNotFoundError):
            fresh.unlink()


def _written(file: Path, data: bytes) -> Path:
    if file.is_dir():
        raise IsADirectoryError(0, "it is a folder")
    if not file.parent.is_dir():
        raise NotADirectoryError(0, f"there is no folder {file.parent}")
    descriptor, name = mkstemp(prefix=f".{file.name}.", dir=file.parent)  # a name of its own, mode 600
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    return Path(name)


def _put(fresh: Path, file: Path) -> None:
    try:
        fresh.replace(file)
    except OSError as error:
        raise _unwritable(file, error) from None


def _unwritable(file: Path, error: OSError) -> BadConfiguration:
    return BadConfiguration(f"{file} cannot be written: {error.strerror}")
