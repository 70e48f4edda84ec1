"""Every store keeps what it is given; the benchmark has a figure for each."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidewire.benchmarks.store import Plan, run
from tidewire.benchmarks.stores import STORES
from tidewire.cli.app import app
from tidewire.model.errors import UnknownName

OWN = ("tidewire", "sqlite", "disk")  # those that need no download


@pytest.mark.parametrize("name", OWN)
def test_what_is_committed_is_read(name: str, tmp_path: Path) -> None:
    """As many events as were given."""
    store = STORES[name](tmp_path)
    for count in (1, 100, 1000):
        store.commit([b"x" * 200] * count)
    assert store.read_all() == 1101
    store.close()


def test_a_short_run_has_every_figure(tmp_path: Path) -> None:
    """For each store, each size of a group, and the reading."""
    plan = Plan(stores=OWN, groups=(1, 16), rounds=6, turn_s=0.01, read_events=100, folder=tmp_path)
    found = run(plan)
    assert set(found.stores) == set(OWN)
    assert set(found.commit_ratios) == {1, 16}
    assert set(found.commit_ratios[1]) == set(found.read_ratios) == {"sqlite", "disk"}
    assert all(side.commits[16].events_per_s > 0 for side in found.stores.values())
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_store() -> None:
    """The known ones are named."""
    with pytest.raises(UnknownName, match="lmdb"):
        run(Plan(stores=["nothing"]))


def test_the_command(tmp_path: Path) -> None:
    """One document, or a table that fits a terminal."""
    runner = CliRunner()
    arguments = ["bench", "store", "--quick", "--stores", "tidewire,disk", "--folder", str(tmp_path)]
    result = runner.invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["benchmark"] == "store"
    shown = runner.invoke(app, arguments, env={"COLUMNS": "80"}).stdout
    assert "groups of 4096" in shown
    assert max(map(len, shown.splitlines())) <= 80
