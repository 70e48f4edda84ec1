"""Flows in the simulator: many equal events told at once, carried, charged, received and checked as if one by one."""

from typing import Any

import msgspec
import pytest

from tidewire._kernel.codec import encode
from tidewire.dataplane.flows import Repeat, flow
from tidewire.model.events import Envelope, make_event
from tidewire.model.messages import Use
from tidewire.simulator import faults
from tidewire.simulator.applications import WAITING_MAX
from tidewire.simulator.checkers import check, events_lost
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.workloads import Workload
from tidewire.simulator.world import World
from tidewire.wire.frames import DELIVER, HOP, frame

SLICE = 200
"""Events of the busiest publisher below in the second that is told at once."""


def stocks(mbps: float) -> str:
    """Three brokers, one with little bandwidth; rates that change, also within a second (peer §9.4)."""
    return f"""
        0    broker add B0 20 64 100
        0    broker add B1 20 64 100
        0    broker add B2 20 64 {mbps}
        0.1  broker link B1 B0
        0.1  broker link B2 B0
        2    publisher add P1 YHOO 0 B1
        2    publisher add P2 ACME 0 B0
        4    subscriber add S1 B2 class = 'STOCK' and symbol = 'YHOO'
        4    subscriber add S2 B2 class = 'STOCK' and symbol = 'ACME'
        4    subscriber add S3 B0 class = 'STOCK'
        4    subscriber add S4 B1 symbol = 'ACME'
        4    subscriber add S5 B2 symbol = 'NOBODY'
        8    publisher chrate P1 6000
        8.5  publisher chrate P2 1800
        14.3 publisher chrate P1 12000
        20   publisher chrate P1 0
        20   publisher chrate P2 0
    """


def played(engine: str, mbps: float, **options: Any) -> World:
    """The workload, until all is through."""
    world = World(1, engine=engine)
    Workload(stocks(mbps), world, options={"role": "both", **options})
    world.run(60)
    return world


def received(world: World) -> dict[str, int]:
    """How many events, by subscriber."""
    return {name: got(client) for name, client in world.clients.items() if client.spans}


def got(client: ClientHost) -> int:
    """How many events."""
    return sum(receipt.count for receipt in client.receipts)


@pytest.mark.parametrize("options", [{}, {"queue_bytes_max": 100_000, "link_queue_bytes_max": 50_000}])
def test_a_workload_gives_the_totals_that_it_gives_event_by_event(options: dict[str, Any]) -> None:
    """Little bandwidth, little CPU, queues that make others wait: all arrives, at the same cost (peer §9.2, §9.3)."""
    fluid, kernel = (played(engine, 0.2, slow_subscriber="wait", **options) for engine in ("fluid", "kernel"))
    assert received(fluid) == received(kernel) == {"S1": 1768, "S2": 345, "S3": 2113, "S4": 345, "S5": 0}
    assert fluid.publications.events == kernel.publications.events == 2113
    assert len(fluid.publications) < 50
    for name, host in fluid.brokers.items():
        assert host.busy_ns == pytest.approx(kernel.brokers[name].busy_ns, rel=1e-3)
    for name, uplink in fluid.network.uplinks.items():
        assert uplink.busy_ns == pytest.approx(kernel.network.uplinks[name].busy_ns, rel=0.05)
    assert check(fluid) == check(kernel) == []


def test_what_is_dropped_is_the_same_within_a_slice() -> None:
    """A queue that drops the oldest: what is received, and what is told to be lost."""
    options: dict[str, Any] = {"slow_subscriber": "drop", "queue_bytes_max": 100_000}
    fluid, kernel = (played(engine, 0.15, **options) for engine in ("fluid", "kernel"))
    for name in received(kernel):
        lost = events_lost(kernel.clients[name])
        assert received(fluid)[name] == pytest.approx(received(kernel)[name], abs=SLICE if lost else 0)
        assert got(fluid.clients[name]) + events_lost(fluid.clients[name]) == received(kernel)[name] + lost
    assert events_lost(kernel.clients["S1"]) > SLICE
    assert check(fluid) == check(kernel) == []


def test_tens_of_thousands_of_events_a_second() -> None:
    """Ten brokers, twenty publishers with 20,000 events a second each: two million events in about a second."""
    world = World(0, engine="fluid")
    for i in range(10):
        world.add_broker(f"B{i}", role="both", queue_bytes_max=64 << 20, link_queue_bytes_max=64 << 20)
    for i in range(1, 10):
        world.link(f"B{(i - 1) // 2}", f"B{i}")
    world.run(2)
    publishers = [world.add_client(f"p{i}", f"B{i % 10}") for i in range(20)]
    for i, client in enumerate(publishers):
        client.advertise(1, f"class = 'C{i}' and n >= 0")
        for j in range(2):
            world.add_client(f"s{i}-{j}", f"B{(3 * i + 7 * j) % 10}").subscribe(1, f"class = 'C{i}'")
    assert world.settle()
    steps = world.agenda.steps
    for n in range(5):
        world.run(1)
        for i, client in enumerate(publishers):
            client.publish({"class": f"C{i}", "n": n}, count=20_000, over_s=1.0)
    world.run(5)
    assert world.publications.events == 2_000_000
    assert sum(received(world).values()) == 4_000_000
    assert world.agenda.steps - steps < 2_000_000 / 50
    assert check(world) == []


def chain(
    engine: str = "fluid", *, latency_ms: float = 20, read_mbps: float | None = None
) -> tuple[World, ClientHost, ClientHost]:
    """Ann at one end, Bob, who publishes, at the other."""
    world = World(0, engine=engine)
    for name in "ABC":
        world.add_broker(name, role="both")
    world.link("A", "B", latency_ms=20, mbps=4)
    world.link("B", "C", latency_ms=latency_ms)
    ann, bob = world.add_client("ann", "C", "B", read_mbps=read_mbps), world.add_client("bob", "A", "B")
    bob.advertise(1)
    ann.subscribe(1, "price < 10")
    assert world.settle()
    return world, ann, bob


@pytest.mark.parametrize("engine", ["fluid", "reference"])
def test_a_flow_is_received(engine: str) -> None:
    """At once, with the delay of its middle; where the engine takes no flows, one by one."""
    world, ann, bob = chain(engine)
    bob.publish({"price": 5}, count=101, over_s=0.101)
    world.run(1)
    assert got(ann) == 101
    assert len(ann.receipts) == (1 if engine == "fluid" else 101)
    middle = ann.receipts[len(ann.receipts) // 2]
    assert middle.delay_ns == pytest.approx((50 + 41 + 2) * 1_000_000, rel=0.4)
    assert check(world) == []


def test_a_flow_takes_the_time_that_its_events_take() -> None:
    """10,000 of them over a link of 4 Mbit/s, in whatever parts."""
    arrived: dict[str, list[int]] = {}
    for engine in ("fluid", "kernel"):
        world, ann, bob = chain(engine)
        bob.publish({"price": 5}, count=10_000)
        for _ in range(4):
            world.run(0.5)
            arrived.setdefault(engine, []).append(got(ann))
        assert check(world) == []
    assert arrived["fluid"] == pytest.approx(arrived["kernel"], abs=400)
    assert 1000 < arrived["fluid"][0] < 5000 < arrived["fluid"][-1] == 10_000


def test_a_slow_reader_fills_the_queue() -> None:
    """What it has not read is bounded by the window, and the rest waits at its broker."""
    world, ann, bob = chain(read_mbps=1)
    bob.publish({"price": 5}, count=40_000)
    world.run(8)
    node = world.brokers["C"].node
    assert node is not None
    waiting = node.queued_bytes()
    assert 500_000 < waiting < 40_000 * 100 - 1_000_000
    world.run(40)
    assert got(ann) == 40_000


def test_events_that_came_before_are_kept_from_the_application() -> None:
    """Also when only a part of a flow has come before."""
    _, ann, bob = chain()
    conn = ann.core.connection("subscribe")
    assert conn is not None
    for first in (1, 5, 9):
        envelope = Envelope(publisher=bob.publisher, sequence=first, tree=1)
        event = encode(make_event({"price": 5}, envelope=envelope))
        delivered = frame(DELIVER, HOP.pack(0, 0, first) + bytes([1, 1, 0, 0, 0]) + event)
        ann.take(ann.ends[conn], flow(delivered, Repeat(10, 0)))
    assert [(receipt.key[1], receipt.count) for receipt in ann.receipts][:2] == [(1, 10), (11, 1)]
    assert got(ann) == 18
    assert [key[1] for _, key in ann.repeats] == [*range(5, 11), *range(9, 15)]


@pytest.mark.parametrize("use", ["subscribe", "publish"])
def test_a_session_that_moves_loses_nothing(use: Use) -> None:
    """While it moves, a flow is taken apart; the old broker is behind the new one (peer M3–M5a)."""
    world, ann, bob = chain(latency_ms=200)
    mover, home = (ann, "C") if use == "subscribe" else (bob, "A")
    for n in range(80):
        bob.publish({"price": 5}, count=50, over_s=0.05)
        if n in (10, 50):
            assert faults.migrate(world, mover.name, "B" if n == 10 else home, use=use)
        world.run(0.05)
    world.run(3)
    assert got(ann) == 4000
    assert len(ann.receipts) < 3000
    assert [told.what for _, told in mover.told].count("moved") == 2
    assert check(world) == []


def test_what_waits_for_a_connection_has_a_bound() -> None:
    """In events."""
    world = World(0, engine="fluid")
    world.add_broker("A")
    bob = world.add_client("bob", "A")
    bob.advertise(1)
    for _ in range(3):
        bob.publish({"price": 5}, count=WAITING_MAX // 2 - 1)
    world.run(2)
    assert [one.count for one in world.publications.values()] == [WAITING_MAX // 2 - 1, WAITING_MAX // 2 - 1, 2]


def test_a_flow_that_is_refused() -> None:
    """All of it, though not all are listed."""
    world, ann, bob = chain()
    bob.advertise(1, "price >= 0 and price < 9")
    world.run(1)
    bob.publish({"price": 9}, count=1000)
    bob.publish({"price": 8}, count=10)
    world.run(3)
    assert got(ann) == 10
    assert len(bob.refused) >= 1000
    assert check(world) == []


def _changed(ann: ClientHost, at: int, **changes: Any) -> None:
    ann.receipts[at] = msgspec.structs.replace(ann.receipts[at], **changes)


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        (lambda ann: _changed(ann, 1, count=7), "no loss: ann lacks 3 of bob's events 11 to 20"),
        (lambda ann: ann.receipts.pop(), "no loss: ann lacks 10 of bob's events 21 to 30"),
        (lambda ann: _changed(ann, 0, count=11), "no duplicates: ann got one of bob's events 11 to 20"),
        (lambda ann: ann.receipts.reverse(), "in order: ann got one of bob's events 11 to 20"),
        (lambda ann: _changed(ann, 2, count=11), "nothing unknown: ann got {'price': 3}, which nobody published"),
        (lambda ann: _changed(ann, 2, subscriptions=(4,)), "no false positives: ann got one of bob's events 21 to 30"),
    ],
)
def test_checkers_see_parts_of_flows(breaks: Any, says: str) -> None:
    """Records that are changed by hand."""
    world, ann, bob = chain()
    for price in (1, 2, 3):
        bob.publish({"price": price}, count=10, over_s=0.1)
        world.run(0.1)
    world.run(3)
    assert [receipt.count for receipt in ann.receipts] == [10, 10, 10]
    assert check(world) == []
    breaks(ann)
    assert says in "\n".join(check(world))
