"""Requests that are none, and upgrades that cannot be: refused before the application hears of them, in its shape."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from websockets.http11 import Request
from websockets.server import ServerProtocol

from tidewire.console.app import refusal
from tidewire.console.errors import TooSlow, UpgradeRequired, WrongMethod
from tidewire.model.errors import TidewireError, UsageError

REQUEST_S: Final = 10.0
"""How long a connection may take to ask for something."""


class Http(H11Protocol):
    """HTTP as uvicorn speaks it, but for what it refuses by itself; and who says nothing is not waited for."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has called: it has so long to ask for something."""
        super().connection_made(transport)
        self._patience = self.loop.call_later(REQUEST_S, self._lose_patience)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._patience.cancel()
        super().connection_lost(exc)

    def _lose_patience(self) -> None:
        """The first request must be there; for the next ones, uvicorn has a patience of its own."""
        cycle: object = self.cycle
        if cycle is None and not self.transport.is_closing():
            self._refuse(TooSlow(f"no request came within {REQUEST_S:g} s"))

    def send_400_response(self, msg: str) -> None:
        """This was no request, or went wrong on the way."""
        del msg
        self._refuse(UsageError("this is no HTTP request that can be understood"))

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Tried first: of what is wrong the library says what, but not as we do, or says nothing and waits for ever."""
        try:
            _try_handshake(event)
        except UsageError as error:
            self._refuse(error)
        else:
            super().handle_websocket_upgrade(event)

    def _refuse(self, error: TidewireError) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):  # else an answer is on its way already
            response = refusal(error)
            headers = [*self.server_state.default_headers, *response.raw_headers, (b"connection", b"close")]
            status = response.status_code
            for part in (
                h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status]),
                h11.Data(data=bytes(response.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()


def _try_handshake(event: h11.Request) -> None:
    """UsageError if no WebSocket can come of it."""
    trial = ServerProtocol()
    lines = [b"%s %s HTTP/1.1" % (event.method, event.target), *(b"%s: %s" % header for header in event.headers)]
    trial.receive_data(b"\r\n".join([*lines, b"", b""]))
    asked = next(iter(trial.events_received()), None)
    if asked is not None:
        assert isinstance(asked, Request)
        status = trial.accept(asked).status_code
        if status == 101:
            return
        if status == 405:
            raise WrongMethod(f"a WebSocket is asked for with GET, not {event.method.decode()}", allowed="GET")
        if asked.headers.get_all("Sec-WebSocket-Version") != ["13"]:
            raise UpgradeRequired("of the WebSocket protocol, version 13 is spoken here")
    raise UsageError(f"no WebSocket can come of this: {trial.handshake_exc}")
