"""The channels of a data cluster in its process: the host behind the server, and the runs between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidewire.model.notes import Note
    from tidewire.spark.datasets import Warehouse


class ServedChannels:
    """For brokers and operators, while Spark runs."""

    def __init__(
        self,
        warehouse: Warehouse,
        spark: Any,
        listen: str,
        *,
        security: Path | None,
        say: Callable[[str, dict[str, Any]], None],
    ) -> None:
        from tidewire.live.channel_server import ChannelServer
        from tidewire.spark.channel_host import ChannelHost
        from tidewire.spark.engine import SparkEngine

        def noted(note: Note) -> None:
            say(note.what, dict(note.facts))

        self._host = ChannelHost(warehouse, SparkEngine(spark), say=say)
        self._server = ChannelServer(listen, self._host, security=security, on_note=noted)
        self._host.post = self._server.post
        self.address = self._server.address
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Listen, and have channels run when they are due."""
        await self._server.start()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._host.run()), loop.create_task(self._server.run())]

    def check(self) -> None:
        """Raises what has gone wrong, if anything has."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def stop(self) -> None:
        """What is under way is done again by the next one."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop()
        await self._host.close()
