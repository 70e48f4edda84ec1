"""Who hosts whom (peer §2, A1–A8): the rule itself, and what comes of it in networks that are made by chance."""

from __future__ import annotations

from random import Random

import pytest

from tidewire.model.messages import DeclaredRole, Neighbourhood, Role
from tidewire.routing.roles import hosts, role_of
from tidewire.simulator import faults
from tidewire.simulator.checkers import check
from tidewire.simulator.world import World


def _about(role: Role, *, neighbours: int = 1, is_full: bool = False, is_leaving: bool = False) -> Neighbourhood:
    return Neighbourhood(neighbours, "auto", role, is_full, is_leaving)


@pytest.mark.parametrize(
    ("neighbours", "role"),
    [
        ([], "both"),
        ([None], "both"),
        ([_about("both", neighbours=1)], "both"),
        ([_about("head", neighbours=2)], "edge"),
        ([None, None], "head"),
        ([_about("edge"), _about("edge")], "head"),
        ([_about("head", neighbours=3), _about("edge")], "head"),
    ],
)
def test_a_role_follows_from_the_neighbours(neighbours: list[Neighbourhood | None], role: Role) -> None:
    """More than one makes a head, one that has more an edge (peer A1); two or fewer have no roles (A2)."""
    assert role_of("auto", neighbours) == role
    declared: tuple[DeclaredRole, ...] = ("head", "edge", "both")
    assert [role_of(one, neighbours) for one in declared] == list(declared)


def test_a_subscriber_goes_to_any_edge_that_is_not_overloaded() -> None:
    """At random (peer A4), and to none that leaves; if all are overloaded, to any of them."""
    near = {"H": _about("head"), "E": _about("edge"), "F": _about("edge"), "G": _about("edge", is_full=True)}
    near["L"] = _about("edge", is_leaving=True)
    found = [hosts("head", "subscribe", near, chance=Random(seed))[0] for seed in range(50)]
    assert set(found) == {"E", "F"}
    assert 10 < found.count("E") < 40
    full = {"E": _about("edge", is_full=True), "F": _about("edge", is_full=True), "X": None}
    assert {hosts("head", "subscribe", full, chance=Random(seed))[0] for seed in range(50)} == {"E", "F"}


def test_a_publisher_goes_to_its_head_and_who_is_right_stays() -> None:
    """An edge's only neighbour is its head (peer A4); a head without edges serves subscribers itself."""
    assert hosts("edge", "publish", {"H": _about("head"), "E": _about("edge")}, chance=Random(0)) == ["H"]
    assert hosts("edge", "subscribe", {"H": _about("head")}, chance=Random(0)) == []
    assert hosts("head", "publish", {"H": _about("head"), "E": _about("edge")}, chance=Random(0)) == []
    assert hosts("head", "subscribe", {"H": _about("head")}, chance=Random(0)) == []


@pytest.mark.parametrize("seed", range(8))
def test_heads_carry_no_subscribers_and_edges_no_publishers(seed: int) -> None:
    """In any tree, wherever clients come, also when they come before the last broker (peer A1, A3, A4, A7).

    Each is sent on within the cluster that it came to (A5).
    """
    world, chance = World(seed), Random(seed)
    last = 2 + seed % 6
    for at in range(last + 1):
        world.add_broker(f"B{at}")
        if at:
            world.link(f"B{at}", f"B{chance.randrange(at)}")
        world.run(1)
        broker = f"B{chance.randrange(at + 1)}"
        world.add_client(f"s{at}", broker).subscribe(1, "price > 0")
        world.add_client(f"p{at}", broker).advertise(1)
    world.run(3)
    for host in world.brokers.values():
        assert host.node is not None
        core = host.node.core
        about = [neighbour.about for neighbour in core.links.up()]
        is_cluster = any(one is not None and one.role == "edge" for one in about)
        assert core.links.role == ("head" if len(about) > 1 else "edge")
        if core.links.role == "edge":
            assert core.clients.using("publish") == []
        elif is_cluster:
            assert core.clients.using("subscribe") == []
    came = world.clients[f"s{last}"].core.broker("subscribe")
    assert came is not None
    assert world.clients[f"p{last}"].core.broker("publish") in _cluster(world, came)
    for client in world.clients.values():
        client.publish({"price": 1})
    world.run(3)
    assert check(world) == []
    assert all(len(client.receipts) == last + 1 for name, client in world.clients.items() if name.startswith("s"))
    assert all(client.receipts == [] for name, client in world.clients.items() if name.startswith("p"))


def _cluster(world: World, broker: str) -> list[str]:
    """A broker, its neighbours, and theirs."""
    node = world.brokers[broker].node
    assert node is not None
    heads = [neighbour.broker for neighbour in node.core.links.up()]
    return [broker, *heads]


def test_a_subscriber_that_is_moved_to_a_head_goes_on_to_an_edge() -> None:
    """Heads are never given subscribers, by no way (peer A7); nothing is lost on the way (A6, A8)."""
    world = World(0)
    for name in ("H", "E", "F", "G"):
        world.add_broker(name)
        if name != "H":
            world.link(name, "H")
    world.run(2)
    ann, bob = world.add_client("ann", "E"), world.add_client("bob", "H")
    ann.subscribe(1, "price > 0")
    bob.advertise(1)
    world.run(2)
    for number in range(60):
        bob.publish({"price": 1, "number": number})
        if number % 20 == 0:
            faults.migrate(world, "ann", "H")
        world.run(0.1)
    world.run(3)
    node = world.brokers["H"].node
    assert node is not None
    assert node.core.clients.using("subscribe") == []
    assert ann.core.broker("subscribe") in ("E", "F", "G")
    assert [receipt.attributes["number"] for receipt in ann.receipts] == list(range(60))
    assert check(world) == []
