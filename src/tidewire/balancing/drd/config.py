"""How a head and its edges are to behave where the head decides: the parameters of epeer §3. Frozen, checked once."""

from __future__ import annotations

from math import inf
from typing import Final, Literal

import msgspec

from tidewire.model.errors import BadConfiguration
from tidewire.model.message_fields import SECONDS_MAX, SECONDS_MIN

PROFILE_SAMPLES_MAX: Final = 4096
PROFILE_TURNS_MAX: Final = 100
WEIGHTS_MAX: Final = 100

_SECONDS: Final = ("period_s", "reply_s", "migration_s", "profile_s")
_SHARES: Final = ("low", "high", "imbalance", "balanced")


class DrdConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of ``drd``, ``peer-drd`` and ``peer-lb``; thresholds hold for every metric."""

    period_s: float = 1.0
    """How often load is looked at and told."""
    weights: tuple[float, ...] = (0.3, 0.7)
    """Of the last samples in the load that decides, the newest last; longer where a network is unstable."""
    low: float = 0.9
    """Below this on every metric a broker takes load."""
    high: float = 0.95
    """Beyond this on any metric it must give load; nobody is brought beyond it."""
    offload_to: Literal["high", "low"] = "high"
    """Down to which of the two an overloaded broker is relieved."""
    environment: Literal["lan", "wan"] = "lan"
    """Where a class goes that nobody has yet: to the edge with most left, or to the nearest."""
    event_bytes: float = 600.0
    fan_out: float = 4.5
    """What is assumed of an event, and of how many get it, as long as none have come."""
    colocate_skip_overloaded: bool = False
    """Does a newcomer not go where others of its class are, if that broker is overloaded?"""
    partial_intra: bool = False
    """Do those go for whom there is room in the cluster, if that is not enough? Else room is first sought elsewhere."""
    reply_s: float = 5.0
    """Patience with one who was asked."""
    migration_s: float = 30.0
    """Patience with a session's clients."""
    profile_samples: int = 2000
    """Events that are looked at for the rates of classes, in each turn."""
    profile_s: float = 1.0
    """A turn is not longer than this, however few have come."""
    profile_turns: int = 5
    """So many turns are looked at together: one alone says little of a class that sends seldom."""
    imbalance: float = 0.1
    """Of peer-lb and peer-drd: two edges whose loads differ by more than this are balanced."""
    balanced: float = 0.02
    """Of the same: closer than this is balanced."""
    difference: Literal["relative", "absolute"] = "relative"
    """Of the same: is that a share of the larger load, or of the capacity?"""
    order: Literal["random", "largest"] = "random"
    """Of peer-lb: who goes first."""
    placement: Literal["class", "client"] = "class"
    """Of peer-lb and peer-drd: is an edge drawn for each class, or for each client?"""

    def __post_init__(self) -> None:
        for name in _SECONDS:
            if not SECONDS_MIN <= getattr(self, name) <= SECONDS_MAX:
                self._refuse(name, f"it must be from {SECONDS_MIN:g} to {SECONDS_MAX:g} seconds")
        for name in _SHARES:
            if not 0 < getattr(self, name) <= 1:
                self._refuse(name, "it is a share: above 0, at most 1")
        for name in ("event_bytes", "fan_out"):
            if not 0 < getattr(self, name) < inf:
                self._refuse(name, "it must be a number above 0")
        if self.high < self.low:
            self._refuse("high", f"it must be at least low = {self.low}")
        if self.imbalance < self.balanced:
            self._refuse("imbalance", f"it must be at least balanced = {self.balanced}")
        if not 1 <= self.profile_samples <= PROFILE_SAMPLES_MAX:
            self._refuse("profile_samples", f"it must be from 1 to {PROFILE_SAMPLES_MAX}")
        if not 1 <= self.profile_turns <= PROFILE_TURNS_MAX:
            self._refuse("profile_turns", f"it must be from 1 to {PROFILE_TURNS_MAX}")
        if not 1 <= len(self.weights) <= WEIGHTS_MAX or not all(0 < one < inf for one in self.weights):
            self._refuse("weights", f"1 to {WEIGHTS_MAX} numbers above 0, that of the newest sample last")

    def _refuse(self, name: str, reason: str) -> None:
        raise BadConfiguration(f"{name} = {getattr(self, name)}: {reason}")
