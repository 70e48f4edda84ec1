"""A broker's own account of itself: small, whatever its clients do, and true."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from tests.routing.network import encoded
from tidewire._kernel.codec import encode
from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import BrokerCore
from tidewire.broker.decisions import DECISIONS_MAX, SAME_KIND_MAX, TEXT_MAX, Decisions
from tidewire.broker.effects import Note
from tidewire.broker.events import Started
from tidewire.broker.node import BrokerNode
from tidewire.broker.status import SLOW_MAX, BrokerStatus, Host
from tidewire.dataplane.kernel import KernelEngine
from tidewire.model.events import make_event
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import VERSION, Advertise, AskStatus, Drain, Hello, Lane, Link, Status, Subscribe
from tidewire.wire.connections import Closed, Heard, Opened, TimePassed
from tidewire.wire.frames import FrameReader, decode_message, message_frame, publish_frame

SECOND = 1_000_000_000
STATUS_BYTES_MAX = 64 << 10


def at(seconds: float) -> Nanoseconds:
    return Nanoseconds(int(seconds * SECOND))


def node_of(**settings: Any) -> BrokerNode:
    config = BrokerConfig(broker=BrokerId("A"), address="127.0.0.1:7600", **settings)
    node = BrokerNode(BrokerCore(config, incarnation=1 << 60, chance=Random(1)), KernelEngine())
    node.handle(Started(), now_ns=at(100))
    return node


def join(node: BrokerNode, conn: int, name: str, wanted: str = "") -> None:
    node.handle(Opened(Conn(conn)), now_ns=at(100))
    node.receive(
        Conn(conn), message_frame(Hello(version=VERSION, name=name, uses=["subscribe", "publish"])), now_ns=at(100)
    )
    if wanted:
        node.receive(Conn(conn), message_frame(Subscribe(1, [0], [encoded(wanted)])), now_ns=at(100))


def publish(node: BrokerNode, conn: int, count: int, *, size: int) -> None:
    node.handle(Heard(Conn(conn), Advertise(1, [0], [b""])), now_ns=at(100))
    event = encode(make_event({"n": 1}, body=b"x" * size))
    for _ in range(count):
        node.receive(Conn(conn), publish_frame(event, born_ns=0), now_ns=at(101))


def test_a_slow_client_is_named_with_what_waits_and_what_it_lost() -> None:
    node = node_of(queue_bytes_max=40_000)
    join(node, 1, "publisher")
    join(node, 2, "slow", "n = 1")
    join(node, 3, "idle", "n = 2")
    publish(node, 1, 12, size=1000)
    assert [(one.name, one.dropped, one.dropped_age_s) for one in node.status(now_ns=at(102)).slow] == [
        ("slow", 0, None)
    ]
    publish(node, 1, 100, size=1000)
    node.handle(TimePassed(), now_ns=at(103))
    status = node.status(now_ns=at(105))
    (slow,) = status.slow
    assert slow.dropped == status.dropped > 0
    assert slow.dropped_age_s == 2.0
    assert slow.queued_bytes == node.engine.traffic(Conn(2)).queued_bytes > 10_000
    assert (status.slow_clients, status.clients, status.subscribers, status.publishers) == (1, 3, 2, 1)
    node.handle(Closed(Conn(2)), now_ns=at(106))
    assert node.status(now_ns=at(106)).slow == []
    join(node, 2, "somebody else", "n = 1")  # a number is used again
    assert node.status(now_ns=at(106)).slow == []


def test_times_are_the_machines_own_and_of_the_calendar_if_the_driver_tells() -> None:
    node = node_of()
    assert (node.status(now_ns=at(103)).uptime_s, node.status(now_ns=at(103)).unix_s) == (3.0, None)
    node.unix_offset_ns = 1_700_000_000 * SECOND
    status = node.status(now_ns=at(103))
    assert status.unix_s == 1_700_000_103.0
    (started,) = status.decisions
    assert (started.what, started.age_s, started.at_unix_s) == ("started", 3.0, 1_700_000_100.0)


def test_a_decision_is_remembered() -> None:
    """What the machine notes is in the document that it is asked for."""
    node = node_of()
    join(node, 1, "ann", "n = 1")
    node.handle(Opened(Conn(2)), now_ns=at(101))
    link = Link(version=VERSION, broker=BrokerId("B"), incarnation=1, address="127.0.0.1:7601", lane="data")
    node.handle(Heard(Conn(2), link), now_ns=at(101))
    node.handle(Closed(Conn(2)), now_ns=at(102))
    told = [(one.what, one.facts.get("broker")) for one in node.status(now_ns=at(103)).decisions]
    assert told[:3] == [("started", None), ("neighbour up", "B"), ("neighbour down", "B")]


@pytest.mark.parametrize(("told", "known"), [(0, 2 << 20), (65_536, 2 << 20), (8 << 20, 8 << 20), (1 << 40, 1 << 30)])
def test_neighbours_tell_each_other_how_long_a_frame_they_take(told: int, known: int) -> None:
    """Between brokers the default is the least; that it differs is noted."""
    node = node_of()
    lanes: list[Lane] = ["control", "data"]
    for conn, lane in enumerate(lanes, start=2):
        node.handle(Opened(Conn(conn)), now_ns=at(101))
        who = Link(version=VERSION, broker=BrokerId("B"), incarnation=1, address="b:1", lane=lane)
        link = msgspec.structs.replace(who, frame_bytes_max=told)
        node.handle(Heard(Conn(conn), link), now_ns=at(101))
    status = node.status(now_ns=at(102))
    assert [one.frame_bytes_max for one in status.neighbours] == [known]
    differs = [one.facts for one in status.decisions if one.what == "frame_bytes_max differs"]
    assert differs == ([{"broker": "B", "ours": 2 << 20, "theirs": known}] if known != 2 << 20 else [])


def test_the_same_again_is_counted_and_a_crowd_does_not_hide_the_rest() -> None:
    decisions = Decisions()
    decisions.add(Note("draining", {"clients": 3}), now_ns=at(0))
    for second in range(1, 6):
        decisions.add(Note("slow subscriber", {"client": "ann", "events lost": second}), now_ns=at(second))
    for number in range(10_000):
        decisions.add(Note("client moves", {"client": f"c{number}"}), now_ns=at(10))
    last = decisions.last(now_ns=at(10), unix_offset_ns=None)
    assert [one.what for one in last[:3]] == ["draining", "slow subscriber", "client moves"]
    assert (last[1].times, last[1].facts["events lost"], last[1].age_s) == (5, 5, 5.0)
    assert len(last) == SAME_KIND_MAX + 2
    for kind in range(10):
        for number in range(100):
            decisions.add(Note(f"kind {kind}", {"client": f"c{number}"}), now_ns=at(11))
    last = decisions.last(now_ns=at(11), unix_offset_ns=None)
    assert (len(last), last[-1].what) == (DECISIONS_MAX, "kind 9")


def test_the_document_is_small_whatever_happens() -> None:
    """A thousand clients with endless names, all of them slow; thirty-two neighbours; all that can be decided."""
    node = node_of(queue_bytes_max=4096, connections_max=20_000)
    node.host = Host(version="0.1.0", pid=1, files_max=1)
    node.unix_offset_ns = 1_700_000_000 * SECOND
    join(node, 10_001, "publisher")
    for conn in range(1, 1001):
        join(node, conn, f"{conn}" * 100, "n = 1")
    publish(node, 10_001, 8, size=1000)
    node.handle(TimePassed(), now_ns=at(102))
    for number in range(32):
        node.handle(Opened(Conn(20_000 + number)), now_ns=at(102))
        name = f"{number:64}".replace(" ", "x")
        link = Link(version=VERSION, broker=BrokerId(name), incarnation=1, address=f"10.0.0.1:{number}", lane="data")
        node.handle(Heard(Conn(20_000 + number), link), now_ns=at(102))
    for kind in range(10):
        for number in range(100):
            facts: dict[str, str | int | float] = {
                "client": f"{number}" * 100,
                "broker": f"{number}" * 100,
                "events": 1,
            }
            node.decisions.add(Note(f"something of the kind {kind}", facts), now_ns=at(102))
    status = node.status(now_ns=at(103))
    assert (len(status.slow), status.slow_clients, len(status.neighbours)) == (SLOW_MAX, 1000, 32)
    assert status.decisions[-1].facts["client"] == "99" * (TEXT_MAX // 2 - 1) + "9…"
    assert all(len(one.name) <= TEXT_MAX for one in status.slow)
    assert len(msgspec.json.encode(status)) < STATUS_BYTES_MAX


def test_it_is_asked_for_over_a_connection() -> None:
    """By whoever connects, without a greeting; the document is what ``status`` says."""
    node = node_of()
    node.handle(Opened(Conn(5)), now_ns=at(101))
    node.receive(Conn(5), message_frame(AskStatus(7)), now_ns=at(102))
    ((_, payload),) = FrameReader().feed(node.engine.output(Conn(5), bytes_max=1 << 20))
    answer = decode_message(payload)
    assert isinstance(answer, Status)
    told = msgspec.json.decode(answer.document, type=BrokerStatus)
    assert (told.broker, told.incarnation, told.uptime_s, told.connections) == ("A", str(1 << 60), 2.0, 1)
    assert told.decisions == node.status(now_ns=at(102)).decisions


def test_a_drain_is_told() -> None:
    node = node_of()
    node.handle(Opened(Conn(5)), now_ns=at(101))
    node.handle(Heard(Conn(5), Drain(1)), now_ns=at(102))
    status = node.status(now_ns=at(102))
    assert status.is_leaving
    assert [one.what for one in status.decisions][-1] == "draining"
