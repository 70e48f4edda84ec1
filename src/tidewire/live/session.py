"""A client session on real sockets: runs the session machine, sends what is published, hands over what comes."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from msgspec.structs import replace

from tidewire._kernel.codec import decode
from tidewire.client.config import ClientConfig
from tidewire.client.core import ClientCore
from tidewire.client.events import (
    Abort,
    Came,
    ClientEffect,
    ClientEvent,
    ConnectionEffect,
    Ended,
    Finished,
    FlushAll,
    Guarantee,
    HandOver,
    Leave,
    Notify,
    Over,
    Published,
    PublishOn,
    PublishSoon,
    Receipted,
    SendFrames,
    Tell,
    Unread,
)
from tidewire.client.order import Order
from tidewire.live.awaited import Awaited, in_doubt
from tidewire.live.clock import now
from tidewire.live.line import Line, end_lines
from tidewire.live.sockets import dial, open_transport
from tidewire.live.taken import TAKEN_S, Taken
from tidewire.model.errors import PeerError, TidewireError, Unavailable
from tidewire.model.events import Event
from tidewire.model.ids import Conn, PubendId, Tick
from tidewire.model.messages import Message
from tidewire.model.stream_messages import Begun
from tidewire.wire.connections import Close, Closed, Dial, DialFailed, Heard, Opened, Send, SetClock, TimePassed
from tidewire.wire.frames import (
    DELIVER,
    MESSAGE,
    RECEIPT,
    Delivered,
    decode_delivered,
    decode_message,
    decode_receipt,
    message_frame,
)

COALESCED_BYTES: Final = 64 << 10
"""Frames that are published in one go leave together, up to so many bytes."""

CLOSE_S: Final = 1.0
"""How long a connection may take to end that has nothing more to say."""

Receiver = Callable[[Delivered, Event, int, int], None]
"""An event for the application: as it came, decoded, when it was born on our clock, and the error of that in µs."""


Request = Callable[[int], ClientEvent]
"""What the machine is asked for, once it has its token."""


class Session:
    """The machine, its connections and its timer."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        on_event: Receiver,
        on_notice: Callable[[Tell], None],
        on_over: Callable[[TidewireError], None],
        on_ended: Callable[[int, TidewireError], None],
        on_notified: Callable[[Notify], None] = lambda _: None,
        security: ssl.SSLContext | None = None,
    ) -> None:
        if not config.publisher:
            config = replace(config, publisher=int.from_bytes(os.urandom(8), "little") >> 1 or 1)
        self.publisher = config.publisher
        self.core = ClientCore(config, chance=Random())
        self._on_event = on_event
        self._on_notice = on_notice
        self._on_over = on_over
        self._on_ended = on_ended
        self._on_notified = on_notified
        self._security = security
        self._give_up_s = config.give_up_s
        self._loop = asyncio.get_running_loop()
        self._lines: dict[Conn, Line] = {}
        self._conns = 0
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._awaited = Awaited()
        self._publish_on: Line | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._publishers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._is_closed = False
        self._is_paused = False
        self._all_ended = asyncio.Event()
        self._order = Order()
        self._taken = Taken(self.core.followings, tell_soon=lambda: self._loop.call_later(TAKEN_S, self.tell_taken))
        """What the broker has not been told yet: by number and pubend, the last tick."""

    # -- requests ------------------------------------------------------------------------------------------------------

    async def ask(self, make: Request, *, take_back: Request | None = None) -> None:
        """Have the machine do something, and wait for it. Who no longer waits has it taken back."""
        self.send_published()
        try:
            await self._wait(make, self._loop.create_future())
        except asyncio.CancelledError:
            if take_back is not None and not self._is_closed:
                self.tell(take_back(self._awaited.token()))
            raise

    async def _wait(self, make: Request, future: asyncio.Future[None], *, is_promised: bool = False) -> None:
        if self._is_closed:
            raise Unavailable("this session is closed")
        token = self._awaited.add(future, is_promised=is_promised)
        self.tell(make(token))
        try:
            await future
        finally:
            self._awaited.remove(token)

    def tell(self, event: ClientEvent) -> None:
        """Something has happened."""
        self._act(self.core.handle(event, now_ns=now()))

    async def close(self) -> None:
        """End all connections when what was published is read, or has its receipt. Unavailable if not in time."""
        if self._is_closing:
            return
        self._is_closing = True
        self.tell_taken()
        self.send_published()
        events = self.core.in_doubt + len(self._unsent)
        is_read = False
        try:
            async with asyncio.timeout(self._give_up_s):
                await self._until_all_is_read()
                events = 0
                await self._awaited.receipts()
                is_read = True
        except (TimeoutError, TidewireError) as error:
            why = str(error) or f"the broker has not said so within {self._give_up_s:g} s"
            doubts = in_doubt(events=events, promised=self._awaited.promised, why=why)
            for notice in doubts.values():
                self._on_notice(notice)
            if doubts:
                raise Unavailable(f"{'; '.join(doubts)}: {why}") from None
        finally:
            self._end_requests()
            self._all_ended.clear()
            await end_lines(self._lines, self._all_ended, seconds=CLOSE_S if is_read else 0.0)

    async def _until_all_is_read(self) -> None:
        while self._unsent and self._publish_on is None:
            await self.until_it_may_go_on()
        self.send_published()
        if self.core.in_doubt:
            await self.ask(FlushAll)

    def _end_requests(self) -> None:
        self._is_closed = True
        self._publish_on = None
        if self._timer is not None:
            self._timer.cancel()
        for task in self._dials.values():
            task.cancel()
        self._act(self.core.handle(Leave(), now_ns=now()))
        self._awaited.fail(Unavailable("this session is closed"))
        for future in self._publishers:
            if not future.done():
                future.set_exception(Unavailable("this session is closed"))

    # -- publishing ----------------------------------------------------------------------------------------------------

    @property
    def can_publish(self) -> bool:
        """Is there a connection to publish on, with room?"""
        return self._publish_on is not None and not self._publish_on.is_full

    @property
    def next_sequence(self) -> int:
        """Of the event that is published next."""
        return self.core.next_sequence + len(self._unsent)

    async def until_it_may_go_on(self) -> None:
        """Wait for news: a connection, room on it. This is how back-pressure reaches the publisher.

        Unavailable if there is no connection for too long; for room, it waits as long as it takes.
        """
        self.send_published()
        future: asyncio.Future[None] = self._loop.create_future()
        self._publishers.append(future)
        try:
            if self._publish_on is None:
                await self._wait(PublishSoon, future)
            else:
                await future
        finally:
            if future in self._publishers:
                self._publishers.remove(future)

    def publish(self, frame: bytes) -> bool:
        """Send one PUBLISH frame; only if ``can_publish``. True if others should have their turn now."""
        if not self._unsent:
            self._loop.call_soon(self.send_published)
        self._unsent.append(frame)
        self._unsent_bytes += len(frame)
        if self._unsent_bytes < COALESCED_BYTES:
            return False
        self.send_published()
        return True

    def send_published(self) -> None:
        """Send what has been published and waits to leave together."""
        line = self._publish_on
        if not self._unsent or line is None or line.transport is None:
            return
        frames, self._unsent, self._unsent_bytes = self._unsent, [], 0
        line.transport.write(b"".join(frames))
        self.tell(Published(len(frames)))

    def wake_publishers(self) -> None:
        """There may be room now."""
        waiting, self._publishers = self._publishers, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def guarantee(self, event: bytes, *, born_ns: int) -> None:
        """Publish an event, and wait for its receipt."""
        if self._is_closed:
            raise Unavailable("a guaranteed event was not sent: this session is closed")
        self.send_published()
        future: asyncio.Future[None] = self._loop.create_future()
        await self._wait(lambda token: Guarantee(token, event, born_ns), future, is_promised=True)

    # -- reading -------------------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """The application has enough to read: let the broker wait."""
        self._is_paused = True
        self._regulate()

    def resume_reading(self) -> None:
        """The application has caught up."""
        self._is_paused = False
        self._regulate()

    def taken(self, number: int, pubend: PubendId, tick: Tick) -> None:
        """The application is done with what it follows, up to here. The broker hears of it soon."""
        self._taken.done(number, pubend, tick)

    def tell_taken(self) -> None:
        """Now: what follows on this connection is behind it."""
        frames = self._taken.frames()
        conn = self.core.connection("subscribe")
        line = None if conn is None else self._lines.get(conn)
        if line is not None and line.transport is not None and not line.transport.is_closing():
            line.transport.write(frames)

    def _regulate(self) -> None:
        """Read, unless the application is behind. But the answer to a request comes behind what is not read yet."""
        for line in self._lines.values():
            reads = not self._is_paused or self.core.is_awaiting(line.conn)
            line.is_unread = not reads
            if line.transport is None or line.transport.is_closing() or line.transport.is_reading() == reads:
                continue
            if reads:
                line.transport.resume_reading()
            else:
                line.transport.pause_reading()

    def came(self, line: Line, data: bytes) -> None:
        """Bytes have come."""
        try:
            for kind, payload in line.frames.feed(data):
                if kind == DELIVER:
                    self._delivered(line, decode_delivered(payload))
                elif kind == RECEIPT:
                    self.tell(Receipted(line.conn, decode_receipt(payload)[0]))
                elif kind == MESSAGE:
                    self._heard(line, decode_message(payload))
        except PeerError as error:
            self._on_notice(Tell("the broker is not understood", {"reason": error.message}))
            if line.transport is not None:
                line.transport.abort()

    def _heard(self, line: Line, message: Message) -> None:
        self.tell(Heard(line.conn, message))
        if isinstance(message, Begun):
            self._taken.begun(message.number)

    def _delivered(self, line: Line, delivered: Delivered) -> None:
        event = decode(delivered.event)
        envelope = event.envelope
        if envelope.tick is not None and delivered.numbers and delivered.numbers[0] in self.core.followings:
            if self.core.followings.is_due(delivered.numbers[0], PubendId(envelope.pubend or 0), Tick(envelope.tick)):
                self._give(line, delivered, event)
        elif self.core.is_plain(line.conn):
            self._hand_over(line, delivered, event)
        else:
            self.tell(Came(line.conn, delivered))

    def _hand_over(self, line: Line, delivered: Delivered, event: Event) -> None:
        envelope = event.envelope
        place = (envelope.publisher or 0, envelope.sequence or 0)
        if envelope.tick is not None:
            place = (envelope.pubend or 0, envelope.tick)
        if self._order.is_next(*place):
            self._give(line, delivered, event)

    def _give(self, line: Line, delivered: Delivered, event: Event) -> None:
        error_us = min(delivered.error_us + line.error_us, 2**32 - 1)
        self._on_event(delivered, event, delivered.born_ns + line.offset_ns, error_us)

    def hint(self, line: Line) -> str:
        """What may be the matter with a broker that ends a connection without a word."""
        is_in_clear = self._security is None and not line.has_spoken
        return "; if it is secured, write tidewires:// ahead of its address" if is_in_clear else ""

    def lost(self, line: Line, reason: str) -> None:
        """A connection has ended."""
        self._lines.pop(line.conn, None)
        self._no_longer_publish_on(line)
        if not self._lines:
            self._all_ended.set()
        if not self._is_closed:
            self.tell(Closed(line.conn, reason))

    def _no_longer_publish_on(self, line: Line) -> None:
        """It ends: what has not been sent is for the next one."""
        if self._publish_on is line:
            self._publish_on = None

    # -- the machine ---------------------------------------------------------------------------------------------------

    def _act(self, effects: Iterable[ClientEffect]) -> None:
        for effect in effects:
            match effect:
                case Finished(token, error):
                    self._awaited.finished(token, error)
                case HandOver(events, conn):
                    for delivered in events:
                        self._hand_over(self._lines.get(conn) or Line(self), delivered, decode(delivered.event))
                case PublishOn(conn):
                    self.send_published()
                    self._publish_on = None if conn is None else self._lines.get(conn)
                    self.send_published()  # what was published when the last connection was gone
                    self.wake_publishers()
                case Dial(order, address):
                    self._dials[order] = self._loop.create_task(self._dial(order, address))
                case Tell():
                    self._on_notice(effect)
                case Notify():
                    self._on_notified(effect)
                case Ended(number, error):
                    self._on_ended(number, error)
                case Over(error):
                    self._publish_on = None
                    self.wake_publishers()
                    self._on_over(error)
                case _:
                    self._act_on(effect)
        if self._is_paused:
            self._regulate()
        self._arm()

    def _act_on(self, effect: ConnectionEffect) -> None:
        """What concerns one connection, if it is still there."""
        line = self._lines.get(effect.conn)
        if line is None or line.transport is None:
            return
        match effect:
            case Send(_, message, _):
                self.send_published()
                if not line.transport.is_closing():
                    line.transport.write(message_frame(message))
            case SendFrames(_, frames):
                self.send_published()
                if not line.transport.is_closing():
                    line.transport.write(b"".join(frames))
            case Close():
                self._no_longer_publish_on(line)
                line.transport.close()
            case Abort():
                self._no_longer_publish_on(line)
                line.transport.abort()
            case SetClock(_, offset_ns, error_us):
                line.offset_ns, line.error_us = offset_ns, error_us

    async def _dial(self, order: int, address: str) -> None:
        try:
            connection = await dial(address)
            line = Line(self)
            self._conns += 1
            line.conn = Conn(self._conns)
            await open_transport(lambda: line, connection, address, self._security)
        except (Unavailable, OSError) as error:
            self._dials.pop(order, None)
            self.tell(DialFailed(order, str(error)))
            return
        self._dials.pop(order, None)
        if line.why_lost is not None:
            self.tell(DialFailed(order, line.why_lost))
            return
        self._lines[line.conn] = line
        self.tell(Opened(line.conn, order))

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline_ns = self.core.deadline_ns()
        if deadline_ns is not None and not self._is_closed:
            self._timer = self._loop.call_later(max(0, deadline_ns - now()) / 1e9, self._time_passed)

    def _time_passed(self) -> None:
        for line in list(self._lines.values()):
            if line.transport is not None and not line.transport.is_reading():
                self.tell(Unread(line.conn))
        self.tell(TimePassed())
