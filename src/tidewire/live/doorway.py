"""Listens for those who speak in messages alone, secured or in clear, and tells a machine what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import time_ns
from typing import Final

from tidewire.identity.guard import Trust
from tidewire.live.certificates import Signers, peer_of
from tidewire.live.clock import now
from tidewire.live.entrance import place_of
from tidewire.live.security import LOOKS_EVERY_S, Security
from tidewire.live.sockets import listen, parse_address
from tidewire.model.errors import BadConfiguration, PeerError
from tidewire.model.ids import Conn
from tidewire.model.messages import Bye, Message
from tidewire.model.notes import Note
from tidewire.wire.connections import Closed, Heard, Opened, TimePassed
from tidewire.wire.frames import MESSAGE, FrameReader, decode_message, message_frame

UNREAD_BYTES_MAX: Final = 512 << 20
"""Of what is said to one connection; then it ends."""

DoorwayEvent = Opened | Closed | Heard | TimePassed | Trust


class _Line(asyncio.Protocol):
    def __init__(self, doorway: Doorway, signers: Signers | None) -> None:
        self._doorway = doorway
        self._signers = signers
        self._frames = FrameReader()
        self.conn = Conn(0)
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        secured = transport.get_extra_info("ssl_object")
        peer = None if secured is None else peer_of(secured.getpeercert(binary_form=True), self._signers)
        called_from = transport.get_extra_info("peername")
        self.conn = self._doorway.admit(self)
        place = place_of(called_from[0]) if called_from else ""
        self._doorway.tell(Opened(self.conn, None, peer, place))

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        try:
            for kind, payload in self._frames.feed(data):
                if kind == MESSAGE and not self.transport.is_closing():
                    self._doorway.tell(Heard(self.conn, decode_message(payload)))
        except PeerError as error:
            self.transport.write(message_frame(Bye(error.code, error.message, 1.0)))
            self.transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._doorway.closed(self.conn)


class Doorway:
    """One address at which a machine is spoken to."""

    def __init__(
        self,
        address: str,
        *,
        security: Security | None,
        tell: Callable[[DoorwayEvent], None],
        on_note: Callable[[Note], object],
    ) -> None:
        self._security = security
        self._tell = tell
        self._on_note = on_note
        host, port = parse_address(address)
        self._socket = listen(host, port)
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        self._lines: dict[Conn, _Line] = {}
        self._conns = 0
        self._timer: asyncio.TimerHandle | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        """Kept, because the loop does not."""
        self._is_paused = False

    async def start(self) -> None:
        """Listen."""
        self._loop = asyncio.get_running_loop()
        if self._security is not None:
            self._look(self._security, is_first=True)
        await self._serve()

    async def _serve(self) -> None:
        """From now on, with what is shown and trusted now."""
        before, context = self._server, None if self._security is None else self._security.for_asyncio()
        signers = None if self._security is None else self._security.signers
        self._server = await self._loop.create_server(
            lambda: _Line(self, signers), sock=self._socket.dup(), ssl=context
        )
        if before is not None:
            before.close()

    async def _serve_anew(self) -> None:
        try:
            await self._serve()
        except OSError as error:  # it has changed once more, and is looked at again
            self._on_note(Note("security is not understood", {"why": error.strerror or str(error)}))

    async def stop(self) -> None:
        """End all connections."""
        for timer in (self._timer, self._next_look):
            if timer is not None:
                timer.cancel()
        if self._serving is not None:
            await self._serving
        if self._server is not None:
            self._server.close()
        self._socket.close()
        for line in list(self._lines.values()):
            if line.transport is not None:
                line.transport.close()
        self._lines.clear()
        await asyncio.sleep(0)

    def admit(self, line: _Line) -> Conn:
        """Somebody has connected: by which number is it known?"""
        self._conns += 1
        conn = Conn(self._conns)
        self._lines[conn] = line
        if self._is_paused and line.transport is not None:
            line.transport.pause_reading()
        return conn

    def closed(self, conn: Conn) -> None:
        """A connection has ended."""
        if self._lines.pop(conn, None) is not None:
            self._tell(Closed(conn))

    def tell(self, event: DoorwayEvent) -> None:
        """Something has happened."""
        self._tell(event)

    # -- what the machine wants ----------------------------------------------------------------------------------------

    def send(self, conn: Conn, message: Message) -> None:
        """Say this; who does not read has to go."""
        transport = self._transport(conn)
        if transport is None:
            return
        transport.write(message_frame(message))
        if transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self._on_note(Note("connection ended", {"code": "slow", "why": "it does not read what it is told"}))
            transport.abort()

    def end(self, conn: Conn) -> None:
        """End a connection, after what has been said."""
        transport = self._transport(conn)
        if transport is not None:
            transport.close()

    def listen_to_all(self, *, is_on: bool) -> None:
        """Is anybody listened to? Else what they say waits where they are."""
        self._is_paused = not is_on
        for line in self._lines.values():
            if line.transport is not None and not line.transport.is_closing():
                (line.transport.resume_reading if is_on else line.transport.pause_reading)()

    def wake_at(self, deadline_ns: int | None) -> None:
        """Say TimePassed then, and at no other time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ns is not None:
            self._timer = self._loop.call_later(max(0, deadline_ns - now()) / 1e9, self._tell, TimePassed())

    def _transport(self, conn: Conn) -> asyncio.Transport | None:
        return self._lines[conn].transport if conn in self._lines else None

    def _look(self, security: Security, *, is_first: bool = False) -> None:
        try:
            changed = security.look()
        except BadConfiguration as error:
            changed = False
            self._on_note(Note("security is not understood", {"why": error.message}))
        if changed or is_first:
            self._tell(Trust(security.authority, time_ns()))
        if changed:
            self._serving = self._loop.create_task(self._serve_anew())
        self._next_look = self._loop.call_later(LOOKS_EVERY_S, self._look, security)
