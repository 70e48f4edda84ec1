"""``tidewire.connect``: publish and subscribe from an asyncio program.

async with tidewire.connect("127.0.0.1:7600") as wire:
    async with wire.subscribe("class = 'QUAKE' and magnitude >= 6") as quakes:
        await wire.publish({"class": "QUAKE", "magnitude": 6.4})
        async for event in quakes:
            print(event["magnitude"], event.latency)
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from tidewire.client.config import ClientConfig
from tidewire.client.events import (
    Connect,
    SubscribeTo,
    Tell,
    UnfollowFor,
    UnsubscribeFrom,
)
from tidewire.live.channels import ChannelSubscription, ChannelSubscriptions, FoundCallback
from tidewire.live.clock import now
from tidewire.live.credentials import Credentials, context_for
from tidewire.live.durable import Durable, Since, check_name
from tidewire.live.inbox import WAITING_MAX
from tidewire.live.notification import Notification
from tidewire.live.publishing import Publishing
from tidewire.live.session import Session
from tidewire.live.sockets import DEFAULT_PORT, parse_address
from tidewire.live.subscription import Callback, FilterLike, Subscription
from tidewire.live.worth import KEYWORDS, UtilityLike, judge_of
from tidewire.model.errors import TidewireError, Unavailable, UsageError
from tidewire.model.events import Event
from tidewire.model.filters import Filter, encode_filter
from tidewire.model.ids import PubendId, Tick
from tidewire.model.traffic import terms_of
from tidewire.wire.frames import Delivered

NOTICES_MAX: Final = 1000
Listener = Callable[[Tell], None]


class Wire(Publishing):
    """A session with a broker network: at most one connection to publish on and one to subscribe on."""

    def __init__(
        self, config: ClientConfig, *, on_notice: Listener | None, credentials: Credentials, guaranteed: bool
    ) -> None:
        super().__init__(guaranteed=guaranteed)
        if not (given := config.began_with()):
            raise UsageError("a session needs the address of a broker, such as 127.0.0.1:7600")
        for address in given:
            parse_address(address)
        self._config = config
        self._security = context_for(given, credentials)
        self._subscriptions: dict[int, Subscription] = {}
        self._channels = ChannelSubscriptions(self)
        self._is_behind = False
        self._over: TidewireError | None = None
        self._waits_for_end: asyncio.Event | None = None
        self.late = 0
        """How many events have come after their deadline."""
        self.notices: deque[Tell] = deque(maxlen=NOTICES_MAX)
        """What happened on the way: events lost or refused, moves, lost connections. The newest last."""
        self._on_notice = on_notice

    async def __aenter__(self) -> Self:
        self._session_ = Session(
            self._config,
            on_event=self._came,
            on_notice=self._noticed,
            on_over=self._is_over,
            on_ended=self._has_ended,
            on_notified=self._channels.notified,
            security=self._security,
        )
        try:
            await self._session.ask(Connect)
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close(is_orderly=kind is None)
        except Unavailable:  # it is among the notices
            if kind is None:
                raise

    async def close(self, *, is_orderly: bool = True) -> None:
        """End the session: its subscriptions end, its broker has read what was published, or has given its receipt.

        ``is_orderly``: the last event of each durable subscription is done by this. With an error it is not.

        Unavailable if that does not come to pass within the session's timeout: it says how many events may be lost.
        """
        for inbox in self._inboxes() if is_orderly else ():
            inbox._done()
        try:
            if self._session_ is not None:
                self._channels.tell_taken()
                await self._session_.close()
        finally:
            for inbox in self._inboxes():
                inbox._end()

    def _inboxes(self) -> list[Subscription | ChannelSubscription]:
        return [*self._subscriptions.values(), *self._channels.all()]

    @property
    def publishing_at(self) -> str | None:
        """The broker that takes what is published."""
        return self._session.core.broker("publish")

    @property
    def subscribed_at(self) -> str | None:
        """The broker that serves the subscriptions."""
        return self._session.core.broker("subscribe")

    # -- subscribing ---------------------------------------------------------------------------------------------------

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
    ) -> Subscription:
        """A subscription: ``await`` it or enter it. With a callback, each event is handed to it; else iterate.

        A callback is a plain function, called as events come: one that has to wait iterates, or starts a task.

        ``durable``: a name. By it the subscription is owed every guaranteed event that matches, in order and once per
        stream, also those from while nobody is here: it goes on where it was, at whatever broker. An event counts as
        done when the next one is asked for, when the callback returns or raises, or at an orderly end.
        ``since``: where a name that is new begins: "now", "earliest", or a time in seconds since 1970.
        ``position``: where to go on, if you know better than the brokers (``Subscription.position``).
        ``delay_s``: an event is of use for so long after it was published; brokers that balance by delays mind it.
        ``weight``: how much your opinion of events counts beside others', from 0 to 1, which is the most it can.
        ``keywords``: what you are interested in. The more of them an event has, and the less else, the more it is worth
        to you; when there is not enough for all, publishers that are worth least give way. ``keywords_in``: the
        attributes whose words are the keywords of an event.
        ``utility``: what an event is worth to you in another way, from 0 to 1: a function of the event, or an
        expression over its attributes, such as ``"0.1 * magnitude"``.
        """
        if durable is None and (since != "now" or position is not None):
            raise UsageError("since and position are for durable subscriptions: give it a name with durable")
        self._numbers += 1
        name = None if durable is None else Durable(durable, since=since, position={} if position is None else position)
        judge = judge_of(keywords, keywords_in, utility)
        terms = terms_of(delay_s=delay_s, weight=weight)
        return Subscription(self, self._numbers, wanted, callback, name, terms, judge)

    async def subscribe_many(
        self,
        wanted: Iterable[FilterLike],
        callback: Callback | None = None,
        *,
        delay_s: float | None = None,
        keywords: Iterable[str] = (),
        utility: UtilityLike | None = None,
    ) -> list[Subscription]:
        """Many subscriptions in one request; confirmed when it returns. What is said is said of each."""
        words = list(keywords)
        made = [self.subscribe(one, callback, delay_s=delay_s, keywords=words, utility=utility) for one in wanted]
        self._subscriptions.update({subscription.number: subscription for subscription in made})
        numbers = [subscription.number for subscription in made]
        filters = [encode_filter(subscription.filter) for subscription in made]
        terms = [] if delay_s is None else [subscription.terms for subscription in made]
        try:
            await self._ask(
                lambda token: SubscribeTo(token, numbers, filters, terms),
                take_back=lambda token: UnsubscribeFrom(token, numbers),
            )
        except BaseException:
            for number in numbers:
                self._subscriptions.pop(number, None)
            raise
        return made

    async def _subscribe(self, subscription: Subscription) -> None:
        self._subscriptions[subscription.number] = subscription
        try:
            await self._ask(
                lambda token: subscription.asks(token, subscription.filter),
                take_back=lambda token: UnsubscribeFrom(token, [subscription.number]),
            )
        except BaseException:
            self._subscriptions.pop(subscription.number, None)
            self._caught_up()
            raise

    def channel(
        self,
        channel: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        callback: FoundCallback | None = None,
        **given: Any,
    ) -> ChannelSubscription:
        """A subscription to a channel of the data cluster: ``await`` it or enter it, and iterate over what it finds.

        Parameters are given by name, as keywords or, if one is called as an argument here, in ``parameters``.

        ``name``: by it the subscription is owed every result, also those from while nobody is here, once and in order:
        it goes on where it was, at whatever broker. A notification counts as done when the next one is asked for, when
        the callback returns or raises, or at an orderly end.
        """
        self._numbers += 1
        wanted = {**(parameters or {}), **given}
        return ChannelSubscription(self._channels, self._numbers, channel, wanted, name=name, callback=callback)

    async def forget(self, durable: str) -> None:
        """No event need be kept for this name any more."""
        check_name(durable)
        self._numbers += 1
        await self._ask(lambda token: UnfollowFor(token, self._numbers, durable))

    def _begun(self, number: int) -> dict[int, int]:
        following = self._session.core.followings.get(number)
        return {} if following is None else {int(pubend): int(tick) for pubend, tick in following.begun.items()}

    def _taken(self, number: int, event: Event) -> None:
        envelope = event.envelope
        if self._session_ is not None and envelope.pubend is not None and envelope.tick is not None:
            self._session_.taken(number, PubendId(envelope.pubend), Tick(envelope.tick))

    async def _change(self, subscription: Subscription, wanted: Filter) -> None:
        before = subscription.filter
        await self._ask(
            lambda token: subscription.asks(token, wanted), take_back=lambda token: subscription.asks(token, before)
        )

    async def _unsubscribe(self, subscription: Subscription) -> None:
        self._session.tell_taken()
        await self._ask(lambda token: UnsubscribeFrom(token, [subscription.number]))
        self._subscriptions.pop(subscription.number, None)
        self._caught_up()

    # -- what comes ----------------------------------------------------------------------------------------------------

    def _came(self, delivered: Delivered, event: Event, born_ns: int, error_us: int) -> None:
        if delivered.more:
            is_guaranteed = event.envelope.tick is not None  # what is followed comes by itself
            candidates = (one for one in self._subscriptions.values() if not (is_guaranteed and one.durable))
            found = [one for one in candidates if one.filter.accepts(event.attributes)]
        else:
            found = [self._subscriptions[n] for n in delivered.numbers if n in self._subscriptions]
        latency = max(0.0, (now() - born_ns) / 1e9)
        matched = tuple(found)
        notification = Notification(event, latency=latency, latency_error=error_us / 1e6, subscriptions=matched)
        self.late += notification.is_late
        if self._session.core.valuing.is_asked:
            self._judge(event, matched)
        for subscription in matched:
            subscription._put(notification)

    def _judge(self, event: Event, matched: tuple[Subscription, ...]) -> None:
        """What it is worth to whom it is worth most here."""
        valuing, envelope = self._session.core.valuing, event.envelope
        worth = [judged(event) for one in matched if (judged := one.judge) is not None]
        if not worth and valuing.default_utility is not None:
            worth = [valuing.default_utility(event.attributes)]
        found = max((one for one in worth if one is not None), default=None)
        if found is not None:
            source = envelope.pubend if envelope.tick is not None else envelope.tree
            valuing.judged(source or 0, envelope.publisher or 0, event.attributes, found)

    def _has_ended(self, number: int, error: TidewireError) -> None:
        inbox = self._subscriptions.pop(number, None) or self._channels.remove(number)
        if inbox is not None:
            inbox._end(error)
            self._caught_up()  # what it has not read holds up the others no longer

    def _noticed(self, notice: Tell) -> None:
        self.notices.append(notice)
        if self._on_notice is not None:
            self._on_notice(notice)

    def pause_reading(self) -> None:
        """For those whose callbacks cannot keep up: let the broker wait, by its own bounds."""
        self._session.pause_reading()

    def resume_reading(self) -> None:
        """They have caught up."""
        self._session.resume_reading()

    async def until_over(self) -> TidewireError:
        """Wait until no broker will have this session any more; why?"""
        while self._over is None:
            self._waits_for_end = self._waits_for_end or asyncio.Event()
            await self._waits_for_end.wait()
        return self._over

    def _is_over(self, error: TidewireError) -> None:
        self._over = error
        if self._waits_for_end is not None:
            self._waits_for_end.set()
        for inbox in self._inboxes():
            inbox._end(error)

    def _fell_behind(self) -> None:
        if not self._is_behind:
            self._is_behind = True
            self._session.pause_reading()

    def _caught_up(self) -> None:
        if self._is_behind and all(one.waiting <= WAITING_MAX // 2 for one in self._inboxes()):
            self._is_behind = False
            self._session.resume_reading()


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
) -> Wire:
    """A session with the network that these brokers belong to; any one of them will do. Enter it with ``async with``.

    ``address``: of a broker, or several; by default 127.0.0.1:7600, and with a coordinator none.
    ``coordinator``: its address; it says which broker to use, now and whenever that one is gone. While it is not there,
    brokers that we know will do.
    ``location``: where you are, latitude and longitude, for a coordinator that chooses the nearest broker.
    ``timeout``: a request or a publication for which no broker can be reached so long, in seconds, raises Unavailable.
    ``on_notice``: hears of lost or refused events, moves and lost connections as they happen.
    ``token``: says who you are; to brokers that are secured, at ``tidewires://host:port``.
    ``credentials``: the same with more to say: a certificate of your own, or the authority that brokers are known by.
    ``guaranteed``: what is published is not lost once ``publish`` returns, unless it is said otherwise there.
    """
    if address is None:
        address = [] if coordinator is not None else f"127.0.0.1:{DEFAULT_PORT}"
    shown = credentials or Credentials(token=token)
    config = ClientConfig(
        addresses=[address] if isinstance(address, str) else address,
        coordinator=coordinator,
        location=location,
        name=name,
        give_up_s=timeout,
        identity=shown.token,
    )
    return Wire(config, on_notice=on_notice, credentials=shown, guaranteed=guaranteed)
