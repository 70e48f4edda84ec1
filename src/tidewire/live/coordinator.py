"""The coordinator on real sockets, with a small durable store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from time import time_ns
from typing import Final

from tidewire.coordinator.config import Decides
from tidewire.coordinator.core import CoordinatorCore, CoordinatorEffect, CoordinatorEvent, Save, read_saved
from tidewire.identity.guard import Trust
from tidewire.live.certificates import Signers, peer_of
from tidewire.live.clock import now
from tidewire.live.entrance import place_of
from tidewire.live.security import LOOKS_EVERY_S, Security
from tidewire.live.sockets import listen, parse_address
from tidewire.model.errors import BadConfiguration, PeerError
from tidewire.model.ids import Conn
from tidewire.model.messages import Bye
from tidewire.model.notes import Note
from tidewire.wire.connections import Close, Closed, Heard, Opened, Peer, Send, TimePassed
from tidewire.wire.frames import MESSAGE, FrameReader, decode_message, message_frame

CERTIFICATE: Final = "coordinator"
"""The name in its own."""


class _Line(asyncio.Protocol):
    def __init__(self, coordinator: LiveCoordinator, signers: Signers | None) -> None:
        self._coordinator = coordinator
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
        self.conn = self._coordinator.opened(self, peer, place=place_of(called_from[0]) if called_from else "")

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        try:
            for kind, payload in self._frames.feed(data):
                if kind == MESSAGE and not self.transport.is_closing():
                    self._coordinator.tell(Heard(self.conn, decode_message(payload)))
        except PeerError as error:
            self.transport.write(message_frame(Bye(error.code, error.message, 1.0)))
            self.transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._coordinator.closed(self.conn)


class LiveCoordinator:
    """One coordinator in this process. ``store``: the file that it remembers the members in."""

    def __init__(
        self,
        address: str,
        *,
        store: Path | None = None,
        security: Path | None = None,
        decides: Decides | None = None,
        on_note: Callable[[Note], object] = lambda _note: None,
    ) -> None:
        self._security = None if security is None else Security(security, name=CERTIFICATE, of="coordinator")
        self._store = store
        self._on_note = on_note
        if store is not None:
            self._try_to_save()
        self.core = CoordinatorCore(self._saved(), chance=Random(), is_secured=security is not None, decides=decides)
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

    def _saved(self) -> bytes | None:
        if self._store is None or not self._store.exists():
            return None
        saved = self._store.read_bytes()
        try:
            read_saved(saved)
        except ValueError as error:
            raise BadConfiguration(
                f"{self._store} is damaged ({error}): remove it, the brokers will register again"
            ) from None
        return saved

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

    def opened(self, line: _Line, peer: Peer | None, *, place: str) -> Conn:
        """Somebody has connected."""
        self._conns += 1
        conn = Conn(self._conns)
        self._lines[conn] = line
        self.tell(Opened(conn, None, peer, place))
        return conn

    def closed(self, conn: Conn) -> None:
        """A connection has ended."""
        if self._lines.pop(conn, None) is not None:
            self.tell(Closed(conn))

    def tell(self, event: CoordinatorEvent) -> None:
        """Something has happened."""
        self._act(self.core.handle(event, now_ns=now()))

    def _act(self, effects: Iterable[CoordinatorEffect]) -> None:
        for effect in effects:
            match effect:
                case Send(conn, message):
                    if conn in self._lines and (transport := self._lines[conn].transport) is not None:
                        transport.write(message_frame(message))
                case Close(conn):
                    if conn in self._lines and (transport := self._lines[conn].transport) is not None:
                        transport.close()
                case Save(document):
                    self._save(document)
                case Note():
                    self._on_note(effect)
        if self._timer is not None:
            self._timer.cancel()
        deadline_ns = self.core.deadline_ns()
        if deadline_ns is not None:
            self._timer = self._loop.call_later(max(0, deadline_ns - now()) / 1e9, self.tell, TimePassed())

    def _look(self, security: Security, *, is_first: bool = False) -> None:
        try:
            changed = security.look()
        except BadConfiguration as error:
            changed = False
            self._on_note(Note("security is not understood", {"why": error.message}))
        if changed or is_first:
            self.tell(Trust(security.authority, time_ns()))
        if changed:
            self._serving = self._loop.create_task(self._serve_anew())
        self._next_look = self._loop.call_later(LOOKS_EVERY_S, self._look, security)

    def _try_to_save(self) -> None:
        assert self._store is not None
        try:
            self._store.parent.mkdir(parents=True, exist_ok=True)
            with self._store.with_suffix(".new").open("wb"):
                pass
            self._store.with_suffix(".new").unlink()
        except OSError as error:
            raise BadConfiguration(f"members cannot be remembered in {self._store}: {error.strerror}") from None

    def _save(self, document: bytes) -> None:
        """What cannot be saved now is saved with the next change: meanwhile the brokers are served."""
        try:
            self._write(document)
        except OSError as error:
            self._on_note(Note("members are not remembered", {"in": str(self._store), "why": error.strerror or ""}))

    def _write(self, document: bytes) -> None:
        if self._store is None:
            return
        self._store.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._store.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(document)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._store)
