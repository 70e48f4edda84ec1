"""How fast may a pubend send? PDCC, the pubend's side: a rate that grows while all is quiet and falls with alerts.

Gryphon §2.2. In the paper's symbols: ``rate`` is r, ``base`` is r_decr, the rate after the last decrease, from which
growth began. With it the rate comes back close to the ceiling that it found, and probes it in small steps.
"""

from __future__ import annotations

from math import inf

from tidewire.congestion.config import CongestionConfig, nanoseconds
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import Nanoseconds, PubendId, Tick

_NOTHING_HEARD = (inf, inf)


def increased(rate: float, *, base: float, config: CongestionConfig) -> float:
    """Equation 1."""
    return max(rate + config.increase_msgs_s, rate + config.increase_factor * (rate - base))


def decreased(rate: float, *, base: float, config: CongestionConfig) -> float:
    """Equations 2 and 3. With a base at or above the rate nothing was gained: then the rate falls by its factor."""
    if base >= rate:
        return config.decrease_factor * rate
    return max(config.decrease_factor * rate, base + config.decrease_share * (rate - base))


class Pdcc:
    """The rate of one pubend. ``due`` is to be called when ``next_deadline`` has come."""

    def __init__(
        self, pubend: PubendId, config: CongestionConfig, *, offered_msgs_s: float, now_ns: Nanoseconds
    ) -> None:
        self._pubend = pubend
        self._config = config
        self._offered = offered_msgs_s
        self.limit_msgs_s = config.rate_max_msgs_s
        """What its publishers may send per second; infinite while no congestion is known."""

        self.base_msgs_s = config.base_first
        self.sequence = 0
        """Of the last query."""

        self._hold = 0
        self._latest = Tick(0)
        self._previous: tuple[float, ...] = _NOTHING_HEARD
        self._query_ns = now_ns
        self._alert_ns = now_ns
        self._increase_ns = now_ns
        self._needed_ns = now_ns

    @property
    def rate_msgs_s(self) -> float:
        """What it sends: never above what is offered."""
        return min(self.limit_msgs_s, self._offered)

    @property
    def is_throttled(self) -> bool:
        """Would its publishers send more?"""
        return self.limit_msgs_s < self._offered

    @property
    def _may_grow(self) -> bool:
        return self.limit_msgs_s < min(self._offered, self._config.rate_max_msgs_s)

    @property
    def silence_s(self) -> float:
        """After so long without an event, silence is to be told."""
        config = self._config
        return config.silence_slow_s if self.rate_msgs_s < config.slow_msgs_s else config.silence_s

    def offer(self, msgs_s: float, *, now_ns: Nanoseconds) -> None:
        """So much the publishers would send; infinite if they only wait to be let, as they do at a limit."""
        assert 0 <= msgs_s < inf or self.limit_msgs_s < inf, f"{msgs_s} msgs/s are offered where nobody has to wait"
        self._remember(now_ns)
        self._offered = msgs_s

    def next_deadline(self) -> Nanoseconds | None:
        """When ``due`` has something to do."""
        return min(self._query_ns, self._growth_ns()) if self._may_grow else self._query_ns

    def due(self, *, latest: Tick, now_ns: Nanoseconds) -> Query | None:
        """Let the rate grow if it may; and the query to send, if it is time for one."""
        self._latest = latest
        if self._may_grow and now_ns >= self._growth_ns():
            self._increase_ns = now_ns
            self._increase()
        self._remember(now_ns)
        if now_ns < self._query_ns:
            return None
        self._query_ns = Nanoseconds(now_ns + nanoseconds(self._config.query_s))
        self.sequence += 1
        return Query(pubend=self._pubend, sequence=self.sequence, latest=latest)

    def hear(self, alert: Alert, *, latest: Tick, now_ns: Nanoseconds) -> bool:
        """Somebody does not keep up. Was the rate lowered? An alert to a query of another life is ignored."""
        if alert.sequence > self.sequence:
            return False
        self._latest = latest
        is_held = alert.sequence < self._hold
        if not is_held or self._config.held_alerts_count:
            self._alert_ns = self._needed_ns = now_ns
        has_improved = self._has_improved(alert)
        if is_held or has_improved:
            return False
        lower = self._lower(alert)
        if lower is None:
            return False
        self.limit_msgs_s = self.base_msgs_s = max(self._config.rate_min_msgs_s, lower)
        self._hold = self.sequence + self._config.hold_queries
        return True

    def _lower(self, alert: Alert) -> float | None:  # noqa: ARG002 that there is an alert is all that counts here
        """The rate after an alert that is not held and has not improved; None if it is to stay."""
        return decreased(self.rate_msgs_s, base=self.base_msgs_s, config=self._config)

    def _grown(self) -> float:
        """The rate after a step of growth."""
        return increased(self.rate_msgs_s, base=self.base_msgs_s, config=self._config)

    def _increase(self) -> None:
        grown = self._grown()
        most = self._config.rate_max_msgs_s
        self.limit_msgs_s = min(grown, most) if grown < self._offered else most
        if self._config.forget_at_increase:
            self._previous = _NOTHING_HEARD

    def _growth_ns(self) -> Nanoseconds:
        quiet_ns = self._alert_ns + nanoseconds(self._config.quiet_s)
        return Nanoseconds(max(quiet_ns, self._increase_ns + nanoseconds(self._config.increase_s)))

    def _has_improved(self, alert: Alert) -> bool:
        """Does no kind of edge report as little as the last time, or less?"""
        values = alert.slowest, alert.slowest_recovering
        if not self._config.classes_apart:
            values = min(values), inf
        before = self._previous
        self._previous = tuple(now if now < inf else then for now, then in zip(values, before, strict=True))
        return not any(now < inf and now <= then for now, then in zip(values, before, strict=True))

    def _remember(self, now_ns: Nanoseconds) -> None:
        """A limit is learned by running into it: one that nobody comes up to says less and less."""
        if self.is_throttled:
            self._needed_ns = now_ns
        elif now_ns - self._needed_ns >= nanoseconds(self._config.limit_memory_s):
            self.limit_msgs_s, self.base_msgs_s = self._config.rate_max_msgs_s, self._config.base_first
