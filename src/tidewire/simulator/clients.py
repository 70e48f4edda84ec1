"""A client in virtual time: the session machine, and an application that remembers all it did and got."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Final

import msgspec

from tidewire._kernel.codec import decode, encode
from tidewire.client.config import ClientConfig
from tidewire.client.core import ClientCore
from tidewire.client.events import (
    Abort,
    AdvertiseThat,
    Came,
    ClientEffect,
    ClientEvent,
    Finished,
    FollowAs,
    Guarantee,
    HandOver,
    Published,
    PublishOn,
    Receipted,
    SendFrames,
    SubscribeTo,
    Tell,
    UnadvertiseThat,
    UnsubscribeFrom,
    Wanted,
)
from tidewire.client.order import Order
from tidewire.dataplane.flows import FLOW, Repeat, decode_repeat, events_of, size_of
from tidewire.dataplane.fluid_state import RunQueue
from tidewire.dataplane.protocol import QUEUE_BYTES_MAX
from tidewire.language import compile_filter
from tidewire.model.errors import TidewireError, Unavailable
from tidewire.model.events import Event, make_event
from tidewire.model.filters import encode_filter
from tidewire.model.ids import Conn, PubendId, Tick, TreeId
from tidewire.model.messages import ANYTHING, EventRefused, Use
from tidewire.model.values import Value
from tidewire.simulator.agenda import Agenda, in_ns
from tidewire.simulator.brokers import BrokerHost, way_of
from tidewire.simulator.hosts import Host, LocalClock
from tidewire.simulator.network import End, Network
from tidewire.simulator.promises import Followed, FollowerRecord, Promised
from tidewire.simulator.records import (
    GUARANTEED,
    EventKey,
    Line,
    Publication,
    Publications,
    Receipt,
    Span,
    Windows,
    key_of,
)
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

WAITING_MAX: Final = 100_000
_ONE: Final = Repeat(1, 0)


class ClientHost(Host):
    """One application with one session. ``publications`` is shared by all clients of a world."""

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
        super().__init__(agenda, network, config.name, clock)
        self._config = config
        self._seed = seed
        self.life = 1
        self.is_down = False
        self.core = ClientCore(config, chance=Random(f"{seed}/{config.name}"))
        self.read_ns_per_byte = read_ns_per_byte
        """A slow reader takes its time."""
        self.lines: list[Line] = []
        """All its connections, and what brokers brought on them."""
        self.receipts: list[Receipt] = []
        self.repeats: list[tuple[int, EventKey]] = []
        """What came again or late and was kept from the application: when, and which event."""
        self.refused: list[EventKey] = []
        """Events that a broker did not take, or may not have taken."""
        self.told: list[tuple[int, Tell]] = []
        self.spans: list[Span] = []
        self.failures: list[tuple[int, TidewireError]] = []
        self.served: list[tuple[int, str]] = []
        """By which broker its subscriptions are served, and since when."""
        self.subscribing, self.publishing = Windows(), Windows()
        self.on_connection_lost: Callable[[End], object] = lambda _end: None
        self.on_advertised: Callable[[], object] = lambda: None
        self._publications = publications
        self.has_flows = False
        """May equal events be told at once?"""
        self._order = Order()
        self.given_up = 0
        """Guaranteed events that no broker could be reached for."""
        self.changed_ns = 0
        """When it last asked for something, was answered, or was served elsewhere."""
        self._lines: dict[Conn, Line] = {}
        self._readers: dict[Conn, FrameReader] = {}
        self._repeats: dict[Conn, Repeat] = {}
        """What was said of the frame that comes next."""
        self._queues: dict[Conn, RunQueue] = {}
        self._clocks: dict[Conn, tuple[int, int]] = {}
        self._publish_on: Conn | None = None
        self._sequence = 0
        self._waiting: list[tuple[Mapping[str, Value], int, float]] = []
        self._tokens = 0
        self._finished: dict[int, Callable[[], object]] = {}
        self._wanted: dict[int, Span] = {}
        self.has_advertised = False
        self._advertised: dict[int, str | None] = {}
        self._unconfirmed = 0
        """Advertisements: an application publishes when they are confirmed."""
        self.promised: dict[EventKey, Promised] = {}
        self.followed: dict[str, FollowerRecord] = {}
        self._following: dict[int, FollowerRecord] = {}
        self._guaranteed = 0
        self._unguaranteed: list[Mapping[str, Value]] = []
        """What waits for an advertisement to be confirmed."""

    @property
    def publisher(self) -> int:
        """Its number: another one in each life, as the live driver draws it."""
        return self._config.publisher | (self.life - 1) << 32

    # -- life and death ------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The process ends without a word, and with it what it wanted, had not sent and had not read."""
        now_ns = self.agenda.now_ns
        for span in self.spans:
            span.leaving_ns, span.gone_ns = min(span.leaving_ns, now_ns), min(span.gone_ns, now_ns)
        self.is_down, self.changed_ns = True, now_ns
        self.life += 1
        config = msgspec.structs.replace(self._config, publisher=self.publisher)
        self.core = ClientCore(config, chance=Random(f"{self._seed}/{self.name}/{self.life}"))
        self._order = Order()
        self._lines, self._readers, self._repeats, self._queues, self._clocks = {}, {}, {}, {}, {}
        self._publish_on, self._sequence, self._waiting, self._unconfirmed, self._finished = None, 0, [], 0, {}
        self._guaranteed, self._unguaranteed = 0, []
        self.drop_everything()

    def start(self) -> None:
        """The application begins again, wants what it wanted, and offers what it offered."""
        self.is_down = False
        if self.spans:
            self._handle(Wanted("subscribe"))
        if self.has_advertised:
            self._handle(Wanted("publish"))
        wanted, self._wanted = self._wanted, {}
        for number, span in wanted.items():
            self.subscribe(number, span.text)
        for number, text in self._advertised.items():
            self.advertise(number, text)
        for number, record in self._following.items():
            self._follow(number, record)

    # -- what an application does --------------------------------------------------------------------------------------

    def subscribe(self, number: int, text: str) -> Span:
        """Want this; a number in use gets the new filter in place of the old one."""
        now_ns = self.agenda.now_ns
        span = Span(number, text, compile_filter(text), now_ns)
        before = self._wanted.get(number)
        self._wanted[number] = span
        if self.is_down:  # in its next life
            return span
        self.spans.append(span)
        if before is not None:
            before.leaving_ns, before.successor = now_ns, span

        def confirmed() -> None:
            span.confirmed_ns = self.agenda.now_ns
            if before is not None:
                before.gone_ns = self.agenda.now_ns

        self._ask(lambda token: SubscribeTo(token, [number], [encode_filter(span.wanted)]), confirmed)
        return span

    def unsubscribe(self, number: int) -> None:
        """No longer want it."""
        span = self._wanted.pop(number, None)
        if span is None or self.is_down:
            return
        span.leaving_ns = self.agenda.now_ns

        def confirmed() -> None:
            span.gone_ns = self.agenda.now_ns

        self._ask(lambda token: UnsubscribeFrom(token, [number]), confirmed)

    def advertise(self, number: int, text: str | None = None) -> None:
        """Say what will be published; without a text, anything. What is published now waits until it is confirmed."""
        self.has_advertised = True
        self._advertised[number] = text
        if self.is_down:
            return
        self._unconfirmed += 1
        wanted = ANYTHING if text is None else encode_filter(compile_filter(text))
        self._ask(lambda token: AdvertiseThat(token, [number], [wanted]), self._confirmed)

    def guarantee(self, attributes: Mapping[str, Value]) -> None:
        """Publish it, so that it is not lost once there is a receipt."""
        if self.is_down:
            return
        if self._unconfirmed:
            self._unguaranteed.append(attributes)
            return
        self._guaranteed += 1
        event, now_ns = make_event(attributes), self.agenda.now_ns
        promised = Promised((self.publisher | GUARANTEED, self._guaranteed), event.attributes, now_ns)
        self.promised[promised.key] = promised

        def receipted() -> None:
            promised.receipted_ns = self.agenda.now_ns

        born_ns = self.now_ns
        self._ask(lambda token: Guarantee(token, encode(event), born_ns), receipted)

    def _guarantee_later(self, attributes: Mapping[str, Value], life: int) -> None:
        if life == self.life:
            self.guarantee(attributes)

    def follow(self, number: int, text: str, name: str) -> FollowerRecord:
        """Be owed all guaranteed events that match, from now on or from where this name was."""
        record = self.followed.setdefault(name, FollowerRecord(name, text, compile_filter(text)))
        self._following[number] = record
        if not self.is_down:
            self._follow(number, record)
        return record

    def _follow(self, number: int, record: FollowerRecord) -> None:
        wanted, places = encode_filter(record.wanted), list(record.places.items())
        span = Span(number, record.text, record.wanted, self.agenda.now_ns, follows=True)  # of other events it gets what it can
        self.spans.append(span)

        def begun() -> None:
            span.confirmed_ns = self.agenda.now_ns
            self._begun(number)

        self._ask(lambda token: FollowAs(token, number, wanted, record.name, -1, places), begun)

    def _begun(self, number: int) -> None:
        following, record = self.core.followings.get(number), self._following.get(number)
        if following is not None and record is not None:
            record.begun = dict(following.places) | record.begun

    def unadvertise(self, number: int) -> None:
        """That will no longer be published."""
        is_known = number in self._advertised
        self._advertised.pop(number, None)
        if not self.is_down and is_known:
            self._ask(lambda token: UnadvertiseThat(token, [number]), lambda: None)

    def publish(self, attributes: Mapping[str, Value], *, count: int = 1, over_s: float = 0.0) -> None:
        """Publish it now, or as soon as there is a connection for it.

        With a count: so many equal events, which were born evenly in the time up to now, the last of them now. They
        are told at once where the engine can take them so.
        """
        if self.is_down:
            return
        if self._publish_on is None or self._unconfirmed:
            count = min(count, WAITING_MAX - sum(waiting for _, waiting, _ in self._waiting))
            if count > 0:
                self._waiting.append((attributes, count, over_s))
            return
        event = make_event(attributes)
        every_ns = in_ns(over_s) // count
        born_ns = self.now_ns - (count - 1) * every_ns
        if self.has_flows:
            self._publish_on_line(event, born_ns, Repeat(count, every_ns))
        else:
            for i in range(count):
                self._publish_on_line(event, born_ns + i * every_ns, _ONE)

    def _publish_on_line(self, event: Event, born_ns: int, repeat: Repeat) -> None:
        assert self._publish_on is not None
        first = self._sequence + 1
        self._sequence += repeat.count
        end = self.ends[self._publish_on]
        broker = end.other.place
        assert isinstance(broker, BrokerHost)
        now_ns, attributes, key = self.agenda.now_ns, event.attributes, (self.publisher, first)
        self._publications.add(
            Publication(key, self.name, first, now_ns, attributes, broker.name, broker.tree, repeat.count)
        )
        self._queues[self._publish_on].put_events(publish_frame(encode(event), born_ns=born_ns), repeat)
        self._handle(Published(repeat.count))
        end.poke()

    def _confirmed(self) -> None:
        self._unconfirmed -= 1
        self.on_advertised()
        self._publish_waiting()
        waiting, self._unguaranteed = self._unguaranteed, []
        life = self.life
        for attributes in waiting:  # not before the machine has done with what it is at
            self.agenda.at(self.agenda.now_ns, partial(self._guarantee_later, attributes, life))

    def _publish_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:  # not before the machine has heard of what is published already
            life = self.life
            self.agenda.at(self.agenda.now_ns, lambda: self._publish_all(waiting) if life == self.life else None)

    def _publish_all(self, waiting: list[tuple[Mapping[str, Value], int, float]]) -> None:
        for attributes, count, over_s in waiting:
            self.publish(attributes, count=count, over_s=over_s)

    def is_behind(self) -> bool:
        """Has it not read, or not sent, all? A slow reader is busy with what it has read last."""
        return self._is_busy or super().is_behind() or not all(queue.is_empty for queue in self._queues.values())

    def wants(self) -> dict[int, Span]:
        """What it wants now, by number."""
        return self._wanted

    def follows(self) -> dict[int, FollowerRecord]:
        """What it follows, by number."""
        return self._following

    def is_waiting(self) -> bool:
        """Has it asked for something that is not answered?"""
        return bool(self._finished)

    def _ask(self, make: Callable[[int], ClientEvent], finished: Callable[[], object]) -> None:
        self._tokens += 1
        self.changed_ns = self.agenda.now_ns
        self._finished[self._tokens] = finished
        self._handle(make(self._tokens))

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
                self._delivered(conn, payload, self._repeats.pop(conn, _ONE))
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
                self._handle(Came(conn, delivered, event.envelope.tree or event.envelope.pubend or 0))

    def _followed(self, conn: Conn, number: int, event: Event) -> None:
        pubend, tick = PubendId(event.envelope.pubend or 0), Tick(event.envelope.tick or 0)
        record = self._following[number]
        self._begun(number)
        if not self.core.followings.is_due(number, pubend, tick):
            return
        record.received.append(Followed(self.agenda.now_ns, pubend, tick, key_of(event), event.attributes))
        record.places[pubend] = Tick(tick + 1)
        self._queues[conn].put(taken_frame(number, pubend, tick), "data")
        self.ends[conn].poke()

    def _hand_over(self, conn: Conn, delivered: Delivered, event: Event, repeat: Repeat = _ONE) -> bool:
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
                    finished, self.changed_ns = self._finished.pop(token), self.agenda.now_ns
                    if error is None:
                        finished()
                    elif isinstance(error, Unavailable) and "guaranteed" in error.message:
                        self.given_up += 1
                    else:
                        self.failures.append((self.agenda.now_ns, error))
                case Tell():
                    self.told.append((self.agenda.now_ns, effect))
                case _:
                    self._transport(effect)

    def _transport(self, effect: ClientEffect) -> None:
        match effect:
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
