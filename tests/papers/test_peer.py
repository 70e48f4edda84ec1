"""The workload of peer §9.4, and that it can be run."""

from __future__ import annotations

from tidewire.balancing.config import BalancingConfig
from tidewire.model.events import make_event
from tidewire.model.filters import decode_filter
from tidewire.papers.peer.local import cluster
from tidewire.papers.peer.once import violations
from tidewire.papers.peer.scene import Scene
from tidewire.papers.peer.workload import workload


def test_those_who_want_nothing_get_nothing() -> None:
    """peer §9.4: as many subscribers as are to be idle want nothing that is published, the others something."""
    work = workload(seed=1, subscribers=80, idle_share=0.25, data=None)
    events = [make_event(event) for one in work.publishers for event in one.events]
    wanted = [decode_filter(one) for one in work.wanted]
    idle = [one for one in wanted if not any(one.accepts(event.attributes) for event in events)]
    assert 20 <= len(idle) <= 24
    assert round(work.rate, 6) == 20


def test_subscribers_join_and_get_what_they_want() -> None:
    """peer E1, its beginning: what comes to listeners is counted, with its delay."""
    work = workload(seed=1, subscribers=20, idle_share=0.25, data=None)
    scene = Scene([cluster(100)], [], work, balance=BalancingConfig(), is_balanced=False)
    scene.publish_from(1.0, "B0")
    scene.join("B1", 5.0, 20.0)
    scene.run(40.0)
    last = scene.looks[-1]
    assert last.edges["B1"].subscribers == 20
    assert [one.broker for one in scene.listeners] == ["B1"] * 20
    assert last.delivered > 0
    assert last.delivery_s > 0
    assert last.edges["B1"].delay_s > 0


def test_what_subscribers_get_while_they_move_is_checked() -> None:
    """peer M4, M5, M5a: half of the subscribers move, and each gets all that is published since it is confirmed."""
    work = workload(seed=1, subscribers=20, idle_share=0.25, data=None)
    scene = Scene([cluster(10)], [], work, balance=BalancingConfig(), is_balanced=False)
    scene.publish_from(1.0, "B0")
    scene.join("B1", 5.0, 20.0)
    scene.run(30.0)
    broker = scene.world.brokers["B1"]
    assert broker.node is not None
    for conn in broker.node.core.clients.using("subscribe")[::2]:
        broker.move_client(conn, "subscribe", "B3")
    scene.run(60.0)
    assert [one.moves for one in scene.listeners].count(1) == 10
    scene.finish(30.0)
    assert violations(scene) == []
    busiest = max(scene.listeners, key=lambda one: one.got)
    assert busiest.got > 20
    busiest.got -= 1
    assert violations(scene) == [f"{busiest.name} got {busiest.got} events of {busiest.got + 1}"]
