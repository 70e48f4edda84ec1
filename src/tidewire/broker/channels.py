"""Channels at a broker: what its clients want of them, and its connection to the data cluster that has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Effect, Note
from tidewire.broker.tie import Tie
from tidewire.channels.frontend_events import (
    ClientGone,
    Confirm,
    Connected,
    Disconnected,
    FrontendEffect,
    LetGo,
    Linger,
    Missed,
    Notify,
    Refuse,
    Say,
    Settled,
    Subscribe,
    Subscriber,
    Unsubscribe,
)
from tidewire.channels.frontends import Frontends
from tidewire.channels.messages import Want
from tidewire.channels.packing import unpack_given
from tidewire.channels.results import Packed
from tidewire.channels.talk import listening_to_cluster, talk_of
from tidewire.identity.authority import Identity
from tidewire.model.chance import Chance
from tidewire.model.channel_messages import (
    TALK_BYTES,
    Attach,
    ChannelEnded,
    ChannelOpened,
    CloseChannel,
    News,
    Notified,
    NotifiedLost,
    NotifiedTaken,
    OpenChannel,
    Talk,
)
from tidewire.model.errors import (
    DuplicateSubscription,
    LimitReached,
    PeerError,
    Unavailable,
    UnknownSubscription,
    UsageError,
)
from tidewire.model.ids import Conn, Nanoseconds, Tick
from tidewire.model.messages import VERSION, Done, Message, Refused
from tidewire.wire.connections import Close, Send

ORDER: Final = -1
"""The order of dialling the data cluster: of nobody else."""

PATIENCE_NS: Final = 5_000_000_000
"""So long a subscription waits for a data cluster that is away, before it is refused."""

LINGER_NS: Final = 30_000_000_000
"""So long what the last client wanted is still wanted after that is gone: it may come back, here or elsewhere."""

NEWS_MAX: Final = 4096
"""In one message to a client."""

ChannelRequest = OpenChannel | CloseChannel | NotifiedTaken


class ChannelsStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker has to do with channels."""

    data_cluster: str
    """The address of the data cluster that has them."""

    is_connected: bool
    """Is it reached?"""

    channels: int
    """How many there are, as the data cluster said last."""

    subscriptions: int
    """Of the broker's clients, all together."""

    shared: int
    """Subscriptions of the data cluster that it has for them: one for all who want the same."""


class _Opening(msgspec.Struct):
    """A subscription that is not confirmed."""

    request: int
    until_ns: int
    parked: Subscribe | None = None
    """It cannot even be judged before the data cluster has said which channels there are."""


class Channels:
    """The subscriptions of one broker's clients. Methods return effects."""

    def __init__(self, config: BrokerConfig, *, incarnation: int, chance: Chance) -> None:
        self._config = config
        self._tie = Tie(config.data_cluster, ORDER, config, chance=chance)
        self.frontends = Frontends(config.broker)
        self._life = incarnation
        self._listening = listening_to_cluster()
        self._opening: dict[Subscriber, _Opening] = {}
        """All have the same patience, so the oldest is due first."""
        self._lingering: dict[Want, int] = {}
        """Until when; the oldest first."""
        self._numbers: dict[Conn, dict[int, None]] = {}

    def number_lives_from(self, number: int) -> None:
        """Connections to the data cluster are numbered from here on, if not from the incarnation: they only grow."""
        self._life = number

    @property
    def is_there(self) -> bool:
        """Is the data cluster connected?"""
        return self._tie.conn is not None

    def status(self) -> ChannelsStatus | None:
        """How it is with channels here; None: there is no data cluster."""
        if self._config.data_cluster is None:
            return None
        return ChannelsStatus(
            data_cluster=self._config.data_cluster,
            is_connected=self.is_there,
            channels=self.frontends.channels,
            subscriptions=self.frontends.subscriptions,
            shared=self.frontends.shared,
        )

    def is_ours(self, conn: Conn) -> bool:
        """Is this the connection to the data cluster?"""
        return conn == self._tie.conn

    # -- clients -------------------------------------------------------------------------------------------------------

    def asked(
        self, conn: Conn, message: ChannelRequest, identity: Identity, *, now_ns: Nanoseconds
    ) -> Iterable[Effect]:
        """A client wants something; an error says why it cannot be."""
        match message:
            case OpenChannel():
                return self._open(conn, message, identity, now_ns)
            case CloseChannel(request, number, is_final):
                return [*self._close((conn, number), now_ns, is_final=is_final), Send(conn, Done(request))]
            case NotifiedTaken(taken):
                there = self._numbers.get(conn, {})  # others have ended meanwhile
                settled = (Settled((conn, number), tick) for number, tick in taken if number in there)
                return self._do([effect for one in settled for effect in self.frontends.handle(one)], now_ns)

    def _open(self, conn: Conn, wanted: OpenChannel, identity: Identity, now_ns: Nanoseconds) -> Iterable[Effect]:
        given = unpack_given(wanted.given)
        if self._config.data_cluster is None:
            raise UsageError("this broker has no data cluster, and so no channels: it needs data_cluster = HOST:PORT")
        given = self.frontends.typed(wanted.channel, given)  # permissions are filters: they know a time from a text
        identity.permissions.check_channel(wanted.channel, given)
        numbers = self._numbers.setdefault(conn, {})
        if wanted.number in numbers:
            raise DuplicateSubscription(f"there is a subscription {wanted.number} already; take another number")
        if len(numbers) >= self._config.subscriptions_max:
            raise LimitReached(f"a connection has at most {self._config.subscriptions_max} subscriptions to channels")
        subscribe = Subscribe(
            subscriber=(conn, wanted.number),
            channel=wanted.channel,
            given=given,
            name=f"{identity.name}\0{wanted.name}" if wanted.name else "",  # names are each identity's own
            claim=wanted.claim,
            after=wanted.after,
        )
        opening = _Opening(wanted.request, now_ns + PATIENCE_NS)
        try:
            effects = self.frontends.handle(subscribe)
        except Unavailable:
            opening.parked, effects = subscribe, []
        numbers[wanted.number] = None
        self._opening[subscribe.subscriber] = opening
        return self._do(effects, now_ns)

    def _close(self, subscriber: Subscriber, now_ns: Nanoseconds, *, is_final: bool) -> list[Effect]:
        conn, number = subscriber
        if number not in self._numbers.get(conn, ()):
            raise UnknownSubscription(f"there is no subscription {number} to a channel")
        del self._numbers[conn][number]
        opening = self._opening.pop(subscriber, None)
        effects: list[Effect] = [] if opening is None else [Send(conn, Done(opening.request))]
        if opening is None or opening.parked is None:
            effects += self._do(self.frontends.handle(Unsubscribe(subscriber, is_final)), now_ns)
        return effects

    def gone(self, conn: Conn, now_ns: Nanoseconds) -> list[Effect]:
        """A client has ended. It may come back: what it wanted stays for a while."""
        for number in self._numbers.pop(conn, {}):
            self._opening.pop((conn, number), None)
        return self._do(self.frontends.handle(ClientGone(conn)), now_ns)

    def _retry_parked(self, now_ns: Nanoseconds) -> list[Effect]:
        effects: list[Effect] = []
        for subscriber, opening in [one for one in self._opening.items() if one[1].parked is not None]:
            assert opening.parked is not None
            try:
                found = self.frontends.handle(opening.parked)
            except Unavailable:
                continue
            except UsageError as error:
                found = [Refuse(subscriber, error.code, error.message)]
            opening.parked = None
            effects += self._do(found, now_ns)
        return effects

    # -- the data cluster ----------------------------------------------------------------------------------------------

    def opened(self, conn: Conn, now_ns: Nanoseconds) -> list[Effect]:
        """It is there: say what is wanted here."""
        self._tie.opened(conn, now_ns)
        self._life += 1
        self._listening = listening_to_cluster()
        attach: list[Effect] = [Send(conn, Attach(VERSION, self._config.broker))]
        return attach + self._do(self.frontends.handle(Connected(self._life)), now_ns)

    def lost(self, now_ns: Nanoseconds) -> list[Effect]:
        """It is not there, or no longer: clients keep what they have, and it is tried again."""
        if not self._tie.lost(now_ns):
            return []
        self.frontends.handle(Disconnected())
        return [Note("data cluster lost", {"address": self._config.data_cluster or ""})]

    def heard(self, message: Message, now_ns: Nanoseconds) -> list[Effect]:
        """It says something."""
        self._tie.heard(now_ns)
        if not isinstance(message, Talk):
            return []
        try:
            said = self._listening.heard(message)
        except PeerError as error:
            assert self._tie.conn is not None
            return [Close(self._tie.conn), Note("the data cluster is not understood", {"why": error.message})]
        if said is None:
            return []
        return [*self._do(self.frontends.handle(said), now_ns), *self._retry_parked(now_ns)]

    # -- from one to the other -----------------------------------------------------------------------------------------

    def _do(self, effects: Iterable[FrontendEffect], now_ns: Nanoseconds) -> list[Effect]:
        """In order; what is new to one client, in one go."""
        done: list[Effect] = []
        news: dict[Conn, list[News]] = {}
        for effect in effects:
            match effect:
                case Notify((conn, number), tick, packed):
                    news.setdefault(conn, []).extend(_news(number, tick, packed))
                case Confirm((conn, _)) | Refuse((conn, _)) | Missed((conn, _)):
                    done += _notified(conn, news.pop(conn, []))
                    done += self._done(effect, now_ns)
                case _:
                    done += self._done(effect, now_ns)
        for conn, found in news.items():
            done += _notified(conn, found)
        return done

    def _done(self, effect: Say | Confirm | Refuse | Missed | Linger, now_ns: Nanoseconds) -> Iterator[Effect]:
        match effect:
            case Say(message):
                assert self._tie.conn is not None
                yield from (Send(self._tie.conn, talk) for talk in talk_of(message))
            case Confirm((conn, number), tick, columns):
                opening = self._opening.pop((conn, number))
                yield Send(conn, ChannelOpened(opening.request, number, tick, list(columns)))
            case Refuse((conn, number), code, reason):
                self._numbers[conn].pop(number, None)
                refused = self._opening.pop((conn, number), None)
                ended = ChannelEnded(number, code, reason)
                yield Send(conn, ended if refused is None else Refused(refused.request, code, reason))
            case Missed((conn, number), after, upto):
                yield Send(conn, NotifiedLost(number, after, upto))
            case Linger(want):
                self._lingering.pop(want, None)
                self._lingering[want] = now_ns + LINGER_NS

    # -- time ----------------------------------------------------------------------------------------------------------

    def tick(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What is due: the connection, what nobody came back for, and who has waited for too long."""
        yield from self._tie.tick(now_ns)
        for want in [want for want, until_ns in self._lingering.items() if until_ns <= now_ns]:
            del self._lingering[want]
            yield from self._do(self.frontends.handle(LetGo(want)), now_ns)
        for subscriber in [one for one, opening in self._opening.items() if opening.until_ns <= now_ns]:
            opening = self._opening.pop(subscriber)
            if self.is_there:  # it has the word
                opening.until_ns = now_ns + PATIENCE_NS
                self._opening[subscriber] = opening
                continue
            conn, number = subscriber
            del self._numbers[conn][number]
            if opening.parked is None:
                yield from self._do(self.frontends.handle(Unsubscribe(subscriber, is_final=False)), now_ns)
            reason = f"the data cluster at {self._config.data_cluster} cannot be reached: try again later"
            yield Send(conn, Refused(opening.request, Unavailable.code, reason))

    def deadline_ns(self) -> int | None:
        """When something is due next."""
        opening = next(iter(self._opening.values()), None)
        times = [self._tie.deadline_ns(), None if opening is None else opening.until_ns]
        times.append(next(iter(self._lingering.values()), None))
        return min((time for time in times if time is not None), default=None)


def _news(number: int, tick: Tick, packed: Packed) -> list[News]:
    """What one subscriber is told, in pieces if it is long."""
    data, count = packed.data, packed.count
    if len(data) <= TALK_BYTES:
        return [News(number, tick, count, data, is_last=True)]
    starts = range(0, len(data), TALK_BYTES)
    return [
        News(number, tick, count, data[start : start + TALK_BYTES], start + TALK_BYTES >= len(data)) for start in starts
    ]


def _notified(conn: Conn, news: list[News]) -> Iterator[Send]:
    """All of it to one client, in messages that fit into a frame."""
    first, size = 0, 0
    for at, one in enumerate(news):
        if at > first and (size + len(one.piece) > TALK_BYTES or at - first == NEWS_MAX):
            yield Send(conn, Notified(news[first:at]))
            first, size = at, 0
        size += len(one.piece)
    if news:
        yield Send(conn, Notified(news[first:]))
