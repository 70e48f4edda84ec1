"""Live brokers on loopback, in this process or in their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from tidewire.broker.config import BrokerConfig
from tidewire.live.broker import LiveBroker
from tidewire.live.selector import PlaneSelector
from tidewire.model.ids import BrokerId


@asynccontextmanager
async def brokers(*configs: dict[str, Any]) -> AsyncIterator[list[LiveBroker]]:
    """Brokers with these settings; ``neighbours`` are places in the list. All are connected when it begins."""
    started: list[LiveBroker] = []
    try:
        for at, given in enumerate(configs):
            settings = {"broker": BrokerId(f"B{at}"), "address": "127.0.0.1:0", **given}
            settings["neighbours"] = [started[place].address for place in settings.get("neighbours", [])]
            node = LiveBroker(BrokerConfig(**settings))
            await node.start()
            started.append(node)
        links = sum(len(given.get("neighbours", [])) for given in configs)
        await until(lambda: sum(len(node.node.core.links.up()) for node in started) == 2 * links)
        await until(lambda: all(n.about is not None for node in started for n in node.node.core.links.up()))
        yield started
    finally:
        for node in started:
            await node.stop()


async def until(condition: Any, *, seconds: float = 20.0) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


HEAD_AND_TWO_EDGES: list[dict[str, Any]] = [
    {"role": "head"},
    {"role": "edge", "neighbours": [0]},
    {"role": "edge", "neighbours": [0]},
]


def with_broker(act: Callable[[LiveBroker], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """A broker on a loop that lets the kernel wait, and what is done with it."""
    selector = PlaneSelector()

    async def run() -> None:
        node = LiveBroker(BrokerConfig(broker=BrokerId("B"), address="127.0.0.1:0", **settings), selector=selector)
        await node.start()
        try:
            await act(node)
        finally:
            await node.stop()

    with asyncio.Runner(loop_factory=selector.loop) as runner:
        runner.run(run())
