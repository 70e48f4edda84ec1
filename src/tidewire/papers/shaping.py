"""A link between two processes of this machine that carries only so much, and can be cut: a relay on loopback.

Whoever dials the relay is connected to the real address. Each direction carries so many bytes a second, all connections
together, in packets of an Ethernet. Little waits in sockets: queues build up where they should, at the sender.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Coroutine
from typing import Final

from tidewire.live.sockets import parse_address

PACKET_BYTES: Final = 1460
FREE_BYTES: Final = 1 << 16
"""That are relayed at a time while there is no limit."""

BUFFER_BYTES: Final = 32 << 10
"""Of each socket of the relay. The system doubles it for its own needs."""


LATE_S: Final = 0.05
"""A wait that took longer than it should, by no more than this, is made up for. Timers of the loop are a millisecond
late, and so many packets a second wait that a link of 500 KB/s carried 89 % of that."""


class Bucket:
    """One direction: who wants to send waits until its turn, and until all before it has passed."""

    def __init__(self) -> None:
        self.bytes_s: float | None = None
        """None: no limit."""
        self._free_at = 0.0

    async def take(self, size: int) -> None:
        """Wait until so much has passed."""
        if self.bytes_s is None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        is_idle = now - self._free_at > LATE_S
        self._free_at = (now if is_idle else self._free_at) + size / self.bytes_s
        await asyncio.sleep(self._free_at - now)


class ShapedLink:
    """Listens for one side of a link, and dials the other."""

    def __init__(self, address: str) -> None:
        """``address``: of the broker that is dialled through it."""
        self._to = parse_address(address)
        self._up, self._down = Bucket(), Bucket()
        self._held = _bound(0)
        """Never listens: while the link is cut, nobody else gets its port, and who dials it is refused."""
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """What to dial in place of the broker's own."""
        return f"127.0.0.1:{self._port}"

    @property
    def _port(self) -> int:
        return int(self._held.getsockname()[1])

    def shape(self, bytes_s: float | None) -> None:
        """Each direction carries so much from now on; None: as much as there is."""
        self._up.bytes_s = self._down.bytes_s = bytes_s

    def open(self) -> None:
        """Take connections, on the same port as before."""
        listener = _bound(self._port)
        listener.listen()
        self._listener = listener
        self._begin(self._accept(listener))

    async def cut(self) -> None:
        """End all connections, and take no more."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def end(self) -> None:
        """For good."""
        await self.cut()
        self._held.close()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            near, _ = await loop.sock_accept(listener)
            near.setblocking(False)
            self._begin(self._carry(near))

    async def _carry(self, near: socket.socket) -> None:
        """One connection, until one of its sides ends it."""
        loop = asyncio.get_running_loop()
        with near, _socket() as far, contextlib.suppress(OSError):
            await loop.sock_connect(far, self._to)
            ways = [
                asyncio.ensure_future(_relay(near, far, self._up)),
                asyncio.ensure_future(_relay(far, near, self._down)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)


def _bound(port: int) -> socket.socket:
    """To a port of its own if none is given."""
    made = _socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


def _socket() -> socket.socket:
    """As on an Ethernet: without it, the system takes packets of 64 KB on loopback, and megabytes of buffers."""
    made = socket.socket()
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, PACKET_BYTES)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    return made


async def _relay(source: socket.socket, sink: socket.socket, bucket: Bucket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, FREE_BYTES if bucket.bytes_s is None else PACKET_BYTES):
        await bucket.take(len(data))
        await loop.sock_sendall(sink, data)
