"""How fast may a publisher go by its utility alone? Tiers: epeer §2.10."""

from __future__ import annotations

from bisect import bisect_right

from tidewire.congestion.fdcc.config import FdccConfig


class Tiers:
    """Regions of utility, each with the rate that it may have."""

    def __init__(self, config: FdccConfig) -> None:
        self._edges = config.tier_edges
        self._limits = config.tier_limits_msgs_s

    def region(self, utility: float) -> int:
        """Which region a utility is in, from 0. An edge belongs to the region above it."""
        return bisect_right(self._edges, utility)  # by comparison: 0.6 / 0.2 is less than 3

    def limit_msgs_s(self, utility: float) -> float:
        """What a publisher of this utility may send at most."""
        return self._limits[self.region(utility)]
