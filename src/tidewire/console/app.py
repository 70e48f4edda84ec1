"""The door as an ASGI application: who is let in, which path, which method; errors and headers for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from tidewire.console.door import OPEN, STATIC, Door, Handler, answer
from tidewire.console.errors import (
    Failure,
    Problem,
    UnknownPath,
    UpgradeRequired,
    WrongMethod,
    WrongOrigin,
    headers_of,
    problem_of,
    status_of,
)
from tidewire.console.sockets import PROTOCOL, TOKEN_PREFIX, Talk
from tidewire.console.streams import MEDIA_TYPE
from tidewire.live.credentials import Credentials
from tidewire.live.sockets import is_loopback
from tidewire.model.errors import TidewireError, UsageError

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"  # no string can become markup or script
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NO_PAGE: Final = "default-src 'none'; sandbox; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""For whatever is no page of ours: events are other people's words, and none of them may act in our name."""

_STREAMS: Final = ("/v1/events", "/v1/overlay/stream")


def make_app(door: Door, *, host: str) -> ASGIApp:
    """The application, to be served at this host."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await door.close()

    async def admit(request: Request) -> None:
        await door.admission.admit(door.credentials(request))

    async def admit_anybody(_request: Request) -> None:
        return

    def endpoint(path: str, handlers: dict[str, Handler]) -> _Endpoint:
        return _Endpoint(path, handlers, admit=admit_anybody if path in OPEN else admit)

    routes = [Route(path, endpoint(path, handlers)) for path, handlers in door.routes().items()]
    app = Starlette(
        routes=[
            *routes,
            WebSocketRoute("/v1/socket", _Socket(door)),
            Route("/v1/socket", endpoint("/v1/socket", {"GET": _no_socket})),
            Mount("/static", StaticFiles(directory=STATIC, check_dir=False)),
        ],
        exception_handlers={HTTPException: _told_by_starlette, Exception: _unforeseen},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return _Guard(app, is_local=is_loopback(host))


def failure(error: TidewireError) -> Response:
    """The answer to a request that came to nothing."""
    response = answer(Failure(problem_of(error)), status=status_of(error))
    response.headers.update(headers_of(error))
    return response


def refusal(error: TidewireError) -> Response:
    """The answer to what never comes as far as the application."""
    response = failure(error)
    _tell_browsers(response.headers)
    return response


def _tell_browsers(headers: MutableHeaders, path: str = "") -> None:
    """What every answer says; only our own pages may do anything in a browser."""
    for name, value in _HEADERS.items():
        headers[name] = value
    if path != "/" and not path.startswith("/static/"):
        headers["Content-Security-Policy"] = _NO_PAGE
    headers.setdefault("Cache-Control", "no-store")


class _Endpoint:
    """One path: for those who are let in, by method, with errors told in one way."""

    def __init__(self, path: str, handlers: dict[str, Handler], *, admit: Callable[[Request], Awaitable[None]]) -> None:
        self._admit = admit
        self._path = path
        self._handlers = handlers
        self._allowed = ", ".join([*handlers, *(["HEAD"] if "GET" in handlers else []), "OPTIONS"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            response = await self._response(request)
        except TidewireError as error:
            response = failure(error)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": self._allowed})
        handler = self._handlers.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            raise WrongMethod(f"{self._path} is for {self._allowed}, not {request.method}", allowed=self._allowed)
        await self._admit(request)
        if request.method == "HEAD" and self._path in _STREAMS:
            return Response(media_type=MEDIA_TYPE)
        return await handler(request)


class _Socket:
    """The WebSocket: who cannot be let in is told by an HTTP answer."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        offered = [one.strip() for one in socket.headers.get("sec-websocket-protocol", "").split(",")]
        talk, network = Talk(self._door.lines), self._door.network
        try:
            credentials = self._credentials(socket, offered)
            with self._door.lines.one(credentials.token):
                async with await network.wire(credentials, name="http socket", on_notice=talk.noticed) as wire:
                    await socket.accept(PROTOCOL if PROTOCOL in offered else None)
                    await talk.run(socket, wire)
        except TidewireError as error:
            await socket.send_denial_response(failure(error))

    def _credentials(self, socket: WebSocket, offered: list[str]) -> Credentials:
        for one in offered:
            if one.startswith(TOKEN_PREFIX):
                return self._door.network.credentials(one.removeprefix(TOKEN_PREFIX))
        return self._door.credentials(socket)


async def _no_socket(request: Request) -> Response:
    raise UpgradeRequired(f"{request.url.path} is a WebSocket: ask for an upgrade")


async def _told_by_starlette(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself, in our shape: static files that are not there, mostly."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = "GET, HEAD"
        return failure(WrongMethod(f"{request.url.path} is for {allowed}, not {request.method}", allowed=allowed))
    if error.status_code in (401, 404):
        return failure(UnknownPath(f"there is nothing at {request.url.path[:200]}"))
    return answer(Failure(Problem("http", str(error.detail))), status=error.status_code)


async def _unforeseen(_request: Request, _error: Exception) -> Response:
    """Ours, and nobody expected it: the log has the rest."""
    return answer(Failure(Problem("internal", "something is wrong here: the log of the console says what")), status=500)


class _Guard:
    """Around everything: web pages of other sites are kept out, and what browsers must know is said."""

    def __init__(self, app: ASGIApp, *, is_local: bool) -> None:
        self._app = app
        self._is_local = is_local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                _tell_browsers(MutableHeaders(scope=message), scope["path"])
            await send(message)

        connection = HTTPConnection(scope)
        try:
            self._refuse_strangers(connection.headers)
        except UsageError as error:
            if scope["type"] == "http":
                await failure(error)(scope, receive, with_headers)
            else:
                await WebSocket(scope, receive, with_headers).send_denial_response(failure(error))
            return
        await self._app(scope, receive, with_headers)

    def _refuse_strangers(self, headers: Headers) -> None:
        """A page in somebody's browser must not use that browser's way to us.

        On loopback a name that is not of this machine is a page that has pointed its own name here.
        """
        try:
            host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        except ValueError:
            raise UsageError(f"the header Host cannot be {headers['host'][:200]!r}") from None
        if self._is_local and not is_loopback(host):
            raise WrongOrigin(f"this console is for this machine, it is not called {host[:200]!r}")
        origin = headers.get("origin")
        if origin is not None and _place_of(origin) != headers.get("host"):
            raise WrongOrigin(f"pages of {origin[:200]} may not use this console")


def _place_of(origin: str) -> str | None:
    """Host and port of a page; None if that is not what it says."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
