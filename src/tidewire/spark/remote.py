"""A place in a store that many machines reach: S3 and what speaks its language, Azure, Google's, HDFS.

A put is all or nothing there, but it overwrites. Where only one may succeed, the place is *claimed* by the first commit
of a table: delta-rs knows for each store how a file is written only if there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from tidewire.model.errors import BadConfiguration, NotPermitted, StoreFailed, TidewireError, Unavailable
from tidewire.spark.places import HOW, Place, arrow_bytes

CONNECT_S: Final = 5.0
TRIES: Final = 4
RETRY_S: Final = 15.0
_CLAIM: Final = ".claim"
_FIRST: Final = "_delta_log/00000000000000000000.json"
_REFUSED: Final = (
    "ACCESS_DENIED", "AccessDenied", "INVALID_ACCESS_KEY", "InvalidAccessKey", "SIGNATURE_DOES_NOT_MATCH",
    "SignatureDoesNotMatch", "Forbidden", "HTTP status 403", "Unauthorized", "HTTP status 401", "CredentialsNotLoaded",
    "AuthenticationException",
)  # fmt: skip
_NO_BUCKET: Final = ("NO_SUCH_BUCKET", "NoSuchBucket", "Bucket does not exist")
_AWAY: Final = (
    "NETWORK_CONNECTION", "curlCode", "error sending request", "resolve host", "REQUEST_TIMEOUT", "timed out",
    "connection refused", "dns error",
)  # fmt: skip
_NO_SUCH: Final = "{where}: no such bucket or container is there: create it first, or name it right"
_VARIABLES: Final = {
    "s3": "AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY",
    "abfss": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "hdfs": "HADOOP_HOME, CLASSPATH",
}

_systems: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[fs.FileSystem, str]] = {}
"""Those that this process has opened, each with the path of the root in it."""


class _Line(msgspec.Struct):
    metadata: dict[str, Any] | None = msgspec.field(default=None, name="metaData")


class _Claim(msgspec.Struct, frozen=True):
    who: str
    document: str


class Remote(Place):
    """One of a store; what is known of it travels with it, the keys too, which nobody is shown."""

    __slots__ = ("_below", "_options", "_root")

    def __init__(self, root: str, options: Mapping[str, str], below: str = "") -> None:
        self._root = root
        self._options = dict(options)
        self._below = below

    def __truediv__(self, name: str) -> Remote:
        return Remote(self._root, self._options, f"{self._below}/{name}")

    def __str__(self) -> str:
        return f"{self._root}{self._below}"

    def __repr__(self) -> str:
        return f"Remote({str(self)!r})"

    def at(self, text: str) -> Remote:
        """By its URL."""
        assert text.startswith(self._root), f"{text} is not in {self._root}"
        return Remote(self._root, self._options, text.removeprefix(self._root))

    def inside(self, uri: str) -> str:
        """Tables name files by their URL, or from where they are."""
        path = unquote(uri)
        return path if path.startswith(self._root) else str(self / path)

    @property
    def options(self) -> dict[str, str]:
        """As delta-rs wants them."""
        return self._options | ({"aws_conditional_put": "etag"} if self._root.startswith("s3:") else {})

    @property
    def is_remote(self) -> bool:
        """It takes a moment."""
        return True

    def _opened(self) -> tuple[Any, str]:
        key = self._root, tuple(sorted(self._options.items()))
        if key not in _systems:
            with self._told():
                _systems[key] = _open(self._root, self._options)
        system, root = _systems[key]
        return system, f"{root}{self._below}"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong, in words that say whose it is; a file that is not there is for the caller."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, DeltaError, pa.ArrowException) as error:
            raise explained(str(self), error) from None

    def prepare(self) -> None:
        """There are no folders."""

    def exists(self) -> bool:
        """A question."""
        system, path = self._opened()
        with self._told():
            return bool(system.get_file_info(path).type == fs.FileType.File)

    def names(self) -> list[str]:
        """A list of the store."""
        system, path = self._opened()
        with self._told():
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
            if not found and not self._below:
                self._refuse_no_bucket()
        return sorted(one.base_name for one in found)

    def _refuse_no_bucket(self) -> None:
        system, path = self._opened()
        bucket = path.partition("/")[0]
        if bucket and system.get_file_info(bucket).type == fs.FileType.NotFound:
            raise BadConfiguration(_NO_SUCH.format(where=self))

    def read(self) -> bytes:
        """Whole."""
        system, path = self._opened()
        with self._told(), system.open_input_stream(path) as file:
            found: bytes = file.read()
        return found

    def write(self, data: bytes) -> None:
        """One put."""
        system, path = self._opened()
        with self._told(), system.open_output_stream(path) as file:
            file.write(data)

    def create(self, data: bytes) -> bool:
        """Who has the claim has created it; one who finds it claimed, and nothing there, finishes what others began."""
        ours = _Claim(uuid4().hex, data.decode())
        claimed = Remote(self._root, self._options, f"{self._below}{_CLAIM}")._claimed(ours)
        if claimed == ours or not self.exists():
            self.write(claimed.document.encode())
        return claimed == ours

    def _claimed(self, ours: _Claim) -> _Claim:
        """Ours, or that of who came first: the one whose commit is the first of the table, however it ended."""
        failure: Exception | None = None
        try:
            DeltaTable.create(
                str(self),
                schema=pa.schema([pa.field("claimed", pa.string())]),
                mode="error",
                description=msgspec.json.encode(ours).decode(),
                storage_options=self.options,
            )
        except (DeltaError, OSError, pa.ArrowException) as error:
            failure = error
        try:
            lines = [msgspec.json.decode(line, type=_Line) for line in (self / _FIRST).read().splitlines()]
        except FileNotFoundError as error:
            raise explained(str(self), failure or error) from None
        [said] = [one.metadata["description"] for one in lines if one.metadata is not None]
        return msgspec.json.decode(said, type=_Claim)

    def delete(self) -> None:
        """A file that is not there is deleted already."""
        system, path = self._opened()
        with suppress(FileNotFoundError), self._told():
            system.delete_file(path)

    def delete_all(self) -> None:
        """As much as can be."""
        system, path = self._opened()
        with suppress(OSError):
            system.delete_dir(path)

    def read_rows(self, columns: Sequence[str] | None = None) -> pa.Table:
        """As Arrow reads files."""
        system, path = self._opened()
        names = None if columns is None else list(columns)
        with self._told():
            return pq.read_table(path, columns=names, partitioning=None, filesystem=system)

    def count_rows(self) -> int:
        """From its end."""
        system, path = self._opened()
        with self._told():
            return int(pq.read_metadata(path, filesystem=system).num_rows)

    def write_rows(self, rows: pa.Table) -> int:
        """Made here, and put there."""
        into = pa.BufferOutputStream()
        pq.write_table(rows, into, **HOW)
        made = into.getvalue()
        self.write(made)
        return int(made.size)

    def read_arrow(self) -> pa.Table:
        """Whole."""
        return pa.ipc.open_file(self.read()).read_all()

    def write_arrow(self, rows: pa.Table) -> None:
        """One put."""
        self.write(arrow_bytes(rows))


def explained(where: str, error: Exception) -> TidewireError:
    """What a store says, and what to do about it."""
    if isinstance(error, TidewireError):
        return error
    text = " ".join(str(error).split())
    said = text[:300]
    variables = _VARIABLES[where.partition(":")[0]]
    if any(one in text for one in _NO_BUCKET):
        return BadConfiguration(_NO_SUCH.format(where=where))
    if "Unable to load lib" in text:
        return BadConfiguration(f"{where}: what it is reached by is not on this machine: {said}. See {variables}")
    if any(one in text for one in _REFUSED):
        return NotPermitted(
            f"{where}: the store refuses it: {said}. Whoever runs this must be allowed to list, read, write and delete"
            f" there; who that is, is said by {variables}"
        )
    if any(one.lower() in text.lower() for one in _AWAY):
        return Unavailable(f"{where} cannot be reached: {said}. Is the store up, and is this right: {variables}?")
    return StoreFailed(f"{where}: the store failed: {said}")


def refuse_clear(root: str, options: Mapping[str, str]) -> None:
    """BadConfiguration if rows would go in clear, and nobody has said that they may."""
    endpoint = _endpoint(options)
    if endpoint.startswith("http://") and options.get("AWS_ALLOW_HTTP", "").lower() not in ("true", "1"):
        raise BadConfiguration(
            f"{root}: with {endpoint} rows would go in clear. If that network is yours alone, say so with"
            " AWS_ALLOW_HTTP=true"
        )


def _endpoint(options: Mapping[str, str]) -> str:
    return options.get("AWS_ENDPOINT_URL_S3") or options.get("AWS_ENDPOINT_URL") or ""


def _open(root: str, options: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    """What Arrow reaches it by, and the path of it there."""
    if not root.startswith("s3:"):
        return _open_other(root, options)
    endpoint = urlsplit(_endpoint(options))
    region = options.get("AWS_REGION") or options.get("AWS_DEFAULT_REGION")
    system = fs.S3FileSystem(
        access_key=options.get("AWS_ACCESS_KEY_ID"),
        secret_key=options.get("AWS_SECRET_ACCESS_KEY"),
        session_token=options.get("AWS_SESSION_TOKEN"),
        region=region or ("us-east-1" if endpoint.netloc else None),
        scheme=endpoint.scheme or None,
        endpoint_override=f"{endpoint.netloc}{endpoint.path.rstrip('/')}" or None,
        connect_timeout=CONNECT_S,
        request_timeout=CONNECT_S,
        allow_delayed_open=True,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
    )
    return system, root.removeprefix("s3://")


def _open_other(root: str, options: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    """Arrow takes the rest from the URL and from what is usual for the store."""
    if root.startswith("abfss:") and "AZURE_STORAGE_ACCOUNT_NAME" in options:
        system = fs.AzureFileSystem(
            options["AZURE_STORAGE_ACCOUNT_NAME"], account_key=options.get("AZURE_STORAGE_ACCOUNT_KEY")
        )
        return system, fs.FileSystem.from_uri(root)[1]
    if root.startswith("gs:"):  # by itself it would try for a quarter of an hour
        return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=RETRY_S)), root.removeprefix("gs://")
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(root)
    return found
