"""Nobody keeps the broker from the others: not by dying at the wrong moment, nor by talking without a pause."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import time
from collections.abc import Callable

import pytest

import tidewire
from tests.integration.network import until, with_broker
from tidewire._kernel.codec import encode
from tidewire.dataplane.kernel import KernelEngine
from tidewire.language import compile_filter
from tidewire.live.broker import LiveBroker
from tidewire.live.sockets import parse_address
from tidewire.model.events import make_event
from tidewire.model.filters import encode_filter
from tidewire.model.ids import Conn
from tidewire.model.messages import ANYTHING, VERSION, Advertise, Flush, Hello, Ping, Subscribe, Unsubscribe, Use
from tidewire.wire.frames import message_frame, publish_frame


def _greeted(address: str, name: str, *, use: Use) -> socket.socket:
    connection = socket.create_connection(parse_address(address))
    connection.sendall(message_frame(Hello(version=VERSION, name=name, uses=[use], publisher=7, next_sequence=1)))
    connection.recv(1 << 16)
    return connection


def test_a_subscriber_that_resets_its_connection_ends_nothing_else() -> None:
    """Its socket is ready to be read, and broken by a write, in one and the same round of the loop."""

    async def act(node: LiveBroker) -> None:
        wanted = encode_filter(compile_filter("n >= 0"))
        subscriber = await asyncio.to_thread(_greeted, node.address, "s", use="subscribe")
        subscriber.sendall(message_frame(Subscribe(1, [1], [wanted])))
        publisher = await asyncio.to_thread(_greeted, node.address, "p", use="publish")
        publisher.sendall(message_frame(Advertise(1, [1], [ANYTHING])))
        await asyncio.to_thread(publisher.recv, 1 << 16)
        await until(lambda: node.engine.work().subscriptions == 1)
        subscriber.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        subscriber.close()
        publisher.sendall(publish_frame(encode(make_event({"n": 1})), born_ns=1))
        time.sleep(0.05)  # noqa: ASYNC251 - the loop is late: both are there when it looks
        await until(lambda: node.engine.work().subscriptions == 0)
        async with tidewire.connect(node.address) as wire, wire.subscribe("n >= 0") as events:
            await wire.publish({"n": 2})
            assert (await events.get(timeout=10))["n"] == 2
        publisher.close()

    with_broker(act, role="both")


def test_everyone_has_a_turn_before_anyone_has_a_second_one() -> None:
    """Though a turn with something to tell ends the call."""
    engine, epoll, pairs = KernelEngine(), select.epoll(), {}
    turns = dict.fromkeys((Conn(1), Conn(2), Conn(3)), 0)
    said = message_frame(Flush(1))
    for conn in turns:
        pairs[conn] = socket.socketpair()
        pairs[conn][0].setblocking(False)
        engine.open(conn, is_link=False, when_full="drop")
        engine.attach(conn, pairs[conn][0].fileno())
        epoll.register(pairs[conn][0].fileno(), select.EPOLLIN)
        pairs[conn][1].sendall(said * (15_000 if conn == 1 else 1))
    for _ in range(8):
        _, told = engine.wait(epoll.fileno(), timeout_ms=0)
        if told is not None and told[0] is not None:
            turns[told[0]] += 1
    assert turns[Conn(2)] == turns[Conn(3)] == 1
    assert turns[Conn(1)] > 1
    for pair in pairs.values():
        pair[0].close()
        pair[1].close()
    epoll.close()


def _pings() -> bytes:
    return message_frame(Ping(1)) * 3000


def _refused() -> bytes:
    return publish_frame(b"garbage" * 3, born_ns=1) * 3000


def _requests() -> bytes:
    return b"".join(message_frame(Unsubscribe(1, [n])) for n in range(3000))


@pytest.mark.parametrize("flood", [_pings, _refused, _requests])
def test_a_client_that_never_pauses_does_not_keep_others_waiting(flood: Callable[[], bytes]) -> None:
    async def act(node: LiveBroker) -> None:
        loud = await asyncio.to_thread(_greeted, node.address, "loud", use="publish")
        loud.sendall(message_frame(Advertise(1, [1], [ANYTHING])))
        data, is_over = flood(), asyncio.Event()
        loud.setblocking(False)

        async def shout() -> None:
            loop = asyncio.get_running_loop()
            reading = asyncio.create_task(_read_all(loud))
            while not is_over.is_set():
                await loop.sock_sendall(loud, data)
            reading.cancel()

        shouting = asyncio.create_task(shout())
        async with tidewire.connect(node.address) as wire, wire.subscribe("n >= 0") as events:
            for n in range(20):
                await wire.publish({"n": n})
                assert (await events.get(timeout=5))["n"] == n
        is_over.set()
        shouting.cancel()
        loud.close()

    with_broker(act, role="both")


async def _read_all(connection: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(connection, 1 << 20):
        pass
