"""Brokers whose head decides who moves: the same machines as live, in virtual time (epeer §2.6 to §2.9)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.drd.config import DrdConfig
from tidewire.broker.balance_documents import BalanceStatus, NextStep
from tidewire.broker.driven_balancing import DrivenBalancing
from tidewire.model.ids import Conn
from tidewire.model.messages import Status
from tidewire.model.notes import Note
from tidewire.placement.choices import Location
from tidewire.simulator.checkers import check
from tidewire.simulator.random_runs import RandomRun, replay_command, run_seeds
from tidewire.simulator.world import World
from tidewire.traffic.config import ClassConfig, TrafficConfig
from tidewire.wire.connections import Send

CLASSES = TrafficConfig(
    classes=[
        ClassConfig(name="warning", filter="class = 'warning'", delay_s=1.0),
        ClassConfig(name="sensor", filter="class = 'sensor'", delay_s=10.0),
        ClassConfig(name="social", filter="class = 'social'", delay_s=50.0),
    ]
)
NAMES = ("warning", "sensor", "social")
OUTPUT = 4_000.0


def options(policy: str, **further: Any) -> dict[str, Any]:
    return {"balancing": policy, "traffic": CLASSES, "output_bytes_s": OUTPUT, **further}


def cluster(policy: str = "drd", *, edges: int = 2, engine: str = "reference", **further: Any) -> World:
    """A head with edges, and three subscribers of each class at the first edge."""
    world = World(0, engine=engine)
    world.add_broker("head", role="head", **options(policy, **further) | {"output_bytes_s": 1e6})
    for number in range(edges):
        world.add_broker(f"edge{number}", role="edge", **options(policy, **further))
        world.link(f"edge{number}", "head")
    world.run(1)
    for name in NAMES:
        for number in range(3):
            world.add_client(f"{name}{number}", "edge0").subscribe(1, f"class = '{name}'")
    world.add_client("publisher", "head").advertise(1)
    world.run(1)
    return world


def publish(world: World, seconds: float, *, rate: float = 5.0, by: str = "publisher") -> None:
    """So many events a second of each class."""
    for step in range(int(rate * seconds)):
        for name in NAMES:
            world.clients[by].publish({"class": name, "step": step})
        world.run(1 / rate)


def served(world: World, name: str) -> list[str]:
    return [str(world.clients[f"{name}{number}"].core.broker("subscribe")) for number in range(3)]


def notes(world: World, broker: str, what: str) -> list[Note]:
    return [note for _, note in world.brokers[broker].notes if note.what == what]


def status(world: World, broker: str) -> BalanceStatus:
    host = world.brokers[broker]
    assert host.node is not None
    found = host.node.status(now_ns=host.now_ns).balance
    assert found is not None
    return found


@pytest.mark.parametrize("engine", ["reference", "kernel"])
def test_those_who_can_wait_go_and_the_urgent_stay(engine: str) -> None:
    """epeer §2.8, §2.9, G25: whole classes, the most tolerant first; nothing is lost, doubled or out of order."""
    world = cluster(engine=engine)
    publish(world, 20)
    assert served(world, "warning") == ["edge0"] * 3
    assert served(world, "social") == ["edge1"] * 3
    assert status(world, "edge0").condition in ("LOW", "HIGH")
    assert status(world, "edge0").moved_away == 3
    assert (status(world, "edge1").sessions_accepted, status(world, "edge1").moved_here) == (1, 3)
    assert world.settle()
    world.drain()
    assert check(world) == []


def test_decisions_say_what_triggered_them_what_was_predicted_and_what_came() -> None:
    world = cluster()
    publish(world, 20)
    chose = notes(world, "edge0", "chose clients to give away")[0].facts
    assert (chose["metric"], chose["why"], chose["to"]) == ("output", "it suffices", "edge1")
    assert float(chose["output utilisation"]) > 0.95 > float(chose["predicted output utilisation"])
    came = notes(world, "edge0", "measured after a session")[0].facts
    measured, predicted = (float(came[f"{which} output utilisation"]) for which in ("measured", "predicted"))
    assert measured == pytest.approx(predicted, abs=0.1)
    assert notes(world, "head", "clients are to move")[0].facts["donor"] == "edge0"
    assert notes(world, "head", "a session is over")[0].facts["moved"] == 3


def test_nobody_moves_while_nothing_is_too_much() -> None:
    """epeer §2.6: LOW and HIGH give nothing, however uneven they are."""
    world = cluster()
    publish(world, 15, rate=2.0)
    assert not notes(world, "head", "clients are to move")
    assert status(world, "edge0").utilisation["output"] == pytest.approx(0.4, abs=0.15)
    assert status(world, "edge1").utilisation["output"] == 0.0


@pytest.mark.parametrize("policy", ["peer-lb", "peer-drd"])
def test_the_baselines_balance_what_is_not_too_much(policy: str) -> None:
    """epeer §4.2: any two that differ by more than a tenth; the same sessions, and exact too."""
    world = cluster(policy)
    publish(world, 15, rate=2.0)
    assert notes(world, "head", "clients are to move")
    assert (
        sorted(served(world, "warning")[:1] + served(world, "sensor")[:1] + served(world, "social")[:1])
        != ["edge0"] * 3
    )
    assert world.settle()
    world.drain()
    assert check(world) == []


def test_newcomers_come_to_where_their_class_is() -> None:
    """epeer G23, §2.7: at the head, by what they want; a class that nobody has goes to where most is left."""
    world = cluster(edges=3, drd=DrdConfig(event_bytes=100, fan_out=3))
    publish(world, 3, rate=2.0)
    late = {}
    for name in ("warning", "news"):
        late[name] = [world.add_client(f"late {name} {number}", "head") for number in range(4)]
        for client in late[name]:
            client.subscribe(1, f"class = '{name}'")
        publish(world, 2, rate=2.0)
    assert {client.core.broker("subscribe") for client in late["warning"]} == {"edge0"}
    together = {client.core.broker("subscribe") for client in late["news"]}
    assert len(together) == 1
    assert together <= {"edge1", "edge2"}


def test_in_a_wide_area_newcomers_come_to_the_nearest() -> None:
    """epeer §2.7, principle 3: edges tell where they are; who does not say where it is goes where most is left."""
    world = World(0)
    wan = options("drd", drd=DrdConfig(environment="wan"))
    world.add_broker("head", role="head", **wan)
    for name, lat, lon in (("lisbon", 38.7, -9.1), ("athens", 38.0, 23.7)):
        world.add_broker(name, role="edge", location=Location(lat=lat, lon=lon), **wan)
        world.link(name, "head")
    world.run(4)
    host = world.brokers["head"]
    assert host.node is not None
    policy = host.node.core.balancing.policy
    assert policy is not None
    rome, porto = Location(lat=41.9, lon=12.5), Location(lat=41.1, lon=-8.6)
    assert policy.placed([], rome, host.now_ns) == "athens"
    assert policy.placed([], porto, host.now_ns) == "lisbon"
    assert policy.placed([], None, host.now_ns) in ("athens", "lisbon")
    node = world.brokers["athens"].node
    assert node is not None
    assert node.core.balancing.policy is not None
    assert node.core.balancing.policy.placed([], rome, host.now_ns) is None


def test_without_room_nothing_moves_and_the_head_says_so() -> None:
    """epeer §2.9, §2.10: nobody in the whole network can take it."""
    world = cluster()
    for name in NAMES:
        for number in range(3):
            world.add_client(f"other {name} {number}", "edge1").subscribe(1, f"class = '{name}'")
    world.run(1)
    publish(world, 10)
    assert not notes(world, "head", "clients are to move")
    assert notes(world, "head", "nobody can take what is too much")
    host = world.brokers["head"]
    assert host.node is not None
    policy = host.node.core.balancing.policy
    assert isinstance(policy, DrivenBalancing)
    assert set(policy.nothing_found) == {("edge0", "output"), ("edge1", "output")}
    assert policy.has_found_nobody()
    assert not policy.has_found_nobody()


def two_clusters(policy: str = "drd", **first: Any) -> World:
    """Each with one edge. ``first``: what is special about the first head."""
    world = World(0)
    for which in ("a", "b"):
        special = first if which == "a" else {}
        world.add_broker(f"head-{which}", role="head", **options(policy) | {"output_bytes_s": 1e6} | special)
        world.add_broker(f"edge-{which}", role="edge", **options(policy))
        world.link(f"edge-{which}", f"head-{which}")
    world.link("head-a", "head-b")
    world.run(2)
    return world


def test_between_clusters() -> None:
    """epeer §2.9: no edge of its own is left, so subscribers go to another cluster's; first those of remote events."""
    world = two_clusters()
    for name in NAMES:
        for number in range(3):
            world.add_client(f"{name}{number}", "edge-a").subscribe(1, f"class = '{name}'")
    near = world.add_client("near", "head-a")
    near.advertise(1, "class in ('warning', 'social') and step >= 0")
    far = world.add_client("far", "head-b")
    far.advertise(1, "class = 'sensor' and step >= 0")
    world.run(2)
    for step in range(100):
        for name in ("warning", "social"):
            near.publish({"class": name, "step": step})
        far.publish({"class": "sensor", "step": step})
        world.run(0.2)
    assert served(world, "sensor") == ["edge-b"] * 3
    assert served(world, "warning") == ["edge-a"] * 3
    assert world.settle()
    world.drain()
    assert check(world) == []


def test_an_overloaded_head_gives_publishers_to_another_one() -> None:
    """epeer §2.9: those whom nobody near listens to; their events come as before, once and in order."""
    world = two_clusters(input_bytes_s=3_000.0)
    for name in NAMES:
        world.add_client(f"{name}0", "edge-b").subscribe(1, f"class = '{name}'")
    for name in NAMES:
        world.add_client(f"of {name}", "head-a").advertise(1, f"class = '{name}' and step >= 0")
    world.add_client("near", "edge-a").subscribe(1, "class = 'warning'")
    world.run(2)
    for step in range(200):
        for name in NAMES:
            world.clients[f"of {name}"].publish({"class": name, "step": step})
        world.run(0.05 if step > 20 else 0.2)
    at = {name: world.clients[f"of {name}"].core.broker("publish") for name in NAMES}
    assert at["warning"] == "head-a"
    assert "head-b" in (at["sensor"], at["social"])
    assert status(world, "head-a").moved_away >= 1
    assert world.settle()
    world.drain()
    assert check(world) == []


@pytest.mark.parametrize("dead", ["edge0", "edge1", "head"])
def test_a_death_in_the_middle_ends_the_session(dead: str) -> None:
    """epeer §2.12: whoever dies while clients move, nobody stays BUSY."""
    world = cluster(drd=DrdConfig(migration_s=5.0, reply_s=2.0))
    for _ in range(200):
        publish(world, 0.2)
        if notes(world, "edge0", "client moves"):
            break
    assert notes(world, "edge0", "client moves")
    world.brokers[dead].crash()
    world.run(3)
    world.brokers[dead].start()
    publish(world, 20)
    for name in ("edge0", "edge1"):
        node = world.brokers[name].node
        assert node is not None
        assert status(world, name).condition != "BUSY"
    assert world.settle()


def test_brokers_that_wait_to_be_told_move_nobody_and_say_whom_they_would() -> None:
    """``automatic = false``, and what an operator may ask of an edge and of the head."""
    world = cluster(balance=BalancingConfig(automatic=False))
    publish(world, 10)
    assert status(world, "edge0").condition == "OVERLOAD"
    assert not notes(world, "head", "clients are to move")
    step = rehearsed(world, "edge0")
    assert (step.verdict, step.condition) == ("overloaded", "OVERLOAD")
    assert [one.classes for one in step.would_go] == [["social"]]
    assert [one.to for one in step.would_go] == ["edge1"]
    assert sorted(step.would_go[0].names) == ["social0", "social1", "social2"]
    assert rehearsed(world, "head").role == "head"
    assert rehearsed(world, "edge1").would_go == []


def rehearsed(world: World, broker: str) -> NextStep:
    """What an operator is told."""
    host = world.brokers[broker]
    assert host.node is not None
    effects = host.node.core.balancing.rebalance(Conn(999), 1, is_dry_run=True, now_ns=host.now_ns)
    (told,) = [effect.message for effect in effects if isinstance(effect, Send)]
    assert isinstance(told, Status)
    return msgspec.json.decode(told.document, type=NextStep)


@pytest.mark.parametrize(("policy", "seed"), [("drd", 7), ("peer-drd", 3), ("peer-lb", 4)])
def test_a_few_seeds_without_a_violation(policy: str, seed: int) -> None:
    """Clients move by policy, links and brokers fail; nothing is lost, doubled or out of order, every session ends."""
    summary = run_seeds(seed, seed, is_balanced=True, policy=policy)
    assert summary.violations == []
    assert summary.balanced > 0
    assert replay_command(7, is_balanced=True, policy="drd") == "tidewire sim --seeds 7..7 --balance --policy drd"


def test_a_session_that_never_ends_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker can fail: without leases an acceptor that does not hear of the end stays in the session."""
    monkeypatch.setattr("tidewire.balancing.drd.edge_agent.EdgeAgent.tick", lambda *_: [])
    monkeypatch.setattr("tidewire.balancing.drd.edge_agent.EdgeAgent._over", lambda *_: [])
    monkeypatch.setattr("tidewire.balancing.drd.edge_agent.EdgeAgent.deadline_ns", lambda _: None)
    run = RandomRun(7, is_balanced=True, policy="drd")
    found = [what for what in run.play() if "is still in the session" in what]
    assert found
