"""What came in a request, read with care: bounded, strict JSON, and whatever is wrong is said."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from tidewire.console.errors import BodyTooLarge, TooSlow, WrongContentType
from tidewire.model.errors import UsageError

BODY_BYTES_MAX: Final = 2 << 20
BODY_S: Final = 30.0
"""How long a body may take to come."""
_Document = TypeVar("_Document")


async def read_body(request: Request) -> bytes:
    """The whole body; refused before it is read, or as soon as it is beyond the bound."""
    told = request.headers.get("content-length", "")
    if told.isascii() and told.isdigit() and int(told[:20]) > BODY_BYTES_MAX:
        raise _too_large()
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise WrongContentType(f"a body is taken as it is, not encoded as {coding[:40]}")
    parts = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                parts += part
                if len(parts) > BODY_BYTES_MAX:
                    raise _too_large()
    except TimeoutError:
        raise TooSlow(f"the body did not come within {BODY_S:g} s") from None
    return bytes(parts)


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"a body has at most {BODY_BYTES_MAX:,} bytes: send the events in several requests")


def read_json(text: bytes | str, *, what: str = "the body") -> Any:
    """Strict JSON: UTF-8, one value, every name once, numbers that are numbers."""
    try:
        return _DECODER.decode(text.decode() if isinstance(text, bytes) else text)
    except UnicodeDecodeError as problem:
        raise UsageError(f"{what} is not UTF-8: byte {problem.start} is not possible there") from None
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise UsageError(f"{what} is not JSON: {where}: {problem.msg}") from None
    except RecursionError:
        raise UsageError(f"{what} nests too deeply") from None
    except _NotStrict as problem:
        raise UsageError(f"{what}: {problem}") from None
    except ValueError:  # Python's own bound on the digits of a number
        raise UsageError(f"{what} has a number with too many digits") from None


def read_document(text: bytes | str, kind: type[_Document], *, what: str = "the body") -> _Document:
    """Strict JSON of this kind."""
    try:
        return msgspec.convert(read_json(text, what=what), kind)
    except msgspec.ValidationError as problem:
        raise UsageError(f"{what}: {problem}") from None


class _NotStrict(Exception):
    """JSON by name, but it means nothing, or two things."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: dict[str, None] = {}
        for name, _ in pairs:
            if name in seen:
                raise _NotStrict(f"the name {name[:80]!r} stands twice in one object")
            seen[name] = None
    return found


def _no_constant(name: str) -> Any:
    raise _NotStrict(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _NotStrict(f"the number {digits[:40]} is beyond a float64")
    return number


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite)
