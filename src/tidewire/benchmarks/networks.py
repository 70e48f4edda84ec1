"""Several servers as one: publishers go to the first, subscribers to the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidewire.benchmarks.peers import Broker, Nats, Server
from tidewire.benchmarks.processes import free_port

_LINK_S: Final = 20.0


def chain(brokers: int) -> list[int]:
    """Each behind the one before: the parents of all but the first."""
    return list(range(brokers - 1))


def tree(brokers: int) -> list[int]:
    """Two behind each, as far as they go."""
    return [(i - 1) // 2 for i in range(1, brokers)]


class BrokerNetwork(Broker):
    """Ours. ``parents[i]`` is the neighbour to which broker i + 1 connects; the last ones host subscribers."""

    def __init__(self, parents: Sequence[int] = (0,), *, covering: bool = True) -> None:
        super().__init__()
        self._parents, self._covering = parents, covering
        self.ports: list[int] = []

    def _launch(self, port: int, folder: Path) -> None:
        count = len(self._parents) + 1
        self.ports = [port, *(free_port() for _ in self._parents)]
        for i, own in enumerate(self.ports):
            role = "both" if count == 1 else "edge" if i > 0 and i not in self._parents else "head"
            link = ["--neighbour", f"127.0.0.1:{self.ports[self._parents[i - 1]]}"] if i > 0 else []
            self._run_broker(own, folder, "--role", role, *link, covering=self._covering)
            self._processes[-1].wait_until_listening(own, timeout_s=_LINK_S)
            if i > 0:
                self._processes[-1].wait_until_said("neighbour up", timeout_s=_LINK_S)

    def subscriber_ports(self, port: int) -> Sequence[int]:
        del port
        inner = {0, *self._parents} if self._parents else {}
        return [own for i, own in enumerate(self.ports) if i not in inner]


class NatsPair(Nats):
    """Two servers of a cluster, one route between them."""

    def _launch(self, port: int, folder: Path) -> None:
        self._other = free_port()
        clusters = [free_port(), free_port()]
        for i, own in enumerate((port, self._other)):
            config = folder / f"nats-{i}.conf"
            routes = f"routes: [nats://127.0.0.1:{clusters[0]}]" if i > 0 else ""
            config.write_text(
                f"listen: 127.0.0.1:{own}\nserver_name: bench{i}\nmax_pending: 2GB\nwrite_deadline: 60s\n"
                f"cluster {{ name: bench, listen: 127.0.0.1:{clusters[i]}, {routes} }}\n",
                encoding="utf-8",
            )
            self._run([self._inside("*.data/scripts/nats-server"), "-c", config], folder)
            self._processes[-1].wait_until_listening(own, timeout_s=_LINK_S)
        self._processes[-1].wait_until_said("Route connection created", timeout_s=_LINK_S)

    def subscriber_ports(self, port: int) -> Sequence[int]:
        del port
        return [self._other]


TWO_HOPS: Final[dict[str, type[Server]]] = {"tidewire": BrokerNetwork, "nats": NatsPair}
"""Who has a second hop; Redis has none."""
