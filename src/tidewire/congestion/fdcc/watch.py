"""Is there a shortage? Utilisations, smoothed (epeer §2.6), that stay beyond what is allowed while nobody helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidewire.congestion.fdcc.selection import Budget

NEWER: Final = 0.7
"""The weight of the newest of two samples (epeer §2.6, G1)."""


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


class Balanced(Unbalanced):
    """Where load is moved: there is a shortage when whoever balances has found nobody to take it (epeer §2.10).

    So there is when it has had its time and the overload is still there: the way between two brokers is nobody's to
    move, and not every way to balance says that it has found nobody.
    """

    def __init__(self, *, threshold: float, periods: int) -> None:
        """``periods``: so long whoever balances has to help."""
        super().__init__(threshold=threshold, periods=periods)
        self._is_told = False

    def nobody_helps(self) -> None:
        """It has found nobody."""
        self._is_told = True

    def look(self, utilisations: Mapping[Budget, float]) -> bool:
        """A period has passed."""
        is_told, self._is_told = self._is_told, False
        return super().look(utilisations) or is_told


def smoothed(older: float | None, newer: float) -> float:
    """Of the last two samples (G1); the first one as it is."""
    return newer if older is None else NEWER * newer + (1 - NEWER) * older
