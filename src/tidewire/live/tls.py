"""Securing connections: who is there, by their certificate, before a broker hears a word of them.

The kernel does it, and all that follows; here are the bounds in time and in number.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from tidewire._kernel._native import TlsContext, TlsLine
from tidewire.broker.core import GUESTS_MAX
from tidewire.broker.links import HANDSHAKE_NS
from tidewire.live.certificates import Signers, peer_of
from tidewire.live.sockets import hang_up
from tidewire.model.errors import PeerError
from tidewire.wire.connections import Peer


class Handshake:
    """A connection that is being secured."""

    def __init__(
        self,
        connection: socket.socket,
        context: TlsContext,
        signers: Signers,
        *,
        server_name: str | None = None,
        order: int | None = None,
    ) -> None:
        """``signers``: whom the context trusts.

        ``server_name`` and ``order``: whom we have called, and by which order; None: we were called.
        """
        self.connection = connection
        self.order = order
        self._signers = signers
        self.address = _address_of(connection)
        self.line = TlsLine(context, connection.fileno(), server_name)

    def peer(self) -> Peer | None:
        """Who is there, by its certificate, which was verified."""
        return peer_of(self.line.certificate(), self._signers)


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
            hang_up(handshake.connection)

    def _go_on(self, handshake: Handshake) -> None:
        try:
            if not handshake.line.shake_hands():
                return
        except PeerError as error:
            self._fail(handshake, error.message)
            return
        self._forget(handshake)
        self._on_secured(handshake)

    def _fail(self, handshake: Handshake, reason: str) -> None:
        self._forget(handshake)
        hang_up(handshake.connection)
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
