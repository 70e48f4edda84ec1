"""`tidewire paper`: what there is, how it is asked for, and what comes out. No experiment is run here."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tidewire.cli.app import app
from tidewire.model.errors import Unavailable, UnknownName
from tidewire.papers import registry
from tidewire.papers.figures import svg
from tidewire.papers.report import Claim, Experiment, Figure, Options, Report, Series

CLAIM = Claim(claim="it falls", paper="160 s", measured="90 s", tolerance="finite", holds=True)


def experiment(*, holds: bool = True) -> Experiment:
    claim = msgspec.structs.replace(CLAIM, holds=holds)
    line = Series(name="a < b", x=[0.0, 1.0, 2.0], y=[0.0, 250.0, 100.0])
    figure = Figure(name="f1", title="A & B", x_label="s", y_label="events/s", series=[line])
    report = Report(id="made/E1", claims=[CLAIM, claim], notes=["scaled"], measured={"s": 90.0}, figures=[figure])
    return Experiment(id="made/E1", shows="something", parameters={}, run=lambda _options, _tell: report)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "experiments", lambda _sheet=None: [experiment()])


def test_every_experiment_of_the_sheet_is_there() -> None:
    """gryphon §6: the seven of the sheet, each once, with what it shows in one line."""
    found = registry.experiments("gryphon")
    assert sorted(one.id for one in found) == [f"gryphon/{mark}" for mark in ("C1", "C2", "C3", "E1", "E2", "E3", "E4")]
    assert all(one.shows and "\n" not in one.shows and one.parameters for one in found)


def test_an_id_is_found_in_any_case_and_an_unknown_one_is_named() -> None:
    assert registry.find("GRYPHON/c1").id == "gryphon/C1"
    with pytest.raises(UnknownName, match="gryphon/C1") as caught:
        registry.find("gryphon/C9")
    assert "gryphon/C9" in caught.value.message
    with pytest.raises(UnknownName, match="sheet"):
        registry.experiments("nosuch")


def test_a_verdict_says_what_was_measured_against_what() -> None:
    assert CLAIM.verdict == "holds"
    assert msgspec.structs.replace(CLAIM, holds=False).verdict == "differs: measured 90 s against 160 s"


@pytest.mark.usefixtures("made")
def test_one_report_is_a_document_and_several_are_a_list(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["paper", "run", "made/E1", "--json", "--out", str(tmp_path)])
    document = msgspec.json.decode(made.stdout)
    assert made.exit_code == 0
    assert document["id"] == "made/E1"
    assert document["holds"] is True
    assert set(document["claims"][0]) == {"claim", "paper", "measured", "tolerance", "holds"}
    assert [path.name for path in tmp_path.iterdir()] == ["made-f1.svg"]
    several = CliRunner().invoke(app, ["paper", "run", "made/E1", "made/E1", "--json"])
    assert len(msgspec.json.decode(several.stdout)) == 2


def test_seeds_are_so_many_or_from_one_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    report = experiment().run(Options(), lambda *_: None)

    def run(options: Options, _tell: object) -> Report:
        seen.append(options.seed)
        return report

    made = msgspec.structs.replace(experiment(), run=run)
    monkeypatch.setattr(registry, "experiments", lambda _sheet=None: [made])
    for asked in (["--seeds", "2"], ["--seed", "7", "--seeds", "2"], ["--seeds", "5..6"]):
        assert CliRunner().invoke(app, ["paper", "run", "made/E1", *asked, "--json"]).exit_code == 0
    assert seen == [1, 2, 7, 8, 5, 6]
    for wrong in ("0", "6..5", "many"):
        refused = CliRunner().invoke(app, ["paper", "run", "made/E1", "--seeds", wrong, "--json"])
        assert refused.exit_code == 2
        assert wrong in msgspec.json.decode(refused.stdout)["error"]["message"]
    assert len(seen) == 6


def test_a_claim_that_does_not_hold_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "experiments", lambda _sheet=None: [experiment(holds=False)])
    made = CliRunner().invoke(app, ["paper", "run", "made/E1"])
    assert made.exit_code == 3
    assert "differs: measured 90 s against 160 s" in made.stdout


def _failing(error: Exception) -> Experiment:
    def run(_options: Options, _tell: object) -> Report:
        raise error

    return msgspec.structs.replace(experiment(), id="made/E2", run=run)


@pytest.mark.parametrize(
    ("error", "code"), [(Unavailable("no broker came"), "unavailable"), (OSError("no broker came"), "failed")]
)
def test_what_is_done_is_told_though_another_one_fails(
    error: Exception, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed one is told too, with why; those behind it are run."""
    monkeypatch.setattr(registry, "experiments", lambda _sheet=None: [experiment(), _failing(error)])
    made = CliRunner().invoke(app, ["paper", "run", "made/E1", "made/E2", "made/E1", "--json"])
    first, failed, last = msgspec.json.decode(made.stdout)
    assert made.exit_code == 2
    assert (first["id"], first["holds"]) == (last["id"], last["holds"]) == ("made/E1", True)
    assert (failed["id"], failed["holds"], failed["claims"]) == ("made/E2", False, [])
    assert failed["error"]["code"] == code
    assert "no broker came" in failed["error"]["message"]
    assert "error" not in first
    for_people = CliRunner().invoke(app, ["paper", "run", "made/E2", "made/E1"])
    assert for_people.exit_code == 2
    assert "no broker came" in for_people.stdout
    assert "160 s" in for_people.stdout


@pytest.mark.usefixtures("made")
def test_the_list_names_them_and_an_unknown_one_is_an_error() -> None:
    assert "made/E1" in CliRunner().invoke(app, ["paper", "list"]).stdout
    unknown = CliRunner().invoke(app, ["paper", "run", "made/E7", "--json"])
    assert unknown.exit_code == 2
    assert msgspec.json.decode(unknown.stdout)["error"]["code"] == "unknown-name"


@pytest.mark.usefixtures("made")
def test_only_what_is_scalable_is_scaled() -> None:
    refused = CliRunner().invoke(app, ["paper", "run", "made/E1", "--scale", "10", "--json"])
    assert refused.exit_code == 2
    assert "made/E1: there is one size only" in msgspec.json.decode(refused.stdout)["error"]["message"]
    assert CliRunner().invoke(app, ["paper", "run", "made/E1", "--scale", "1", "--json"]).exit_code == 0


def test_a_figure_is_well_formed_and_holds_every_line() -> None:
    figure = experiment().run(Options(), lambda *_: None).figures[0]
    drawn = svg(figure)
    root = ET.fromstring(drawn)
    (line,) = root.iter("{http://www.w3.org/2000/svg}polyline")
    places = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert len(places) == 3
    assert places[1][1] < places[2][1] < places[0][1], "more is further up"
    assert places[0][0] < places[1][0] < places[2][0]
    assert svg(figure) == drawn
    assert len(drawn) < 4096


def test_many_points_are_thinned_and_a_flat_line_is_drawn() -> None:
    xs = [float(i) for i in range(10_000)]
    long = Figure(name="f", title="t", x_label="x", y_label="y", series=[Series(name="a", x=xs, y=[5.0] * len(xs))])
    assert len(svg(long)) < 10_000
    empty = Figure(name="f", title="t", x_label="x", y_label="y", series=[Series(name="a", x=[], y=[])])
    assert "</svg>" in svg(empty)
