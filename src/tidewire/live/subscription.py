"""What comes of a subscription: events as they came, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tidewire.client.events import FollowAs, SubscribeTo
from tidewire.language import compile_filter
from tidewire.live.durable import Durable
from tidewire.live.inbox import Inbox
from tidewire.live.notification import Notification
from tidewire.live.worth import Judge
from tidewire.model.filters import Filter, encode_filter
from tidewire.model.traffic import NO_TERMS, Terms

if TYPE_CHECKING:
    from tidewire.live.connect import Wire

FilterLike = str | Filter
Callback = Callable[[Notification], None]


class Subscription(Inbox[Notification]):
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
        terms: Terms = NO_TERMS,
        judge: Judge | None = None,
    ) -> None:
        super().__init__(wire, number, callback)
        self.filter = compile_filter(wanted) if isinstance(wanted, str) else wanted
        self.durable = durable
        self.terms = terms
        self.judge = judge
        """What an event is worth to it, if it says so."""
        self._places: dict[int, int] = {}

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
            return SubscribeTo(token, [self.number], filters, [] if self.terms == NO_TERMS else [self.terms])
        begin = durable.name, durable.since_ms, durable.places
        return FollowAs(token, self.number, filters[0], *begin, terms=self.terms)

    async def change(self, wanted: FilterLike) -> None:
        """Another filter in place of this one: no event that matches both is missed, none comes twice.

        What has come and waits to be read is handed over only if it matches the other filter too. A durable one goes on
        behind the last event that it got.
        """
        changed = compile_filter(wanted) if isinstance(wanted, str) else wanted
        await self._wire._change(self, changed)
        self.filter = changed
        self._keep(lambda come: changed.accepts(come.event.attributes))

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

    @property
    def position(self) -> dict[str, int]:
        """Of a durable one: where it is in each stream, behind the last event that you got. Kept with your own state,
        it is where to go on."""
        places = self._wire._begun(self.number) | self._places
        return {f"{pubend:016x}": tick for pubend, tick in places.items()}

    def _handed_over(self, come: Notification) -> None:
        envelope = come.event.envelope
        if self.durable is not None and envelope.pubend is not None and envelope.tick is not None:
            self._places[envelope.pubend] = envelope.tick + 1

    def _taken(self, come: Notification) -> None:
        if self.durable is not None:
            self._wire._taken(self.number, come.event)
