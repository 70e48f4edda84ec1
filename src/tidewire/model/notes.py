"""What a machine tells the people who run it."""

from __future__ import annotations

import msgspec


class Note(msgspec.Struct, frozen=True):
    """Something that people want to know of: for the log, the console and the decisions."""

    what: str
    facts: dict[str, str | int | float]
