"""The data cluster as a process of its own: events become rows once, also if it is killed in between."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import tidewire
from tests.integration.network import brokers
from tidewire.benchmarks.processes import process_tree
from tidewire.model.errors import Unavailable
from tidewire.spark.datasets import Warehouse
from tidewire.spark.java import java_version
from tidewire.spark.reports import rows_in, set_aside
from tidewire.spark.tables import open_table

START_S = 300.0
"""Spark takes ten seconds to start, and more on a busy machine."""


def has_java() -> bool:
    try:
        return java_version(os.environ.get("JAVA_HOME")) > 0
    except Unavailable:
        return False


class Node:
    """`tidewire datacluster`, and what it says."""

    command = "datacluster"
    cwd: Path | None = None
    env: dict[str, str] | None = None

    def __init__(self, folder: Path | str, at: str) -> None:
        self.flags = ["--at", at, "--folder", str(folder), "--json"]
        self.said: list[dict[str, Any]] = []
        self.last: dict[str, Any] = {}
        """What it said before it ended."""
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        command = [sys.executable, "-m", "tidewire", self.command, *self.flags]
        self.process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, start_new_session=True, cwd=self.cwd, env=self.env
        )
        self._reading = asyncio.create_task(self._read())
        await self.until_said("datacluster")

    async def until_said(self, what: str, **facts: Any) -> None:
        """Until it has said this."""
        assert self.process is not None
        wanted = {"what": what, **facts}.items()
        async with asyncio.timeout(START_S):
            while not any(wanted <= one.items() for one in self.said):
                assert self.process.returncode is None, self.said
                await asyncio.sleep(0.05)

    async def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.said.append(json.loads(line))

    async def gone(self) -> None:
        """Whatever happened."""
        if self.process is not None and self.process.returncode is None:
            await self.end(signal.SIGKILL, group=True)

    def kill_java(self) -> None:
        """Spark alone."""
        assert self.process is not None
        [java] = [pid for pid in process_tree(self.process.pid) if _program(pid) == "java"]
        os.kill(java, signal.SIGKILL)

    async def end(self, number: int, *, group: bool = False) -> int:
        assert self.process is not None
        (os.killpg if group else os.kill)(self.process.pid, number)
        return await self.ended()

    async def ended(self) -> int:
        """It ends, by itself or because it was told to."""
        assert self.process is not None
        async with asyncio.timeout(START_S):
            code = await self.process.wait()
            await self._reading
        self.last = self.said[-1] if self.said else {}
        self.said.clear()
        return code


def _program(pid: int) -> str:
    """What it runs; nothing, if it has just ended."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""


async def run(*arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> dict[str, Any]:
    """A command, and the document that it prints."""
    command = [sys.executable, "-m", "tidewire", *arguments, "--json"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=cwd, env=env)
    out, _ = await process.communicate()
    assert process.returncode == 0, out
    found: dict[str, Any] = json.loads(out)
    return found


async def until_stored(warehouse: Warehouse, name: str, count: int) -> None:
    declared = warehouse.get(name)
    async with asyncio.timeout(START_S):
        while rows_in(warehouse, declared, "changes" if declared.key else "rows") < count:
            await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.skipif(not has_java() and os.environ.get("CI") != "true", reason="there is no Java: make setup")
def test_each_event_is_stored_once_though_spark_dies(tmp_path: Path) -> None:
    """Publish, kill -9 Spark while events are stored: the node says so, and ends. Publish more, start again: every row
    is there, none twice.

    The broker releases what is stored; a keyed dataset has the current rows; what does not fit stands aside.
    """
    folder = tmp_path / "data"
    warehouse = Warehouse(folder)

    async def act() -> None:
        async with brokers({"store": str(tmp_path / "log")}) as [broker], AsyncExitStack() as stack:
            where = ("--folder", str(folder))
            await run(
                "dataset", "create", "readings", "n bigint, who string", "--feed", "class = 'R'", "--others", *where
            )
            node = Node(folder, broker.address)
            stack.push_async_callback(node.gone)
            async with tidewire.connect(broker.address, guaranteed=True) as wire:
                await wire.publish_many({"class": "R", "n": n, "who": f"w{n % 10}"} for n in range(5000))
                await node.start()
                flags = ("--key", "who", "--feed", "class = 'R'", "--others", *where)
                await run("dataset", "create", "latest", "who string, n bigint", *flags)
                await until_stored(warehouse, "readings", 5000)
                publishing = asyncio.create_task(
                    wire.publish_many({"class": "R", "n": n, "who": f"w{n % 10}"} for n in range(5000, 20_000))
                )
                await until_stored(warehouse, "readings", 5001)
                node.kill_java()
                assert await node.ended() == 2
                assert "Spark does not answer any more" in node.last["error"]["message"]
                await publishing
                await wire.publish({"class": "R", "n": "many"})
                await node.start()
                await until_stored(warehouse, "readings", 20_000)
                await until_stored(warehouse, "latest", 20_000)
                assert await node.end(signal.SIGTERM) == 0
            shown = await run("dataset", "show", "readings", "--count", "1", *where)
            assert (shown["rows"], shown["set_aside"]) == (20_000, {"malformed": 1})

    asyncio.run(act())
    readings, latest = warehouse.get("readings"), warehouse.get("latest")
    stored = open_table(warehouse.table(readings, "rows")).to_pyarrow_table()["n"].to_pylist()
    assert Counter(stored) == Counter(range(20_000))
    current = open_table(warehouse.table(latest, "rows")).to_pyarrow_table()
    assert sorted(current["n"].to_pylist()) == list(range(19_990, 20_000))
    assert set_aside(warehouse, latest) == {"malformed": 1}
