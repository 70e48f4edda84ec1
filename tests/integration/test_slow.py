"""A subscriber that does not read: what happens to it is configured and reported, and nobody else notices."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

import tidewire
from tests.integration.network import brokers, until
from tests.routing.network import encoded
from tidewire._kernel.codec import encode
from tidewire.live.sockets import parse_address, tune
from tidewire.model.events import make_event
from tidewire.model.messages import VERSION, Advertise, Bye, Flush, Hello, Lost, Ping, Subscribe
from tidewire.wire.frames import DELIVER, MESSAGE, FrameReader, decode_message, message_frame, publish_frame

BOUND = 256 << 10
EVENTS = 4000
BODY = b"x" * 1000


async def stubborn(address: str) -> socket.socket:
    """A subscriber to everything that has stopped reading."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, parse_address(address))
    hello = message_frame(Hello(version=VERSION, name="stubborn", uses=["subscribe"]))
    await loop.sock_sendall(connection, hello + message_frame(Subscribe(1, [0], [encoded("n >= 0")])))
    return connection


async def read_all(connection: socket.socket, *, events_max: int = 10**9) -> tuple[list[Any], int]:
    """What it would have read, until nothing comes for a while: messages, and the number of events."""
    frames, messages, events = FrameReader(), [], 0
    loop = asyncio.get_running_loop()
    try:
        while events < events_max:
            async with asyncio.timeout(0.5):
                data = await loop.sock_recv(connection, 1 << 20)
            if not data:
                break
            for kind, payload in frames.feed(data):
                events += kind == DELIVER
                messages += [decode_message(payload)] if kind == MESSAGE else []
    except (TimeoutError, ConnectionError):
        pass
    return messages, events


def queued(node: Any) -> int:
    return max((node.engine.traffic(conn).queued_bytes for conn in node.node.core.clients.conns()), default=0)


@pytest.mark.parametrize("policy", ["drop", "end"])
def test_others_are_served_and_memory_stays_bounded(policy: str) -> None:
    async def run() -> tuple[list[Any], int]:
        settings = {"slow_subscriber": policy, "queue_bytes_max": BOUND, "load_every_s": 0.05}
        async with brokers(settings) as (node,), tidewire.connect(node.address) as wire:
            events = await wire.subscribe("n >= 0")
            slow = await stubborn(node.address)
            await until(lambda: len(node.node.core.clients.using("subscribe")) == 2)
            most = 0
            for n in range(EVENTS):
                await wire.publish({"n": n}, body=BODY)
                if n % 20 == 0:
                    await asyncio.sleep(0)
                    most = max(most, queued(node))
                    while events.waiting:
                        assert (await events.get(1))["n"] >= 0
            await wire.flush()
            assert most <= BOUND + 2 * len(BODY)
            if policy == "drop":
                await until(lambda: node.node.core.clients.conns() and queued(node) > 0)
                await asyncio.sleep(0.1)
            found = await read_all(slow)
            slow.close()
            return found

    messages, got = asyncio.run(run())
    if policy == "drop":
        lost = sum(message.events for message in messages if isinstance(message, Lost))
        assert lost > 0
        assert lost + got == EVENTS
    else:
        assert got < EVENTS
        byes = [message.code for message in messages if isinstance(message, Bye)]
        assert byes in ([], ["slow-subscriber"])  # it may be cut off before it has read that far


def test_what_is_on_its_way_to_one_who_is_ended_is_not_thrown_away() -> None:
    """It has pinged meanwhile, and nobody read that: a reason for the system to reset the connection."""

    async def run() -> int:
        settings = {"slow_subscriber": "end", "queue_bytes_max": BOUND}
        async with brokers(settings) as (node,), tidewire.connect(node.address) as wire:
            slow = await stubborn(node.address)
            await until(lambda: len(node.node.core.clients.using("subscribe")) == 1)
            published = 0
            while not node._lingering:
                await wire.publish({"n": published}, body=BODY)
                await asyncio.sleep(0)
                published += 1
            slow.send(message_frame(Ping(1)))
            await until(lambda: not node._lingering)
            _, events = await read_all(slow)
            slow.close()
            return published - events

    assert asyncio.run(run()) <= 2 * BOUND / len(BODY), "only what waited at the broker is lost"


def test_waiting_reaches_the_publisher_and_nothing_is_lost() -> None:
    async def run() -> None:
        settings = {"slow_subscriber": "wait", "queue_bytes_max": BOUND}
        async with brokers(settings) as (node,), tidewire.connect(node.address) as wire:
            slow = await stubborn(node.address)
            await until(lambda: len(node.node.core.clients.using("subscribe")) == 1)
            published = 0

            async def flow() -> None:
                nonlocal published
                for n in range(EVENTS * 3):
                    await wire.publish({"n": n}, body=BODY)
                    published += 1
                await wire.flush()

            flowing = asyncio.create_task(flow())
            await asyncio.sleep(0.5)
            stopped_at = published
            await asyncio.sleep(0.2)
            assert published == stopped_at < EVENTS * 3  # it waits
            assert queued(node) <= BOUND + 2 * len(BODY)
            async with tidewire.connect(node.address) as other, other.subscribe("other = 1") as events:
                await other.publish({"other": 1})  # whoever has nothing to do with it goes on
                assert (await events.get(5))["other"] == 1
            _, got = await read_all(slow, events_max=EVENTS * 3)
            await flowing
            assert got == EVENTS * 3
            slow.close()

    asyncio.run(run())


def test_a_socket_that_fills_behind_a_message_is_emptied_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that follow a message in the same read fill the socket: the driver hears of it, and goes on later."""

    def narrow(connection: socket.socket) -> None:
        tune(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    monkeypatch.setattr("tidewire.live.broker.tune", narrow)

    async def run() -> None:
        async with brokers({}) as (node,):
            slow = await stubborn(node.address)
            await until(lambda: len(node.node.core.clients.using("subscribe")) == 1)
            loop = asyncio.get_running_loop()
            publisher = socket.socket()
            publisher.setblocking(False)
            await loop.sock_connect(publisher, parse_address(node.address))
            hello = message_frame(Hello(version=VERSION, name="p", uses=["publish"], publisher=7))
            event = publish_frame(encode(make_event({"n": 1}, body=BODY)), born_ns=1)
            await loop.sock_sendall(publisher, hello + message_frame(Advertise(1, [0], [b""])))
            await until(lambda: len(node.node.core.clients.using("publish")) == 1)
            await loop.sock_sendall(publisher, message_frame(Flush(2)) + event * 50)
            await until(lambda: node.engine.work().events == 50)
            assert queued(node) > 0
            _, got = await read_all(slow, events_max=50)
            assert got == 50
            publisher.close()
            slow.close()

    asyncio.run(run())


def test_a_publisher_goes_on_when_the_one_it_waited_for_has_gone() -> None:
    async def run() -> None:
        settings = {"slow_subscriber": "wait", "queue_bytes_max": BOUND}
        async with brokers(settings) as (node,), tidewire.connect(node.address) as wire:
            slow = await stubborn(node.address)
            await until(lambda: len(node.node.core.clients.using("subscribe")) == 1)
            flowing = asyncio.create_task(wire.publish_many({"n": n, "text": "x" * 1000} for n in range(EVENTS * 3)))
            await until(lambda: bool(node.node.blocked))
            slow.close()
            async with asyncio.timeout(10):
                await flowing
                await wire.flush()

    asyncio.run(run())
