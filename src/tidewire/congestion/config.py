"""How congestion control is to behave: every parameter of gryphon §4, and every reading of it. Frozen, checked once.

Rates are messages per second, progress is seconds of stream per second, windows are milliseconds of stream.
"""

from __future__ import annotations

from math import inf
from typing import Final

import msgspec

from tidewire.model.errors import BadConfiguration
from tidewire.model.message_fields import SECONDS_MAX, SECONDS_MIN

_SECONDS: Final = ("query_s", "quiet_s", "increase_s", "silence_s", "silence_slow_s", "limit_memory_s", "sample_s")
_SECONDS_TOO: Final = ("nack_retry_s", "direct_drain_s")
_SHARES: Final = ("decrease_factor", "decrease_share", "smoothing", "nack_fall", "round_trip_weight", "direct_margin")
_NOT_NEGATIVE: Final = (
    "increase_factor",
    "direct_growth",
    "base_first",
    "hold_queries",
    "slow_msgs_s",
    "progress_first",
    "slack",
    "lag_ms_max",
    "lag_ms_min",
)
_POSITIVE: Final = (
    "increase_msgs_s",
    "rate_min_msgs_s",
    "nack_ms",
    "nack_window_ms",
    "nack_rise",
)


class CongestionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The paper's symbol stands first in the description of what is the paper's."""

    rate_policy: str = "pdcc"
    """What a pubend's rate follows: ``unlimited``, ``pdcc``, ``pdcc-settled`` or ``pdcc-direct``."""
    window_policy: str = "sdcc-probing"
    """What a NACK window follows: ``unlimited``, ``sdcc`` or ``sdcc-probing``."""

    # -- the pubend's side: gryphon §2.2 -------------------------------------------------------------------------------

    query_s: float = 1.0
    """The pace of queries."""
    quiet_s: float = 2.0
    """t_nouca: without an alert for so long a rate may grow. Longer than ``query_s``, or growth slips in between."""
    increase_s: float = 1.0
    """While all is quiet, a rate grows so often; the literal alternative is ``quiet_s``."""
    increase_msgs_s: float = 2.0
    """r_min: the least that a rate grows by."""
    increase_factor: float = 0.05
    """f_incr: of the distance from where growth began."""
    decrease_factor: float = 0.5
    """f_decr1: the most that a rate falls at once is to this share of it."""
    decrease_share: float = 0.25
    """f_decr2: how much of what was gained since the last decrease a decrease leaves."""
    hold_queries: int = 1
    """After a decrease, alerts to queries before this next one do not lower the rate again (hold_seq)."""
    held_alerts_count: bool = True
    """Such an alert still says that it is not quiet."""
    forget_at_increase: bool = True
    """Growth begins a new episode: the next alert is not compared with one from before."""
    classes_apart: bool = True
    """Recovering and other edges are compared each with their own kind; else the slower of the two counts."""
    base_first: float = 0.0
    """r_decr before the first decrease: with 0 the first one takes half."""
    rate_min_msgs_s: float = 2.0
    """No pubend is slowed below this."""
    rate_max_msgs_s: float = inf
    """No pubend gets more than this, beside what its publishers offer, which is the cap in any case."""
    limit_memory_s: float = 60.0
    """A limit that nobody has come up to for so long is forgotten."""

    silence_s: float = 1.0
    """t_silence: without events a pubend says so often that there is silence."""
    slow_msgs_s: float = 10.0
    """A rate below this is slow."""
    silence_slow_s: float = 0.1
    """As long as the rate is below ``slow_msgs_s``: a horizon that jumps by seconds looks like congestion."""

    direct_margin: float = 0.95
    """``pdcc-direct``: a decrease keeps this share of what arrives."""
    direct_growth: float = 0.04
    """``pdcc-direct``: a rate grows at least by this share of itself."""
    direct_drain_s: float = 10.0
    """``pdcc-direct``: what has gathered in queues is to be worked off in so long."""

    # -- on the way: gryphon §2.3 --------------------------------------------------------------------------------------

    leftover_queries_max: float = 2.0
    """A minimum that waits for the next alert is dropped after so many query intervals; infinite: never (Fig. 5)."""

    # -- the edge's side: gryphon §2.4 ---------------------------------------------------------------------------------

    sample_s: float = 0.1
    """The pace at which the horizon is looked at."""
    smoothing: float = 0.1
    """a: the weight of one sample."""
    progress_first: float = 1.0
    """The smoothed progress of a stream that begins."""
    slack: float = 0.05
    """dt_nonrec: an edge that does not recover may be so much slower than 1."""
    recovery: float = 1.0
    """dt_rec: a recovering edge must be so much faster than 1; below 0, it may be slower."""
    lag_ms_max: int = 4000
    """dt_s: however steady, an edge may not be further behind."""
    lag_ms_min: int = 250
    """An edge that is less behind is not slow: a busy machine hesitates for a moment. Literal: 0."""

    # -- recovery: gryphon §1.2, §3 ------------------------------------------------------------------------------------

    receive_window_ms: int = 10_000
    """rwnd: what is further ahead of the horizon is ignored."""
    nack_ms: int = 100
    """size_NACK: what one NACK asks for at most, and the step of the window."""
    nack_window_ms: int = 100
    """nwnd_0: the first window of a recovery."""
    nack_rise: float = 0.1
    """alpha_NACK: the window opens when the recovery rate has grown by this share."""
    nack_fall: float = 0.3
    """beta_NACK: it closes when the rate has fallen by this share."""
    round_trip_weight: float = 0.25
    """Of a new round trip in the smoothed one."""
    nack_retry_s: float = 1.0
    """What was asked for and has not come is asked for again after so long at the earliest."""

    def __post_init__(self) -> None:
        for name in _SECONDS + _SECONDS_TOO:
            if not SECONDS_MIN <= getattr(self, name) <= SECONDS_MAX:
                self._refuse(name, f"it must be from {SECONDS_MIN:g} to {SECONDS_MAX:g} seconds")
        for name in _SHARES:
            if not 0 < getattr(self, name) <= 1:
                self._refuse(name, "it is a share: above 0, at most 1")
        for name in _NOT_NEGATIVE:
            if not 0 <= getattr(self, name) < inf:
                self._refuse(name, "it must be a number from 0 on")
        for name in _POSITIVE:
            if not 0 < getattr(self, name) < inf:
                self._refuse(name, "it must be a number above 0")
        if not self.leftover_queries_max > 0:
            self._refuse("leftover_queries_max", "it must be above 0; inf: never")
        self._check_together()

    def _check_together(self) -> None:
        if self.quiet_s <= self.query_s:
            self._refuse("quiet_s", f"it must exceed query_s = {self.query_s}, or rates grow between two alerts")
        if self.decrease_factor == 1:
            self._refuse("decrease_factor", "a rate that is kept is not lowered")
        if not self.rate_min_msgs_s <= self.rate_max_msgs_s:
            self._refuse("rate_max_msgs_s", f"it must be at least rate_min_msgs_s = {self.rate_min_msgs_s}")
        if not -1 < self.recovery < inf:
            self._refuse("recovery", "it must be above -1")
        if not self.nack_ms <= self.nack_window_ms <= self.receive_window_ms:
            bounds = f"nack_ms = {self.nack_ms} to receive_window_ms = {self.receive_window_ms}"
            self._refuse("nack_window_ms", f"it must be from {bounds}")

    def _refuse(self, name: str, reason: str) -> None:
        raise BadConfiguration(f"{name} = {getattr(self, name)}: {reason}")


def nanoseconds(seconds: float) -> int:
    """A setting in seconds as the clocks count."""
    return int(seconds * 1e9)
