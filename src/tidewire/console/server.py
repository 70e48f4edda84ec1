"""The door as a process: uvicorn, ended cleanly, with the streams first."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import Final

import uvicorn

from tidewire.console.app import make_app
from tidewire.console.door import Door
from tidewire.console.malformed import Http
from tidewire.console.network import Network
from tidewire.console.sockets import MESSAGE_BYTES_MAX
from tidewire.live.sockets import listen, parse_address
from tidewire.model.errors import BadConfiguration, Unavailable

DEFAULT_PORT: Final = 7680
_PATIENCE_S: Final = 3
"""Requests that are being answered when the door closes have so many seconds."""


_UNTOLD: Final = (
    "ASGI callable returned without completing handshake.",  # who is refused a WebSocket gets an HTTP answer
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
)


class _NotAnError(logging.Filter):
    """What clients do wrong, they are told. It is no error of the door, and must not fill its log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.getMessage() not in _UNTOLD


_NOT_AN_ERROR: Final = _NotAnError()


class _Uvicorn(uvicorn.Server):
    """Signals are for whoever runs the process; streams end when it does."""

    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        self._door.lines.closing.set()
        await super().shutdown(sockets)


class LiveDoor:
    """The door at one address."""

    def __init__(
        self, address: str, network: Network, *, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        host, port = parse_address(address, default_port=DEFAULT_PORT)
        self._listener = listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'http' if certificate is None else 'https'}://{shown}:{self._listener.getsockname()[1]}"
        self._host = host
        self._certificate, self._key = certificate, key
        self._network = network
        self._server: _Uvicorn | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to serve."""
        door = Door(self._network)
        config = uvicorn.Config(
            make_app(door, host=self._host),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            http=Http,
            ws="websockets-sansio",
            ws_max_size=MESSAGE_BYTES_MAX,
            lifespan="on",
            timeout_graceful_shutdown=_PATIENCE_S,
            ssl_certfile=self._certificate,
            ssl_keyfile=self._key,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise BadConfiguration(f"{self._certificate} and its key are of no use: {error}") from None
        logging.getLogger("uvicorn.error").addFilter(_NOT_AN_ERROR)
        self._server = _Uvicorn(config, door)
        self._task = asyncio.ensure_future(self._server.serve(sockets=[self._listener]))
        while not self._server.started:
            if self._task.done():
                await self._task
                raise Unavailable(f"{self.url} could not be served")
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """End: streams at once, requests when they are answered, or soon."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
