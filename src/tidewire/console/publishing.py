"""Publishing for those who come with a request: sessions that are kept for the next one, a few for each identity."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec

from tidewire.client.events import Tell
from tidewire.console.documents import Accepted, RefusedEvent
from tidewire.console.network import PATIENCE_S, Network
from tidewire.live.connect import Wire
from tidewire.live.credentials import Credentials
from tidewire.model.errors import Overloaded, TidewireError, Unavailable, UsageError, error_of
from tidewire.model.events import Event

EVENTS_MAX: Final = 10_000
"""In one request."""

SESSIONS_MAX: Final = 64
SESSIONS_EACH: Final = 4
"""Of one identity: so many of its requests are carried out at the same time."""
IDLE_S: Final = 30.0

Offered = Event | UsageError
"""An event, or why there is none at this place of the request."""


class Refusals:
    """What the broker says of events that it does not take."""

    def __init__(self) -> None:
        self._heard: list[Tell] = []

    def heard(self, notice: Tell) -> None:
        """A notice of the session."""
        if notice.what == "events refused":
            self._heard.append(notice)

    def taken(self) -> list[Tell]:
        """Those since the last time."""
        heard, self._heard = self._heard, []
        return heard


async def publish(wire: Wire, offered: Sequence[Offered], refusals: Refusals, *, guaranteed: bool = False) -> Accepted:
    """Publish what can be, wait until the broker has it, or it is durable, and say what became of each.

    Raises the error of the first one if nothing was taken at all. Only one at a time on one session.
    """
    refusals.taken()
    if guaranteed:
        return await _guarantee(wire, offered)
    refused: dict[int, tuple[str, str]] = {}
    sent: dict[int, int] = {}
    try:
        async with asyncio.timeout(PATIENCE_S * 2):
            for index, one in enumerate(offered):
                try:
                    if isinstance(one, UsageError):
                        raise one
                    await wire.publish(one)
                    sent[wire.next_sequence - 1] = index
                except UsageError as error:
                    refused[index] = error.code, error.message
            if sent:
                await wire.flush()
    except TimeoutError:
        raise Unavailable("the broker does not take events at present") from None
    further = 0
    for notice in refusals.taken():
        named = [sent[sequence] for sequence in notice.sequences if sequence in sent]
        refused |= dict.fromkeys(named, (str(notice.facts["code"]), str(notice.facts["reason"])))
        further += int(notice.facts["events"]) - len(notice.sequences)
    accepted = max(0, len(offered) - len(refused) - further)
    if offered and not accepted and refused:
        raise error_of(*refused[min(refused)])
    listed = [RefusedEvent(index=index, code=code, message=why) for index, (code, why) in sorted(refused.items())]
    return Accepted(accepted=accepted, refused=listed, further_refused=further)


async def _guarantee(wire: Wire, offered: Sequence[Offered]) -> Accepted:
    async def one(event: Offered) -> None:
        if isinstance(event, UsageError):
            raise event
        await wire.publish(event, guaranteed=True)

    try:
        async with asyncio.timeout(PATIENCE_S * 2):
            made = await asyncio.gather(*map(one, offered), return_exceptions=True)
    except TimeoutError:
        raise Unavailable("not all were durable in time: some may have been taken, so say them again") from None
    failed = {index: error for index, error in enumerate(made) if error is not None}
    for error in failed.values():
        if not isinstance(error, TidewireError) or len(failed) == len(offered):
            raise error
    listed = [
        RefusedEvent(index=index, code=error.code, message=error.message)
        for index, error in failed.items()
        if isinstance(error, TidewireError)
    ]
    return Accepted(accepted=len(offered) - len(listed), refused=listed)


class _Publisher(msgspec.Struct, eq=False):
    wire: Wire
    refusals: Refusals
    ending: asyncio.TimerHandle | None = None


class _Shelf(msgspec.Struct, eq=False):
    """The sessions of one identity."""

    turns: asyncio.Semaphore
    idle: list[_Publisher]
    users: int = 0


class Publishers:
    """Sessions to publish on, by identity; those that nobody needs for a while are closed."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._shelves: dict[Credentials, _Shelf] = {}
        self._count = 0
        self._closing: dict[asyncio.Task[None], None] = {}

    async def publish(
        self, credentials: Credentials, offered: Sequence[Offered], *, guaranteed: bool = False
    ) -> Accepted:
        """What became of the events of one request."""
        async with self._borrowed(credentials) as publisher:
            return await publish(publisher.wire, offered, publisher.refusals, guaranteed=guaranteed)

    @asynccontextmanager
    async def _borrowed(self, credentials: Credentials) -> AsyncIterator[_Publisher]:
        shelf = self._shelves.setdefault(credentials, _Shelf(asyncio.Semaphore(SESSIONS_EACH), []))
        shelf.users += 1
        try:
            async with shelf.turns:
                publisher = self._from(shelf) or await self._opened(credentials)
                try:
                    yield publisher
                except UsageError:
                    self._back(credentials, shelf, publisher)
                    raise
                except BaseException:
                    self._close(publisher)
                    raise
                self._back(credentials, shelf, publisher)
        finally:
            shelf.users -= 1
            self._tidy(credentials, shelf)

    def _from(self, shelf: _Shelf) -> _Publisher | None:
        if not shelf.idle:
            return None
        publisher = shelf.idle.pop()
        if publisher.ending is not None:
            publisher.ending.cancel()
        return publisher

    def _back(self, credentials: Credentials, shelf: _Shelf, publisher: _Publisher) -> None:
        loop = asyncio.get_running_loop()
        publisher.ending = loop.call_later(IDLE_S, self._idle_too_long, credentials, publisher)
        shelf.idle.append(publisher)

    async def _opened(self, credentials: Credentials) -> _Publisher:
        if self._count >= SESSIONS_MAX and not self._close_an_idle_one():
            raise Overloaded("many identities publish here at once: try again", retry_after_s=1.0)
        self._count += 1
        refusals = Refusals()
        try:
            wire = await self._network.wire(credentials, name="http publish", on_notice=refusals.heard)
            return _Publisher(await wire.__aenter__(), refusals)
        except BaseException:
            self._count -= 1
            raise

    def _close_an_idle_one(self) -> bool:
        for credentials, shelf in self._shelves.items():
            if publisher := self._from(shelf):
                self._close(publisher)
                self._tidy(credentials, shelf)
                return True
        return False

    def _idle_too_long(self, credentials: Credentials, publisher: _Publisher) -> None:
        shelf = self._shelves[credentials]
        shelf.idle.remove(publisher)
        self._close(publisher)
        self._tidy(credentials, shelf)

    def _tidy(self, credentials: Credentials, shelf: _Shelf) -> None:
        if not shelf.users and not shelf.idle and self._shelves.get(credentials) is shelf:
            del self._shelves[credentials]

    def _close(self, publisher: _Publisher) -> None:
        self._count -= 1
        task = asyncio.ensure_future(_closed(publisher.wire))
        self._closing[task] = None
        task.add_done_callback(self._closing.pop)

    async def close(self) -> None:
        """End them all."""
        while self._close_an_idle_one():
            pass
        await asyncio.gather(*self._closing)


async def _closed(wire: Wire) -> None:
    with suppress(TidewireError):
        await wire.close()
