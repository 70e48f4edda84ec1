"""The client session: where to publish and to subscribe, what to say again after a break, how to move. Pure.

A session has at most one connection that publishes and one that subscribes; where a broker serves both, they are one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidewire.client.config import ClientConfig
from tidewire.client.events import (
    AdvertiseThat,
    Came,
    ClientEffect,
    ClientEvent,
    CloseChannelFor,
    Ended,
    Finished,
    FollowAs,
    Guarantee,
    HandOver,
    Leave,
    Over,
    Published,
    PublishOn,
    Receipted,
    Tell,
    Took,
    UnfollowFor,
    Unread,
    UnsubscribeFrom,
    Wanted,
)
from tidewire.client.followings import Following, Followings
from tidewire.client.knowledge import Knowledge
from tidewire.client.lines import REDIRECTS_MAX, Line, Lines
from tidewire.client.moving import Moving
from tidewire.client.promised import Promised
from tidewire.client.requests import Request, Requests, use_of
from tidewire.client.tunings import FromChannel, Tuning, Tunings
from tidewire.client.valuing import FromBroker, Valuing
from tidewire.model.chance import Chance
from tidewire.model.channel_messages import ChannelEnded, ChannelOpened, Notified, NotifiedLost
from tidewire.model.errors import TidewireError, Unavailable, error_of
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import (
    VERSION,
    Bye,
    Done,
    EventRefused,
    Hello,
    Left,
    Lost,
    Message,
    Move,
    Ping,
    Pong,
    Refused,
    Use,
    Welcome,
)
from tidewire.model.placement_messages import BrokerFound
from tidewire.model.shortage_messages import AskOpinions, Limits, Quench
from tidewire.model.stream_messages import Begun, Gap, Pace, Superseded
from tidewire.wire.connections import Closed, DialFailed, Heard, Opened, Send, SetClock, TimePassed
from tidewire.wire.liveness import answer


class ClientCore(Knowledge):
    """One session of one application."""

    def __init__(self, config: ClientConfig, *, chance: Chance) -> None:
        self._config = config
        self._lines = Lines(config, chance=chance)
        self.followings = Followings()
        self._tunings = Tunings()
        claim, known = lambda: int(chance.random() * 2**53) + 1, self.followings.get
        self._requests = Requests(give_up_s=config.give_up_s, claim=claim, known=known, tuned=self._tunings.tuned)
        self._moving = Moving(self._lines, self._requests, self.followings, self._tunings)
        self._promised = Promised(self._lines, self._moving, give_up_s=config.give_up_s)
        self.valuing = Valuing()
        self._over: TidewireError | None = None
        """Why no broker will have us."""

    def handle(self, event: ClientEvent, *, now_ns: Nanoseconds) -> list[ClientEffect]:
        """Something has happened: what is to be done?"""
        effects: list[ClientEffect] = []
        self._requests.now_ns = now_ns
        for effect in self._handle(event, now_ns):
            effects.append(effect)
            if isinstance(effect, PublishOn):
                effects += self._promised.goes_to(effect.conn, now_ns=now_ns)
                self.valuing.publishes_on(effect.conn)
        if any(isinstance(effect, PublishOn) and effect.conn is not None for effect in effects):
            effects += [Finished(token) for token in self._requests.may_publish()]
        return effects

    def deadline_ns(self) -> int | None:
        """When the machine wants to hear TimePassed."""
        if self._over is not None:
            return None
        parts = self._lines, self._requests, self._promised, self._tunings, self.valuing
        times = [part.deadline_ns() for part in parts]
        return min((time for time in times if time is not None), default=None)

    # -- what happened -------------------------------------------------------------------------------------------------

    def _handle(self, event: ClientEvent, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        match event:
            case Came(conn, delivered):
                if self._moving.is_due(conn, delivered):
                    yield HandOver([delivered], conn)
            case Heard(conn, message):
                yield from self._heard(conn, message, now_ns)
            case Unread(conn):
                self._lines.not_silent(conn, now_ns=now_ns)
            case Published() | Guarantee() | Receipted() | Leave() | Took():
                yield from self._noted(event, now_ns)
            case Wanted(use):
                yield from self._want(use)
            case Opened(conn, int(order)):
                self._lines.opened(conn, order, now_ns=now_ns)
                yield Send(conn, self._hello())
            case DialFailed(order, reason):
                yield from self._lost(self._lines.not_opened(order), reason, now_ns)
            case Closed(conn, reason):
                yield from self._closed(conn, reason, now_ns)
            case TimePassed():
                yield from self._tick(now_ns)
            case Opened():
                raise AssertionError("nobody dials a client")
            case _:
                yield from self._asked(event, now_ns)

    def _noted(
        self, event: Published | Guarantee | Receipted | Leave | Took, now_ns: Nanoseconds
    ) -> Iterator[ClientEffect]:
        if isinstance(event, Published):
            self._requests.next_sequence += event.events
        elif isinstance(event, Receipted):
            yield from self._promised.receipted(event.sequence)
        elif isinstance(event, Took):
            yield from self._tunings.took(event.taken, self._lines.serving("subscribe"))
        elif isinstance(event, Leave):
            yield from self._promised.abandoned(Unavailable("this session is closed"))
        elif self._over is not None:
            yield Finished(event.token, self._over)
        else:
            self._promised.add(event.token, event.event, born_ns=event.born_ns, now_ns=now_ns)
            yield from self._want("publish")
            yield from self._promised.send(now_ns=now_ns)

    def _asked(self, request: Request, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        if self._over is not None:
            yield Finished(request.token, self._over)
            return
        self._requests.wait(request, now_ns=now_ns)
        yield from self._want(use_of(request))

    def _heard(self, conn: Conn, message: Message, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        line = self._lines.get(conn)
        if line is None:
            return
        line.heard(now_ns)
        match message:
            case Welcome():
                yield from self._welcomed(conn, message, now_ns)
            case Done(request):
                yield from self._done(conn, request)
            case Refused():
                yield from self._refused(conn, message)
            case Ping():
                yield Send(conn, answer(message, now_ns=now_ns), "control")
            case Pong():
                read_before = line.read_before(message)
                if conn == self._lines.serving("publish"):
                    self._requests.read_before(read_before)
                clock = line.clock_of(message, now_ns=now_ns)
                if clock is not None:
                    yield SetClock(conn, clock.offset_ns, clock.error_us)
            case Move():
                yield from self._move(conn, message)
            case BrokerFound(_, _, address) if line.welcome is None:
                yield from self._sent_on(conn, line, address)
            case Left(session):
                yield from self._moving.left(conn, session)
                yield from self._ask_all_waiting()
            case _:
                yield from self._told(conn, message)

    def _told(self, conn: Conn, message: Message) -> Iterator[ClientEffect]:
        """What the application may want to know."""
        match message:
            case Lost(events):
                yield Tell("events lost", {"events": events})
            case EventRefused(sequences, code, reason, _, True):
                yield from self._promised.refused(sequences, error_of(code, reason))
            case EventRefused(sequences, code, reason, further):
                count = len(sequences) + further
                yield Tell("events refused", {"events": count, "code": code, "reason": reason}, tuple(sequences))
            case Begun():
                yield from self._begun(conn, message)
            case Gap():
                yield Tell("gap", self.followings.lost(message))
            case Superseded(number, is_ended):
                yield Ended(number, self.followings.taken(number, is_ended=is_ended))
            case Pace() | AskOpinions() | Limits() | Quench():
                yield from self._paced(conn, message)
            case ChannelOpened() | Notified() | NotifiedLost() | ChannelEnded():
                yield from self._from_channel(conn, message)
            case Bye(code, reason, retry_after_s):
                if retry_after_s < 0 and (self._lines.is_serving(conn) or not self._lines.is_any_serving()):
                    yield from self._end(error_of(code, reason))
                else:
                    if self._lines.is_news(conn, reason):
                        yield Tell("goodbye", {"code": code, "reason": reason})
                    yield self._lines.leave(conn, reason)

    def _paced(self, conn: Conn, message: Pace | FromBroker) -> Iterator[ClientEffect]:
        paced, now_ns = self._promised.paced, self._requests.now_ns
        return paced(message) if isinstance(message, Pace) else self.valuing.heard(conn, message, now_ns=now_ns)

    def _begun(self, conn: Conn, begun: Begun) -> Iterator[ClientEffect]:
        following = self._requests.followed(begun.request)
        if following is not None:
            self.followings.add(following)
        self.followings.begun(begun.number, begun.places, origin=begun.origin, now_ns=self._requests.now_ns)
        asked = self._requests.done(conn, begun.request) if begun.request else None
        if isinstance(asked, FollowAs):
            yield Finished(asked.token)
        yield from self._moving.say_all_there("subscribe")

    def _from_channel(self, conn: Conn, message: FromChannel) -> Iterator[ClientEffect]:
        if not isinstance(message, ChannelOpened):
            yield from self._tunings.heard(conn, message)
            return
        tuning = self._requests.done(conn, message.request)
        if isinstance(tuning, Tuning):
            yield from self._tunings.opened(conn, message, tuning)
            yield from self._moving.say_all_there("subscribe")

    def _end(self, error: TidewireError) -> Iterator[ClientEffect]:
        """There is no use in coming again: all that was asked for fails, and so will what is asked for later."""
        self._over = error
        yield from (self._lines.leave(conn) for conn in self._lines.conns())
        yield from (Finished(token, error) for token in self._requests.abandoned())
        yield from self._promised.abandoned(error)
        yield Over(error)

    def _tick(self, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        if self._over is not None:
            return
        yield from self._lines.heartbeats(now_ns, next_sequence=self._requests.next_sequence)
        if self._lines.is_time_to_begin(now_ns) and self._requests.is_connecting():
            yield from self._want(None)
        yield from self._lines.dial_due(now_ns)
        conn, due = self._lines.serving("subscribe"), self._tunings.due(now_ns)
        yield from () if conn is None else self._tune_in(conn, due)  # whoever serves us next is told all anyway
        yield from self._promised.given_up(now_ns=now_ns)
        publishes = self._lines.serving("publish")
        yield from self.valuing.due(publishes, conn, now_ns=now_ns)
        for request in self._requests.given_up(now_ns, can_publish_later=publishes is not None):
            yield Finished(request.token, Unavailable(self._lines.unreached()))

    # -- connections ---------------------------------------------------------------------------------------------------

    def _want(self, use: Use | None) -> Iterator[ClientEffect]:
        if use is not None:
            self._lines.want(use)
            yield from self._ensure(use)
            yield from self._ask_waiting(use)
            yield from self._moving.leave_needless()
        elif not self._lines.is_any():
            yield self._lines.dial(None)

    def _ensure(self, use: Use) -> Iterator[ClientEffect]:
        if self._lines.is_under_way(use):
            return
        conn = self._lines.able(use)
        if conn is None:
            yield self._lines.dial(use)
        else:
            yield from self._serve(conn, use)

    def _hello(self) -> Hello:
        return Hello(
            version=VERSION,
            name=self._config.name,
            uses=["publish", "subscribe"],
            publisher=self._config.publisher,
            next_sequence=self._requests.next_sequence,
            identity=self._config.identity,
            location=self._config.location,
            wanted=self._requests.wanted(),
        )

    def _welcomed(self, conn: Conn, welcome: Welcome, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        line = self._lines.welcomed(conn, welcome, now_ns=now_ns)
        for request in self._requests.no_longer_waiting(None):
            yield Finished(request.token)
        if line.use is not None:
            yield from self._welcomed_for(conn, line, line.use, now_ns)
        for use in self._lines.wanted():
            yield from self._ensure(use)
        yield from self._moving.leave_needless()

    def _sent_on(self, conn: Conn, line: Line, address: str) -> Iterator[ClientEffect]:
        """It is no broker but the coordinator, and says which one to use."""
        if line.redirects < REDIRECTS_MAX:
            yield self._lines.found(line, address)
            yield self._lines.leave(conn)
        else:
            yield self._lines.give_up(conn, f"sent on again and again, to {line.address} in the end")

    def _welcomed_for(self, conn: Conn, line: Line, use: Use, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        elsewhere = line.elsewhere(use)
        if use == "publish" and self._lines.pinned is not None and not line.is_move:
            if self._lines.may_serve(line, use) and self._lines.serving(use) is None:
                yield from self._serve(conn, use)
            else:
                self._lines.not_the_one(use, now_ns=now_ns)
        elif elsewhere is not None:
            yield self._lines.dial_further(line, use, elsewhere)
        elif line.is_move:
            yield from self._moving.welcomed(conn, use)
        elif self._lines.serving(use) is None:
            yield from self._serve(conn, use)

    def _serve(self, conn: Conn, use: Use) -> Iterator[ClientEffect]:
        """From now on this connection serves this use: say again all that was said before."""
        self._lines.serve(use, conn)
        if self._requests.has_said(use):
            yield Send(conn, self._requests.say_again(conn, use))
        if use == "subscribe":
            yield from self._follow_again(conn)
        yield from self._ask_waiting(use)

    def _follow_again(self, conn: Conn) -> Iterator[ClientEffect]:
        for following in self.followings.all():
            yield Send(conn, self._requests.follow_again(conn, following))
        yield from self._tune_in(conn, self._tunings.said_again())

    def _tune_in(self, conn: Conn, tunings: list[Tuning]) -> Iterator[ClientEffect]:
        yield from (Send(conn, self._requests.tune(conn, tuning)) for tuning in tunings)

    def _closed(self, conn: Conn, reason: str, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        ended = self._lines.closed(conn)
        if ended is None:
            return
        line, served = ended
        reason = line.why_left or reason
        yield from self._requests.unanswered(conn, now_ns=now_ns)
        self._tunings.closed(conn)
        self.valuing.closed(conn)
        for use in served:
            facts: dict[str, str | int | float] = {"use": use, "reason": reason}
            if use == "publish":
                yield PublishOn(None)
                facts |= {"unconfirmed": self._requests.in_doubt} if self._requests.in_doubt else {}
                self._requests.read_before(self._requests.next_sequence)
                self._requests.may_not_publish(now_ns=now_ns)
            yield Tell("connection lost", facts)
        yield from self._moving.old_is_gone(conn)
        yield from self._ask_all_waiting()
        yield from self._lost(line, reason, now_ns)

    def _lost(self, line: Line, reason: str, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        """A connection has come to nothing, or to its end."""
        if self._over is not None:
            return
        if line.is_move and line.use is not None:
            yield from self._stay(line.use, reason)
        yield from self._lines.lost(line, reason, now_ns=now_ns)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _ask_all_waiting(self) -> Iterator[ClientEffect]:
        for use in self._lines.wanted():
            yield from self._ask_waiting(use)

    def _ask_waiting(self, use: Use) -> Iterator[ClientEffect]:
        """Send what waits for this use, unless it is moving: then it goes to the new place."""
        conn = self._lines.serving(use)
        if conn is None or self._moving.is_moving(use):
            return
        for request in self._requests.no_longer_waiting(use):
            yield Send(conn, self._requests.ask(conn, request))

    def _done(self, conn: Conn, number: int) -> Iterator[ClientEffect]:
        request = self._requests.done(conn, number)
        if request is None:
            return
        if isinstance(request, str):
            yield from self._said_again(conn, request)
        elif isinstance(request, Tuning):  # it was taken back before it was confirmed
            yield from () if request.token is None else (Finished(request.token),)
        elif not isinstance(request, Following):
            if isinstance(request, CloseChannelFor):
                self._tunings.closed_for(request)
            if isinstance(request, UnfollowFor | UnsubscribeFrom):
                self.followings.remove([request.number] if isinstance(request, UnfollowFor) else request.numbers)
            is_here = conn == self._lines.serving("publish") and not self._moving.is_moving("publish")
            if isinstance(request, AdvertiseThat) and is_here:
                yield PublishOn(conn)
            yield Finished(request.token)
        yield from self._moving.say_all_there(use_of(request))

    def _said_again(self, conn: Conn, use: Use) -> Iterator[ClientEffect]:
        if self._lines[conn].is_move:
            yield from self._moving.expected(use)
            yield from self._ask_waiting(use)
        elif use == "publish" and conn == self._lines.serving("publish") and not self._moving.is_moving("publish"):
            yield PublishOn(conn)

    def _refused(self, conn: Conn, message: Refused) -> Iterator[ClientEffect]:
        request = self._requests.refused(conn, message.request)
        if request is None:
            return
        if isinstance(request, Following):
            self.followings.remove([request.number])
            yield Ended(request.number, error_of(message.code, message.reason))
        elif isinstance(request, Tuning):
            yield from self._tunings.refused(request, message.code, message.reason, now_ns=self._requests.now_ns)
        elif not isinstance(request, str):
            yield Finished(request.token, error_of(message.code, message.reason))
            changed = request.number if isinstance(request, FollowAs) else -1
            over = self.followings.refused(changed, message.code)
            yield from () if over is None else (Ended(changed, over),)
        elif self._lines[conn].is_move:
            self._lines[conn].is_move = False
            yield from self._stay(request, message.reason)
            if self._moving.is_needless(conn):
                yield self._lines.leave(conn)
        else:
            yield Tell("what was said before is refused", {"use": request, "reason": message.reason})
        yield from self._moving.say_all_there(use_of(request))

    # -- moving --------------------------------------------------------------------------------------------------------

    def _move(self, conn: Conn, move: Move) -> Iterator[ClientEffect]:
        self._lines.heard_of(move.address)
        if self._lines.is_serving(conn) or self._moving.is_served_by(conn):
            yield from self._moving.begin(conn, move)
        else:  # it does nothing at present: another time, at another place
            self._lines.prefer(move.address)
            yield self._lines.leave(conn)

    def _stay(self, use: Use, reason: str) -> Iterator[ClientEffect]:
        yield from self._moving.failed(use, reason)
        yield from self._ask_waiting(use)
