"""What the door does for a request, by path and method. Errors and headers are the business of ``app.py``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, Response

from tidewire.console.admission import Admission
from tidewire.console.cloudevents import ONE, binary, structured
from tidewire.console.documents import (
    ExplainRequest,
    Health,
    SampleRequest,
    explanation_document,
    passed,
)
from tidewire.console.errors import UnknownPath, WrongContentType
from tidewire.console.incoming import JSON, events_in, from_attributes
from tidewire.console.network import Network
from tidewire.console.openapi import openapi
from tidewire.console.overlay import (
    LOOK_EVERY_S,
    Watch,
    Watches,
    decisions_document,
    loads_document,
    overlay_document,
)
from tidewire.console.parameters import (
    FORMATS,
    NEXT_FORMATS,
    SECONDS_MAX,
    UNIX_S_MAX,
    WAIT_S,
    WAIT_S_MAX,
    YES_OR_NO,
    choice,
    filter_in,
    number,
    parameters,
)
from tidewire.console.placing import (
    Placing,
    RegisterBrokerRequest,
    RegisterUserRequest,
    ReportLoadRequest,
    RequestBrokerRequest,
)
from tidewire.console.publishing import Publishers
from tidewire.console.reading import read_body, read_document
from tidewire.console.sampling import sample
from tidewire.console.streams import BEGINNING, EventStream, Lines, events_of, message
from tidewire.console.taps import Taps
from tidewire.console.tuning import (
    CreateBrokerRequest,
    CreateChannelRequest,
    LoginRequest,
    NotifyRequest,
    SessionRequest,
    SubscribeChannelRequest,
    SubscriptionRequest,
    Tuning,
)
from tidewire.language import as_selector, compile_filter, explain
from tidewire.live.credentials import Credentials
from tidewire.model.errors import NotAuthenticated, UsageError
from tidewire.observe.metrics import CONTENT_TYPE, render

STATIC: Final = Path(__file__).parent / "static"

OPEN: Final = ("/", "/healthz", "/v1/openapi.json")
"""Paths that say the same to everybody. For all others one must be known, where brokers ask who one is."""

Handler = Callable[[Request], Awaitable[Response]]
_Asked = TypeVar("_Asked")


def answer(document: Any, *, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(msgspec.json.encode(document), status, media_type=JSON)


class Door:
    """All that requests share: sessions to publish on, looks at the network, streams."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.admission = Admission(network)
        self.lines = Lines()
        self.publishers = Publishers(network)
        self.watches = Watches(network)
        self.taps = Taps(network)
        self.placing = Placing(network)
        self.tuning = Tuning(network)

    def routes(self) -> dict[str, dict[str, Handler]]:
        """By path and method."""
        return {
            "/": {"GET": self.page},
            "/healthz": {"GET": self.health},
            "/v1/events": {"GET": self.subscribe, "POST": self.publish},
            "/v1/events/next": {"GET": self.next_event},
            "/v1/explain": {"POST": self.explain},
            "/v1/sample": {"POST": self.sample},
            "/v1/overlay": {"GET": self.overlay},
            "/v1/overlay/stream": {"GET": self.overlay_stream},
            "/v1/loads": {"GET": self.loads},
            "/v1/decisions": {"GET": self.decisions},
            "/v1/registeruser": {"POST": self._call(RegisterUserRequest, self.placing.register)},
            "/v1/requestbroker": {"POST": self._call(RequestBrokerRequest, self.placing.request)},
            "/v1/registerbroker": {"POST": self._call(RegisterBrokerRequest, self.placing.register_broker)},
            "/v1/reportload": {"POST": self._call(ReportLoadRequest, self.placing.report)},
            "/v1/balance": {"GET": self.balance},
            "/v1/createchannel": {"POST": self._call(CreateChannelRequest, self.tuning.create_channel)},
            "/v1/createbroker": {"POST": self._call(CreateBrokerRequest, self.tuning.create_broker)},
            "/v1/login": {"POST": self._call(LoginRequest, self.tuning.login)},
            "/v1/logout": {"POST": self._call(SessionRequest, self.tuning.logout)},
            "/v1/subscribe": {"POST": self._call(SubscribeChannelRequest, self.tuning.subscribe)},
            "/v1/unsubscribe": {"POST": self._call(SubscriptionRequest, self.tuning.unsubscribe)},
            "/v1/notify": {"POST": self._call(NotifyRequest, self.tuning.notify)},
            "/v1/getresults": {"POST": self._call(SubscriptionRequest, self.tuning.results)},
            "/v1/openapi.json": {"GET": self.openapi},
            "/metrics": {"GET": self.metrics},
        }

    def credentials(self, connection: HTTPConnection) -> Credentials:
        """What the request shows to prove who it is."""
        shown = connection.headers.get("authorization")
        if shown is None:
            return self.network.credentials(None)
        scheme, _, token = shown.partition(" ")
        if scheme.lower() != "bearer" or not token.strip() or not token.strip().isascii():
            raise NotAuthenticated("the Authorization header must be: Bearer TOKEN")
        return self.network.credentials(token.strip())

    async def close(self) -> None:
        """Let go of every session."""
        await self.publishers.close()
        await self.taps.close()
        await self.tuning.close()

    # -- events --------------------------------------------------------------------------------------------------------

    async def publish(self, request: Request) -> Response:
        """POST /v1/events."""
        guaranteed = choice(parameters(request, "guaranteed"), "guaranteed", YES_OR_NO) == "true"
        credentials = self.credentials(request)
        offered = events_in(request.headers, await read_body(request))
        if not offered:
            raise UsageError("there is no event in the body")
        return answer(await self.publishers.publish(credentials, offered, guaranteed=guaranteed), status=202)

    async def subscribe(self, request: Request) -> Response:
        """GET /v1/events."""
        told = parameters(request, "filter", "format", "seconds")
        wanted, as_cloudevents = filter_in(told), choice(told, "format", FORMATS) == "cloudevents"
        seconds = number(told, "seconds", above=0.0, most=SECONDS_MAX)
        credentials = self.credentials(request)
        return await self._stream(
            credentials,
            lambda holds: events_of(self.network, credentials, wanted, as_cloudevents=as_cloudevents, holds=holds),
            seconds=seconds,
        )

    async def next_event(self, request: Request) -> Response:
        """GET /v1/events/next."""
        told = parameters(request, "filter", "format", "seconds")
        wanted, kind = filter_in(told), choice(told, "format", NEXT_FORMATS)
        seconds = number(told, "seconds", above=0.0, most=WAIT_S_MAX) or WAIT_S
        credentials = self.credentials(request)
        with self.lines.one(credentials.token):
            wire = await self.network.wire(credentials, name="http next")
            async with wire, wire.subscribe(wanted) as subscription:
                try:
                    found = await self._unless_closing(request, subscription.get(seconds))
                except TimeoutError:
                    return Response(status_code=204)
        if kind == "cloudevents":
            return Response(msgspec.json.encode(structured(found.event)), media_type=ONE)
        if kind == "cloudevents-binary":
            headers, body = binary(found.event)
            return Response(body, headers={"Content-Disposition": "attachment", **headers})
        return answer(passed(found))

    async def _unless_closing(self, request: Request, coming: Any) -> Any:
        """What comes; TimeoutError if the client leaves or the door closes before."""
        tasks = [
            asyncio.ensure_future(coming),
            asyncio.ensure_future(self.lines.closing.wait()),
            asyncio.ensure_future(_left(request)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                raise TimeoutError
            return tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- filters -------------------------------------------------------------------------------------------------------

    async def explain(self, request: Request) -> Response:
        """POST /v1/explain."""
        parameters(request)
        asked = await _document(request, ExplainRequest)
        event = None if asked.event is None else from_attributes(asked.event).attributes
        return answer(explanation_document(explain(as_selector(asked.filter), event)))

    async def sample(self, request: Request) -> Response:
        """POST /v1/sample."""
        told = parameters(request, "seconds")
        seconds = number(told, "seconds", above=0.0, most=SECONDS_MAX)
        wanted = compile_filter(as_selector((await _document(request, SampleRequest)).filter))
        credentials = self.credentials(request)

        async def begin(holds: AsyncExitStack) -> AsyncIterator[bytes]:
            return sample(await holds.enter_async_context(self.taps.tapped(credentials)), wanted)

        return await self._stream(credentials, begin, seconds=seconds)

    # -- the network ---------------------------------------------------------------------------------------------------

    async def overlay(self, request: Request) -> Response:
        """GET /v1/overlay."""
        parameters(request)
        return answer(overlay_document(await self._watch(request).look()))

    async def overlay_stream(self, request: Request) -> Response:
        """GET /v1/overlay/stream."""
        seconds = number(parameters(request, "seconds"), "seconds", above=0.0, most=SECONDS_MAX)
        watch = self._watch(request)

        async def begin(_holds: AsyncExitStack) -> AsyncIterator[bytes]:
            await watch.look()  # who may not look is told at once
            return _looks(watch)

        return await self._stream(self.credentials(request), begin, seconds=seconds)

    async def loads(self, request: Request) -> Response:
        """GET /v1/loads."""
        parameters(request)
        return answer(loads_document(await self._watch(request).look()))

    def _call(self, kind: type[_Asked], act: Callable[[Credentials, _Asked], Awaitable[Any]]) -> Handler:
        """A call by the name of the paper: a document comes, and a document is answered (bad §1.2)."""

        async def handle(request: Request) -> Response:
            parameters(request)
            asked = await _document(request, kind)
            return answer(await act(self.credentials(request), asked))

        return handle

    async def balance(self, request: Request) -> Response:
        """GET /v1/balance."""
        parameters(request)
        return answer(await self.placing.balance(self.credentials(request)))

    async def decisions(self, request: Request) -> Response:
        """GET /v1/decisions."""
        told = parameters(request, "since")
        since = number(told, "since", above=-1.0, most=UNIX_S_MAX) or 0.0
        return answer(decisions_document(await self._watch(request).look(), since=since))

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        parameters(request)
        look = await self._watch(request).look()
        return Response(render(look.statuses()), media_type=CONTENT_TYPE)

    def _watch(self, request: Request) -> Watch:
        return self.watches.of(self.credentials(request))

    # -- the rest ------------------------------------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        """GET /healthz."""
        parameters(request)
        return answer(Health())

    async def openapi(self, request: Request) -> Response:
        """GET /v1/openapi.json."""
        parameters(request)
        return Response(openapi(), media_type=JSON)

    async def page(self, request: Request) -> Response:
        """GET /."""
        del request
        page = STATIC / "index.html"
        if not page.exists():
            raise UnknownPath("this installation has no web page")
        return FileResponse(page, headers={"Cache-Control": "no-cache"})

    async def _stream(
        self,
        credentials: Credentials,
        begin: Callable[[AsyncExitStack], Awaitable[AsyncIterator[bytes]]],
        *,
        seconds: float | None,
    ) -> Response:
        async with AsyncExitStack() as holds:
            holds.enter_context(self.lines.one(credentials.token))
            frames = await begin(holds)
            return EventStream(frames, lines=self.lines, holds=holds.pop_all(), seconds=seconds)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _looks(watch: Watch) -> AsyncIterator[bytes]:
    yield BEGINNING
    loop = asyncio.get_running_loop()
    while True:
        began_s = loop.time()
        yield message("overlay", overlay_document(await watch.look()))
        await asyncio.sleep(max(0.0, began_s + LOOK_EVERY_S - loop.time()))


async def _document(request: Request, kind: type[Any]) -> Any:
    told = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if told != JSON:
        raise WrongContentType(f"send {JSON}, not {told or 'a body without a content type'}")
    return read_document(await read_body(request), kind)
