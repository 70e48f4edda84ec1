"""The fit finds what is there, and the rig does what a broker does."""

import json

import pytest
from typer.testing import CliRunner

from tidewire.benchmarks.calibrate import Plan, Run, fit, run, selective
from tidewire.cli.app import app
from tidewire.language import compile_filter
from tidewire.model.filters import encode_filter
from tidewire.simulator.costs import Measured


def test_constants_that_were_put_in_come_out() -> None:
    """Runs that follow a model exactly give its constants back; one that would be negative is none."""
    runs = [
        Run(events=k, subscribers=m, filters=n, us=2 + 0.1 * k + 0.15 * k * m + 1.0 * m)
        for k in (1, 4, 16, 64)
        for m, n in ((0, 0), (1, 0), (4, 0), (16, 0), (1, 1000), (1, 100_000))
    ]
    found = fit(runs)
    assert found == pytest.approx(
        {"call_ns": 2000, "event_ns": 100, "copy_ns": 150, "write_ns": 1000, "doubling_ns": 0}, abs=0.01
    )


def test_the_filters_are_those_of_the_compiler() -> None:
    """They are made from one by putting another symbol in its place."""
    assert selective(3)[2] == encode_filter(compile_filter("symbol = 'S00002' and price > 1000000"))


def test_a_short_run_has_every_constant() -> None:
    """Those that the simulator has, all that cost something, and as many deliveries as there must be."""
    found = run(Plan().shortened())
    assert set(found.measured) == set(found.in_simulator) == set(Measured.__struct_fields__)
    assert found.measured["call_ns"] > 0
    assert found.measured["message_ns"] > 1000
    assert len(found.runs) == 6


def test_the_command() -> None:
    """One document, or a table that fits a terminal."""
    runner = CliRunner()
    result = runner.invoke(app, ["bench", "calibrate", "--quick", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["benchmark"] == "calibrate"
    shown = runner.invoke(app, ["bench", "calibrate", "--quick"], env={"COLUMNS": "80"}).stdout
    assert "a connection written to" in shown
