"""`tidewire bench balance`: a network converges, and every figure is there."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from tidewire.cli.app import app


def test_a_small_network_converges() -> None:
    """peer V4: without a change from outside it comes to rest, within the threshold."""
    result = CliRunner().invoke(
        app, ["bench", "balance", "--subscribers", "100", "--edges", "2", "--decision", "1000", "--json"]
    )
    assert result.exit_code == 0, result.output
    (run,) = json.loads(result.stdout)["runs"]
    assert run["converged_s"] is not None
    assert run["spread"] <= 0.1
    assert run["sessions"] > 0
    assert 0 < run["moved"] <= 100
    assert 0 < run["overhead"] < 1
    assert json.loads(result.stdout)["decision"]["moves"] > 0
