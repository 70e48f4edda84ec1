"""Values in bytes: rows of results, which only who asked for them opens again, and what a subscription gives.

A value is as in msgpack; a timestamp is an extension of it, its nanoseconds in 8 bytes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

import msgspec

from tidewire.model.errors import DamagedFrame
from tidewire.model.events import checked_value
from tidewire.model.values import Timestamp

TIMESTAMP: Final = 1
"""The code of the extension."""

_encoder = msgspec.msgpack.Encoder()


def packed_value(value: object) -> object:
    """As it is written."""
    if isinstance(value, Timestamp):
        return msgspec.msgpack.Ext(TIMESTAMP, value.ns.to_bytes(8, "little", signed=True))
    return value


def _extension(code: int, data: memoryview) -> object:
    if code != TIMESTAMP or len(data) != 8:
        raise ValueError(f"there is no extension {code} with {len(data)} bytes")
    return Timestamp(int.from_bytes(data, "little", signed=True))


_rows: msgspec.msgpack.Decoder[list[tuple[tuple[Any, ...], tuple[tuple[int, int], ...]]]] = msgspec.msgpack.Decoder(
    list[tuple[tuple[Any, ...], tuple[tuple[int, int], ...]]], ext_hook=_extension
)
_given: msgspec.msgpack.Decoder[dict[str, Any]] = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=_extension)


def pack_rows(rows: list[tuple[tuple[object, ...], tuple[tuple[int, int], ...]]]) -> bytes:
    """Rows, each with its cells and its origins, in bytes."""
    return _encoder.encode([(tuple(map(packed_value, cells)), origins) for cells, origins in rows])


def pack_each(
    columns: Sequence[Sequence[object]],
    origins: Sequence[tuple[tuple[int, int], ...]],
    *,
    timed: Container[int] = (),
) -> list[bytes]:
    """Rows in columns, each by itself, for ``joined``; ``timed``: the columns in which timestamps are."""
    shown = [[*map(packed_value, column)] if at in timed else column for at, column in enumerate(columns)]
    cells = zip(*shown, strict=True) if shown else repeat((), len(origins))
    return [*map(_encoder.encode, zip(cells, origins, strict=True))]


def joined(rows: Sequence[bytes]) -> bytes:
    """Rows that were packed each by itself, as ``pack_rows`` has them."""
    count = len(rows)
    if count < 16:
        head = bytes([0x90 | count])
    elif count < 1 << 16:
        head = b"\xdc" + count.to_bytes(2)
    else:
        head = b"\xdd" + count.to_bytes(4)
    return head + b"".join(rows)


def unpack_rows(data: bytes) -> list[tuple[tuple[Any, ...], tuple[tuple[int, int], ...]]]:
    """The rows again; DamagedFrame if these are none."""
    try:
        return _rows.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DamagedFrame(f"the rows of a result cannot be read: {error}") from None


def pack_given(given: Mapping[str, object]) -> bytes:
    """What a subscription gives, by the names of the parameters; UsageError if no event could hold it."""
    return _encoder.encode({name: packed_value(checked_value(name, value)) for name, value in given.items()})


def unpack_given(data: bytes) -> dict[str, Any]:
    """The same again; DamagedFrame if it is nothing of the kind."""
    try:
        return _given.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DamagedFrame(f"the parameters of a subscription cannot be read: {error}") from None
