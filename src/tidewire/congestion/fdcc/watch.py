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

    So there is when it has had its time and the overload is still there: not every way to balance says that it has
    found nobody. The way between two brokers is nobody's to relieve.
    """

    def __init__(self, *, threshold: float, periods: int, link_periods: int) -> None:
        """``periods``: so long whoever balances has to help; ``link_periods``: so long a link has to be overloaded."""
        super().__init__(threshold=threshold, periods=periods)
        self._links = Unbalanced(threshold=threshold, periods=link_periods)
        self._is_told = False

    def nobody_helps(self) -> None:
        """It has found nobody."""
        self._is_told = True

    def look(self, utilisations: Mapping[Budget, float]) -> bool:
        """A period has passed."""
        is_told, self._is_told = self._is_told, False
        of_links = {budget: load for budget, load in utilisations.items() if is_link(budget)}
        is_cut = self._links.look(of_links)
        return super().look(utilisations) or is_told or is_cut


def is_link(budget: Budget) -> bool:
    """Is it what a link carries, and nothing that a broker has?"""
    return " >" in budget


def smoothed(older: float | None, newer: float) -> float:
    """Of the last two samples (G1); the first one as it is."""
    return newer if older is None else NEWER * newer + (1 - NEWER) * older
