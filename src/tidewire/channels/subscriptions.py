"""Who wants what, in the whole cluster? One subscription for each channel and parameters, held by brokers and names.

It is there as long as somebody holds it: a broker, for its clients, or the name of a durable subscriber, who may be
away. Every change is kept, so a ledger that is made anew from what was kept goes on where the old one was; it first
hears of the channels, then of anything else. Effects are carried out in their order: what is kept, and stored, is
durable before anyone is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec.structs import replace

from tidewire.channels.cluster_events import (
    AddRow,
    Answer,
    BrokerGone,
    ClusterEffect,
    ClusterEvent,
    Created,
    Discard,
    Dropped,
    Follower,
    Keep,
    Kept,
    Ran,
    RemoveRow,
    Send,
    Store,
    Stored,
    Trim,
)
from tidewire.channels.kinds import Member, member_of_kind
from tidewire.channels.messages import (
    Began,
    Channels,
    Claimed,
    Closed,
    Denied,
    Forget,
    Granted,
    Hold,
    Opened,
    Progress,
    Pull,
    Release,
    Told,
    Want,
)
from tidewire.channels.parameters import given_values
from tidewire.channels.results import BEGINNING, Outcome, SubscriptionId, SubscriptionRow
from tidewire.model.errors import BadParameters, LimitReached, SameName, UnknownName, UsageError
from tidewire.model.ids import BrokerId, Tick
from tidewire.model.ticks import tick_at

SUBSCRIPTIONS_MAX: Final = 10_000_000
RUNS_KEPT: Final = 100
"""So many runs are kept for brokers that were away, whoever holds anything."""

RUNS_KEPT_MAX: Final = 10_000
"""So many are kept for durable subscribers that are away; then they hear of a gap."""


class _Channel:
    def __init__(self, created: Created) -> None:
        self.declaration = created.declaration
        self.member: Member = member_of_kind(created.declaration)
        self.batch = created.batch
        self.tick = created.tick
        self.since = created.since
        self.given_tick = created.tick
        """That of the last run, stored or not."""

        self.ticks: deque[Tick] = deque(maxlen=RUNS_KEPT_MAX)
        self.trimmed = BEGINNING
        self.subscriptions: dict[SubscriptionId, None] = {}
        self.named: dict[SubscriptionId, None] = {}
        """Those that a durable subscriber holds."""

    def opened(self) -> Opened:
        columns = tuple(output.name for output in self.declaration.query.outputs)
        declared = self.declaration
        return Opened(channel=declared.name, parameters=declared.parameters, columns=columns, since=self.since)


class Ledger:
    """The subscriptions of a data cluster, and the runs of its channels."""

    def __init__(self, kept: Iterable[Kept] = ()) -> None:
        self._channels: dict[str, _Channel] = {}
        self._held: dict[SubscriptionId, Kept] = {}
        self._ids: dict[Want, SubscriptionId] = {}
        self._lives: dict[BrokerId, int] = {}
        """The last of each broker that is known, also from before a restart."""
        self._here: dict[BrokerId, None] = {}
        """Those that have said since then that they are there."""
        self._by_broker: dict[BrokerId, dict[SubscriptionId, None]] = {}
        for record in kept:
            self._keep(record)
            for broker, life in record.brokers.items():
                self._lives[broker] = max(life, self._lives.get(broker, life))

    def records(self) -> list[Kept]:
        """All subscriptions."""
        return list(self._held.values())

    def named(self, channel: str) -> list[Kept]:
        """Those of a channel that durable subscribers hold."""
        return [self._held[one] for one in self._channels[channel].named]

    def remember(self, records: Iterable[Kept]) -> list[Keep | Discard]:
        """A channel that could not run is no more: the names that held something are owed to hear of it."""
        return [self._keep(replace(one, brokers={})) if one.names else Discard(one.id) for one in records]

    def subscriptions_of(self, channel: str) -> int:
        """How many there are to a channel."""
        return len(self._channels[channel].subscriptions)

    def handle(self, event: ClusterEvent) -> list[ClusterEffect]:
        """What is to be done about it."""
        match event:
            case Hold():
                return self._hold(event) if self._is_current(event.broker, event.life) else []
            case Release():
                return self._release(event) if self._is_current(event.broker, event.life) else []
            case Pull():
                return [Answer(event)] if self._is_current(event.broker, event.life) else []
            case Began():
                return self._began(event)
            case Progress():
                return self._progress(event)
            case Forget():
                return self._forget(event)
            case _:
                return self._handle_inner(event)

    def _handle_inner(self, event: Created | Dropped | BrokerGone | Ran | Stored) -> list[ClusterEffect]:
        match event:
            case Created():
                return self._create(event)
            case Dropped():
                return self._drop(event.channel)
            case BrokerGone():
                self._here.pop(event.broker, None)
                return self._without_broker(event.broker)
            case Ran():
                return self._ran(event)
            case Stored():
                return self._stored(event.outcome)

    # -- channels ------------------------------------------------------------------------------------------------------

    def _create(self, created: Created) -> list[ClusterEffect]:
        name = created.declaration.name
        if name in self._channels:
            raise SameName(f"there is a channel {name!r} already; drop it first, or take another name")
        channel = self._channels[name] = _Channel(created)
        effects: list[ClusterEffect] = [Send(broker, channel.opened()) for broker in self._here]
        for record in list(self._held.values()):  # after a restart, or of one that had this name
            if record.want.channel != name:
                continue
            if self._problem(record.want, channel) is None:
                channel.subscriptions[record.id] = None
                effects += [self._row(channel, record), self._keep(record)]
            else:  # it takes other parameters: who comes with these hears of that
                self._discard(record)
                effects.append(Discard(record.id))
        return effects

    def _drop(self, name: str) -> list[ClusterEffect]:
        channel = self._channels.pop(name, None)
        if channel is None:
            raise UnknownName(name, what="channel", known=self._channels)
        effects: list[ClusterEffect] = []
        for one in channel.subscriptions:
            record = self._held[one]
            self._discard(record)
            effects += [RemoveRow(channel.member.kind.id, one), *self.remember([record])]
        closed: list[ClusterEffect] = [Send(broker, Closed(channel=name)) for broker in self._here]
        return effects + closed

    def _row(self, channel: _Channel, record: Kept) -> AddRow:
        values = channel.member.row_values(record.want.values)
        return AddRow(channel.member.kind.id, SubscriptionRow(record.id, record.want.channel, values))

    # -- who holds what ------------------------------------------------------------------------------------------------

    def _is_current(self, broker: BrokerId, life: int) -> bool:
        return broker in self._here and self._lives[broker] == life

    def _began(self, began: Began) -> list[ClusterEffect]:
        """What an earlier life held is let go only after what this one holds: so no run misses what is still wanted."""
        if began.life <= self._lives.get(began.broker, -1):
            return []
        self._lives[began.broker] = began.life
        self._here[began.broker] = None
        opened = tuple(one.opened() for one in self._channels.values())
        effects: list[ClusterEffect] = [Send(began.broker, Channels(opened=opened))]
        for hold in began.holds:
            effects += self._hold(hold)
        return effects + self._without_broker(began.broker, before_life=began.life)

    def _hold(self, hold: Hold) -> list[ClusterEffect]:
        channel = self._channels.get(hold.want.channel)
        problem = self._problem(hold.want, channel)
        if channel is None or problem is not None:
            assert problem is not None
            denied = Denied(request=hold.request, want=hold.want, code=problem.code, reason=problem.message)
            return [Send(hold.broker, denied)]
        effects: list[ClusterEffect] = []
        record = self._record(hold.want)
        if record is None:
            record = Kept(self._new_id(hold.want), hold.want, {}, {})
            channel.subscriptions[record.id] = None
            effects.append(self._row(channel, record))
        brokers = {**record.brokers, hold.broker: hold.life}
        names, place, claimed = record.names, None, list[ClusterEffect]()
        if hold.name:
            known = names.get(hold.name)
            place = channel.tick if known is None else known.place
            names = {**names, hold.name: Follower(hold.claim, place)}
            if known is not None and known.claim != hold.claim:
                told = Claimed(want=hold.want, name=hold.name, claim=hold.claim)
                claimed = [Send(broker, told) for broker in brokers if broker in self._here]
        effects.append(self._keep(replace(record, brokers=brokers, names=names)))
        granted = Granted(request=hold.request, want=hold.want, id=record.id, tick=channel.tick, place=place)
        return [*effects, *claimed, Send(hold.broker, granted)]

    def _problem(self, want: Want, channel: _Channel | None) -> UsageError | None:
        """What is wrong with a want; None if nothing is."""
        if channel is None:
            return UnknownName(want.channel, what="channel", known=self._channels)
        if want not in self._ids and len(self._held) >= SUBSCRIPTIONS_MAX:
            return LimitReached(f"the data cluster has {len(self._held)} subscriptions, and takes no more")
        parameters = channel.declaration.parameters
        names = [column.name for column in parameters]
        try:
            fits = given_values(want.channel, parameters, dict(zip(names, want.values, strict=False))) == want.values
        except BadParameters as problem:
            return problem
        return None if fits else BadParameters(f"channel {want.channel} takes {len(names)} parameters")

    def _release(self, release: Release) -> list[ClusterEffect]:
        record = self._record(release.want)
        return [] if record is None else self._without(record, broker=release.broker)

    def _without_broker(self, broker: BrokerId, *, before_life: int | None = None) -> list[ClusterEffect]:
        """It holds nothing any more, or nothing of what it held in earlier lives."""
        held = [self._held[one] for one in self._by_broker.get(broker, ())]
        old = [one for one in held if before_life is None or one.brokers[broker] < before_life]
        return [effect for record in old for effect in self._without(record, broker=broker)]

    def _forget(self, forget: Forget) -> list[ClusterEffect]:
        record = self._record(forget.want)
        if record is None or not _has_claim(record, forget):
            return []
        return self._without(record, name=forget.name)

    def _without(self, record: Kept, *, broker: BrokerId | None = None, name: str = "") -> list[ClusterEffect]:
        """One holder less: with the last one, the subscription goes."""
        brokers = {one: life for one, life in record.brokers.items() if one != broker}
        names = {one: follower for one, follower in record.names.items() if one != name}
        if brokers or names:
            if (len(brokers), len(names)) == (len(record.brokers), len(record.names)):
                return []
            return [self._keep(replace(record, brokers=brokers, names=names))]
        self._discard(record)
        channel = self._channels.get(record.want.channel)
        if channel is None:
            return [Discard(record.id)]
        del channel.subscriptions[record.id]
        return [RemoveRow(channel.member.kind.id, record.id), Discard(record.id)]

    def _progress(self, progress: Progress) -> list[ClusterEffect]:
        record = self._record(progress.want)
        if record is None or not _has_claim(record, progress):
            return []
        if progress.tick <= record.names[progress.name].place:
            return []
        names = {**record.names, progress.name: Follower(progress.claim, progress.tick)}
        return [self._keep(replace(record, names=names))]

    def _keep(self, record: Kept) -> Keep:
        self._discard(self._held.get(record.id, record))
        self._held[record.id] = record
        self._ids[record.want] = record.id
        for broker in record.brokers:
            self._by_broker.setdefault(broker, {})[record.id] = None
        channel = self._channels.get(record.want.channel)
        if channel is not None and record.names:
            channel.named[record.id] = None
        return Keep(record)

    def _discard(self, record: Kept) -> None:
        self._held.pop(record.id, None)
        self._ids.pop(record.want, None)
        for broker in record.brokers:
            self._by_broker.get(broker, {}).pop(record.id, None)
        channel = self._channels.get(record.want.channel)
        if channel is not None:
            channel.named.pop(record.id, None)

    def _record(self, want: Want) -> Kept | None:
        found = self._ids.get(want)
        return None if found is None else self._held[found]

    def _new_id(self, want: Want) -> SubscriptionId:
        """The same for the same want, also after a restart; another one only if two wants have one digest."""
        data = msgspec.msgpack.encode(want)
        while True:
            found = SubscriptionId(int.from_bytes(blake2b(data, digest_size=8).digest()) >> 1)
            if found not in self._held:
                return found
            data += b"\0"

    # -- runs ----------------------------------------------------------------------------------------------------------

    def _ran(self, ran: Ran) -> list[ClusterEffect]:
        channel = self._channels.get(ran.channel)
        if channel is None or ran.batch <= channel.batch:  # dropped meanwhile, or done again after a crash
            return []
        channel.given_tick = Tick(max(tick_at(ran.now_ms), channel.given_tick + 1))
        results = tuple(one for one in ran.results if one.subscription in channel.subscriptions and one.rows)
        return [Store(Outcome(channel=ran.channel, batch=ran.batch, tick=channel.given_tick, results=results))]

    def _stored(self, outcome: Outcome) -> list[ClusterEffect]:
        channel = self._channels.get(outcome.channel)
        if channel is None or outcome.batch <= channel.batch:
            return []
        channel.batch, channel.tick = outcome.batch, outcome.tick
        channel.given_tick = max(channel.given_tick, outcome.tick)
        channel.ticks.append(outcome.tick)
        told: dict[BrokerId, list[SubscriptionId]] = {}
        for result in outcome.results:
            record = self._held.get(result.subscription)
            for broker in record.brokers if record is not None else ():
                if broker in self._here:
                    told.setdefault(broker, []).append(result.subscription)
        effects: list[ClusterEffect] = [
            Send(broker, Told(channel=outcome.channel, tick=outcome.tick, ids=tuple(ids)))
            for broker, ids in told.items()
        ]
        return effects + self._trim(channel)

    def _trim(self, channel: _Channel) -> list[ClusterEffect]:
        """The oldest runs are let go that nobody is owed, and in the end those that somebody is."""
        if len(channel.ticks) <= RUNS_KEPT:
            return []
        owed = [follower.place for one in channel.named for follower in self._held[one].names.values()]
        upto = min([channel.ticks[-RUNS_KEPT - 1], *owed])
        if len(channel.ticks) == channel.ticks.maxlen:
            upto = max(upto, channel.ticks[0])
        if upto <= channel.trimmed:
            return []
        channel.trimmed = upto
        return [Trim(channel.declaration.name, upto)]


def _has_claim(record: Kept, message: Progress | Forget) -> bool:
    follower = record.names.get(message.name)
    return follower is not None and follower.claim == message.claim
