"""The emergencies of the prototype as datasets, events and channels of a data cluster (bad §6.1).

Areas are boxes. What is near somebody is within a distance of where that one is now: one subscriber of each district
goes about in it, and who wants what is near in a district wants what is near that one. So subscriptions are shared as
in the simulation, and as often as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

import msgspec

from tidewire.papers.bad.emergencies import (
    CHANNELS,
    COLUMNS,
    DISTRICTS,
    ROWS,
    Citizen,
    Key,
    Report,
    district,
    location,
)

SHELTERS: Final = 200
SHELTER_NAME_BYTES: Final = 100
NEAR_M: Final = 1300.0
"""A circle as large as a district."""
SHELTERS_WITHIN_M: Final = 700.0
"""Of a report: about two."""
STREET: Final = 0.01
"""The distance between streets, as a share of the city."""
STEP: Final = 0.004
"""How far somebody goes between two positions."""

REPORTS, POSITIONS = "class = 'REPORT'", "class = 'POSITION'"
COLUMNS_OF: Final = {
    "EmergencyReports": "id bigint, type string, lat double, lon double, text string",
    "UserLocations": "user string, step bigint, lat double, lon double",
    "Shelters": "name string, lat double, lon double",
}
_BOX: Final = "r.lat >= :south and r.lat < :north and r.lon >= :west and r.lon < :east"
_BOX_PARAMETERS: Final = "south double, west double, north double, east double"
_REPORT: Final = "r.id, r.type, r.text"
_NEAR: Final = f"within(r.lat, r.lon, u.lat, u.lon, {NEAR_M:g})"
_FROM: Final = "from EmergencyReports r"
_FROM_NEAR: Final = f"{_FROM} join UserLocations u on u.user = :me"
_QUERIES: Final = {
    "of a type": ("type string", f"select {_REPORT} {_FROM} where r.type = :type"),
    "in an area": (_BOX_PARAMETERS, f"select {_REPORT} {_FROM} where {_BOX}"),
    "of a type in an area": (
        f"type string, {_BOX_PARAMETERS}",
        f"select {_REPORT} {_FROM} where r.type = :type and {_BOX}",
    ),
    "near me": ("me string", f"select {_REPORT} {_FROM_NEAR} where {_NEAR}"),
    "of a type near me": ("type string, me string", f"select {_REPORT} {_FROM_NEAR} where r.type = :type and {_NEAR}"),
    "near me with the nearest shelter": (
        "me string",
        (
            f"select {_REPORT}, min_by(s.name, distance_m(u.lat, u.lon, s.lat, s.lon)) as shelter"
            f" {_FROM_NEAR} cross join Shelters s where {_NEAR} group by {_REPORT}"
        ),
    ),
    "in an area with its shelters": (
        _BOX_PARAMETERS,
        (
            f"select r.id, r.type, s.name as shelter {_FROM} left join Shelters s"
            f" on within(s.lat, s.lon, r.lat, r.lon, {SHELTERS_WITHIN_M:g}) where {_BOX}"
        ),
    ),
}


def channel_name(channel: str) -> str:
    """As the data cluster knows it."""
    return channel.replace(" ", "_")


def declarations(*, speed: float) -> Iterator[str]:
    """The seven channels, their periods shorter by so much."""
    for channel, (parameters, query) in _QUERIES.items():
        period_ms = round(1000 * CHANNELS[channel] / speed)
        yield (
            f"create channel {channel_name(channel)}({parameters}) period {period_ms / 1000:g}s"
            f" on new EmergencyReports as {query}"
        )


def box(area: int) -> dict[str, float]:
    """The bounds of an area."""
    column, row = area % COLUMNS, area // COLUMNS
    low, high = location(column / COLUMNS, row / ROWS), location((column + 1) / COLUMNS, (row + 1) / ROWS)
    return {"south": low.lat, "west": low.lon, "north": high.lat, "east": high.lon}


def type_name(kind: int) -> str:
    """Of an emergency."""
    return f"type{kind}"


def parameters(key: Key, wardens: Sequence[str]) -> dict[str, Any]:
    """What a subscription is made with."""
    channel, first, second = key
    match channel:
        case "of a type":
            return {"type": type_name(first)}
        case "of a type in an area":
            return {"type": type_name(first), **box(second)}
        case "of a type near me":
            return {"type": type_name(first), "me": wardens[second]}
        case "near me" | "near me with the nearest shelter":
            return {"me": wardens[first]}
    return box(first)


class Told(msgspec.Struct, frozen=True):
    """A report as it is published."""

    id: int
    type: str
    lat: float
    lon: float
    text: str

    def event(self) -> dict[str, Any]:
        """To be published."""
        return {"class": "REPORT", **msgspec.structs.asdict(self)}


def told(number: int, report: Report) -> Told:
    """Its text makes it as large as it is."""
    where = location(report.x, report.y)
    around = len("REPORT") + len(type_name(report.kind)) + 3 * 8
    text = f"report {number}: ".ljust(report.size - around, "x")
    return Told(number, type_name(report.kind), where.lat, where.lon, text)


class Shelter(msgspec.Struct, frozen=True):
    """Where people can go."""

    name: str
    lat: float
    lon: float


def shelters(chance: Random) -> list[Shelter]:
    """All over the city."""
    places = [location(chance.random(), chance.random()) for _ in range(SHELTERS)]
    return [
        Shelter(f"shelter {number} ".ljust(SHELTER_NAME_BYTES, "-"), one.lat, one.lon)
        for number, one in enumerate(places)
    ]


def wardens(people: Sequence[Citizen]) -> list[int]:
    """One of each district: who lives there, or else somebody who is none yet."""
    homes = [district(int(COLUMNS * one.x), int(ROWS * one.y)) for one in people]
    found: dict[int, int] = {}
    for number, home in enumerate(homes):
        found.setdefault(home, number)
    left = iter([number for number in range(len(people)) if number not in found.values()])
    return [found[near] if near in found else next(left) for near in range(DISTRICTS)]


class Walker:
    """Somebody who goes along streets, from one corner to another, in the whole city or in one district."""

    def __init__(self, chance: Random, x: float, y: float, *, within: int | None = None) -> None:
        self._chance = chance
        column, row = (0, 0) if within is None else (within % (COLUMNS // 2), within // (COLUMNS // 2))
        wide, high = (1.0, 1.0) if within is None else (2 / COLUMNS, 1 / ROWS)
        self._bounds = (column * wide, row * high, wide, high)
        self._at = (x, y) if within is None else self._corner()
        self._goal = self._corner()
        self.steps = 0

    def _corner(self) -> tuple[float, float]:
        left, low, wide, high = self._bounds
        x, y = left + wide * self._chance.random(), low + high * self._chance.random()
        return round(x / STREET) * STREET, round(y / STREET) * STREET

    def go(self) -> dict[str, Any]:
        """A step further; where it is then, for an event."""
        self.steps += 1
        if self._at == self._goal:
            self._goal = self._corner()
        (x, y), (to_x, to_y) = self._at, self._goal
        if x != to_x:
            x += max(-STEP, min(STEP, to_x - x))
        else:
            y += max(-STEP, min(STEP, to_y - y))
        self._at = (x, y)
        where = location(x, y)
        return {"class": "POSITION", "step": self.steps, "lat": where.lat, "lon": where.lon}
