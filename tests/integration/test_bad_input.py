"""Whatever comes to a port: the broker answers clearly or closes, and serves the others throughout."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidewire
from tests.integration.network import brokers
from tidewire._kernel.codec import encode
from tidewire.live.coordinator import LiveCoordinator
from tidewire.live.sockets import parse_address
from tidewire.model.events import make_event
from tidewire.model.ids import BrokerId, TreeId
from tidewire.model.messages import VERSION, Advertise, Bye, Hello, Link, Subscribe
from tidewire.model.routing_messages import Ads, Offer, Routes
from tidewire.wire.frames import FORWARD, HOP, MESSAGE, FrameReader, decode_message, frame, message_frame, publish_frame

HELLO = message_frame(Hello(version=VERSION, name="x", uses=["publish", "subscribe"]))
LINK = message_frame(Link(version=VERSION, broker=BrokerId("X"), incarnation=1, address="127.0.0.1:1", lane="data"))
EVENT = encode(make_event({"n": 1, "s": "text"}))
DAMAGED = Ads(TreeId(5), [1], [b"\xff\xff"], True)
TALK = (
    HELLO
    + message_frame(Advertise(1, [0], [b""]))
    + message_frame(Subscribe(2, [0], [b"\x91\x92\x90\x90"]))
    + publish_frame(EVENT, born_ns=1)
)


async def answers(address: str, sent: bytes, *, patience_s: float = 0.05) -> list[Any]:
    """What a node says to these bytes, up to the end of the connection or of our patience."""
    host, port = parse_address(address)
    reader, writer = await asyncio.open_connection(host, port)
    frames, heard = FrameReader(), []
    try:
        writer.write(sent)
        async with asyncio.timeout(patience_s):
            while data := await reader.read(65_536):
                heard += [decode_message(payload) for kind, payload in frames.feed(data) if kind == MESSAGE]
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return heard


def serve_meanwhile(attack: Callable[[str], Any]) -> Any:
    """Attack a broker that serves somebody, who must not notice."""

    async def run() -> Any:
        async with (
            brokers({}) as (node,),
            tidewire.connect(node.address) as wire,
            wire.subscribe("ok = true") as events,
        ):
            found = await attack(node.address)
            await wire.publish({"ok": True})
            assert (await events.get(5))["ok"] is True
            return found

    return asyncio.run(run())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=8))
def test_random_bytes(chunks: list[bytes]) -> None:
    async def attack(address: str) -> None:
        await asyncio.gather(*(answers(address, chunk) for chunk in chunks))

    serve_meanwhile(attack)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(TALK) * 8 - 1), st.integers(1, len(TALK))), min_size=1, max_size=8))
def test_flipped_bits_and_truncated_talk(flips: list[tuple[int, int]]) -> None:
    async def attack(address: str) -> None:
        talks = []
        for bit, length in flips:
            damaged = bytearray(TALK)
            damaged[bit // 8] ^= 1 << bit % 8
            talks += [bytes(damaged), TALK[:length], bytes(damaged[:length])]
        await asyncio.gather(*(answers(address, talk) for talk in talks))

    serve_meanwhile(attack)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (struct.pack("<IB", 0, 1), "frame-damaged"),
        (struct.pack("<IB", 1 << 31, 1), "frame-damaged"),
        (frame(9, b"?"), "frame-damaged"),
        (frame(MESSAGE, b"\xc1"), "frame-damaged"),
        (message_frame(Subscribe(1, [0], [b""])), "protocol"),
        (message_frame(Hello(version=99, name="x", uses=[])), "version"),
        (HELLO + message_frame(Routes(1, [0], [b""])), "protocol"),  # type: ignore[arg-type]
        (HELLO + publish_frame(EVENT, born_ns=1), "frame-damaged"),
        (HELLO + frame(FORWARD, HOP.pack(1, 1, 1) + EVENT), "frame-damaged"),
        (LINK + publish_frame(EVENT, born_ns=1), "frame-damaged"),
        (HELLO + message_frame(Advertise(1, [0], [b""], -5)), "frame-damaged"),
        (LINK + message_frame(Offer(TreeId(-5), [BrokerId("X")])), "frame-damaged"),
        (LINK + message_frame(Offer(TreeId(5), [BrokerId("X")])) + message_frame(DAMAGED), "filter-damaged"),
        (message_frame(Link(version=99, broker=BrokerId("X"), incarnation=1, address="", lane="data")), "version"),
        (
            message_frame(Link(version=VERSION, broker=BrokerId("B0"), incarnation=1, address="", lane="data")),
            "same-name",
        ),
    ],
)
def test_what_is_not_the_protocol_is_told_by_code(sent: bytes, code: str) -> None:
    heard = serve_meanwhile(lambda address: answers(address, sent, patience_s=10))
    assert [message.code for message in heard if isinstance(message, Bye)] == [code]


def test_the_coordinator_too() -> None:
    async def run() -> None:
        node = LiveCoordinator("127.0.0.1:0")
        await node.start()
        try:
            for sent in (b"\0" * 50, b"\xff" * 50, frame(MESSAGE, b"\xc1")):
                heard = await answers(node.address, sent, patience_s=10)
                assert [message.code for message in heard if isinstance(message, Bye)] == ["frame-damaged"]
            await answers(node.address, TALK)
            heard = await answers(node.address, HELLO, patience_s=10)  # it knows no broker to send anybody to
            assert [message.code for message in heard if isinstance(message, Bye)] == ["unavailable"]
        finally:
            await node.stop()

    asyncio.run(run())


def test_a_connection_that_says_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.broker.core.HANDSHAKE_NS", 50_000_000)

    async def attack(address: str) -> list[Any]:
        host, port = parse_address(address)
        reader, writer = await asyncio.open_connection(host, port)
        async with asyncio.timeout(10):
            data = await reader.read()
        writer.close()
        return [decode_message(payload) for _, payload in FrameReader().feed(data)]

    assert [message.code for message in serve_meanwhile(attack)] == ["silent"]
