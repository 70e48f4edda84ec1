"""Which nodes a network in one terminal has, on which ports, and how each is started."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from tidewire.cli.beside import PROGRAM, console_command
from tidewire.live.supervisor import Child

DATA: Final = "datacluster"
"""What the data cluster is called, as a child and in its certificate."""
DATA_STOP_S: Final = 30.0
"""So long the data cluster may take to end: Spark finishes what it does, and must not be killed over it."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The ports are in a row: the head's, the edges', the coordinator's, the console's, the data cluster's."""

    port: int
    edges: int
    state: Path
    """What must survive a restart."""

    tables: str | None = None
    """Where the data cluster has them, if not there."""

    security: Path | None = None
    with_console: bool = True
    with_data: bool = False

    @property
    def ports(self) -> int:
        """How many."""
        return self.edges + 2 + self.with_console + self.with_data

    @property
    def brokers(self) -> list[str]:
        """The head's address, then the edges', as clients reach them."""
        return [self._address(at) for at in range(self.edges + 1)]

    @property
    def coordinator(self) -> str:
        """Its address, as clients reach it."""
        return self._address(self.edges + 1)

    def _address(self, at: int) -> str:
        scheme = "" if self.security is None else "tidewires://"
        return f"{scheme}127.0.0.1:{self.port + at}"

    @property
    def data_cluster(self) -> str | None:
        """Where its channels are; None: there is none."""
        return f"127.0.0.1:{self.port + self.ports - 1}" if self.with_data else None

    @property
    def data_folder(self) -> Path:
        """What the data cluster has on this machine: the tables, unless they are elsewhere."""
        return self.state / "data"

    def children(self) -> list[Child]:
        """The processes, in the order in which they start."""
        where = f"127.0.0.1:{self.port + self.edges + 1}"
        keys = [] if self.security is None else ["--security", str(self.security)]
        store = ["--store", str(self.state / "members.json")]
        found = [Child("coordinator", [*PROGRAM, "coordinator", "--json", "--listen", where, *store, *keys])]
        shared = ["--coordinator", where, *keys]
        shared += [] if self.data_cluster is None else ["--data-cluster", self.data_cluster]
        for at in range(self.edges + 1):
            name, role = ("head", "head" if self.edges else "both") if at == 0 else (f"edge{at}", "edge")
            flags = ["--name", name, "--listen", f"127.0.0.1:{self.port + at}", "--role", role, *shared]
            flags += ["--store", str(self.state / "log" / name)]
            found.append(Child(name, [*PROGRAM, "broker", "--json", *flags]))
        if self.with_console:
            authority = None if self.security is None else self.security / "authority.pem"
            listen = f"127.0.0.1:{self.port + self.edges + 2}"
            command = console_command(listen, at=self.brokers, coordinator=self.coordinator, authority=authority)
            found.append(Child("console", command))
        if self.data_cluster is not None:
            flags = ["--at", self.brokers[0], "--folder", self.tables or str(self.data_folder)]
            flags += ["--state", str(self.data_folder), "--listen", self.data_cluster]
            command = [*PROGRAM, "datacluster", "--json", *flags, *keys]
            found.append(Child(DATA, command, stop_s=DATA_STOP_S))
        return found
