"""Wire, parser and HTTP under inputs that are almost right: no crash, no hang, no leak.

In every run for a moment; at length with `make fuzz`, or ``TIDEWIRE_FUZZ_S=120 pytest tests/fuzz``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random

import pytest

import tidewire
from tests.fuzz.mutation import HANG_S, Campaign, fuzz
from tests.integration.test_bad_input import HELLO, LINK, TALK
from tidewire._kernel._native import Log, MemoryFiles
from tidewire._kernel.codec import decode, encode
from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import BrokerCore
from tidewire.broker.events import Started
from tidewire.broker.node import BrokerNode
from tidewire.broker.node_streams import NodeStreams
from tidewire.console.network import Network
from tidewire.console.server import LiveDoor
from tidewire.dataplane.kernel import KernelEngine
from tidewire.language import compile_filter, read_publication, read_tuples
from tidewire.live.broker import LiveBroker
from tidewire.model.errors import TidewireError
from tidewire.model.events import Envelope, make_event
from tidewire.model.filters import ALL, decode_filter, encode_filter
from tidewire.model.ids import BrokerId, Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.messages import ANYTHING, VERSION, Advertise, Flush, Hello, Subscribe, Unsubscribe
from tidewire.model.routing_messages import Ads, Join, Offer, Routes, Sync, Synced
from tidewire.model.stream_messages import Follow
from tidewire.wire.connections import Closed, Opened, TimePassed
from tidewire.wire.frames import (
    DELIVER,
    FORWARD,
    HOP,
    LOST,
    MESSAGE,
    PLAIN,
    RECEIPT,
    RECOVER,
    RECOVER_HEAD,
    SPAN,
    STREAM,
    STREAM_HEAD,
    FrameReader,
    decode_delivered,
    decode_message,
    frame,
    guarantee_frame,
    message_frame,
    publish_frame,
    taken_frame,
)

SECONDS = float(os.environ.get("TIDEWIRE_FUZZ_S", "1.5"))
SEED = int(os.environ.get("TIDEWIRE_FUZZ_SEED", "1"))
FILTERS = [
    "class = 'QUAKE' and magnitude >= 6",
    "not (a in (1, 2.5, -3e10) or b between 'x' and 'y') and c is null",
    "within(lat, lon, 38.3, 142.4, 300 km) or s like 'a%b_c' escape '!'",
    "inside(lat, lon, polygon(1 2, 3 4, 5 0)) and t > timestamp '2026-01-01T00:00:00Z'",
    "a <> 1 and b is not null or x = true and y = x'00ff'",
]
TUPLES = ["[class,eq,'STOCK'],[volume,>,1000],[symbol,str-prefix,'Y']", "[class,'STOCK'],[volume,20],[high,1.5]"]
EVENTS = [
    encode(make_event({"n": 1, "s": "text", "where": {"lat": 38.3, "lon": 142.4}}, body=b"map", content_type="x/y")),
    encode(make_event({"class": "QUAKE", "magnitude": 6.4, "ok": True, "raw": b"\x00\xff"})),
    encode(make_event({})),
]
STAMPED = encode(make_event({"n": 1}, envelope=Envelope(publisher=7, sequence=1, pubend=5, tick=105)))


def shown(what: str, found: Campaign) -> None:
    print(f"{what}: {found.tried:,} inputs, {found.kinds} outcomes, slowest {found.slowest_s * 1e3:.0f} ms")
    assert found.tried > 50


@contextmanager
def refusals() -> Iterator[list[str]]:
    """An error on purpose is an outcome; any other is a fault."""
    outcome: list[str] = []
    try:
        yield outcome
    except TidewireError as error:
        outcome.append(f"{error.code} {error.message[:40]}")


def test_filters_as_text() -> None:
    def attempt(data: bytes) -> object:
        text = data.decode("utf-8", "replace")
        outcome: list[str]
        with refusals() as outcome:
            filter_ = compile_filter(text)
            assert decode_filter(encode_filter(filter_)) == filter_
            outcome.append(f"good {len(filter_.conjunctions)}")
        for read in (read_tuples, read_publication):
            with refusals() as told:
                read(text)
            outcome += told
        return tuple(outcome)

    corpus = [text.encode() for text in FILTERS + TUPLES]
    shown("filters as text", fuzz(attempt, corpus, seconds=SECONDS, seed=SEED))


def test_filters_and_events_as_bytes() -> None:
    def attempt(data: bytes) -> object:
        with refusals() as outcome:
            decode_filter(data)
            outcome.append("filter")
        with refusals() as told:
            assert encode(decode(data)) is not None
            told.append("event")
        return *outcome, *told

    corpus = EVENTS + [encode_filter(compile_filter(text)) for text in FILTERS]
    shown("filters and events", fuzz(attempt, corpus, seconds=SECONDS, seed=SEED))


def test_what_a_client_hears() -> None:
    def attempt(data: bytes) -> object:
        with refusals() as outcome:
            for kind, payload in FrameReader().feed(data):
                if kind == MESSAGE:
                    outcome.append(type(decode_message(payload)).__name__)
                elif kind == DELIVER:
                    decode(decode_delivered(payload).event)
        return tuple(outcome[:4])

    delivered = [frame(DELIVER, HOP.pack(1, 2, 3) + b"\x01\x05\0\0\0" + event) for event in EVENTS]
    shown("what a client hears", fuzz(attempt, [TALK, LINK, *delivered], seconds=SECONDS, seed=SEED))


def _said_to_brokers() -> list[bytes]:
    wanted = [encode_filter(compile_filter(text)) for text in FILTERS]
    tree = TreeId(77)
    link = [
        message_frame(Offer(tree, [BrokerId("X")])),
        message_frame(Join(tree)),
        message_frame(Ads(tree, [1], wanted[:1], is_last=True)),
        message_frame(Routes(tree, [1, 2], wanted[:2])),
        message_frame(Sync(tree, 1)),
        frame(FORWARD, HOP.pack(1, 1, 1) + EVENTS[0]),
        frame(STREAM, STREAM_HEAD.pack(tree, 5, PLAIN) + SPAN.pack(100, 105, 1, 1) + STAMPED),
        frame(STREAM, STREAM_HEAD.pack(tree, 5, LOST) + SPAN.pack(106, 110, 0, 0)),
        frame(RECOVER, RECOVER_HEAD.pack(1, PLAIN) + SPAN.pack(100, 105, 1, 1) + STAMPED),
        message_frame(Synced(tree, 1, [(PubendId(5), Tick(100))])),
    ]
    talk = [
        message_frame(Subscribe(1, [1, 2], wanted[:2])),
        message_frame(Unsubscribe(2, [1])),
        message_frame(Flush(3)),
        *(publish_frame(event, born_ns=1) for event in EVENTS),
        *(guarantee_frame(event, born_ns=1, sequence=at) for at, event in enumerate(EVENTS, start=1)),
        message_frame(Follow(4, 7, wanted[0], "mine", 1)),
        taken_frame(7, 5, 105),
    ]
    return [TALK + b"".join(talk), HELLO + b"".join(talk), LINK + b"".join(link), *(LINK + one for one in link)]


def test_what_a_broker_hears() -> None:
    """The machine with its kernel, without sockets: many thousands of connections. One honest client is served."""
    engine = KernelEngine(seed=1, frame_bytes_max=1 << 20)
    core = BrokerCore(BrokerConfig(broker=BrokerId("A"), store="disk"), incarnation=1, chance=Random(1))
    log = Log(MemoryFiles(), log_id=1, segment_bytes=1 << 20)
    node = BrokerNode(core, engine, streams=NodeStreams(core, engine, log))
    clock, conns, sequences = count(1, 1_000_000), count(1), count(1)
    node.handle(Started(), now_ns=Nanoseconds(0))

    def talk(conn: Conn, data: bytes) -> str:
        now = Nanoseconds(next(clock))
        _, state = node.receive(conn, data, now_ns=now)
        while state == "busy":
            _, state = node.go_on(conn, now_ns=now)
        return state

    honest = Conn(next(conns))
    node.handle(Opened(honest), now_ns=Nanoseconds(1))
    offers, wants = Advertise(1, [1], [ANYTHING]), Subscribe(2, [1], [encode_filter(ALL)])
    ours = message_frame(Hello(version=VERSION, name="honest", uses=["publish", "subscribe"], publisher=1 << 60))
    talk(honest, ours + message_frame(offers) + message_frame(wants))
    engine.output(honest, bytes_max=1 << 20)
    assert engine.work().subscriptions == 1

    def attempt(data: bytes) -> object:
        conn = Conn(2 + next(conns) % 64)
        node.handle(Opened(conn), now_ns=Nanoseconds(next(clock)))
        state = talk(conn, data)
        answer = [
            type(decode_message(p)).__name__
            for k, p in FrameReader().feed(engine.output(conn, bytes_max=1 << 20))
            if k == MESSAGE
        ]
        node.handle(Closed(conn), now_ns=Nanoseconds(next(clock)))
        assert talk(honest, publish_frame(EVENTS[0], born_ns=1)) == "idle"
        assert engine.output(honest, bytes_max=1 << 20), "the honest client gets its own event"
        assert talk(honest, guarantee_frame(EVENTS[0], born_ns=1, sequence=next(sequences))) == "idle"
        log.commit()
        node.committed(now_ns=Nanoseconds(next(clock)))
        node.handle(TimePassed(), now_ns=Nanoseconds(next(clock)))
        node.serve(now_ns=Nanoseconds(next(clock)))
        kinds = [kind for kind, _ in FrameReader().feed(engine.output(honest, bytes_max=1 << 20))]
        assert RECEIPT in kinds, "and a receipt"
        for pubend in log.pubends():
            log.release(pubend, log.last_tick(pubend))
        return state, tuple(answer[:3])

    found = fuzz(attempt, _said_to_brokers(), seconds=SECONDS, seed=SEED)
    assert engine.work().subscriptions == 1
    shown("what a broker hears", found)


def _request(first: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{first} HTTP/1.1", "Host: 127.0.0.1", *headers, *([f"Content-Length: {len(body)}"] if body else [])]
    return "\r\n".join([*lines, "", ""]).encode() + body


_JSON = "Content-Type: application/json"
_CLOUD_EVENT = ("ce-id: 1", "ce-type: t", "ce-source: /s", "ce-specversion: 1.0", "Content-Type: text/plain")
_UPGRADE = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
REQUESTS = [
    _request("GET /v1/overlay"),
    _request("GET /v1/events?filter=n%20%3E%200"),
    _request("POST /v1/events", _JSON, body=b'{"n": 12}'),
    _request("POST /v1/events", _JSON, "Transfer-Encoding: chunked") + b'9\r\n{"n": 12}\r\n0\r\n\r\n',
    _request("POST /v1/events", *_CLOUD_EVENT, body=b"hi"),
    _request("POST /v1/explain", _JSON, body=b'{"filter": "a = 1"}'),
    _request("GET /v1/socket", *_UPGRADE, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==") + b"\x81\x05hello",
    _request("GET /static/../../etc/passwd", "Authorization: Bearer x.y.z"),
]


async def _answered(host: str, port: int, request: bytes) -> bytes:
    """The first line of the answer; none if the door just closes or waits for more."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        writer.write_eof()
        async with asyncio.timeout(0.5):
            return (await reader.readline()).strip()
    except (TimeoutError, ConnectionError):
        return b""
    finally:
        writer.close()


def test_what_the_door_hears() -> None:
    """Over real sockets, beside a live broker: no answer speaks of a fault of ours, and the door goes on."""
    broker = LiveBroker(BrokerConfig(broker=BrokerId("A"), address="127.0.0.1:0"))

    with asyncio.Runner() as runner:
        runner.run(broker.start())
        door = LiveDoor("127.0.0.1:0", Network(brokers=(broker.address,)))
        runner.run(door.start())
        host, port = "127.0.0.1", int(door.url.rpartition(":")[2])

        def attempt(data: bytes) -> object:
            line = runner.run(_answered(host, port, data))
            assert not line.startswith(b"HTTP/1.1 500"), line
            return line

        found = fuzz(attempt, REQUESTS, seconds=2 * SECONDS, seed=SEED)
        assert b" 200 " in runner.run(_answered(host, port, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
        runner.run(_served(broker))
        runner.run(door.stop())
        runner.run(broker.stop())
    shown("what the door hears", found)


async def _served(broker: LiveBroker) -> None:
    async with tidewire.connect(broker.address) as wire, wire.subscribe("n = 1") as events:
        await wire.publish({"n": 1})
        assert (await events.get(10))["n"] == 1


def test_the_fuzzer_finds_what_is_there() -> None:
    """A planted fault, three changes away from a good input."""

    def attempt(data: bytes) -> object:
        if b"%s%n" in data and len(data) > 60:
            raise RuntimeError("found")
        return len(data) // 10

    with pytest.raises(AssertionError, match="seed 3, input"):
        fuzz(attempt, [b"x" * 20], seconds=20, seed=3)


class Ticking:
    """A clock that goes on by a millisecond at each look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.001
        return self.now_s


def test_the_fuzzer_finds_what_hangs() -> None:
    clock = Ticking()

    def attempt(_data: bytes) -> object:
        clock.now_s += HANG_S
        return None

    with pytest.raises(AssertionError, match=r"seed 1: 5\.0 s for"):
        fuzz(attempt, [b"x"], seconds=20, seed=1, clock=clock)


def test_the_fuzzer_finds_what_leaks_and_does_not_leak_itself() -> None:
    """A mebibyte each time: kept, it is found; as the name of an outcome, it is not kept."""
    kept: list[bytes] = []
    numbers = count()

    def attempt(_data: bytes) -> bytes:
        return next(numbers).to_bytes(8, "big") * (1 << 17)

    def leak(data: bytes) -> None:
        kept.append(attempt(data))

    assert fuzz(attempt, [b"x"], seconds=0.4, seed=1, clock=Ticking()).kinds > 100
    with pytest.raises(AssertionError, match=r"seed 1: it grew by \d+ MB"):
        fuzz(leak, [b"x"], seconds=0.4, seed=1, clock=Ticking())
