"""Routing as the papers draw it: peer G2, epeer G10–G13 and G24."""

from __future__ import annotations

from tests.routing.network import Network
from tidewire.model.ids import BrokerId
from tidewire.model.routing_messages import Offer, Routes, RoutesGone


def test_routing_tables_and_what_is_sent_again() -> None:
    """peer G2, L9, L11: sub2 stops at B2; when sub1 leaves, B2 sends a > 9 to B1 before the unsubscription."""
    net = Network("B1 B2 B3 B4")
    for other in ("B1", "B3", "B4"):
        net.link("B2", other)
    net.advertise("pub", "B1", "a > 1")
    net.settle()
    net.subscribe("sub1", "B4", "a > 5")
    net.settle()
    net.subscribe("sub2", "B3", "a > 9")
    net.settle()
    assert net.table("B1", "B1") == {"B2": ["a > 5"]}
    assert net.table("B2", "B1") == {"B4": ["a > 5"], "B3": ["a > 9"]}
    assert net.table("B3", "B1") == {"sub2": ["a > 9"]}
    assert net.table("B4", "B1") == {"sub1": ["a > 5"]}
    assert net.publish("B1", {"a": 10}) == ["sub1", "sub2"]
    assert net.publish("B1", {"a": 7}) == ["sub1"]
    assert net.publish("B1", {"a": 3}) == []
    net.sent.clear()
    net.leave("sub1")
    net.settle()
    to_b1 = [type(message) for sender, to, message in net.sent if (sender, to) == ("B2", "B1")]
    assert to_b1 == [Routes, RoutesGone]
    assert net.table("B1", "B1") == {"B2": ["a > 9"]}


def reference_topology() -> Network:
    """epeer's: RTWC1 with three NTWCs in a ring part, and a local centre behind NTWC1."""
    net = Network("RTWC1 NTWC1 NTWC2 NTWC3 Loc1a")
    for a, b in (("RTWC1", "NTWC1"), ("RTWC1", "NTWC2"), ("RTWC1", "NTWC3"), ("NTWC1", "NTWC2"), ("NTWC1", "Loc1a")):
        net.link(a, b)
    return net


def test_an_advertisement_reaches_all_by_the_shortest_way() -> None:
    """epeer G10: 2·|E| − |V| + 1 = 6 offers, two of them duplicates; each broker knows its way to the source."""
    net = reference_topology()
    net.advertise("pub", "RTWC1", "class = 't1'")
    net.settle()
    offers = [(sender, to) for sender, to, message in net.sent if isinstance(message, Offer)]
    assert len(offers) == 6
    tree = net.nodes["RTWC1"].tree
    parents = {
        name: node.links[parent] for name, node in net.nodes.items() if (parent := node.parents.get(tree)) is not None
    }
    assert parents == {"NTWC1": "RTWC1", "NTWC2": "RTWC1", "NTWC3": "RTWC1", "Loc1a": "NTWC1"}


def test_a_subscription_makes_the_one_path() -> None:
    """epeer G11: two requests, routes RTWC1 → NTWC1 → Loc1a and no other."""
    net = reference_topology()
    net.advertise("pub", "RTWC1", "class = 't1'")
    net.settle()
    net.sent.clear()
    net.subscribe("sub", "Loc1a", "class = 't1'")
    net.settle()
    assert [(sender, to) for sender, to, message in net.sent if isinstance(message, Routes)] == [
        ("Loc1a", "NTWC1"),
        ("NTWC1", "RTWC1"),
    ]
    tables = {name: net.table(name, "RTWC1") for name in net.nodes}
    wanted = ["class = 't1'"]
    assert tables == {
        "RTWC1": {"NTWC1": wanted},
        "NTWC1": {"Loc1a": wanted},
        "Loc1a": {"sub": wanted},
        "NTWC2": {},
        "NTWC3": {},
    }


def test_two_sources_of_one_class() -> None:
    """epeer G12: on a line A–B–C with publishers at A then C, both ends know the other's source, by four messages."""
    net = Network("A B C")
    net.link("A", "B")
    net.link("B", "C")
    net.advertise("first", "A", "class = 't'")
    net.settle()
    net.advertise("second", "C", "class = 't'")
    net.settle()
    assert sum(isinstance(message, Offer) for _, _, message in net.sent) == 4
    a, c = net.nodes["A"], net.nodes["C"]
    assert a.parents[c.tree] is not None
    assert c.parents[a.tree] is not None


def test_a_triangle_brings_each_message_once() -> None:
    """epeer G13."""
    net = Network("A B C")
    for a, b in ("AB", "BC", "CA"):
        net.link(a, b)
    for name in "ABC":
        net.advertise(f"pub{name}", name, "class = 't'")
        net.subscribe(f"sub{name}", name, "class = 't'")
    net.settle()
    for name in "ABC":
        assert net.publish(name, {"class": "t"}) == ["subA", "subB", "subC"]


def test_our_own_tree_is_not_taken_from_others() -> None:
    """epeer G24."""
    net = Network("A B")
    net.link("A", "B")
    net.advertise("pub", "A")
    net.settle()
    a = net.nodes["A"]
    link = next(iter(a.links))
    assert a.router.heard(link, Offer(a.tree, [BrokerId("A"), BrokerId("B")])) == []
