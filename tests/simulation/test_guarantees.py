"""Guaranteed events in virtual time: what followers get, what retention takes, and what a full disk does."""

from typing import Any

import pytest

from tidewire.broker.pubends import pubend_of
from tidewire.client.events import UnfollowFor
from tidewire.model.ids import BrokerId
from tidewire.simulator import faults
from tidewire.simulator.checkers import check
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.costs import Measured
from tidewire.simulator.random_runs import run_seeds
from tidewire.simulator.world import World

ENGINES = ["reference", "kernel"]
COSTS = Measured(call_ns=3_000, event_ns=400, doubling_ns=0, copy_ns=150, write_ns=0, message_ns=40_000)


def two_brokers(engine: str, **settings: Any) -> tuple[World, ClientHost, ClientHost]:
    """A publisher at one, a follower at the other; its broker begins it at the tick that the way confirms."""
    world = World(1, engine=engine, costs=COSTS)
    for name in ("A", "B"):
        world.add_broker(name, role="both", store="disk", **settings)
    world.link("A", "B", latency_ms=5)
    ann, bob = world.add_client("ann", "B"), world.add_client("bob", "A")
    bob.advertise(1)
    ann.follow(1, "n >= 0", "ann's")
    world.run(2)
    return world, ann, bob


def guarantee(world: World, bob: ClientHost, numbers: range, *, every_s: float = 0.01, **more: Any) -> None:
    """Publish these, one after the other."""
    for n in numbers:
        bob.guarantee({"n": n, **more})
        world.run(every_s)


def got(ann: ClientHost) -> list[object]:
    """The numbers that came to the follower."""
    return [one.attributes["n"] for one in ann.followed["ann's"].received]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_follower_gets_everything_from_while_it_was_away(engine: str) -> None:
    """Once, in order, whether it is at the same broker again or at another."""
    world, ann, bob = two_brokers(engine)
    guarantee(world, bob, range(10))
    faults.crash(world, "ann")
    guarantee(world, bob, range(10, 60))
    faults.restart(world, "ann")
    world.run(2)
    faults.migrate(world, "ann", "A")
    guarantee(world, bob, range(60, 80))
    world.run(5)
    assert ann.core.broker("subscribe") == "A"
    assert got(ann) == list(range(80))
    assert check(world) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_follower_may_go_before_anybody_publishes(engine: str) -> None:
    """Its broker holds for it what comes there, and who follows by its name later knows nothing but that."""
    world = World(1, engine=engine, costs=COSTS)
    world.add_broker("A", role="both", store="disk")
    ann, bob, eve = (world.add_client(name, "A") for name in ("ann", "bob", "eve"))
    ann.follow(1, "n >= 0", "ann's")
    world.run(1)
    faults.crash(world, "ann")
    bob.advertise(1)
    world.run(1)
    guarantee(world, bob, range(10))
    world.run(2)
    eve.follow(1, "n >= 0", "ann's")
    world.run(2)
    assert [one.attributes["n"] for one in eve.followed["ann's"].received] == list(range(10))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("broker", ["A", "B"])
def test_power_losses_lose_nothing_that_has_a_receipt(engine: str, broker: str) -> None:
    """At either broker, in the middle of it, again and again."""
    world, ann, bob = two_brokers(engine)
    for round_ in range(4):
        guarantee(world, bob, range(round_ * 30, round_ * 30 + 30), every_s=0.001)
        faults.lose_power(world, broker)
        world.run(0.5)
        faults.restart(world, broker)
        world.run(0.5)
    world.run(20)
    assert check(world) == []
    assert len(got(ann)) == len(set(got(ann)))
    assert got(ann) == sorted(got(ann), key=lambda n: int(str(n)))
    assert sum(one.is_receipted for one in bob.promised.values()) == 120


@pytest.mark.parametrize("engine", ENGINES)
def test_what_retention_takes_is_told_as_a_gap(engine: str) -> None:
    """A follower that comes too late hears which ticks it will never get, and gets the rest."""
    world, ann, bob = two_brokers(engine, release="retention", retain_s=5.0)
    guarantee(world, bob, range(5))
    faults.crash(world, "ann")
    guarantee(world, bob, range(5, 25))
    world.run(10)
    guarantee(world, bob, range(25, 30))
    faults.restart(world, "ann")
    world.run(5)
    record = ann.followed["ann's"]
    assert got(ann) == [*range(5), *range(25, 30)]
    [gap] = record.gaps
    assert gap[0] == pubend_of(BrokerId("A"), 0)
    assert [what for _, what in ann.told if what.what == "gap"]


@pytest.mark.parametrize("engine", ENGINES)
def test_who_has_got_all_there_is_hears_of_no_gap(engine: str) -> None:
    """It left right behind the last event; that is older now than events are kept, and what follows it is silence."""
    world, ann, bob = two_brokers(engine, release="retention", retain_s=3.0)
    for round_ in range(4):
        guarantee(world, bob, range(10 * round_, 10 * round_ + 10))
        world.run(0.05)
        faults.crash(world, "ann")
        world.run(8)
        faults.restart(world, "ann")
        world.run(1)
    assert got(ann) == list(range(40))
    assert ann.followed["ann's"].gaps == []


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_forgotten_elsewhere_is_kept_at_no_store(engine: str) -> None:
    """Also at one to which no way leads, because nothing is published there."""
    world = World(1, engine=engine, costs=COSTS)
    for name, role in (("A", "head"), ("B", "edge"), ("C", "edge")):
        world.add_broker(name, role=role, store="disk")
    world.link("A", "B", latency_ms=5)
    world.link("A", "C", latency_ms=5)
    ann, bob, eve = world.add_client("ann", "B"), world.add_client("bob", "A"), world.add_client("eve", "C")
    bob.advertise(1)
    ann.follow(1, "n >= 0", "ann's")
    world.run(2)
    faults.crash(world, "ann")
    noted: list[bool] = []
    eve._ask(lambda token: UnfollowFor(token, 1, "ann's"), lambda: noted.append(True))
    world.run(6)
    assert noted
    for name in ("A", "B", "C"):
        node = world.brokers[name].node
        assert node is not None
        assert node.core.streams.pubends.holds.names() == []


@pytest.mark.parametrize("engine", ENGINES)
def test_with_release_by_acknowledgement_nothing_is_taken_from_those_who_lag(engine: str) -> None:
    """However old it is."""
    world, ann, bob = two_brokers(engine, release="acknowledged", retain_s=1.0, retain_bytes=1)
    faults.crash(world, "ann")
    guarantee(world, bob, range(20))
    world.run(10)
    faults.restart(world, "ann")
    world.run(5)
    assert got(ann) == list(range(20))
    assert ann.followed["ann's"].gaps == []
    log = world.brokers["A"].disk
    assert log is not None
    assert log.log is not None
    world.run(5)
    pubend = log.log.pubends()[0]
    assert log.log.released_tick(pubend) > log.log.last_tick(pubend) - (2_000 << 20)  # now nobody lacks it


@pytest.mark.parametrize("engine", ENGINES)
def test_too_many_bytes_make_the_oldest_go(engine: str) -> None:
    """By whole segments, until it is within what may be retained."""
    world, _, bob = two_brokers(engine, release="retention", retain_bytes=1 << 20)
    guarantee(world, bob, range(400), every_s=0.02, text="x" * 10_000)
    world.run(15)
    disk = world.brokers["A"].disk
    assert disk is not None
    assert disk.log is not None
    assert disk.log.disk_bytes <= (1 << 20) + (256 << 10)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_full_disk_stops_receipts_and_says_so_and_goes_on(engine: str) -> None:
    """The publisher is told the pace and its reason; nothing is lost, and nothing twice."""
    world, ann, bob = two_brokers(engine)
    guarantee(world, bob, range(3))
    faults.fill_disk(world, "A", bytes_left=0)
    guarantee(world, bob, range(3, 60), text="x" * 10_000)
    world.run(3)
    waiting = [one for one in bob.promised.values() if not one.is_receipted]
    assert waiting
    assert [note.what for _, note in world.brokers["A"].notes if note.what.startswith("log ")] == ["log full"]
    assert any(told.what == "pace" and "disk is full" in str(told.facts["reason"]) for _, told in bob.told)
    paces = [bob.core.pace]
    faults.empty_disk(world, "A")
    world.run(5)
    assert all(one.is_receipted for one in bob.promised.values())
    assert got(ann) == list(range(60))
    assert [*paces, bob.core.pace] == [0.0, None]
    assert [note.what for _, note in world.brokers["A"].notes][-1] == "log goes on"
    assert check(world) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_store_a_guaranteed_event_is_refused(engine: str) -> None:
    """With what to do about it; the connection stays."""
    world = World(1, engine=engine, costs=COSTS)
    world.add_broker("A", role="both")
    bob = world.add_client("bob", "A")
    bob.advertise(1)
    world.run(1)
    bob.guarantee({"n": 1})
    world.run(1)
    [(_, error)] = bob.failures
    assert error.code == "no-store"
    assert bob.core.broker("publish") == "A"


@pytest.mark.parametrize("engine", ENGINES)
def test_brokers_without_a_store_have_nothing_to_hold(engine: str) -> None:
    """A follower whose events may come from one of them is told so; nothing else comes of it."""
    world = World(1, engine=engine, costs=COSTS)
    world.add_broker("A", role="both", store="disk")
    world.add_broker("B", role="both")
    world.link("A", "B")
    ann, bob, eve = world.add_client("ann", "A"), world.add_client("bob", "B"), world.add_client("eve", "A")
    bob.advertise(1)
    eve.advertise(1)
    ann.follow(1, "n >= 0", "ann's")
    world.run(2)
    bob.publish({"n": 1})
    guarantee(world, eve, range(5))
    world.run(2)
    assert got(ann) == list(range(5))
    assert [one.attributes["n"] for one in ann.receipts] == [1]
    assert check(world) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_who_follows_by_the_same_name_takes_over(engine: str) -> None:
    """Where the other one's progress was last told to be. That one is told, and gets nothing more."""
    world, ann, bob = two_brokers(engine)
    eve = world.add_client("eve", "A")
    guarantee(world, bob, range(5))
    world.run(3)
    eve.follow(1, "n >= 0", "ann's")
    world.run(2)
    guarantee(world, bob, range(5, 10))
    world.run(2)
    assert got(ann) == list(range(5))
    assert [one.attributes["n"] for one in eve.followed["ann's"].received] == list(range(5, 10))


def test_random_runs_keep_their_promises() -> None:
    """Crashes, cuts, power losses, slow and full disks: a few of very many seeds."""
    summary = run_seeds(1, 25, engine="kernel")
    assert summary.violations == []
    assert summary.receipts > 1_000
    assert summary.followed > 1_000
