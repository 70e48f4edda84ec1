"""What comes of a subscription: events as they came, one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from tidewire.client.events import FollowAs, SubscribeTo
from tidewire.language import compile_filter
from tidewire.live.durable import Durable
from tidewire.live.notification import Notification
from tidewire.model.errors import TidewireError, UsageError
from tidewire.model.filters import Filter, encode_filter

if TYPE_CHECKING:
    from tidewire.live.connect import Wire

EVENTS_MAX: Final = 10_000
"""What may wait to be read from a subscription; then the broker is not read until half of it is."""

FilterLike = str | Filter
Callback = Callable[[Notification], None]


class Subscription:
    """What matches a filter, as an asynchronous iterator, or by a callback.

    ``await`` it or enter it with ``async with``: then it is confirmed, and every event that is published from then
    on, anywhere, will come. Leaving the block unsubscribes.
    """

    def __init__(
        self,
        wire: Wire,
        number: int,
        wanted: FilterLike,
        callback: Callback | None,
        durable: Durable | None = None,
    ) -> None:
        if callback is not None and (iscoroutinefunction(callback) or iscoroutinefunction(type(callback).__call__)):
            raise UsageError(
                "a callback is a plain function, and nobody would await this one: "
                "iterate over the subscription, or start a task in the callback"
            )
        self._wire = wire
        self.number = number
        self.filter = compile_filter(wanted) if isinstance(wanted, str) else wanted
        self._callback = callback
        self.durable = durable
        self._places: dict[int, int] = {}
        self._last: Notification | None = None
        """What the application was handed last, and is at work on."""
        self._events: deque[Notification] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._is_over = False
        self._error: TidewireError | None = None
        """Why it has ended, if nobody wanted it to."""

    def __await__(self) -> Generator[Any, None, Self]:
        return self._subscribed().__await__()

    async def __aenter__(self) -> Self:
        return await self._subscribed()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._last = None  # whoever leaves because of an error is not done with it
        await self.unsubscribe()

    async def _subscribed(self) -> Self:
        await self._wire._subscribe(self)
        return self

    def asks(self, token: int, wanted: Filter) -> SubscribeTo | FollowAs:
        """What is asked for: this filter, by this number, and by its name if it has one."""
        filters, durable = [encode_filter(wanted)], self.durable
        if durable is None:
            return SubscribeTo(token, [self.number], filters)
        return FollowAs(token, self.number, filters[0], durable.name, durable.since_ms, durable.places)

    async def change(self, wanted: FilterLike) -> None:
        """Another filter in place of this one: no event that matches both is missed, none comes twice.

        A durable one goes on behind the last event that it got, with what matches the other filter.
        """
        changed = compile_filter(wanted) if isinstance(wanted, str) else wanted
        await self._wire._change(self, changed)
        self.filter = changed

    async def unsubscribe(self) -> None:
        """No more. What has come can still be read; of a durable one, the last event that you got is done by this."""
        if self._is_over:
            return
        self._is_over = True
        self._done()
        try:
            await self._wire._unsubscribe(self)
        except BaseException:
            self._is_over = False  # it stands: it can be tried again
            raise
        self._end()

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self

    @property
    def position(self) -> dict[str, int]:
        """Of a durable one: where it is in each stream, behind the last event that you got. Kept with your own state,
        it is where to go on."""
        places = self._wire._begun(self.number) | self._places
        return {f"{pubend:016x}": tick for pubend, tick in places.items()}

    def _handed_over(self, notification: Notification) -> None:
        envelope = notification.event.envelope
        if self.durable is not None and envelope.pubend is not None and envelope.tick is not None:
            self._places[envelope.pubend] = envelope.tick + 1

    def _done(self) -> None:
        """The application is done with the last event."""
        if self._last is not None and self.durable is not None:
            self._wire._taken(self.number, self._last.event)
        self._last = None

    async def __anext__(self) -> Notification:
        self._done()
        while not self._events:
            if self._error is not None:
                raise self._error
            if self._is_over:
                raise StopAsyncIteration
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except BaseException:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                elif not waiter.cancelled():
                    self._wake()  # what it was woken for is somebody else's
                raise
        event = self._last = self._events.popleft()
        self._handed_over(event)
        if len(self._events) == EVENTS_MAX // 2:
            self._wire._caught_up()
        return event

    async def get(self, timeout: float | None = None) -> Notification:  # noqa: ASYNC109 - what people look for
        """The next event; TimeoutError if none comes within so many seconds."""
        async with asyncio.timeout(timeout):
            return await self.__anext__()

    @property
    def waiting(self) -> int:
        """How many events wait to be read?"""
        return len(self._events)

    def _put(self, notification: Notification) -> None:
        if self._callback is not None:
            self._call(self._callback, notification)
            return
        self._events.append(notification)
        self._wake()
        if len(self._events) >= EVENTS_MAX:
            self._wire._fell_behind()

    def _call(self, callback: Callback, notification: Notification) -> None:
        self._handed_over(notification)
        try:
            callback(notification)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other events are not to blame
            context = {"message": f"the callback of subscription {self.number} has failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        if self.durable is not None:
            self._wire._taken(self.number, notification.event)

    def _wake(self) -> None:
        """One who waits for an event, if there is one."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _end(self, error: TidewireError | None = None) -> None:
        """Nothing more comes: nobody is to wait for it."""
        self._is_over = True
        self._error = self._error or error
        for _ in range(len(self._waiters)):
            self._wake()
