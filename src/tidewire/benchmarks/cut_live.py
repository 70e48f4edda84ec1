"""The cable cut with real brokers: a head and its edges as processes, relays between them that carry only so much."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tidewire.benchmarks.cut import INTERESTS, KINDS, ClassResult, Plan, RunResult, TrafficKind, class_result
from tidewire.benchmarks.processes import ServerProcess, free_port
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.benchmarks.settings_file import as_toml
from tidewire.broker.status import BrokerStatus
from tidewire.client.events import Tell as Notice
from tidewire.live.connect import Wire, connect
from tidewire.live.notification import Notification
from tidewire.live.operate import status_of
from tidewire.model.errors import Overloaded, TidewireError
from tidewire.papers.shaping import ShapedLink

HEAD: Final = "head"
START_S: Final = 30.0
DRAIN_S: Final = 5.0


class _Publisher:
    """Publishes at its own pace, whatever becomes of it."""

    def __init__(self, kind: TrafficKind, plan: Plan) -> None:
        self.kind = kind
        self.offered = self.held_back = 0
        self.told: list[tuple[float, object]] = []
        """When a limit changed, and to what."""
        self._plan = plan
        self._every_s = kind.publishers / (kind.share * plan.msgs_s)

    def noticed(self, notice: Notice) -> None:
        """A session tells something."""
        if notice.what == "limit":
            self.told.append((time.monotonic(), notice.facts["events/s"]))

    async def run(self, wire: Wire) -> None:
        """Until it is cancelled."""
        due, number = time.monotonic(), 0
        while True:
            due += self._every_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            number += 1
            self.offered += 1
            try:
                await wire.publish(self._plan.event(self.kind, number) | {"due": due})
            except Overloaded:
                self.held_back += 1


class CutScene:
    """One run, in real time."""

    def __init__(self, plan: Plan, *, is_on: bool, tell: Tell = tell_nobody) -> None:
        self._plan, self._is_on, self._tell = plan, is_on, tell
        self._folder = Path(tempfile.mkdtemp(prefix="tidewire-cut-"))
        self._addresses = {name: f"127.0.0.1:{free_port()}" for name in (HEAD, *self._edges)}
        self._links: list[ShapedLink] = []
        self._processes: list[ServerProcess] = []
        self._publishers: list[_Publisher] = []
        self._delays: dict[str, list[tuple[float, float]]] = {kind.name: [] for kind in KINDS}
        """By class: when an event was due, and how long it took to each of its subscribers."""

    @property
    def _edges(self) -> list[str]:
        return [f"edge{i + 1}" for i in range(self._plan.edges)]

    def run(self) -> RunResult:
        """All of it."""
        try:
            return asyncio.run(self._run())
        finally:
            for process in reversed(self._processes):
                process.end()
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _run(self) -> RunResult:
        self._launch(HEAD, [])
        for edge in self._edges:
            link = ShapedLink(self._addresses[HEAD])
            link.open()
            self._links.append(link)
            await asyncio.to_thread(self._launch, edge, [link.address])
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._end_links)
            tasks = await self._begin(stack)
            try:
                return await self._through()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                with contextlib.suppress(TidewireError):
                    await stack.aclose()

    async def _end_links(self) -> None:
        for link in self._links:
            await link.end()

    def _launch(self, name: str, neighbours: list[str]) -> None:
        role = "head" if name == HEAD else "edge"
        settings: dict[str, Any] = msgspec.to_builtins(self._plan.settings(role, is_on=self._is_on))
        settings |= {"broker": name, "address": self._addresses[name], "neighbours": neighbours}
        file = self._folder / f"{name}.toml"
        file.write_text(as_toml(settings), encoding="utf-8")
        argv = [sys.executable, "-m", "tidewire", "broker", "--config", str(file)]
        process = ServerProcess(argv, env=os.environ, folder=self._folder)
        self._processes.append(process)
        process.wait_until_listening(int(self._addresses[name].rpartition(":")[2]), timeout_s=START_S)

    async def _begin(self, stack: contextlib.AsyncExitStack) -> list[asyncio.Task[None]]:
        await self._linked()
        for kind in KINDS:
            for edge in self._edges:
                for i in range(self._plan.subscribers):
                    wire = connect(self._addresses[edge], name=f"{kind.name}-{edge}-{i}")
                    await stack.enter_async_context(wire)
                    await wire.subscribe(f"class = '{kind.name}'", self._came, keywords=INTERESTS)
        tasks = []
        for kind in KINDS:
            for i in range(kind.publishers):
                publisher = _Publisher(kind, self._plan)
                name, heard = f"{kind.name}-{i}", publisher.noticed
                wire = connect(self._addresses[HEAD], name=name, on_notice=heard, timeout=600.0)
                await stack.enter_async_context(wire)
                self._publishers.append(publisher)
                tasks.append(asyncio.ensure_future(publisher.run(wire)))
        return tasks

    async def _linked(self) -> None:
        while len((await self._status(HEAD)).neighbours) < self._plan.edges:
            await asyncio.to_thread(time.sleep, 0.1)

    async def _status(self, broker: str) -> BrokerStatus:
        return msgspec.json.decode(await status_of(self._addresses[broker]), type=BrokerStatus)

    def _came(self, event: Notification) -> None:
        due = event["due"]
        assert isinstance(due, float)
        self._delays[str(event["class"])].append((due, time.monotonic() - due))

    async def _pass(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._tell(f"{'with' if self._is_on else 'without'} FDCC, {left:.0f} s to go in this part")
            await asyncio.sleep(min(1.0, left))

    def _shape(self, bytes_s: float | None) -> None:
        for link in self._links:
            link.shape(bytes_s)

    async def _through(self) -> RunResult:
        plan = self._plan
        start = time.monotonic()
        await self._pass(plan.before_s)
        cut, before = time.monotonic(), self._counts()
        self._shape(plan.capacity_bytes_s)
        await self._pass(plan.cut_s)
        mended, counts = time.monotonic(), self._counts()
        self._shape(None)
        await self._pass(plan.after_s + DRAIN_S)
        statuses = [await self._status(name) for name in self._addresses]
        heard: dict[str, int] = {}
        for status in statuses:
            for name, count in ({} if status.shortage is None else status.shortage.messages_heard).items():
                heard[name] = heard.get(name, 0) + count
        events = sum(status.events for status in statuses)
        passed_s = time.monotonic() - start
        return RunResult(
            is_on=self._is_on,
            classes={kind.name: self._class(kind, cut, mended, before, counts) for kind in KINDS},
            limited_after_s=self._first_limit_s(cut),
            lifted_after_s=self._lifted_s(mended),
            triggers=0 if statuses[0].shortage is None else statuses[0].shortage.triggers,
            feedback_msgs_s=heard.get("Opinions", 0) / passed_s,
            control_share=sum(heard.values()) / max(1, events + sum(heard.values())),
        )

    def _counts(self) -> dict[str, tuple[int, int]]:
        return {
            kind.name: (
                sum(one.offered for one in self._publishers if one.kind is kind),
                sum(one.held_back for one in self._publishers if one.kind is kind),
            )
            for kind in KINDS
        }

    def _class(
        self,
        kind: TrafficKind,
        cut: float,
        mended: float,
        before: Mapping[str, tuple[int, int]],
        counts: Mapping[str, tuple[int, int]],
    ) -> ClassResult:
        came = [(due - cut, delay) for due, delay in self._delays[kind.name] if cut <= due < mended]
        offered, held = (counts[kind.name][i] - before[kind.name][i] for i in (0, 1))
        expected = (offered - held) * self._plan.edges * self._plan.subscribers
        return class_result(kind, came, offered=offered, held_back=held, expected=expected)

    def _told(self) -> list[tuple[float, object]]:
        return [told for one in self._publishers for told in one.told]

    def _first_limit_s(self, cut: float) -> float | None:
        times = [at for at, limit in self._told() if limit != "any" and at >= cut]
        return min(times) - cut if times else None

    def _lifted_s(self, mended: float) -> float | None:
        """When the last limit was lifted; None if one still stands."""
        if any(one.told and one.told[-1][1] != "any" for one in self._publishers):
            return None
        times = [at for at, limit in self._told() if limit == "any"]
        return max(times) - mended if times else None
