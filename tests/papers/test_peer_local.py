"""peer E1 and what goes beyond it, in small: 500 subscribers, generated quotes. All of it is virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.progress import tell_nobody
from tidewire.papers.peer import local
from tidewire.papers.peer.scene import Scene, parameters
from tidewire.papers.peer.workload import workload
from tidewire.papers.registry import find
from tidewire.papers.report import Options


@pytest.mark.parametrize("mark", ["E1", "E13", "E14"])
def test_every_claim_holds(mark: str, tmp_path: Path) -> None:
    """peer E1, E1a to E1h: it converges, absorbs the step and rests, and nothing is lost; a new broker; swings."""
    report = find(f"peer/{mark}").run(Options(is_quick=True, seed=1, data=tmp_path), tell_nobody)
    assert [claim for claim in report.claims if not claim.holds] == []
    assert len(report.claims) >= 4
    assert report.figures


def test_who_is_not_confirmed_leaves_an_overloaded_edge_at_once(tmp_path: Path) -> None:
    """peer M3, M4: nothing is owed yet by the edge, so its backlog is not waited for."""
    work = workload(seed=1, subscribers=40, idle_share=0.0, data=tmp_path)
    scene = Scene([local.cluster(100, bandwidth_scale=1)], [], work, balance=BalancingConfig(), is_balanced=False)
    scene.publish_from(1.0, "B0")
    scene.join("B1", 5.0, 45.0)
    scene.run(50.0)
    waiting = [one for one in scene.listeners if one.since is None]
    assert len(waiting) >= 3
    broker = scene.world.brokers["B1"]
    assert broker.node is not None
    for conn in broker.node.core.clients.using("subscribe"):
        broker.move_client(conn, "subscribe", "B4")
    scene.run(60.0)
    assert scene.looks[-1].edges["B1"].input_wait_s > 10
    assert [one.broker for one in waiting] == ["B4"] * len(waiting)
    assert all(one.since is not None for one in waiting)


def test_who_leaves_without_a_word_has_moved(tmp_path: Path) -> None:
    """peer §6.2, step 6: donors count all who have gone, also those to whom they had confirmed nothing yet."""
    work = workload(seed=1, subscribers=100, idle_share=0.0, data=tmp_path)
    scene = Scene([local.cluster(40, bandwidth_scale=1)], [], work, balance=parameters())
    scene.publish_from(1.0, "B0")
    scene.join("B1", 5.0, 55.0)
    scene.run(200.0)
    ended = [note.facts for _, note in scene.notes("B1", "session ended") if "acceptor" in note.facts]
    assert sum(int(facts["moved"]) for facts in ended) > 20
    assert [facts for facts in ended if facts["stayed"]] == []
