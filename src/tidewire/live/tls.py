"""TLS between a socket and the engine: what the engine does by itself with a plain socket is done here.

The engine sees the bytes in clear, one call per read as ever; there is no step per event here either.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Final

from tidewire.broker.core import GUESTS_MAX
from tidewire.broker.links import HANDSHAKE_NS
from tidewire.dataplane.protocol import Engine, Received
from tidewire.live.certificates import peer_of
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.wire.connections import Peer

_READ_BYTES: Final = 256 << 10
_RECORD_BYTES: Final = 16 << 10
_WRITE_BYTES: Final = 128 << 10
"""Taken from the engine's queue at a time: the rest stays there, under its bound."""


class Handshake:
    """A connection that is being secured."""

    def __init__(
        self,
        connection: socket.socket,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        order: int | None = None,
    ) -> None:
        """``server_name`` and ``order``: whom we have called, and by which order; None: we were called."""
        self.connection = connection
        self.order = order
        self.address = _address_of(connection)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server_name is None, server_hostname=server_name)

    def go_on(self) -> bool:
        """As far as it goes. True: it is secured. Raises OSError (ssl.SSLError) if it has failed."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send()
                try:
                    data = self.connection.recv(_RECORD_BYTES)
                except BlockingIOError:
                    return False
                if not data:
                    raise ConnectionResetError(errno.ECONNRESET, "the other side has ended it") from None
                self._in.write(data)
            except ssl.SSLError:
                self._send()  # the alert that says why
                raise
            else:
                self._send()
                return True

    def _send(self) -> None:
        data = self._out.read()
        if data and self.connection.send(data) < len(data):
            raise ConnectionAbortedError(errno.ECONNABORTED, "the other side does not read")

    def peer(self) -> Peer | None:
        """Who is there, by its certificate, which was verified."""
        return peer_of(self._tls.getpeercert(binary_form=True))

    def line(self) -> SecuredLine:
        """To go on with."""
        return SecuredLine(self.connection, self._tls, self._in, self._out)


class Securing:
    """All handshakes under way. Each has a bounded time; too many at once, and the oldest has to go."""

    def __init__(self, on_secured: Callable[[Handshake], None], on_failed: Callable[[Handshake, str], None]) -> None:
        self._on_secured = on_secured
        self._on_failed = on_failed
        self._under_way: dict[Handshake, asyncio.TimerHandle] = {}

    def begin(self, handshake: Handshake) -> None:
        """Secure this connection, and say how it went."""
        loop = asyncio.get_running_loop()
        if len(self._under_way) >= GUESTS_MAX:
            self._fail(next(iter(self._under_way)), "too many others are being secured")
        self._under_way[handshake] = loop.call_later(HANDSHAKE_NS / 1e9, self._fail, handshake, "it took too long")
        loop.add_reader(handshake.connection.fileno(), self._go_on, handshake)
        self._go_on(handshake)

    def stop(self) -> None:
        """Forget all of them."""
        for handshake in list(self._under_way):
            self._forget(handshake)
            handshake.connection.close()

    def _go_on(self, handshake: Handshake) -> None:
        try:
            if not handshake.go_on():
                return
        except OSError as error:
            self._fail(handshake, _reason_of(error))
            return
        self._forget(handshake)
        self._on_secured(handshake)

    def _fail(self, handshake: Handshake, reason: str) -> None:
        self._forget(handshake)
        handshake.connection.close()
        self._on_failed(handshake, reason)

    def _forget(self, handshake: Handshake) -> None:
        self._under_way.pop(handshake).cancel()
        asyncio.get_running_loop().remove_reader(handshake.connection.fileno())


def _address_of(connection: socket.socket) -> str:
    try:
        host, port, *_ = connection.getpeername()
    except OSError:
        return "somebody who has gone"
    return f"{host}:{port}"


def _reason_of(error: OSError) -> str:
    """Why a connection could not be secured, for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not good: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).lower().replace("_", " ")
        return f"it does not speak TLS as we do: {reason}"
    return error.strerror or str(error)


class SecuredLine:
    """A secured connection. ``pump`` and ``flush`` are to it what those of the engine are to a plain socket."""

    __slots__ = ("_connection", "_in", "_out", "_tls", "_unsent")

    def __init__(
        self, connection: socket.socket, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        self._connection = connection
        self._tls = tls
        self._in, self._out = incoming, outgoing
        self._unsent = b""

    def pump(self, engine: Engine, conn: Conn, *, now_ns: Nanoseconds) -> Received | None:
        """The socket can be read: read once, and hand it to the engine. None if there is nothing to know."""
        try:
            data = self._connection.recv(_READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            return Received("idle", ended=[(conn, error.errno or errno.EIO)])
        if not data:
            return Received("idle", ended=[(conn, 0)])
        return self.opened(engine, conn, data, now_ns=now_ns)

    def opened(self, engine: Engine, conn: Conn, data: bytes, *, now_ns: Nanoseconds) -> Received | None:
        """These bytes have come; none: perhaps some came with the handshake."""
        self._in.write(data)
        clear, is_over = [], None
        try:
            while chunk := self._tls.read(_RECORD_BYTES):
                clear.append(chunk)
            is_over = 0  # the other side has said that it ends
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            is_over = errno.EPROTO
        received = engine.receive(conn, b"".join(clear), now_ns=now_ns) if clear else None
        if is_over is None:
            return received
        return Received("idle" if received is None else received.state, ended=[(conn, is_over)])

    def flush(self, engine: Engine, conn: Conn) -> Received | None:
        """Write what waits for this connection; None if all is written, else it is stalled, or has ended."""
        while True:
            if not self._unsent:
                clear = engine.output(conn, bytes_max=_WRITE_BYTES)
                try:
                    if clear:
                        self._tls.write(clear)
                except ssl.SSLError:
                    return Received("idle", ended=[(conn, errno.EPROTO)])
                self._unsent = self._out.read()
                if not self._unsent:
                    return None
            try:
                sent = self._connection.send(self._unsent)
            except BlockingIOError:
                return Received("idle", stalled=[conn])
            except OSError as error:
                return Received("idle", ended=[(conn, error.errno or errno.EIO)])
            self._unsent = self._unsent[sent:]
            if self._unsent:
                return Received("idle", stalled=[conn])
