"""A client in virtual time: an application, its session machine, and its connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidewire._kernel.codec import decode, encode
from tidewire.client.config import ClientConfig
from tidewire.client.events import (
    Abort,
    Came,
    ClientEffect,
    ClientEvent,
    Ended,
    Finished,
    HandOver,
    Notify,
    Published,
    PublishOn,
    Receipted,
    SendFrames,
    Tell,
)
from tidewire.dataplane.flows import FLOW, Repeat, decode_repeat, events_of, size_of
from tidewire.dataplane.fluid_state import RunQueue
from tidewire.dataplane.protocol import QUEUE_BYTES_MAX
from tidewire.model.errors import TidewireError, Unavailable
from tidewire.model.events import Event
from tidewire.model.ids import Conn, TreeId
from tidewire.model.messages import EventRefused, Use
from tidewire.simulator.agenda import Agenda
from tidewire.simulator.applications import ONE, Application
from tidewire.simulator.brokers import BrokerHost, way_of
from tidewire.simulator.hosts import LocalClock
from tidewire.simulator.network import End, Network
from tidewire.simulator.records import (
    GUARANTEED,
    SUPPRESSED,
    Line,
    Publication,
    Publications,
    Receipt,
    Windows,
    key_of,
)
from tidewire.simulator.tuned import Tuned
from tidewire.wire.connections import Close, Closed, Dial, DialFailed, Heard, Opened, Send, SetClock, TimePassed
from tidewire.wire.frames import (
    DELIVER,
    HEAD,
    MESSAGE,
    PROMISE,
    RECEIPT,
    Delivered,
    FrameReader,
    decode_delivered,
    decode_message,
    decode_receipt,
    frame,
    message_frame,
    publish_frame,
    taken_frame,
)


class ClientHost(Application):
    """An application and its connections."""

    def __init__(
        self,
        agenda: Agenda,
        network: Network,
        config: ClientConfig,
        *,
        publications: Publications,
        clock: LocalClock,
        seed: str,
        read_ns_per_byte: float = 0.0,
    ) -> None:
        super().__init__(agenda, network, config, publications=publications, clock=clock, seed=seed)
        self.read_ns_per_byte = read_ns_per_byte
        """A slow reader takes its time."""
        self.lines: list[Line] = []
        """All its connections, and what brokers brought on them."""
        self.served: list[tuple[int, str]] = []
        """By which broker its subscriptions are served, and since when."""
        self.subscribing, self.publishing = Windows(), Windows()
        self.on_connection_lost: Callable[[End], object] = lambda _end: None
        self.tuned = Tuned(self, self.core.channel_place)

    def ask(self, make: Callable[[int], ClientEvent], done: Callable[[TidewireError | None], object]) -> None:
        """Ask the machine for something, of a channel."""
        self._ask(make, lambda: done(None))
        if self._tokens in self._finished:
            self._failing[self._tokens] = done

    def tell(self, event: ClientEvent) -> None:
        """Something has happened."""
        if not self.is_down:
            self._handle(event)

    def _begin_life(self) -> None:
        super()._begin_life()
        self._lines: dict[Conn, Line] = {}
        self._readers: dict[Conn, FrameReader] = {}
        self._repeats: dict[Conn, Repeat] = {}
        """What was said of the frame that comes next."""
        self._queues: dict[Conn, RunQueue] = {}
        self._clocks: dict[Conn, tuple[int, int]] = {}
        self._failing: dict[int, Callable[[TidewireError | None], object]] = {}
        """Who wants to hear of an error, by the tokens of requests."""

    def _publish_on_line(self, event: Event, born_ns: int, repeat: Repeat) -> None:
        assert self._publish_on is not None
        first = self._sequence + 1
        self._sequence += repeat.count
        end = self.ends[self._publish_on]
        broker = end.other.place
        assert isinstance(broker, BrokerHost)
        now_ns, attributes, key = self.agenda.now_ns, event.attributes, (self.publisher, first)
        self._publications.add(
            Publication(
                key,
                self.name,
                first,
                now_ns,
                attributes,
                broker.name,
                broker.tree,
                repeat.count,
                event.envelope.ttl_ns,
            )
        )
        self._queues[self._publish_on].put_events(publish_frame(encode(event), born_ns=born_ns), repeat)
        self._handle(Published(repeat.count))
        end.poke()

    def _note_suppressed(self, event: Event, number: int) -> None:
        """Whoever wants it after all lacks it."""
        assert self._publish_on is not None
        broker = self.ends[self._publish_on].other.place
        assert isinstance(broker, BrokerHost)
        key = self.publisher | SUPPRESSED, number
        now_ns = self.agenda.now_ns
        self._publications.add(Publication(key, self.name, number, now_ns, event.attributes, broker.name, broker.tree))

    def is_behind(self) -> bool:
        """Has it not read, or not sent, all? A slow reader is busy with what it has read last."""
        return self._is_busy or super().is_behind() or not all(queue.is_empty for queue in self._queues.values())

    # -- the network's side --------------------------------------------------------------------------------------------

    def is_listening(self) -> bool:
        """Nobody dials a client."""
        return False

    def accept(self, end: End) -> None:
        """Nobody dials a client."""

    def output(self, conn: Conn, bytes_max: int) -> bytes:
        """What waits; its queue has no bound."""
        queue = self._queues.get(conn)
        return b"" if queue is None else queue.take(bytes_max)

    def ended(self, end: End, reason: str) -> None:
        """A connection has ended."""
        if self.ends.get(end.conn) is end:
            self._forget(end, reason)

    def connection(self, name: str, *, use: Use) -> Conn | None:
        """The number that this broker knows us by, for this use."""
        conn = self.core.connection(use)
        end = None if conn is None else self.ends.get(conn)
        return end.other.conn if end is not None and end.other.place.name == name else None

    # -- work ----------------------------------------------------------------------------------------------------------

    def take(self, end: End, data: bytes) -> int:
        """Frames: messages for the machine, events for the application."""
        conn = end.conn
        for kind, payload in self._readers[conn].feed(data):
            if end.is_closed:
                break
            if kind == MESSAGE:
                message = decode_message(payload)
                if isinstance(message, EventRefused):
                    self._note_refused(message)
                self._handle(Heard(conn, message))
            elif kind == DELIVER:
                self._delivered(conn, payload, self._repeats.pop(conn, ONE))
            elif kind == RECEIPT:
                self._handle(Receipted(conn, decode_receipt(payload)[0]))
            elif kind == FLOW:
                self._repeats[conn] = decode_repeat(payload)
        return int(size_of(data) * self.read_ns_per_byte)

    def _note_refused(self, message: EventRefused) -> None:
        sequences = list(message.sequences)
        if message.further:  # they are not named; what was published since is not asked for
            sequences += range(sequences[-1] + 1, self._sequence + 1)
        self.refused += [(self.publisher, sequence) for sequence in sequences]

    def _delivered(self, conn: Conn, payload: bytes, repeat: Repeat) -> None:
        now_ns, delivered = self.agenda.now_ns, decode_delivered(payload)
        if delivered.numbers and delivered.numbers[0] in self.core.followings:
            event = decode(delivered.event)
            if event.envelope.tick is not None:
                self._followed(conn, delivered.numbers[0], event)
                return
        event = self._lines[conn].bring(delivered, count=repeat.count, now_ns=now_ns)
        if self.core.is_plain(conn) and self._hand_over(conn, delivered, event, repeat):
            return
        # The machine, and the gate in front of the application, know single events.
        for one in events_of(frame(DELIVER, payload), repeat):
            delivered = decode_delivered(one[HEAD.size :])
            if self.core.is_plain(conn):
                self._hand_over(conn, delivered, decode(delivered.event))
            else:
                self._handle(Came(conn, delivered))

    def _followed(self, conn: Conn, number: int, event: Event) -> None:
        place = self._is_due(number, event)
        if place is not None:
            self.core.followings.done(number, *place)
            self._queues[conn].put(taken_frame(number, *place), "data")
            self.ends[conn].poke()

    def _hand_over(self, conn: Conn, delivered: Delivered, event: Event, repeat: Repeat = ONE) -> bool:
        """Is it done? If not, there are several, and some have come before."""
        count = repeat.count
        publisher, sequence = key = key_of(event)
        is_plain = event.envelope.tick is None
        if not self._order.is_next(*(key if is_plain else (event.envelope.pubend or 0, event.envelope.tick or 0))):
            if count == 1:
                self.repeats.append((self.agenda.now_ns, key))
            return count == 1
        if count > 1:
            self._order.is_next(publisher, sequence + count - 1)
        offset_ns, error_us = self._clocks.get(conn, (0, 2**32 - 1))
        middle_ns = delivered.born_ns + (count - 1) * repeat.every_ns // 2
        delay_ns = self.now_ns - (middle_ns + offset_ns)
        via = way_of(self.ends.get(conn), TreeId(event.envelope.tree or 0))
        error_us += delivered.error_us
        receipt = Receipt(
            key,
            self.agenda.now_ns,
            event.attributes,
            delivered.numbers,
            delay_ns,
            error_us,
            via,
            count,
            self.life,
            event.envelope.pubend or 0,
        )
        self.receipts.append(receipt)
        self._judge(event)
        return True

    def tick(self) -> None:
        """The machine's deadline has come."""
        self._handle(TimePassed())

    def _handle(self, event: ClientEvent) -> None:
        self._perform(self.core.handle(event, now_ns=self.now_ns))
        broker = self.core.broker("subscribe")
        if broker is not None and (not self.served or self.served[-1][1] != broker):
            self.changed_ns = self.agenda.now_ns
            self.served.append((self.changed_ns, broker))
        for conn, line in self._lines.items():
            line.look(is_awaited=self.core.is_awaited(conn), now_ns=self.agenda.now_ns)
        self.set_alarm(self.core.deadline_ns())

    def _perform(self, effects: Iterable[ClientEffect]) -> None:
        for effect in effects:
            match effect:
                case Dial(order, address):
                    self._dial(order, address)
                case Close(conn):
                    if conn in self.ends:
                        rest = self._queues[conn].take(QUEUE_BYTES_MAX)
                        self._forget(self.ends[conn], "closed here", rest=[rest])
                case Abort(conn):
                    if conn in self.ends:
                        self._forget(self.ends[conn], "given up here")
                case Finished(token, error):
                    self._has_finished(token, error)
                case Tell():
                    self._note_told(effect)
                case _:
                    self._transport(effect)

    def _has_finished(self, token: int, error: TidewireError | None) -> None:
        finished, self.changed_ns = self._finished.pop(token), self.agenda.now_ns
        followed, failing = self._follows.pop(token, None), self._failing.pop(token, None)
        if error is None:
            finished()
        elif failing is not None:
            failing(error)
        elif followed is not None and isinstance(error, Unavailable):
            self._not_followed(followed)
        elif type(error) is Unavailable and "guaranteed" in error.message:
            self.given_up += 1
        else:
            self.failures.append((self.agenda.now_ns, error))

    def _transport(self, effect: ClientEffect) -> None:
        match effect:
            case Notify():
                self.tuned.notified(effect)
            case Ended(number, error):
                self.tuned.ended(number, error)
            case Send(conn, message):
                if conn in self.ends:
                    self._queues[conn].put(message_frame(message), "data")
                    self.ends[conn].poke()
            case SendFrames(conn, frames):
                self._send_frames(conn, frames)
            case HandOver(events, conn):
                for delivered in events:
                    self._hand_over(conn, delivered, decode(delivered.event))
            case PublishOn(conn):
                self._publish_on = conn
                if conn is not None and not self._unconfirmed:
                    self._publish_waiting()
            case SetClock(conn, offset_ns, error_us):
                self._clocks[conn] = offset_ns, error_us

    def _send_frames(self, conn: Conn, frames: list[bytes]) -> None:
        """Guaranteed events; each is a publication when it is first sent."""
        if conn not in self.ends:
            return
        end = self.ends[conn]
        broker = end.other.place
        assert isinstance(broker, BrokerHost)
        for one in frames:
            key = self.publisher | GUARANTEED, PROMISE.unpack_from(one, HEAD.size)[1]
            if key not in self._publications:
                attributes, now_ns = self.promised[key].attributes, self.agenda.now_ns
                self._publications.add(
                    Publication(key, self.name, key[1], now_ns, attributes, broker.name, broker.tree)
                )
            self._queues[conn].put(one, "data")
        end.poke()

    def _forget(self, end: End, reason: str, *, rest: Iterable[bytes] = ()) -> None:
        conn = end.conn
        self.forget(conn)
        del self._lines[conn], self._readers[conn], self._queues[conn]
        self._clocks.pop(conn, None)
        self._repeats.pop(conn, None)
        if self._publish_on == conn:
            self._publish_on = None
        end.close(reason, rest=rest)
        self._handle(Closed(conn, reason))
        self.on_connection_lost(end)

    def _dial(self, order: int, address: str) -> None:
        life = self.life

        def opened(end: End) -> None:
            if life != self.life:
                end.close("the caller is gone")
                return
            conn = self.register(end)
            self._readers[conn], self._queues[conn] = FrameReader(), RunQueue(QUEUE_BYTES_MAX)
            self._lines[conn] = Line(end.other.place.name, now_ns=self.agenda.now_ns)
            self.lines.append(self._lines[conn])
            self._handle(Opened(conn, order))

        def failed(reason: str) -> None:
            if life == self.life:
                self._handle(DialFailed(order, reason))

        self.network.dial(self, address, opened=opened, failed=failed)
