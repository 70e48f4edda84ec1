"""What a check says. It needs nothing else, not even the kernel: that it is missing is a finding, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

Level = Literal["ok", "warning", "problem"]
"""A *problem* means that somebody does not get what they should; a *warning*, that this may come, or that somebody
should know."""

SPARE_FILES: Final = 64
"""What a broker opens beside its clients' connections."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a diagnosis."""

    check: str
    """Which check, by a name that does not change."""

    level: Level
    message: str
    advice: str = ""
    """What to do; empty if nothing."""


def ok(check: str, message: str) -> Finding:
    """All is well there."""
    return Finding(check=check, level="ok", message=message)


def warning(check: str, message: str, advice: str) -> Finding:
    """This may come to harm, or somebody should know."""
    return Finding(check=check, level="warning", message=message, advice=advice)


def problem(check: str, message: str, advice: str) -> Finding:
    """Somebody does not get what they should."""
    return Finding(check=check, level="problem", message=message, advice=advice)


def or_ok(found: list[Finding], check: str, message: str) -> Iterator[Finding]:
    """What was found, or that all is well."""
    yield from found or [ok(check, message)]
