"""SDCC that does not rest: now and then a window that has settled is opened by a step, to see whether that helps.

The paper's rule compares with the last change alone. After one slow answer a window may stand at its least for good,
or at a size that a round trip from another time has set; then a recovery is slower than the stream itself, and never
ends. Here a window that has stood still for some round trips opens by a step, as at the beginning; if the rate does
not grow by that, it goes back.
"""

from __future__ import annotations

from typing import Final

from tidewire.congestion.sdcc import Sdcc
from tidewire.model.ids import Nanoseconds

STILL_MAX: Final = 4
"""Judgements without a change."""


class Probing(Sdcc):
    """One window."""

    _still = 0
    _is_probe = False

    def restart(self, *, now_ns: Nanoseconds) -> None:
        """A new recovery begins."""
        super().restart(now_ns=now_ns)
        self._still, self._is_probe = 0, False

    def _direction(self, round_trip_ns: int) -> int:
        direction = super()._direction(round_trip_ns)
        if self._is_probe:  # it helps, or it goes back
            self._still, self._is_probe = 0, False
            return 1 if direction > 0 else -1
        is_at_least = direction < 0 and self.size == self._step
        self._still = self._still + 1 if direction == 0 or is_at_least else 0
        if self._still < STILL_MAX:
            return direction
        self._still, self._is_probe = 0, True
        return 1
