"""The ledger keeps what is expected, forgives noise, and fails on a drop that shows twice."""

from pathlib import Path

import pytest

from tidewire.benchmarks import ledger
from tidewire.benchmarks.ledger import Line, measured, read_ledger, renewed, write_ledger
from tidewire.benchmarks.measure import Ratio

BEFORE = {"match.stock": Line(10.0, Ratio(10.0, 9.0, 11.0))}


@pytest.mark.parametrize(
    ("latest", "has_dropped"),
    [
        (Ratio(9.0, 8.5, 9.5), False),
        (Ratio(8.0, 7.0, 8.6), False),  # lower, but 8.5 may still be true
        (Ratio(8.0, 7.0, 8.4), True),
        (Ratio(20.0, 19.0, 21.0), False),
    ],
)
def test_only_a_sure_drop_counts(latest: Ratio, has_dropped: bool) -> None:
    assert Line(10.0, latest).has_dropped is has_dropped


def test_what_is_expected_stays_until_it_is_updated() -> None:
    latest = Ratio(9.0, 8.5, 9.5)
    assert renewed(BEFORE, {"match.stock": latest}, update=False) == {"match.stock": Line(10.0, latest)}
    assert renewed(BEFORE, {"match.stock": latest}, update=True) == {"match.stock": Line(9.0, latest)}
    assert renewed(BEFORE, {"new": latest}, update=False) == BEFORE | {"new": Line(9.0, latest)}


def test_it_is_written_sorted_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "evidence" / "ledger.json"
    assert read_ledger(path) == {}
    write_ledger(path, {"b": Line(2.0, Ratio(1.23456, 1.0, 2.0)), "a": Line(3.0, Ratio(3.0, 3.0, 3.0))})
    assert list(read_ledger(path)) == ["a", "b"]
    assert read_ledger(path)["b"] == Line(2.0, Ratio(1.23, 1.0, 2.0))


def test_a_drop_must_show_twice() -> None:
    low, fine = Ratio(5.0, 4.0, 6.0), Ratio(9.9, 9.0, 10.5)
    runs = iter([low, fine])
    assert measured(lambda _: {"match.stock": next(runs)}, BEFORE, turn_s=0) == {"match.stock": fine}
    runs = iter([low, low])
    assert measured(lambda _: {"match.stock": next(runs)}, BEFORE, turn_s=0) == {"match.stock": low}
    runs = iter([fine])
    assert measured(lambda _: {"match.stock": next(runs)}, BEFORE, turn_s=0) == {"match.stock": fine}


def test_the_command_writes_and_fails_on_a_drop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.json"
    write_ledger(path, BEFORE)
    monkeypatch.setattr(ledger, "MEASURES", {"match": lambda _: {"match.stock": Ratio(5.0, 4.0, 6.0)}})
    assert ledger.main(["--ledger", str(path)]) == 1
    assert "DROPPED: match.stock" in capsys.readouterr().out
    assert read_ledger(path)["match.stock"] == Line(10.0, Ratio(5.0, 4.0, 6.0))
    assert ledger.main(["--ledger", str(path), "--update"]) == 0
    assert read_ledger(path)["match.stock"].expected == 5.0


def test_the_real_measures_give_ratios() -> None:
    found = ledger.measure_parsing(0.001) | ledger.measure_inserting(0.001, filters=200)
    found |= ledger.measure_match(0.001, workload="ranges", filters=500)
    assert set(found) == {
        "insert.ranges.numpy_scan",
        "match.ranges.numpy_scan",
        "match_all.ranges.numpy_scan",
        "memory.ranges.numpy_scan",
        "parse.filter.python_ast",
        "parse.mixed_filter.python_ast",
    }
    assert all(0 < one.low <= one.median <= one.high for one in found.values())
