"""Addresses and sockets: listening, dialling, the options that every connection has."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tidewire.model.errors import BadConfiguration, Unavailable

DEFAULT_PORT: Final = 7600
UNSENT_BYTES: Final = 32 << 10
"""What the system may have of a connection that it has not sent, where queues are to be seen."""
DIAL_S: Final = 3.0
SECURE_S: Final = 2.0
"""For a handshake. A broker that is not secured may take what comes for the beginning of a frame, and wait for more."""
_NO_SIGNER: Final = (18, 19, 20, 21)
"""What OpenSSL says of a certificate when it does not know who has signed it."""
_UNKNOWN_SIGNER: Final = ". Who has signed it is not known here: name the authority.pem of its installation"
_UNREAD_BYTES: Final = 64 << 10
_UNREAD_MAX: Final = 16
_BACKLOG: Final = 4096
"""Who knocks while so many wait to be let in tries again only after a second. The system's own bound counts too."""


def parse_address(text: str, *, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """Host and port of ``host:port``, ``host``, ``[::1]:port``, ``tidewire://host:port`` or ``tidewires://``."""
    rest = text.removeprefix("tidewires://").removeprefix("tidewire://").rstrip("/")
    host, _, port = rest.rpartition(":") if not rest.endswith("]") and ":" in rest else (rest, "", "")
    host = host.removeprefix("[").removesuffix("]")
    if not host or (port and not (port.isascii() and port.isdigit() and int(port) < 65_536)):
        raise BadConfiguration(f"{text!r} is no address: write host:port, such as 127.0.0.1:{DEFAULT_PORT}")
    return host, int(port) if port else default_port


def is_secured(address: str) -> bool:
    """Is this written as the address of a broker that takes only TLS?"""
    return address.startswith("tidewires://")


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Unavailable if the port is taken."""
    listener = reserve(host, port)
    let_connect(listener)
    return listener


def reserve(host: str, port: int) -> socket.socket:
    """The same, where connections are refused until ``let_connect``: for those who have to get ready first."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _cannot_listen(f"{host}:{port}", error) from None
    return listener


def let_connect(listener: socket.socket) -> None:
    """From now on connections are taken. Unavailable if somebody else was first; then it is closed."""
    host, port, *_ = listener.getsockname()
    try:
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _cannot_listen(f"{host}:{port}", error) from None


def _cannot_listen(where: str, error: OSError) -> Unavailable:
    return Unavailable(f"cannot listen on {where}: {error.strerror}. Is another broker running there?")


def tune(connection: socket.socket) -> None:
    """No waiting for more to send; a peer that vanished without a word is noticed within half a minute."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def keep_queue_here(connection: socket.socket) -> None:
    """What has not left waits in the broker, where it is seen and put in order, and not in the system's buffers."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)


def hang_up(connection: socket.socket) -> None:
    """End a connection. What is on its way to the other side, such as why it ends, may still be read there.

    If something from there were left unread, the system would throw that away, and say that the connection was reset.
    """
    with suppress(OSError):
        for _ in range(_UNREAD_MAX):
            if not connection.recv(_UNREAD_BYTES):
                break
    connection.close()


async def dial(address: str) -> socket.socket:
    """A connection to this address; Unavailable if there is none within a few seconds."""
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    connection: socket.socket | None = None
    try:
        async with asyncio.timeout(DIAL_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, where = found[0]
            connection = socket.socket(family, kind, protocol)
            tune(connection)
            await loop.sock_connect(connection, where)
            return connection
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, TimeoutError):
            raise Unavailable(f"{host}:{port} does not answer") from None
        if isinstance(error, OSError):
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise Unavailable(f"{host}:{port}: {why}") from None
        if isinstance(error, ValueError):
            raise Unavailable(f"{host!r} cannot be the name of a host: {error}") from None
        raise


async def open_transport(
    make: Callable[[], asyncio.Protocol], connection: socket.socket, address: str, security: ssl.SSLContext | None
) -> asyncio.Transport:
    """A protocol on this connection to that address; with TLS, if it is to be secured. Unavailable if that fails."""
    loop = asyncio.get_running_loop()
    host, port = parse_address(address)
    try:
        async with asyncio.timeout(SECURE_S):
            name = None if security is None else host
            transport, _ = await loop.create_connection(make, sock=connection, ssl=security, server_hostname=name)
            return transport
    except ssl.SSLCertVerificationError as error:
        hint = _UNKNOWN_SIGNER if error.verify_code in _NO_SIGNER else ""
        why = f"{error.verify_message}{hint}"
        raise Unavailable(f"{host}:{port} shows a certificate that is not good: {why}") from None
    except (ssl.SSLError, ConnectionError, TimeoutError):
        where = f"{host}:{port}"
        raise Unavailable(f"{where} does not speak TLS: if it is not secured, write tidewire://{where}") from None


def hint_at_tls(address: str) -> str:
    """What may be the matter if somebody ends a connection in clear without a word."""
    host, port = parse_address(address)
    return f"if it is secured, write tidewires://{f'[{host}]' if ':' in host else host}:{port}"
