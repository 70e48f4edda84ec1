"""The clock of this process."""

from __future__ import annotations

from time import monotonic_ns

from tidewire.model.ids import Nanoseconds


def now() -> Nanoseconds:
    """It never jumps."""
    return Nanoseconds(monotonic_ns())
