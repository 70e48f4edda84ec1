"""Records come from a folder if it has them, and are generated in the same shape if it has not."""

import gzip
from pathlib import Path

import pytest

from tidewire.benchmarks.data import (
    GENERATED_DAYS,
    GENERATED_SYMBOLS,
    QUAKES_FILE,
    QUOTES_FILE,
    load_quakes,
    load_quotes,
)
from tidewire.model.errors import UsageError

QUOTES = "symbol,date,open,high,low,close,volume\nAAPL,21-Dec-04,2.60,2.70,2.53,2.61,458500\n"
QUAKES_HEAD = "time,latitude,longitude,depth,mag," + ",".join(f"c{i}" for i in range(17)) + "\n"
QUAKE = (
    '2022-03-08T17:05:53.647Z,60.1485,-151.0953,76.9,1.5,ml,,,,0.3,ak,id,t,"18 km ESE, Alaska",earthquake,,,,,a,b,c\n'
)
NO_QUAKE = QUAKE.replace("earthquake", "explosion")


def _write(path: Path, text: str) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)


def test_quotes_are_read_from_the_folder(tmp_path: Path) -> None:
    _write(tmp_path / QUOTES_FILE, QUOTES)
    found = load_quotes(tmp_path)
    assert found.origin == "real"
    assert found.by_symbol == {"AAPL": [("21-Dec-04", 2.6, 2.7, 2.53, 2.61, 458500)]}


def test_only_earthquakes_are_read(tmp_path: Path) -> None:
    _write(tmp_path / QUAKES_FILE, QUAKES_HEAD + NO_QUAKE + QUAKE)
    found = load_quakes(tmp_path)
    assert found.records == [("2022-03-08T17:05:53.647Z", 60.1485, -151.0953, 76.9, 1.5, "18 km ESE, Alaska")]


def test_an_empty_folder_means_generated_records(tmp_path: Path) -> None:
    quotes = load_quotes(tmp_path)
    assert quotes.origin == "generated"
    assert len(quotes.by_symbol) == GENERATED_SYMBOLS
    assert all(len(days) == GENERATED_DAYS for days in quotes.by_symbol.values())
    for day in next(iter(quotes.by_symbol.values())):
        assert day.low <= min(day.open, day.close) <= max(day.open, day.close) <= day.high
        assert day.volume > 0
    quakes = load_quakes(tmp_path)
    assert all(-90 <= one.latitude <= 90 and -180 <= one.longitude <= 180 for one in quakes.records)


def test_generated_records_follow_from_the_seed(tmp_path: Path) -> None:
    assert load_quakes(tmp_path, seed=7) == load_quakes(tmp_path, seed=7)
    assert load_quakes(tmp_path, seed=7) != load_quakes(tmp_path, seed=8)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no data folder"):
        load_quotes(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [("symbol,date\nAAPL,today\n", "2 columns instead of 7"), (QUOTES.replace("2.70", "much"), "no number")],
)
def test_a_wrong_file_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    _write(tmp_path / QUOTES_FILE, text)
    with pytest.raises(UsageError, match=message):
        load_quotes(tmp_path)


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / QUOTES_FILE).write_bytes(gzip.compress((QUOTES + QUOTES.splitlines()[1] + "\n").encode())[:-4])
    with pytest.raises(UsageError, match="cannot be read"):
        load_quotes(tmp_path)
