"""The workload of the prototype: emergencies in a city, and seven channels that tell of them (bad §6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Final

import msgspec

from tidewire.model.ids import BrokerId
from tidewire.papers.bad.scene import Person, Work
from tidewire.placement.choices import Location

CYCLE_S: Final = 10.0
AVERAGE_S: Final = 90.0
"""Three executions of the slowest channel."""
SECONDS: Final = 1800
LOGGED_IN_BY_S: Final = 240.0
SUBSCRIBED_BY_S: Final = 480.0
TYPES: Final = 8
PUBLISHERS: Final = 8
REPORTS: Final = 10_000
REPORT_BYTES: Final = (200, 700)
SHELTER_BYTES: Final = 100
COLUMNS, ROWS = 10, 5
"""Areas of the city; two beside each other are what is near somebody."""
SOUTH_WEST, NORTH_EAST = (60.15, 24.82), (60.25, 25.05)
BROKERS: Final = ((0.45, 0.40), (0.10, 0.15), (0.90, 0.15), (0.10, 0.90), (0.90, 0.90))
"""Where they are, as shares of the city's breadth and height: one in the centre, four at the edges."""


class Report(msgspec.Struct, frozen=True, gc=False):
    """An emergency that somebody tells of."""

    at_s: float
    kind: int
    x: float
    y: float
    """Where, as shares of the city's breadth and height."""
    size: int
    publisher: int

    @property
    def column(self) -> int:
        """Of its area."""
        return int(COLUMNS * self.x)

    @property
    def row(self) -> int:
        """Of its area."""
        return int(ROWS * self.y)


Key = tuple[str, int, int]
"""A back-end subscription: its channel and the values of its parameters."""


class Citizen(msgspec.Struct, frozen=True):
    """A subscriber: when it comes, where it is then, and when it makes which subscriptions."""

    login_s: float
    x: float
    y: float
    wants: tuple[tuple[float, Key], ...]
    """The earliest first."""


class City(msgspec.Struct, frozen=True):
    """All that happens, simulated or live."""

    people: list[Citizen]
    reports: list[Report]


CHANNELS: Final[dict[str, int]] = {
    "of a type": 10,
    "in an area": 20,
    "of a type in an area": 30,
    "near me": 10,
    "of a type near me": 20,
    "near me with the nearest shelter": 30,
    "in an area with its shelters": 30,
}
"""Their periods in seconds."""


DISTRICTS: Final = COLUMNS // 2 * ROWS


def district(column: int, row: int) -> int:
    """The two areas that are near somebody there."""
    return column // 2 + COLUMNS // 2 * row


def _matched(report: Report) -> dict[Key, int]:
    """What this report is a result of, and the bytes of that result."""
    area, near = report.column + COLUMNS * report.row, district(report.column, report.row)
    return {
        ("of a type", report.kind, 0): report.size,
        ("in an area", area, 0): report.size,
        ("of a type in an area", report.kind, area): report.size,
        ("near me", near, 0): report.size,
        ("of a type near me", report.kind, near): report.size,
        ("near me with the nearest shelter", near, 0): report.size + SHELTER_BYTES,
        ("in an area with its shelters", area, 0): report.size + 2 * SHELTER_BYTES,
    }


def city(*, seed: int, scale: int = 1) -> City:
    """400 subscribers, about 600 back-end and 2,200 front-end subscriptions, 10,000 reports."""
    chance = Random(seed)
    people = [_citizen(chance) for _ in range(400 // scale)]
    return City(people, _reports(chance))


def workload(*, seed: int, scale: int = 1) -> Work:
    """The city as the simulation has it: with 5 brokers."""
    there = city(seed=seed, scale=scale)
    areas, districts = range(COLUMNS * ROWS), range(DISTRICTS)
    keys: list[Key] = [
        *(("of a type", kind, 0) for kind in range(TYPES)),
        *(("in an area", area, 0) for area in areas),
        *(("of a type in an area", kind, area) for kind, area in product(range(TYPES), areas)),
        *(("near me", near, 0) for near in districts),
        *(("of a type near me", kind, near) for kind, near in product(range(TYPES), districts)),
        *(("near me with the nearest shelter", near, 0) for near in districts),
        *(("in an area with its shelters", area, 0) for area in areas),
    ]
    places = {key: k for k, key in enumerate(keys)}
    return Work(
        brokers=brokers(),
        people=[
            Person(one.login_s, location(one.x, one.y), tuple((at_s, places[key]) for at_s, key in one.wants))
            for one in there.people
        ],
        backends=len(keys),
        counted=_counted(there.reports, places),
        cycle_s=CYCLE_S,
        average_s=AVERAGE_S,
    )


def brokers() -> dict[BrokerId, Location | None]:
    """Where they are."""
    return {BrokerId(f"b{j + 1}"): location(*place) for j, place in enumerate(BROKERS)}


def location(x: float, y: float) -> Location:
    """On the globe."""
    (south, west), (north, east) = SOUTH_WEST, NORTH_EAST
    return Location(lat=south + y * (north - south), lon=west + x * (east - west))


def _citizen(chance: Random) -> Citizen:
    """Most live around the centre. 1 to 5 channels, 1 to 3 subscriptions in each."""
    x, y = (min(max(chance.gauss(middle, 0.2), 0.0), 0.999) for middle in (0.45, 0.4))
    wanted: dict[Key, None] = {}
    for channel in chance.sample(sorted(CHANNELS), chance.randint(1, 5)):
        for _ in range(chance.randint(1, 3)):
            wanted[_wish(chance, channel, x, y)] = None
    times = sorted(chance.uniform(LOGGED_IN_BY_S, SUBSCRIBED_BY_S) for _ in wanted)
    return Citizen(chance.uniform(0, LOGGED_IN_BY_S), x, y, tuple(zip(times, wanted, strict=True)))


def _wish(chance: Random, channel: str, x: float, y: float) -> Key:
    """Some types and the areas around are wanted more than others."""
    kind = int(TYPES * chance.random() ** 1.3)
    column = min(max(int(COLUMNS * x + chance.gauss(0, 3)), 0), COLUMNS - 1)
    row = min(max(int(ROWS * y + chance.gauss(0, 1.5)), 0), ROWS - 1)
    area, near = column + COLUMNS * row, district(column, row)
    if channel.startswith("of a type"):
        return (channel, kind, {"of a type": 0, "of a type in an area": area}.get(channel, near))
    return (channel, near if channel.startswith("near me") else area, 0)


def _reports(chance: Random) -> list[Report]:
    """Each publisher goes from one point of the city to another, and tells of what it sees on its way."""
    found: list[Report] = []
    gap_s = SECONDS * PUBLISHERS / REPORTS
    for publisher in range(PUBLISHERS):
        here, goal = ((chance.random(), chance.random()) for _ in range(2))
        steps, left, at_s = 1, 0, chance.uniform(0, gap_s)
        while at_s < SECONDS:
            if left == 0:
                here, goal = goal, (chance.random(), chance.random())
                steps = left = chance.randint(10, 60)
            x, y = (a + (b - a) * (1 - left / steps) for a, b in zip(here, goal, strict=True))
            left -= 1
            kind, size = chance.randrange(TYPES), chance.randint(*REPORT_BYTES)
            found.append(Report(at_s, kind, x, y, size, publisher))
            at_s += chance.uniform(0.5, 1.5) * gap_s
    return sorted(found, key=lambda one: one.at_s)


def _counted(reports: Sequence[Report], places: dict[Key, int]) -> list[dict[int, float]]:
    """A channel's results come out when it is executed next."""
    counted: list[dict[int, float]] = [{} for _ in range(int(SECONDS / CYCLE_S))]
    for report in reports:
        for key, size in _matched(report).items():
            period_s = CHANNELS[key[0]]
            executed_s = (int(report.at_s / period_s) + 1) * period_s
            cycle = counted[min(int(executed_s / CYCLE_S), len(counted)) - 1]
            cycle[places[key]] = cycle.get(places[key], 0.0) + size
    return counted
