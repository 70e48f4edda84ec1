"""Broker processes that are killed at random moments, and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

from tidewire.benchmarks.processes import free_port

HEADS = ("head1", "head2")
EDGES = ("edge1", "edge2")


class Brokers:
    """Two heads in a row, each with an edge; all with a store."""

    def __init__(self, folder: Path, *, data_cluster: str | None = None) -> None:
        self._folder = folder
        channels = "" if data_cluster is None else f'data_cluster = "{data_cluster}"'
        names = (*HEADS, *EDGES)
        ports: dict[str, int] = {}
        while len(set(ports.values())) < len(names):
            ports = {name: free_port() for name in names}
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        neighbours = {"head1": ["head2"], "head2": [], "edge1": ["head1"], "edge2": ["head2"]}
        for name in names:
            near = ", ".join(f'"{self.addresses[one]}"' for one in neighbours[name])
            text = f'''
broker = "{name}"
address = "{self.addresses[name]}"
role = "{name.rstrip("12")}"
neighbours = [{near}]
store = "{folder / name}"
heartbeat_s = 0.5
{channels}
'''
            (folder / f"{name}.toml").write_text(text)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.kills = 0

    def start(self, name: str) -> None:
        """One of them begins, or begins again."""
        with (self._folder / f"{name}.txt").open("ab") as log:
            command = [sys.executable, "-m", "tidewire", "broker", "--config", str(self._folder / f"{name}.toml")]
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self, name: str) -> None:
        """Without a word."""
        process = self._processes[name]
        assert process.poll() is None, f"{name} has ended by itself: {self.said(name)}"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self.kills += 1

    def said(self, name: str) -> str:
        """Its last words."""
        return (self._folder / f"{name}.txt").read_text()[-2000:]

    def start_all(self) -> None:
        """Everyone."""
        for name in self.addresses:
            self.start(name)

    def stop_all(self) -> None:
        """Everyone, as one should."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait()

    async def suffer(self, chance: Random, *, seconds: float) -> None:
        """One after the other is killed, at random moments, and starts again a little later."""
        clock = asyncio.get_running_loop()
        end = clock.time() + seconds
        while clock.time() < end:
            await asyncio.sleep(chance.uniform(0.2, 2.0))
            name = chance.choice(list(self.addresses))
            self.kill(name)
            await asyncio.sleep(chance.choice((0.0, 0.0, 0.3, 1.0)))
            self.start(name)
