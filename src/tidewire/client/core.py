"""The client session: where to publish and to subscribe, what to say again after a break, how to move. Pure.

A session has at most one connection that publishes and one that subscribes; where a broker serves both, they are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tidewire.client.events import (
    AdvertiseThat,
    Came,
    ClientEffect,
    ClientEvent,
    Close,
    Closed,
    Connect,
    Dial,
    DialFailed,
    Finished,
    FlushAll,
    HandOver,
    Heard,
    Opened,
    Published,
    PublishOn,
    Send,
    SetClock,
    SubscribeTo,
    Tell,
    TimePassed,
    UnadvertiseThat,
    UnsubscribeFrom,
    Wanted,
)
from tidewire.client.moving import Handover, is_beyond
from tidewire.model.chance import Chance
from tidewire.model.errors import Unavailable, error_of
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import (
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
    Message,
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
from tidewire.wire.frames import Delivered
from tidewire.wire.liveness import Liveness, answer

REDIRECTS_MAX: Final = 8


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a session behaves."""

    addresses: list[str]
    """Brokers to begin with; any one will do."""

    name: str = "client"
    publisher: int = 0
    """Who publishes, for order and against repetition: unique, chosen by the driver."""

    reconnect_s: float = 0.1
    reconnect_s_max: float = 5.0
    give_up_s: float = 10.0
    """A request that finds no broker for so long fails."""


class _Line:
    """One connection, from the moment it is dialled."""

    def __init__(self, address: str, *, use: Use | None, redirects: int = 0) -> None:
        self.address = address
        self.use: Use | None = use
        """What it was dialled for; None: whatever comes."""
        self.redirects = redirects
        self.conn: Conn | None = None
        self.welcome: Welcome | None = None
        self.liveness: Liveness | None = None
        self.is_move = False
        """Is it the new place of something that moves, and not yet in use?"""

    def serves(self, use: Use) -> bool:
        """Is this use hosted there?"""
        if self.welcome is None:
            return False
        return not (self.welcome.publish_at if use == "publish" else self.welcome.subscribe_at)


class _PublisherMove(msgspec.Struct):
    """A publisher on its way: it begins at the new broker when the old one has delivered everything."""

    session: int
    old: Conn
    new: Conn | None = None
    is_said: bool = False
    """Has the new broker been told what will be published?"""
    has_left: bool = False
    is_expected: bool = False
    """Has the new broker told everyone?"""


_Request = Connect | SubscribeTo | UnsubscribeFrom | AdvertiseThat | UnadvertiseThat | FlushAll
_USE_OF: Final[dict[type, Use | None]] = {
    Connect: None,
    SubscribeTo: "subscribe",
    UnsubscribeFrom: "subscribe",
    AdvertiseThat: "publish",
    UnadvertiseThat: "publish",
    FlushAll: "publish",
}


class ClientCore:
    """One session of one application."""

    def __init__(self, config: ClientConfig, *, chance: Chance) -> None:
        self._config = config
        self._chance = chance
        self._addresses = list(config.addresses)
        """Those that we began with, and those that we have heard of."""
        self._wanted: dict[Use, None] = {}
        self._lines: dict[Conn, _Line] = {}
        self._dials: dict[int, _Line] = {}
        self._serving: dict[Use, Conn] = {}
        self._retries: dict[Use, tuple[int, int]] = {}
        """Attempts so far, and when to make the next one."""
        self._begin_ns: int | None = None
        """When to look again for any broker at all."""
        self._why = ""
        """What stood in the way last."""
        self._orders = self._requests = 0
        self._subscriptions: dict[int, bytes] = {}
        self._advertisements: dict[int, bytes] = {}
        self._next_sequence = 1
        self._asked: dict[tuple[Conn, int], _Request | Use] = {}
        """Requests under way: the application's, or ours that says everything of a use again."""
        self._waiting: dict[int, tuple[_Request, int]] = {}
        """Requests of the application that wait for a connection, and since when."""
        self._handover: Handover | None = None
        self._floors: dict[int, int] = {}
        """After a move: what is not beyond these positions has come from the broker before."""
        self._publisher_move: _PublisherMove | None = None

    # -- what others may know ------------------------------------------------------------------------------------------

    def is_plain(self, conn: Conn) -> bool:
        """May events from this connection go to the application without asking?"""
        return self._handover is None and not self._floors and self._serving.get("subscribe") == conn

    def broker(self, use: Use) -> str | None:
        """The broker that serves this use now."""
        conn = self._serving.get(use)
        welcome = None if conn is None else self._lines[conn].welcome
        return None if welcome is None else welcome.broker

    def connection(self, use: Use) -> Conn | None:
        """The connection that serves this use now."""
        return self._serving.get(use)

    def is_confirmed(self, use: Use) -> bool:
        """Is this use served, and has the broker confirmed all that was said again for it?"""
        conn = self._serving.get(use)
        return conn is not None and not any(key[0] == conn and request == use for key, request in self._asked.items())

    def handle(self, event: ClientEvent, *, now_ns: Nanoseconds) -> list[ClientEffect]:
        """Something has happened: what is to be done?"""
        return list(self._handle(event, now_ns))

    def deadline_ns(self) -> int | None:
        """When the machine wants to hear TimePassed."""
        times = [retry_ns for _, retry_ns in self._retries.values()]
        times += [] if self._begin_ns is None else [self._begin_ns]
        times += [line.liveness.deadline_ns() for line in self._lines.values() if line.liveness is not None]
        times += [since_ns + int(self._config.give_up_s * 1e9) for _, since_ns in self._waiting.values()]
        return min(times, default=None)

    def _handle(self, event: ClientEvent, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        match event:
            case Came(conn, delivered, tree):
                yield from self._came(conn, delivered, tree)
            case Heard(conn, message):
                yield from self._heard(conn, message, now_ns)
            case Published(events):
                self._next_sequence += events
            case Wanted(use):
                self._wanted[use] = None
                yield from self._ensure(use, now_ns)
            case Connect() | SubscribeTo() | UnsubscribeFrom() | AdvertiseThat() | UnadvertiseThat() | FlushAll():
                self._waiting[event.token] = event, now_ns
                yield from self._want(_USE_OF[type(event)], now_ns)
            case Opened(conn, order):
                yield from self._opened(conn, order)
            case DialFailed(order, reason):
                line = self._dials.pop(order)
                yield from self._line_lost(line, reason, now_ns)
            case Closed(conn, reason):
                yield from self._closed(conn, reason, now_ns)
            case TimePassed():
                yield from self._tick(now_ns)

    # -- connections ---------------------------------------------------------------------------------------------------

    def _want(self, use: Use | None, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        if use is not None:
            self._wanted[use] = None
            yield from self._ensure(use, now_ns)
            yield from self._ask_waiting(use)
        elif not self._lines and not self._dials:
            yield self._dial(_Line(self._addresses[0], use=None))

    def _ensure(self, use: Use, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        if use in self._serving or use in self._retries or any(self._is_coming(line) for line in self._all()):
            return
        for conn, line in self._lines.items():
            if line.serves(use) and not line.is_move:
                yield from self._serve(conn, use)
                return
        attempts = self._retries.get(use, (0, 0))[0]
        yield self._dial(_Line(self._addresses[attempts % len(self._addresses)], use=use))

    def _all(self) -> Iterable[_Line]:
        return [*self._dials.values(), *self._lines.values()]

    def _is_coming(self, line: _Line) -> bool:
        """It may serve any use, once it is welcomed."""
        return line.welcome is None and not line.is_move

    def _dial(self, line: _Line) -> Dial:
        self._orders += 1
        self._dials[self._orders] = line
        return Dial(self._orders, line.address)

    def _opened(self, conn: Conn, order: int) -> Iterator[ClientEffect]:
        line = self._dials.pop(order)
        line.conn = conn
        self._lines[conn] = line
        config = self._config
        yield Send(
            conn,
            Hello(
                version=VERSION,
                name=config.name,
                uses=["publish", "subscribe"],
                publisher=config.publisher,
                next_sequence=self._next_sequence,
            ),
        )

    def _welcomed(self, conn: Conn, welcome: Welcome, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        line = self._lines[conn]
        line.welcome = welcome
        line.liveness = Liveness(welcome.heartbeat_s, now_ns=now_ns)
        for token in [token for token, (request, _) in self._waiting.items() if isinstance(request, Connect)]:
            del self._waiting[token]
            yield Finished(token)
        if line.use is not None:
            yield from self._welcomed_for(conn, line, line.use, welcome)
        for use in self._wanted:
            yield from self._ensure(use, now_ns)
        if self._serving:
            yield from self._close_if_unused(conn)

    def _welcomed_for(self, conn: Conn, line: _Line, use: Use, welcome: Welcome) -> Iterator[ClientEffect]:
        elsewhere = welcome.publish_at if use == "publish" else welcome.subscribe_at
        if elsewhere and line.redirects < REDIRECTS_MAX:
            further = _Line(elsewhere[0], use=use, redirects=line.redirects + 1)
            further.is_move = line.is_move
            line.is_move = False
            yield self._dial(further)
        elif line.is_move:
            yield from self._move_welcomed(conn, use)
        elif use not in self._serving:
            yield from self._serve(conn, use)

    def _serve(self, conn: Conn, use: Use) -> Iterator[ClientEffect]:
        """From now on this connection serves this use: say again all that was said before."""
        self._serving[use] = conn
        self._retries.pop(use, None)
        yield from self._say_all(conn, use)
        yield from self._ask_waiting(use)
        for other in list(self._lines):  # those that only led here
            yield from self._close_if_unused(other)

    def _say_all(self, conn: Conn, use: Use) -> Iterator[ClientEffect]:
        known = self._subscriptions if use == "subscribe" else self._advertisements
        if known or self._lines[conn].is_move:
            yield self._request(conn, use)

    def _closed(self, conn: Conn, reason: str, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        line = self._lines.pop(conn, None)
        if line is None:
            return
        for key in [key for key in self._asked if key[0] == conn]:
            yield from self._unanswered(self._asked.pop(key), now_ns)
        lost: list[Use] = [use for use, serving in self._serving.items() if serving == conn]
        for use in lost:
            del self._serving[use]
            if use == "publish":
                yield PublishOn(None)
            yield Tell("connection lost", {"use": use, "reason": reason})
        yield from self._old_is_gone(conn)
        yield from self._line_lost(line, reason, now_ns)

    def _unanswered(self, request: _Request | Use, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        """What was asked for on a connection that has ended: it is said again on the next one."""
        match request:
            case SubscribeTo() | AdvertiseThat():
                self._waiting[request.token] = request, now_ns
            case UnsubscribeFrom() | UnadvertiseThat():
                yield Finished(request.token)
            case FlushAll():
                yield Finished(request.token, Unavailable("the connection was lost before all had been handled"))

    def _line_lost(self, line: _Line, reason: str, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        """A connection that was being made has come to nothing."""
        self._why = reason
        if line.use is None:
            self._begin_ns = now_ns + int(self._config.reconnect_s * 1e9)
        elif line.is_move:
            yield from self._move_failed(line.use, reason)
        for use in self._wanted:
            is_on_its_way = use in self._retries or any(self._is_coming(other) for other in self._all())
            if use not in self._serving and not is_on_its_way:
                self._try_later(use, now_ns)

    def _try_later(self, use: Use, now_ns: Nanoseconds) -> None:
        attempts = self._retries.get(use, (0, 0))[0]
        pause_s = min(self._config.reconnect_s * 2 ** min(attempts, 16), self._config.reconnect_s_max)
        self._retries[use] = attempts + 1, now_ns + int(pause_s * (0.5 + self._chance.random()) * 1e9)

    def _close_if_unused(self, conn: Conn) -> Iterator[ClientEffect]:
        line = self._lines.get(conn)
        is_used = conn in self._serving.values() or (line is not None and line.is_move)
        moving = self._publisher_move
        is_used |= self._handover is not None and conn == self._handover.old
        is_used |= moving is not None and conn == moving.old
        if line is not None and line.welcome is not None and not is_used:
            yield Close(conn)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _ask_waiting(self, use: Use) -> Iterator[ClientEffect]:
        """Send what waits for this use, unless it is moving: then it goes to the new place."""
        conn = self._serving.get(use)
        is_moving = self._handover if use == "subscribe" else self._publisher_move
        if conn is None or is_moving is not None:
            return
        for token in [token for token, (request, _) in self._waiting.items() if _USE_OF[type(request)] == use]:
            request, _ = self._waiting.pop(token)
            yield self._ask(conn, request)

    def _ask(self, conn: Conn, request: _Request) -> Send:
        self._requests += 1
        number = self._requests
        self._asked[conn, number] = request
        message: Message
        match request:
            case SubscribeTo(_, numbers, filters):
                message = Subscribe(number, numbers, filters)
            case UnsubscribeFrom(_, numbers):
                message = Unsubscribe(number, numbers)
                for each in numbers:
                    self._subscriptions.pop(each, None)
            case AdvertiseThat(_, numbers, filters):
                message = Advertise(number, numbers, filters, self._next_sequence)
            case Connect():
                raise AssertionError("a connection is not asked for on a connection")
            case UnadvertiseThat(_, numbers):
                message = Unadvertise(number, numbers)
                for each in numbers:
                    self._advertisements.pop(each, None)
            case FlushAll():
                message = Flush(number)
        return Send(conn, message)

    def _request(self, conn: Conn, use: Use) -> Send:
        """All that we have said before, again."""
        self._requests += 1
        self._asked[conn, self._requests] = use
        known = self._subscriptions if use == "subscribe" else self._advertisements
        numbers, filters = list(known), list(known.values())
        if use == "subscribe":
            return Send(conn, Subscribe(self._requests, numbers, filters))
        return Send(conn, Advertise(self._requests, numbers, filters, self._next_sequence))

    def _done(self, conn: Conn, number: int) -> Iterator[ClientEffect]:
        request = self._asked.pop((conn, number), None)
        match request:
            case SubscribeTo(token, numbers, filters):
                self._subscriptions.update(zip(numbers, filters, strict=True))
                yield Finished(token)
            case AdvertiseThat(token, numbers, filters):
                self._advertisements.update(zip(numbers, filters, strict=True))
                yield PublishOn(conn)
                yield Finished(token)
            case UnsubscribeFrom(token) | UnadvertiseThat(token) | FlushAll(token):
                yield Finished(token)
            case "publish" | "subscribe":
                yield from self._said_all(conn, request)
        yield from self._answered(request)

    def _said_all(self, conn: Conn, use: Use) -> Iterator[ClientEffect]:
        if self._lines[conn].is_move:
            yield from self._move_expected(conn, use)
        elif use == "publish":
            yield PublishOn(conn)

    def _refused(self, conn: Conn, message: Refused) -> Iterator[ClientEffect]:
        request = self._asked.pop((conn, message.request), None)
        error = error_of(message.code, message.reason)
        if isinstance(request, str):
            if self._lines[conn].is_move:
                self._lines[conn].is_move = False
                yield from self._move_failed(request, message.reason)
                yield from self._close_if_unused(conn)
            else:
                yield Tell("what was said before is refused", {"use": request, "reason": message.reason})
        elif request is not None:
            yield Finished(request.token, error)
        yield from self._answered(request)

    def _answered(self, request: _Request | Use | None) -> Iterator[ClientEffect]:
        if request is not None:
            yield from self._say_all_there(request if isinstance(request, str) else _USE_OF[type(request)])

    # -- messages ------------------------------------------------------------------------------------------------------

    def _heard(self, conn: Conn, message: Message, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        line = self._lines.get(conn)
        if line is None:
            return
        if line.liveness is not None:
            line.liveness.heard(now_ns)
        match message:
            case Welcome():
                yield from self._welcomed(conn, message, now_ns)
            case Done(request):
                yield from self._done(conn, request)
            case Refused():
                yield from self._refused(conn, message)
            case Ping():
                yield Send(conn, answer(message, now_ns=now_ns), "control")
            case Pong() if line.liveness is not None:
                clock = line.liveness.clock_of(message, now_ns=now_ns)
                if clock is not None:
                    yield SetClock(conn, clock.offset_ns, clock.error_us)
            case Move():
                yield from self._move(conn, message)
            case Left(session):
                yield from self._left(conn, session)
            case Lost(events):
                yield Tell("events lost", {"events": events})
            case EventRefused(sequences, code, reason, further):
                yield Tell("events refused", {"events": len(sequences) + further, "code": code, "reason": reason})
            case Bye(code, reason):
                yield Tell("goodbye", {"code": code, "reason": reason})
                yield Close(conn)

    # -- moving --------------------------------------------------------------------------------------------------------

    def _move(self, conn: Conn, move: Move) -> Iterator[ClientEffect]:
        if move.address not in self._addresses:
            self._addresses.append(move.address)
        if conn not in self._serving.values():  # it does nothing at present: another time, at another place
            self._addresses.sort(key=lambda address: address != move.address)
            yield Close(conn)
            return
        is_moving = self._handover if move.use == "subscribe" else self._publisher_move
        if self._serving.get(move.use) != conn or is_moving is not None:
            yield Send(conn, Stay(move.session, "this session is not served here, or moves already"), "control")
            return
        line = _Line(move.address, use=move.use)
        line.is_move = True
        if move.use == "subscribe":
            self._handover = Handover(session=move.session, old=conn, floors=self._floors)
        else:
            self._publisher_move = _PublisherMove(move.session, conn)
            yield PublishOn(None)
            yield Send(conn, Leave(move.session))
        yield self._dial(line)

    def _move_welcomed(self, conn: Conn, use: Use) -> Iterator[ClientEffect]:
        if use == "subscribe" and self._handover is not None:
            self._handover.new = conn
        elif use == "publish" and self._publisher_move is not None:
            self._publisher_move.new = conn
        yield from self._say_all_there(use)

    def _say_all_there(self, use: Use | None) -> Iterator[ClientEffect]:
        """Say all at the new place, as soon as nothing is asked for at the old one: or the new one would not hear of it."""
        moving = self._handover if use == "subscribe" else self._publisher_move
        if use is None or moving is None or moving.new is None or moving.is_said:
            return
        if any(key[0] == moving.old and self._is_for(request, use) for key, request in self._asked.items()):
            return
        moving.is_said = True
        yield self._request(moving.new, use)

    @staticmethod
    def _is_for(request: _Request | Use, use: Use) -> bool:
        return request == use if isinstance(request, str) else _USE_OF[type(request)] == use

    def _move_expected(self, conn: Conn, use: Use) -> Iterator[ClientEffect]:
        """The new broker serves us: the old one may let us go."""
        if use == "subscribe" and self._handover is not None:
            self._handover.is_served = True
            if self._handover.old in self._lines:
                yield Send(self._handover.old, Leave(self._handover.session))
            else:
                yield from self._subscriber_moved()
        elif use == "publish" and self._publisher_move is not None:
            self._publisher_move.is_expected = True
            yield from self._publisher_moved()

    def _left(self, conn: Conn, session: int) -> Iterator[ClientEffect]:
        moving = self._publisher_move
        if self._handover is not None and (self._handover.old, self._handover.session) == (conn, session):
            yield from self._subscriber_moved()
        elif moving is not None and (moving.old, moving.session) == (conn, session):
            moving.has_left = True
            yield from self._publisher_moved()

    def _subscriber_moved(self) -> Iterator[ClientEffect]:
        handover = self._handover
        assert handover is not None
        assert handover.new is not None
        self._handover = None
        released = handover.released()
        self._floors = handover.floors
        yield HandOver(released, handover.new)
        yield from self._moved(handover.old, handover.new, "subscribe")

    def _publisher_moved(self) -> Iterator[ClientEffect]:
        moving = self._publisher_move
        assert moving is not None
        if not (moving.has_left and moving.is_expected) or moving.new is None:
            return
        self._publisher_move = None
        yield PublishOn(moving.new)
        yield from self._moved(moving.old, moving.new, "publish")

    def _moved(self, old: Conn, new: Conn, use: Use) -> Iterator[ClientEffect]:
        self._lines[new].is_move = False
        self._serving[use] = new
        self._retries.pop(use, None)
        yield Tell("moved", {"use": use, "to": self.broker(use) or ""})
        yield from self._close_if_unused(old)
        if old in self._serving.values():
            yield self._take_back(old, use)
        yield from self._ask_waiting(use)

    def _take_back(self, old: Conn, use: Use) -> Send:
        """The old broker still serves the other use, but no longer this one."""
        self._requests += 1
        if use == "subscribe":
            return Send(old, Unsubscribe(self._requests, list(self._subscriptions)))
        return Send(old, Unadvertise(self._requests, list(self._advertisements)))

    def _move_failed(self, use: Use, reason: str) -> Iterator[ClientEffect]:
        """The new place cannot be had: stay at the old one, if it is still there."""
        if use == "subscribe" and self._handover is not None:
            old, session, self._handover = self._handover.old, self._handover.session, None
        elif use == "publish" and self._publisher_move is not None:
            old, session, self._publisher_move = self._publisher_move.old, self._publisher_move.session, None
            if old in self._lines:
                yield PublishOn(old)
        else:
            return
        if old in self._lines:
            yield Send(old, Stay(session, reason), "control")
        yield from self._ask_waiting(use)

    def _old_is_gone(self, conn: Conn) -> Iterator[ClientEffect]:
        """The old broker has ended in the middle of a move: go on with the new one as far as it is ready."""
        if self._handover is not None and self._handover.old == conn:
            if self._handover.is_served:
                yield from self._subscriber_moved()
            elif self._handover.new is None:
                self._handover = None  # the new connection, when it stands, is one like any other
                for line in self._all():
                    line.is_move &= line.use != "subscribe"
            else:
                yield from self._say_all_there("subscribe")
        moving = self._publisher_move
        if moving is not None and moving.old == conn:
            moving.has_left = True
            yield from self._say_all_there("publish")
            yield from self._publisher_moved()

    def _came(self, conn: Conn, delivered: Delivered, tree: int) -> Iterator[ClientEffect]:
        handover = self._handover
        if handover is not None and conn == handover.new:
            handover.from_new(tree, delivered)
        elif conn == self._serving.get("subscribe"):
            if handover is not None:
                handover.from_old(tree, delivered)
            elif not is_beyond(self._floors, tree, delivered):
                return
            yield HandOver([delivered], conn)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _tick(self, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        for conn, line in self._lines.items():
            if line.liveness is None:
                continue
            if line.liveness.is_dead(now_ns):
                yield Close(conn)
            elif ping := line.liveness.ping(now_ns):
                yield Send(conn, ping, "control")
        if self._begin_ns is not None and now_ns >= self._begin_ns:
            self._begin_ns = None
            if any(isinstance(request, Connect) for request, _ in self._waiting.values()):
                yield from self._want(None, now_ns)
        due: list[Use] = [use for use, (_, retry_ns) in self._retries.items() if now_ns >= retry_ns]
        for use in due:
            attempts, _ = self._retries.pop(use)
            if use not in self._serving:
                addresses = self._addresses
                self._retries[use] = attempts, now_ns + int(self._config.reconnect_s_max * 2e9)
                yield self._dial(_Line(addresses[attempts % len(addresses)], use=use))
        for token, (_, since_ns) in list(self._waiting.items()):
            if now_ns >= since_ns + int(self._config.give_up_s * 1e9):
                del self._waiting[token]
                where = ", ".join(self._config.addresses)
                reason = f"no broker could be reached at {where} for {self._config.give_up_s:g} s"
                yield Finished(token, Unavailable(f"{reason}: {self._why}" if self._why else reason))
