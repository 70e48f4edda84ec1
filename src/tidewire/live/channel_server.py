"""Where brokers and operators reach the channels of a data cluster, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tidewire.channels.cluster_events import Send as Post
from tidewire.channels.commands import ChannelCommand
from tidewire.datacluster.core import Answered, AskHost, DataClusterCore, DataClusterEvent, Posted, TellHost
from tidewire.datacluster.host import ChannelHost, HostEvent
from tidewire.live.clock import now
from tidewire.live.doorway import Doorway
from tidewire.live.security import Security
from tidewire.model.errors import TidewireError
from tidewire.model.notes import Note
from tidewire.wire.connections import Close, Send

CERTIFICATE: Final = "datacluster"
"""The name in its own."""
UNTOLD_MAX: Final = 1000
"""What brokers have said and the host has not been told; then nobody is listened to for a while."""


class ChannelServer:
    """One data cluster's channels, for all who speak of them."""

    def __init__(
        self,
        address: str,
        host: ChannelHost,
        *,
        security: Path | None = None,
        on_note: Callable[[Note], object] = lambda _note: None,
    ) -> None:
        self._host = host
        self._on_note = on_note
        secured = None if security is None else Security(security, name=CERTIFICATE, of="datacluster")
        self.core = DataClusterCore(host.brokers(), is_secured=secured is not None)
        self._doorway = Doorway(address, security=secured, tell=self._tell, on_note=on_note)
        self.address = self._doorway.address
        self._untold: asyncio.Queue[HostEvent] = asyncio.Queue()
        self._is_listening = True
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen."""
        self._telling = asyncio.get_running_loop().create_task(self._tell_host())
        await self._doorway.start()

    async def stop(self) -> None:
        """End all connections. What brokers have said, and the host was not told, they say again to the next one."""
        await self._doorway.stop()
        tasks = [self._telling, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run(self) -> None:
        """Until the host fails: its error is raised here."""
        await asyncio.shield(self._telling)

    def post(self, sends: Iterable[Post]) -> None:
        """The host has something to say to brokers. Call it in the loop."""
        self._tell(Posted(tuple(sends)))

    def _tell(self, event: DataClusterEvent) -> None:
        for effect in self.core.handle(event, now_ns=now()):
            match effect:
                case Send(conn, message):
                    self._doorway.send(conn, message)
                case Close(conn):
                    self._doorway.end(conn)
                case TellHost(said):
                    self._untold.put_nowait(said)
                    self._regulate()
                case AskHost(token, command):
                    task = asyncio.get_running_loop().create_task(self._ask_host(token, command))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                case Note():
                    self._on_note(effect)
        self._doorway.wake_at(self.core.deadline_ns())

    async def _tell_host(self) -> None:
        while True:
            self.post(await self._host.told(await self._untold.get()))
            self._regulate()

    def _regulate(self) -> None:
        """The host may be slower than all brokers together: then they wait."""
        waiting = self._untold.qsize()
        is_listening = waiting < (UNTOLD_MAX if self._is_listening else UNTOLD_MAX // 2)
        if is_listening != self._is_listening:
            self._is_listening = is_listening
            self._doorway.listen_to_all(is_on=is_listening)

    async def _ask_host(self, token: int, command: ChannelCommand) -> None:
        try:
            answer, sends = await self._host.asked(command)
        except TidewireError as error:
            self._tell(Answered(token, error))
            return
        self.post(sends)
        self._tell(Answered(token, answer))
