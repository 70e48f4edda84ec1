"""What has come for one subscription, and who waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tidewire.model.errors import FollowedElsewhere, TidewireError, UsageError

if TYPE_CHECKING:
    from tidewire.live.connect import Wire

WAITING_MAX: Final = 10_000
"""What may wait to be read from a subscription; then the broker is not read until half of it is."""

_Come = TypeVar("_Come")


class Inbox(Generic[_Come]):
    """An asynchronous iterator over what comes; or a callback, which is called with it."""

    def __init__(self, wire: Wire, number: int, callback: Callable[[_Come], None] | None) -> None:
        if callback is not None and (iscoroutinefunction(callback) or iscoroutinefunction(type(callback).__call__)):
            raise UsageError(
                "a callback is a plain function, and nobody would await this one: "
                "iterate over the subscription, or start a task in the callback"
            )
        self._wire = wire
        self.number = number
        self._callback = callback
        self._last: _Come | None = None
        """What the application was handed last, and is at work on."""
        self._come: deque[_Come] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._is_over = False
        self._error: TidewireError | None = None
        """Why it has ended, if nobody wanted it to."""

    # -- for each kind of subscription ---------------------------------------------------------------------------------

    def _handed_over(self, come: _Come) -> None:
        """The application gets this."""

    def _taken(self, come: _Come) -> None:
        """The application is done with this."""

    # -- for the application -------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[_Come]:
        return self

    async def __anext__(self) -> _Come:
        self._done()
        while not self._come:
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
        come = self._last = self._come.popleft()
        self._handed_over(come)
        if len(self._come) == WAITING_MAX // 2:
            self._wire._caught_up()
        return come

    async def get(self, timeout: float | None = None) -> _Come:  # noqa: ASYNC109 - what people look for
        """The next one; TimeoutError if none comes within so many seconds."""
        async with asyncio.timeout(timeout):
            return await self.__anext__()

    @property
    def waiting(self) -> int:
        """How many wait to be read?"""
        return len(self._come)

    # -- for the session -----------------------------------------------------------------------------------------------

    def _done(self) -> None:
        """The application is done with the last one."""
        last, self._last = self._last, None
        if last is not None:
            self._taken(last)

    def _put(self, come: _Come) -> None:
        if self._callback is not None:
            self._call(self._callback, come)
            return
        self._come.append(come)
        self._wake()
        if len(self._come) >= WAITING_MAX:
            self._wire._fell_behind()

    def _keep(self, is_wanted: Callable[[_Come], bool]) -> None:
        """Of what waits only this is still wanted."""
        self._come = deque(come for come in self._come if is_wanted(come))
        self._wire._caught_up()

    def _call(self, callback: Callable[[_Come], None], come: _Come) -> None:
        self._handed_over(come)
        try:
            callback(come)
        except Exception as error:  # noqa: BLE001 - whatever it is, what else comes is not to blame
            context = {"message": f"the callback of subscription {self.number} has failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        self._taken(come)

    def _wake(self) -> None:
        """One who waits, if there is one."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _end(self, error: TidewireError | None = None) -> None:
        """Nothing more comes: nobody is to wait for it. What was not read of a name is for who has that now."""
        self._is_over = True
        self._error = self._error or error
        if isinstance(error, FollowedElsewhere):
            self._come.clear()
            self._wire._caught_up()
        for _ in range(len(self._waiters)):
            self._wake()
