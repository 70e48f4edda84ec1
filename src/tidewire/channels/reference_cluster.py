"""A whole data cluster in one object, without Spark: the evaluator, the ledger, the store of results, the schedule.

It stands for the data cluster in the simulator, and says what the one on Spark should say.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewire.channels.cluster_events import (
    AddRow,
    Answer,
    BrokerGone,
    ClusterEffect,
    ClusterEvent,
    Created,
    Discard,
    Dropped,
    Keep,
    Kept,
    Ran,
    RemoveRow,
    Send,
    Store,
    Stored,
    Trim,
)
from tidewire.channels.commands import (
    ChannelAnswer,
    ChannelCommand,
    ChannelDocument,
    CreateChannel,
    DropChannel,
    ExplainChannel,
    ListChannels,
    ListNames,
    NameDocument,
    PauseChannel,
    ResumeChannel,
    document_of,
    furthest,
    names_of,
)
from tidewire.channels.creation import Channel, create_channel
from tidewire.channels.evaluator import Evaluator, FedRow
from tidewire.channels.messages import Results, ToCluster
from tidewire.channels.results import ResultStore, SubscriptionId
from tidewire.channels.schedules import Schedule
from tidewire.channels.schemas import Catalog, Row
from tidewire.channels.subscriptions import Ledger
from tidewire.model.errors import UnknownName
from tidewire.model.ids import BrokerId, Nanoseconds, Tick
from tidewire.model.ticks import ms_of, tick_at

ROWS_AT_ONCE_MAX = 10_000
"""So many rows of results are in one answer, for each subscription."""


class Fed(msgspec.Struct, frozen=True):
    """Rows have come into a dataset."""

    dataset: str
    rows: tuple[FedRow | Row, ...]


class TimePassed(msgspec.Struct, frozen=True):
    """The next deadline is here."""


ReferenceEvent = Fed | TimePassed | BrokerGone | ToCluster


class ReferenceCluster:
    """The rows of its datasets, its channels and their results."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._evaluator = Evaluator(catalog)
        self._ledger = Ledger()
        self._store = ResultStore()
        self._schedule = Schedule()
        self._kept: dict[SubscriptionId, Kept] = {}
        self._paused: dict[str, None] = {}
        self._since: dict[str, Tick] = {}
        self.channels: dict[str, Channel] = {}

    def handle(self, event: ReferenceEvent, *, now_ns: Nanoseconds) -> list[Send]:
        """What is to be sent to whom."""
        match event:
            case Fed():
                self._evaluator.append(event.dataset, event.rows)
                return self._run(self._schedule.fed(event.dataset), now_ns)
            case TimePassed():
                return self._run(self._schedule.take_due(now_ns=now_ns), now_ns)
            case _:
                return self._tell(event)

    def asked(self, command: ChannelCommand, *, now_ns: Nanoseconds) -> tuple[ChannelAnswer, list[Send]]:
        """What an operator is answered, and what is to be sent to whom; UsageError if it asks for what cannot be."""
        match command:
            case CreateChannel(text):
                sends = self._declare(text, now_ns)
                *_, made = self.channels
                return self._about(made), sends
            case DropChannel(name):
                answer = self._about(name)
                return answer, self._drop(name)
            case ListChannels():
                return ChannelAnswer(channels=[self._document(name) for name in self.channels]), []
            case ListNames():
                return self._names(now_ns), []
            case PauseChannel(name):
                if name not in self._paused:
                    self._schedule.remove(self._known(name).declaration.name)
                    self._paused[name] = None
                return self._about(name), []
            case ResumeChannel(name):
                return self._resume(name, now_ns)
            case ExplainChannel(name, text):
                channel = create_channel(text, self._catalog) if text else self._known(name)
                return ChannelAnswer(explanation=channel.explain()), []

    def _names(self, now_ns: Nanoseconds) -> ChannelAnswer:
        found: list[NameDocument] = []
        for name, channel in self.channels.items():
            for record in self._ledger.named(name):
                places = [one.place for one in record.names.values()]
                owed = [self._store.find(name, record.id, place, rows_max=1).runs for place in places]
                first_ms = [ms_of(runs[0][0]) if runs else None for runs in owed]
                found += names_of(channel.declaration, record, first_ms, now_ms=now_ns // 1_000_000)
        return ChannelAnswer(names=furthest(found))

    def _resume(self, name: str, now_ns: Nanoseconds) -> tuple[ChannelAnswer, list[Send]]:
        """A continuous one runs at once: what has come meanwhile does not come again."""
        sends: list[Send] = []
        if name in self._paused:
            del self._paused[name]
            declaration = self.channels[name].declaration
            self._schedule.add(declaration, now_ns=now_ns)
            sends = self._run([name], now_ns) if declaration.period_ms is None else []
        return self._about(name), sends

    def _known(self, name: str) -> Channel:
        if name not in self.channels:
            raise UnknownName(name, what="channel", known=self.channels)
        return self.channels[name]

    def _about(self, name: str) -> ChannelAnswer:
        return ChannelAnswer(channels=[self._document(name)])

    def _document(self, name: str) -> ChannelDocument:
        channel = self._known(name)
        held = sum(one.want.channel == name for one in self._kept.values())
        kind, is_paused = channel.member.kind.id, name in self._paused
        return document_of(channel.declaration, kind=kind, is_paused=is_paused, subscriptions=held)

    def brokers(self) -> list[BrokerId]:
        """Those that hold something."""
        return list(dict.fromkeys(broker for one in self._kept.values() for broker in one.brokers))

    def next_deadline(self) -> Nanoseconds | None:
        """When ``TimePassed`` is due."""
        return self._schedule.next_deadline()

    def restart(self) -> list[Send]:
        """The machine that holds the subscriptions dies, and begins anew from what was kept."""
        self._ledger = Ledger(self._kept.values())
        created: list[Created] = []
        for name, one in self.channels.items():
            batch, tick = self._store.last(name)
            since = self._since[name]
            created.append(Created(one.declaration, batch, max(tick, since), since))
        return [send for event in created for send in self._tell(event)]

    def _declare(self, text: str, now_ns: Nanoseconds) -> list[Send]:
        channel = create_channel(text, self._catalog)
        since = tick_at(now_ns // 1_000_000)
        sends = self._tell(Created(channel.declaration, tick=since, since=since))
        self.channels[channel.declaration.name] = channel
        self._since[channel.declaration.name] = since
        self._evaluator.begin(channel.declaration)
        self._schedule.add(channel.declaration, now_ns=now_ns)
        return sends

    def _drop(self, name: str) -> list[Send]:
        declaration = self._known(name).declaration
        sends = self._tell(Dropped(name))
        del self.channels[name]
        self._evaluator.end(declaration)
        if name in self._paused:
            del self._paused[name]
        else:
            self._schedule.remove(name)
        self._store.drop(name)
        return sends

    def _run(self, names: Iterable[str], now_ns: Nanoseconds) -> list[Send]:
        """The batch is how far the feed has come: without anything new there is no run."""
        sends: list[Send] = []
        for name in names:
            declaration = self.channels[name].declaration
            batch = self._evaluator.fed(declaration.feed)
            wanted = {one.id: one.want.values for one in self._kept.values() if one.want.channel == name}
            results = self._evaluator.run(declaration, wanted)
            sends += self._tell(Ran(channel=name, batch=batch, now_ms=now_ns // 1_000_000, results=results))
        return sends

    def _tell(self, event: ClusterEvent) -> list[Send]:
        return [send for effect in self._ledger.handle(event) for send in self._carry_out(effect)]

    def _carry_out(self, effect: ClusterEffect) -> list[Send]:
        match effect:
            case Send():
                return [effect]
            case Keep():
                self._kept[effect.record.id] = effect.record
            case Discard():
                del self._kept[effect.id]
            case Store():
                self._store.store(effect.outcome)
                return self._tell(Stored(effect.outcome))
            case Trim():
                self._store.trim(effect.channel, effect.upto)
            case Answer():
                pull = effect.pull
                found = tuple(
                    self._store.find(pull.channel, one, after, rows_max=ROWS_AT_ONCE_MAX) for one, after in pull.places
                )
                return [Send(pull.broker, Results(channel=pull.channel, found=found))]
            case AddRow() | RemoveRow():  # for a cluster that carries out plans
                pass
        return []
