"""Guaranteed events over links with little room: short queues, and neighbours that take shorter frames."""

from typing import Any

import pytest

from tidewire.simulator import disks, faults
from tidewire.simulator.checkers import check
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.costs import Measured
from tidewire.simulator.world import World

ENGINES = ["reference", "kernel"]
COSTS = Measured(call_ns=3_000, event_ns=400, doubling_ns=0, copy_ns=150, write_ns=0, message_ns=40_000)
MIB = 1 << 20


@pytest.fixture
def large_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event has room in a quarter of a segment."""
    monkeypatch.setattr(disks, "SEGMENT_BYTES", 32 * MIB)
    monkeypatch.setattr(disks, "GROUP_BYTES", 8 * MIB)


def row(engine: str, *, head: dict[str, Any], middle: dict[str, Any], edge: dict[str, Any], mbps: float) -> World:
    """A head, a broker between, and an edge, which has the narrower link."""
    world = World(1, engine=engine, costs=COSTS)
    world.add_broker("H", role="head", store="disk", **head)
    world.add_broker("M", role="head", **middle)
    world.add_broker("E", role="edge", **edge)
    world.link("M", "H", latency_ms=0.1)
    world.link("E", "M", latency_ms=0.1, mbps=mbps)
    return world


def got(ann: ClientHost) -> list[object]:
    """The numbers that came to the follower."""
    return [one.attributes["n"] for one in ann.followed["ann's"].received]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cache_bytes", [8 * MIB, 4096], ids=["much is remembered", "little is remembered"])
def test_a_recovery_through_a_short_queue_goes_on_as_the_link_does(engine: str, cache_bytes: int) -> None:
    """More is asked for than the queue on the way takes; what finds no room there does not wait for a timeout."""
    small = {"link_queue_bytes_max": 20_000, "stream_cache_bytes": cache_bytes}
    world = row(engine, head=small, middle=small, edge={}, mbps=10.0)
    ann, bob = world.add_client("ann", "E"), world.add_client("bob", "H")
    bob.advertise(1)
    ann.follow(1, "n >= 0", "ann's")
    world.run(2)
    faults.crash(world, "M")
    for n in range(1000):
        bob.guarantee({"n": n, "text": "x" * 700})
        world.run(0.0005)
    faults.restart(world, "M")
    world.run(5)
    assert got(ann) == list(range(1000))
    assert check(world) == []


@pytest.mark.usefixtures("large_segments")
@pytest.mark.parametrize("engine", ENGINES)
def test_an_edge_that_takes_short_frames_of_its_clients_takes_longer_ones_of_its_neighbours(engine: str) -> None:
    world = row(engine, head={}, middle={}, edge={"frame_bytes_max": 65_536}, mbps=100.0)
    ann, bob = world.add_client("ann", "E"), world.add_client("bob", "H")
    bob.advertise(1)
    ann.follow(1, "n >= 0", "ann's")
    world.run(2)
    for n, size in enumerate((10, 200_000, 10)):
        bob.guarantee({"n": n, "text": "x" * size})
    world.run(5)
    assert got(ann) == [0, 1, 2]
    assert ann.followed["ann's"].gaps == []
    assert check(world) == []


@pytest.mark.usefixtures("large_segments")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("is_away", [False, True], ids=["there", "away"])
def test_what_a_neighbour_cannot_take_is_told_as_a_gap_and_the_link_stays(engine: str, is_away: bool) -> None:
    """Followers hear of it, whether they were there or come back later; what is behind it comes."""
    world = row(engine, head={"frame_bytes_max": 8 * MIB}, middle={"frame_bytes_max": 8 * MIB}, edge={}, mbps=1000.0)
    ann, bob = world.add_client("ann", "E"), world.add_client("bob", "H")
    bob.advertise(1)
    ann.follow(1, "n >= 0", "ann's")
    world.run(2)
    if is_away:
        faults.crash(world, "ann")
    for n, size in enumerate((10, MIB, 10)):
        bob.guarantee({"n": n, "a": "x" * size, "b": "x" * size, "c": "x" * size})
    world.run(5)
    if is_away:
        faults.restart(world, "ann")
        world.run(5)
    assert got(ann) == [0, 2]
    assert len(ann.followed["ann's"].gaps) == 1
    assert [what for _, what in ann.told if what.what == "gap"]
    edge = world.brokers["E"].node
    assert edge is not None
    assert [one.broker for one in edge.core.links.up()] == ["M"]
