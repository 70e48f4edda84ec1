"""Which seeds are meant? ``A..B`` in every command that takes several."""

from __future__ import annotations

import re
from typing import Final

from tidewire.model.errors import UsageError

_SEEDS: Final = re.compile(r"(\d{1,18})(?:\.\.(\d{1,18}))?")


def seed_range(text: str) -> range:
    """``A..B``, or a single one; UsageError if it is neither."""
    found = _SEEDS.fullmatch(text)
    if found is None:
        raise UsageError(f"--seeds {text!r}: write A..B, such as 0..99")
    first = int(found[1])
    last = int(found[2] or first)
    if last < first:
        raise UsageError(f"--seeds {text!r}: the last seed is before the first")
    return range(first, last + 1)


def seed_runs(text: str, *, first: int) -> range:
    """``A..B``, or how many from the first one on; UsageError if it is neither, or none."""
    found = seed_range(text)
    if ".." in text:
        return found
    if not found.start:
        raise UsageError(f"--seeds {text!r}: write how many runs there are to be, at least 1, or A..B")
    return range(first, first + found.start)
