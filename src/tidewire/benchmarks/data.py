"""The records that benchmarks and the demo publish: real ones from a folder, else generated ones of the same shape."""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import starmap
from math import exp, sin
from pathlib import Path
from typing import Final, Literal, NamedTuple, TextIO, cast

from tidewire.model.errors import UsageError

QUOTES_FILE: Final = "stockquotes.csv.gz"
QUAKES_FILE: Final = "earthquakes-2022-03.csv.gz"
BUOY_FILE: Final = "dart-32412-chile-2010.txt.gz"
DEFAULT_FOLDER: Final = Path("data")

DATA_SEED: Final = 2004
"""Of the generated records: like real ones they stay what they are, whatever is drawn from them."""

GENERATED_SYMBOLS: Final = 100
GENERATED_DAYS: Final = 2_400
GENERATED_QUAKES: Final = 10_000
_LAST_DAY: Final = datetime(2004, 12, 21, tzinfo=UTC)
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Where the earth moves: name, latitude, longitude, spread in degrees.
_FAULTS: Final = (
    ("Alaska", 60.5, -151.0, 4.0),
    ("California", 36.5, -120.5, 3.0),
    ("Chile", -31.0, -71.5, 6.0),
    ("Fiji region", -18.5, -178.2, 5.0),
    ("Hawaii", 19.3, -155.4, 0.6),
    ("Indonesia", -4.0, 122.0, 9.0),
    ("Japan region", 37.5, 142.0, 4.0),
    ("Puerto Rico", 18.0, -66.8, 0.8),
    ("Turkey", 38.8, 36.5, 4.0),
)

Origin = Literal["real", "generated"]


class Quote(NamedTuple):
    """One day of one stock."""

    date: str
    open: float
    high: float
    low: float
    close: float
    volume: int


class Quake(NamedTuple):
    """One earthquake of the catalogue."""

    time: str
    latitude: float
    longitude: float
    depth: float
    magnitude: float
    place: str


class Quotes(NamedTuple):
    """Daily quotes by symbol, sorted by symbol."""

    by_symbol: dict[str, list[Quote]]
    origin: Origin


class Quakes(NamedTuple):
    """Earthquakes, oldest first."""

    records: list[Quake]
    origin: Origin


def load_quotes(folder: Path | None, *, seed: int = DATA_SEED) -> Quotes:
    """The quotes of the folder (None: the default one); generated from the seed if it has none."""
    path = _found(folder, QUOTES_FILE)
    if path is None:
        return Quotes(_generated_quotes(seed), "generated")
    by_symbol: dict[str, list[Quote]] = {}
    for symbol, date, *numbers, volume in _rows(path, 7):
        by_symbol.setdefault(symbol, []).append(Quote(date, *_floats(numbers), int(volume)))
    return Quotes({symbol: by_symbol[symbol] for symbol in sorted(by_symbol)}, "real")


def load_quakes(folder: Path | None, *, seed: int = DATA_SEED) -> Quakes:
    """The earthquakes of the folder; generated from the seed if it has none."""
    path = _found(folder, QUAKES_FILE)
    if path is None:
        return Quakes(_generated_quakes(random.Random(seed)), "generated")
    records = [
        Quake(time, *_floats([latitude, longitude, depth, magnitude]), rest[8])
        for time, latitude, longitude, depth, magnitude, *rest in _rows(path, 22)
        if magnitude and depth and rest[9] == "earthquake"
    ]
    return Quakes(sorted(records), "real")


class Buoy(NamedTuple):
    """A buoy's record: seconds since an earthquake, and by how much the sea is above its tide, in metres."""

    readings: list[tuple[float, float]]
    origin: Origin


def load_buoy(folder: Path | None, *, seed: int = DATA_SEED) -> Buoy:
    """The record of the folder; generated from the seed if it has none."""
    path = _found(folder, BUOY_FILE)
    if path is None:
        return Buoy(_generated_buoy(random.Random(seed)), "generated")
    try:
        with cast(TextIO, gzip.open(path, "rt", encoding="utf-8")) as lines:
            pairs = [line.split() for line in lines if line.strip()]
        return Buoy([(float(seconds), float(metres)) for seconds, metres in pairs], "real")
    except (OSError, EOFError, ValueError) as problem:
        raise UsageError(f"{path} cannot be read as gzipped pairs of numbers: {problem}") from problem


def _generated_buoy(rng: random.Random) -> list[tuple[float, float]]:
    """A sea that is calm, and then is not: a value each quarter of an hour, then each minute."""
    calm = [(-900.0 * (150 - at), rng.gauss(0.0, 0.005)) for at in range(150)]
    swell = [0.25 * exp(-((at - 200) ** 2) / 6000) * sin(at / 9) for at in range(600)]
    return calm + [(60.0 * at, one + rng.gauss(0.0, 0.005)) for at, one in enumerate(swell)]


def refuse_missing(folder: Path | None) -> None:
    """Raise if a folder was named that is not there."""
    if folder is not None and not folder.is_dir():
        raise UsageError(f"there is no data folder {str(folder)!r}: make it, or leave it out to use generated data")


def _found(folder: Path | None, name: str) -> Path | None:
    refuse_missing(folder)
    path = (folder or DEFAULT_FOLDER) / name
    return path if path.is_file() else None


def _rows(path: Path, width: int) -> Iterator[list[str]]:
    try:
        with cast(TextIO, gzip.open(path, "rt", encoding="utf-8", newline="")) as lines:
            rows = csv.reader(lines)
            next(rows, None)
            for row in rows:
                if len(row) != width:
                    raise UsageError(f"{path}, line {rows.line_num}: {len(row)} columns instead of {width}")
                yield row
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as problem:
        raise UsageError(f"{path} cannot be read as gzipped CSV: {problem}") from problem


def _floats(texts: list[str]) -> tuple[float, float, float, float]:
    try:
        one, two, three, four = map(float, texts)
    except ValueError as problem:
        raise UsageError(f"the data has a column that is no number: {problem}") from problem
    return one, two, three, four


@lru_cache(maxsize=1)
def _generated_quotes(seed: int) -> dict[str, list[Quote]]:
    rng = random.Random(seed)
    names: dict[str, None] = {}
    while len(names) < GENERATED_SYMBOLS:
        names["".join(rng.choices(_LETTERS, k=rng.choice((3, 4))))] = None
    dates = _trading_days()
    return {name: _random_walk(rng, dates) for name in sorted(names)}


def _trading_days() -> list[str]:
    """Newest first, as in the real file; weekends are left out."""
    days = (_LAST_DAY - timedelta(days=i) for i in range(2 * GENERATED_DAYS))
    return [_written(day) for day in days if day.weekday() < 5][:GENERATED_DAYS]


def _random_walk(rng: random.Random, dates: list[str]) -> list[Quote]:
    days: list[Quote] = []
    close = rng.lognormvariate(3.0, 0.8)
    usual_volume = rng.lognormvariate(13.0, 1.5)
    uniform = rng.random
    for date in dates:
        opened = max(0.1, close * (0.965 + 0.07 * uniform()))
        high = max(opened, close) * (1 + 0.02 * uniform())
        low = min(opened, close) * (1 - 0.02 * uniform())
        volume = max(1, int(usual_volume * (0.1 + uniform() / (0.1 + uniform())) / 100)) * 100
        days.append(Quote(date, round(opened, 2), round(high, 2), round(low, 2), round(close, 2), volume))
        close = max(0.1, opened * (0.975 + 0.05 * uniform()))
    return days


def _written(day: datetime) -> str:
    """As PADRES has it, whatever the locale: 28-Dec-04."""
    return f"{day.day}-{_MONTHS[day.month - 1]}-{day.year % 100:02}"


def _generated_quakes(rng: random.Random) -> list[Quake]:
    start = datetime(2022, 2, 6, tzinfo=UTC)
    seconds = sorted(rng.uniform(0, 30 * 86_400) for _ in range(GENERATED_QUAKES))
    return list(starmap(_quake, ((rng, start + timedelta(seconds=second)) for second in seconds)))


def _quake(rng: random.Random, moment: datetime) -> Quake:
    name, latitude, longitude, spread = rng.choice(_FAULTS)
    longitude = (rng.gauss(longitude, spread) + 180) % 360 - 180
    distance = rng.randrange(1, 180)
    return Quake(
        time=moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z",
        latitude=round(rng.gauss(latitude, spread), 4),
        longitude=round(longitude, 4),
        depth=round(min(600.0, rng.expovariate(1 / 25)), 1),
        magnitude=round(min(8.5, rng.expovariate(1.8) + 0.8), 1),  # Gutenberg and Richter: ten times fewer per step
        place=f"{distance} km from the coast, {name}",
    )
