"""Where are the tables, and how are they reached? A folder of this machine, or a place in a store that others reach.

Whoever reads or writes them, here or where a task of Spark runs, does it through a `Place`. A remote one is reached by
Arrow's file systems, and its tables by delta-rs, with the same options.
"""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import get_ident
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tidewire.model.errors import BadConfiguration

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~@:/=-]*")
_SAME: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
"""Spark's other names."""
REMOTE: Final = ("s3", "abfss", "gs", "hdfs")
KNOWN: Final = "a folder, file:///folder, s3://bucket/path, abfss://container@account.dfs.core.windows.net/path, "
"""What can be written, for people."""


class Place(ABC):
    """A file or a folder, somewhere."""

    @abstractmethod
    def __truediv__(self, name: str) -> Place:
        """One below."""

    @abstractmethod
    def at(self, text: str) -> Place:
        """One of the same store, by what `str` makes of it."""

    @abstractmethod
    def inside(self, uri: str) -> str:
        """A file of the table that is here, as the table names it, for `at`."""

    @property
    @abstractmethod
    def options(self) -> dict[str, str] | None:
        """How delta-rs reaches it."""

    @property
    @abstractmethod
    def is_remote(self) -> bool:
        """Does looking there take time?"""

    @abstractmethod
    def prepare(self) -> None:
        """It can be written to, as a folder."""

    @abstractmethod
    def exists(self) -> bool:
        """Is there a file?"""

    @abstractmethod
    def names(self) -> list[str]:
        """What is in a folder, in order; nothing, if there is none."""

    @abstractmethod
    def read(self) -> bytes:
        """A file; FileNotFoundError if there is none."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """A file, in place of what was there: all of it or nothing, and there for good when this returns."""

    @abstractmethod
    def create(self, data: bytes) -> bool:
        """The same, if nobody has created it: one of several who try at once succeeds."""

    @abstractmethod
    def delete(self) -> None:
        """No file, whether there was one or not."""

    @abstractmethod
    def delete_all(self) -> None:
        """A folder, with all that is in it; as much of it as can be deleted."""

    @abstractmethod
    def read_rows(self, columns: Sequence[str] | None = None) -> pa.Table:
        """A Parquet file."""

    @abstractmethod
    def count_rows(self) -> int:
        """Of a Parquet file, without reading them."""

    @abstractmethod
    def write_rows(self, rows: pa.Table) -> int:
        """A new Parquet file; its size."""

    @abstractmethod
    def read_arrow(self) -> pa.Table:
        """A file of Arrow's."""

    @abstractmethod
    def write_arrow(self, rows: pa.Table) -> None:
        """A new one, which need not outlive this process."""


class Folder(Place):
    """On this machine, or on a disk that all machines share."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Folder:
        return Folder(self.path / name)

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Folder({str(self.path)!r})"

    def at(self, text: str) -> Folder:
        """By its path."""
        return Folder(Path(text))

    def inside(self, uri: str) -> str:
        """Tables name files of theirs with escapes."""
        return str(self.path / unquote(uri))

    @property
    def options(self) -> dict[str, str] | None:
        """None are needed."""
        return None

    @property
    def is_remote(self) -> bool:
        """It is near."""
        return False

    def prepare(self) -> None:
        """With those above it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadConfiguration(
                f"{self.path}: the folder cannot be made ({error.strerror}): give one that may be written"
            ) from None

    def exists(self) -> bool:
        """One look."""
        return self.path.exists()

    def names(self) -> list[str]:
        """By name."""
        try:
            return sorted(one.name for one in self.path.iterdir())
        except FileNotFoundError:
            return []

    def read(self) -> bytes:
        """Whole."""
        return self.path.read_bytes()

    def write(self, data: bytes) -> None:
        """Beside it first."""
        self._written(data).replace(self.path)

    def create(self, data: bytes) -> bool:
        """A link is made once."""
        written = self._written(data)
        try:
            os.link(written, self.path)
        except FileExistsError:
            return False
        finally:
            written.unlink()
        return True

    def _written(self, data: bytes) -> Path:
        """On the disk, before anybody is told."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.with_name(f".{self.path.name}.{os.getpid()}.{get_ident()}")
        with file.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        return file

    def delete(self) -> None:
        """The file alone."""
        self.path.unlink(missing_ok=True)

    def delete_all(self) -> None:
        """The tree."""
        shutil.rmtree(self.path, ignore_errors=True)

    def read_rows(self, columns: Sequence[str] | None = None) -> pa.Table:
        """As Arrow reads files."""
        return pq.read_table(self.path, columns=None if columns is None else list(columns), partitioning=None)

    def count_rows(self) -> int:
        """From its end."""
        return int(pq.ParquetFile(self.path).metadata.num_rows)

    def write_rows(self, rows: pa.Table) -> int:
        """Fast rather than small."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, self.path, **HOW)
        return self.path.stat().st_size

    def read_arrow(self) -> pa.Table:
        """Whole."""
        with pa.OSFile(str(self.path)) as file:
            return pa.ipc.open_file(file).read_all()

    def write_arrow(self, rows: pa.Table) -> None:
        """Whole."""
        with pa.OSFile(str(self.path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)


HOW: Final[Mapping[str, Any]] = {"compression": "zstd", "compression_level": 1}
"""Parquet files are written so."""


def arrow_bytes(rows: pa.Table) -> bytes:
    """As `read_arrow` reads it."""
    into = pa.BufferOutputStream()
    with pa.ipc.new_file(into, rows.schema) as writer:
        writer.write_table(rows)
    found: bytes = into.getvalue().to_pybytes()
    return found


def here() -> Place:
    """Where paths are paths of this machine."""
    return Folder(Path("/"))


def place_of(where: str | Path | Place, options: Mapping[str, str] | None = None) -> Place:
    """A folder, or what a URL says; BadConfiguration says what is wrong with it.

    ``options``: how stores are reached, as variables of the environment say it.
    """
    if isinstance(where, Place):
        return where
    found = None if isinstance(where, Path) else _SCHEME.match(where)
    if found is None:
        return _folder(Path(where))
    scheme = found[1].lower()
    if scheme == "file":
        return _folder(_of_file_url(str(where)))
    scheme = _SAME.get(scheme, scheme)
    if scheme not in REMOTE:
        raise BadConfiguration(f"{where}: tables are in {KNOWN}gs://bucket/path or hdfs://host:port/path")
    from tidewire.spark.remote import Remote, refuse_clear

    url = f"{scheme}:{_checked(str(where), found.end())}"
    refuse_clear(url, options or {})
    return Remote(url, options or {})


def _folder(path: Path) -> Folder:
    if path.exists() and not path.is_dir():
        raise BadConfiguration(f"{path} is no folder: give the one that has the tables, or is to have them")
    return Folder(path)


def _of_file_url(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise BadConfiguration(f"{url}: a folder of this machine is file:///folder, from the root on")
    return Path(unquote(parts.path))


def _checked(url: str, begin: int) -> str:
    """What is behind the scheme, without a slash at its end."""
    rest = url[begin:]
    authority = rest[2:].partition("/")[0]
    if not rest.startswith("//") or (not authority and url[:begin].lower() != "hdfs:"):
        raise BadConfiguration(f"{url}: write it in full: {url[:begin]}//bucket/path")
    if authority.count(":") > 1 or ("@" in authority and ":" in authority.partition("@")[0]):
        raise BadConfiguration(
            f"{url[:begin]}//...: keys do not belong into a URL, which everybody sees in the list of processes: set"
            " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what the store has instead, in the environment"
        )
    if _PLAIN.fullmatch(rest) is None:
        raise BadConfiguration(f"{url}: write it with letters, digits and . _ ~ = - /; options are in the environment")
    return rest.rstrip("/")


def encoded(place: Place) -> tuple[str, str]:
    """Two texts for Spark's options: where it is, and how it is reached, which is secret."""
    where = str(place.path.resolve() if isinstance(place, Folder) else place)
    return where, msgspec.json.encode(place.options or {}).decode()


def decoded(where: str, secret: str) -> Place:
    """What `encoded` made."""
    return place_of(where, msgspec.json.decode(secret, type=dict[str, str]))
