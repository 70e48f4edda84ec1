"""The clients of a broker: what each one wants and offers, which requests wait for what, who is moving away."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidewire.broker.channels import ChannelRequest, Channels
from tidewire.broker.client import Client
from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Allow, Effect, LetPublish, Note, Permit
from tidewire.broker.events import EventsRefused, LostEvents, MoveClient
from tidewire.broker.expiries import Expiries
from tidewire.broker.incoming import check_numbered
from tidewire.broker.stream_events import Paced
from tidewire.broker.streams import Streams
from tidewire.broker.terms import ClientTerms, check_terms
from tidewire.broker.turns import PINGS_AT_ONCE, Turns
from tidewire.dataplane.protocol import Refusal
from tidewire.identity.authority import Identity
from tidewire.model.channel_messages import NotifiedTaken
from tidewire.model.errors import LimitReached, NotPermitted, TidewireError, UsageError
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import (
    ANYTHING,
    VERSION,
    Advertise,
    Bye,
    Done,
    EventRefused,
    Flush,
    Hello,
    Leave,
    Left,
    Lost,
    Move,
    Ping,
    Pong,
    Refused,
    Stay,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Use,
    Welcome,
)
from tidewire.model.stream_messages import Follow, Pace, Unfollow
from tidewire.routing.answers import Answer
from tidewire.routing.router import Router
from tidewire.wire.connections import Close, Send, SetClock

ClientMessage = (
    Subscribe | Unsubscribe | Advertise | Unadvertise | Flush | Leave | Stay | Follow | Unfollow | ChannelRequest
)


class _Waiting(msgspec.Struct, frozen=True):
    """A message to a client that waits for a barrier."""

    conn: Conn
    message: Done | Left


class _Moving(msgspec.Struct, frozen=True):
    """A session of migration that is in time."""

    conn: Conn
    until_ns: int


class Clients:
    """All clients. Methods return effects and, of those that change routes, what the router answered.

    Nothing that happens to one of them, and nothing that time brings, takes a look at all the others.
    """

    def __init__(self, config: BrokerConfig, router: Router, streams: Streams, channels: Channels) -> None:
        self._config = config
        self._most = config.subscriptions_max
        self._router = router
        self._streams = streams
        self._channels = channels
        self._clients: dict[Conn, Client] = {}
        self._barriers: dict[int, _Waiting] = {}
        self._letting_go: list[Conn] = []
        """Those who have all that only we could send them."""
        self.let_go_ns: Nanoseconds | None = None
        """When somebody was last let go."""
        self._sessions = 0
        self.terms = ClientTerms()
        self._moving: dict[int, _Moving] = {}
        """By session. They all may take the same time, so the oldest is due first."""
        self.moves_ended: list[tuple[Conn, bool]] = []
        """Subscribers that were to move: they have gone, or stay after all. Whoever sent them empties it."""
        self._expiries = Expiries()
        self._refusals_noted: dict[Conn, None] = {}
        """Of whom the log has been told lately that they may not do something."""
        self._turns = Turns(heartbeat_s=config.heartbeat_s)

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, conn: Conn) -> bool:
        return conn in self._clients

    def conns(self) -> list[Conn]:
        """Their connections."""
        return list(self._clients)

    def using(self, use: Use) -> list[Conn]:
        """The clients that publish, or subscribe, here."""
        found = self._router.publishers() if use == "publish" else self._router.subscribers()
        return [conn for conn in found if conn in self._clients]  # what the log offers is nobody's

    def may_move(self, conn: Conn) -> bool:
        """May it be sent elsewhere? Not who is served there already."""
        return not self._clients[conn].leaves_by

    def leaving(self) -> list[Conn]:
        """Whom another broker serves already: they only get what still waits for them here."""
        return [conn for conn, client in self._clients.items() if client.leaves_by]

    def moving(self) -> list[Conn]:
        """Whom we have sent elsewhere, and who are not there yet."""
        return [one.conn for one in self._moving.values()]

    def name_of(self, conn: Conn) -> str:
        """What a client calls itself."""
        return self._clients[conn].name

    def identity_of(self, conn: Conn) -> Identity:
        """Who it is."""
        return self._clients[conn].identity

    def publisher_of(self, conn: Conn) -> int:
        """The number that its events carry."""
        return self._clients[conn].publisher

    def identities(self) -> list[tuple[Conn, Identity]]:
        """Who they are."""
        return [(conn, client.identity) for conn, client in self._clients.items()]

    def idle(self) -> list[Conn]:
        """The clients that do neither, at present."""
        is_used = {*self.using("publish"), *self.using("subscribe")}
        return [conn for conn in self._clients if conn not in is_used]

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def greet(
        self, conn: Conn, hello: Hello, identity: Identity, welcome: Welcome, *, now_ns: Nanoseconds
    ) -> list[Effect]:
        """A client has said who it is."""
        if hello.version != VERSION:
            reason = f"this broker speaks version {VERSION}, you speak {hello.version}: update the older side"
            return [Send(conn, Bye("version", reason, -1.0), "control"), Close(conn)]
        if len(self._clients) >= self._config.connections_max:
            reason = f"this broker takes {self._config.connections_max} connections: try another, or later"
            return [Send(conn, Bye(LimitReached.code, reason, 5.0), "control"), Close(conn)]
        self._clients[conn] = Client(hello, identity)
        self._turns.came(conn)
        if identity.expires_s is not None:
            self._expiries.add(conn, identity.expires_s)
        publishable = identity.permissions.publishable()
        effects: list[Effect] = [] if publishable is None else [Permit(conn, publishable)]
        return [*effects, Send(conn, welcome, "control"), Send(conn, Ping(now_ns), "control")]

    def gone(self, conn: Conn, now_ns: Nanoseconds) -> list[Effect | Answer]:
        """A client has ended: all that it wanted and offered ends. What is held for it stays."""
        client = self._clients.pop(conn)
        self._turns.gone(conn)
        self._refusals_noted.pop(conn, None)
        self.terms.gone(conn)
        self._expiries.remove(conn)
        for session in client.moves:
            if self._moving.pop(session, None) is not None:
                # It is where it was sent, or nowhere: who was owed nothing here goes without a word. It does not stay.
                self.moves_ended.append((conn, True))
        for barrier in client.barriers:
            self._barriers.pop(barrier, None)
        left = self._channels.gone(conn, now_ns)
        return [*left, *self._streams.gone(conn), *self._router.client_gone(conn)]

    def expired(self, unix_s: float) -> list[Conn]:
        """Those whose identities have expired by now; each is said once."""
        return self._expiries.due(unix_s)

    # -- requests ------------------------------------------------------------------------------------------------------

    def asked(self, conn: Conn, message: ClientMessage, *, now_ns: Nanoseconds) -> list[Effect | Answer]:
        """A client wants something. A request that cannot be is refused, and has changed nothing."""
        try:
            return self._asked(conn, message, now_ns)
        except TidewireError as error:
            if isinstance(message, Leave | Stay | NotifiedTaken):
                raise
            return [Send(conn, Refused(message.request, error.code, error.message)), *self._noted(conn, error)]

    def _noted(self, conn: Conn, error: TidewireError) -> list[Effect]:
        """In the log too, if a permission is missing; once in a while for each client."""
        if not isinstance(error, NotPermitted) or conn in self._refusals_noted:
            return []
        self._refusals_noted[conn] = None
        return [Note("refused", {"client": self._clients[conn].name, "why": error.message})]

    def _asked(self, conn: Conn, message: ClientMessage, now_ns: Nanoseconds) -> list[Effect | Answer]:
        match message:
            case Subscribe(request, numbers, filters, terms):
                check_numbered(numbers, filters, self._router.subscriptions(conn), self._most, "subscriptions")
                check_terms(numbers, terms)
                if ANYTHING in filters:
                    raise UsageError("a subscription needs a filter")
                narrowed = self._clients[conn].identity.permissions.narrowed(filters)
                answers = self._router.subscribe(conn, numbers, narrowed)
                self.terms.said(conn, "subscribe", numbers, terms)
                return [*answers, *self._when_synced(conn, Done(request))]
            case Unsubscribe(request, numbers):
                ended = self._streams.gone(conn, numbers)
                self.terms.taken_back(conn, "subscribe", numbers)
                return [*ended, *self._router.unsubscribe(conn, numbers), Send(conn, Done(request))]
            case Follow():
                return self._follow(conn, message, now_ns)
            case Unfollow():
                return self._unfollow(conn, message, now_ns)
            case Advertise():
                return self._advertise(conn, message)
            case Unadvertise():
                return self._unadvertise(conn, message)
            case Flush(request):
                return [Send(conn, Done(request))]
            case Leave(session):
                return self._leave(conn, session)
            case Stay():
                return [self._stayed(conn, message)]
            case _:
                return [*self._channels.asked(conn, message, self._clients[conn].identity, now_ns=now_ns)]

    def _follower_name(self, conn: Conn, name: str) -> str:
        """Names are each identity's own."""
        return f"{self._clients[conn].identity.name}\0{name}"

    def _follow(self, conn: Conn, follow: Follow, now_ns: Nanoseconds) -> list[Effect | Answer]:
        check_numbered([follow.number], [follow.wanted], self._router.subscriptions(conn), self._most, "subscriptions")
        if follow.wanted == ANYTHING:
            raise UsageError("a subscription needs a filter")
        [wanted] = self._clients[conn].identity.permissions.narrowed([follow.wanted])
        name = self._follower_name(conn, follow.name)
        begun = self._streams.follow(conn, follow, name=name, wanted=wanted, now_ns=now_ns)
        answers = [*begun, *self._router.subscribe(conn, [follow.number], [wanted])]
        self.terms.said(conn, "subscribe", [follow.number], [follow.terms])
        barrier, more = self._router.sync()
        self._streams.hold_behind(barrier, conn, follow.number)
        return [*answers, *more]

    def _unfollow(self, conn: Conn, unfollow: Unfollow, now_ns: Nanoseconds) -> list[Effect | Answer]:
        removed = list(self._streams.gone(conn, [unfollow.number]))
        gone = self._router.unsubscribe(conn, [unfollow.number])
        self.terms.taken_back(conn, "subscribe", [unfollow.number])
        name = self._follower_name(conn, unfollow.name)
        return [*removed, *gone, *self._streams.names.forget(conn, unfollow.request, name, now_ns=now_ns)]

    def _unadvertise(self, conn: Conn, message: Unadvertise) -> list[Effect | Answer]:
        answers = self._router.unadvertise(conn, message.numbers)
        self.terms.taken_back(conn, "publish", message.numbers)
        if not self._router.advertisements(conn):
            self._turns.publishes_no_more(conn)
        return [*answers, Allow(conn, self._allowed(conn)), Send(conn, Done(message.request))]

    def _advertise(self, conn: Conn, message: Advertise) -> list[Effect | Answer]:
        numbers, filters = message.numbers, message.filters
        check_numbered(numbers, filters, self._router.advertisements(conn), self._most, "advertisements")
        check_terms(numbers, message.terms)
        is_first = not self._router.advertisements(conn)
        client = self._clients[conn]
        client.identity.permissions.check_advertised(filters)
        answers: list[Effect | Answer] = [*self._router.advertise(conn, numbers, filters)]
        self.terms.said(conn, "publish", numbers, message.terms)
        answers += self._streams.offered(filters)
        if is_first and len(self._clients) > PINGS_AT_ONCE:
            client.readings.forget()  # they may be from long ago
        if is_first:
            self._turns.publishes(conn)
            answers.append(LetPublish(conn, client.publisher, message.next_sequence or client.next_sequence))
            answers += self._pace(conn, client.publisher)
        answers.append(Allow(conn, self._allowed(conn)))
        barrier, more = self._router.wave()
        return [*answers, *self._wait(barrier, _Waiting(conn, Done(message.request)), more)]

    def _pace(self, conn: Conn, publisher: int) -> list[Effect]:
        """One who comes while its stream is held back hears of it."""
        pace = self._streams.pubends.pace_of(publisher)
        return [] if pace is None or pace[1] is None else [Send(conn, Pace(*pace[1:]), "control")]

    def paced(self, paced: Paced) -> list[Effect]:
        """How fast a stream may go has changed: those who publish into it hear of it."""
        found: list[Effect] = []
        for conn in self._turns.publishing():
            pace = self._streams.pubends.pace_of(self._clients[conn].publisher)
            if pace is not None and pace[0] == paced.pubend:
                found.append(Send(conn, Pace(paced.events_s, paced.reason), "control"))
        return found

    def _allowed(self, conn: Conn) -> list[bytes] | None:
        filters = list(self._router.advertisements(conn).values())
        return None if ANYTHING in filters else filters

    def _when_synced(self, conn: Conn, message: Done | Left) -> list[Effect | Answer]:
        barrier, answers = self._router.sync()
        return self._wait(barrier, _Waiting(conn, message), answers)

    def _wait(self, barrier: int, waiting: _Waiting, answers: list[Answer]) -> list[Effect | Answer]:
        self._barriers[barrier] = waiting
        self._clients[waiting.conn].barriers[barrier] = None
        return [*answers]

    def reached(self, barrier: int) -> list[Effect]:
        """A barrier is complete: whoever waited for it is told, behind all events that came before."""
        waiting = self._barriers.pop(barrier, None)
        if waiting is None:
            return []
        client = self._clients[waiting.conn]
        del client.barriers[barrier]
        if not client.barriers:
            client.barriers = {}  # an emptied one keeps its memory, and there may be very many
        told = Send(waiting.conn, waiting.message)
        message = waiting.message
        if isinstance(message, Left) and client.moves.get(message.session) == "subscribe":
            self._letting_go.append(waiting.conn)
            return [*self._streams.leave(told)]
        return [told]

    def let_go(self, *, now_ns: Nanoseconds) -> list[Answer]:
        """What comes from now on the new broker brings to those who leave: it need not join what waits for them here.

        Who follows a stream stays: its events and others have to come the same way, in order.
        """
        answers: list[Answer] = []
        while self._letting_go:
            conn = self._letting_go.pop()
            if conn in self._clients and not self._streams.followers.of(conn):
                answers += self._router.unsubscribe(conn, list(self._router.subscriptions(conn)))
                self.let_go_ns = now_ns
        return answers

    # -- what the data plane says --------------------------------------------------------------------------------------

    def refused(self, conn: Conn, refusal: Refusal) -> list[Effect]:
        """Events of a publisher were not taken."""
        reason, noted = refusal.reason, list[Effect]()
        if refusal.code == NotPermitted.code:
            error = self._clients[conn].identity.permissions.missing("publish")
            reason, noted = error.message, self._noted(conn, error)
        told = EventRefused(refusal.sequences, refusal.code, reason, refusal.further, refusal.is_guaranteed)
        return [Send(conn, told, "control"), *noted]

    def lost(self, conn: Conn, events: int) -> list[Effect]:
        """A slow subscriber has lost events: it and the people who run this are told."""
        name = self._clients[conn].name
        return [Send(conn, Lost(events), "control"), Note("slow subscriber", {"client": name, "events lost": events})]

    def befallen(self, event: EventsRefused | LostEvents | MoveClient, now_ns: Nanoseconds) -> list[Effect]:
        """Something that concerns one client."""
        match event:
            case EventsRefused(conn, refusal):
                return self.refused(conn, refusal)
            case LostEvents(conn, events):
                return self.lost(conn, events)
            case MoveClient(conn, use, address):
                return self.move(conn, use, broker=BrokerId(""), address=address, now_ns=now_ns)

    # -- moving away ---------------------------------------------------------------------------------------------------

    def move(self, conn: Conn, use: Use, *, broker: BrokerId, address: str, now_ns: Nanoseconds) -> list[Effect]:
        """Send a client to another broker; nothing if it is on its way already."""
        client = self._clients[conn]
        if any(moving == use and session in self._moving for session, moving in client.moves.items()):
            return []
        self._sessions += 1
        client.moves[self._sessions] = use
        self._moving[self._sessions] = _Moving(conn, now_ns + int(self._config.migration_timeout_s * 1e9))
        facts: dict[str, str | int | float] = {"client": client.name, "use": use, "to": broker}
        return [Send(conn, Move(self._sessions, use, broker, address), "control"), Note("client moves", facts)]

    def _leave(self, conn: Conn, session: int) -> list[Effect | Answer]:
        client = self._clients[conn]
        if session not in client.moves:
            return []
        if client.moves[session] == "subscribe":
            # The new broker serves it: that ends its move, however long our queues keep it here (peer §6.2, step 6).
            if self._moving.pop(session, None) is not None:
                self.moves_ended.append((conn, True))
            client.leaves_by = session
            return self._when_synced(conn, Left(session))
        barrier, answers = self._router.wave()
        return self._wait(barrier, _Waiting(conn, Left(session)), answers)

    def _stayed(self, conn: Conn, stay: Stay) -> Note:
        """It could not go where it was sent; it may be sent elsewhere, also if it was about to leave."""
        client = self._clients[conn]
        if client.leaves_by == stay.session:
            client.leaves_by = 0
        if client.moves.pop(stay.session, None) is not None:
            self._moving.pop(stay.session, None)
            self.moves_ended.append((conn, False))
        return Note("a client stayed", {"client": client.name, "reason": stay.reason})

    # -- time ----------------------------------------------------------------------------------------------------------

    def pong(self, conn: Conn, pong: Pong, now_ns: Nanoseconds) -> list[Effect]:
        """A client's answer to our ping."""
        clock = self._clients[conn].readings.add(pong, now_ns=now_ns)
        return [] if clock is None else [SetClock(conn, clock.offset_ns, clock.error_us)]

    def tick(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What is due: pings, and moves that took too long, which end where they began (peer M6)."""
        if now_ns < self._turns.next_ns:
            return
        if self._turns.begins_round(now_ns):
            self._refusals_noted.clear()
        yield from (Send(conn, Ping(now_ns), "control") for conn in self._turns.due(now_ns))
        while self._moving:
            session, moving = next(iter(self._moving.items()))
            if now_ns < moving.until_ns:
                break
            del self._moving[session]
            self.moves_ended.append((moving.conn, False))
            yield Note("a client did not move in time", {"client": self._clients[moving.conn].name})

    def deadline_ns(self) -> Nanoseconds | None:
        """When something is due next: one pace for all, there may be many of them."""
        return self._turns.next_ns if self._clients else None
