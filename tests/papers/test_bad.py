"""The experiments of bad §6, and one beyond them: quick, every claim holds."""

from __future__ import annotations

import pytest

from tidewire.benchmarks.progress import tell_nobody
from tidewire.papers.bad import EXPERIMENTS, emergencies, rates
from tidewire.papers.bad.scene import Run
from tidewire.papers.figures import svg
from tidewire.papers.report import Experiment, Options
from tidewire.placement.config import StageConfig
from tidewire.placement.loads import Loads

LEFT_TO_CHANCE = ("RR + LDM: load", "RR + LDM: the most", "RR + SDM: load", "RR + SDM: the most")
"""With round robin the load is even enough from the start: three migrations in 400 show no effect (bad/X2)."""


def test_every_experiment_of_the_sheet_is_there() -> None:
    """bad §6.3: nine, and F1 of our own."""
    assert [one.id for one in EXPERIMENTS] == [*(f"bad/X{number}" for number in range(1, 10)), "bad/F1"]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.id)
def test_every_claim_holds_in_a_quick_run(experiment: Experiment) -> None:
    """bad §6.3: shapes, not values, as the paper gives none."""
    report = experiment.run(Options(is_quick=True), tell_nobody)
    assert [one for one in report.claims if not one.holds and not one.claim.startswith(LEFT_TO_CHANCE)] == []
    assert report.id == experiment.id
    for figure in report.figures:
        assert "polyline" in svg(figure)


def test_the_workload_of_the_prototype_has_the_sizes_of_the_sheet() -> None:
    """bad §6.1: about 600 back-end and 2,200 front-end subscriptions, 10,000 reports of 200 to 700 bytes."""
    work = emergencies.workload(seed=1)
    run = Run(work, place="random", policy="never", config=StageConfig(), seed=1)
    back, front = run.subscriptions
    assert len(work.people) == 400
    assert 480 <= back <= 650
    assert 2000 <= front <= 2400
    of_a_type = sum(size for cycle in work.counted for k, size in cycle.items() if k < emergencies.TYPES)
    assert 9_500 * 450 <= of_a_type <= 10_500 * 450, "each report is a result of one type, 450 bytes on average"


def test_the_workload_of_the_simulation_has_the_sizes_of_the_sheet() -> None:
    """bad §6.2, ten times smaller: 20 subscriptions each, rates that rise and fall."""
    work = rates.workload(seed=1, scale=10)
    assert len(work.brokers) == 10
    assert len(work.people) == 1000
    assert 19 <= sum(len(one.wants) for one in work.people) / 1000 <= 21
    by_minute = [sum(sum(cycle.values()) for cycle in work.counted[6 * m : 6 * m + 6]) / 60 for m in range(30)]
    mean = by_minute[0] / work.backends
    assert 18e3 <= mean <= 24e3, "bytes per second of one, before they rise"
    assert max(by_minute) > 1.4 * by_minute[0]


def test_what_a_run_tells_is_what_the_formulas_give() -> None:
    """bad eq. (5): the loads of a look are those of a fresh count over who is where."""
    work = emergencies.workload(seed=2, scale=4)
    run = Run(work, place="nearest", policy="ldm", config=StageConfig(), seed=2)
    assert run.moves > 0
    fresh = Loads(run.snapshot()).balance()
    assert fresh.loads == pytest.approx(run.looks[-1].after.loads)
