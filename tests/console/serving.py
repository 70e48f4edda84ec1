"""A door in front of live brokers on loopback: in this loop, or, for those who do not speak asyncio, in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from tests.channels.emergencies import emergencies
from tests.datacluster.hosting import DataCluster
from tests.integration.network import brokers, until
from tidewire.console.network import Network
from tidewire.console.server import LiveDoor
from tidewire.live.broker import LiveBroker
from tidewire.live.coordinator import LiveCoordinator

WAIT_S = 20.0


@asynccontextmanager
async def door(network: Network) -> AsyncIterator[LiveDoor]:
    """A door to this network."""
    live = LiveDoor("127.0.0.1:0", network)
    await live.start()
    try:
        yield live
    finally:
        await live.stop()


@asynccontextmanager
async def served(*configs: dict[str, Any]) -> AsyncIterator[tuple[httpx.AsyncClient, list[LiveBroker]]]:
    """A client of a door in front of brokers with these settings; one broker if none are given."""
    async with brokers(*(configs or ({},))) as nodes, door(Network(brokers=(nodes[0].address,))) as live:
        async with httpx.AsyncClient(base_url=live.url, timeout=WAIT_S, trust_env=False) as client:
            yield client, nodes


@contextmanager
def served_in_thread(**settings: Any) -> Iterator[str]:
    """The address of a door in front of one broker with these settings, a coordinator and a data cluster, in a thread
    of its own."""
    loop = asyncio.new_event_loop()
    ended, is_up, urls = asyncio.Event(), threading.Event(), []

    async def run() -> None:
        office = LiveCoordinator("127.0.0.1:0")
        await office.start()
        async with (
            DataCluster(emergencies()) as cluster,
            brokers({**settings, "coordinator": office.address, "data_cluster": cluster.address}) as nodes,
            door(Network(brokers=(nodes[0].address,), coordinator=office.address)) as live,
        ):
            await until(lambda: nodes[0].node.core.is_registered and nodes[0].node.core.channels.is_there)
            urls.append(live.url)
            is_up.set()
            await ended.wait()
        await office.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert is_up.wait(WAIT_S)
        yield urls[0].rstrip("/")
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(WAIT_S)
        loop.close()


class Frames:
    """The server-sent events of a response, one by one."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()

    async def next(self, name: str) -> str:
        """The data of the next one with this name."""
        found = ""
        async with asyncio.timeout(WAIT_S):
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field == "event":
                    found = value
                elif field == "data" and found == name:
                    return value
        raise AssertionError(f"the stream ended before there was a {name}")
