"""What a check says. It needs nothing else, not even the kernel: that it is missing is a finding, too."""

from __future__ import annotations

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
