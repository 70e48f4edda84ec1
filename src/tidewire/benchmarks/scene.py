"""The demo's world: people with interests of their own, and a month of earthquakes among years of stock quotes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tidewire.benchmarks.data import Quake, Quakes, Quotes

INTERESTS_PER_PERSON: Final = 5
QUOTES_PER_QUAKE: Final = 2
_NAMES: Final = ("ann", "bob", "cleo", "dan", "eva", "finn", "gro", "hal", "ida", "jo", "kim", "lea", "max", "noa")
# Where people live: latitude and longitude.
PLACES: Final = {
    "Tokyo": (35.7, 139.7), "Osaka": (34.7, 135.5), "Sendai": (38.3, 140.9), "Mexico City": (19.4, -99.1),
    "Los Angeles": (34.1, -118.2), "San Francisco": (37.8, -122.4), "Anchorage": (61.2, -149.9),
    "Honolulu": (21.3, -157.9), "Hilo": (19.7, -155.1), "San Juan": (18.5, -66.1), "Santiago": (-33.4, -70.7),
    "Lima": (-12.0, -77.0), "Bogota": (4.7, -74.1), "Jakarta": (-6.2, 106.8), "Manila": (14.6, 121.0),
    "Taipei": (25.0, 121.5), "Wellington": (-41.3, 174.8), "Suva": (-17.7, 178.1), "Izmir": (38.4, 27.1),
    "Istanbul": (41.0, 29.0), "Athens": (37.98, 23.7), "Naples": (40.8, 14.3), "Reykjavik": (64.1, -21.9),
    "Tehran": (35.7, 51.4), "Kathmandu": (27.7, 85.3), "Delhi": (28.6, 77.2), "Salt Lake City": (40.7, -111.9),
    "Seattle": (47.6, -122.3),
}  # fmt: skip
_HOMES: Final = tuple(PLACES.values())


class Interest(NamedTuple):
    """One subscription: whose, which of theirs, and in their words."""

    person: int
    number: int
    text: str


def name_of(person: int) -> str:
    """What the demo calls someone."""
    return f"{_NAMES[person % len(_NAMES)]}-{person}"


def interests(quakes: Quakes, quotes: Quotes, *, count: int, seed: int) -> Iterator[Interest]:
    """What people want to hear of; the same for the same seed."""
    rng = random.Random(seed)
    regions = sorted({quake.place.rsplit(", ", 1)[-1] for quake in quakes.records if "," in quake.place})
    symbols = list(quotes.by_symbol)
    for i in range(count):
        person, number = divmod(i, INTERESTS_PER_PERSON)
        kind = rng.random()
        if kind < 0.4:
            text = _near_home(rng)
        elif kind < 0.55:
            region = rng.choice(regions).replace("'", "''").replace("%", "")
            text = f"class = 'QUAKE' and place like '%{region}' and magnitude >= {_magnitude(rng)} and depth < 70"
        elif kind < 0.85:
            symbol = rng.choice(symbols)
            day, other = rng.choice(quotes.by_symbol[symbol]), rng.choice(quotes.by_symbol[symbol])
            low, high = sorted((day.close, other.close))
            text = f"class = 'STOCK' and symbol = '{symbol}' and (close < {low} or close > {high})"
        else:
            at = rng.randrange(len(symbols))
            basket = "', '".join(symbols[at : at + 3])
            text = f"class = 'STOCK' and symbol in ('{basket}') and volume > {rng.randrange(1, 100) * 1_000_000}"
        yield Interest(person, number, text)


def _magnitude(rng: random.Random) -> float:
    return round(min(7.0, 2.5 + rng.expovariate(0.9)), 1)


def _near_home(rng: random.Random) -> str:
    latitude, longitude = rng.choice(_HOMES)
    place = f"{rng.gauss(latitude, 0.4):.1f}, {rng.gauss(longitude, 0.4):.1f}"
    radius = rng.choice((50, 100, 200, 300, 500))
    return f"class = 'QUAKE' and magnitude >= {_magnitude(rng)} and within(lat, lon, {place}, {radius} km)"


def stream(quakes: Quakes, quotes: Quotes, *, seed: int) -> list[dict[str, Any]]:
    """What is published: the earthquakes in their order, some quotes after each."""
    rng = random.Random(seed)
    symbols = list(quotes.by_symbol)
    published: list[dict[str, Any]] = []
    for quake in quakes.records:
        published.append(quake_event(quake))
        for symbol in rng.choices(symbols, k=QUOTES_PER_QUAKE):
            day = rng.choice(quotes.by_symbol[symbol])
            published.append({"class": "STOCK", "symbol": symbol, **day._asdict()})
    return published


def quake_event(quake: Quake) -> dict[str, Any]:
    """An earthquake as it is published."""
    return {
        "class": "QUAKE",
        "time": quake.time,
        "lat": quake.latitude,
        "lon": quake.longitude,
        "depth": quake.depth,
        "magnitude": quake.magnitude,
        "place": quake.place,
    }
