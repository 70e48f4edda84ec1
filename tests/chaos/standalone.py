"""A standalone cluster of Spark on loopback: a master and two workers, whose executors can be killed at their work."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import pyspark

from tidewire.benchmarks.processes import free_port, process_tree

START_S = 120.0
_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_EXECUTOR = "CoarseGrainedExecutorBackend"


class Standalone:
    """As the wheel of PySpark brings it."""

    def __init__(self, folder: Path, *, workers: int = 2) -> None:
        self._folder = folder
        self._workers = workers
        self.address = f"spark://127.0.0.1:{free_port()}"
        self._page = f"http://127.0.0.1:{free_port()}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.kills = 0
        self.kills_at_work = 0

    async def start(self) -> None:
        """Until both workers are registered."""
        port, page = self.address.rpartition(":")[2], self._page.rpartition(":")[2]
        self._begin("master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", page)
        for number in range(self._workers):
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / f"work{number}"))
            self._begin("worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", *room, self.address)
        async with asyncio.timeout(START_S):
            while await asyncio.to_thread(self._alive) < self._workers:
                await asyncio.sleep(0.2)

    def _begin(self, name: str, *flags: str) -> None:
        # Daemons of Spark: small, and no page of theirs is for others.
        env = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
        with (self._folder / "standalone.txt").open("ab") as log:
            command = [str(_CLASS), f"org.apache.spark.deploy.{name}", *flags]
            self._processes.append(
                subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True)
            )

    def _alive(self) -> int:
        try:
            with urllib.request.urlopen(f"{self._page}/json/", timeout=5) as answer:
                return str(answer.read(), "utf-8").count('"state" : "ALIVE"')
        except OSError:
            return 0

    def executors(self) -> list[int]:
        """The processes of all executors, of whatever application."""
        found = [pid for worker in self._processes[1:] for pid in process_tree(worker.pid)]
        return [pid for pid in found if _EXECUTOR in _command(pid)]

    async def kill_an_executor(self, *, within_s: float) -> None:
        """As soon as one of its Python processes is at work; after a while, one that is idle will do."""
        clock = asyncio.get_running_loop()
        until = clock.time() + within_s
        while not (there := self.executors()):
            await asyncio.sleep(0.05)
        at_work: list[int] = []
        while not at_work and clock.time() < until:
            there = self.executors() or there
            at_work = [pid for pid in there if any(_is_busy(one) for one in process_tree(pid) if one != pid)]
            await asyncio.sleep(0.002)
        os.kill((at_work or there)[0], signal.SIGKILL)
        self.kills += 1
        self.kills_at_work += bool(at_work)

    def stop(self) -> None:
        """All of it."""
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            process.wait()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
    except OSError:
        return ""


def _is_busy(pid: int) -> bool:
    """Does it run at this moment?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False
