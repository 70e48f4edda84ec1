"""A broker whose sockets are read while the loop waits: nothing that a client sees is different."""

import asyncio
import select
import selectors
import socket
from pathlib import Path
from typing import Any

import pytest

import tidewire
from tests.integration.network import until, with_broker
from tests.integration.secured import Installation
from tidewire.dataplane.protocol import Received
from tidewire.live.broker import LiveBroker
from tidewire.live.security import ensure_certificate
from tidewire.live.selector import PlaneSelector
from tidewire.model.ids import Conn

EVENTS = 2_000


def test_events_come_once_and_in_order_beside_timers_and_other_sockets() -> None:
    async def act(node: LiveBroker) -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        async with tidewire.connect(node.address) as wire:
            got: list[int] = []
            await wire.subscribe("n >= 0", lambda event: got.append(event["n"]))
            for n in range(EVENTS):
                await wire.publish({"n": n})
            await until(lambda: len(got) == EVENTS)
        ticking.cancel()
        assert got == list(range(EVENTS))
        assert ticks > 0, "the loop's own timers must not wait for ever"

    with_broker(act)


@pytest.mark.parametrize("is_secured", [False, True])
def test_nobody_is_forgotten_when_the_queue_is_always_full(tmp_path: Path, is_secured: bool) -> None:
    """Its bound is below what one read brings: the publisher is stopped and let go on all the time."""
    here = Installation(tmp_path / "keys")
    ensure_certificate(here.folder, "B")
    shown = here.token() if is_secured else None

    async def act(node: LiveBroker) -> None:
        address = f"tidewires://{node.address}" if is_secured else node.address
        got: list[int] = []
        async with (
            tidewire.connect(address, credentials=shown) as reader,
            tidewire.connect(address, credentials=shown) as writer,
        ):
            await reader.subscribe("n >= 0", lambda event: got.append(event["n"]))
            await writer.publish_many({"n": n, "text": "x" * (n % 900)} for n in range(EVENTS))
            await until(lambda: len(got) == EVENTS)
        assert got == list(range(EVENTS))

    security = str(here.folder) if is_secured else None
    with_broker(act, slow_subscriber="wait", queue_bytes_max=4096, security=security)


def test_a_client_that_goes_away_is_noticed() -> None:
    async def act(node: LiveBroker) -> None:
        for _ in range(3):
            async with tidewire.connect(node.address) as wire, wire.subscribe("n = 1") as events:
                await wire.publish({"n": 1})
                assert (await events.get(5))["n"] == 1
        await until(lambda: node.engine.work().subscriptions == 0)

    with_broker(act)


def test_a_socket_that_is_ended_by_what_is_told_is_not_ready() -> None:
    """Both come from one wait: whoever ends the connection comes first."""
    selector = PlaneSelector()
    ours, theirs = socket.socketpair()
    selector.register(ours, selectors.EVENT_READ)

    class Engine:
        def wait(self, _: int, *, timeout_ms: int) -> tuple[list[tuple[int, int]], tuple[Conn, Received]]:
            return [(ours.fileno(), select.EPOLLIN)], (Conn(timeout_ms), Received("idle"))

    told: list[Conn | None] = []
    selector.serve(Engine(), lambda conn, _: told.append(conn))
    assert [key.fileobj for key, _ in selector.select(0)] == [ours]

    def end(_conn: Conn | None, _received: Received) -> None:
        selector.unregister(ours)

    selector.serve(Engine(), end)
    assert selector.select(0) == []
    assert told == [0]
    selector.close()
    ours.close()
    theirs.close()


def test_what_goes_wrong_in_serving_a_connection_does_not_end_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(node: LiveBroker) -> None:
        seen: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
        took, fails = node._took, [True]

        def failing(*arguments: Any) -> None:
            if fails:
                fails.pop()
                raise RuntimeError("once")
            took(*arguments)

        monkeypatch.setattr(node, "_took", failing)
        reader, writer = await asyncio.open_connection(*node.address.split(":"))
        writer.write(b"\0\0\0\0\0")
        await until(lambda: bool(seen))
        async with asyncio.timeout(5):
            assert await reader.read() == b"", "nobody is left waiting on it"
        writer.close()
        async with tidewire.connect(node.address) as wire, wire.subscribe("n = 1") as events:
            await wire.publish({"n": 1})
            assert (await events.get(5))["n"] == 1

    with_broker(act)
