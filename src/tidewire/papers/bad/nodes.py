"""The processes of the live prototype, and how much faster than the paper it goes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tidewire.benchmarks.processes import ServerProcess, cpu_s, free_port, process_tree
from tidewire.benchmarks.settings_file import as_toml
from tidewire.papers.bad import emergencies
from tidewire.placement.config import StageConfig

SPEED: Final = 10.0
"""So many times faster than in the paper: its half hour takes three minutes."""
START_S: Final = 900.0
"""A machine may be busy with other things."""


def compressed(config: StageConfig) -> StageConfig:
    """The same decisions in shorter time: bytes come so much faster."""
    return replace(
        config,
        cycle_s=emergencies.CYCLE_S / SPEED,
        average_s=emergencies.AVERAGE_S / SPEED,
        shuffle_pause_s=config.shuffle_pause_s / SPEED,
        migrate_load_min=config.migrate_load_min * SPEED,
        shuffle_load_min=config.shuffle_load_min * SPEED,
    )


def decides(*, place: str, policy: str, config: StageConfig, seed: int) -> dict[str, Any]:
    """What the coordinator is told. A random placement is that of the simulation with this seed."""
    return {
        "placement": place,
        "placement_seed": seed,
        "balancing": policy,
        "balance": config,
        "always_reports": True,
    }


class Processes:
    """All nodes, on this machine."""

    def __init__(self, folder: Path, *, place: str, policy: str, config: StageConfig, seed: int) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._started: list[ServerProcess] = []
        self._coming: list[tuple[ServerProcess, int]] = []
        self.tables = folder / "tables"
        self.coordinator, self.head, self._feeder, self.data_cluster = (f"127.0.0.1:{free_port()}" for _ in range(4))
        self.edges = {name: f"127.0.0.1:{free_port()}" for name in emergencies.brokers()}
        self._decides = decides(place=place, policy=policy, config=config, seed=seed)

    def start(self, tell: Callable[[str], object]) -> None:
        """Until all are there; Unavailable if one does not come."""
        tell("starting the coordinator and seven brokers")
        self._launch("coordinator", {"address": self.coordinator, **self._decides}, self.coordinator)
        self._until_listening()
        shared = {"coordinator": self.coordinator, "data_cluster": self.data_cluster, "load_every_s": 0.25}
        head = {"broker": "head", "role": "head", "address": self.head, "store": str(self._folder / "log"), **shared}
        self._launch("broker", head, self.head)
        for name, where in emergencies.brokers().items():
            edge = {"broker": name, "role": "edge", "address": self.edges[name], "location": where, **shared}
            self._launch("broker", edge, self.edges[name])
        # Feeds are subscribers too, who want everything: at one of the five they would be most of its load.
        feeder = {"broker": "feeder", "role": "edge", "address": self._feeder, "neighbours": [self.head]}
        self._launch("broker", feeder, self._feeder)
        self._until_listening()
        tell("starting Spark")
        flags = ["--at", self._feeder, "--folder", str(self.tables), "--listen", self.data_cluster, "--json"]
        self._run(["datacluster", *flags]).wait_until_said('"what":"datacluster"', timeout_s=START_S)

    def _launch(self, command: str, settings: Mapping[str, Any], address: str) -> None:
        file = self._folder / f"{settings.get('broker', command)}.toml"
        file.write_text(as_toml(msgspec.to_builtins(settings)), encoding="utf-8")
        self._coming.append((self._run([command, "--config", str(file), "--json"]), int(address.rpartition(":")[2])))

    def _until_listening(self) -> None:
        for process, port in self._coming:
            process.wait_until_listening(port, timeout_s=START_S)
        self._coming.clear()

    def _run(self, argv: list[str]) -> ServerProcess:
        process = ServerProcess([sys.executable, "-m", "tidewire", *argv], env=os.environ, folder=self._folder)
        self._stack.callback(process.end)
        self._started.append(process)
        return process

    def cpu_s(self) -> float:
        """Of all of them so far, and of this process."""
        return cpu_s([os.getpid(), *(pid for one in self._started for pid in process_tree(one.pid))])

    def end(self) -> None:
        """All of them."""
        self._stack.close()
