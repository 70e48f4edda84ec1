"""The demo's channel: people are told of earthquakes near where they are, with the station that is nearest to each."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tidewire.benchmarks.data import Quake, Quakes
from tidewire.benchmarks.scene import PLACES, name_of, quake_event
from tidewire.channels.meaning import circle_of
from tidewire.channels.schemas import Row

FEED: Final = "class = 'QUAKE'"
QUAKES: Final = "number bigint, magnitude double, place string, lat double, lon double"
REFERENCE: Final = {
    "people": ("person string, place string", "person"),
    "places": ("place string, lat double, lon double", "place"),
    "stations": ("station string, lat double, lon double", "station"),
}
"""Datasets that are loaded: their columns, and the key of each."""

NEAR_M: Final = 300_000.0
CHANNEL: Final = f"""create channel near_me(me string, least double) period 1s on new quakes as
select q.number, q.magnitude, q.place,
  min(distance_m(q.lat, q.lon, h.lat, h.lon)) as away_m,
  min_by(s.station, distance_m(q.lat, q.lon, s.lat, s.lon)) as station
from quakes q
join people p on p.person = :me
join places h on h.place = p.place
left join stations s on within(q.lat, q.lon, s.lat, s.lon, 2000000)
where q.magnitude >= :least and within(q.lat, q.lon, h.lat, h.lon, {NEAR_M:.0f})
group by q.number, q.magnitude, q.place"""

LEAST: Final = (2.5, 3.0, 3.5)
"""What people care about: everyone one of these magnitudes."""

# Stations of the Global Seismographic Network: latitude and longitude.
_STATIONS: Final = {
    "ADK": (51.88, -176.68), "AFI": (-13.91, -171.78), "ANMO": (34.95, -106.46), "ANTO": (39.87, 32.79),
    "BORG": (64.75, -21.33), "COLA": (64.87, -147.86), "COR": (44.59, -123.30), "DAV": (7.07, 125.58),
    "ERM": (42.02, 143.16), "GUMO": (13.59, 144.87), "HKT": (29.96, -95.84), "KAPI": (-5.01, 119.75),
    "KDAK": (57.78, -152.58), "KIP": (21.42, -158.01), "LVC": (-22.61, -68.91), "MAJO": (36.55, 138.20),
    "MSVF": (-17.74, 178.05), "NNA": (-11.99, -76.84), "PAB": (39.54, -4.35), "PAS": (34.15, -118.17),
    "SJG": (18.11, -66.15), "SNZO": (-41.31, 174.70), "TATO": (24.97, 121.50), "TUC": (32.31, -110.78),
}  # fmt: skip


class Dweller(NamedTuple):
    """Somebody, where they are, and the least magnitude that they want to hear of."""

    person: str
    place: str
    least: float


def dwellers(count: int) -> list[Dweller]:
    """People, all over the places."""
    places = list(PLACES)
    return [Dweller(name_of(n), places[n % len(places)], LEAST[n % len(LEAST)]) for n in range(count)]


def reference_rows(people: list[Dweller]) -> dict[str, list[Row]]:
    """What the reference datasets hold."""
    return {
        "people": [{"person": one.person, "place": one.place} for one in people],
        "places": [{"place": place, "lat": lat, "lon": lon} for place, (lat, lon) in PLACES.items()],
        "stations": [{"station": name, "lat": lat, "lon": lon} for name, (lat, lon) in _STATIONS.items()],
    }


def strong(quakes: Quakes) -> list[Quake]:
    """Those that somebody may want to hear of, in their order."""
    return [one for one in quakes.records if one.magnitude >= min(LEAST)]


def numbered_event(number: int, quake: Quake) -> dict[str, Any]:
    """An earthquake as it is published, with a number to know it again."""
    return quake_event(quake) | {"number": number}


def due(quakes: list[Quake], people: list[Dweller]) -> dict[str, set[int]]:
    """The numbers of the earthquakes that each is to be told of: the same question, asked of every pair."""
    found: dict[str, set[int]] = {}
    for one in people:
        circle = circle_of("lat", "lon", (*PLACES[one.place], NEAR_M))
        assert circle is not None
        found[one.person] = {
            number
            for number, quake in enumerate(quakes)
            if quake.magnitude >= one.least and circle.holds(quake.latitude, quake.longitude)
        }
    return found
