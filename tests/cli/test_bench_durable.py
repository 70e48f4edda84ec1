"""`tidewire bench durable`: a table for each scenario, with what each server promises."""

import msgspec
import pytest
from typer.testing import CliRunner

from tidewire.benchmarks.disk import Disk
from tidewire.benchmarks.durable import Best, Figures, Plan, Ratios, Report
from tidewire.benchmarks.measure import Ratio, Spread
from tidewire.cli.app import app

runner = CliRunner()


def test_what_is_durable_is_shown_with_what_each_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest lines that there may be fit a terminal of 80 columns."""
    monkeypatch.setattr("tidewire.benchmarks.durable.run", lambda plan, **_: _durable_report(plan))
    result = runner.invoke(app, ["bench", "durable", "--quick", "--missed", "50000"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("publishers_100") for line in lines)
    assert any("1,234,567 (1.1M–1.3M)" in line and " 123k " in line and "2.5× (2.41–2.63)" in line for line in lines)
    assert any("50,000" in line for line in lines)
    assert "redis: It is somewhere." in lines
    assert "fdatasync" in result.stdout


def _durable_report(plan: Plan) -> Report:
    much, ratio = Spread(123_456.0, 100_000.0, 234_567.0), Ratio(2.5, 2.41, 2.63)
    rate = Spread(1_234_567.0, 1_100_000.0, 1_300_000.0)
    figures = Figures(
        cpu_us_per_event=much, events_per_s=rate, ack_p50_us=much, ack_p99_us=much, client_cpu_us_per_event=1.0,
        client_cpu_share=0.5, events_per_round=plan.missed_events, promise="It is somewhere.", syncs=True,
    )  # fmt: skip
    read = msgspec.structs.replace(figures, ack_p50_us=None, ack_p99_us=None)
    ratios = Ratios(cpu=ratio, events=ratio, ack_p50=ratio, ack_p99=ratio)
    return Report(
        benchmark="durable", machine="m", payload_bytes=200, rounds=plan.rounds, turn_s=plan.turn_s,
        missed_events=plan.missed_events, versions={"redis": "1"}, missing={"nats": "no network"},
        disk=Disk(file_system="ext4", written_bytes=1, **dict.fromkeys(Disk.__struct_fields__[2:], much)),
        scenarios={"publishers_100": {"tidewire": figures, "redis": figures}, "catch_up": {"redis group": read, "redis xread": read}},
        ratios={"publishers_100": {"redis": ratios}, "catch_up": {"redis group": ratios, "redis xread": ratios}},
        best_that_syncs={"publishers_100": Best(peer="redis", events=ratio)}, warnings=["be careful"],
    )  # fmt: skip
