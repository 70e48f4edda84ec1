"""A data cluster in virtual time: the machine that runs live, and behind it the reference cluster."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewire.channels.cluster_events import ClusterEffect, Store
from tidewire.channels.cluster_events import Send as Post
from tidewire.channels.commands import ChannelCommand
from tidewire.channels.evaluator import FedRow
from tidewire.channels.messages import Want
from tidewire.channels.reference_cluster import Fed, ReferenceCluster
from tidewire.channels.reference_cluster import TimePassed as Due
from tidewire.channels.results import Rows
from tidewire.channels.schemas import Catalog
from tidewire.datacluster.core import AskHost, DataClusterCore, DataClusterEffect, DataClusterEvent, Posted, TellHost
from tidewire.model.ids import Conn, Tick
from tidewire.model.messages import Message
from tidewire.model.notes import Note
from tidewire.simulator.agenda import Agenda
from tidewire.simulator.hosts import LocalClock
from tidewire.simulator.network import End, Network
from tidewire.simulator.others import Talker
from tidewire.wire.connections import Close, Closed, Heard, Opened, Send, TimePassed


class Found(msgspec.Struct, frozen=True):
    """What a run has found for one subscription."""

    want: Want
    tick: Tick
    rows: Rows


class RecordingCluster(ReferenceCluster):
    """Remembers all that it has ever found."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self.found: list[Found] = []

    def _carry_out(self, effect: ClusterEffect) -> list[Post]:
        if isinstance(effect, Store):
            outcome = effect.outcome
            wants = {record.id: record.want for record in self._kept.values()}
            self.found += [Found(wants[one.subscription], outcome.tick, one.rows) for one in outcome.results]
        return super()._carry_out(effect)


class DataClusterHost(Talker):
    """The data cluster through all its lives; what it stored is kept. ``core`` is None while it is down."""

    says_little = False

    def __init__(self, agenda: Agenda, network: Network, name: str, catalog: Catalog, *, clock: LocalClock) -> None:
        super().__init__(agenda, network, name, clock)
        self.cluster = RecordingCluster(catalog)
        self.core: DataClusterCore | None = None
        self._unfed: list[Fed] = []
        """What came while it was down: the brokers' log keeps it."""
        self.start()

    def start(self) -> None:
        """Begin, or begin again with what was kept."""
        self.core = DataClusterCore(self.cluster.brokers(), heartbeat_s=0.5)
        if self.cluster.channels:
            self._post(self.cluster.restart())
        unfed, self._unfed = self._unfed, []
        for fed in unfed:
            self._post(self.cluster.handle(fed, now_ns=self.now_ns))
        self._set_alarms()

    def crash(self) -> None:
        """End without a word."""
        self.core = None
        self.drop_everything()

    def command(self, command: ChannelCommand) -> None:
        """An operator wants something."""
        _, sends = self.cluster.asked(command, now_ns=self.now_ns)
        self._post(sends)
        self._set_alarms()

    def feed(self, dataset: str, rows: Iterable[FedRow]) -> None:
        """Events have become rows."""
        fed = Fed(dataset, tuple(rows))
        if self.core is None:
            self._unfed.append(fed)
        else:
            self._post(self.cluster.handle(fed, now_ns=self.now_ns))
            self._set_alarms()

    def _post(self, sends: list[Post]) -> None:
        self._handle(Posted(tuple(sends)))

    # -- the network's side --------------------------------------------------------------------------------------------

    def is_listening(self) -> bool:
        """While it lives."""
        return self.core is not None

    def accept(self, end: End) -> None:
        """A broker has called."""
        self._handle(Opened(self.opened(end)))

    def heard(self, conn: Conn, message: Message) -> None:
        """A broker has said something."""
        self._handle(Heard(conn, message))

    def left(self, conn: Conn) -> None:
        """A broker has gone."""
        self._handle(Closed(conn))

    def tick(self) -> None:
        """A deadline has come: the machine's, or that of a channel."""
        due = self.cluster.next_deadline()
        if self.core is not None and due is not None and due <= self.now_ns:
            self._post(self.cluster.handle(Due(), now_ns=self.now_ns))
        self._handle(TimePassed())

    def _handle(self, event: DataClusterEvent) -> None:
        if self.core is None:
            return
        for effect in self.core.handle(event, now_ns=self.now_ns):
            self._perform(effect)
        self._set_alarms()

    def _set_alarms(self) -> None:
        if self.core is not None:
            self.set_alarm(self.core.deadline_ns())
            self.set_alarm(self.cluster.next_deadline())

    def _perform(self, effect: DataClusterEffect) -> None:
        match effect:
            case Send(conn, message):
                self.say(conn, message)
            case Close(conn):
                if conn in self.ends:
                    self.hang_up(conn)
                    self._handle(Closed(conn))
            case TellHost(event):
                self._post(self.cluster.handle(event, now_ns=self.now_ns))
            case AskHost() | Note():  # operators are not simulated
                pass
