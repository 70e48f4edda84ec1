"""Applications whose brokers hang, vanish or have no room: nobody waits for ever, and nothing is lost in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

import tidewire
import tidewire.sync
from tests.client.brokers import welcome
from tests.integration.network import brokers, until
from tidewire.client.config import ClientConfig
from tidewire.live.connect import Wire
from tidewire.live.inbox import WAITING_MAX
from tidewire.model.errors import Unavailable, UsageError
from tidewire.model.messages import Done, Hello, Ping, Pong
from tidewire.wire.frames import MESSAGE, FrameReader, decode_message, message_frame


class Moody(asyncio.Protocol):
    """A broker to the extent that it answers; when it hangs it neither reads nor answers."""

    def __init__(self, hangs: Callable[[], bool]) -> None:
        self._hangs = hangs
        self._frames = FrameReader()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self._hangs():
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        if self._hangs():
            self.transport.pause_reading()
            return
        for kind, payload in self._frames.feed(data):
            message: Any = decode_message(payload) if kind == MESSAGE else None
            if isinstance(message, Hello):
                self.transport.write(message_frame(welcome("moody")))
            elif isinstance(message, Ping):
                self.transport.write(message_frame(Pong(message.sent_ns, message.sent_ns, message.sent_ns)))
            elif message is not None and hasattr(message, "request"):
                self.transport.write(message_frame(Done(message.request)))


@asynccontextmanager
async def moody(hangs: Callable[[], bool]) -> AsyncIterator[str]:
    """Its address. It reads nothing more from when it hangs."""
    made: list[Moody] = []

    def make() -> Moody:
        made.append(Moody(hangs))
        return made[-1]

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for one in made:
            one.transport.abort()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions leave a broker that does not welcome them after a moment."""
    monkeypatch.setattr("tidewire.live.connect.ClientConfig", partial(ClientConfig, welcome_s=0.2))


def run_within(seconds: float, task: Callable[[], Any]) -> None:
    async def run() -> None:
        async with asyncio.timeout(seconds):
            await task()

    asyncio.run(run())


def lose_connections(wire: Wire) -> None:
    """As a network does that fails."""
    for line in list(wire._session._lines.values()):
        assert line.transport is not None
        line.transport.abort()


@pytest.mark.usefixtures("impatient")
def test_the_first_address_hangs_or_nobody_is_there() -> None:
    async def run() -> None:
        async with brokers({"role": "both"}) as (node,), moody(lambda: True) as hung:
            async with tidewire.connect(["127.0.0.1:1", hung, node.address]) as wire:
                await wire.subscribe("n >= 0")
                assert wire.subscribed_at == "B0"

    run_within(10, run)


@pytest.mark.usefixtures("impatient")
def test_a_publisher_under_back_pressure_leaves_a_broker_that_hangs() -> None:
    """Its buffers are full, and what is in them will never leave."""

    async def run() -> None:
        is_hung = False
        async with brokers({"role": "both"}) as (node,), moody(lambda: is_hung) as other:
            async with tidewire.connect([other, node.address]) as wire:
                await wire.publish({"n": 0})
                assert wire.publishing_at == "moody"
                is_hung = True
                published = 0
                while wire.publishing_at != "B0":
                    await wire.publish({"n": 1}, body=bytes(100_000))
                    published += 1
                assert published > 1
                (lost,) = [one for one in wire.notices if one.what == "connection lost"]
                assert lost.facts["reason"] == "the broker moody has been silent for too long"
                assert 0 < int(lost.facts["unconfirmed"]) <= published + 1

    run_within(20, run)


def test_what_was_published_has_been_read_when_a_session_ends() -> None:
    async def run() -> None:
        got: list[int] = []
        async with brokers({"role": "both"}) as (node,), tidewire.connect(node.address) as reader:
            await reader.subscribe("n >= 0", lambda event: got.append(event["n"]))
            async with tidewire.connect(node.address) as writer:
                await writer.subscribe("n >= 0")
                for n in range(30):
                    await writer.publish({"n": n}, body=bytes(1_000_000))
            assert writer._session._lines == {}
            await until(lambda: len(got) == 30)

            def publish() -> None:
                with tidewire.sync.connect(node.address) as wire:
                    wire.publish_many({"n": n, "text": "x" * 400} for n in range(20_000))

            await asyncio.to_thread(publish)
            await until(lambda: len(got) == 20_030)

    run_within(60, run)


def test_one_who_ends_says_what_no_broker_has_read() -> None:
    async def run() -> None:
        is_hung = False
        async with moody(lambda: is_hung) as address:
            wire = await tidewire.connect(address, timeout=0.3).__aenter__()
            events = await wire.subscribe("n < 0")
            await wire.publish({"n": 0})
            await wire.flush()
            is_hung = True
            await wire.publish_many({"n": n} for n in range(50))
            with pytest.raises(Unavailable, match="up to 50 of the last events"):
                await wire.close()
            assert wire.notices[-1].what == "events may be lost"
            assert wire.notices[-1].facts["events"] == 50
            with pytest.raises(StopAsyncIteration):
                await events.__anext__()
            await wire.close()

    run_within(10, run)


def test_what_may_be_lost_does_not_hide_what_went_wrong_in_the_application() -> None:
    async def run() -> None:
        is_hung = False
        async with moody(lambda: is_hung) as address:
            wire = tidewire.connect(address, timeout=0.3)

            async def fail() -> None:
                nonlocal is_hung
                async with wire:
                    await wire.publish({"n": 0})
                    is_hung = True
                    await wire.publish({"n": 1})
                    raise KeyError("of the application")

            with pytest.raises(KeyError, match="of the application"):
                await fail()
            assert wire.notices[-1].what == "events may be lost"

    run_within(10, run)


def test_publishing_ends_when_all_brokers_are_gone() -> None:
    async def run() -> None:
        async with brokers({"role": "both"}) as (node,):
            wire = await tidewire.connect(node.address, timeout=0.5).__aenter__()
            await wire.publish({"n": 0})
            await wire.flush()
        await until(lambda: wire.publishing_at is None)
        with pytest.raises(Unavailable, match="no broker could be reached"):
            await wire.publish({"n": 1})
        await wire.close()

    run_within(10, run)


@pytest.mark.parametrize("policy", ["drop", "end"])
def test_who_is_behind_stays_within_its_bound_after_a_reconnection(policy: str) -> None:
    """Also when its broker ends the connection for that, as often as it likes: and that is told."""

    async def run() -> None:
        settings = {"role": "both", "slow_subscriber": policy, "queue_bytes_max": 100_000, "heartbeat_s": 0.2}
        async with brokers(settings) as (node,):
            async with tidewire.connect(node.address) as reader, tidewire.connect(node.address) as writer:
                slow = await reader.subscribe("n >= 0")

                async def more(count: int, *, body: bytes = b"") -> None:
                    for n in range(count):
                        await writer.publish({"n": n}, body=body)
                        if n % 100 == 0:
                            await writer.flush()

                while slow.waiting < WAITING_MAX:
                    await more(500)
                lose_connections(reader)
                await until(lambda: reader.notices and reader._session.core.is_confirmed("subscribe"))
                before = slow.waiting
                await more(3000, body=bytes(10_000))
                if policy == "end":
                    await until(lambda: len(reader.notices) > 1)
                    assert "it was not read at the time" in str(reader.notices[1].facts["reason"])
                assert slow.waiting <= before + 1000
                while slow.waiting:
                    await slow.get(1)
                while True:  # the connection that it has now may be about to end
                    await writer.publish({"n": 1, "last": True})
                    with suppress(TimeoutError):
                        if "last" in await slow.get(0.2):
                            return

    run_within(60, run)


def test_one_who_no_longer_waits_for_its_request_has_it_taken_back() -> None:
    async def run() -> None:
        async with brokers({"role": "both"}) as (node,), tidewire.connect(node.address) as wire:
            router = node.node.core.router
            stays = await wire.subscribe("n = 1")
            await wire.advertise("n >= 0")
            asked: list[Any] = [
                wire.subscribe("n = 2")._subscribed(),
                wire.subscribe_many(["n = 3", "n = 4"]),
                wire.advertise("n < 0")._advertised(),
                stays.change("n = 5"),
            ]
            for one in asked:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(one, 1e-9)
            other = await wire.subscribe("n = 6")  # behind all that
            await other.unsubscribe()
            await wire.flush()
            said = wire._session.core._requests._said
            (conn,) = node.node.core.clients.conns()
            assert list(router.subscriptions(conn)) == list(said["subscribe"]) == [stays.number]
            assert len(said["publish"]) == 1
            await wire.publish({"n": 1})
            assert (await stays.get(5))["n"] == 1

    run_within(10, run)


def test_why_a_broker_does_not_take_us_reaches_the_application() -> None:
    async def run() -> None:
        async with brokers({"role": "both", "connections_max": 1}) as (node,), tidewire.connect(node.address):
            with pytest.raises(Unavailable, match="takes 1 connections: try another, or later"):
                await tidewire.connect(node.address, timeout=0.3).__aenter__()

    run_within(10, run)


def test_a_callback_that_nobody_would_await_is_refused() -> None:
    async def take(_event: tidewire.Notification) -> None: ...

    class Taker:
        async def __call__(self, _event: tidewire.Notification) -> None: ...

    async def run() -> None:
        async with brokers({"role": "both"}) as (node,), tidewire.connect(node.address) as wire:
            for callback in (take, Taker()):
                with pytest.raises(UsageError, match="plain function"):
                    wire.subscribe("n >= 0", callback)  # type: ignore[arg-type]
                with pytest.raises(UsageError, match="plain function"):
                    await wire.subscribe_many(["n >= 0"], callback)  # type: ignore[arg-type]

    run_within(10, run)
