"""The experiments of epeer §4.3: their workload, what is measured, and that they come out as many runs do."""

from __future__ import annotations

from random import Random
from statistics import fmean

import msgspec
import pytest

from tidewire.benchmarks.progress import tell_nobody
from tidewire.congestion.fdcc.utility import keyword_utility
from tidewire.papers.epeer import bursts, damage, many
from tidewire.papers.epeer.quality import Opinions, expected_utility, experience
from tidewire.papers.epeer.workload import EDGES, HEAD, SAID, SHORT, WORDS, limited, surplus
from tidewire.papers.registry import experiments, find
from tidewire.papers.report import Options
from tidewire.simulator.rates import Source, Traffic


def test_every_experiment_of_the_sheet_is_there() -> None:
    """epeer §4.3: B1 to B15, in order."""
    assert [one.id for one in experiments("epeer")] == [f"epeer/B{number}" for number in range(1, 16)]


# -- the calibration ---------------------------------------------------------------------------------------------------


def test_the_workload_with_resources_to_spare() -> None:
    """The calibration of epeer §4.3, surplus."""
    works = [surplus(seed) for seed in range(40)]
    for work in works:
        assert len(work.traffic) == 100
        assert all(20_000 <= work.machines[edge].matches_s <= 30_000 for edge in EDGES)
        assert work.machines[HEAD].matches_s == 1_000_000
        assert all(machine.output_bytes_s == 125e6 for machine in work.machines.values())
        load = sum(one.events_s for one in work.traffic) / sum(work.machines[edge].matches_s for edge in EDGES)
        assert load == pytest.approx(0.78)
        assert all(1 <= one.delay_s <= 50 and 1 <= len(one.sources) <= 5 for one in work.traffic)
        assert all(200 <= source.event_bytes <= 1000 for one in work.traffic for source in one.sources)
        first, second = work.bursts
        assert all(10 <= len(burst.classes) <= 15 for burst in work.bursts)
        assert not set(first.classes) & set(second.classes)
        assert first.at_s == 301
        assert 390 <= second.at_s <= 411
    assert fmean(work.subscribers for work in works) == pytest.approx(450, rel=0.03)
    assert surplus(7) == surplus(7)


def test_the_workload_with_resources_short() -> None:
    """The calibration of epeer §4.3, limited; E11: all brokers lose bandwidth, the head too."""
    works = [limited(seed, level=0.6) for seed in range(40)]
    for work in works:
        assert all(300 * 125e3 <= work.machines[edge].output_bytes_s <= 500 * 125e3 for edge in EDGES)
        out = sum(one.bytes_s * len(one.subscribers) for one in work.traffic)
        assert out / sum(work.machines[edge].output_bytes_s for edge in EDGES) == pytest.approx(0.6)
        assert set(work.left) == {HEAD, *EDGES}
        assert all(0.1 <= share <= 0.4 for share in work.left.values())
        assert all(4 <= words <= 8 for words in work.wanted.values())
    kinds = [share for work in works for share in work.fitting.values()]
    assert [kinds.count(share) / len(kinds) for share in (1.0, 0.5, 0.0)] == pytest.approx([0.5, 0.25, 0.25], abs=0.01)


# -- quality of experience ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fitting", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("wanted", [4, 6, 8])
def test_the_expected_utility_is_that_of_many_events(wanted: int, fitting: float) -> None:
    """Eq 8 (epeer §2.10) over events with words drawn as epeer §4.3 says."""
    chance = Random(f"{wanted} {fitting}")
    words = [f"w{number}" for number in range(WORDS)]
    interests = words[:wanted]
    found = []
    for _ in range(6000):
        said = chance.randint(*SAID)
        share = said * fitting
        fit = int(share) + (share % 1 > 0 and chance.random() < 0.5)
        event = chance.sample(words, fit) + [f"other{number}" for number in range(said - fit)]
        found.append(keyword_utility(interests, event) or 0.0)
    assert expected_utility(wanted, fitting) == pytest.approx(fmean(found), abs=0.01)


def test_experience_in_all_the_ways_of_the_sheet() -> None:
    """epeer E12, E13: by those who are heard, by all, by events; a publisher that is slowed down still counts (G19)."""
    traffic = Traffic("t", 1.0, (Source("good", 100.0, 100), Source("bad", 100.0, 100)), ("s1", "s2"))
    opinions = Opinions(fitting={"good": 1.0, "bad": 0.0}, wanted={"s1": 8, "s2": 8})
    good = expected_utility(8, 1.0)

    def seen(**rates: float) -> tuple[float, float, float, float, int]:
        other = (0.0, 0.0, 0.0, 0)  # a class of two subscribers that hear nothing
        found = experience([opinions.of_class(traffic, rates), other], subscribers=4)
        return found.heard, found.everybody, found.by_events, found.utility_s, found.starved

    assert seen(good=100.0, bad=100.0) == pytest.approx((good / 2, good / 4, good / 2, 200 * good, 2))
    slowed = seen(good=100.0, bad=1.0)
    assert slowed[:2] == pytest.approx((good / 2, good / 4))
    assert slowed[2] == pytest.approx(good * 100 / 101)
    assert seen(good=100.0, bad=0.0) == pytest.approx((good, good / 2, good, 200 * good, 2))
    assert seen(good=0.0, bad=0.0) == (0.0, 0.0, 0.0, 0.0, 4)


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few runs are done before other processes have begun."""
    monkeypatch.setattr(many, "run_all", lambda work, runs, tell, stage: [work(run) for run in runs])


def test_a_run_is_the_same_again() -> None:
    """All chance comes from the seed."""
    run = bursts.Run(policy="peer-lb", seed=3, phases=SHORT)
    assert bursts.play(run) == bursts.play(run)


def test_no_policy_knows_another_load() -> None:
    """Runs are paired (epeer §4.1): what is published in a second is the same whatever was decided before."""
    found = [
        bursts.play(bursts.Run(policy=policy, seed=4, phases=SHORT, is_traced=True)) for policy in ("drd", "peer-lb")
    ]
    work = surplus(4)
    sums = []
    for one in found:
        assert one.trace is not None
        last = {edge: values[239] for edge, values in one.trace.matching.items()}
        sums.append(sum(last[edge] * work.machines[edge].matches_s for edge in EDGES))
    assert sums[1] == pytest.approx(sums[0])


def test_nobody_is_moved_before_the_bursts() -> None:
    """epeer B1: under drd neither while classes come nor in the calm."""
    for seed in (1, 2, 3):
        found = bursts.play(bursts.Run(policy="drd", seed=seed))
        assert found.sessions[:2] == (0, 0)
        assert found.cured_s <= 10


@pytest.mark.parametrize("mark", ["B2", "B4", "B7", "B8", "B9"])
def test_few_runs_with_resources_to_spare_show_it(mark: str) -> None:
    """epeer B2 to B9 with twelve short runs; B5 and B6 need more."""
    report = find(f"epeer/{mark}").run(Options(is_quick=True, runs=12), tell_nobody)
    assert report.holds, [claim for claim in report.claims if not claim.holds]
    assert msgspec.json.encode(report.claims)


@pytest.mark.parametrize("mark", ["B11", "B12", "B14", "B15"])
def test_few_runs_with_resources_short_show_it(mark: str) -> None:
    """epeer B11 to B15 with eight short runs, as few as can decide: both settings, all the ways of E12."""
    report = find(f"epeer/{mark}").run(Options(is_quick=True, runs=8), tell_nobody)
    assert report.holds, [claim for claim in report.claims if not claim.holds]


@pytest.mark.parametrize("mark", ["B1", "B3", "B10", "B13"])
def test_a_single_run_shows_it(mark: str) -> None:
    """epeer B1, B3, B10, B13."""
    report = find(f"epeer/{mark}").run(Options(is_quick=True), tell_nobody)
    assert report.holds, [claim for claim in report.claims if not claim.holds]
    assert report.figures


def test_limits_are_decided_rarely_without_harm() -> None:
    """Every ten seconds it comes out as every second (epeer §2.10 has a period of one)."""
    often, seldom = (damage.play(damage.Run(seed=5, period_s=period, phases=SHORT)) for period in (1, 10))
    assert seldom.after.heard == pytest.approx(often.after.heard, rel=0.02)
    assert seldom.output.share == pytest.approx(often.output.share, abs=0.01)
    assert seldom.highest <= 0.952
