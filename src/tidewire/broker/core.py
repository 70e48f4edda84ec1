"""The broker machine: ``handle(event, now_ns=...) -> effects`` and ``deadline_ns()``. It decides, and never acts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, get_args

from msgspec.structs import replace

from tidewire.broker import channels
from tidewire.broker.balancing import Balancing
from tidewire.broker.balancing_parts import Parts
from tidewire.broker.channels import Channels
from tidewire.broker.clients import ClientMessage, Clients
from tidewire.broker.config import BrokerConfig
from tidewire.broker.draining import Draining
from tidewire.broker.effects import Effect, Note
from tidewire.broker.events import (
    BrokerEvent,
    Counted,
    EventsRefused,
    LogOpened,
    LostEvents,
    Measured,
    MoveClient,
    NoRoom,
    Overran,
    Sampled,
    Stalled,
    Started,
    Stopping,
    Unreadable,
    Weighed,
)
from tidewire.broker.guests import Guests
from tidewire.broker.links import HANDSHAKE_NS, LinkChange, Links
from tidewire.broker.lost_trees import LostTrees
from tidewire.broker.operators import Operators
from tidewire.broker.registration import ORDER, Registration
from tidewire.broker.reporting import Reporting
from tidewire.broker.seeing_off import SeeingOff, turned_away
from tidewire.broker.shortage import FromClient, FromNeighbour, Shortage
from tidewire.broker.stream_events import Paced
from tidewire.broker.streams import Streams
from tidewire.broker.ways import TreeMessage
from tidewire.identity.guard import Guard, Trust
from tidewire.model.balance_messages import Bulletin
from tidewire.model.chance import Chance
from tidewire.model.errors import LimitReached, NotAuthenticated, NotPermitted, PeerError
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.message_fields import CLIENT_NAME_MAX
from tidewire.model.messages import (
    Advertise,
    Assigned,
    Bye,
    Drain,
    Hello,
    Link,
    Message,
    Neighbourhood,
    Ping,
    Pong,
    Rebalance,
    Role,
    Welcome,
)
from tidewire.model.placement_messages import Migrate, WantReports
from tidewire.model.routing_messages import RoutingMessage
from tidewire.model.text import visible
from tidewire.routing.answers import Answer, Confirmed, Reached, SetParent, Tell
from tidewire.routing.router import Router
from tidewire.routing.trees import tree_of
from tidewire.wire.connections import Close, Closed, DialFailed, Heard, Opened, Send, TimePassed
from tidewire.wire.liveness import answer

GUESTS_MAX: Final = 1024
"""Connections that have not said who they are; one more, and one of them has to go."""

_CLIENT_MESSAGES = get_args(ClientMessage)
_ROUTING_MESSAGES = get_args(RoutingMessage)
_TREE_MESSAGES = get_args(TreeMessage)
_OF_CLIENTS, _OF_NEIGHBOURS = get_args(FromClient), get_args(FromNeighbour)


class BrokerCore:
    """One life of one broker."""

    def __init__(self, config: BrokerConfig, *, incarnation: int, chance: Chance) -> None:
        self.config = config
        self.incarnation = incarnation
        self.tree = tree_of(config.broker, incarnation)
        self.router = Router(config.broker, self.tree, covering=config.covering)
        self.links = Links(config, incarnation=incarnation, chance=chance)
        self.guard = Guard(is_secured=config.security is not None)
        self.streams = Streams(config, self.router, self.links, self.tree)
        self.channels = Channels(config, incarnation=incarnation, chance=chance)
        self.clients = Clients(config, self.router, self.streams, self.channels)
        self._seeing_off = SeeingOff(self.guard, self.clients)
        self.shortage = Shortage(config, self.router, self.links, self.clients, self.streams, self.tree)
        self.balancing = Balancing(Parts(config, self.router, self.links, self.clients, incarnation, chance))
        self._registration = Registration(config, incarnation=incarnation, chance=chance)
        self.reporting = Reporting(
            config,
            self.router,
            self.links,
            self.clients,
            self.channels,
            self._registration,
            incarnation=incarnation,
        )
        self._guests = Guests(most=GUESTS_MAX, patience_ns=HANDSHAKE_NS)
        self._lost_trees = LostTrees(self.router, memory_s=config.tree_memory_s)
        self._role: Role = self.links.role
        self._hosting: object = None  # what decides where clients belong, as it was when they were last put there
        self._draining = Draining(self.links, self.clients)
        self.operators = Operators(
            config.broker, self.guard, self._guests, draining=self._draining, balancing=self.balancing
        )
        self.handled = 0
        """How much has happened: as long as it stays, ``deadline_ns`` does."""

    def handle(self, event: BrokerEvent, *, now_ns: Nanoseconds) -> list[Effect]:
        """Something has happened: what is to be done?"""
        self.handled += 1
        effects = self._done(self._handle(event, now_ns), now_ns)
        if self.clients.moves_ended:
            effects += self._moves_ended(now_ns)
        if isinstance(event, Heard) and isinstance(event.message, Ping | Pong):
            return effects  # the most frequent of all, and nothing follows from them
        if isinstance(event, Opened | Heard) and self._is_of_client(event.conn):
            return effects  # nor from whatever else clients do: neighbours and trees are as they were
        self._lost_trees.look(now_ns)
        if isinstance(event, Heard) and isinstance(event.message, _ROUTING_MESSAGES):
            return effects  # neighbours and clients are as they were
        return effects + self._done(self._after(now_ns), now_ns)

    def _moves_ended(self, now_ns: Nanoseconds) -> list[Effect]:
        ended, self.clients.moves_ended = self.clients.moves_ended, []
        return [*self.balancing.moves_ended(ended, now_ns), *self.reporting.moves_ended(ended)]

    def _is_of_client(self, conn: Conn) -> bool:
        """Is this a client, or a connection that has not said what it is? While draining they count as well."""
        return not self._draining and (conn in self.clients or conn in self._guests)

    @property
    def is_registered(self) -> bool:
        """Is it connected to its coordinator?"""
        return self._registration.is_there

    def deadline_ns(self) -> int | None:
        """When the machine wants to hear TimePassed, if nothing else happens."""
        parts = self.links, self.clients, self._registration, self._guests, self.streams, self.balancing, self.channels
        times = (part.deadline_ns() for part in (*parts, self.shortage, self._lost_trees))
        return min((time for time in times if time is not None), default=None)

    # -- what happened -------------------------------------------------------------------------------------------------

    def _handle(self, event: BrokerEvent, now_ns: Nanoseconds) -> Iterable[Effect | Answer]:
        match event:
            case Heard(conn, message):
                return self._heard(conn, message, now_ns)
            case TimePassed():
                return self._tick(now_ns)
            case Started():
                ties = *self._registration.tick(now_ns), *self.channels.tick(now_ns)
                return [*self.balancing.warnings(), *ties, *self.links.dial_due(now_ns)]
            case Stopping():
                return self._stop()
            case Opened() | DialFailed() | Closed() | NoRoom() | Stalled():
                return self._of_connection(event, now_ns)
            case Unreadable(conn, reason):
                return self._end(conn, Bye("frame-damaged", reason, 1.0))
            case Overran(conn):
                return self._end(conn, Bye("slow-subscriber", "you did not read, and your queue is full", 1.0))
            case Trust():
                self.guard.trust(event, now_ns=now_ns)
                return self._seeing_off.revoked(now_ns)
            case LogOpened(states, kept, offset_ns):
                begun = self.streams.begin(states, kept, unix_offset_ns=offset_ns, now_ns=now_ns)
                return [*begun, *self._host()]
            case EventsRefused() | LostEvents() | MoveClient():
                return self.clients.befallen(event, now_ns) if event.conn in self.clients else []
            case Measured() | Sampled() | Counted() | Weighed():
                return self._weighed(event, now_ns)
        return self.streams.handle(event, now_ns=now_ns)

    def _heard(self, conn: Conn, message: Message, now_ns: Nanoseconds) -> Iterable[Effect | Answer]:
        if conn in self._guests:
            return self._introduced(conn, message, now_ns)
        if isinstance(message, Ping):
            return [Send(conn, answer(message, now_ns=now_ns), "control")]
        if isinstance(message, Bye):
            return [Close(conn), Note("goodbye", {"code": message.code, "reason": message.reason})]
        if conn in self.clients:
            return self._heard_client(conn, message, now_ns)
        if self.links.is_link(conn):
            return self._heard_link(conn, message, now_ns)
        if self._registration.is_ours(conn):
            return self._heard_coordinator(message, now_ns)
        return self.channels.heard(message, now_ns) if self.channels.is_ours(conn) else []

    def _weighed(self, event: Measured | Sampled | Counted | Weighed, now_ns: Nanoseconds) -> Iterable[Effect | Answer]:
        """For whoever balances: this broker and its neighbours, or the coordinator; and for what gives way."""
        if isinstance(event, Weighed):
            if self.balancing.has_found_nobody():
                self.shortage.nobody_helps()
            return self.shortage.weighed(event, now_ns=now_ns)
        if not self.reporting.is_on or isinstance(event, Counted):
            return self.balancing.handle(event, now_ns=now_ns)
        if isinstance(event, Sampled):
            return self.reporting.sampled(event, now_ns)
        self.reporting.measured(event)
        return self.reporting.tick(now_ns)

    def _heard_coordinator(self, message: Message, now_ns: Nanoseconds) -> Iterable[Effect]:
        self._registration.heard(now_ns)
        match message:
            case Assigned(addresses):
                self.links.assign(addresses)
            case WantReports():
                return self.reporting.asked(message, now_ns)
            case Migrate():
                return self.reporting.migrate(message, now_ns)
        return self.links.dial_due(now_ns)

    def _introduced(self, conn: Conn, message: Message, now_ns: Nanoseconds) -> Iterable[Effect | Answer]:
        match message:
            case Hello():
                return self._greeted(conn, message, now_ns)
            case Link():
                return self._called(conn, message, now_ns)
            case Drain() | Rebalance():
                return self.operators.asked(conn, message, now_ns)
            case Ping():
                return [Send(conn, answer(message, now_ns=now_ns), "control")]
        return self._end(conn, Bye("protocol", f"{type(message).__name__} came before a greeting", -1.0))

    def _greeted(self, conn: Conn, hello: Hello, now_ns: Nanoseconds) -> Iterable[Effect]:
        self._guests.leave(conn)
        hello = replace(hello, name=visible(hello.name[:CLIENT_NAME_MAX])[:CLIENT_NAME_MAX])
        try:
            identity = self.guard.identify(conn, hello.identity, now_ns=now_ns)
        except NotAuthenticated as error:
            return turned_away(conn, error, client=hello.name)
        welcome = self.balancing.welcome(hello, self.links.welcome(hello.uses), now_ns)
        greeted = self.clients.greet(conn, hello, identity, welcome, now_ns=now_ns)
        return [*greeted, *self.shortage.greeted(conn)]

    def _called(self, conn: Conn, link: Link, now_ns: Nanoseconds) -> Iterable[Effect | Answer]:
        self._guests.leave(conn)
        try:
            self.guard.check_broker(conn, link.broker)
        except (NotAuthenticated, NotPermitted) as error:
            return turned_away(conn, error, broker=link.broker)
        effects, change = self.links.called(conn, link, now_ns)
        return [*effects, *self._linked(change)]

    def _heard_client(self, conn: Conn, message: Message, now_ns: Nanoseconds) -> Iterable[Effect | Answer]:
        if isinstance(message, _CLIENT_MESSAGES):
            asked = *self.shortage.widened(message, now_ns=now_ns), *self.clients.asked(conn, message, now_ns=now_ns)
            return [*asked, *self.streams.hold_more(self.tree)] if isinstance(message, Advertise) else asked
        if isinstance(message, _OF_CLIENTS):
            return self.shortage.said(conn, message, now_ns=now_ns)
        match message:
            case Pong():
                return self.clients.pong(conn, message, now_ns)
            case Drain() | Rebalance():
                return self.operators.asked(conn, message, now_ns)
        return self._end(conn, Bye("protocol", f"a client may not say {type(message).__name__}", -1.0))

    def _heard_link(self, conn: Conn, message: Message, now_ns: Nanoseconds) -> Iterable[Effect | Answer]:
        if isinstance(message, Welcome) and self.links.lane_of(conn) is None:
            try:
                self.guard.check_broker(conn, message.broker)
            except (NotAuthenticated, NotPermitted) as error:
                return turned_away(conn, error, broker=message.broker)
            effects, change = self.links.welcomed(conn, message, now_ns)
            return [*effects, *self._linked(change)]
        if self.links.lane_of(conn) is None:
            return self._end(conn, Bye("protocol", f"{type(message).__name__} came before a welcome", -1.0))
        self.links.heard(conn, now_ns)
        try:
            if isinstance(message, _ROUTING_MESSAGES):
                return [*self.shortage.widened(message, now_ns=now_ns), *self._heard_routing(conn, message)]
            if isinstance(message, _TREE_MESSAGES):
                return self.streams.heard(conn, message, now_ns=now_ns)
        except PeerError as error:
            return self._end(conn, Bye(error.code, f"{type(message).__name__}: {error.message}", 1.0))
        if isinstance(message, _OF_NEIGHBOURS):
            return self.shortage.heard(conn, message, now_ns=now_ns)
        match message:
            case Neighbourhood():
                self.links.about(conn, message)
                return []
            case Bulletin():
                return self.balancing.heard(conn, message, now_ns=now_ns)
            case Pong():
                return self.links.pong(conn, message, now_ns)
        return self._end(conn, Bye("protocol", f"a neighbour may not say {type(message).__name__}", -1.0))

    def _heard_routing(self, conn: Conn, message: RoutingMessage) -> Iterable[Effect | Answer]:
        if not self.router.is_link(conn):
            return self._end(conn, Bye("protocol", f"{type(message).__name__} is for the data lane", -1.0))
        return [*self.router.heard(conn, message), *self.streams.hold_more(message.tree)]

    # -- connections ---------------------------------------------------------------------------------------------------

    def _linked(self, change: LinkChange | None) -> list[Answer]:
        if change is None:
            return []
        return self.router.link_up(change.conn) if change.is_up else self.router.link_down(change.conn)

    def _of_connection(
        self, event: Opened | DialFailed | Closed | NoRoom | Stalled, now_ns: Nanoseconds
    ) -> Iterable[Effect | Answer]:
        match event:
            case Opened():
                return self._opened(event, now_ns)
            case DialFailed(order, _):
                return self._dial_failed(order, now_ns)
            case Closed(conn, _):
                return self._closed(conn, now_ns)
            case NoRoom():
                return self._thin_out(self._guests.make_room())
            case Stalled(conn, seconds):
                return self.links.stalled(conn, seconds)

    def _opened(self, opened: Opened, now_ns: Nanoseconds) -> Iterable[Effect]:
        conn, order = opened.conn, opened.order
        self.guard.opened(conn, opened.peer, place=opened.place)
        flaw = self.guard.flaw_of_certificate(conn)
        if flaw is not None:
            failed = [] if order is None else self._dial_failed(order, now_ns)
            return [*failed, *turned_away(conn, NotAuthenticated(flaw))]
        if order in (ORDER, channels.ORDER):
            return self._reached(order, conn, now_ns)
        if order is not None:
            return self.links.opened(conn, order)
        return self._thin_out(self._guests.come(conn, opened.place, now_ns))

    def _reached(self, order: int, conn: Conn, now_ns: Nanoseconds) -> Iterable[Effect]:
        """A coordinator says who our neighbours are, a data cluster what clients hear of channels: nobody else may."""
        try:
            if order == ORDER:
                self.guard.check_coordinator(conn, self.config.coordinator or "")
            else:
                self.guard.check_data_cluster(conn, self.config.data_cluster or "")
        except PeerError as error:
            return [*self._dial_failed(order, now_ns), *turned_away(conn, error)]
        return (self._registration if order == ORDER else self.channels).opened(conn, now_ns)

    def _thin_out(self, guest: Conn | None) -> Iterable[Effect]:
        if guest is None:
            return []
        return self._end(guest, Bye(LimitReached.code, "too many connections do not say who they are", 1.0))

    def _dial_failed(self, order: int, now_ns: Nanoseconds) -> Iterable[Effect]:
        if order == ORDER:
            return self._registration.lost(now_ns)
        if order == channels.ORDER:
            return self.channels.lost(now_ns)
        self.links.dial_failed(order, now_ns)
        return []

    def _closed(self, conn: Conn, now_ns: Nanoseconds) -> list[Effect | Answer]:
        self._guests.leave(conn)
        self.guard.closed(conn)
        self.operators.gone(conn)
        left = self.shortage.gone(conn)
        if conn in self.clients:
            return [*left, *self.clients.gone(conn, now_ns)]
        if self.links.is_link(conn):
            effects, change = self.links.closed(conn, now_ns)
            return [*effects, *self._linked(change)]
        if self._registration.is_ours(conn):
            return [*self._registration.lost(now_ns), *self.reporting.lost()]
        return [*self.channels.lost(now_ns)] if self.channels.is_ours(conn) else []

    def _end(self, conn: Conn, bye: Bye) -> list[Effect]:
        note = Note("connection ended", {"code": bye.code, "why": bye.reason})
        return [Send(conn, bye, "control"), Close(conn), note]

    def _stop(self) -> list[Effect]:
        bye = Bye("stopping", f"the broker {self.config.broker} stops", 0.5)
        conns = [*self.clients.conns(), *self._guests]
        conns += [conn for neighbour in self.links.up() for conn in neighbour.lanes.values()]
        ends = (effect for conn in conns for effect in (Send(conn, bye, "control"), Close(conn)))
        return [*self.streams.pubends.keep(), *ends]

    # -- time, roles, moves --------------------------------------------------------------------------------------------

    def _tick(self, now_ns: Nanoseconds) -> Iterable[Effect | Answer]:
        parts = self.links, self._registration, self.channels, self.clients, self.streams, self.balancing, self.shortage
        for part in parts:
            yield from part.tick(now_ns)
        yield from self._seeing_off.expired(now_ns)
        yield from self._draining.settle(now_ns)
        for conn in self._guests.overdue(now_ns):
            yield from self._end(conn, Bye("silent", "you did not say who you are", 1.0))
        for tree in self._lost_trees.overdue(now_ns):
            yield from self.router.forget(tree)

    def _after(self, now_ns: Nanoseconds) -> Iterable[Effect | Answer]:
        """What follows from a change: neighbours hear of it, and clients go where they belong."""
        yield from self.links.news()
        if self.links.role != self._role:
            yield Note("role", {"was": self._role, "is": self.links.role})
            self._role = self.links.role
            yield from self._host()
        yield from self.balancing.neighbours_changed(now_ns)
        hosting = self.links.hosting()
        if hosting != self._hosting:
            self._hosting = hosting
            yield from self._draining.settle(now_ns)
        yield from self._draining.done()

    def _host(self) -> list[Answer]:
        """Where events may be kept, others must find the way: names are held there before anything is published."""
        return self.router.begin() if len(self.streams.pubends) and self._role != "edge" else []

    # -- from answers to effects ---------------------------------------------------------------------------------------

    def _done(self, items: Iterable[Effect | Answer], now_ns: Nanoseconds) -> list[Effect]:
        """Answers of the router become effects: this is the only place that says where they go."""
        effects: list[Effect] = []
        for item in items:
            match item:
                case Tell(link, message):
                    effects.append(Send(link, message))
                case Reached(barrier):
                    effects += self.clients.reached(barrier)
                    effects += self._done(self.streams.reached(barrier, now_ns=now_ns), now_ns)
                case Confirmed() | SetParent():
                    effects += [item, *self._done(self.streams.proven(item, now_ns=now_ns), now_ns)]
                case Paced():
                    effects += self.clients.paced(item)
                case _:
                    effects.append(item)
        gone = self.clients.let_go(now_ns=now_ns)
        return effects + self._done(gone, now_ns) if gone else effects
