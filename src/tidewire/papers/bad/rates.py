"""The workload of the simulation: rates that rise and fall, in channels that are executed every so often (bad §6.2)."""

from __future__ import annotations

from random import Random
from typing import Final

from tidewire.model.ids import BrokerId
from tidewire.papers.bad.scene import Person, Work
from tidewire.placement.choices import Location

CYCLE_S: Final = 10.0
MINUTES: Final = 30
SUBSCRIBED_BY_S: Final = 480.0
PERIODS_S: Final = (5, 10, 20, 30, 60)
CHANNELS: Final = 10
RATE_MEAN, RATE_SPREAD, RATE_MIN = 20e3, 5e3, 1e3
RAISED: Final = 2.0
SIZES: Final = (2200, 1800, 1400, 1100, 900, 750, 600, 500, 400, 350)
"""So many subscribers are nearest to each broker."""


def workload(*, seed: int, scale: int = 1) -> Work:
    """10,000 subscribers, 1,000 back-end and about 200,000 front-end subscriptions; or ``scale`` times fewer."""
    chance = Random(seed)
    backends = 1000 // scale
    places = [Location(lat=60.0, lon=24.0 + j / 10) for j in range(len(SIZES))]
    people = [
        Person(chance.uniform(0.0, CYCLE_S), place, _wishes(chance, backends))
        for place, size in zip(places, SIZES, strict=True)
        for _ in range(size // scale)
    ]
    return Work(
        brokers={BrokerId(f"b{j + 1}"): place for j, place in enumerate(places)},
        people=people,
        backends=backends,
        counted=_counted(chance, backends),
        cycle_s=CYCLE_S,
    )


def _wishes(chance: Random, backends: int) -> tuple[tuple[float, int], ...]:
    wanted = chance.sample(range(backends), chance.randint(10, 30))
    return tuple(sorted((chance.uniform(CYCLE_S, SUBSCRIBED_BY_S), k) for k in wanted))


def _counted(chance: Random, backends: int) -> list[dict[int, float]]:
    """Every minute a quarter of the subscriptions is picked to rise within three minutes, and fall 4 to 6 later."""
    seconds = MINUTES * 60
    rates = [max(RATE_MIN, chance.gauss(RATE_MEAN, RATE_SPREAD)) for _ in range(backends)]
    raised_until = [0.0] * backends
    rises: list[tuple[float, float, int]] = []
    for minute in range(MINUTES):
        for k in chance.sample(range(backends), backends // 4):
            rise_s = 60 * minute + chance.uniform(0, 180)
            rises.append((rise_s, rise_s + chance.uniform(240, 360), k))
    rises.sort()
    counted: list[dict[int, float]] = [{} for _ in range(int(seconds / CYCLE_S))]
    waiting = [0.0] * backends
    at = 0
    for second in range(0, seconds, 5):
        while at < len(rises) and rises[at][0] <= second:
            _, until_s, k = rises[at]
            raised_until[k] = max(raised_until[k], until_s)
            at += 1
        for k in range(backends):
            waiting[k] += 5 * rates[k] * (RAISED if raised_until[k] > second else 1.0)
        for channel in range(CHANNELS):
            if (second + 5) % PERIODS_S[channel % len(PERIODS_S)] == 0:
                _execute(waiting, range(channel, backends, CHANNELS), counted[int(second / CYCLE_S)])
    return counted


def _execute(waiting: list[float], channel: range, counted: dict[int, float]) -> None:
    """What has gathered comes out."""
    for k in channel:
        counted[k] = counted.get(k, 0.0) + waiting[k]
        waiting[k] = 0.0
