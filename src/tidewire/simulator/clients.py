"""A client in virtual time: the session machine, and an application that remembers all it did and got."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

import msgspec

from tidewire._kernel.codec import decode, encode
from tidewire.client.config import ClientConfig
from tidewire.client.core import ClientCore
from tidewire.client.events import (
    AdvertiseThat,
    Came,
    ClientEffect,
    ClientEvent,
    Finished,
    HandOver,
    Published,
    PublishOn,
    SubscribeTo,
    Tell,
    UnadvertiseThat,
    UnsubscribeFrom,
    Wanted,
)
from tidewire.client.order import Order
from tidewire.language import compile_filter
from tidewire.model.errors import TidewireError
from tidewire.model.events import make_event
from tidewire.model.filters import encode_filter
from tidewire.model.ids import Conn, TreeId
from tidewire.model.messages import ANYTHING, EventRefused, Use
from tidewire.model.values import Value
from tidewire.simulator.agenda import Agenda
from tidewire.simulator.brokers import BrokerHost
from tidewire.simulator.hosts import Host, LocalClock
from tidewire.simulator.network import End, Network
from tidewire.simulator.records import EventKey, Publication, Receipt, Span, Windows
from tidewire.wire.connections import Close, Closed, Dial, DialFailed, Heard, Opened, Send, SetClock, TimePassed
from tidewire.wire.frames import (
    DELIVER,
    MESSAGE,
    Delivered,
    FrameReader,
    decode_delivered,
    decode_message,
    message_frame,
    publish_frame,
)

WAITING_MAX: Final = 100_000


class ClientHost(Host):
    """One application with one session. ``publications`` is shared by all clients of a world."""

    def __init__(
        self,
        agenda: Agenda,
        network: Network,
        config: ClientConfig,
        *,
        publications: dict[EventKey, Publication],
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
        self._order = Order()
        self._readers: dict[Conn, FrameReader] = {}
        self._queues: dict[Conn, list[bytes]] = {}
        self._clocks: dict[Conn, tuple[int, int]] = {}
        self._publish_on: Conn | None = None
        self._sequence = 0
        self._waiting: list[Mapping[str, Value]] = []
        self._tokens = 0
        self._finished: dict[int, Callable[[], object]] = {}
        self._wanted: dict[int, Span] = {}
        self.has_advertised = False
        self._advertised: dict[int, str | None] = {}
        self._unconfirmed = 0
        """Advertisements: an application publishes when they are confirmed."""

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
        self.is_down = True
        self.life += 1
        config = msgspec.structs.replace(self._config, publisher=self.publisher)
        self.core = ClientCore(config, chance=Random(f"{self._seed}/{self.name}/{self.life}"))
        self._order = Order()
        self._readers, self._queues, self._clocks, self._finished = {}, {}, {}, {}
        self._publish_on, self._sequence, self._waiting, self._unconfirmed = None, 0, [], 0
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

    def unadvertise(self, number: int) -> None:
        """That will no longer be published."""
        is_known = number in self._advertised
        self._advertised.pop(number, None)
        if not self.is_down and is_known:
            self._ask(lambda token: UnadvertiseThat(token, [number]), lambda: None)

    def publish(self, attributes: Mapping[str, Value]) -> None:
        """Publish it now, or as soon as there is a connection for it."""
        if self.is_down:
            return
        if self._publish_on is None or self._unconfirmed:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append(attributes)
            return
        self._sequence += 1
        key = self.publisher, self._sequence
        end = self.ends[self._publish_on]
        broker = end.other.place
        assert isinstance(broker, BrokerHost)
        event = make_event(attributes)
        self._publications[key] = Publication(
            key, self.name, self._sequence, self.agenda.now_ns, event.attributes, broker.name, broker.tree
        )
        self._queues[self._publish_on].append(publish_frame(encode(event), born_ns=self.now_ns))
        self._handle(Published(1))
        end.poke()

    def _confirmed(self) -> None:
        self._unconfirmed -= 1
        self.on_advertised()
        self._publish_waiting()

    def _publish_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:  # not before the machine has heard of what is published already
            life = self.life
            self.agenda.at(self.agenda.now_ns, lambda: self._publish_all(waiting) if life == self.life else None)

    def _publish_all(self, waiting: list[Mapping[str, Value]]) -> None:
        for attributes in waiting:
            self.publish(attributes)

    def is_behind(self) -> bool:
        """Has it not read, or not sent, all? A slow reader is busy with what it has read last."""
        return self._is_busy or super().is_behind() or any(self._queues.values())

    def is_publishing(self) -> bool:
        """Is there a connection to publish on?"""
        return self._publish_on is not None

    def wants(self) -> dict[int, Span]:
        """What it wants now, by number."""
        return self._wanted

    def _ask(self, make: Callable[[int], ClientEvent], finished: Callable[[], object]) -> None:
        self._tokens += 1
        self._finished[self._tokens] = finished
        self._handle(make(self._tokens))

    # -- the network's side --------------------------------------------------------------------------------------------

    def is_listening(self) -> bool:
        """Nobody dials a client."""
        return False

    def accept(self, end: End) -> None:
        """Nobody dials a client."""

    def output(self, conn: Conn, bytes_max: int) -> bytes:  # noqa: ARG002
        """All that waits: a client's frames are small."""
        queue = self._queues.get(conn)
        if not queue:
            return b""
        data = b"".join(queue)
        queue.clear()
        return data

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
                self._delivered(conn, decode_delivered(payload))
        return int(len(data) * self.read_ns_per_byte)

    def _note_refused(self, message: EventRefused) -> None:
        sequences = list(message.sequences)
        if message.further:  # they are not named; what was published since is not asked for
            sequences += range(sequences[-1] + 1, self._sequence + 1)
        self.refused += [(self.publisher, sequence) for sequence in sequences]

    def _delivered(self, conn: Conn, delivered: Delivered) -> None:
        if self.core.is_plain(conn):
            self._hand_over(conn, delivered)
        else:
            self._handle(Came(conn, delivered, decode(delivered.event).envelope.tree or 0))

    def _hand_over(self, conn: Conn, delivered: Delivered) -> None:
        event = decode(delivered.event)
        key = event.envelope.publisher or 0, event.envelope.sequence or 0
        if not self._order.is_next(*key):
            self.repeats.append((self.agenda.now_ns, key))
            return
        offset_ns, error_us = self._clocks.get(conn, (0, 2**32 - 1))
        delay_ns = self.now_ns - (delivered.born_ns + offset_ns)
        via = self._way(conn, TreeId(event.envelope.tree or 0))
        error_us += delivered.error_us
        receipt = Receipt(
            key, self.agenda.now_ns, event.attributes, delivered.numbers, delay_ns, error_us, via, self.life
        )
        self.receipts.append(receipt)

    def _way(self, conn: Conn, tree: TreeId) -> tuple[str, ...]:
        end = self.ends.get(conn)
        broker = None if end is None else end.other.place
        return broker.way(tree) if isinstance(broker, BrokerHost) else ()

    def tick(self) -> None:
        """The machine's deadline has come."""
        self._handle(TimePassed())

    def _handle(self, event: ClientEvent) -> None:
        self._perform(self.core.handle(event, now_ns=self.now_ns))
        broker = self.core.broker("subscribe")
        if broker is not None and (not self.served or self.served[-1][1] != broker):
            self.served.append((self.agenda.now_ns, broker))
        self.set_alarm(self.core.deadline_ns())

    def _perform(self, effects: Iterable[ClientEffect]) -> None:
        for effect in effects:
            match effect:
                case Dial(order, address):
                    self._dial(order, address)
                case Close(conn):
                    if conn in self.ends:
                        self._forget(self.ends[conn], "closed here", rest=b"".join(self._queues[conn]))
                case Finished(token, error):
                    finished = self._finished.pop(token)
                    if error is None:
                        finished()
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
                    self._queues[conn].append(message_frame(message))
                    self.ends[conn].poke()
            case HandOver(events, conn):
                for delivered in events:
                    self._hand_over(conn, delivered)
            case PublishOn(conn):
                self._publish_on = conn
                if conn is not None and not self._unconfirmed:
                    self._publish_waiting()
            case SetClock(conn, offset_ns, error_us):
                self._clocks[conn] = offset_ns, error_us

    def _forget(self, end: End, reason: str, *, rest: bytes = b"") -> None:
        conn = end.conn
        self.forget(conn)
        del self._readers[conn], self._queues[conn]
        self._clocks.pop(conn, None)
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
            self._readers[conn], self._queues[conn] = FrameReader(), []
            self._handle(Opened(conn, order))

        def failed(reason: str) -> None:
            if life == self.life:
                self._handle(DialFailed(order, reason))

        self.network.dial(self, address, opened=opened, failed=failed)
