"""How loaded is a broker? The indices of peer §3.1, measured where load arrives and not where it is worked off (PIE1).

A meter is fed samples of counters that only grow, and says what passed per second over its window. Delays of queues
are no index: they lag behind by their own length.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Final

import msgspec

from tidewire.model.ids import Nanoseconds

WINDOW_S: Final = 10.0
SLOPE_STEP: Final = 50
"""The slope of the matching delay is taken anew when so many subscriptions have come or gone (peer §9.1, S)."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of a broker at one moment."""

    at_ns: Nanoseconds
    events_in: int
    bytes_in: int
    bytes_out: int
    """Into the queues of all connections."""

    busy_ns: int
    """Time that the engine worked on events."""

    events_done: int
    subscriptions: int
    queued_in_bytes: int
    queued_out_bytes: int
    engine_bytes: int


class Capacity(msgspec.Struct, frozen=True):
    """What a broker has."""

    output_bytes_s: float
    memory_bytes: float


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load indices, and what they are made of."""

    input_rate: float
    """Events per second into the broker, i_r."""

    input_bytes_s: float
    output_bytes_s: float
    """o_u."""

    matching_delay_s: float
    """Per event, d_m."""

    matching_slope_s: float
    """How much the matching delay grows with one more subscription."""

    input_utilisation: float
    """I_r = i_r · d_m; beyond 1 the input queue grows without bound."""

    output_utilisation: float
    """O_r = o_u / o_t."""

    cpu_utilisation: float
    """The engine's busy share, at most 1."""

    memory_utilisation: float
    """M_r = (queues and engine) / total."""

    subscriptions: int


class LoadMeter:
    """Samples of the last seconds."""

    def __init__(self, capacity: Capacity, *, window_s: float = WINDOW_S, slope_step: int = SLOPE_STEP) -> None:
        self._capacity = capacity
        self._window_ns = int(window_s * 1e9)
        self._slope_step = slope_step
        self._samples: deque[Sample] = deque()
        self._delay_s = 0.0
        self._slope_s = 0.0
        self._slope_from: tuple[float, float] | None = None

    def add(self, sample: Sample) -> None:
        """Take a sample; those that lie before the window are forgotten."""
        self._samples.append(sample)
        while len(self._samples) > 2 and self._samples[1].at_ns <= sample.at_ns - self._window_ns:
            self._samples.popleft()
        first = self._samples[0]
        if sample.events_done > first.events_done:
            self._delay_s = (sample.busy_ns - first.busy_ns) / 1e9 / (sample.events_done - first.events_done)
            self._take_slope(self._subscriptions())

    def _subscriptions(self) -> float:
        """As many as the events of the window met on average: the delay is theirs, not that of those there are now."""
        samples = list(self._samples)
        steps = [(now.events_done - then.events_done, now.subscriptions) for then, now in pairwise(samples)]
        return sum(events * count for events, count in steps) / sum(events for events, _ in steps)

    def _take_slope(self, subscriptions: float) -> None:
        if self._slope_from is None:
            self._slope_from = subscriptions, self._delay_s
            self._slope_s = self._delay_s / subscriptions if subscriptions else 0.0
            return
        before, delay_s = self._slope_from
        if abs(subscriptions - before) >= self._slope_step:
            self._slope_s = (self._delay_s - delay_s) / (subscriptions - before)
            self._slope_from = subscriptions, self._delay_s

    def load(self) -> Load | None:
        """The indices over the window; None before there are two samples."""
        if len(self._samples) < 2:
            return None
        first, last = self._samples[0], self._samples[-1]
        seconds = (last.at_ns - first.at_ns) / 1e9
        if seconds <= 0:
            return None
        rate = (last.events_in - first.events_in) / seconds
        output = (last.bytes_out - first.bytes_out) / seconds
        memory = last.queued_in_bytes + last.queued_out_bytes + last.engine_bytes
        return Load(
            input_rate=rate,
            input_bytes_s=(last.bytes_in - first.bytes_in) / seconds,
            output_bytes_s=output,
            matching_delay_s=self._delay_s,
            matching_slope_s=self._slope_s,
            input_utilisation=rate * self._delay_s,
            output_utilisation=output / self._capacity.output_bytes_s,
            cpu_utilisation=min(1.0, (last.busy_ns - first.busy_ns) / 1e9 / seconds),
            memory_utilisation=memory / self._capacity.memory_bytes,
            subscriptions=last.subscriptions,
        )
