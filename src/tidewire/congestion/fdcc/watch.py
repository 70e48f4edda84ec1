"""Is there a shortage? Utilisations, smoothed (epeer §2.6), that stay beyond what is allowed while nobody helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from tidewire.congestion.fdcc.selection import Budget

NEWER: Final = 0.7
"""The weight of the newest of two samples (epeer §2.6, G1)."""


class ShortageWatch(Protocol):
    """Says whether some broker is overloaded, and nobody can take its load."""

    def look(self, utilisations: Mapping[Budget, float]) -> bool:
        """A period has passed, and it was so loaded. Is there a shortage?"""


class Unbalanced:
    """Where nobody moves load: who is overloaded for some periods in a row gets no help."""

    def __init__(self, *, threshold: float, periods: int) -> None:
        self._threshold = threshold
        self._periods = periods
        self._before: dict[Budget, float] = {}
        self._since: dict[Budget, int] = {}

    def look(self, utilisations: Mapping[Budget, float]) -> bool:
        """A period has passed."""
        for budget, newest in utilisations.items():
            value = smoothed(self._before.get(budget), newest)
            self._since[budget] = self._since.get(budget, 0) + 1 if value > self._threshold else 0
        self._before = dict(utilisations)
        return any(count >= self._periods for budget, count in self._since.items() if budget in utilisations)


class Told:
    """Where load is moved: whoever balances says when it has found nobody to take it, and when that is over."""

    def __init__(self) -> None:
        self.is_short = False

    def look(self, utilisations: Mapping[Budget, float]) -> bool:  # noqa: ARG002 others have looked
        """As it was told."""
        return self.is_short


def smoothed(older: float | None, newer: float) -> float:
    """Of the last two samples (G1); the first one as it is."""
    return newer if older is None else NEWER * newer + (1 - NEWER) * older
