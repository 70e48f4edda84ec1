"""What went wrong, as HTTP says it: a status, and one shape of document for every error."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from tidewire.model.errors import (
    FilterSyntaxError,
    LimitReached,
    NotAuthenticated,
    NotPermitted,
    Overloaded,
    PeerError,
    SameName,
    TidewireError,
    Unavailable,
    UnknownBroker,
    UnknownUser,
    UsageError,
)

RETRY_AFTER_S: Final = 1.0


class UnknownPath(UsageError):
    """There is nothing at this path."""

    code = "path-unknown"


class WrongMethod(UsageError):
    """The path is there, but not for this method."""

    code = "method"

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class UpgradeRequired(UsageError):
    """The path is a WebSocket, of the version that everyone speaks."""

    code = "upgrade-required"


class BodyTooLarge(UsageError):
    """A request's body, or a message, is beyond the bound."""

    code = "body-too-large"


class TooSlow(UsageError):
    """A request, or its body, did not come in time."""

    code = "too-slow"


class WrongContentType(UsageError):
    """A body of a kind that is not understood here."""

    code = "content-type"


class WrongOrigin(UsageError):
    """A web page of another site, or a name that is not ours."""

    code = "origin"


STATUSES: Final[tuple[tuple[type[TidewireError], int], ...]] = (
    (NotAuthenticated, 401),
    (NotPermitted, 403),
    (WrongOrigin, 403),
    (UnknownPath, 404),
    (UnknownUser, 404),
    (UnknownBroker, 404),
    (SameName, 409),
    (WrongMethod, 405),
    (BodyTooLarge, 413),
    (TooSlow, 408),
    (WrongContentType, 415),
    (UpgradeRequired, 426),
    (LimitReached, 429),
    (UsageError, 400),
    (PeerError, 502),
    (Overloaded, 503),
    (Unavailable, 503),
    (TidewireError, 500),
)
"""The first that fits."""


class Problem(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An error. The code never changes; the message is for people. The rest is there where it is known."""

    code: str
    message: str
    reason: str | None = None
    position: int | None = None
    """In characters from the beginning of the filter; line and column count from 1."""
    line: int | None = None
    column: int | None = None
    expected: list[str] | None = None
    retry_after_s: float | None = None


class Failure(msgspec.Struct, frozen=True):
    """The document of every error."""

    error: Problem


def problem_of(error: TidewireError) -> Problem:
    """The error as a document."""
    if isinstance(error, FilterSyntaxError) and hasattr(error, "position"):
        return Problem(
            error.code,
            error.message,
            reason=error.reason,
            position=error.position,
            line=error.line,
            column=error.column,
            expected=list(error.expected),
        )
    retry = getattr(error, "retry_after_s", None) if isinstance(error, Overloaded) else None
    return Problem(error.code, error.message, retry_after_s=retry)


def status_of(error: TidewireError) -> int:
    """Its HTTP status."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def headers_of(error: TidewireError) -> dict[str, str]:
    """What HTTP wants to be told beside the document."""
    match error:
        case NotAuthenticated():
            return {"WWW-Authenticate": 'Bearer realm="tidewire"'}
        case WrongMethod():
            return {"Allow": error.allowed}
        case UpgradeRequired():
            return {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        case Overloaded():
            return {"Retry-After": str(math.ceil(getattr(error, "retry_after_s", RETRY_AFTER_S)))}
        case LimitReached() | Unavailable():
            return {"Retry-After": str(math.ceil(RETRY_AFTER_S))}
    return {}
