"""A broker in virtual time: the machine and its engine (``BrokerNode``), driven as the live driver does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

import msgspec

from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import BrokerCore
from tidewire.broker.effects import Note
from tidewire.broker.events import BrokerEvent, MoveClient, Started, Stopping
from tidewire.broker.node import BrokerNode, DriverEffect, Modelled
from tidewire.broker.node_streams import NodeStreams
from tidewire.broker.pubends import pubend_of
from tidewire.dataplane.flows import size_of
from tidewire.dataplane.protocol import Engine, Work
from tidewire.dataplane.streams import has_streams
from tidewire.model.ids import Conn, TreeId
from tidewire.model.messages import Use
from tidewire.routing.trees import tree_of
from tidewire.simulator.agenda import Agenda
from tidewire.simulator.costs import Costs, Peer, Steady
from tidewire.simulator.disks import Disk
from tidewire.simulator.hosts import Host, LocalClock
from tidewire.simulator.network import CHUNK_BYTES, End, Network
from tidewire.wire.connections import Close, Closed, Dial, DialFailed, Opened, TimePassed

MESSAGE_BYTES: Final = 4096
"""The message that goes beyond a bound is queued too, before the connection ends."""

SHORT_BYTES: Final = 4096
"""No bound is less: a queue of which no more was taken at once is within it."""

SERVE_NS: Final = 100_000
"""What is told again waits for what is new."""

EngineMaker = Callable[[BrokerConfig], Engine]


class BrokerHost(Host):
    """One broker through all its lives. ``node`` is None while it is down."""

    def __init__(
        self,
        agenda: Agenda,
        network: Network,
        config: BrokerConfig,
        *,
        make_engine: EngineMaker,
        costs: Costs,
        clock: LocalClock,
        seed: str,
    ) -> None:
        super().__init__(agenda, network, config.broker, clock)
        self.config = config
        self.costs = costs
        self.node: BrokerNode | None = None
        self.incarnation = 0
        self.notes: list[tuple[int, Note]] = []
        self.on_connection_lost: Callable[[End], object] = lambda _end: None
        self.on_blocked: Callable[[], object] = lambda: None
        self._expired = 0
        self.beyond_bound: list[str] = []
        """Queues that were longer than they may be, when something was taken from them, or at their end; streams of
        which too much was kept."""
        self.event_bytes_max = config.frame_bytes_max
        """The longest event that anybody can send."""
        self._make_engine = make_engine
        self._seed = seed
        self.disk: Disk | None = None
        if config.store is not None:
            self.disk = Disk(agenda, log_id=pubend_of(config.broker, 0), seed=f"{seed}/{config.broker}")
            self.disk.on_durable = self._durable
        self._is_to_serve = False
        self._work_done = Work()
        self._handled = -1
        """By the machine when its alarm was last set."""
        self._counted = -1
        """By the machine when the engine was last asked what it has done."""

    @property
    def tree(self) -> TreeId:
        """Of its present life, or the last one."""
        return tree_of(self.config.broker, self.incarnation)

    def way(self, tree: TreeId) -> tuple[str, ...]:
        """The brokers from the source of a tree to this one, as it knows them now."""
        branch = None if self.node is None else self.node.core.router.branch(tree)
        return () if branch is None else branch.tree.path

    # -- life and death ------------------------------------------------------------------------------------------------

    @property
    def is_down(self) -> bool:
        """Is there no process of it?"""
        return self.node is None

    def start(self) -> None:
        """Begin, or begin again: as somebody new under the old name."""
        assert self.node is None
        self.incarnation += 1
        chance = Random(f"{self._seed}/{self.name}/{self.incarnation}")
        core = BrokerCore(self.config, incarnation=self.incarnation, chance=chance)
        core.channels.number_lives_from(self.incarnation << 20)
        engine = self._make_engine(self.config)
        log = None if self.disk is None else self.disk.open()
        streams = NodeStreams(core, engine, log) if has_streams(engine) else None
        self.node = BrokerNode(core, engine, streams=streams)
        if isinstance(self.costs, Peer | Steady):
            self.node.modelled = Modelled()
        self._work_done = self.node.engine.work()
        self._handled = self._counted = -1
        self._is_to_serve = False
        self._handle(Started())

    def crash(self, *, loses_power: bool = False) -> None:
        """End without a word; with the power goes what its disk has not synced."""
        self.look_at_queues()
        self._end_life()
        if self.disk is not None:
            self.disk.close(loses_power=loses_power)
        self.drop_everything()

    def stop(self) -> None:
        """End as one should: with a goodbye to all."""
        self._handle(Stopping())
        self.look_at_queues()
        self._end_life()
        if self.disk is not None:
            self.disk.close(loses_power=False)
        self.drop_everything()

    def _end_life(self) -> None:
        self._expired, self.node = self.expired, None

    @property
    def expired(self) -> int:
        """Events that it threw away because they were late, in all its lives; one for each connection."""
        return self._expired + (0 if self.node is None else self.node.engine.totals().expired)

    def want(self, address: str) -> None:
        """Be connected to that broker from now on."""
        self.config = msgspec.structs.replace(self.config, neighbours=[*self.config.neighbours, address])
        if self.node is not None:
            self.node.core.links.want(address)
            self._handle(TimePassed())

    def move_client(self, conn: Conn, use: Use, address: str) -> None:
        """Send a client elsewhere, as a policy or an operator would."""
        self._handle(MoveClient(conn, use, address))

    def look_at_queues(self) -> None:
        """Is every queue within its bound? Control has one, and data with messages twice that."""
        for conn in self.ends:
            self._look_at_queue(conn)
        self._look_at_streams()

    def _look_at_streams(self) -> None:
        """Is no more kept of any stream than may be, but for the event that goes beyond it?"""
        if self.node is None or self.node.streams is None:
            return
        bound = self.config.stream_cache_bytes
        self.beyond_bound += [
            f"at {self.agenda.now_s:.3f} s {self.name} keeps {one.kept_bytes} bytes of the stream {one.pubend:016x},"
            f" of which it may keep {bound}"
            for one in self.node.streams.engine.streams()
            if one.kept_bytes > bound + self.event_bytes_max
        ]

    def _look_at_queue(self, conn: Conn, *, taken: int = 0) -> None:
        node, config = self.node, self.config
        if node is None:
            return
        bound = config.link_queue_bytes_max if node.core.links.is_link(conn) else config.queue_bytes_max
        queued = node.engine.traffic(conn).queued_bytes + taken
        if queued > 3 * bound + MESSAGE_BYTES:
            to = self.ends[conn].other.place.name
            self.beyond_bound.append(
                f"at {self.agenda.now_s:.3f} s {self.name} has {queued} bytes for {to} in a queue with the bound"
                f" {bound}"
            )

    def is_behind(self) -> bool:
        """Does something wait to be read, or for room?"""
        return super().is_behind() or (self.node is not None and bool(self.node.blocked))

    # -- the network's side --------------------------------------------------------------------------------------------

    def is_listening(self) -> bool:
        """While it lives."""
        return self.node is not None

    def accept(self, end: End) -> None:
        """Somebody has called."""
        self._handle(Opened(self.register(end)))

    def ended(self, end: End, reason: str) -> None:
        """A connection has ended."""
        if self.ends.get(end.conn) is end:
            self._forget(end, reason)

    def output(self, conn: Conn, bytes_max: int) -> bytes:
        """What the engine has for it; that may make room for somebody who waits."""
        node = self.node
        if node is None or conn not in self.ends:
            return b""
        data = node.engine.output(conn, bytes_max=bytes_max, now_ns=self.now_ns)
        taken = size_of(data)
        if taken > SHORT_BYTES or taken >= bytes_max:
            self._look_at_queue(conn, taken=taken)
        if node.blocked:
            self.agenda.at(self.agenda.now_ns, self._unblock)
        return data

    def is_urgent(self, end: End) -> bool:
        """The control lane goes ahead."""
        lane = None if self.node is None else self.node.core.links.lane_of(end.conn)
        return end.other.place.says_little if lane is None else lane[1] == "control"

    def arrived(self, end: End, data: bytes) -> None:
        """Bytes have come; what waits to be read is known if it is modelled."""
        if self.node is not None and self.node.modelled is not None and not self.is_urgent(end):
            self.node.modelled.unread_bytes += size_of(data)
        super().arrived(end, data)

    def is_read(self, end: End) -> bool:
        """What is blocked is not read, so that its sender feels it."""
        return self.node is not None and end.conn not in self.node.blocked

    # -- work ----------------------------------------------------------------------------------------------------------

    def take(self, end: End, data: bytes) -> int:
        """Bytes go through the engine, and the machine hears what is for it."""
        node = self.node
        assert node is not None
        if node.modelled is not None and not self.is_urgent(end):
            node.modelled.unread_bytes -= size_of(data)
        heard, events = node.messages, node.engine.traffic(end.conn).events_in
        left, state = node.receive(end.conn, data, now_ns=self.now_ns)
        self._perform(left)
        while state == "busy" and node is self.node:
            left, state = node.go_on(end.conn, now_ns=self.now_ns)
            self._perform(left)
        if node.blocked:
            self.on_blocked()
        # How much has been done is asked only if it can have changed: most reads bring but a message.
        came = node.engine.traffic(end.conn).events_in - events if end.conn in self.ends else None
        return self._finish(node, self._cost(node, messages=node.messages - heard, came=came))

    def tick(self) -> None:
        """The machine's deadline has come."""
        self._handle(TimePassed())
        self._look_at_streams()
        self._unblock()

    def _unblock(self) -> None:
        node = self.node
        if node is None or not node.blocked:
            return
        for conn in sorted(node.engine.unblocked()):  # here, too
            state = "busy"
            while state == "busy" and node is self.node:
                left, state = node.go_on(conn, now_ns=self.now_ns)
                self._perform(left)
            self.occupy(self._finish(node, self._cost(node, messages=0)))
            if conn not in node.blocked:
                self.read_again(conn)

    def _cost(self, node: BrokerNode, *, messages: int, came: int | None = None) -> int:
        """``came``: so many events, if that is known.

        A model that goes by them and by the subscriptions alone needs not ask the engine each time, which is dear: it
        counts its memory as well. Subscriptions change only when the machine has handled something.
        """
        before = self._work_done
        if came and isinstance(self.costs, Peer | Steady) and self._counted == node.core.handled:
            self._work_done = Work(events=before.events + came, subscriptions=before.subscriptions)
        elif came != 0:
            self._work_done = node.engine.work()
            self._counted = node.core.handled
        cost_ns = self.costs.of(before, self._work_done, messages=messages, writes=len(node.ready))
        if node.modelled is not None:
            node.modelled.busy_ns += cost_ns
        return cost_ns

    def _handle(self, event: BrokerEvent) -> None:
        node = self.node
        if node is not None:
            self._perform(node.handle(event, now_ns=self.now_ns))
            self._finish(node, 0)

    def _finish(self, node: BrokerNode, cost_ns: int) -> int:
        """What is ready to be sent goes out when the CPU is through with it."""
        if node is not self.node:
            return 0
        ready = sorted(node.ready)  # engines differ in the order that they tell
        node.ready.clear()
        ends = [self.ends[conn] for conn in ready if conn in self.ends]
        if cost_ns and ends:
            self.agenda.after(cost_ns, lambda: _poke(ends))
        else:
            _poke(ends)
        if node.core.handled != self._handled:
            self._handled = node.core.handled
            self.set_alarm(node.deadline_ns())
        if self.disk is not None:
            self.disk.look()
        if node.streams is not None and not self._is_to_serve and node.streams.engine.is_serving:
            self._is_to_serve = True
            life = self._life
            self.agenda.after(SERVE_NS, lambda: self._serve_soon(life))
        return cost_ns

    def _durable(self) -> None:
        self.when_free(self._committed)

    def _committed(self) -> int:
        node = self.node
        if node is None:
            return 0
        self._perform(node.committed(now_ns=self.now_ns))
        cost_ns = self._finish(node, self._cost(node, messages=0))
        self.agenda.at(self.agenda.now_ns, self._unblock)
        return cost_ns

    def _serve_soon(self, life: int) -> None:
        if life == self._life:
            self.when_free(self._serve, is_last=True)

    def _serve(self) -> int:
        self._is_to_serve = False
        node = self.node
        if node is None:
            return 0
        self._perform(node.serve(now_ns=self.now_ns))
        return self._finish(node, self._cost(node, messages=0))

    def _perform(self, left: Iterable[DriverEffect]) -> None:
        for effect in left:
            match effect:
                case Note():
                    self.notes.append((self.agenda.now_ns, effect))
                case Close(conn):
                    self._close(conn)
                case Dial(order, address):
                    self._dial(order, address)

    def _close(self, conn: Conn) -> None:
        end = self.ends.get(conn)
        if end is None or self.node is None:
            return
        self._look_at_queue(conn)
        parts: list[bytes] = []
        while part := self.node.engine.output(conn, bytes_max=CHUNK_BYTES, now_ns=self.now_ns):
            parts.append(part)
        self._forget(end, "closed here", rest=parts)

    def _forget(self, end: End, reason: str, *, rest: Iterable[bytes] = ()) -> None:
        self.forget(end.conn)
        end.close(reason, rest=rest)
        self._handle(Closed(end.conn, reason))
        self.on_connection_lost(end)
        if self.node is not None and self.node.blocked:
            self.agenda.at(self.agenda.now_ns, self._unblock)

    def _dial(self, order: int, address: str) -> None:
        life = self._life

        def opened(end: End) -> None:
            if life != self._life:
                end.close("the caller is gone")
                return
            self._handle(Opened(self.register(end), order))

        def failed(reason: str) -> None:
            if life == self._life:
                self._handle(DialFailed(order, reason))

        self.network.dial(self, address, opened=opened, failed=failed)


def _poke(ends: list[End]) -> None:
    for end in ends:
        end.poke()


def way_of(end: End | None, tree: TreeId) -> tuple[str, ...]:
    """The brokers that an event of this tree has passed when it comes to a client at this end."""
    broker = None if end is None else end.other.place
    return broker.way(tree) if isinstance(broker, BrokerHost) else ()
