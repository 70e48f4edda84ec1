"""Values in bytes: rows of results, which only who asked for them opens again, and what a subscription gives.

A value is as in msgpack; a timestamp is an extension of it, its nanoseconds in 8 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
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
