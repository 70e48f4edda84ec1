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
SLOPE_SHARE: Final = 0.2
"""And when they are so great a share of all: between two numbers that hardly differ, a slope would be but noise."""
CALM_SHARE: Final = 0.05
"""Where a greater share of all came or went from one sample to the next, nobody knows how many an event met."""


CHANGED_SHARE: Final = 1 / 3
"""So much of the window must lie behind a change before the rest of it is left out: shorter is but noise."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of a broker at one moment."""

    at_ns: Nanoseconds
    events_in: int
    bytes_in: int
    events_out: int
    bytes_out: int
    """Into the queues of all connections; of events alone, here and there: nobody balances heartbeats."""

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
    cpu_share: float = 1.0
    """Of a core; on half of it an event takes twice as long."""
    matching_slope_s: float = 0.0
    """What the matching delay is expected to grow by with one more subscription, until that is measured; 0: unknown."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load indices, and what they are made of."""

    input_rate: float
    """Events per second into the broker, i_r."""

    input_bytes_s: float
    event_bytes: float = 0.0
    """What a delivery takes, on average."""

    output_bytes_s: float
    """o_u."""

    came_per_done: float = 1.0
    """Events that came for each that was matched: more than one while a backlog grows, less while it drains."""

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
        self._proportional_s = capacity.matching_slope_s
        self._slope_s: float | None = None
        """None: none was measured, and the delay counts as proportional to the subscriptions."""
        self._slope_from: tuple[float, float] | None = None

    def _behind(self, changed_ns: Nanoseconds | None) -> Sample:
        """Where the window begins: behind a change, once that leaves a share of it that says something."""
        samples = self._samples
        if changed_ns is None or samples[-1].at_ns - changed_ns < self._window_ns * CHANGED_SHARE:
            return samples[0]
        return next(sample for sample in samples if sample.at_ns >= changed_ns)

    def add(self, sample: Sample) -> None:
        """Take a sample; those that lie before the window are forgotten."""
        self._samples.append(sample)
        while len(self._samples) > 2 and self._samples[1].at_ns <= sample.at_ns - self._window_ns:
            self._samples.popleft()
        first = self._samples[0]
        if sample.events_done > first.events_done:
            busy_s = (sample.busy_ns - first.busy_ns) / 1e9 / self._capacity.cpu_share
            self._delay_s = busy_s / (sample.events_done - first.events_done)
            self._take_slope()
        elif sample.at_ns - first.at_ns >= self._window_ns:
            self._delay_s = 0.0  # what it took long ago says nothing of a broker that has nothing to do
            self._proportional_s, self._slope_s = self._capacity.matching_slope_s, None

    def _calm_part(self) -> tuple[int, float, float]:
        """The events of the window that met a known number of subscriptions: how many, their seconds, all they met."""
        events, busy_ns, met = 0, 0, 0.0
        for before, now in pairwise(self._samples):
            came = abs(now.subscriptions - before.subscriptions)
            if came <= CALM_SHARE * now.subscriptions:
                done = now.events_done - before.events_done
                events += done
                busy_ns += now.busy_ns - before.busy_ns
                met += done * (now.subscriptions + before.subscriptions) / 2
        return events, busy_ns / 1e9 / self._capacity.cpu_share, met

    def _take_slope(self) -> None:
        """No engine works less with more to do: what looks so is noise."""
        events, busy_s, met = self._calm_part()
        if not met:
            return
        subscriptions, delay_s = met / events, busy_s / events
        self._proportional_s = delay_s / subscriptions
        before, before_s = self._slope_from or (subscriptions, delay_s)
        self._slope_from = before, before_s
        change = subscriptions - before
        if abs(change) >= max(self._slope_step, SLOPE_SHARE * max(before, subscriptions)):
            slope_s = (delay_s - before_s) / change
            self._slope_s = slope_s if slope_s > 0.0 else None
            self._slope_from = subscriptions, delay_s

    def load(self, *, changed_ns: Nanoseconds | None = None) -> Load | None:
        """The indices over the window; None before there are two samples.

        ``changed_ns``: then clients came or went for the sake of the load, and what was before is no measure of it.
        """
        if len(self._samples) < 2:
            return None
        first, last = self._behind(changed_ns), self._samples[-1]
        seconds = (last.at_ns - first.at_ns) / 1e9
        if seconds <= 0:
            return None
        rate = (last.events_in - first.events_in) / seconds
        output = (last.bytes_out - first.bytes_out) / seconds
        input_bytes_s, delivered = (last.bytes_in - first.bytes_in) / seconds, last.events_out - first.events_out
        as_it_came = input_bytes_s / rate if rate else 0.0
        done = last.events_done - first.events_done
        delay_s = (last.busy_ns - first.busy_ns) / 1e9 / self._capacity.cpu_share / done if done else self._delay_s
        memory = last.queued_in_bytes + last.queued_out_bytes + last.engine_bytes
        return Load(
            input_rate=rate,
            input_bytes_s=input_bytes_s,
            event_bytes=(last.bytes_out - first.bytes_out) / delivered if delivered else as_it_came,
            output_bytes_s=output,
            came_per_done=(last.events_in - first.events_in) / done if done else 1.0,
            matching_delay_s=delay_s,
            matching_slope_s=self._proportional_s if self._slope_s is None else self._slope_s,
            input_utilisation=rate * delay_s,
            output_utilisation=output / self._capacity.output_bytes_s,
            cpu_utilisation=min(1.0, (last.busy_ns - first.busy_ns) / 1e9 / seconds / self._capacity.cpu_share),
            memory_utilisation=memory / self._capacity.memory_bytes,
            subscriptions=last.subscriptions,
        )
