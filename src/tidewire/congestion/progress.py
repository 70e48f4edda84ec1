"""Does a pubend's stream keep up at this edge? The progress of the doubt horizon, smoothed: gryphon §2.4.

It is normal by itself: 1.0 is real time, whatever passes the filters and however much is published.
"""

from __future__ import annotations

from math import inf
from typing import Final

from tidewire.congestion.config import CongestionConfig, nanoseconds
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import Nanoseconds, Tick
from tidewire.model.ticks import ms_of

_ROUNDING: Final = 1e-9
"""0.99 · 1 + 0.01 · 0.25 is not below 0.9925, whatever binary fractions make of it."""


class Progress:
    """How fast one stream arrives. ``sample`` is to be called about every ``sample_s``."""

    def __init__(self, config: CongestionConfig, *, horizon: Tick, now_ns: Nanoseconds) -> None:
        self._config = config
        self.smoothed = config.progress_first
        """Seconds of stream per second."""

        self._horizon = horizon
        self._sampled_ns = now_ns

    def sample(self, *, horizon: Tick, now_ns: Nanoseconds) -> None:
        """The horizon is here now. What comes sooner than half of ``sample_s`` after the last is left to the next."""
        elapsed_ns = now_ns - self._sampled_ns
        if 2 * elapsed_ns < nanoseconds(self._config.sample_s):
            return
        progress = (ms_of(horizon) - ms_of(self._horizon)) * 1e6 / elapsed_ns
        self._horizon, self._sampled_ns = horizon, now_ns
        keep = (1 - self._config.smoothing) ** (elapsed_ns / nanoseconds(self._config.sample_s))
        self.smoothed = keep * self.smoothed + (1 - keep) * progress

    def answer(self, query: Query, *, horizon: Tick, is_recovering: bool) -> Alert | None:
        """The alert to send to this query; None if all is well."""
        lag_ms = max(0, ms_of(query.latest) - ms_of(horizon))
        if not self._is_slow(lag_ms, is_recovering=is_recovering):
            return None
        return Alert(
            pubend=query.pubend,
            sequence=query.sequence,
            slowest=inf if is_recovering else self.smoothed,
            slowest_recovering=self.smoothed if is_recovering else inf,
            horizon=None if is_recovering else horizon,
        )

    def _is_slow(self, lag_ms: int, *, is_recovering: bool) -> bool:
        config = self._config
        if is_recovering:
            return self.smoothed < 1 + config.recovery - _ROUNDING
        is_slowing = self.smoothed < 1 - config.slack - _ROUNDING and lag_ms >= config.lag_ms_min
        return is_slowing or lag_ms > config.lag_ms_max
