"""Any message with any values, from anybody: it is answered, refused or ended, nothing breaks, others are served."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from tidewire._kernel._native import Log, MemoryFiles
from tidewire._kernel.codec import encode
from tidewire.broker.clients import ClientMessage
from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import BrokerCore
from tidewire.broker.events import Started
from tidewire.broker.node import BrokerNode, DriverEffect
from tidewire.broker.node_streams import NodeStreams
from tidewire.broker.pubends import pubend_of
from tidewire.broker.shortage import FromClient, FromNeighbour
from tidewire.broker.ways import TreeMessage
from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.coordinator.config import Decides
from tidewire.coordinator.core import CoordinatorCore, Save, read_saved
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.reference_replay import StreamingReference
from tidewire.dataplane.streams import StreamEngine
from tidewire.language import compile_filter
from tidewire.model.errors import DamagedFrame
from tidewire.model.events import make_event
from tidewire.model.filters import encode_filter
from tidewire.model.ids import BrokerId, Conn, Nanoseconds, Tick, TreeId
from tidewire.model.messages import (
    ANYTHING,
    VERSION,
    Advertise,
    AskMembers,
    Assigned,
    Bye,
    Done,
    Drain,
    Hello,
    Lane,
    Link,
    Members,
    Message,
    Neighbourhood,
    Ping,
    Pong,
    Register,
    Subscribe,
    Welcome,
)
from tidewire.model.routing_messages import Ads, Join, Offer, Routes, RoutesGone, RoutingMessage, Sync, Synced
from tidewire.model.stream_messages import Nack, Progress, Replay
from tidewire.routing.trees import tree_of
from tidewire.wire.connections import Close, Closed, Dial, DialFailed, Heard, Opened, Send, TimePassed
from tidewire.wire.frames import (
    DELIVER,
    MESSAGE,
    RECEIPT,
    FrameReader,
    decode_message,
    decode_receipt,
    frame,
    guarantee_frame,
    message_frame,
    publish_frame,
)

OWN = tree_of(BrokerId("A"), 1)
THEIRS = TreeId(7)
PUBEND = pubend_of(BrokerId("A"), 0)
ALL = encode_filter(compile_filter("n >= 0 or n < 0"))
ENGINES: dict[str, Callable[[], StreamEngine]] = {
    "kernel": lambda: KernelEngine(budget_ns=0),
    "reference": StreamingReference,
}
HELLO = Hello(version=VERSION, name="x", uses=["publish", "subscribe"], publisher=9)

_INTEGERS = (0, 1, 2, -1, 2**24, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**63))
_NAMED = {
    "version": (VERSION, 99),
    "tree": (OWN, THEIRS, 8, -5),
    "numbers": (1, 2, 3, -1, 2**24),
    "ping_ns": (0, 1),
    "pubend": (PUBEND, 5, 2**64 - 1, -1),
}
"""Where most values would come to nothing."""
_TEXTS = ("", "A", "X", "honest", "127.0.0.1:1", "foo:bar", "x" * 100, "\0", "\n")
_BYTES = (ANYTHING, ALL, b"\x90", b"\xff\xff", b"\xc1", b"\x91\x92\x90\x90")


def _of(kind: inspect.Type, name: str = "") -> st.SearchStrategy[Any]:
    """Values of about this type, most of them good, some at an edge or beyond."""
    match kind:
        case inspect.IntType():
            return st.sampled_from(_NAMED.get(name, _INTEGERS))
        case inspect.StrType():
            return st.sampled_from(_TEXTS) | st.text(max_size=5).filter(lambda text: text.isascii())
        case inspect.BytesType():
            return st.sampled_from(_BYTES) | st.sampled_from(_BYTES[:2]) | st.binary(max_size=6)
        case inspect.FloatType():
            return st.floats()
        case inspect.BoolType():
            return st.booleans()
        case inspect.LiteralType(values):
            return st.sampled_from([*values, "?"])
        case inspect.CustomType() | inspect.NoneType():
            return st.none()
    return _made_of(kind, name)


def _made_of(kind: inspect.Type, name: str) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.ListType(item_type):
            return st.lists(_of(item_type, name), max_size=2)
        case inspect.TupleType(item_types):
            return st.tuples(*(_of(one, name) for one in item_types))
        case inspect.DictType(key_type, value_type):
            return st.dictionaries(_of(key_type), _of(value_type), max_size=2)
        case inspect.UnionType(types):
            return st.one_of(*map(_of, types))
        case inspect.StructType(cls):
            return st.tuples(*(_of(field.type, field.name) for field in _fields(cls)))
    raise AssertionError(kind)


def _fields(cls: type) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return info.fields


def _payloads(cls: type[msgspec.Struct]) -> st.SearchStrategy[bytes]:
    tag = st.just(cls.__struct_config__.tag)
    return st.tuples(tag, *(_of(field.type, field.name) for field in _fields(cls))).map(msgspec.msgpack.encode)


def _any_of(*kinds: Any) -> st.SearchStrategy[bytes]:
    return st.one_of(*map(_payloads, kinds))


ANY_MESSAGE = _any_of(*get_args(Message))


class Broker:
    """A broker that serves an honest client, without a driver."""

    HONEST = Conn(1)

    def __init__(self, engine: str, *, has_store: bool = True) -> None:
        store = "disk" if has_store else None
        config = BrokerConfig(
            broker=BrokerId("A"),
            address="A",
            neighbours=["N"],
            coordinator="C",
            role="both",
            store=store,
            fdcc=FdccConfig(policy="fdcc"),
            load_every_s=0.02,
        )
        core, made = BrokerCore(config, incarnation=1, chance=Random(1)), ENGINES[engine]()
        self.log = Log(MemoryFiles(), log_id=1, segment_bytes=256 << 10)
        self.node = BrokerNode(core, made, streams=NodeStreams(core, made, self.log if has_store else None))
        self.now_ns = Nanoseconds(10**9)
        self.orders: list[int] = []
        self.open: dict[Conn, None] = {}
        self.requests = self.sequence = 0
        self.act(self.node.handle(Started(), now_ns=self.now_ns))
        self.opened(self.HONEST)
        self.says(self.HONEST, Hello(version=VERSION, name="honest", uses=["publish", "subscribe"], publisher=1))
        self.says(self.HONEST, Advertise(1, [1], [ANYTHING]))
        assert self.is_confirmed()

    @property
    def engine(self) -> StreamEngine:
        """The data plane."""
        assert self.node.streams is not None
        return self.node.streams.engine

    def opened(self, conn: Conn, order: int | None = None) -> None:
        """A connection, by us with this order, or by somebody else."""
        self.open[conn] = None
        self.act(self.node.handle(Opened(conn, order), now_ns=self.now_ns))

    def hears(self, conn: Conn, data: bytes) -> None:
        """Bytes from there, if it is still open."""
        if conn in self.open:
            effects, state = self.node.receive(conn, data, now_ns=self.now_ns)
            self.act(effects)
            assert state in ("idle", "broken")

    def says(self, conn: Conn, message: Message) -> None:
        """What the other side says."""
        self.hears(conn, message_frame(message))

    def passes(self, seconds: float) -> None:
        """Time, in which the log becomes durable, and what is lacking somewhere is told again."""
        self.now_ns = Nanoseconds(self.now_ns + int(seconds * 1e9))
        self.act(self.node.handle(TimePassed(), now_ns=self.now_ns))
        if self.node.core.config.store is not None:
            self.log.commit()
            self.act(self.node.committed(now_ns=self.now_ns))
        for _ in range(100):
            if self.engine.is_serving:
                self.act(self.node.serve(now_ns=self.now_ns))
        assert not self.engine.is_serving

    def ends(self, conn: Conn) -> None:
        """A connection, if it is still open."""
        if conn in self.open:
            del self.open[conn]
            self.act(self.node.handle(Closed(conn), now_ns=self.now_ns))

    def act(self, effects: list[DriverEffect]) -> None:
        """As a driver does: what is dialled waits for ``orders`` to be taken."""
        for effect in effects:
            if isinstance(effect, Dial):
                self.orders.append(effect.order)
            elif isinstance(effect, Close):
                self.ends(effect.conn)

    def told(self, conn: Conn) -> list[tuple[int, bytes]]:
        """The frames that it has sent there since."""
        data = b"" if conn not in self.open else self.node.engine.output(conn, bytes_max=1 << 24)
        return list(FrameReader().feed(data))

    def messages(self, conn: Conn) -> list[Message]:
        """Those of them that are messages."""
        return [decode_message(payload) for kind, payload in self.told(conn) if kind == MESSAGE]

    def is_confirmed(self) -> bool:
        """Does the honest client subscribe, and is told that it has?"""
        self.requests += 1
        self.says(self.HONEST, Subscribe(self.requests, [1], [ALL]))
        return Done(self.requests) in self.messages(self.HONEST)

    def delivers(self) -> bool:
        """Does the honest client get what it publishes?"""
        self.told(self.HONEST)
        self.hears(self.HONEST, publish_frame(encode(make_event({"n": 1})), born_ns=1))
        return [kind for kind, _ in self.told(self.HONEST)].count(DELIVER) == 1

    def guarantees(self) -> bool:
        """Does the honest client get a receipt for what it publishes next?"""
        self.sequence += 1
        self.told(self.HONEST)
        self.hears(self.HONEST, guarantee_frame(encode(make_event({"n": 1})), born_ns=1, sequence=self.sequence))
        self.passes(0.01)
        receipts = [decode_receipt(payload)[0] for kind, payload in self.told(self.HONEST) if kind == RECEIPT]
        return receipts == [self.sequence]


def _as_guest(broker: Broker) -> list[Conn]:
    broker.opened(Conn(2))
    return [Conn(2)]


def _as_client(broker: Broker) -> list[Conn]:
    broker.opened(Conn(2))
    broker.says(Conn(2), HELLO)
    broker.says(Conn(2), Subscribe(1, [1], [ALL]))
    return [Conn(2)]


def _as_neighbour(broker: Broker) -> list[Conn]:
    lanes: dict[Conn, Lane] = {Conn(2): "data", Conn(3): "control"}
    for conn, lane in lanes.items():
        broker.opened(conn)
        broker.says(conn, Link(version=VERSION, broker=BrokerId("X"), incarnation=1, address="X", lane=lane))
    broker.says(Conn(2), Offer(THEIRS, [BrokerId("X")]))
    broker.says(Conn(2), Ads(THEIRS, [1], [ANYTHING], True))
    broker.says(Conn(2), Join(OWN))
    broker.says(Conn(2), Routes(OWN, [1, 2], [ALL, ALL]))
    return list(lanes)


def _as_dialled(broker: Broker) -> list[Conn]:
    """The coordinator, and both lanes of a neighbour."""
    conns = [Conn(2 + at) for at in range(len(broker.orders))]
    for conn, order in zip(conns, broker.orders, strict=True):
        broker.opened(conn, order)
    broker.orders.clear()
    assert len(conns) == 3
    return conns


ROLES = {
    "guest": (_as_guest, _any_of(Hello, Link, Drain, Ping)),
    "client": (_as_client, _any_of(*get_args(ClientMessage), *get_args(FromClient), Pong, Hello)),
    "neighbour": (
        _as_neighbour,
        _any_of(*get_args(RoutingMessage), *get_args(TreeMessage), *get_args(FromNeighbour), Neighbourhood, Pong),
    ),
    "dialled": (_as_dialled, _any_of(Welcome, Assigned, Offer, Pong, Bye)),
}
"""How somebody becomes it, and what is mostly said by it."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("role", ROLES)
def test_any_message_to_a_broker(role: str, engine: str) -> None:
    begin, usual = ROLES[role]

    @settings(max_examples=120, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 2), usual | ANY_MESSAGE), min_size=1, max_size=10))
    def said(talk: list[tuple[int, bytes]]) -> None:
        broker = Broker(engine)
        conns = begin(broker)
        for at, payload in talk:
            broker.hears(conns[at % len(conns)], frame(MESSAGE, payload))
            broker.passes(0.01)
        assert broker.delivers()
        broker.passes(7)
        for order in broker.orders:
            broker.node.handle(DialFailed(order, "nobody"), now_ns=broker.now_ns)
        for conn in conns:
            broker.ends(conn)
        broker.passes(70)
        assert broker.delivers()
        assert broker.is_confirmed()
        assert broker.guarantees()

    said()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (Ads(THEIRS, [1, 2], [ANYTHING], True), "frame-damaged"),
        (Ads(THEIRS, [1], [b"\xff\xff"], True), "filter-damaged"),
        (Ads(THEIRS, [-1], [ANYTHING], True), "frame-damaged"),
        (Routes(OWN, [1, 2, 3], [ALL]), "frame-damaged"),
        (Routes(OWN, [1], [ANYTHING]), "filter-damaged"),
        (Routes(OWN, [1, 2**40], [ALL, ALL]), "frame-damaged"),
        (Routes(OWN, [1, 1], [ALL, ALL]), "frame-damaged"),
        (RoutesGone(OWN, [1, 1]), "frame-damaged"),
        (Offer(TreeId(-5), [BrokerId("X")]), "frame-damaged"),
        (Offer(THEIRS, []), "frame-damaged"),
        (Offer(OWN, [BrokerId("X")]), "frame-damaged"),
        (Neighbourhood(-1, "head", "edge"), "frame-damaged"),
        (Progress(OWN, PUBEND, ["ann's"], [1], []), "frame-damaged"),
        (Replay(OWN, PUBEND, 1, Tick(1), b"\xff", 1), "filter-damaged"),
        (Nack(OWN, PUBEND, [(Tick(0), Tick(2**63))]), "frame-damaged"),
    ],
)
def test_what_no_neighbour_says(said: Message, code: str) -> None:
    """It is told by code, its connection ends, and those who wait for it go on."""
    broker = Broker("kernel")
    conn, control = _as_neighbour(broker)
    heard: list[Message] = []
    ends, broker.ends = broker.ends, lambda conn: [heard.extend(broker.messages(conn)), ends(conn)]  # type: ignore[assignment, func-returns-value]
    broker.says(conn, said)
    assert [bye.code for bye in heard if isinstance(bye, Bye)] == [code]
    assert conn not in broker.open
    assert control not in broker.open
    assert broker.is_confirmed()
    assert broker.delivers()


@pytest.mark.parametrize(
    "said",
    [
        msgspec.structs.replace(HELLO, publisher=-1),
        msgspec.structs.replace(HELLO, next_sequence=-1),
        msgspec.structs.replace(HELLO, next_sequence=2**64 - 1),
        Advertise(1, [1], [ANYTHING], -5),
        Advertise(1, [1], [ANYTHING], 2**63),
        Pong(2**63, 0, 0),
    ],
)
def test_what_no_client_says(said: Message) -> None:
    broker = Broker("kernel")
    broker.opened(Conn(2))
    if not isinstance(said, Hello):
        broker.says(Conn(2), HELLO)
    broker.says(Conn(2), said)
    assert Conn(2) not in broker.open
    assert broker.delivers()


def test_a_clock_beyond_all_clocks_is_not_believed() -> None:
    broker = Broker("kernel")
    broker.opened(Conn(2))
    broker.says(Conn(2), HELLO)
    broker.says(Conn(2), Pong(0, -(2**63), -(2**63)))
    broker.says(Conn(2), Pong(0, 2**63 - 1, 2**63 - 1))
    assert Conn(2) in broker.open


def test_routes_are_told_in_the_data_lane() -> None:
    """There they are in order with events; a neighbour that tells them elsewhere is no neighbour."""
    broker = Broker("kernel")
    _, control = _as_neighbour(broker)
    broker.says(control, Offer(TreeId(8), [BrokerId("X")]))
    assert control not in broker.open


def test_a_neighbour_that_never_answers_holds_up_confirmations_until_its_link_ends() -> None:
    """As long as it lives, what it was asked may still come back; a subscription is not confirmed before."""
    broker = Broker("kernel")
    _, control = _as_neighbour(broker)
    assert not broker.is_confirmed()
    assert broker.delivers()
    broker.ends(control)
    assert Done(broker.requests) in broker.messages(broker.HONEST)


def test_what_is_covered_by_what_stands_is_confirmed_behind_a_sync_of_its_own() -> None:
    """A broker further up may have another parent since the last one: then nothing stands on the whole way."""
    broker = Broker("kernel")
    data, _ = _as_neighbour(broker)
    assert not broker.is_confirmed()
    while asked := [message for message in broker.messages(data) if isinstance(message, Sync)]:
        for sync in asked:
            broker.says(data, Synced(sync.tree, sync.token))
    assert Done(broker.requests) in broker.messages(broker.HONEST)
    assert not broker.is_confirmed()
    for sync in [message for message in broker.messages(data) if isinstance(message, Sync)]:
        broker.says(data, Synced(sync.tree, sync.token))
    assert Done(broker.requests) in broker.messages(broker.HONEST)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2), ANY_MESSAGE), min_size=1, max_size=6))
def test_any_message_to_the_coordinator(talk: list[tuple[int, bytes]]) -> None:
    """What it remembers of it can be read again, and who is there can be asked."""
    core = CoordinatorCore(chance=Random(1), decides=Decides(balancing="ldm"))
    now_ns = Nanoseconds(0)
    for conn in (Conn(0), Conn(1), Conn(2)):
        core.handle(Opened(conn), now_ns=now_ns)
    core.handle(Heard(Conn(0), Register(BrokerId("honest"), 1, "127.0.0.1:1", "auto")), now_ns=now_ns)
    for at, payload in talk:
        try:
            message = decode_message(payload)
        except DamagedFrame:
            continue
        for effect in core.handle(Heard(Conn(at), message), now_ns=now_ns):
            if isinstance(effect, Save):
                read_saved(effect.document)
    (answer,) = core.handle(Heard(Conn(0), AskMembers(1)), now_ns=now_ns)
    assert isinstance(answer, Send)
    assert isinstance(answer.message, Members)
    assert "honest" in [member.broker for member in answer.message.members]
