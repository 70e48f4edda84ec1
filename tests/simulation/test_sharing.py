"""Random networks whose brokers share their load, with faults and deaths in the middle of sessions (peer §6)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.simulation.test_balancing import BALANCE, crowded, notes, publish, served
from tidewire.balancing.config import BalancingConfig
from tidewire.broker.balance_documents import BalanceStatus
from tidewire.simulator.checkers import check
from tidewire.simulator.random_runs import RandomRun, replay_command, run_seed, run_seeds
from tidewire.simulator.world import World

SEEDS = (7, 9)


def test_a_few_seeds_without_a_violation() -> None:
    """peer M3 to M6, M8: clients move by policy; nothing is lost, doubled or out of order, and every session ends."""
    summary = run_seeds(*SEEDS, is_balanced=True)
    assert summary.violations == []
    assert summary.balanced > 10
    assert summary.faults > 10


def test_somebody_dies_in_the_middle_of_sessions() -> None:
    """The deaths that are drawn are of those in a session, and they find some: else the runs above show nothing."""
    run = RandomRun(5, is_balanced=True)
    assert run.play() == []
    whys = [
        str(note.facts["why"]) for host in run.world.brokers.values() for _, note in host.notes if "why" in note.facts
    ]
    assert any(why.endswith("is gone") for why in whys)


def test_a_run_that_balances_is_another_one_and_says_so() -> None:
    """Its draws are apart: without balancing a seed means what it always has."""
    assert run_seed(0, is_balanced=True).digest == run_seed(0, is_balanced=True).digest != run_seed(0).digest
    assert replay_command(7, is_balanced=True) == "tidewire sim --seeds 7..7 --balance"


def test_a_session_that_never_ends_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker can fail: without leases an acceptor that does not hear of the end stays in the session."""
    monkeypatch.setattr("tidewire.balancing.mediator.Mediator.told_finished", lambda *_, **__: [])
    monkeypatch.setattr("tidewire.balancing.mediator.Mediator.tick", lambda *_, **__: [])
    monkeypatch.setattr("tidewire.balancing.mediator.Mediator.next_deadline_ns", lambda _: None)
    run = RandomRun(0, is_balanced=True)
    assert any("is still in the session" in what for what in run.play())


def status_of(world: World, broker: str) -> BalanceStatus:
    node = world.brokers[broker].node
    assert node is not None
    found = node.status(now_ns=world.brokers[broker].now_ns).balance
    assert found is not None
    return found


def test_the_status_counts_what_has_happened() -> None:
    """What both sides count is the same, and is what clients did (peer E1i for the errors)."""
    world = crowded("reference", balancing="peer")
    publish(world, 90)
    first, second, head = (status_of(world, name) for name in ("first", "second", "head"))
    moved = served(world)["second"]
    assert first.moved_away - first.moved_here == second.moved_here - second.moved_away == moved > 0
    assert first.sessions["moved"] >= 1
    assert second.sessions_accepted >= first.sessions["moved"]
    assert first.errors is not None
    assert first.errors.output_utilisation < 0.2
    assert (first.condition in ("OK", "STABILIZING"), first.known, head.condition) == (True, ["second"], "OK")
    assert first.bulletins_sent["LOCAL_PIE"] > 0
    assert head.bulletins_heard["LOCAL_PIE"] == first.bulletins_sent["LOCAL_PIE"] + second.bulletins_sent["LOCAL_PIE"]
    assert first.smoothed is not None


def test_decisions_say_what_triggered_them_what_was_predicted_and_what_came() -> None:
    world = crowded("reference", balancing="peer")
    publish(world, 90)
    for what in ("asks to take over", "session began"):
        facts = notes(world, "first", what)[0].facts
        assert (facts["because"], facts["action"], float(facts["difference"]) > 0.1) == ("uneven", "output", True)
    planned = notes(world, "first", "clients are to move")[0].facts
    assert float(planned["before output"]) > float(planned["predicted output"]) > 0
    came = notes(world, "first", "measured after a session")[0].facts
    assert {"predicted output", "measured output", "moved", "acceptor"} <= set(came)


def test_brokers_that_wait_to_be_told_move_nobody() -> None:
    """``automatic = false``: they know that they are uneven, and stay so."""
    world = crowded("reference", balancing="peer", balance=replace(BALANCE, automatic=False))
    publish(world, 60)
    assert served(world)["second"] == 0
    assert not notes(world, "first", "asks to take over")
    host = world.brokers["first"]
    assert host.node is not None
    edge = host.node.core.balancing.edge
    assert edge is not None
    assert [one.broker for one in edge.preview(host.now_ns).candidates] == ["second"]


@pytest.mark.parametrize("clusters", [1, 2])
def test_thresholds_that_never_come_to_rest_are_told_and_keep_clusters_apart(clusters: int) -> None:
    """peer D7, G20: global thresholds below local ones; with another cluster the head does not balance with it."""
    world = World(0)
    options: dict[str, Any] = {"balancing": "peer", "balance": BalancingConfig(local_ratio=0.2, global_ratio=0.15)}
    for number in range(clusters):
        world.add_broker(f"head{number}", role="head", **options)
        world.add_broker(f"edge{number}", role="edge", **options)
        world.link(f"edge{number}", f"head{number}")
    if clusters == 2:
        world.link("head0", "head1")
    world.run(5)
    (unwise,) = notes(world, "head0", "settings are unwise")
    assert "global_ratio = 0.15" in str(unwise.facts["why"])
    assert len(notes(world, "head0", "does not balance with other clusters")) == clusters - 1
    assert check(world) == []
