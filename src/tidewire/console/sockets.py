"""The WebSocket: one session, many subscriptions, publishing beside them. JSON text messages both ways."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidewire.client.events import Tell
from tidewire.console.cloudevents import from_structured, structured
from tidewire.console.documents import Notice, event_document
from tidewire.console.errors import problem_of
from tidewire.console.incoming import each, from_attributes
from tidewire.console.outbox import Outbox
from tidewire.console.publishing import Refusals, publish
from tidewire.console.reading import read_document
from tidewire.console.streams import Lines, until_ended
from tidewire.language import as_selector
from tidewire.live.connect import Wire
from tidewire.live.notification import Notification
from tidewire.live.subscription import Subscription
from tidewire.model.errors import (
    DuplicateSubscription,
    LimitReached,
    TidewireError,
    UnknownSubscription,
    UsageError,
)

SUBSCRIPTIONS_MAX: Final = 1000
MESSAGE_BYTES_MAX: Final = 2 << 20
PROTOCOL: Final = "tidewire.v1"
TOKEN_PREFIX: Final = "bearer."
_QUIET_S: Final = 3600.0
_GOING_AWAY: Final = 1001
_NOT_TEXT: Final = 1003
_NOT_ALLOWED: Final = 1008
Format = Literal["json", "cloudevents"]
Id = Annotated[str, Meta(max_length=200)]
"""It comes back with every event."""


class _Request(msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True, kw_only=True):
    """What a client asks for."""


class SubscribeRequest(_Request, frozen=True, tag="subscribe"):
    """Tell me what matches; the id is the client's own."""

    id: Id
    filter: str
    format: Format = "json"


class ChangeRequest(_Request, frozen=True, tag="change"):
    """Another filter in place of this one."""

    id: Id
    filter: str


class UnsubscribeRequest(_Request, frozen=True, tag="unsubscribe"):
    """No longer."""

    id: Id


class PublishRequest(_Request, frozen=True, tag="publish"):
    """Publish one event, or several."""

    id: Id | None = None
    event: dict[str, Any] | None = None
    events: list[Any] | None = None
    format: Format = "json"
    guaranteed: bool = False


SocketRequest = SubscribeRequest | ChangeRequest | UnsubscribeRequest | PublishRequest
SOCKET_REQUESTS: Final = (SubscribeRequest, ChangeRequest, UnsubscribeRequest, PublishRequest)


class _Told(msgspec.Struct, eq=False):
    """A subscription of the socket."""

    subscription: Subscription
    format: Format
    ended: asyncio.Future[None] | None = None


class Talk:
    """What is said over one socket."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._outbox: Outbox[str] = Outbox()
        self._told: dict[str, _Told] = {}
        self._ids: dict[int, str] = {}
        """Ours, by the number of the subscription."""
        self._refusals = Refusals()
        self._wire: Wire

    def noticed(self, notice: Tell) -> None:
        """Something happened to the session."""
        self._refusals.heard(notice)
        self._outbox.put_if_room(_text({"notice": Notice(what=notice.what, facts=notice.facts)}))

    async def run(self, socket: WebSocket, wire: Wire) -> None:
        """Until one side has had enough, or the door closes."""
        self._wire = wire
        self._outbox.on_much, self._outbox.on_little = wire.pause_reading, wire.resume_reading
        listening = asyncio.ensure_future(self._listen(socket))
        over = asyncio.ensure_future(wire.until_over())
        ends: list[asyncio.Future[Any]] = [
            listening,
            over,
            *map(asyncio.ensure_future, (self._speak(socket), self._lines.closing.wait())),
        ]
        code = _GOING_AWAY
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                code = listening.result()
            elif over.done():
                code = _NOT_ALLOWED
                await socket.send_text(_text({"error": problem_of(over.result())}))
        finally:
            ended = [told.ended for told in self._told.values() if told.ended is not None]
            for one in [*ends, *ended]:
                one.cancel()
            await asyncio.gather(*ends, *ended, return_exceptions=True)
            with suppress(RuntimeError, OSError, WebSocketDisconnect):  # it may have left already
                await socket.close(code)

    async def _speak(self, socket: WebSocket) -> None:
        while True:
            for text in await self._outbox.take(seconds=_QUIET_S):
                await socket.send_text(text)

    async def _listen(self, socket: WebSocket) -> int:
        """Until there is nothing more to hear; with which code it ends."""
        while True:
            await self._outbox.until_room()
            try:
                text = await socket.receive_text()
            except WebSocketDisconnect:
                return _GOING_AWAY
            except KeyError:  # bytes
                return _NOT_TEXT
            self._outbox.put(_text(await self._answer(text)))

    async def _answer(self, text: str) -> dict[str, Any]:
        wanted: str | None = None
        try:
            if len(text) > MESSAGE_BYTES_MAX:
                raise LimitReached(f"a message has at most {MESSAGE_BYTES_MAX:,} bytes")
            request: SocketRequest = read_document(text, SocketRequest, what="the message")  # type: ignore[arg-type]
            wanted = request.id
            return {"done": request.__struct_config__.tag, "id": wanted} | await self._do(request)
        except TidewireError as error:
            return {"error": problem_of(error)} | ({} if wanted is None else {"id": wanted})

    async def _do(self, request: SocketRequest) -> dict[str, Any]:
        match request:
            case SubscribeRequest():
                await self._subscribe(request)
            case ChangeRequest():
                await self._known(request.id).subscription.change(as_selector(request.filter))
            case UnsubscribeRequest():
                await self._unsubscribe(request.id)
            case PublishRequest():
                return await self._publish(request)
        return {}

    async def _subscribe(self, request: SubscribeRequest) -> None:
        if request.id in self._told:
            raise DuplicateSubscription(f"there is a subscription {request.id!r} here already: change it instead")
        if len(self._told) >= SUBSCRIPTIONS_MAX:
            raise LimitReached(f"a socket has at most {SUBSCRIPTIONS_MAX} subscriptions: open another one")
        subscription = self._wire.subscribe(
            as_selector(request.filter), lambda notification: self._came(subscription, notification)
        )
        told = self._told[request.id] = _Told(subscription, request.format)
        self._ids[subscription.number] = request.id
        try:
            await subscription
        except BaseException:
            self._forget(request.id)
            raise
        told.ended = asyncio.ensure_future(until_ended(subscription))
        told.ended.add_done_callback(lambda ended: self._ended(request.id, ended))

    async def _unsubscribe(self, wanted: str) -> None:
        told = self._known(wanted)
        await told.subscription.unsubscribe()
        self._forget(wanted)

    def _ended(self, wanted: str, ended: asyncio.Future[None]) -> None:
        """Told if it ended though nobody asked for that."""
        error = None if ended.cancelled() else ended.exception()
        if isinstance(error, TidewireError):
            self._outbox.put(_text({"error": problem_of(error), "id": wanted}))
            self._forget(wanted)

    def _forget(self, wanted: str) -> None:
        told = self._told.pop(wanted, None)
        if told is not None:
            self._ids.pop(told.subscription.number, None)

    def _known(self, wanted: str) -> _Told:
        told = self._told.get(wanted)
        if told is None:
            raise UnknownSubscription(f"there is no subscription {wanted!r} here")
        return told

    async def _publish(self, request: PublishRequest) -> dict[str, Any]:
        if (request.event is None) == (request.events is None):
            raise UsageError("publish one event, or events: one of the two")
        read = from_structured if request.format == "cloudevents" else from_attributes
        offered = [read(request.event)] if request.events is None else each(request.events, read)
        taken = await publish(self._wire, offered, self._refusals, guaranteed=request.guaranteed)
        done: dict[str, Any] = msgspec.to_builtins(taken)
        return done

    def _came(self, subscription: Subscription, notification: Notification) -> None:
        """Called for each subscription that matched; it is told at the first, once for each format that is wanted."""
        if notification.subscriptions[0] is not subscription:
            return
        ids = [self._ids[one.number] for one in notification.subscriptions if one.number in self._ids]
        for kind in ("json", "cloudevents"):
            wanted = [one for one in ids if self._told[one].format == kind]
            if wanted:
                event = event_document(notification.event) if kind == "json" else structured(notification.event)
                self._outbox.put(_text({"event": event, "ids": wanted, "latency": notification.latency}))


def _text(document: dict[str, Any]) -> str:
    try:
        return msgspec.json.encode(document).decode()
    except UnicodeEncodeError:  # half of a character, which a client has sent: JSON can tell it, UTF-8 cannot
        return json.dumps(msgspec.to_builtins(document))
