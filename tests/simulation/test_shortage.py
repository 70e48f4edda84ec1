"""Brokers under shortage: the same machines as live, in virtual time (epeer §2.10)."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from tidewire.benchmarks.cut import KINDS, Plan, report
from tidewire.benchmarks.cut_simulated import CutWorld
from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.model.shortage_messages import Opinion, Opinions, QuenchHeard
from tidewire.simulator.checkers import check
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.random_runs import RandomRun
from tidewire.simulator.world import World
from tidewire.wire.connections import Send

FDCC = FdccConfig(policy="fdcc")


def small(**settings: Any) -> World:
    """A head with two edges."""
    world = World(1)
    options: dict[str, Any] = {"fdcc": msgspec.structs.replace(FDCC, **settings)}
    world.add_broker("head", role="head", **options)
    for edge in ("east", "west"):
        world.add_broker(edge, role="edge", **options)
        world.link(edge, "head")
    world.run(1)
    return world


def publisher(world: World, text: str | None = None) -> ClientHost:
    client = world.add_client("publisher", "head")
    client.advertise(1, text)
    world.run(1)
    return client


def test_what_nobody_wants_is_not_sent() -> None:
    """epeer §2.11, QUENCH: told so, it makes no message; told again, it speaks before a subscription is confirmed."""
    world = small()
    client = publisher(world, "n >= 0")
    world.run(2)
    client.publish({"n": 1})
    world.run(0.5)
    assert (client.suppressed, len(world.publications)) == (1, 1)
    ann = world.add_client("ann", "east")
    span = ann.subscribe(1, "n > 5")
    while span.confirmed_ns > world.agenda.now_ns:
        client.publish({"n": 6})
        world.run(0.001)
    client.publish({"n": 7})
    world.run(1)
    assert [receipt.attributes["n"] for receipt in ann.receipts][-1] == 7
    assert client.suppressed > 1, "until it was asked for"
    assert check(world) == []


def test_silence_returns_when_the_last_has_gone() -> None:
    """Of several who want it each may go; the last one ends it."""
    world = small()
    client = publisher(world, "n >= 0")
    ann, bob = world.add_client("ann", "east"), world.add_client("bob", "west")
    ann.subscribe(1, "n > 5")
    bob.subscribe(1, "n > 3")
    world.run(2)
    bob.unsubscribe(1)
    world.run(2)
    client.publish({"n": 6})
    assert client.suppressed == 0
    ann.unsubscribe(1)
    world.run(2)
    client.publish({"n": 6})
    assert client.suppressed == 1
    assert check(world) == []


def test_a_publisher_that_does_not_answer_is_ended() -> None:
    """Nobody waits for ever: a subscription is confirmed when those who were to speak again have, or are gone."""
    world = small(quench_ack_s=1.5)
    client = publisher(world, "n >= 0")
    world.run(2)
    real = client._transport
    client._transport = (  # type: ignore[method-assign]
        lambda effect: None if isinstance(effect, Send) and isinstance(effect.message, QuenchHeard) else real(effect)
    )
    ann = world.add_client("ann", "east")
    span = ann.subscribe(1, "n > 5")
    world.run(1)
    assert span.confirmed_ns > world.agenda.now_ns, "it must not be confirmed before the publisher knows"
    world.run(1)
    assert span.confirmed_ns <= world.agenda.now_ns
    node = world.brokers["head"].node
    assert node is not None
    status = node.core.shortage.status()
    assert status is not None
    assert status.publishers_ended == 1


@pytest.mark.parametrize("seed", range(6))
def test_nobody_lacks_what_was_not_sent(seed: int) -> None:
    """Subscriptions come and go at all brokers while publishers fall silent and speak again: nothing is missing."""
    chance = Random(f"quench {seed}")
    world = small()
    talkers = []
    for i in range(4):
        client = world.add_client(f"p{i}", "head")
        client.advertise(1, f"n >= {10 * i} and n < {10 * i + 15}")
        talkers.append(client)
    listeners = [world.add_client(f"s{i}", chance.choice(("east", "west"))) for i in range(4)]
    world.run(1.5)
    for _ in range(400):
        if chance.random() < 0.1:
            listener = chance.choice(listeners)
            if listener.wants() and chance.random() < 0.6:
                listener.unsubscribe(1)
            else:
                low = chance.randrange(60)
                listener.subscribe(1, f"n >= {low} and n < {low + 8}")
        number = chance.randrange(4)
        talkers[number].publish({"n": 10 * number + chance.randrange(15)})
        world.run(0.02)
    world.run(3)
    assert sum(one.suppressed for one in talkers) > 10
    assert check(world) == []


@pytest.mark.parametrize("seed", [3, 23])
def test_random_worlds_with_opinions(seed: int) -> None:
    """Crashes, cuts and moves beside limits and silence."""
    run = RandomRun(seed)
    assert run._worth
    assert run.play() == []


def test_the_most_valuable_keeps_its_deadline() -> None:
    """A cable is cut, and three times as much is published as passes (epeer §2.10, §1.2): with FDCC the least valuable
    gives way, without it all are late; when the cable is mended every limit is lifted within three periods."""
    plan = msgspec.structs.replace(
        Plan(), cut_s=40.0, capacity_bytes_s=24_000.0, before_s=5.0, after_s=6.0, subscribers=1
    )
    found = report(plan, "simulated", *(CutWorld(plan, is_on=is_on).run() for is_on in (True, False)))
    first, last = (found.with_fdcc.classes[kind.name] for kind in (KINDS[0], KINDS[-1]))
    assert first.keeps_deadline
    assert first.held_back == 0
    assert first.p99_settled_s is not None
    assert first.p99_settled_s < 1.0
    assert last.held_back > 0.8 * last.offered
    assert not found.without_fdcc.classes[KINDS[0].name].keeps_deadline
    assert found.with_fdcc.lifted_after_s is not None
    assert found.with_fdcc.lifted_after_s <= found.lifted_within_s
    assert found.with_fdcc.triggers == 1
    assert found.holds
    subscribers = len(KINDS) * plan.edges * plan.subscribers
    assert found.with_fdcc.feedback_msgs_s <= subscribers, "epeer §4.2: at most one a second of each subscriber"


def test_a_flood_of_opinions_is_ignored() -> None:
    """One subscriber says a hundred times a second that a publisher is worth nothing, and of others that it never
    heard of: it counts as one."""
    world = small()
    client = publisher(world, "n >= 0")
    ann, eve = world.add_client("ann", "east"), world.add_client("eve", "west")
    ann.judge = lambda _: 1.0
    for one in (ann, eve):
        one.subscribe(1, "n > 5")
    world.run(1)
    for i in range(500):
        client.publish({"n": 6})
        conn = eve.core.connection("subscribe")
        assert conn is not None
        tree = world.brokers["head"].tree
        lies = [Opinion(int(tree), who, "-", 0.0, 1000) for who in (client.publisher, 12345)]
        eve._transport(Send(conn, Opinions(lies), "control"))
        world.run(0.01)
        if i == 450:
            node = world.brokers["head"].node
            assert node is not None
            told = node.core.shortage.utilities()
            assert list(told.values()) == [pytest.approx(0.5)]
    west = world.brokers["west"].node
    assert west is not None
    status = west.core.shortage.status()
    assert status is not None
    assert status.opinions_ignored > 450
    assert status.opinions_heard < 15


def test_a_remote_cluster_limits_what_comes_to_it() -> None:
    """epeer §2.10, remote clients: feedback goes to the publisher's head, limits come back from the subscribers'."""
    world = World(2)
    options: dict[str, Any] = {"fdcc": msgspec.structs.replace(FDCC, tiers=False)}
    for name in ("home", "far"):
        world.add_broker(name, role="head", **options)
        world.add_broker(f"{name}-edge", role="edge", **options)
        world.link(f"{name}-edge", name)
    world.link("home", "far")
    world.network.packet_bytes = 1460
    world.run(1)
    speakers = {}
    for kind, worth in (("good", 0.9), ("bad", 0.1)):
        for edge in ("home-edge", "far-edge"):
            listener = world.add_client(f"{kind}-{edge}", edge)
            listener.judge = lambda event, worth=worth: worth
            listener.subscribe(1, f"class = '{kind}'")
        speakers[kind] = world.add_client(kind, "home")
        speakers[kind].advertise(1, f"class = '{kind}' and padding like '%'")
    world.run(2)
    _talk(world, speakers, seconds=3)
    world.network.path("far-edge", "far").set(mbps=0.25)
    _talk(world, speakers, seconds=6)
    restraints = {kind: one.core.valuing.restraint for kind, one in speakers.items()}
    limits = {kind: {} if one is None else one.limits for kind, one in restraints.items()}
    assert limits == {"good": {}, "bad": {"=bad": (0.0, "selection")}}
    nodes = {name: world.brokers[name].node for name in ("home", "far")}
    modes = {name: node.core.shortage.status() for name, node in nodes.items() if node is not None}
    assert {name: None if one is None else one.mode for name, one in modes.items()} == {
        "home": "normal",
        "far": "limited",
    }
    world.network.path("far-edge", "far").set(mbps=100)
    _talk(world, speakers, seconds=4)
    assert all(one is not None and not one.limits for one in restraints.values())


def _talk(world: World, speakers: dict[str, ClientHost], *, seconds: int) -> None:
    """Forty events a second of each, of half a kilobyte."""
    for _ in range(40 * seconds):
        for kind, client in speakers.items():
            client.publish({"class": kind, "padding": "x" * 500})
        world.run(0.025)


def test_a_lone_broker_has_only_so_much_output() -> None:
    """epeer §2.10 at one broker: budget 0.95 of its output, for the most important class first."""
    world = World(3)
    world.add_broker("alone", fdcc=msgspec.structs.replace(FDCC, tiers=False), role="both", output_bytes_s=30_000.0)
    world.run(1)
    speakers = {}
    for kind, worth in (("good", 0.9), ("bad", 0.1)):
        listener = world.add_client(f"listens-{kind}", "alone")
        listener.judge = lambda event, worth=worth: worth
        listener.subscribe(1, f"class = '{kind}'")
        speakers[kind] = world.add_client(kind, "alone")
        speakers[kind].advertise(1)
    world.run(1)
    _talk(world, speakers, seconds=6)
    restraint = speakers["bad"].core.valuing.restraint
    assert restraint is not None
    assert restraint.limits == {"=bad": (0.0, "selection")}
    assert speakers["good"].held_back == 0
    assert speakers["bad"].held_back > 60
    told = [notice.facts for _, notice in speakers["bad"].told if notice.what == "limit"]
    assert told == [{"class": "=bad", "events/s": 0.0, "reason": "selection"}]
    assert check(world) == []
