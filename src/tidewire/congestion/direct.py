"""PDCC that takes the reported progress at its word (gryphon §7): a rate is set from what arrives, not by halves.

Seconds of stream that arrive in a second, times the events in such a second of stream, are the events that arrive: the
capacity of the narrowest place, for this pubend. How dense the stream is where the horizon stands is known here, where
it was published, and so is how much lies between the horizon and the last tick: the queue.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final

from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.pdcc import Pdcc
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import Nanoseconds, PubendId, Tick
from tidewire.model.ticks import ms_of

_CHANGES_MAX: Final = 256


class Direct(Pdcc):
    """An alert of edges that do not recover sets the rate; to one of recovering edges it answers as PDCC does.

    For recovery needs room, and how much room a lower rate makes cannot be read from the progress.
    """

    def __init__(
        self, pubend: PubendId, config: CongestionConfig, *, offered_msgs_s: float, now_ns: Nanoseconds
    ) -> None:
        super().__init__(pubend, config, offered_msgs_s=offered_msgs_s, now_ns=now_ns)
        self._density = Density(self.rate_msgs_s)
        self._averaged_ms = round(1000 * config.sample_s / config.smoothing)

    def due(self, *, latest: Tick, now_ns: Nanoseconds) -> Query | None:
        """As of any PDCC."""
        query = super().due(latest=latest, now_ns=now_ns)
        self._density.note(self.rate_msgs_s, at_ms=ms_of(latest))
        return query

    def hear(self, alert: Alert, *, latest: Tick, now_ns: Nanoseconds) -> bool:
        """As of any PDCC."""
        was_lowered = super().hear(alert, latest=latest, now_ns=now_ns)
        self._density.note(self.rate_msgs_s, at_ms=ms_of(latest))
        return was_lowered

    def _lower(self, alert: Alert) -> float | None:
        if alert.horizon is None or alert.slowest_recovering < inf:
            return super()._lower(alert)
        horizon_ms = ms_of(alert.horizon)
        # The progress is smoothed over the last while, and so must the density be that it is multiplied with.
        dense = self._density.between(horizon_ms - self._averaged_ms, horizon_ms) / self._averaged_ms * 1000
        arrives = dense * min(1.0, alert.slowest) * self._config.direct_margin
        queued = self._density.between(horizon_ms, ms_of(self._latest))
        rate = max(arrives * self._config.decrease_factor, arrives - queued / self._config.direct_drain_s)
        return rate if rate < self.rate_msgs_s else None

    def _grown(self) -> float:
        return max(super()._grown(), self.rate_msgs_s * (1 + self._config.direct_growth))


class Density:
    """How many events are where in a stream: the rates at which it was published, each from its place on."""

    def __init__(self, rate_msgs_s: float) -> None:
        self._changes: deque[tuple[int, float]] = deque([(0, rate_msgs_s)], maxlen=_CHANGES_MAX)

    def note(self, rate_msgs_s: float, *, at_ms: int) -> None:
        """From here on, this is the rate."""
        if rate_msgs_s != self._changes[-1][1]:
            self._changes.append((at_ms, rate_msgs_s))

    def between(self, start_ms: int, end_ms: int) -> float:
        """Events in this part of the stream. What is older than all that is remembered counts as the oldest."""
        events = 0.0
        for at_ms, rate in reversed(self._changes):
            if at_ms < end_ms:
                events += rate * (end_ms - max(at_ms, start_ms)) / 1000
                end_ms = max(at_ms, start_ms)
            if end_ms <= start_ms:
                return events
        return events + self._changes[0][1] * (end_ms - start_ms) / 1000
