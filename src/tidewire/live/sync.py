"""``tidewire.sync``: the same session for programs without asyncio. A thread of its own runs the event loop.

with tidewire.sync.connect("127.0.0.1:7600") as wire:
    with wire.subscribe("magnitude >= 6") as quakes:
        wire.publish({"class": "QUAKE", "magnitude": 6.4})
        for event in quakes:
            print(event["magnitude"], event.latency)
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from tidewire.live.channels import ChannelNotification, ChannelSubscription, FoundCallback
from tidewire.live.connect import Listener, Wire
from tidewire.live.connect import connect as connect_async
from tidewire.live.credentials import Credentials
from tidewire.live.durable import Since
from tidewire.live.inbox import Inbox
from tidewire.live.notification import Notification
from tidewire.live.subscription import Callback, FilterLike, Subscription
from tidewire.live.worth import KEYWORDS, UtilityLike
from tidewire.model.errors import UsageError
from tidewire.model.events import Event

_TAKEN_AT_ONCE: Final = 256
_Result = TypeVar("_Result")
_Come = TypeVar("_Come")


class SyncInbox(Generic[_Come]):
    """What comes of a subscription: iterate over it, or ``get`` the next one. It is confirmed from the start."""

    _AT_ONCE = 1
    """One that is taken counts as done when the next one is: so no more than it is taken for whoever asks."""

    def __init__(self, wire: SyncWire, inbox: Inbox[_Come]) -> None:
        self._wire = wire
        self._inbox = inbox
        self._taken: deque[_Come] = deque()

    def __enter__(self) -> Self:
        return self

    def __iter__(self) -> Iterator[_Come]:
        while True:
            try:
                yield self.get()
            except StopIteration:
                return

    def get(self, timeout: float | None = None) -> _Come:
        """The next one; TimeoutError if none comes within so many seconds."""
        if not self._taken:
            self._taken.extend(self._wire._run(self._take(timeout)))
        if not self._taken:
            raise StopIteration
        return self._taken.popleft()

    async def _take(self, timeout_s: float | None) -> list[_Come]:
        """One, when it comes, and those that are there already."""
        try:
            taken = [await self._inbox.get(timeout_s)]
        except StopAsyncIteration:
            return []
        while self._inbox.waiting and len(taken) < self._AT_ONCE:
            taken.append(await self._inbox.get())
        return taken


class SyncSubscription(SyncInbox[Notification]):
    """What matches a filter."""

    def __init__(self, wire: SyncWire, subscription: Subscription) -> None:
        super().__init__(wire, subscription)
        self._subscription = subscription
        self._AT_ONCE = _TAKEN_AT_ONCE if subscription.durable is None else 1

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()

    @property
    def position(self) -> dict[str, int]:
        """Of a durable one: where it is in each stream. Kept with your own state, it is where to go on."""
        return self._subscription.position

    def change(self, wanted: FilterLike) -> None:
        """Another filter in place of this one: no event that matches both is missed, none comes twice."""
        self._wire._run(self._subscription.change(wanted))

    def unsubscribe(self) -> None:
        """No more."""
        self._wire._run(self._subscription.unsubscribe())


class SyncChannelSubscription(SyncInbox[ChannelNotification]):
    """What a channel finds."""

    def __init__(self, wire: SyncWire, subscription: ChannelSubscription) -> None:
        super().__init__(wire, subscription)
        self._subscription = subscription

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wire._run(self._subscription.__aexit__(kind, error, trace))

    def unsubscribe(self) -> None:
        """No more for now; with a name, what comes meanwhile is owed to the next who has it."""
        self._wire._run(self._subscription.unsubscribe())

    def forget(self) -> None:
        """No more for ever: nothing is kept for its name."""
        self._wire._run(self._subscription.forget())


class SyncWire:
    """A session with a broker network, for one or more threads."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="tidewire", daemon=True)
        self._thread.start()
        try:
            self._run(self._wire.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(self._wire.__aexit__(kind, error, trace))

    def close(self) -> None:
        """End the session: its broker has read what was published. Unavailable if it does not in time."""
        self._close(self._wire.close())

    def _close(self, closing: Coroutine[Any, Any, None]) -> None:
        if self._loop is None:
            closing.close()
            return
        try:
            self._run(closing)
        finally:
            self._end()

    def _end(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        assert loop is not None
        assert thread is not None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _run(self, task: Coroutine[Any, Any, _Result]) -> _Result:
        if self._loop is None:
            task.close()
            raise UsageError("enter it first: with tidewire.sync.connect(...) as wire")
        if threading.current_thread() is self._thread:
            task.close()
            raise UsageError("a callback runs in the session's own thread, which it would wait for: use another thread")
        running = asyncio.run_coroutine_threadsafe(task, self._loop)
        try:
            return running.result()
        except BaseException:  # Ctrl-C, for instance: nobody waits for it any more
            running.cancel()
            raise

    def publish(
        self,
        attributes: Mapping[str, Any] | Event,
        *,
        body: bytes | None = None,
        content_type: str | None = None,
        guaranteed: bool | None = None,
        deadline_s: float | None = None,
        value: float | None = None,
    ) -> None:
        """Publish an event. It waits while the broker has no room; if it is guaranteed, until it is durable.

        ``deadline_s``, ``value``: as of ``tidewire.connect``.
        """
        what: dict[str, Any] = {"body": body, "content_type": content_type, "guaranteed": guaranteed}
        self._run(self._wire.publish(attributes, **what, deadline_s=deadline_s, value=value))

    def publish_many(
        self,
        events: Iterable[Mapping[str, Any] | Event],
        *,
        guaranteed: bool | None = None,
        deadline_s: float | None = None,
        value: float | None = None,
    ) -> int:
        """Publish events one after the other; how many there were. Guaranteed ones are all durable then."""
        return self._run(self._wire.publish_many(events, guaranteed=guaranteed, deadline_s=deadline_s, value=value))

    @property
    def late(self) -> int:
        """How many events have come after their deadline."""
        return self._wire.late

    def flush(self) -> None:
        """Wait until the broker has handled all that was published here."""
        self._run(self._wire.flush())

    def advertise(self, offered: FilterLike, *, delay_s: float | None = None, value: float | None = None) -> None:
        """Say what will be published: then only that may be. ``delay_s``, ``value``: as of ``tidewire.connect``."""

        async def advertised() -> None:
            await self._wire.advertise(offered, delay_s=delay_s, value=value)

        self._run(advertised())

    def subscribe(
        self,
        wanted: FilterLike,
        callback: Callback | None = None,
        *,
        durable: str | None = None,
        since: Since = "now",
        position: Mapping[str, int] | None = None,
        delay_s: float | None = None,
        weight: float | None = None,
        keywords: Iterable[str] = (),
        keywords_in: Iterable[str] = (KEYWORDS,),
        utility: UtilityLike | None = None,
    ) -> SyncSubscription:
        """A subscription, confirmed. A callback is called in the session's own thread.

        All arguments are as of ``tidewire.connect``.
        """

        async def subscribed() -> Subscription:
            owed = self._wire.subscribe(
                wanted,
                callback,
                durable=durable,
                since=since,
                position=position,
                delay_s=delay_s,
                weight=weight,
                keywords=keywords,
                keywords_in=keywords_in,
                utility=utility,
            )
            return await owed

        return SyncSubscription(self, self._run(subscribed()))

    def channel(
        self,
        channel: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        callback: FoundCallback | None = None,
        **given: Any,
    ) -> SyncChannelSubscription:
        """A subscription to a channel, confirmed; as of ``tidewire.connect``. A callback is called in the session's own
        thread."""

        async def opened() -> ChannelSubscription:
            return await self._wire.channel(channel, parameters, name=name, callback=callback, **given)

        return SyncChannelSubscription(self, self._run(opened()))

    def forget(self, durable: str) -> None:
        """No event need be kept for this name any more."""
        self._run(self._wire.forget(durable))

    @property
    def wire(self) -> Wire:
        """The session itself: what it noticed, and where it is served."""
        return self._wire


def connect(
    address: str | list[str] | None = None,
    *,
    coordinator: str | None = None,
    location: tuple[float, float] | None = None,
    name: str = "client",
    timeout: float = 10.0,
    on_notice: Listener | None = None,
    token: str | None = None,
    credentials: Credentials | None = None,
    guaranteed: bool = False,
) -> SyncWire:
    """A blocking session with the network that these brokers belong to. Enter it with ``with``.

    All is as of ``tidewire.connect``. Callbacks, ``on_notice`` too, run in a thread of the session.
    """
    return SyncWire(
        connect_async(
            address,
            coordinator=coordinator,
            location=location,
            name=name,
            timeout=timeout,
            on_notice=on_notice,
            token=token,
            credentials=credentials,
            guaranteed=guaranteed,
        )
    )
