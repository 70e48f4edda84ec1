"""Clients that only listen, by the thousand: the session machine of every client, and deliveries that are counted.

A broker's deliveries to a listener leave its queues at once and wait for its output bandwidth: what comes when is
known without a step of the agenda for each. Answers come behind the events before them; all other messages go ahead of
the events that wait (peer M2), as they do in a broker's queues.

What the application gets of them, also while it moves, is the machine's answer; it is counted from when on the
subscription is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from struct import Struct
from typing import Final

import msgspec

from tidewire.client.config import ClientConfig
from tidewire.client.core import ClientCore
from tidewire.client.events import Abort, Came, ClientEffect, ClientEvent, Finished, HandOver, SubscribeTo
from tidewire.model.ids import Conn
from tidewire.model.messages import Done, Left
from tidewire.simulator.agenda import Agenda
from tidewire.simulator.hosts import EPOCH_NS, Host, LocalClock
from tidewire.simulator.network import End, Network
from tidewire.wire.connections import Close, Closed, Dial, DialFailed, Heard, Opened, Send, TimePassed
from tidewire.wire.frames import DELIVER, HEAD, HOP, MESSAGE, Delivered, decode_message, message_frame

_AT_ONCE: Final = 1 << 62
_PATIENCE_S: Final = 80_000.0
_TOKEN: Final = 1
_EVENT: Final = Struct(HEAD.format + HOP.format.lstrip("<"))
"""What is read of a delivery: both at once, since there are millions."""


class Counts(msgspec.Struct):
    """What came from one broker to its listeners."""

    events: int = 0
    delay_ns: int = 0
    """Of all events together, from their publishers on."""

    messages: int = 0


def _payload(data: bytes, at: int) -> bytes:
    """Of the message at this place."""
    return data[at + HEAD.size : at + 4 + HEAD.unpack_from(data, at)[0]]


class _Light(End):
    """A broker's side: all that is there leaves at once."""

    reached_ns = 0
    """When what was sent last arrives."""
    sink: Listener | None = None
    """Who gets the events that are sent here without asking its machine; None: it must be asked."""

    def poke(self) -> None:
        """There may be something to send. Nearly always it is one event, and no move is under way: that is short."""
        sink = self.sink
        if sink is None or self._is_over or self._goodbye is not None or self.path.is_cut:
            self._poke_all()
            return
        data = self.place.output(self.conn, _AT_ONCE)
        size = len(data)
        if size < _EVENT.size:
            if data:
                sink.bring(self, data)
            return
        length, kind, born_ns, _, position = _EVENT.unpack_from(data)
        if kind != DELIVER or 4 + length != size:
            sink.bring(self, data)
            return
        network = self._network
        when_ns = network.agenda.now_ns
        if self._uplink is not None:
            when_ns = self._uplink.reserve(size, when_ns)
        when_ns = self.reached_ns = max(self.reached_ns, when_ns + self.path.latency_ns)
        network.bytes_carried += size
        counts = sink.counts[self.place.name]
        counts.events += 1
        counts.delay_ns += when_ns + EPOCH_NS - born_ns
        sink.get(position)

    def _poke_all(self) -> None:
        if self._is_over or self._goodbye is not None or self.path.is_cut:
            super().poke()
            return
        listener = self.other.place
        assert isinstance(listener, Listener)
        if data := self.place.output(self.conn, _AT_ONCE):
            listener.bring(self, data)


class Listener(Host):
    """One client with one subscription. It never gives up."""

    far_end: type[End] = _Light
    says_little = True

    def __init__(
        self, agenda: Agenda, network: Network, name: str, broker: str, *, seed: str, counts: dict[str, Counts]
    ) -> None:
        """``counts``, by broker, are shared by all listeners."""
        super().__init__(agenda, network, name, LocalClock())
        config = ClientConfig(addresses=[broker], name=name, give_up_s=_PATIENCE_S, welcome_s=_PATIENCE_S)
        self.core = ClientCore(config, chance=Random(f"{seed}/{name}"))
        self.counts = counts
        self.on_confirmed: Callable[[], object] = lambda: None
        self.moves = 0
        self.since: int | None = None
        """Events beyond this position are counted; None: none are yet."""
        self.got = 0
        """Events that the application got, of those."""
        self.repeated = 0
        """Events that it would have got again, or late: they are dropped. What was not a repetition is then missed."""
        self._plain: _Light | None = None
        """What comes from there is for the application, without asking the machine."""
        self._last = 0
        self._queues: dict[Conn, bytearray] = {}
        self._broker: str | None = None

    def subscribe(self, wanted: bytes) -> None:
        """Want this, from now on."""
        self._handle(SubscribeTo(_TOKEN, [1], [wanted]))

    @property
    def broker(self) -> str | None:
        """Who serves it."""
        return self.core.broker("subscribe")

    # -- what comes ----------------------------------------------------------------------------------------------------

    def bring(self, far: _Light, data: bytes) -> None:
        """A broker has sent this."""
        now_ns, network = self.agenda.now_ns, self.network
        is_urgent = data[4] == MESSAGE and not isinstance(decode_message(_payload(data, 0)), Done | Left)
        uplink = network.uplinks.get(far.place.name)
        size = HEAD.unpack_from(data)[0] + 4 if is_urgent else len(data)
        sent_ns = now_ns if uplink is None else uplink.reserve(size, now_ns, is_urgent=is_urgent)
        when_ns = sent_ns + far.path.latency_ns
        network.bytes_carried += size
        if not is_urgent:
            when_ns = far.reached_ns = max(far.reached_ns, when_ns)
        self._read(far, data[:size], when_ns)
        if size < len(data):
            self.bring(far, data[size:])

    def _read(self, far: End, data: bytes, when_ns: int) -> None:
        counts, at, size = self.counts[far.place.name], 0, len(data)
        conn = far.other.conn
        while at < size:
            length, kind = HEAD.unpack_from(data, at)
            if kind == DELIVER:
                born_ns, error_us, position = HOP.unpack_from(data, at + HEAD.size)
                counts.events += 1
                counts.delay_ns += when_ns + EPOCH_NS - born_ns
                if far is self._plain:
                    self.get(position)
                elif not far.other.is_closed:
                    self._handle(Came(conn, Delivered(born_ns, error_us, position, (), False, b"")))
            elif kind == MESSAGE:
                counts.messages += 1
                payload = _payload(data, at)
                self.agenda.at(when_ns, lambda payload=payload: self._hear(far.other, payload))  # type: ignore[misc]
            at += 4 + length

    def get(self, position: int) -> None:
        """The application gets an event, unless it has got it, or a later one: nobody gets anything late."""
        if position <= self._last:
            self.repeated += 1
            return
        self._last = position
        if self.since is not None and position > self.since:
            self.got += 1

    def _hear(self, near: End, payload: bytes) -> None:
        if not near.is_closed:
            self._handle(Heard(near.conn, decode_message(payload)))

    def take(self, end: End, data: bytes) -> int:
        """The last that a broker had to say before it closed the connection."""
        self._read(end.other, data, self.agenda.now_ns)
        return 0

    def tick(self) -> None:
        """The machine's deadline has come."""
        self._handle(TimePassed())

    # -- connections ---------------------------------------------------------------------------------------------------

    def is_listening(self) -> bool:
        """Nobody dials a client."""
        return False

    def accept(self, end: End) -> None:
        """Nobody dials a client."""
        raise AssertionError(end)

    def output(self, conn: Conn, bytes_max: int) -> bytes:
        """What the machine has for this broker: few messages."""
        queue = self._queues.get(conn)
        if not queue:
            return b""
        data = bytes(queue[:bytes_max])
        del queue[:bytes_max]
        return data

    def ended(self, end: End, reason: str) -> None:
        """A connection has ended."""
        if self.ends.get(end.conn) is end:
            self._forget(end, reason)

    def _forget(self, end: End, reason: str, *, rest: Iterable[bytes] = ()) -> None:
        self.forget(end.conn)
        del self._queues[end.conn]
        end.close(reason, rest=rest)
        self._handle(Closed(end.conn, reason))

    def _dial(self, order: int, address: str) -> None:
        def opened(end: End) -> None:
            self._queues[self.register(end)] = bytearray()
            self._handle(Opened(end.conn, order))

        self.network.dial(self, address, opened=opened, failed=lambda reason: self._handle(DialFailed(order, reason)))

    # -- the machine ---------------------------------------------------------------------------------------------------

    def _handle(self, event: ClientEvent) -> None:
        effects = list(self.core.handle(event, now_ns=self.now_ns))
        self._see_who_is_plain()
        for effect in effects:
            self._perform(effect)
        if self.broker not in (None, self._broker):
            self.moves += self._broker is not None
            self._broker = self.broker
        self.set_alarm(self.core.deadline_ns())

    def _see_who_is_plain(self) -> None:
        conn = self.core.connection("subscribe")
        is_plain = conn is not None and conn in self.ends and self.core.is_plain(conn)
        far = self.ends[conn].other if is_plain and conn is not None else None
        if far is self._plain:
            return
        if self._plain is not None:
            self._plain.sink = None
        self._plain = far if isinstance(far, _Light) else None
        if self._plain is not None:
            self._plain.sink = self

    def _perform(self, effect: ClientEffect) -> None:
        match effect:
            case HandOver(events):
                for one in events:
                    self.get(one.position)
            case Finished(token, None) if token == _TOKEN:
                self.on_confirmed()
            case Dial(order, address):
                self._dial(order, address)
            case Close(conn) | Abort(conn):
                if conn in self.ends:
                    self._forget(self.ends[conn], "closed here", rest=[bytes(self._queues[conn])])
            case Send(conn, message):
                if conn in self.ends:
                    self._queues[conn] += message_frame(message)
                    self.ends[conn].poke()
