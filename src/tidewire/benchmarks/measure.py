"""Compare fairly (design §7.19): contenders take turns, CPU time first, the median ratio with its 95 % interval."""

from __future__ import annotations

import math
import platform
import statistics
from collections.abc import Callable, Sequence
from time import perf_counter, thread_time
from typing import Final

import msgspec

PAIRS_MIN: Final = 6
"""With fewer, not even the smallest and the largest value enclose the median with 95 %."""


class Ratio(msgspec.Struct, frozen=True):
    """The median of a ratio over the pairs; it lies between low and high with at least 95 %."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_short(self.median)}× ({_short(self.low)}–{_short(self.high)})"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


class Timing(msgspec.Struct, frozen=True):
    """What one contender took per event, in µs: CPU and wall time, the medians over the pairs."""

    us_per_event: float
    us_per_event_wall: float
    events_per_s: float
    """By CPU time: what one core gives if nobody disturbs it."""


class Contender:
    """Something that handles events, call by call; each turn goes on where the last one ended."""

    def __init__(self, name: str, calls: Sequence[Callable[[], object]], *, events_per_call: float) -> None:
        self.name = name
        self._calls = calls
        self._events_per_call = events_per_call
        self._next = 0
        self._per_turn = 1
        self.cpu: list[float] = []
        self.wall: list[float] = []

    def warm_up(self, turn_s: float) -> None:
        """Find out how many calls make a turn of about this long."""
        self._per_turn = 1
        while True:
            _, wall = self._run()
            if wall * 2 >= turn_s or self._per_turn >= 1 << 24:
                break
            self._per_turn *= 2
        whole = len(self._calls)
        if self._per_turn > whole:  # whole rounds: every turn then does the same work
            self._per_turn = math.ceil(self._per_turn / whole) * whole

    def take_turn(self) -> None:
        """One turn, remembered as µs per event."""
        cpu, wall = self._run()
        scale = 1e6 / (self._per_turn * self._events_per_call)
        self.cpu.append(cpu * scale)
        self.wall.append(wall * scale)

    def _run(self) -> tuple[float, float]:
        calls, at, left = self._calls, self._next, self._per_turn
        wall, cpu = perf_counter(), thread_time()
        while left:
            end = min(at + left, len(calls))
            for call in calls[at:end]:
                call()
            left -= end - at
            at = end % len(calls)
        spent = thread_time() - cpu, perf_counter() - wall
        self._next = at
        return spent

    def timing(self) -> Timing:
        """The medians so far."""
        cpu = statistics.median(self.cpu)
        return Timing(cpu, statistics.median(self.wall), 1e6 / cpu)


def take_turns(
    contenders: Sequence[Contender], *, pairs: int, turn_s: float, on_pair: Callable[[int], object] = lambda _: None
) -> None:
    """Interleave the contenders, every other round backwards, so that none always follows the same neighbour."""
    for contender in contenders:
        contender.warm_up(turn_s)
    for pair in range(pairs):
        on_pair(pair + 1)
        for contender in contenders if pair % 2 == 0 else reversed(contenders):
            contender.take_turn()


def ratio(slow: Contender, fast: Contender) -> Ratio:
    """How many times less CPU the second takes, pair by pair."""
    return median_interval([a / b for a, b in zip(slow.cpu, fast.cpu, strict=True)])


def median_interval(values: Sequence[float]) -> Ratio:
    """The median and the tightest order statistics that enclose it with at least 95 %, whatever the distribution."""
    ordered = sorted(values)
    count = len(ordered)
    assert count >= PAIRS_MIN, "too few pairs for an interval"
    outside, rank = 0.0, 0
    while (outside := outside + math.comb(count, rank) / 2**count) <= 0.025:
        rank += 1
    return Ratio(statistics.median(ordered), ordered[rank - 1], ordered[count - rank])


def machine() -> str:
    """Where it was measured."""
    return f"{platform.machine()}, Python {platform.python_version()}"


def cpu_seconds(action: Callable[[], object]) -> float:
    """How long this thread's CPU worked on it."""
    start = thread_time()
    action()
    return thread_time() - start
