"""The large network, small: every promise is checked in it, too."""

import json

from typer.testing import CliRunner

from tidewire.benchmarks.large import Plan, run
from tidewire.cli.app import app


def test_a_small_one_keeps_every_promise() -> None:
    """And says what it took."""
    stages: list[str] = []
    found = run(Plan(brokers=40, seconds=20.5), tell=lambda stage, step=0, steps=0: stages.append(f"{stage} {step}"))
    assert found.violations == []
    assert (found.brokers, found.clients, found.simulated_s) == (40, 41, 20.5)
    assert found.deliveries > 10
    assert found.cpu_s > 0
    assert found.peak_rss_mb > 10
    assert stages[-2:] == ["simulating 40 brokers for 20.5 s 20", "checking every delivery 0"]


def test_the_command() -> None:
    """One document; and a network that has not come to rest in time is not blamed for it."""
    result = CliRunner().invoke(app, ["sim", "--brokers", "12", "--seconds", "8", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["brokers"] == 12
    shown = CliRunner().invoke(app, ["sim", "--brokers", "12", "--seconds", "8"]).stdout
    assert "no violation" in shown
    assert "CPU s" in shown
