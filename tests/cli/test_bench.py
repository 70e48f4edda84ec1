"""`tidewire bench match`: one document with every figure, or a table that fits a terminal."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from tidewire.benchmarks import slow, wire
from tidewire.cli import bench_slow, bench_wire
from tidewire.cli.app import app

runner = CliRunner()
SIDE = {"us_per_event", "events_per_s", "bytes_per_filter", "inserts_per_s", "removes_per_s"}


def match(*arguments: str, folder: Path) -> list[str]:
    return ["bench", "match", "--filters", "2000", "--events", "256", "--quick", "--data", str(folder), *arguments]


@pytest.mark.parametrize("workload", ["stock", "ranges", "selective"])
def test_the_document_has_every_figure(workload: str, tmp_path: Path) -> None:
    result = runner.invoke(app, match("--workload", workload, "--json", folder=tmp_path))
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    assert (found["benchmark"], found["workload"], found["filters"]) == ("match", workload, 2000)
    assert set(found["matches_per_event"]) == {"subscriptions", "filters", "destinations"}
    assert set(found["tidewire"]) >= SIDE
    assert set(found["numpy"]) >= SIDE
    assert set(found["ratio"]) == {"median", "low", "high"}
    assert found["ratio"]["low"] <= found["ratio"]["median"] <= found["ratio"]["high"]


def test_the_table_fits_a_terminal(tmp_path: Path) -> None:
    result = runner.invoke(app, match("--workload", "stock", folder=tmp_path), env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("CPU µs per event" in line and "×" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--workload", "stocks"], "unknown-name"),
        (["--filters", "0"], "usage"),
        (["--filters", "many"], "usage"),
        (["--events", "-1"], "usage"),
        (["--data", "nowhere/at/all"], "usage"),
        (["--pears", "3"], "usage"),
    ],
)
def test_bad_input_has_a_code_and_no_traceback(arguments: list[str], code: str) -> None:
    result = runner.invoke(app, ["bench", "match", *arguments, "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == code
    result = runner.invoke(app, ["bench", "match", *arguments])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "making the workload" not in result.stderr


def test_the_environment_names_the_data_folder() -> None:
    result = runner.invoke(app, ["bench", "match", "--json"], env={"TIDEWIRE_DATA": "nowhere/at/all"})
    assert result.exit_code == 2
    assert "nowhere/at/all" in json.loads(result.stdout)["error"]["message"]


EVIDENCE = Path(__file__).resolve().parents[2] / "docs" / "evidence"


@pytest.mark.parametrize(
    ("name", "kind", "show", "rows"),
    [
        (
            "slow",
            slow.Report,
            bench_slow._show,
            [r"CPU µs per event +30\.9 +29\.9 +0\.973× \(0\.921–1\.02\)", r"p99 µs +967 +1,245 ", r"MB +53 +65\.7"],
        ),
        ("wire", wire.Report, bench_wire._show, [r"^one_to_one +CPU µs +deliveries/s", r"^nats +[\d.]+ +[\d,]+ "]),
    ],
)
def test_the_evidence_is_shown_as_a_run_is(
    name: str, kind: Any, show: Any, rows: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The reports in the documents are of today's shape, and their tables have what they say."""
    show(msgspec.json.decode((EVIDENCE / f"{name}.json").read_bytes(), type=kind))
    shown = capsys.readouterr().out
    for row in rows:
        assert re.search(row, shown, re.MULTILINE), shown
