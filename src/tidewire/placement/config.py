"""When do subscribers move, and how many? The thresholds of bad §4.1, and our readings. Frozen, checked once."""

from __future__ import annotations

from math import inf
from typing import Final

import msgspec

from tidewire.model.errors import BadConfiguration
from tidewire.model.message_fields import SECONDS_MAX, SECONDS_MIN

_LOADS: Final = ("migrate_load_min", "shuffle_load_min")
_SECONDS: Final = ("cycle_s", "average_s", "shuffle_pause_s")


class StageConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one coordinator's balancing."""

    migrate_above: float = 0.15
    """The coefficient of variation beyond which some subscribers are moved (alpha)."""
    migrate_load_min: float = 1000.0
    """The mean load, in bytes per second, below which nobody is (beta)."""
    shuffle_above: float = 0.5
    """The coefficient of variation beyond which all places are chosen anew (gamma)."""
    shuffle_load_min: float = 1000.0
    """The mean load below which they are not (theta)."""
    shuffle_pause_s: float = 300.0
    """So long after a shuffle there is no other one."""
    sticky_cov: float = 0.001
    """A sticky shuffle ends when the loads are as even as this."""
    spreads_idle: bool = True
    """Does a greedy shuffle spread those who get nothing yet? Else they all go to the least loaded broker."""
    is_strict: bool = True
    """Must a move leave its destination below what its source was? Else it may be as much: one subscriber may then
    go to and fro for as long as ``moves_max`` allows."""
    moves_max: int = 100_000
    """Of one plan."""
    cycle_s: float = 10.0
    """So often brokers report, and the coordinator decides."""
    average_s: float = 60.0
    """Rates are averages over so long, so that a peak moves nobody."""

    def __post_init__(self) -> None:
        for name in ("migrate_above", "shuffle_above", "sticky_cov"):
            if not 0 <= getattr(self, name) < inf:
                self._refuse(name, "it must be a number, at least 0")
        if self.shuffle_above < self.migrate_above:
            self._refuse("shuffle_above", f"it must be at least migrate_above = {self.migrate_above}")
        for name in _LOADS:
            if not 0 <= getattr(self, name) < inf:
                self._refuse(name, "it must be a number of bytes per second, at least 0")
        for name in _SECONDS:
            if not SECONDS_MIN <= getattr(self, name) <= SECONDS_MAX:
                self._refuse(name, f"it must be from {SECONDS_MIN:g} to {SECONDS_MAX:g} seconds")
        if self.average_s < self.cycle_s:
            self._refuse("average_s", f"it must be at least cycle_s = {self.cycle_s}")
        if self.moves_max < 1:
            self._refuse("moves_max", "it must be at least 1")

    def _refuse(self, name: str, reason: str) -> None:
        raise BadConfiguration(f"{name} = {getattr(self, name)}: {reason}")
