"""`tidewire bench durable`: a table for each scenario, with what each server promises."""

import msgspec
import pytest
from typer.testing import CliRunner

from tidewire.benchmarks import catchup
from tidewire.benchmarks.beside import Flow
from tidewire.benchmarks.disk import Disk
from tidewire.benchmarks.durable import Best, Figures, Plan, Ratios, Report
from tidewire.benchmarks.load import Delays
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
    said = " ".join(lines)
    assert "publishers_100: ours stores 2.5×" in said
    assert "catch_up: ours reads 2.5×" in said
    assert "fdatasync" in result.stdout


def test_what_others_notice_of_one_who_catches_up_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as JSON, and nothing else then."""
    monkeypatch.setattr("tidewire.benchmarks.catchup.run", lambda plan, **_: _catchup_report(plan))
    result = runner.invoke(app, ["bench", "catchup", "--quick", "--missed", "50000"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "guaranteed p99 µs     400     500  1.25× (1.1–1.4)" in result.stdout
    assert "Caught up with 1,234,567 events/s" in result.stdout
    assert "50,000 events were missed" in result.stdout
    result = runner.invoke(app, ["bench", "catchup", "--json"])
    assert msgspec.json.decode(result.stdout, type=catchup.Report).missed_events == 1_000_000


def _catchup_report(plan: catchup.Plan) -> catchup.Report:
    def flow(p99: float) -> Flow:
        return Flow(cpu_us_per_event=1.0, delay_us=Delays(p50=100.0, p99=p99, p999=p99, max=p99), lost=0)

    ratio = Ratio(1.25, 1.1, 1.4)
    others = catchup.Others(alone=flow(400.0), beside=flow(500.0), delay_p50=ratio, delay_p99=ratio)
    return catchup.Report(
        benchmark="catchup", machine="m", rounds=plan.rounds, missed_events=plan.missed_events, rate=plan.rate,
        disk=_DISK, flows={"best_effort": others, "guaranteed": others}, covered=1.0, delay_max=catchup.DELAY_MAX,
        events_per_s=Spread(1_234_567.0, 1_100_000.0, 1_300_000.0),
    )  # fmt: skip


_MUCH = Spread(123_456.0, 100_000.0, 234_567.0)
_DISK = Disk(file_system="ext4", written_bytes=1, **dict.fromkeys(Disk.__struct_fields__[2:], _MUCH))


def _durable_report(plan: Plan) -> Report:
    much, ratio = _MUCH, Ratio(2.5, 2.41, 2.63)
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
        disk=_DISK,
        scenarios={
            "publishers_100": {"tidewire": figures, "redis": figures},
            "catch_up": {"redis group": read, "redis xread": read},
        },
        ratios={"publishers_100": {"redis": ratios}, "catch_up": {"redis group": ratios, "redis xread": ratios}},
        best_that_syncs=dict.fromkeys(("publishers_100", "catch_up"), Best(peer="redis", events=ratio)),
        warnings=["be careful"],
    )  # fmt: skip
