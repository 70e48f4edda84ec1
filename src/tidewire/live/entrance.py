"""Where connections come in: a few at a time, so that those who are in are served meanwhile.

The system keeps a queue of connections that wait to be let in, in their order. Whoever floods it makes others wait in
it, so it is emptied quickly, and is long: from a queue that is full the system takes nobody, and who has knocked tries
again only after a second.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable
from typing import Final

from tidewire.broker.effects import Note

_AT_ONCE: Final = 16
_PAUSE_S: Final = 0.2
_NO_FILES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NET_BITS: Final = 64
"""Of an address of IPv6, they are one party's."""


class Entrance:
    """A listening socket. When the system has no more room, it closes for a moment, and says so once."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        let_in: Callable[[socket.socket, str], None],
        say: Callable[[Note], None],
    ) -> None:
        """``let_in`` gets a connection and the place it comes from."""
        self._listener = listener
        self._let_in = let_in
        self._say = say
        self._retry: asyncio.TimerHandle | None = None
        self._is_full = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """From now on, while the loop runs."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Nobody comes in any more."""
        if self._retry is not None:
            self._retry.cancel()
        if self._loop is not None:
            self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_FILES:
                    self._wait(error)
                return
            if self._is_full:
                self._is_full = False
                self._say(Note("accepts again", {}))
            self._let_in(connection, place_of(address[0]))

    def _wait(self, error: OSError) -> None:
        if not self._is_full:
            self._is_full = True
            self._say(Note("cannot accept", {"reason": error.strerror or str(error)}))
        assert self._loop is not None
        self._loop.remove_reader(self._listener)
        self._retry = self._loop.call_later(_PAUSE_S, self._loop.add_reader, self._listener, self._accept)


def place_of(host: str) -> str:
    """Whose is this address? A machine's, in IPv4; in IPv6 whoever has one has a whole net of them."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, _NET_BITS), strict=False))
