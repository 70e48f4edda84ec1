"""A data cluster without Spark behind a real server, for tests."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from tidewire.channels.cluster_events import Send
from tidewire.channels.commands import ChannelAnswer, ChannelCommand
from tidewire.channels.reference_cluster import Fed, ReferenceCluster, TimePassed
from tidewire.channels.schemas import Catalog
from tidewire.datacluster.host import HostEvent
from tidewire.live.channel_server import ChannelServer
from tidewire.live.clock import now
from tidewire.model.ids import BrokerId


class ReferenceHost:
    """The reference cluster; its channels run when the test says so, or when they are due."""

    def __init__(self, catalog: Catalog) -> None:
        self.cluster = ReferenceCluster(catalog)

    def brokers(self) -> Iterable[BrokerId]:
        """Those from before this start."""
        return self.cluster.brokers()

    async def told(self, event: HostEvent) -> Iterable[Send]:
        """A broker has said something."""
        return self.cluster.handle(event, now_ns=now())

    async def asked(self, command: ChannelCommand) -> tuple[ChannelAnswer, Iterable[Send]]:
        """An operator wants something."""
        return self.cluster.asked(command, now_ns=now())


class DataCluster:
    """A running one."""

    def __init__(self, catalog: Catalog, *, security: Path | None = None, address: str = "127.0.0.1:0") -> None:
        self.host = ReferenceHost(catalog)
        self.server = ChannelServer(address, self.host, security=security)
        self.address = self.server.address

    async def __aenter__(self) -> Self:
        await self.server.start()
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ticking.cancel()
        await self.server.stop()

    def fed(self, fed: Fed) -> None:
        """Rows have come into a dataset."""
        self.server.post(self.host.cluster.handle(fed, now_ns=now()))

    async def restart(self) -> None:
        """The process dies and another one begins, at the same address, with what was kept and stored."""
        await self.server.stop()
        self.host.cluster.restart()
        self.server = ChannelServer(self.address, self.host)
        await self.server.start()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            due = self.host.cluster.next_deadline()
            if due is not None and due <= now():
                self.server.post(self.host.cluster.handle(TimePassed(), now_ns=now()))
