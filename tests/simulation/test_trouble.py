"""What random runs go through beside faults of links and brokers, one at a time."""

from typing import Any

import pytest

from tidewire.broker.node import BrokerNode
from tidewire.simulator import faults
from tidewire.simulator.checkers import check, events_lost, is_due
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.random_runs import RandomRun
from tidewire.simulator.trouble import COORDINATOR
from tidewire.simulator.world import World


def _pair(*, at: str = "B", **options: Any) -> tuple[World, ClientHost, ClientHost]:
    """Two brokers, a subscriber at the second, a publisher at the first."""
    world = World(0)
    for name in "AB":
        world.add_broker(name, role="both", **options)
    world.link("A", "B")
    ann, bob = world.add_client("ann", at, "A"), world.add_client("bob", "A")
    ann.subscribe(1, "price > 0")
    bob.advertise(1)
    world.run(2)
    return world, ann, bob


def _publish(world: World, bob: ClientHost, count: int, *, every_s: float = 0.01) -> None:
    for number in range(count):
        bob.publish({"price": 1, "number": number})
        world.run(every_s)


def test_a_drained_broker_loses_nothing() -> None:
    """Its clients go to its neighbours, and it ends when they have gone; events flow all the time."""
    world, ann, bob = _pair()
    world.at(world.agenda.now_s + 0.2, lambda: faults.drain(world, "B"))
    _publish(world, bob, 100)
    world.run(3)
    assert world.brokers["B"].is_down
    assert ann.core.broker("subscribe") == "A"
    assert [receipt.attributes["number"] for receipt in ann.receipts] == list(range(100))
    assert check(world) == []


def test_a_broker_without_a_refuge_is_not_drained() -> None:
    """The operator is told, and it goes on as before."""
    world = World(0)
    world.add_broker("A")
    ann = world.add_client("ann", "A")
    ann.subscribe(1, "price > 0")
    world.run(1)
    answers: list[bool] = []
    world.operator.drain("A", answers.append)
    world.operator.drain("nowhere", answers.append)
    world.run(3)
    assert answers == [False, False]
    assert not world.brokers["A"].is_down


def test_a_client_that_begins_again_is_somebody_new() -> None:
    """It gets nothing of the time between, nor anything twice for its checker; as a publisher it counts from one."""
    world, ann, bob = _pair()
    _publish(world, bob, 10)
    faults.crash(world, "ann")
    _publish(world, bob, 10)
    faults.restart(world, "ann")
    world.run(2)
    faults.crash(world, "bob")
    bob.publish({"price": 1, "number": 99})
    faults.restart(world, "bob")
    world.run(2)
    _publish(world, bob, 10)
    world.run(3)
    assert len(ann.receipts) == 20
    assert [receipt.life for receipt in ann.receipts] == [1] * 10 + [2] * 10
    assert {key[0] for key in world.publications} == {2, 2 | 1 << 32}
    assert check(world) == []
    assert world.unsettled() == []
    ann.receipts.pop()
    assert any("no loss: ann lacks bob's event" in what for what in check(world))


def test_what_came_while_a_client_was_away_is_not_due() -> None:
    """But all that was published when its new session stood."""
    world, ann, bob = _pair()
    faults.crash(world, "ann")
    _publish(world, bob, 5)
    faults.restart(world, "ann")
    world.run(2)
    _publish(world, bob, 5)
    world.run(3)
    assert [is_due(world, ann, publication) for publication in world.publications.values()] == [False] * 5 + [True] * 5


def test_a_loss_is_told_before_a_subscriber_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow reader that moves away hears of all that it lost at the old broker: later nobody listens there."""
    world, ann, bob = _pair(slow_subscriber="drop", queue_bytes_max=4096, load_every_s=60.0)
    world.network.window_bytes = 4096
    faults.slow_reader(world, "ann", mbps=0.05)
    for number in range(200):
        bob.publish({"price": 1, "number": number})
    world.run(0.5)
    faults.slow_reader(world, "ann", mbps=None)
    faults.migrate(world, "ann", "A")
    world.run(10)
    assert ann.core.broker("subscribe") == "A"
    assert len(ann.receipts) < 200
    assert len(ann.receipts) + events_lost(ann) == 200
    assert check(world) == []


@pytest.mark.parametrize("policy", ["wait", "drop", "end"])
def test_a_slow_reader_loses_what_its_policy_says(policy: str) -> None:
    """Nothing if the publisher waits; what it is told; or its session, which comes back by itself."""
    world, ann, bob = _pair(slow_subscriber=policy, queue_bytes_max=4096)
    world.network.window_bytes = 4096
    faults.slow_reader(world, "ann", mbps=0.05)
    for number in range(300):
        bob.publish({"price": 1, "number": number})
    world.run(2)
    faults.slow_reader(world, "ann", mbps=None)
    world.run(20)
    told = [told.what for _, told in ann.told]
    assert (len(ann.receipts) == 300) == (policy == "wait")
    assert ("events lost" in told) == (policy == "drop")
    assert ("goodbye" in told) == (policy == "end")
    bob.publish({"price": 1, "number": 300})
    world.run(5)
    assert ann.receipts[-1].attributes["number"] == 300
    assert check(world) == []


def test_a_queue_beyond_its_bound_is_seen_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only at the end, when it is empty again."""
    opened = BrokerNode.handle

    def careless(self: BrokerNode, event: object, *, now_ns: object) -> object:
        left = opened(self, event, now_ns=now_ns)  # type: ignore[arg-type]
        for connection in self.engine._connections.values():  # type: ignore[attr-defined]
            connection.out.bytes_max = 1 << 30
        return left

    monkeypatch.setattr(BrokerNode, "handle", careless)
    world, _, bob = _pair(slow_subscriber="drop", queue_bytes_max=4096)
    world.network.window_bytes = 4096
    faults.slow_reader(world, "ann", mbps=0.05)
    for number in range(400):
        bob.publish({"price": 1, "number": number})
    world.run(2)
    faults.slow_reader(world, "ann", mbps=None)
    world.run(30)
    assert not world.has_backlog()
    assert any(
        "queues bounded: at" in what and "for ann in a queue with the bound 4096" in what for what in check(world)
    )


def test_what_is_published_waits_for_the_advertisement() -> None:
    """Taken back it is refused; offered again, nothing is lost, not even what is published at once."""
    world, ann, bob = _pair()
    bob.unadvertise(1)
    bob.publish({"price": 1, "number": 0})
    world.run(1)
    assert list(world.refused) == [(2, 1)]
    bob.advertise(1)
    bob.publish({"price": 1, "number": 1})
    world.run(3)
    assert [receipt.attributes["number"] for receipt in ann.receipts] == [1]
    assert check(world) == []


def test_a_coordinator_arranges_and_is_not_needed() -> None:
    """Newcomers hear from it whom to join; while it is down all goes on, and brokers come back to each other."""
    world = World(0)
    world.add_coordinator(COORDINATOR, heartbeat_s=0.5)
    for name in "ABC":
        world.add_broker(name, coordinator=COORDINATOR, heartbeat_s=0.5)
        world.run(1)
    assert world.all_links() == [("A", "B"), ("A", "C")]
    assert world.settle()
    ann, bob = world.add_client("ann", "A"), world.add_client("bob", "A")
    ann.subscribe(1, "price > 0")
    bob.advertise(1)
    world.run(2)
    faults.stop_coordinator(world)
    faults.crash(world, "C")
    world.run(2)
    faults.restart(world, "C")
    world.add_broker("D", coordinator=COORDINATOR, heartbeat_s=0.5)
    world.run(3)
    _publish(world, bob, 10)
    assert [neighbour.broker for neighbour in world.brokers["B"].node.core.links.up()] == ["A"]  # type: ignore[union-attr]
    assert world.brokers["D"].node.core.links.up() == []  # type: ignore[union-attr]
    faults.restart_coordinator(world)
    assert world.settle()
    assert ("A", "D") in world.all_links()
    world.run(3)
    assert len(ann.receipts) == 10
    assert check(world) == []


def test_the_seeds_have_all_of_it() -> None:
    """What is drawn happens: somewhere in a few seeds there is each kind."""
    runs = [RandomRun(seed, engine="kernel") for seed in range(100, 112)]
    for run in runs:
        assert run.play() == []
    worlds = [run.world for run in runs]
    told = {told.what for world in worlds for client in world.clients.values() for _, told in client.told}
    noted = {note.what for world in worlds for host in world.brokers.values() for _, note in host.notes}
    assert {"events lost", "events refused", "moved"} <= told
    assert {"draining", "coordinator lost", "slow subscriber"} <= noted
    assert any(client.life > 1 for world in worlds for client in world.clients.values())
    assert any(name.startswith("N") for world in worlds for name in world.brokers)
