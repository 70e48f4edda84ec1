"""Bursts of classes: the story, and who misses deadlines under which policy."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from tidewire.benchmarks import burst
from tidewire.benchmarks.burst import Outcome, Plan, Run, capacity_of, report_of, story_of
from tidewire.cli.app import app
from tidewire.model.errors import UsageError

PLAN = Plan(seeds=1, deliveries_s=40.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_tenth_to_a_seventh_of_the_classes_send_half_as_much_again(seed: int) -> None:
    """epeer §4.1, phase 3: twice; all of one region, which is then more than its edge can send."""
    story = story_of(PLAN, seed)
    assert len(story.classes) == 64
    assert len(story.tightest) == 6
    for one in story.bursts:
        assert 0.10 <= len(one.classes) / len(story.classes) <= 0.15
        theirs = [traffic for traffic in story.classes if traffic.name in one.classes]
        assert len({traffic.region for traffic in theirs}) == 1
        ours = [traffic for traffic in story.classes if traffic.region == theirs[0].region]
        sent = sum(
            story.rate(traffic, one.begin_s, PLAN.burst) * traffic.subscribers * (traffic.body_bytes + 85)
            for traffic in ours
        )
        assert sent > 0.95 * capacity_of(PLAN)
    assert story == story_of(PLAN, seed)
    assert all(1 <= one.delay_s <= 50 for one in story.classes)


def test_without_balancing_the_tightest_miss_and_with_deadlines_they_do_not() -> None:
    """The quick version of the claim: one story; no event is lost, whatever the policy."""
    never, driven = (Run(PLAN, policy, 0).play() for policy in ("never", "drd"))
    assert never.tight_misses > 50
    assert driven.tight_misses == 0
    assert driven.misses <= never.misses // 10
    assert (driven.deliveries, never.sessions) == (never.deliveries, 0)
    assert driven.moved > 0


def outcome(policy: str, seed: int, misses: int) -> Outcome:
    return Outcome(
        policy=policy,
        seed=seed,
        deliveries=1000,
        misses=misses,
        tight_deliveries=100,
        tight_misses=misses,
        sessions=0,
        moved=0,
    )


@pytest.mark.parametrize(
    ("peer", "drd", "holds"),
    [((50, 70), (0, 0), True), ((50, 70), (6, 7), False), ((200, 0), (0, 1), False), ((0, 0), (0, 0), False)],
)
def test_the_claim_is_ten_times_fewer_and_more_in_no_story(
    peer: tuple[int, int], drd: tuple[int, int], *, holds: bool
) -> None:
    found = report_of(
        replace(PLAN, seeds=2),
        {
            "peer": [outcome("peer", seed, misses) for seed, misses in enumerate(peer)],
            "drd": [outcome("drd", seed, misses) for seed, misses in enumerate(drd)],
        },
    )
    assert found.holds is holds


def test_the_command_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burst, "_play", lambda given: outcome(given[1], given[2], 30 if given[1] == "peer" else 0))
    monkeypatch.setattr(burst, "run_all", lambda work, runs, *_, **__: [burst._play(one) for one in runs])
    runner = CliRunner()
    told = runner.invoke(app, ["bench", "burst", "--quick", "--json"])
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert (found["benchmark"], found["seeds"], found["ratio"], found["holds"]) == ("burst", 3, 90.0, True)
    shown = runner.invoke(app, ["bench", "burst", "--quick"], env={"COLUMNS": "100"})
    assert "90 times fewer than peer, more in no story" in shown.stdout
    monkeypatch.setattr(burst, "_play", lambda given: outcome(given[1], given[2], 30))
    assert runner.invoke(app, ["bench", "burst", "--quick", "--json"]).exit_code == 3


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no policy 'pear'"):
        Plan(policies=("pear",))
