"""How loaded is a broker, and what can it still take? The metrics of epeer §2.6: input, output, matching.

Everything is in absolute units; a capacity that does not matter is infinite (a head's matching).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf, isfinite
from typing import Final

import msgspec

from tidewire.balancing.drd.config import DrdConfig
from tidewire.model.offload_messages import METRICS, Amounts, LoadState, Metric

LOADS: Final[tuple[LoadState, ...]] = ("LOW", "HIGH", "OVERLOAD")


class Load(msgspec.Struct, frozen=True):
    """What a broker does, and what it could do."""

    used: Amounts
    capacity: Amounts

    def utilisation(self, metric: Metric) -> float:
        """The share of the capacity that is used."""
        used, capacity = self.used.of(metric), self.capacity.of(metric)
        return 0.0 if capacity == inf else used / capacity

    @property
    def highest(self) -> float:
        """Of the three."""
        return max(self.utilisation(metric) for metric in METRICS)

    def is_sound(self) -> bool:
        """Are these numbers that can be compared?"""
        return all(
            isfinite(self.used.of(metric)) and self.used.of(metric) >= 0 and self.capacity.of(metric) > 0
            for metric in METRICS
        )

    def after(self, change: Amounts) -> Load:
        """With this in addition; what falls below 0 is noise."""
        after = self.used + change
        kept = Amounts(*(max(0.0, after.of(metric)) for metric in METRICS))
        return Load(kept, self.capacity)


def state_of(highest: float, *, low: float, high: float) -> LoadState:
    """By the highest utilisation: HIGH from ``low`` to ``high``, both included (Table 3-1)."""
    if highest < low:
        return "LOW"
    return "HIGH" if highest <= high else "OVERLOAD"


def remaining(load: Load, *, high: float) -> Amounts:
    """What it can take before it is overloaded; below 0 where it is (R_m = (TH_high − U_m)·C_m)."""
    left = (load.capacity.of(metric) * high - load.used.of(metric) for metric in METRICS)
    return Amounts(*left)


def available(load: Load, config: DrdConfig) -> float:
    """The same as one number, in events per second: the least of the three; never below 0.

    Bytes become events by what one takes here, on average; a broker without any goes by the settings.
    """
    left, used = remaining(load, high=config.high), load.used
    if used.matching_events_s > 0:
        input_bytes, output_bytes = (used.of(m) / used.matching_events_s for m in ("input", "output"))
    else:
        input_bytes, output_bytes = config.event_bytes, config.event_bytes * config.fan_out
    by_input = left.input_bytes_s / input_bytes if input_bytes else inf
    by_output = left.output_bytes_s / output_bytes if output_bytes else inf
    return max(0.0, min(by_input, by_output, left.matching_events_s))


def required(load: Load, config: DrdConfig) -> dict[Metric, float]:
    """What an overloaded broker must give, by metric: of those that are too high alone (Creq)."""
    target = config.high if config.offload_to == "high" else config.low
    return {
        metric: load.used.of(metric) - target * load.capacity.of(metric)
        for metric in METRICS
        if load.utilisation(metric) > config.high
    }


def worst(load: Load) -> Metric:
    """The metric with the highest utilisation: the one that is furthest beyond the threshold, if any is."""
    return max(METRICS, key=load.utilisation)


def weighted(samples: Sequence[float], weights: Sequence[float]) -> float:
    """The mean of the last samples, the newest last; fewer than weights count with the last weights."""
    last = samples[-len(weights) :]
    used = weights[-len(last) :]
    return sum(value * weight for value, weight in zip(last, used, strict=True)) / sum(used)


class Smoothing:
    """The loads of the last periods, as one: what decides. Capacities are as they are now."""

    def __init__(self, weights: Sequence[float]) -> None:
        self._weights = weights
        self._samples: deque[Amounts] = deque(maxlen=len(weights))

    def add(self, load: Load) -> Load:
        """One more period."""
        self._samples.append(load.used)
        values = (weighted([one.of(metric) for one in self._samples], self._weights) for metric in METRICS)
        return Load(Amounts(*values), load.capacity)

    def begin_anew(self) -> None:
        """What was before is no measure of what is."""
        self._samples.clear()
