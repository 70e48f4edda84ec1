"""`tidewire bench balance`: a network converges, and every figure is there."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from tidewire.cli.app import app


def test_a_small_network_converges() -> None:
    """peer V4: without a change from outside it comes to rest, within the threshold."""
    result = CliRunner().invoke(
        app, ["bench", "balance", "--quick", "--subscribers", "200", "--edges", "2", "--decision", "1000", "--json"]
    )
    assert result.exit_code == 0, result.output
    (run,) = json.loads(result.stdout)["runs"]
    assert run["converged_s"] is not None
    assert run["spread"] <= 0.1
    assert run["sessions"] > 0
    assert 0 < run["moved"] <= 400
    assert 0 < run["overhead"] < 1
    assert run["deliveries"] > 0
    decisions = json.loads(result.stdout)["decisions"]
    assert {one["is_overloaded"] for one in decisions} == {False, True}
    assert all(one["session_s"]["low"] <= one["session_s"]["median"] <= one["session_s"]["high"] for one in decisions)
