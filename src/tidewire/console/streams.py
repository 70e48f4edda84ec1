"""Server-sent events: a response that goes on until the client leaves, the time is over, or the door closes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tidewire.client.events import Tell
from tidewire.console.cloudevents import structured
from tidewire.console.documents import Notice, Subscribed, passed
from tidewire.console.errors import problem_of
from tidewire.console.network import Network
from tidewire.console.outbox import Outbox
from tidewire.language import render
from tidewire.live.credentials import Credentials
from tidewire.live.notification import Notification
from tidewire.live.subscription import Subscription
from tidewire.model.errors import LimitReached, TidewireError

STREAMS_MAX: Final = 1000
STREAMS_EACH_MAX: Final = 500
"""Of one token: nobody keeps all others out."""
HEARTBEAT_S: Final = 15.0
BEGINNING: Final = b"retry: 2000\n\n"
"""A browser that has lost the stream asks again after so many milliseconds."""
_STILL_HERE: Final = b": still here\n\n"
MEDIA_TYPE: Final = "text/event-stream"


def message(name: str, document: Any) -> bytes:
    """One server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(document) + b"\n\n"


class Lines:
    """The streams and sockets that are open. They end together."""

    def __init__(self) -> None:
        self._open: Counter[str | None] = Counter()
        self.closing = asyncio.Event()

    @contextmanager
    def one(self, token: str | None) -> Iterator[None]:
        """While it is open, or about to be. LimitReached if there are as many as there may be."""
        if self._open.total() >= STREAMS_MAX:
            raise LimitReached(f"{STREAMS_MAX} streams are open here: close some, or ask another console")
        if token is not None and self._open[token] >= STREAMS_EACH_MAX:
            raise LimitReached(f"{STREAMS_EACH_MAX} streams are open here with this token: close some")
        self._open[token] += 1
        try:
            yield
        finally:
            self._open[token] -= 1
            if not self._open[token]:
                del self._open[token]


class EventStream(Response):
    """The frames, one after the other; what the stack holds is let go when it ends, whoever ends it."""

    media_type = MEDIA_TYPE

    def __init__(
        self, frames: AsyncIterator[bytes], *, lines: Lines, holds: AsyncExitStack, seconds: float | None
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._frames = frames
        self._lines = lines
        self._holds = holds
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until somebody has had enough."""
        del scope
        async with self._holds:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            ends = [
                asyncio.ensure_future(one)
                for one in (self._pump(send), _until_left(receive), self._lines.closing.wait())
            ]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=self._seconds)
            finally:
                for one in ends:
                    one.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
            with suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        try:
            async for frame in self._frames:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        except TidewireError as error:
            await send({"type": "http.response.body", "body": message("error", problem_of(error)), "more_body": True})


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def events_of(
    network: Network, credentials: Credentials, wanted: str, *, as_cloudevents: bool, holds: AsyncExitStack
) -> AsyncIterator[bytes]:
    """Subscribe; then the frames of what comes."""
    outbox: Outbox[bytes] = Outbox()

    def noticed(notice: Tell) -> None:
        outbox.put_if_room(message("notice", Notice(what=notice.what, facts=notice.facts)))

    def came(one: Notification) -> None:
        outbox.put(message("event", structured(one.event) if as_cloudevents else passed(one)))

    wire = await holds.enter_async_context(await network.wire(credentials, name="http stream", on_notice=noticed))
    outbox.on_much, outbox.on_little = wire.pause_reading, wire.resume_reading
    subscription = await wire.subscribe(wanted, came)
    document = Subscribed(filter=render(subscription.filter), broker=wire.subscribed_at)
    return _frames(subscription, outbox, BEGINNING + message("subscribed", document))


async def _frames(subscription: Subscription, outbox: Outbox[bytes], first: bytes) -> AsyncIterator[bytes]:
    ended = asyncio.ensure_future(until_ended(subscription))
    ended.add_done_callback(lambda _: outbox.put(b""))
    try:
        yield first
        while not ended.done():
            waiting = await outbox.take(seconds=HEARTBEAT_S)
            yield b"".join(waiting) if waiting else _STILL_HERE
        await ended
    finally:
        ended.cancel()


async def until_ended(subscription: Subscription) -> None:
    """Wait until nothing more can come; raises why, if that is an error."""
    with suppress(StopAsyncIteration):
        await anext(subscription)
