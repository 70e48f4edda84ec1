"""A broker without a driver: the machine and its data plane, side by side. Bytes in, bytes out, and what is left to do.

Both drivers run this. What needs the world (dialling, closing, telling people) is returned as effects; everything else
is done here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, get_args

import msgspec

from tidewire.balancing.load import Capacity, LoadMeter, Sample
from tidewire.broker.core import BrokerCore
from tidewire.broker.decisions import Decisions
from tidewire.broker.effects import (
    Allow,
    CountInput,
    DropSamples,
    Effect,
    KeepSamples,
    LetPublish,
    MakeLink,
    Note,
    Permit,
)
from tidewire.broker.events import (
    BrokerEvent,
    Counted,
    EventsRefused,
    LostEvents,
    Measured,
    Overran,
    Sampled,
    Stalled,
    Started,
    Stopping,
    Unreadable,
    Weighed,
)
from tidewire.broker.node_streams import NodeStreams
from tidewire.broker.outbox import Outbox
from tidewire.broker.stamps import stamps
from tidewire.broker.status import BrokerStatus, Host, Known, Loss, status_of
from tidewire.broker.stream_events import Attend, StreamEffect, StreamEvent, TellSilence
from tidewire.dataplane.protocol import Engine, Received, State
from tidewire.model.errors import DamagedFrame
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import AskStatus, Lane, Leave, Left, Message, Status, Unsubscribe
from tidewire.model.routing_messages import Synced
from tidewire.model.stream_messages import Follow, Hold
from tidewire.routing.answers import Confirmed, ForgetTree, Install, SetParent, Uninstall, Widened
from tidewire.wire.connections import Close, Closed, Dial, Heard, Opened, Send, SetClock, TimePassed
from tidewire.wire.frames import HEAD, decode_message, message_frame

DriverEffect = Close | Dial | Note
_FOR_STREAMS = (*get_args(StreamEffect), Widened, Confirmed)

MESSAGES_AT_ONCE: Final = 64
"""Of one connection; then others have their turn."""


class Modelled(msgspec.Struct):
    """What a simulated CPU has done for events, and what waits to be read; real ones are measured by the engine."""

    busy_ns: int = 0
    unread_bytes: int = 0


class BrokerNode:
    """A machine and its engine."""

    def __init__(self, core: BrokerCore, engine: Engine, *, streams: NodeStreams | None = None) -> None:
        """``streams``: if the engine can have some; then it is theirs too."""
        self.core = core
        self.engine = engine
        self.streams = streams
        self.ready: dict[Conn, None] = {}
        """Connections with something to send; the driver empties it."""
        self.blocked: dict[Conn, None] = {}
        """Connections whose next event finds no room: not read until the engine has unblocked them."""
        self.stalled: dict[Conn, None] = {}
        self.ended: list[tuple[Conn, int]] = []
        """Sockets that are full, and that have ended, as the engine said; the driver empties both."""
        self.messages = 0
        """That the machine has heard."""
        self._heard_bytes = self._said_bytes = 0
        """Of messages: they are no load that could be balanced (peer §3.1)."""
        self._open: dict[Conn, None] = {}
        config = core.config
        self.meter = LoadMeter(
            Capacity(config.output_bytes_s, config.memory_bytes, config.cpu_share, config.matching_slope_s),
            window_s=config.balance.load_window_s,
            slope_step=config.balance.slope_step,
        )
        self._outbox = Outbox(engine, queue_bytes_max=config.queue_bytes_max)
        self.modelled: Modelled | None = None
        self._sample_ns = 0
        self._keeping: tuple[KeepSamples, int] | None = None
        """For whom events are kept, and how many had been taken before."""
        self._losses: dict[Conn, Loss] = {}
        self._dropped_in_all = 0
        self._stalled: dict[Conn, tuple[int, int]] = {}
        """Links with a queue: how much they had taken of it, and since when they have taken nothing more."""
        self.decisions = Decisions()
        self.host: Host | None = None
        self.unix_offset_ns: int | None = None
        """The calendar less our clock; this and the host are known to the driver alone."""
        self._started_ns = Nanoseconds(0)
        engine.own_tree(core.tree)
        if config.traffic.classes:
            engine.set_classes(stamps(config.traffic))

    def handle(self, event: BrokerEvent, *, now_ns: Nanoseconds) -> list[DriverEffect]:
        """Something has happened that is not bytes."""
        match event:
            case Opened(conn, _):
                config = self.core.config
                self._open[conn] = None
                self.engine.open(
                    conn, is_link=False, when_full=config.slow_subscriber, queue_bytes_max=config.queue_bytes_max
                )
            case Closed(conn, _):
                if conn not in self._open:
                    return []
                left = self._last_taken(conn, now_ns)
                del self._open[conn]
                self.engine.close(conn)
                self.ready.pop(conn, None)
                self.stalled.pop(conn, None)
                self._losses.pop(conn, None)
                self.blocked.pop(conn, None)
                self._outbox.gone(conn)
                return left + self._perform(self.core.handle(event, now_ns=now_ns), now_ns)
            case Stopping():
                left = [] if self.streams is None else self._tell(self.streams.took(), now_ns)
                return left + self._perform(self.core.handle(event, now_ns=now_ns), now_ns)
            case Started():
                if self.streams is not None:
                    opened = self.streams.begin(unix_offset_ns=self.unix_offset_ns or 0, now_ns=now_ns)
                    self._perform([] if opened is None else self.core.handle(opened, now_ns=now_ns), now_ns)
                self._started_ns = now_ns
                self.decisions.add(Note("started", {"role": self.core.config.role}), now_ns=now_ns)
            case TimePassed():
                for conn, frame in self._outbox.due(now_ns):
                    self._send(conn, frame, "data")
                left = self._perform(self.core.handle(event, now_ns=now_ns), now_ns)
                if self.streams is not None:
                    left += self._tell(self.streams.look(now_ns=now_ns), now_ns)
                return left + self._sample(now_ns)
        return self._perform(self.core.handle(event, now_ns=now_ns), now_ns)

    def _last_taken(self, conn: Conn, now_ns: Nanoseconds) -> list[DriverEffect]:
        """Before a client goes, those who hold events for it hear how far it is."""
        if self.streams is None or not self.core.streams.followers.of(conn):
            return []
        return self._tell(self.streams.took(), now_ns)

    def committed(self, *, now_ns: Nanoseconds) -> list[DriverEffect]:
        """The log has become durable further."""
        assert self.streams is not None
        return self.heard_of(self.streams.engine.committed(now_ns=now_ns), now_ns=now_ns)

    def serve(self, *, now_ns: Nanoseconds) -> list[DriverEffect]:
        """Go on with what is told again; call it while ``streams.engine.is_serving``."""
        assert self.streams is not None
        return self._heard_of(self.streams.engine.serve(now_ns=now_ns), now_ns)

    def heard_of(self, received: Received, *, now_ns: Nanoseconds) -> list[DriverEffect]:
        """The engine has something to tell, of no connection; and the log may have become durable further."""
        left = self._heard_of(received, now_ns)
        if self.streams is not None and self.streams.is_keeping:
            left += self._tell(self.streams.committed(), now_ns)
        return left

    def _heard_of(self, received: Received, now_ns: Nanoseconds) -> list[DriverEffect]:
        """What every call of the engine tells, beside the connection that it was about."""
        self.ready.update(dict.fromkeys(received.ready))
        self.stalled.update(dict.fromkeys(received.stalled))
        self.ended += received.ended
        left: list[DriverEffect] = []
        for slow in received.overrun:
            left += self.handle(Overran(slow), now_ns=now_ns)
        if received.news is not None and self.streams is not None:
            left += self._tell(self.streams.news(received.news), now_ns)
        return left

    def _tell(self, events: Iterable[StreamEvent], now_ns: Nanoseconds) -> list[DriverEffect]:
        return [left for event in events for left in self._perform(self.core.handle(event, now_ns=now_ns), now_ns)]

    def queued_bytes(self) -> int:
        """What waits for all connections."""
        return self.engine.totals().queued_bytes

    def deadline_ns(self) -> int:
        """When to say TimePassed, if nothing else happens."""
        deadline_ns = self.core.deadline_ns()
        streams_ns = None if self.streams is None else self.streams.deadline_ns()
        times = deadline_ns, self._sample_ns, streams_ns, self._outbox.deadline_ns()
        return min(time for time in times if time is not None)

    def receive(self, conn: Conn, data: bytes, *, now_ns: Nanoseconds) -> tuple[list[DriverEffect], State]:
        """Bytes have come. What is left to do, and how is the connection now? If busy, call ``go_on`` soon."""
        return self.took(conn, self.engine.receive(conn, data, now_ns=now_ns), now_ns=now_ns)

    def go_on(self, conn: Conn, *, now_ns: Nanoseconds) -> tuple[list[DriverEffect], State]:
        """Go on with bytes that came before."""
        if conn not in self._open:
            return [], "broken"
        return self.took(conn, self.engine.resume(conn, now_ns=now_ns), now_ns=now_ns)

    def took(self, conn: Conn, received: Received, *, now_ns: Nanoseconds) -> tuple[list[DriverEffect], State]:
        """The engine has stopped: hear the message that it stopped at, and let it go on, until it is at rest."""
        left: list[DriverEffect] = []
        until = self.messages + MESSAGES_AT_ONCE
        while True:
            left += self._heard_of(received, now_ns)
            if received.state == "blocked":
                self.blocked[conn] = None
            else:
                self.blocked.pop(conn, None)
            for refusal in received.refusals:
                left += self.handle(EventsRefused(conn, refusal), now_ns=now_ns)
            if received.state == "broken":
                return left + self.handle(Unreadable(conn, received.reason), now_ns=now_ns), "broken"
            if received.message is None:
                return left, received.state
            left += self._hear(conn, received.message, now_ns)
            if conn not in self._open or any(isinstance(effect, Close) and effect.conn == conn for effect in left):
                return left, "broken"
            if self.messages >= until:
                return left, "busy"
            received = self.engine.resume(conn, now_ns=now_ns)

    def _hear(self, conn: Conn, payload: bytes, now_ns: Nanoseconds) -> list[DriverEffect]:
        self.messages += 1
        self._heard_bytes += HEAD.size + len(payload)
        try:
            message = decode_message(payload)
        except DamagedFrame as error:
            return self.handle(Unreadable(conn, error.message), now_ns=now_ns)
        if isinstance(message, AskStatus):
            effects = self.core.operators.asked_status(conn, message, now_ns=now_ns)
            if not effects:
                document = msgspec.json.encode(self.status(now_ns=now_ns))
                effects = [Send(conn, Status(message.request, document), "control")]
            return self._perform(effects, now_ns)
        left: list[DriverEffect] = []
        if self.streams is not None and (isinstance(message, Follow | Hold) or self.core.streams.is_syncing):
            left = self._tell(self.streams.now(), now_ns)  # who begins to follow begins where the streams are
        elif isinstance(message, Unsubscribe | Leave):
            left = self._last_taken(conn, now_ns)
        return left + self.handle(Heard(conn, message), now_ns=now_ns)

    def status(self, *, now_ns: Nanoseconds) -> BrokerStatus:
        """How it is."""
        known = Known(
            load=self.meter.load(),
            started_ns=self._started_ns,
            unix_offset_ns=self.unix_offset_ns,
            host=self.host,
            connections=len(self._open),
            waiting=len(self.blocked),
            losses=self._losses,
            decisions=self.decisions.last(now_ns=now_ns, unix_offset_ns=self.unix_offset_ns),
        )
        return status_of(self.core, self.engine, known, now_ns=now_ns)

    def _sample(self, now_ns: Nanoseconds) -> list[DriverEffect]:
        """Measure the load, and tell slow subscribers what they have lost."""
        if now_ns < self._sample_ns:
            return []
        self._sample_ns = now_ns + int(self.core.config.load_every_s * 1e9)
        work, totals = self.engine.work(), self.engine.totals()
        done, modelled = work.events + work.refused, self.modelled or Modelled(work.busy_ns)
        unread = modelled.unread_bytes  # live, what is not read yet waits in the sockets
        bytes_in = max(0, totals.bytes_in - self._heard_bytes)
        sample = Sample(
            at_ns=now_ns,
            events_in=done + round(unread * done / bytes_in if bytes_in else 0),
            bytes_in=bytes_in,
            events_out=totals.events_out,
            bytes_out=totals.bytes_out - self._said_bytes,
            busy_ns=modelled.busy_ns,
            events_done=done,
            subscriptions=work.subscriptions,
            queued_in_bytes=unread,
            queued_out_bytes=totals.queued_bytes,
            engine_bytes=work.memory_bytes,
        )
        self.meter.add(sample)
        left = self._balance(sample, work.events, now_ns)
        if self.core.shortage.is_on:
            left += self._perform(self.core.handle(self._weighed(sample), now_ns=now_ns), now_ns)
        if totals.dropped != self._dropped_in_all:
            self._dropped_in_all = totals.dropped
            left += [effect for conn in self.engine.lossy() for effect in self._report_loss(conn, now_ns)]
        return left + self._report_stalled(now_ns)

    def _weighed(self, sample: Sample) -> Weighed:
        """For those who decide what gives way: how links and publishers are doing."""
        links = [(one.lanes["data"], self.engine.traffic(one.lanes["data"])) for one in self.core.links.up()]
        publishers = [(conn, self.engine.traffic(conn)) for conn in self.core.clients.using("publish")]
        return Weighed(
            sample,
            [(conn, traffic.bytes_out, traffic.queued_bytes) for conn, traffic in links],
            [(conn, traffic.events_in, traffic.bytes_in) for conn, traffic in publishers],
        )

    def _balance(self, sample: Sample, events: int, now_ns: Nanoseconds) -> list[DriverEffect]:
        """The machine hears how loaded it is, and of the events that it wanted kept."""
        load = self.meter.load()
        if load is None or not (self.core.balancing.is_on or self.core.reporting.is_on):
            return []
        settled = self.meter.load(changed_ns=self.core.balancing.changed_ns) or load
        left = self._perform(self.core.handle(Measured(load, settled, sample), now_ns=now_ns), now_ns)
        if self._keeping is not None:
            wanted, before = self._keeping
            if events - before >= wanted.count or now_ns >= wanted.until_ns:
                samples = self.engine.samples()
                self._stop_keeping()
                left += self._perform(self.core.handle(Sampled(wanted.session, samples), now_ns=now_ns), now_ns)
        return left

    def _stop_keeping(self) -> None:
        self._keeping = None
        self.engine.sample(0)

    def _report_stalled(self, now_ns: Nanoseconds) -> list[DriverEffect]:
        before, self._stalled = self._stalled, {}
        left: list[DriverEffect] = []
        for neighbour in self.core.links.up() if self.blocked else []:
            conn = neighbour.lanes["data"]
            traffic = self.engine.traffic(conn)
            taken = traffic.bytes_out - traffic.queued_bytes
            known, since_ns = before.get(conn, (-1, 0))
            if traffic.queued_bytes:
                self._stalled[conn] = taken, since_ns if taken == known else now_ns
        for conn, (_, since_ns) in self._stalled.items():
            if since_ns < now_ns:
                left += self._perform(self.core.handle(Stalled(conn, (now_ns - since_ns) / 1e9), now_ns=now_ns), now_ns)
        return left

    def _report_loss(self, conn: Conn, now_ns: Nanoseconds) -> list[DriverEffect]:
        dropped = self.engine.traffic(conn).dropped if conn in self._open else 0
        known = self._losses.get(conn)
        lost = dropped - (0 if known is None else known.events)
        if lost <= 0:
            return []
        self._losses[conn] = Loss(dropped, now_ns)
        return self._perform(self.core.handle(LostEvents(conn, lost), now_ns=now_ns), now_ns)

    def _perform(self, effects: Iterable[Effect], now_ns: Nanoseconds) -> list[DriverEffect]:
        left: list[DriverEffect] = []
        for effect in effects:
            match effect:
                case Send(conn, message, lane):
                    if isinstance(message, Left):  # behind it nobody listens here any more
                        left += self._report_loss(conn, now_ns)
                    if conn in self._open:
                        frame = message_frame(self._with_heads(message))
                        if not self._outbox.takes(conn, message, frame, now_ns=now_ns):
                            self._send(conn, frame, lane)
                case Note():
                    self.decisions.add(effect, now_ns=now_ns)
                    left.append(effect)
                case Close() | Dial():
                    left.append(effect)
                case CountInput(conns):
                    come = {conn: self.engine.traffic(conn).bytes_in for conn in conns if conn in self._open}
                    left += self._perform(self.core.handle(Counted(come), now_ns=now_ns), now_ns)
                case _ if isinstance(effect, _FOR_STREAMS):
                    left += self._stream(effect, now_ns)
                case _:
                    self._install(effect)
        return left

    def _send(self, conn: Conn, frame: bytes, lane: Lane) -> None:
        self._said_bytes += len(frame)
        if self.engine.send(conn, frame, lane):
            self.ready[conn] = None

    def _with_heads(self, message: Message) -> Message:
        """At the source of a tree an answer to Sync says from where on its streams are told."""
        if isinstance(message, Synced) and message.tree == self.core.tree and self.streams is not None:
            return msgspec.structs.replace(message, heads=self.streams.engine.heads())
        return message

    def _stream(self, effect: StreamEffect | Widened | Confirmed, now_ns: Nanoseconds) -> list[DriverEffect]:
        if self.streams is None:
            return []
        engine = self.streams.engine
        match effect:
            case Widened(tree):
                engine.widen(tree)
            case Confirmed(tree, heads, is_all):
                engine.trust(tree, heads, is_all=is_all)
            case Attend(pubend, place):
                self.streams.attended(now_ns=now_ns)
                return self._heard_of(engine.attend(pubend, place), now_ns)
            case TellSilence(pubend):
                return self._heard_of(engine.silence(pubend, now_ns=now_ns), now_ns)
            case _:
                return self._tell(list(self.streams.perform(effect, now_ns=now_ns)), now_ns)
        return []

    def _install(self, effect: Effect) -> None:
        engine = self.engine
        match effect:
            case Install(conn, tree, numbers, filters):
                engine.add_routes(conn, numbers, filters, tree)
            case Uninstall(conn, tree, numbers):
                engine.remove_routes(conn, numbers, tree)
            case SetParent(tree, parent):
                engine.set_parent(tree, parent)
            case ForgetTree(tree):
                engine.forget_tree(tree)
            case MakeLink(conn, frame_bytes_max):
                queue_bytes_max = self.core.config.link_queue_bytes_max
                engine.make_link(conn, queue_bytes_max=queue_bytes_max, frame_bytes_max=frame_bytes_max)
            case LetPublish(conn, publisher, next_sequence):
                engine.may_publish(conn, publisher=publisher, next_sequence=next_sequence)
            case Permit(conn, filters):
                engine.permit(conn, filters)
            case Allow(conn, filters):
                engine.allow(conn, filters)
            case KeepSamples(_, count):
                self._keeping = effect, engine.work().events
                engine.sample(count)
            case DropSamples():
                self._stop_keeping()
            case SetClock(conn, offset_ns, error_us):
                engine.set_clock(conn, offset_ns=offset_ns, error_us=error_us)
