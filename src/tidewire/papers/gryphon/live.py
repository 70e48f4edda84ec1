"""A scene of broker processes on this machine: real sockets, disks and clocks; each link is a relay that is shaped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tidewire.benchmarks.processes import ServerProcess, free_port
from tidewire.benchmarks.settings_file import as_toml
from tidewire.broker.status import BrokerStatus
from tidewire.live.connect import Wire, connect
from tidewire.live.operate import status_of
from tidewire.live.subscription import Subscription
from tidewire.model.errors import TidewireError, Unavailable
from tidewire.papers.gryphon.scene import EVENTS, GROUPS, KB, OUTSTANDING_MAX, PUBENDS, Scene, Setting
from tidewire.papers.shaping import ShapedLink

START_S: Final = 20.0
"""A broker that does not listen and has no neighbour by then will not."""

TRIES: Final = 100
"""Publishers that are tried until there is one for each pubend: which one a publisher gets is its number's chance."""


class _Publisher:
    """Publishes guaranteed events at its own pace, as long as not too many of them have no receipt."""

    def __init__(self, wire: Wire, *, msgs_s: float) -> None:
        self._wire, self._every_s = wire, 1 / msgs_s
        self._under_way: set[asyncio.Task[object]] = set()
        self._failure: BaseException | None = None

    async def run(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        due, number = loop.time(), 0
        while True:
            due = max(due + self._every_s, loop.time() - 1)
            await asyncio.sleep(due - loop.time())
            if self._failure is not None:
                raise self._failure
            if len(self._under_way) >= OUTSTANDING_MAX:
                continue
            number += 1
            task = asyncio.ensure_future(self._wire.publish(EVENTS[number % GROUPS], guaranteed=True))
            self._under_way.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[object]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            self._failure = task.exception() or self._failure

    async def end(self) -> None:
        """What has no receipt yet is given up."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


class _Subscriber:
    """Counts what comes, and what comes twice or out of order."""

    def __init__(self, edge: str, subscription: Subscription) -> None:
        self.edge = edge
        self.delivered = self.disorders = 0
        self._subscription = subscription
        self._last: dict[int, int] = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        async for event in self._subscription:
            envelope = event.event.envelope
            assert envelope.pubend is not None
            assert envelope.tick is not None
            self.disorders += envelope.tick <= self._last.get(envelope.pubend, 0)
            self._last[envelope.pubend] = envelope.tick
            self.delivered += 1


class LiveScene(Scene):
    """In real time. It must be closed."""

    def __init__(
        self, links: Sequence[tuple[str, str]], *, edges: Mapping[str, Sequence[int]], setting: Setting
    ) -> None:
        super().__init__(links, edges=edges, setting=setting)
        self._folder = Path(tempfile.mkdtemp(prefix="tidewire-paper-"))
        self._runner = asyncio.Runner()
        self._stack = contextlib.AsyncExitStack()
        self._addresses = {name: f"127.0.0.1:{free_port()}" for name in self.names}
        self._links: dict[frozenset[str], ShapedLink] = {}
        self._processes: list[ServerProcess] = []
        self._subscribers: list[_Subscriber] = []
        self._publishers: list[_Publisher] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._start = time.monotonic()
        self._passed_s = 0.0
        try:
            self._runner.run(self._begin())
        except BaseException:
            self.close()
            raise

    # -- its beginning and end -----------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        for above, below in self.links:
            link = self._links[frozenset((above, below))] = ShapedLink(self._addresses[above])
            link.open()
        for name in self.names:
            self._launch(name)
        wires = await self._one_for_each_pubend()
        for edge, groups in self.edges.items():
            for group in groups:
                wire = await self._connect(edge, f"{edge}-{group}")
                subscription = await wire.subscribe(f"group = {group}", durable=f"{edge}-{group}")
                self._subscribers.append(_Subscriber(edge, subscription))
        self._publishers = [_Publisher(wire, msgs_s=self.msgs_s / PUBENDS) for wire in wires]
        self._start = time.monotonic()
        self._tasks = [asyncio.ensure_future(one.run()) for one in self._subscribers]
        self._tasks += [asyncio.ensure_future(one.run()) for one in self._publishers]

    def _launch(self, name: str) -> None:
        parents = [self._links[frozenset(link)].address for link in self.links if link[1] == name]
        settings = msgspec.to_builtins(self.settings_of(name)) | {
            "broker": name,
            "address": self._addresses[name],
            "neighbours": parents,
        }
        if name == self.root:
            settings["store"] = str(self._folder / "log")
        file = self._folder / f"{name}.toml"
        file.write_text(as_toml(settings), encoding="utf-8")
        argv = [sys.executable, "-m", "tidewire", "broker", "--config", str(file)]
        process = ServerProcess(argv, env=os.environ, folder=self._folder)
        self._processes.append(process)
        process.wait_until_listening(int(self._addresses[name].rpartition(":")[2]), timeout_s=START_S)

    async def _connect(self, broker: str, name: str) -> Wire:
        return await self._stack.enter_async_context(connect(self._addresses[broker], name=name))

    async def _one_for_each_pubend(self) -> list[Wire]:
        found: dict[int, Wire] = {}
        for i in range(TRIES):
            wire = await self._connect(self.root, f"publisher-{i}")
            if found.setdefault(wire.publisher % PUBENDS, wire) is wire:
                await wire.advertise("group between 0 and 4 and text like '%'")
            if len(found) == PUBENDS:
                return list(found.values())
        raise Unavailable(f"{TRIES} publishers, and not one for each of {PUBENDS} pubends")

    def close(self) -> None:
        try:
            self._runner.run(self._end())
        finally:
            for process in reversed(self._processes):
                process.end()
            self._runner.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for publisher in self._publishers:
            await publisher.end()
        with contextlib.suppress(TidewireError):
            await self._stack.aclose()
        for link in self._links.values():
            await link.end()

    # -- what happens to it --------------------------------------------------------------------------------------------

    def shape(self, a: str, b: str, kb_s: float) -> None:
        self._links[frozenset((a, b))].shape(kb_s / self.scale * KB)

    def cut(self, a: str, b: str) -> None:
        self._runner.run(self._links[frozenset((a, b))].cut())

    def mend(self, a: str, b: str) -> None:
        async def opened() -> None:
            self._links[frozenset((a, b))].open()

        self._runner.run(opened())

    def wait(self, seconds: float) -> None:
        self._passed_s += seconds
        self._runner.run(self._until(self._start + self._passed_s))

    async def _until(self, end: float) -> None:
        await asyncio.sleep(max(0.0, end - time.monotonic()))
        for task in self._tasks:
            if task.done():
                await task

    # -- what is seen of it --------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return self._passed_s

    def statuses(self) -> Mapping[str, BrokerStatus]:
        async def ask() -> dict[str, Any]:
            answers = await asyncio.gather(*(status_of(address) for address in self._addresses.values()))
            return dict(zip(self._addresses, answers, strict=True))

        found = self._runner.run(ask())
        return {name: msgspec.json.decode(document, type=BrokerStatus) for name, document in found.items()}

    def delivered(self) -> dict[str, int]:
        counts = dict.fromkeys(self.edges, 0)
        for one in self._subscribers:
            counts[one.edge] += one.delivered
        return counts

    def disorders(self) -> int:
        return sum(one.disorders for one in self._subscribers)
