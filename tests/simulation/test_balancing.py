"""Brokers that balance by PEER: the same machines as live, in virtual time (peer §5 to §8)."""

from __future__ import annotations

from typing import Any

import pytest

from tidewire.balancing.config import BalancingConfig
from tidewire.language import compile_filter
from tidewire.model.filters import encode_filter
from tidewire.model.notes import Note
from tidewire.simulator.checkers import check
from tidewire.simulator.world import World

BALANCE = BalancingConfig(
    local_pie_s=2.0,
    global_pie_s=4.0,
    local_detect_s_min=1.0,
    local_detect_s_max=2.0,
    global_detect_s_min=2.0,
    global_detect_s_max=3.0,
    stabilise_s=12.0,
    stable_window_s=4.0,
    press_s=4.0,
    press_samples=20,
    reply_s=2.0,
    done_s=4.0,
    delay_norm_s=1000.0,
)
"""The thesis's pace, faster; rates are measured over ten seconds, so a session is given that long to show. What is
balanced is output: the matching delay is that of the machine that runs the test, and must not matter."""

CLIENTS = 12


def crowded(
    engine: str,
    *,
    balancing: str,
    seed: int = 0,
    output_bytes_s: float = 16_000.0,
    balance: BalancingConfig = BALANCE,
    alone_s: int = 0,
) -> World:
    """All subscribers come while there is one edge, which serves them alone for so long; then there is a second one."""
    world = World(seed, engine=engine)
    options: dict[str, Any] = {"balancing": balancing, "balance": balance, "output_bytes_s": output_bytes_s}
    world.add_broker("head", role="head", **options)
    world.add_broker("first", role="edge", **options)
    world.link("first", "head")
    world.run(1)
    for number in range(CLIENTS):
        world.add_client(f"client{number}", "head").subscribe(1, f"n >= {number % 4}")
    world.add_client("publisher", "head").advertise(1)
    world.run(2)
    publish(world, alone_s)
    world.add_broker("second", role="edge", **options)
    world.link("second", "head")
    world.run(1)
    return world


def publish(world: World, seconds: int) -> None:
    """Ten events a second."""
    for step in range(10 * seconds):
        world.clients["publisher"].publish({"n": step % 8, "step": step})
        world.run(0.1)


def served(world: World) -> dict[str, int]:
    """How many subscribers each edge has."""
    brokers = [world.clients[f"client{number}"].core.broker("subscribe") for number in range(CLIENTS)]
    return {name: brokers.count(name) for name in ("first", "second")}


def notes(world: World, broker: str, what: str) -> list[Note]:
    return [note for _, note in world.brokers[broker].notes if note.what == what]


@pytest.mark.parametrize("engine", ["reference", "kernel"])
def test_a_crowded_edge_gives_clients_away(engine: str) -> None:
    """peer §6.2, M3 to M5a: clients go where there is less to do, and no event is lost, doubled or out of order."""
    world = crowded(engine, balancing="peer")
    assert served(world) == {"first": CLIENTS, "second": 0}
    publish(world, 90)
    assert min(served(world).values()) >= 3
    moved = sum(int(note.facts["moved"]) for note in notes(world, "first", "session ended") if "acceptor" in note.facts)
    assert moved >= 3
    assert notes(world, "second", "takes over")
    assert world.settle()
    world.drain()
    assert check(world) == []


def test_an_edge_tells_what_all_its_clients_want() -> None:
    """peer §6.2, step 2': the covering set, so that a donor knows what its acceptor gets in any case."""
    world = crowded("reference", balancing="peer")
    world.run(5)
    node = world.brokers["first"].node
    assert node is not None
    assert node.core.balancing.report().covering_set == [encode_filter(compile_filter("n >= 0"))]


def test_nobody_moves_unless_it_is_wanted() -> None:
    """The baseline: without balancing the second edge stays empty."""
    world = crowded("reference", balancing="never")
    publish(world, 60)
    assert served(world) == {"first": CLIENTS, "second": 0}


def test_the_overloaded_get_no_clients_and_call_for_help() -> None:
    """peer A4, D8: both edges are full, their head knows, and there is no other cluster."""
    world = crowded("reference", balancing="peer", output_bytes_s=1_000.0)
    publish(world, 40)
    node = world.brokers["first"].node
    assert node is not None
    assert node.core.links.is_full
    assert notes(world, "first", "calls for help")
    assert notes(world, "head", "an edge calls for help")


def test_what_was_predicted_is_held_against_what_came() -> None:
    """peer E1i: output utilisation is predicted well, when the rates are steady."""
    world = crowded("reference", balancing="peer", alone_s=15)
    publish(world, 60)
    facts = notes(world, "first", "measured after a session")[0].facts
    assert float(facts["measured output"]) == pytest.approx(float(facts["predicted output"]), abs=0.05)


@pytest.mark.parametrize("dead", ["first", "second", "head"])
def test_a_death_in_the_middle_ends_the_session(dead: str) -> None:
    """peer §11 row 24: whoever dies while clients move, the others are soon in no session, and go on."""
    world = crowded("reference", balancing="peer", seed=3)
    for _ in range(60):
        publish(world, 1)
        if notes(world, "first", "session began"):
            break
    assert notes(world, "first", "session began")
    world.brokers[dead].crash()
    world.run(3)
    world.brokers[dead].start()
    publish(world, 60)
    world.run(30)
    for name in ("first", "second"):
        node = world.brokers[name].node
        assert node is not None
        assert node.core.balancing.edge is not None
        assert node.core.balancing.edge.condition != "BUSY"
    assert world.settle()
    assert check(world) == []


def test_heartbeats_are_no_load() -> None:
    """peer §3.1: only events count; what is said to clients that get none would be predicted to move with nobody."""
    world = World(0)
    world.add_broker("lone", role="both")
    for number in range(CLIENTS):
        world.add_client(f"client{number}", "lone").subscribe(1, "n >= 0")
    world.run(30)
    node = world.brokers["lone"].node
    assert node is not None
    load, totals = node.meter.load(), node.engine.totals()
    assert load is not None
    assert min(totals.bytes_in, totals.bytes_out) > 30 * CLIENTS
    assert (load.input_bytes_s, load.output_bytes_s) == (0.0, 0.0)
