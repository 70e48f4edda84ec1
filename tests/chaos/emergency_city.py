"""A city with reports, people and shelters, and what each person must hear: joined by plain loops over all of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

Told = Counter[tuple[Any, ...]]
TYPES = ("fire", "flood", "storm", "quake")
NEAR_M, SHELTER_M = 2000.0, 5000.0
EDGE_M = 0.0001
"""No distance in the city is so close to a border that two ways to compute it could disagree."""

CHANNELS = {
    "of_type": "create channel of_type(type string) period 1s as select r.id from EmergencyReports r"
    " where r.type = :type",
    "near_me": "create channel near_me(me string) period 1s on new EmergencyReports as select r.id, u.street"
    f" from EmergencyReports r join UserLocations u on u.user = :me where within(r.lat, r.lon, u.lat, u.lon, {NEAR_M})",
    "shelter": "create channel shelter(me string) period 2s on new EmergencyReports as"
    " select r.id, min_by(s.name, distance_m(u.lat, u.lon, s.lat, s.lon)) as shelter"
    " from EmergencyReports r join UserLocations u on u.user = :me cross join Shelters s"
    f" where within(r.lat, r.lon, u.lat, u.lon, {NEAR_M}) group by r.id",
    "in_area": "create channel in_area(lat double, lon double, m double) continuous as select r.id, s.name"
    f" from EmergencyReports r left join Shelters s on within(s.lat, s.lon, r.lat, r.lon, {SHELTER_M})"
    " where within(r.lat, r.lon, :lat, :lon, :m)",
}
COLUMNS = {"of_type": ("id",), "near_me": ("id", "street"), "shelter": ("id", "shelter"), "in_area": ("id", "name")}


class City:
    """All of it from one seed."""

    def __init__(self, random: Random, *, people: int, shelters: int = 20) -> None:
        self._random = random
        self.people = [{"user": f"u{n}", "street": f"street {n % 7}", **self._place()} for n in range(people)]
        self.shelters = [{"name": f"shelter {n}", **self._place()} for n in range(shelters)]
        self.reports: list[dict[str, Any]] = []

    def _place(self) -> dict[str, float]:
        return {"lat": self._random.uniform(60.10, 60.25), "lon": self._random.uniform(24.8, 25.1)}

    def report(self, count: int) -> list[dict[str, Any]]:
        """So many more."""
        first = len(self.reports)
        ids = range(first, first + count)
        self.reports += [{"id": n, "type": self._random.choice(TYPES), **self._place()} for n in ids]
        return [{"class": "REPORT", **one} for one in self.reports[first:]]

    def wanted(self, person: int) -> dict[str, dict[str, Any]]:
        """What one asks of each channel."""
        me = self.people[person]
        area = {"lat": me["lat"], "lon": me["lon"], "m": 1500.0 + 100 * (person % 5)}
        one = {"me": me["user"]}
        return {"of_type": {"type": TYPES[person % 4]}, "near_me": one, "shelter": one, "in_area": area}

    def owed(self, person: int) -> dict[str, Told]:
        """All that one must be told, each once."""
        return {channel: Counter(self._found(channel, person)) for channel in CHANNELS}

    def _found(self, channel: str, person: int) -> Iterator[tuple[Any, ...]]:
        me, given = self.people[person], self.wanted(person)[channel]
        for report in self.reports:
            if channel == "of_type" and report["type"] == given["type"]:
                yield (report["id"],)
            elif channel == "near_me" and _is_within(report, me, NEAR_M):
                yield report["id"], me["street"]
            elif channel == "shelter" and _is_within(report, me, NEAR_M):
                yield report["id"], min(self.shelters, key=lambda one: distance_m(me, one))["name"]
            elif channel == "in_area" and _is_within(report, given, given["m"]):
                names = [one["name"] for one in self.shelters if _is_within(one, report, SHELTER_M)]
                yield from ((report["id"], name) for name in names or [None])


def distance_m(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Haversine, on the sphere of the mean radius."""
    lat, to_lat = math.radians(one["lat"]), math.radians(other["lat"])
    lon = math.radians(other["lon"] - one["lon"])
    half = math.sin((to_lat - lat) / 2) ** 2 + math.cos(lat) * math.cos(to_lat) * math.sin(lon / 2) ** 2
    return 2 * 6_371_008.8 * math.asin(math.sqrt(half))


def _is_within(one: dict[str, Any], other: dict[str, Any], metres: float) -> bool:
    found = distance_m(one, other)
    assert abs(found - metres) > EDGE_M, "choose another seed"
    return found <= metres
