"""The broker machine by itself: what it does about connections."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import msgspec
import pytest

from tidewire.balancing.config import BalancingConfig
from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import GUESTS_MAX, BrokerCore
from tidewire.broker.effects import Effect, Note
from tidewire.broker.events import Started
from tidewire.broker.links import HANDSHAKE_NS
from tidewire.broker.node import MESSAGES_AT_ONCE, BrokerNode
from tidewire.broker.turns import PINGS_AT_ONCE
from tidewire.dataplane.kernel import KernelEngine
from tidewire.identity.authority import Authority
from tidewire.identity.guard import Trust
from tidewire.model.errors import BadConfiguration, DamagedFrame
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.message_fields import CLIENT_NAME_MAX
from tidewire.model.messages import (
    ANYTHING,
    VERSION,
    Advertise,
    AskStatus,
    Bye,
    Hello,
    Link,
    Ping,
    Welcome,
)
from tidewire.wire.connections import Close, Closed, Dial, Heard, Opened, Peer, Send, TimePassed
from tidewire.wire.frames import decode_message, message_frame

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


EDGE = Peer("broker", "E", "f00d")


def _secured(*, neighbours: list[str] | None = None, revoked: tuple[str, ...] = ()) -> BrokerCore:
    config = BrokerConfig(broker=BrokerId("A"), address="a:1", neighbours=neighbours or [], security="keys")
    core = BrokerCore(config, incarnation=1, chance=Random(1))
    core.handle(Trust(_authority(*revoked), 0), now_ns=NOW)
    return core


def _authority(*revoked: str) -> Authority:
    return Authority(domain="here", token_key="", revoked=dict.fromkeys(revoked))


def _goodbyes(effects: list[Effect]) -> list[tuple[Conn, str]]:
    return [(one.conn, one.message.code) for one in effects if isinstance(one, Send) and isinstance(one.message, Bye)]


def test_a_broker_whose_certificate_is_revoked_opens_no_link() -> None:
    """Neither when it comes, nor if it was there before and links only now."""
    link = Link(version=VERSION, broker=BrokerId("E"), incarnation=1, address="e:1", lane="data")
    core = _secured(revoked=("f00d",))
    assert _goodbyes(core.handle(Opened(Conn(1), None, EDGE), now_ns=NOW)) == [(Conn(1), "not-authenticated")]
    core = _secured()
    core.handle(Opened(Conn(1), None, EDGE), now_ns=NOW)
    core.guard.trust(Trust(_authority("f00d"), 0), now_ns=NOW)
    effects = core.handle(Heard(Conn(1), link), now_ns=NOW)
    assert _goodbyes(effects) == [(Conn(1), "not-authenticated")]
    assert Close(Conn(1)) in effects
    assert not core.links.is_link(Conn(1))


def test_whom_we_call_is_a_broker_too_or_no_neighbour() -> None:
    """Its certificate is good, and has the name that it gives; else it is tried again later."""
    for peer, broker in [(EDGE, "F"), (Peer("coordinator", "E", "cafe"), "E"), (Peer("broker", "E", "beef"), "E")]:
        core = _secured(neighbours=["e:1"], revoked=("beef",))
        orders = [one.order for one in core.handle(Started(), now_ns=NOW) if isinstance(one, Dial)]
        for conn, order in enumerate(orders, start=1):
            core.handle(Opened(Conn(conn), order, peer), now_ns=NOW)
            welcome = Welcome(
                version=VERSION,
                broker=BrokerId(broker),
                incarnation=1,
                address="e:1",
                heartbeat_s=1.0,
                frame_bytes_max=1 << 20,
                subscriptions_max=1,
                publish_at=[],
                subscribe_at=[],
            )
            core.handle(Heard(Conn(conn), welcome), now_ns=NOW)
            assert core.links.lane_of(Conn(conn)) is None
            core.handle(Closed(Conn(conn), "we ended it"), now_ns=NOW)
        assert [one for one in core.handle(TimePassed(), now_ns=Nanoseconds(10**11)) if isinstance(one, Dial)]


def test_who_may_not_observe_is_in_the_log_once_in_a_while() -> None:
    core = _secured()
    core.handle(Opened(Conn(1), None, None, "10.0.0.1"), now_ns=NOW)
    first = core.operators.asked_status(Conn(1), AskStatus(1), now_ns=NOW)
    (note,) = [one for one in first if isinstance(one, Note)]
    assert (note.what, note.facts["act"], note.facts["from"]) == ("refused", "observe", "10.0.0.1")
    again = core.operators.asked_status(Conn(1), AskStatus(2), now_ns=NOW)
    assert len(again) == 1
    assert not isinstance(again[0], Note)


def test_what_a_client_calls_itself_has_a_bound_and_can_be_seen() -> None:
    core = BrokerCore(BrokerConfig(broker=BrokerId("A")), incarnation=1, chance=Random(1))
    for conn, name, kept in [
        (Conn(1), "ann\x1b[2J\nforged", r"ann\x1b[2J\nforged"),
        (Conn(2), "\x1b" * 10_000, (r"\x1b" * CLIENT_NAME_MAX)[:CLIENT_NAME_MAX]),
        (Conn(3), "Grüße, 你好", "Grüße, 你好"),
    ]:
        core.handle(Opened(conn), now_ns=NOW)
        core.handle(Heard(conn, Hello(version=VERSION, name=name, uses=["subscribe"])), now_ns=NOW)
        assert core.clients.name_of(conn) == kept


def test_a_broker_has_no_control_characters_in_its_name() -> None:
    for name in ("edge\n", "edge\x1b[2J", "\x9b"):
        link = Link(version=VERSION, broker=BrokerId(name), incarnation=1, address="e:1", lane="data")
        with pytest.raises(DamagedFrame):
            decode_message(msgspec.msgpack.encode(link))
    fine = Link(version=VERSION, broker=BrokerId("Brücke 1"), incarnation=1, address="e:1", lane="data")
    assert decode_message(msgspec.msgpack.encode(fine)) == fine


def test_what_brokers_cannot_do_when_they_balance_is_refused() -> None:
    """peer M4, M5a: the thesis's timed wait and loose order are not among what a broker does."""
    for balance in (BalancingConfig(handover="timed"), BalancingConfig(order="loose")):
        BrokerConfig(broker=BrokerId("A"), balance=balance)
        with pytest.raises(BadConfiguration, match="handover and order"):
            BrokerConfig(broker=BrokerId("A"), balancing="peer", balance=balance)
