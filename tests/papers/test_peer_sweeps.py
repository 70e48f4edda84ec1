"""peer E2 to E11: what is planned, how it is judged, and that it runs. What they find is not judged at this size."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.progress import tell_nobody
from tidewire.model.errors import TidewireError
from tidewire.model.notes import Note
from tidewire.papers import registry
from tidewire.papers.figures import svg
from tidewire.papers.parallel import run_all
from tidewire.papers.peer.clusters import (
    WORLDWIDE,
    Meeting,
    chain,
    clusters,
    clusters_converged_s,
    means,
    meetings,
    star,
    subscribers,
)
from tidewire.papers.peer.micro import SWEEPS
from tidewire.papers.peer.scene import Look, Scene, Seen
from tidewire.papers.peer.sweeps import SEEDS, Outcome, Point, Run, outcome, planned
from tidewire.papers.peer.workload import workload
from tidewire.papers.report import Options

BY_ID = {sweep.id: sweep for sweep in SWEEPS}
FINE = Outcome(
    value=0.0,
    converged_s=1500.0,
    end_s=3000.0,
    input_spread=0.02,
    output_spread=0.03,
    delay_spread_s=0.001,
    input_error=0.01,
    output_error=0.001,
    sessions=20,
    cluster_sessions=6,
    overhead=0.003,
    delivery_s=0.05,
    input_max=2.0,
    overloaded_s=300.0,
    counts={"B10": 500.0, "B20": 500.0, "B30": 500.0, "B40": 500.0},
    highest={"B10": 0.5, "B20": 0.4, "B30": 0.25, "B40": 0.1},
)


def point(value: float, **changed: Any) -> Point:
    return Point(value, [msgspec.structs.replace(FINE, value=value, **changed)])


def differing(mark: str, *points: Point) -> list[str]:
    """The beginnings of the claims that do not hold."""
    return [claim.claim for claim in BY_ID[f"peer/{mark}"].judge(list(points)) if not claim.holds]


def test_every_experiment_of_the_sheet_is_there() -> None:
    """peer E2 to E11, each once."""
    found = [one.id for one in registry.experiments("peer")]
    assert found[1:11] == [f"peer/E{number}" for number in range(2, 12)]


def test_a_point_is_the_mean_of_three_seeds() -> None:
    """peer §10: and quick, one seed of few points."""
    sweep = BY_ID["peer/E7"]
    runs = planned(sweep, Options(seed=5, scale=4))
    assert len(runs) == SEEDS * len(sweep.values)
    assert {run.seed for run in runs} == {5, 6, 7}
    assert {run.scale for run in runs} == {4}
    assert {run.balance.local_delay for run in runs} == set(sweep.values)
    assert len(planned(sweep, Options(is_quick=True))) == len(sweep.quick)
    assert len(planned(sweep, Options(runs=2))) == 2 * len(sweep.values)


@pytest.mark.parametrize(
    ("mark", "fine", "bad"),
    [
        ("E3", {}, {"converged_s": 4000.0}),
        ("E3", {}, {"input_error": 0.09}),
        ("E4", {}, {"converged_s": None}),
        ("E5", {"delivery_s": 0.04}, {"delivery_s": 0.09}),
        ("E6", {"overloaded_s": 400.0}, {"overloaded_s": 100.0}),
        ("E7", {}, {"sessions": 60}),
        ("E8", {"overhead": 0.001}, {"overhead": 0.006}),
        ("E9", {"delivery_s": 0.04}, {"delivery_s": 0.06}),
        ("E10", {}, {"cluster_sessions": 9}),
        ("E11", {}, {"overhead": 0.006}),
    ],
)
def test_a_sweep_is_judged_by_its_points(mark: str, fine: dict[str, Any], bad: dict[str, Any]) -> None:
    """peer E3 to E11: a point that is not as the thesis has it is seen."""
    first, last = BY_ID[f"peer/{mark}"].quick
    assert differing(mark, point(first), point(last, **fine)) == []
    assert len(differing(mark, point(first), point(last, **fine), point(last * 1.5, **bad))) >= 1


def test_a_cluster_that_is_not_loaded_passes_nothing_on() -> None:
    """peer E9: B50 to B80 have no subscribers, as B40 is within the threshold."""
    counts = {**FINE.counts, "B50": 3.0}
    assert differing("E9", point(1), point(8, delivery_s=0.04, counts=counts)) != []
    loaded = {**FINE.highest, "B40": 0.3}
    assert differing("E9", point(1), point(8, delivery_s=0.04, counts=counts, highest=loaded)) == []


def test_a_point_of_which_one_run_did_not_converge_has_not() -> None:
    runs = [FINE, msgspec.structs.replace(FINE, converged_s=None)]
    assert Point(1.0, runs).converged_s is None
    assert [one.lasted_s for one in runs] == [1500.0, 3000.0]


# -- clusters ----------------------------------------------------------------------------------------------------------


def chained() -> Scene:
    """E2's network, before anything happens."""
    work = workload(seed=1, subscribers=20, idle_share=0.2, data=None)
    return Scene(clusters(WORLDWIDE, scale=100), chain(list(WORLDWIDE)), work, balance=BalancingConfig())


def look(at_s: float, scene: Scene, inputs: dict[str, float]) -> Look:
    """Both edges of a cluster alike."""
    seen = {
        edge: Seen(inputs[one.head], 0.5, 0.02, 0.5, 10, 0.0, 0.0, "OK") for one in scene.clusters for edge in one.edges
    }
    return Look(at_s, seen, 1, 0.1, 0.0)


def test_neighbours_are_to_be_even_not_all() -> None:
    """peer E2a: 0.15 for each hop, so that the ends of the chain may be 0.45 apart."""
    scene, config = chained(), BalancingConfig()
    links = chain(list(WORLDWIDE))
    falling = {"B10": 0.7, "B20": 0.56, "B30": 0.42, "B40": 0.28}
    steep = falling | {"B10": 0.9}
    scene.looks += [look(at_s, scene, steep if at_s < 100 else falling) for at_s in range(0, 300, 10)]
    at_s = clusters_converged_s(scene, links, config, begin_s=0.0, end_s=300.0)
    assert at_s is not None
    assert 100 <= at_s < 160
    assert clusters_converged_s(scene, star(list(WORLDWIDE)), config, begin_s=0.0, end_s=300.0) is None
    assert means(scene, scene.looks[-1:], lambda one: one.input) == pytest.approx(falling)
    assert subscribers(scene, scene.looks) == dict.fromkeys(WORLDWIDE, 20)


def test_who_asked_tells_of_a_session_between_clusters() -> None:
    """peer §6.3: one for both heads, and one that has not ended."""
    scene = chained()
    for head, partner, asks in (("B10", "B20", True), ("B20", "B10", False)):
        notes = scene.world.brokers[head].notes
        if asks:
            notes.append((int(1e9), Note("asks another cluster", {"cluster": partner})))
        notes.append((int(2e9), Note("clusters balance", {"with": partner})))
        notes.append((int(5e9), Note("clusters no longer balance", {"with": partner, "why": "all are even"})))
    notes = scene.world.brokers["B30"].notes
    notes.append((int(6e9), Note("asks another cluster", {"cluster": "B40"})))
    notes.append((int(7e9), Note("clusters balance", {"with": "B40"})))
    notes = scene.world.brokers["B40"].notes  # both have asked (peer S2)
    notes.append((int(6e9), Note("asks another cluster", {"cluster": "B30"})))
    notes.append((int(7.1e9), Note("clusters balance", {"with": "B30"})))
    assert meetings(scene) == [
        Meeting(2.0, 5.0, "B10", "B20", "all are even"),
        Meeting(7.0, None, "B30", "B40", ""),
    ]


# -- runs --------------------------------------------------------------------------------------------------------------


def squared(number: int) -> int:
    if number < 0:
        raise TidewireError("not below 0")
    return number * number


def test_runs_side_by_side_are_in_their_order() -> None:
    told: list[tuple[int, int]] = []
    found = run_all(
        squared, [3, 1, 2], lambda _stage, step=0, steps=0: told.append((step, steps)), stage="x", at_once=2
    )
    assert found == [9, 1, 4]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert run_all(squared, [3, 1], tell_nobody, stage="x", at_once=1) == [9, 1]


@pytest.mark.slow
def test_a_run_is_the_same_in_another_process() -> None:
    """peer E5, a fifth of its time, a fortieth of its subscribers: it ends, and chance comes from the seed alone."""
    run = Run(value=2, layout="edges", size=2, scale=40, end_s=600.0)
    here = outcome(run)
    assert [here] * 2 == run_all(outcome, [run, run], tell_nobody, stage="E5", at_once=2)
    assert here.counts["B0"] >= 28
    assert here.input_max > 0


@pytest.mark.slow
def test_a_chain_of_clusters_spreads_what_enters_at_one_edge() -> None:
    """peer E2, quick: all of its claims and figures are there, and load has gone beyond the first cluster."""
    report = registry.find("peer/E2").run(Options(is_quick=True), tell_nobody)
    assert {claim.claim.partition(":")[0] for claim in report.claims} == {"E2", *(f"E2{part}" for part in "abcdef")}
    assert len({figure.name for figure in report.figures}) == 6
    assert all("polyline" in svg(figure) for figure in report.figures)
    assert report.measured["subscribers of B20"] > 0
    assert report.measured["sessions between clusters"] >= 1
