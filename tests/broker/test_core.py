"""The broker machine by itself: what it does about connections."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from tidewire.broker.clients import PINGS_AT_ONCE
from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import GUESTS_MAX, BrokerCore
from tidewire.broker.effects import Effect
from tidewire.broker.links import HANDSHAKE_NS
from tidewire.broker.node import MESSAGES_AT_ONCE, BrokerNode
from tidewire.dataplane.kernel import KernelEngine
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import ANYTHING, VERSION, Advertise, Bye, Hello, Ping, Welcome
from tidewire.wire.connections import Close, Closed, Heard, Opened, Send, TimePassed
from tidewire.wire.frames import message_frame

NOW = Nanoseconds(1_000)


def test_those_who_do_not_say_who_they_are_make_room() -> None:
    """The oldest of them goes; who has said it stays."""
    core = BrokerCore(BrokerConfig(broker=BrokerId("A")), incarnation=1, chance=Random(1))
    core.handle(Opened(Conn(0)), now_ns=NOW)
    hello = Hello(version=VERSION, name="early", uses=["subscribe"])
    greeted = list(core.handle(Heard(Conn(0), hello), now_ns=NOW))
    assert any(isinstance(one, Send) and isinstance(one.message, Welcome) for one in greeted)
    for number in range(1, GUESTS_MAX + 1):
        assert list(core.handle(Opened(Conn(number)), now_ns=NOW)) == []
    ended = list(core.handle(Opened(Conn(GUESTS_MAX + 1)), now_ns=NOW))
    assert [one.conn for one in ended if isinstance(one, Close)] == [Conn(1)]
    (bye,) = [one.message for one in ended if isinstance(one, Send)]
    assert isinstance(bye, Bye)
    assert bye.code == "limit"
    ended = list(core.handle(Opened(Conn(GUESTS_MAX + 2)), now_ns=NOW))
    assert [one.conn for one in ended if isinstance(one, Close)] == [Conn(2)]


def test_one_with_much_to_say_is_heard_in_turns() -> None:
    config = BrokerConfig(broker=BrokerId("A"))
    engine = KernelEngine()
    node = BrokerNode(BrokerCore(config, incarnation=1, chance=Random(1)), engine)
    node.handle(Opened(Conn(1)), now_ns=NOW)
    hello = Hello(version=VERSION, name="loud", uses=["subscribe"])
    assert node.receive(Conn(1), message_frame(hello), now_ns=NOW)[1] == "idle"
    heard = [node.messages]
    _, state = node.receive(Conn(1), message_frame(Ping(1)) * 3 * MESSAGES_AT_ONCE, now_ns=NOW)
    while state == "busy":
        heard.append(node.messages)
        _, state = node.go_on(Conn(1), now_ns=NOW)
    assert state == "idle"
    assert [after - before for before, after in pairwise(heard)] == [MESSAGES_AT_ONCE] * 3


def _pinged(effects: list[Effect]) -> list[Conn]:
    return [one.conn for one in effects if isinstance(one, Send) and isinstance(one.message, Ping)]


def test_of_many_clients_only_those_who_publish_are_pinged_every_time() -> None:
    """Ten thousand who only listen would cost more than the events, and would all be pinged in one moment."""
    core = BrokerCore(BrokerConfig(broker=BrokerId("A"), heartbeat_s=1.0), incarnation=1, chance=Random(1))
    conns = [Conn(number) for number in range(2 * PINGS_AT_ONCE + 10)]
    for conn in conns:
        core.handle(Opened(conn), now_ns=NOW)
        hello = Hello(version=VERSION, name=f"client{conn}", uses=["publish", "subscribe"])
        assert _pinged(core.handle(Heard(conn, hello), now_ns=NOW)) == [conn]
    publisher = conns[-1]
    core.handle(Heard(publisher, Advertise(1, [1], [ANYTHING])), now_ns=NOW)
    core.handle(Closed(conns[0], "gone"), now_ns=NOW)
    turns = [_pinged(core.handle(TimePassed(), now_ns=Nanoseconds(NOW + n * 10**9))) for n in range(1, 7)]
    assert all(publisher in turn and len(turn) <= PINGS_AT_ONCE + 1 for turn in turns)
    assert {conn for turn in turns[:3] for conn in turn} == {*conns[1:]}
    assert {conn for turn in turns[3:] for conn in turn} == {*conns[1:]}


def test_the_oldest_guest_is_due_first() -> None:
    core = BrokerCore(BrokerConfig(broker=BrokerId("A")), incarnation=1, chance=Random(1))
    for number in range(3):
        core.handle(Opened(Conn(number)), now_ns=Nanoseconds(NOW + number * 10**9))
    for number in range(3):
        due_ns = core.deadline_ns()
        assert due_ns == NOW + number * 10**9 + HANDSHAKE_NS
        ended = core.handle(TimePassed(), now_ns=Nanoseconds(due_ns))
        assert [one.conn for one in ended if isinstance(one, Close)] == [Conn(number)]
