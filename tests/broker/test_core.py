"""The broker machine by itself: what it does about connections."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import GUESTS_MAX, BrokerCore
from tidewire.broker.node import MESSAGES_AT_ONCE, BrokerNode
from tidewire.dataplane.kernel import KernelEngine
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import VERSION, Bye, Hello, Ping, Welcome
from tidewire.wire.connections import Close, Heard, Opened, Send
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
