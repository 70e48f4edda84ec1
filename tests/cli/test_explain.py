"""`tidewire explain`: the meaning, the cost, and which predicate decided; in words and as one document."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from tidewire.cli.app import app

QUAKE = "class = 'QUAKE' and magnitude >= 6"
runner = CliRunner()


def explained(*arguments: str, given: str | None = None) -> dict[str, Any]:
    result = runner.invoke(app, ["explain", *arguments, "--json"], input=given)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_a_filter_alone() -> None:
    found = explained(QUAKE)
    assert found["conjunctions"] == 1
    assert found["cost"] > 0
    assert "magnitude is at least 6" in found["meaning"][0]
    assert found["outcome"] is None


@pytest.mark.parametrize(
    ("event", "outcome", "decided_by"),
    [
        ('{"class": "QUAKE", "magnitude": 6.4}', "true", ["class = 'QUAKE'", "magnitude >= 6"]),
        ('{"class": "QUAKE", "magnitude": 5}', "false", ["magnitude >= 6"]),
        ('{"class": "QUAKE"}', "unknown", ["magnitude >= 6"]),
        ("[class,'QUAKE'],[magnitude,7]", "true", ["class = 'QUAKE'", "magnitude >= 6"]),
    ],
)
def test_an_event_is_decided(event: str, outcome: str, decided_by: list[str]) -> None:
    found = explained(QUAKE, event)
    assert found["outcome"] == outcome
    assert [decision["predicate"] for decision in found["decisions"]] == decided_by


def test_tuples_are_read_as_filters() -> None:
    """peer §1.1: the notation of PADRES."""
    found = explained("[class,eq,'STOCK'],[volume,>,15]", "[class,'STOCK'],[volume,20]")
    assert found["normal_form"] == "class = 'STOCK' and volume > 15"
    assert found["outcome"] == "true"


def test_nested_attributes_have_dotted_names() -> None:
    assert explained("where.lat > 3", '{"where": {"lat": 4}}')["outcome"] == "true"


def test_either_may_come_from_standard_input() -> None:
    assert explained(QUAKE, "-", given='{"class": "QUAKE", "magnitude": 7}\n')["outcome"] == "true"
    assert explained("-", given=QUAKE + "\n")["text"] == QUAKE


def test_the_words_for_people() -> None:
    result = runner.invoke(app, ["explain", QUAKE, '{"class": "QUAKE", "magnitude": 5}'])
    assert result.exit_code == 0
    assert "does not match" in result.stdout
    assert "magnitude >= 6 is false: magnitude is 5" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["magnitude >"], "filter-syntax"),
        (["[class,eq"], "filter-syntax"),
        (["(" * 5_000], "filter-too-deep"),
        (["x = 1", "{not json"], "usage"),
        (["x = 1", "[x, 1, 2]"], "filter-syntax"),
        (["x = 1", "[1,2]"], "filter-syntax"),
        (["a" * 300 + " = 1"], "attribute-name"),
        (["x = 1", '"text"'], "usage"),
        (["x = 1", "12"], "usage"),
        (["x = 1", '{"x": [1]}'], "value-type"),
        (["x = 1", '{"x": 18446744073709551616}'], "value-range"),
        (["x = 1", '{"": 1}'], "attribute-name"),
        (["x = 1", '{"x": ' * 100_000], "usage"),
        (["-", "-"], "usage"),
        (["x = 1", "{}", "{}"], "usage"),
        ([], "usage"),
    ],
)
def test_bad_input_has_a_code_and_no_traceback(arguments: list[str], code: str) -> None:
    result = runner.invoke(app, ["explain", *arguments, "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == code
    result = runner.invoke(app, ["explain", *arguments])
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_invalid_utf8_is_an_error() -> None:
    result = runner.invoke(app, ["explain", "-", "--json"], input=b"x = '\xff'")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"].startswith("filter")


@pytest.mark.parametrize("arguments", [["x = '\udcff'"], ["x = 1", '{"x": "\udcff"}']])
def test_an_argument_that_is_not_utf8_is_an_error_at_the_byte(arguments: list[str]) -> None:
    result = runner.invoke(app, ["explain", *arguments, "--json"])
    assert result.exit_code == 2
    assert "(0xff) is not UTF-8" in json.loads(result.stdout)["error"]["message"]


def test_a_lone_surrogate_is_an_error() -> None:
    result = runner.invoke(app, ["explain", "x = 1", '{"x": "\udcff"}', "--json"])
    assert result.exit_code == 2
    assert "error" in json.loads(result.stdout)


def test_an_interrupt_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidewire.cli.explain.explain_filter", interrupted)
    result = runner.invoke(app, ["explain", QUAKE])
    assert result.exit_code == 130
    assert result.output == ""
