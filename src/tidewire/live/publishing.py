"""How a session publishes: what it has said it will, and one event after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidewire._kernel.codec import encode
from tidewire.client.events import FlushAll
from tidewire.language import compile_filter
from tidewire.live.advertisement import Advertisement, outside
from tidewire.live.clock import now
from tidewire.live.receipts import publish_all
from tidewire.live.session import Request, Session
from tidewire.live.subscription import FilterLike
from tidewire.model.errors import EventTooLarge, NotAdvertised, Unavailable, UsageError, error_of
from tidewire.model.events import Event, make_event, with_deadline
from tidewire.model.filters import Filter
from tidewire.model.traffic import terms_of
from tidewire.model.values import Value
from tidewire.wire.frames import excess, publish_frame


class Publishing:
    """That half of a session (``connect.py``)."""

    def __init__(self, *, guaranteed: bool) -> None:
        self._is_guaranteed = guaranteed
        self._session_: Session | None = None
        self._numbers = 0
        """Of subscriptions and advertisements, the last one that was given."""
        self._is_advertised = False
        self._offers: dict[int, Filter] = {}
        self._covers: dict[int, Callable[[Mapping[str, Value]], bool]] = {}
        """By number, of all that is advertised: does an event belong to it?"""
        self._unadvertised = 0
        """Those who wait for that."""
        self._advertising = asyncio.Lock()

    @property
    def _session(self) -> Session:
        if self._session_ is None:
            raise UsageError("enter it first: async with tidewire.connect(...) as wire")
        return self._session_

    async def _ask(self, make: Request, *, take_back: Request | None = None) -> None:
        await self._session.ask(make, take_back=take_back)

    async def publish(
        self,
        attributes: Mapping[str, Any] | Event,
        *,
        body: bytes | None = None,
        content_type: str | None = None,
        guaranteed: bool | None = None,
        deadline_s: float | None = None,
        value: float | None = None,
    ) -> None:
        """Publish an event. It waits while the broker has no room: that is back-pressure.

        ``deadline_s``: it is of use for so long from now on. Brokers send what is due first ahead of the rest, and
        throw it away when it is late, unless it is guaranteed. ``value``: what it is worth, from 0 to 1.
        ``guaranteed``: it returns when the event is durable, and then the event is not lost; else it is best effort.
        None: as the session was opened.

        Overloaded if there is not enough of everything and this class of ours has to give way: it says how much of it
        may be published, why, and when to try again. What nobody wants at all is not sent, as far as the broker has
        said so (``unwanted``).
        Unavailable if no broker can be reached for the session's timeout. For a guaranteed event, it is InDoubt if the
        event was sent and has no receipt, so that it may have been taken; any other error says that it was not.
        """
        event = (
            attributes
            if isinstance(attributes, Event)
            else make_event(attributes, body=body, content_type=content_type)
        )
        event = with_deadline(event, deadline_s=deadline_s, value=value)
        session = self._session
        is_guaranteed = self._is_guaranteed if guaranteed is None else guaranteed
        restraint, kind = session.core.valuing.restraint, None
        if restraint is not None:  # nothing has been made of it so far
            kind = restraint.check(event.attributes, is_guaranteed=is_guaranteed, offers=self._covers, now_ns=now())
            if kind is None:
                return
        encoded = encode(event)
        if restraint is not None and kind is not None:
            restraint.sent(kind, len(encoded))
        if is_guaranteed:
            try:
                if not self._is_advertised or self._unadvertised:
                    await self._advertise_anything()
            except Unavailable as error:
                raise error_of(error.code, f"a guaranteed event was not sent: {error.message}") from None
            try:
                await session.guarantee(encoded, born_ns=now())
            except NotAdvertised:
                raise outside(event, self._offers.values()) from None
            return
        if not self._is_advertised or not session.can_publish:
            await self._until_it_can_publish(session)
        frame = publish_frame(encoded, born_ns=now())
        bytes_max = session.core.frame_bytes_max("publish")
        if bytes_max is not None and (why := excess(len(encoded), bytes_max, is_guaranteed=False)):
            raise EventTooLarge(why)
        if session.publish(frame):
            await asyncio.sleep(0)

    async def publish_many(
        self,
        events: Iterable[Mapping[str, Any] | Event],
        *,
        guaranteed: bool | None = None,
        deadline_s: float | None = None,
        value: float | None = None,
    ) -> int:
        """Publish events one after the other; how many there were. ``deadline_s``, ``value``: of each.

        Guaranteed ones do not wait for each other's receipts: when it returns, all are durable. When one fails no more
        are begun; the error says which, counted from 1, and how many of the others were taken.
        """
        if deadline_s is not None or value is not None:
            made = (one if isinstance(one, Event) else make_event(one) for one in events)
            events = (with_deadline(one, deadline_s=deadline_s, value=value) for one in made)
        return await publish_all(self, events, guaranteed=self._is_guaranteed if guaranteed is None else guaranteed)

    @property
    def publisher(self) -> int:
        """The number that our events carry, by which brokers and subscribers tell publishers apart."""
        return self._session.publisher

    @property
    def pace(self) -> float | None:
        """How many guaranteed events a second are taken from all who share our stream; None: any number."""
        return self._session.core.pace

    @property
    def limits(self) -> dict[str, tuple[float, str]]:
        """How many events a second may be published of a class, and why: of those that have to give way."""
        restraint = self._session.core.valuing.restraint
        return {} if restraint is None else {str(key): limit for key, limit in restraint.limits.items()}

    @property
    def unwanted(self) -> int:
        """How many events were not sent because nobody wants them, at the broker where we publish."""
        restraint = self._session.core.valuing.restraint
        return 0 if restraint is None else restraint.unwanted

    @property
    def next_sequence(self) -> int:
        """The number of the event that is published next: notices of refused events name them so."""
        return self._session.next_sequence

    async def flush(self) -> None:
        """Wait until the broker has handled all that was published here."""
        await self._ask(FlushAll)

    def advertise(
        self, offered: FilterLike, *, delay_s: float | None = None, value: float | None = None
    ) -> Advertisement:
        """Say what will be published: then only that may be, and only those who may want it are asked.

        An event may have the attributes that are named in it, and no others; ``a is not null``: any value of ``a``.

        ``delay_s``: what is published is of use for so long; brokers that balance by delays mind it.
        ``value``: what it is worth, from 0 to 1.
        """
        self._numbers += 1
        wanted = compile_filter(offered) if isinstance(offered, str) else offered
        return Advertisement(self, self._numbers, wanted, terms_of(delay_s=delay_s, value=value))

    async def _until_it_can_publish(self, session: Session) -> None:
        """Who has not said what it will publish may publish anything; and there must be room."""
        while True:
            if not self._is_advertised:
                await self._advertise_anything()
            elif not session.can_publish:
                await session.until_it_may_go_on()
            else:
                return

    async def _advertise_anything(self) -> None:
        self._unadvertised += 1
        try:
            async with self._advertising:  # whoever came first goes on first
                if not self._is_advertised:
                    self._numbers += 1
                    await Advertisement(self, self._numbers, None)
        finally:
            self._unadvertised -= 1
