"""The bursts of ``burst.py`` with real brokers: a head and edges as processes, whose output is bounded and enforced.

One story is played under one policy after the other. The delay of an event is what its subscriber's session says it
took from its publisher.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from tidewire.benchmarks.burst import Outcome, Plan, Report, Story, Traffic, capacity_of, report_of, story_of
from tidewire.benchmarks.processes import ServerProcess, free_port
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.benchmarks.settings_file import as_toml
from tidewire.broker.balance_documents import BalanceStatus
from tidewire.live.connect import Wire, connect
from tidewire.live.notification import Notification
from tidewire.live.operate import status_of

START_S: Final = 300.0
PATIENCE_S: Final = 120.0
DRAIN_S: Final = 60.0


class _Status(msgspec.Struct):
    balance: BalanceStatus | None


class _Subscriber:
    """One of a class."""

    def __init__(self, name: str, traffic: Traffic) -> None:
        self.name = name
        self.traffic = traffic
        self.came = self.late = 0
        self.wire: Wire | None = None

    async def join(self, addresses: list[str]) -> None:
        """At the first of these."""
        self.wire = connect(addresses, name=self.name, timeout=PATIENCE_S)
        await self.wire.__aenter__()
        one = self.traffic
        await self.wire.subscribe(f"class = '{one.name}'", self._get, delay_s=one.delay_s)

    def _get(self, notification: Notification) -> None:
        self.came += 1
        self.late += notification.latency > self.traffic.delay_s


class Scene:
    """One story under one policy."""

    def __init__(self, plan: Plan, policy: str, seed: int, tell: Tell) -> None:
        self._plan, self._policy, self._seed, self._tell = plan, policy, seed, tell
        self.story: Story = story_of(plan, seed)
        self._folder = Path(tempfile.mkdtemp(prefix="tidewire-burst-"))
        names = ("head", *(f"edge{number}" for number in range(plan.edges)))
        self._addresses = {name: f"127.0.0.1:{free_port()}" for name in names}
        self._processes: dict[str, ServerProcess] = {}
        self._crowd = [
            _Subscriber(f"{one.name}s{number}", one) for one in self.story.classes for number in range(one.subscribers)
        ]
        self._sent: dict[str, int] = {}

    def launch(self) -> None:
        """Start the brokers, all at once, and wait until they listen."""
        self._launch("head", {"role": "head"})
        for number in range(self._plan.edges):
            output = {"output_bytes_s": capacity_of(self._plan), "enforce_capacity": True}
            self._launch(f"edge{number}", {"role": "edge", "neighbours": [self._addresses["head"]], **output})
        for name, process in self._processes.items():
            process.wait_until_listening(int(self._addresses[name].rpartition(":")[2]), timeout_s=START_S)

    def _launch(self, name: str, further: dict[str, Any]) -> None:
        balance = msgspec.to_builtins(self._plan.balance)
        settings = {"broker": name, "address": self._addresses[name], "balancing": self._policy}
        file = self._folder / f"{name}.toml"
        file.write_text(as_toml({**settings, **further, "balance": balance}), encoding="utf-8")
        argv = [sys.executable, "-m", "tidewire", "broker", "--config", str(file)]
        self._processes[name] = ServerProcess(argv, env=os.environ, folder=self._folder)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            process.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def play(self) -> Outcome:
        """From the first to the last."""
        wires: list[Wire] = []
        try:
            for region in range(self._plan.edges):
                wire = connect(self._addresses["head"], name=f"p{region}", timeout=PATIENCE_S)
                wires.append(wire)
                await wire.__aenter__()
            for one in self._crowd:
                first = self._addresses[f"edge{one.traffic.region}"]
                await one.join(list(dict.fromkeys([first, *self._addresses.values()])))
            self._tell(f"{self._policy}: {len(self._crowd)} subscribers have joined")
            await self._publish(wires)
            await self._drain()
            return await self._outcome()
        finally:
            ends = [one.wire.close(is_orderly=False) for one in self._crowd if one.wire is not None]
            await asyncio.gather(*ends, *(wire.close() for wire in wires), return_exceptions=True)

    async def _publish(self, wires: list[Wire]) -> None:
        """Each class evenly, by one clock."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def send(one: Traffic) -> None:
            due_s = 1 / one.rate * (hash((one.region, one.body_bytes)) % 97 / 97)
            while due_s < self.story.seconds:
                await asyncio.sleep(max(0.0, began + due_s - loop.time()))
                self._sent[one.name] = self._sent.get(one.name, 0) + 1
                await wires[one.region].publish({"class": one.name, "body": "x" * one.body_bytes})
                due_s += 1 / self.story.rate(one, due_s, self._plan.burst)

        await asyncio.gather(*(send(one) for one in self.story.classes))

    async def _drain(self) -> None:
        end = asyncio.get_running_loop().time() + DRAIN_S
        while asyncio.get_running_loop().time() < end:
            if all(one.came >= self._sent[one.traffic.name] for one in self._crowd):
                return
            await asyncio.sleep(0.5)

    async def _outcome(self) -> Outcome:
        tightest = dict.fromkeys(self.story.tightest)
        late = {one.name: one.late + self._sent[one.traffic.name] - one.came for one in self._crowd}
        tight = [one for one in self._crowd if one.traffic.name in tightest]
        told = [await status_of(address, seconds=PATIENCE_S) for address in self._addresses.values()]
        balances = [msgspec.json.decode(document, type=_Status).balance for document in told]
        records = [one for one in balances if one is not None]
        return Outcome(
            policy=self._policy,
            seed=self._seed,
            deliveries=sum(self._sent[one.traffic.name] for one in self._crowd),
            misses=sum(late.values()),
            tight_deliveries=sum(self._sent[one.traffic.name] for one in tight),
            tight_misses=sum(late[one.name] for one in tight),
            sessions=sum(sum(one.sessions.values()) for one in records),
            moved=sum(one.moved_away for one in records),
        )


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """Every seed under every policy, one after the other."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in plan.policies}
    for seed in range(plan.first_seed, plan.first_seed + plan.seeds):
        for name in plan.policies:
            tell(f"{name}, seed {seed}: brokers start")
            scene = Scene(plan, name, seed, tell)
            try:
                scene.launch()
                outcomes[name].append(asyncio.run(scene.play()))
            finally:
                scene.close()
    return report_of(plan, outcomes)
