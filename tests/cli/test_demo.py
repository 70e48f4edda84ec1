"""`tidewire demo matcher`: the index finds what the scan finds, and the reasons are told."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.channels.emergencies import columns
from tests.spark.bench import fed_rows
from tidewire.benchmarks.data import load_quakes, load_quotes
from tidewire.benchmarks.scene import interests
from tidewire.benchmarks.whereabouts import (
    CHANNEL,
    QUAKES,
    REFERENCE,
    due,
    dwellers,
    numbered_event,
    reference_rows,
    strong,
)
from tidewire.channels.declaration import declare
from tidewire.channels.evaluator import evaluate
from tidewire.channels.schemas import Catalog, Dataset
from tidewire.cli.app import app
from tidewire.language import compile_filter

runner = CliRunner()


def test_the_document(tmp_path: Path) -> None:
    result = runner.invoke(app, ["demo", "matcher", "--subscriptions", "1000", "--data", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["subscriptions"] == 1000
    assert found["people"] == 200
    assert found["deliveries"] > 0
    assert found["ratio"] > 1
    for example in found["examples"]:
        assert (example["people"] > 0) is (example["gets_it"] is not None)
        if example["gets_it"]:
            assert example["gets_it"]["explanation"]["outcome"] == "true"
        if example["does_not"]:
            assert example["does_not"]["explanation"]["outcome"] != "true"


def test_what_people_see_fits_a_terminal(tmp_path: Path) -> None:
    arguments = ["demo", "matcher", "--subscriptions", "500", "--data", str(tmp_path)]
    result = runner.invoke(app, arguments, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()) <= 80
    for part in ("100 people", "of CPU per event", "gets it", "does not", "Try next"):
        assert part in result.stdout


def test_every_interest_can_be_read(tmp_path: Path) -> None:
    quakes, quotes = load_quakes(tmp_path), load_quotes(tmp_path)
    for one in interests(quakes, quotes, count=500, seed=1):
        assert compile_filter(one.text).conjunctions


def test_too_many_subscriptions_are_refused() -> None:
    result = runner.invoke(app, ["demo", "matcher", "--subscriptions", "100000000", "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "usage"


def test_the_network_loses_nothing_while_a_broker_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java it is said why there is no channel; all else is shown."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    result = runner.invoke(app, ["demo", "--seconds", "3", "--rate", "200", "--data", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["deliveries"] > 0
    assert found["moved"] > 0
    assert (found["lost"], found["twice"], found["out_of_order"]) == (0, 0, 0)
    assert found["channel"] is None
    assert "JAVA_HOME" in found["why_no_channel"]


def test_the_channel_tells_people_what_is_due_to_them(tmp_path: Path) -> None:
    """By the evaluator; the demo counts by asking every pair."""
    datasets = [Dataset(name="quakes", columns=columns(QUAKES), is_feed=True)]
    datasets += [Dataset(name=name, columns=columns(text), key=(key,)) for name, (text, key) in REFERENCE.items()]
    query = declare(CHANNEL, Catalog(datasets)).query
    quakes, people = strong(load_quakes(tmp_path))[:150], dwellers(40)
    rows = reference_rows(people)
    new = fed_rows([numbered_event(number, quake) for number, quake in enumerate(quakes)])
    wanted = due(quakes, people)
    heard = [one for one in people if wanted[one.person]][:3]
    assert len(heard) == 3
    for one, other in zip(heard, reversed(people), strict=False):
        standing = {
            "people": [row for row in rows["people"] if row["person"] in (one.person, other.person)],
            "places": [row for row in rows["places"] if row["place"] in (one.place, other.place)],
            "stations": rows["stations"],
        }
        joined = [standing[source.dataset] for source in query.sources[1:]]
        found = evaluate(query, new, joined, (one.person, one.least))
        assert {row.cells[0] for row in found} == wanted[one.person]
        assert all(isinstance(row.cells[3], float) and row.cells[3] <= 300_000 for row in found)
