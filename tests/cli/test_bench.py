"""`tidewire bench`: one document with every figure, or a table that fits a terminal."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from tidewire.benchmarks.disk import Disk
from tidewire.benchmarks.durable import Best, Figures, Plan, Ratios, Report
from tidewire.benchmarks.measure import Ratio, Spread
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


def test_what_is_durable_is_shown_with_what_each_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest lines that there may be fit a terminal of 100 columns."""
    monkeypatch.setattr("tidewire.benchmarks.durable.run", lambda plan, **_: _durable_report(plan))
    result = runner.invoke(app, ["bench", "durable", "--quick", "--missed", "50000"], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("publishers_100") for line in lines)
    assert any("123,456 (100,000–234,567)" in line and "2.5× (2.4–2.6)" in line for line in lines)
    assert any("50,000" in line for line in lines)
    assert "redis: It is somewhere." in lines
    assert "fdatasync" in result.stdout


def _durable_report(plan: Plan) -> Report:
    much, ratio = Spread(123_456.0, 100_000.0, 234_567.0), Ratio(2.5, 2.4, 2.6)
    figures = Figures(
        cpu_us_per_event=much, events_per_s=much, ack_p50_us=much, ack_p99_us=much, client_cpu_us_per_event=1.0,
        client_cpu_share=0.5, events_per_round=plan.missed_events, promise="It is somewhere.", syncs=True,
    )  # fmt: skip
    read = msgspec.structs.replace(figures, ack_p50_us=None, ack_p99_us=None)
    ratios = Ratios(cpu=ratio, events=ratio, ack_p50=ratio, ack_p99=ratio)
    return Report(
        benchmark="durable", machine="m", payload_bytes=200, rounds=plan.rounds, turn_s=plan.turn_s,
        missed_events=plan.missed_events, versions={"redis": "1"}, missing={"nats": "no network"},
        disk=Disk(file_system="ext4", written_bytes=1, **dict.fromkeys(Disk.__struct_fields__[2:], much)),
        scenarios={"publishers_100": {"redis": figures}, "catch_up": {"redis group": read, "redis xread": read}},
        ratios={"publishers_100": {"redis": ratios}, "catch_up": {"redis group": ratios, "redis xread": ratios}},
        best_that_syncs={"publishers_100": Best(peer="redis", events=ratio)}, warnings=["be careful"],
    )  # fmt: skip
