"""The broker machine by itself: what it does about connections."""

from __future__ import annotations

from random import Random

from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import GUESTS_MAX, BrokerCore
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import VERSION, Bye, Hello, Welcome
from tidewire.wire.connections import Close, Heard, Opened, Send

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
