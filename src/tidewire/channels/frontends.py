"""Who of my clients wants what, and what have they had? A broker's part of all channels.

Clients that want the same share one subscription of the data cluster. When it has something new, the broker pulls it
once, for all of them, and tells each what lies behind its place: once, and in order. A place outlives the connection
to the cluster, and goes with a client that moves.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Final

from tidewire.channels.frontend_events import (
    ClientGone,
    Confirm,
    Connected,
    Disconnected,
    FrontendEffect,
    FrontendEvent,
    LetGo,
    Linger,
    Missed,
    Notify,
    Refuse,
    Say,
    Settled,
    Subscribe,
    Subscriber,
    Unsubscribe,
)
from tidewire.channels.groups import Group
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
    Results,
    ToBroker,
    ToCluster,
    Told,
    Want,
)
from tidewire.channels.parameters import given_values, timed
from tidewire.channels.results import Found, Packed, SubscriptionId
from tidewire.model.errors import (
    DuplicateSubscription,
    FollowedElsewhere,
    Unavailable,
    UnknownName,
    UnknownSubscription,
)
from tidewire.model.ids import BrokerId, Conn, Tick

CACHED_ROWS_MAX: Final = 100_000
UNSETTLED_ROWS_MAX: Final = 10_000
"""So many are on their way to one subscriber, or a single run; then it is told more when it has dealt with some."""

SAID_MAX: Final = 100_000
"""Of so many durable subscribers it is remembered what they have dealt with; the others may be told it again."""


class Frontends:
    """The subscriptions of a broker's clients."""

    def __init__(self, broker: BrokerId, *, cached_rows_max: int = CACHED_ROWS_MAX) -> None:
        self._broker = broker
        self._life: int | None = None
        self._requests = 0
        self._channels: dict[str, Opened] = {}
        self._has_heard = False
        """Has the cluster said in this life which channels there are?"""

        self._groups: dict[Want, Group] = {}
        self._by_id: dict[SubscriptionId, Group] = {}
        self._wants: dict[Conn, dict[int, Want]] = {}
        self.subscriptions = 0
        """Of all clients together."""
        self._said: OrderedDict[tuple[str, int, Want], Forget | Progress] = OrderedDict()
        """The last word of each durable subscriber, the newest at the end: it may not have come through."""

        self._cached_rows_max = cached_rows_max
        self._cached_rows = 0
        self._cached: OrderedDict[Want, None] = OrderedDict()
        """The groups that have something in the cache, that which had something new last at the end."""

    @property
    def channels(self) -> int:
        """How many there are, as the cluster said last."""
        return len(self._channels)

    @property
    def shared(self) -> int:
        """The subscriptions of the data cluster that this broker has."""
        return len(self._groups)

    def fan_out(self) -> dict[Want, int]:
        """How many clients want what."""
        return {want: len(group.places) for want, group in self._groups.items()}

    def wanted(self) -> dict[Conn, list[Want]]:
        """What each client wants; twice the same is once."""
        return {conn: list(dict.fromkeys(wants.values())) for conn, wants in self._wants.items()}

    def take_come(self) -> dict[Want, int]:
        """The bytes of results that have come for each want since this was asked last."""
        found = {want: group.come_bytes for want, group in self._groups.items()}
        for group in self._groups.values():
            group.come_bytes = 0
        return found

    def typed(self, channel: str, given: Mapping[str, object]) -> dict[str, object]:
        """What is given to a channel, as it takes it; as it is, if it is not known yet."""
        known = self._channels.get(channel)
        return dict(given) if known is None else timed(known.parameters, given)

    def handle(self, event: FrontendEvent) -> list[FrontendEffect]:
        """What is to be done about it; UsageError if a client asks for what cannot be."""
        match event:
            case Subscribe():
                return self._subscribe(event)
            case Unsubscribe():
                return self._unsubscribe(event.subscriber, is_final=event.is_final)
            case Settled():
                return self._settled(event.subscriber, event.tick)
            case ClientGone():
                numbers = list(self._wants.get(event.conn, ()))
                return [one for n in numbers for one in self._unsubscribe((event.conn, n), is_final=False)]
            case LetGo():
                group = self._groups.get(event.want)
                return self._let_go(group) if group is not None and group.is_deserted() else []
            case Connected():
                return self._connected(event.life)
            case Disconnected():
                self._life, self._has_heard = None, False
                return []
            case _:
                return self._hear(event)

    def _hear(self, message: ToBroker) -> list[FrontendEffect]:
        match message:
            case Opened():
                self._channels[message.channel] = message
                return []
            case Channels():
                return self._all_channels(message)
            case Closed():
                return self._closed(message.channel)
            case Granted():
                return self._granted(message)
            case Denied():
                return self._denied(message)
            case Claimed():
                return self._claimed(message)
            case Told():
                return self._told(message)
            case Results():
                effects = [effect for found in message.found for effect in self._found(found)]
                return effects + self._pull(
                    self._by_id[one.subscription] for one in message.found if one.subscription in self._by_id
                )

    # -- clients -------------------------------------------------------------------------------------------------------

    def _subscribe(self, event: Subscribe) -> list[FrontendEffect]:
        conn, number = event.subscriber
        if number in self._wants.get(conn, ()):
            raise DuplicateSubscription(f"there is a subscription {number} already; take another number")
        channel = self._channels.get(event.channel)
        if channel is None and not self._has_heard:
            raise Unavailable(
                "the data cluster cannot be reached, and this broker does not know the channel; try again"
            )
        if channel is None:
            raise UnknownName(event.channel, what="channel", known=self._channels)
        want = Want(event.channel, given_values(event.channel, channel.parameters, event.given))
        self._wants.setdefault(conn, {})[number] = want
        self.subscriptions += 1
        group = self._groups.get(want)
        is_new = group is None
        if group is None:
            group = self._groups[want] = Group(want, born=self._requests + 1)
        if event.name:
            group.names[event.subscriber] = (event.name, event.claim)
            self._requests += 1
            group.asked[self._requests] = (event.subscriber, event.after)
            return self._say(self._hold(group, self._requests, (event.name, event.claim)))
        if group.id is not None:
            return self._place(group, event.subscriber, event.after, tick=group.told)
        group.waiting[event.subscriber] = event.after
        return self._say(self._hold(group)) if is_new else []

    def _hold(self, group: Group, request: int = 0, follower: tuple[str, int] = ("", 0)) -> Hold:
        if not request:
            self._requests += 1
        life, number = self._life or 0, request or self._requests
        name, claim = follower
        return Hold(broker=self._broker, life=life, request=number, want=group.want, name=name, claim=claim)

    def _place(self, group: Group, subscriber: Subscriber, after: Tick | None, *, tick: Tick) -> list[FrontendEffect]:
        """It is confirmed, from its own place or this tick on; if its place was in another channel, it hears of it."""
        channel = self._channels[group.want.channel]
        place = group.places[subscriber] = tick if after is None else after
        confirm = Confirm(subscriber, place, channel.columns)
        return [confirm, *self._lose(group, [subscriber], channel.since), *self._tell_more(group, subscriber)]

    def _lose(self, group: Group, subscribers: Iterable[Subscriber], since: Tick) -> list[FrontendEffect]:
        """What these had not had of an earlier channel is lost with that."""
        behind = {one: group.places[one] for one in subscribers if group.places[one] < since}
        group.places |= dict.fromkeys(behind, since)
        return [Missed(one, place, since) for one, place in behind.items()]

    def _unsubscribe(self, subscriber: Subscriber, *, is_final: bool) -> list[FrontendEffect]:
        group = self._group_of(subscriber)
        name, claim = group.names.get(subscriber, ("", 0))
        self._remove(group, subscriber)
        forget = Forget(name=name, claim=claim, want=group.want)
        effects = self._say_later(forget) if name and is_final else []
        if group.is_deserted():
            effects += self._let_go(group) if is_final else [Linger(group.want)]
        return effects

    def _let_go(self, group: Group) -> list[FrontendEffect]:
        self._drop(group)
        return self._say(Release(broker=self._broker, life=self._life or 0, want=group.want))

    def _settled(self, subscriber: Subscriber, tick: Tick) -> list[FrontendEffect]:
        group = self._group_of(subscriber)
        name, claim = group.names.get(subscriber, ("", 0))
        progress = Progress(name=name, claim=claim, want=group.want, tick=tick)
        effects = self._say_later(progress) if name else []
        return effects + (self._tell_more(group, subscriber) if group.settled(subscriber, tick) else [])

    def _remove(self, group: Group, subscriber: Subscriber) -> None:
        conn, number = subscriber
        del self._wants[conn][number]
        self.subscriptions -= 1
        if not self._wants[conn]:
            del self._wants[conn]
        group.remove(subscriber)

    def _drop(self, group: Group) -> None:
        self._uncache(group)
        del self._groups[group.want]
        if group.id is not None:
            del self._by_id[group.id]

    def _group_of(self, subscriber: Subscriber) -> Group:
        conn, number = subscriber
        want = self._wants.get(conn, {}).get(number)
        if want is None:
            raise UnknownSubscription(f"there is no subscription {number}")
        return self._groups[want]

    # -- the cluster ---------------------------------------------------------------------------------------------------

    def _say(self, message: ToCluster) -> list[FrontendEffect]:
        """What is said while there is no connection is made good when there is one: see ``_connected``."""
        return [] if self._life is None else [Say(message)]

    def _say_later(self, message: Forget | Progress) -> list[FrontendEffect]:
        """What a name says is said again when there is a connection, or another one."""
        key = message.name, message.claim, message.want
        self._said[key] = message
        self._said.move_to_end(key)
        if len(self._said) > SAID_MAX:
            self._said.popitem(last=False)
        return self._say(message)

    def _connected(self, life: int) -> list[FrontendEffect]:
        self._life = life
        holds: list[Hold] = []
        for group in self._groups.values():
            group.is_pulling = False
            holds += [self._hold(group, one, group.names[asked[0]]) for one, asked in group.asked.items()]
            holds.append(self._hold(group))
        effects: list[FrontendEffect] = [Say(message) for message in self._said.values()]
        return [*effects, Say(Began(broker=self._broker, life=life, holds=tuple(holds)))]

    def _all_channels(self, message: Channels) -> list[FrontendEffect]:
        there = {opened.channel: opened for opened in message.opened}
        gone = [name for name, known in self._channels.items() if not known.is_like(there.get(name))]
        effects = [effect for name in gone for effect in self._closed(name, is_another=name in there)]
        anew = [name for name, known in self._channels.items() if there[name].since != known.since]
        self._channels, self._has_heard = there, True
        for group in [one for want, one in self._groups.items() if want.channel in anew]:
            effects += self._lose(group, list(group.places), there[group.want.channel].since)
        return effects

    def _granted(self, granted: Granted) -> list[FrontendEffect]:
        group = self._groups.get(granted.want)
        if group is None or granted.request < group.born:  # nobody wants it any more, or anew
            return []
        if group.id is not None:
            self._by_id.pop(group.id, None)
        group.id, group.told = granted.id, max(group.told, granted.tick)
        self._by_id[granted.id] = group
        waiting, group.waiting = group.waiting, {}
        effects: list[FrontendEffect] = []
        if granted.request in group.asked:
            subscriber, after = group.asked.pop(granted.request)
            effects += self._place(group, subscriber, granted.place if after is None else after, tick=granted.tick)
        for subscriber, after in waiting.items():
            effects += self._place(group, subscriber, after, tick=granted.tick)
        return effects + self._pull((group,))

    def _denied(self, denied: Denied) -> list[FrontendEffect]:
        group = self._groups.get(denied.want)
        if group is None or denied.request < group.born:
            return []
        asked = group.asked.get(denied.request)
        return self._end(group, [asked[0]] if asked else group.subscribers(), code=denied.code, reason=denied.reason)

    def _closed(self, channel: str, *, is_another: bool = False) -> list[FrontendEffect]:
        """Who is here hears of it, and need not be told again; of another one of its name we want nothing either."""
        self._channels.pop(channel, None)
        reason, effects = f"the channel {channel!r} is no more", list[FrontendEffect]()
        for group in [group for want, group in self._groups.items() if want.channel == channel]:
            for name, claim in group.names.values():
                effects += self._say_later(Forget(name=name, claim=claim, want=group.want))
            effects += self._end(group, group.subscribers(), code=UnknownName.code, reason=reason)
            if is_another:
                effects += self._say(Release(broker=self._broker, life=self._life or 0, want=group.want))
        return effects

    def _end(self, group: Group, subscribers: list[Subscriber], *, code: str, reason: str) -> list[FrontendEffect]:
        """It is over for these."""
        for subscriber in subscribers:
            self._remove(group, subscriber)
        if group.is_deserted():
            self._drop(group)
        return [Refuse(subscriber, code, reason) for subscriber in subscribers]

    def _claimed(self, claimed: Claimed) -> list[FrontendEffect]:
        group = self._groups.get(claimed.want)
        names = {} if group is None else group.names
        others = [one for one, (name, claim) in names.items() if name == claimed.name and claim != claimed.claim]
        if group is None or not others:
            return []
        reason = "another session has this name now"
        return self._end(group, others, code=FollowedElsewhere.code, reason=reason)

    def _told(self, told: Told) -> list[FrontendEffect]:
        groups = [self._by_id[one] for one in told.ids if one in self._by_id]
        for group in groups:
            group.told = max(group.told, told.tick)
        return self._pull(groups)

    # -- results -------------------------------------------------------------------------------------------------------

    def _pull(self, groups: Iterable[Group], subscriber: Subscriber | None = None) -> list[FrontendEffect]:
        """Ask once for all that is new to somebody, channel by channel; nobody waits for one who is far behind.

        ``subscriber``: to this one, of a single group.
        """
        wanted: dict[str, list[tuple[SubscriptionId, Tick]]] = {}
        for group in groups:
            if self._life is None or group.id is None or group.is_pulling:
                continue
            whose = group.places if subscriber is None else (subscriber,)
            places = (group.places[one] for one in whose if one not in group.full)
            behind = [place for place in places if place < group.told]
            if behind:
                group.is_pulling = True
                ends = dict.fromkeys((max(behind), min(behind)))
                wanted.setdefault(group.want.channel, []).extend((group.id, place) for place in ends)
        return [
            Say(Pull(broker=self._broker, life=self._life or 0, channel=channel, places=tuple(places)))
            for channel, places in wanted.items()
        ]

    def _found(self, found: Found) -> list[FrontendEffect]:
        group = self._by_id.get(found.subscription)
        if group is None:
            return []
        group.is_pulling = False
        group.count(found)
        self._remember(group, found)
        effects: list[FrontendEffect] = []
        for subscriber, place in group.places.items():
            if found.after <= place < found.upto and subscriber not in group.full:
                if place < found.lost_upto:
                    effects.append(Missed(subscriber, place, found.lost_upto))
                effects += self._tell(group, subscriber, found.runs, upto=found.upto)
        return effects

    def _tell(
        self, group: Group, subscriber: Subscriber, runs: Iterable[tuple[Tick, Packed]], *, upto: Tick
    ) -> list[FrontendEffect]:
        """What is behind its place, as far as there is room for it."""
        effects: list[FrontendEffect] = []
        place, unsettled = group.places[subscriber], group.unsettled.setdefault(subscriber, deque())
        room = UNSETTLED_ROWS_MAX - sum(rows for _, rows in unsettled)
        for tick, packed in runs:
            if tick <= place:
                continue
            if room < packed.count and unsettled:
                group.full[subscriber] = None
                upto = place
                break
            room -= packed.count
            unsettled.append((tick, packed.count))
            effects.append(Notify(subscriber, tick, packed))
            place = tick
        group.places[subscriber] = upto
        return effects

    def _tell_more(self, group: Group, subscriber: Subscriber) -> list[FrontendEffect]:
        """One has come, or has room again: what there is for it is told, and the rest is asked for."""
        effects: list[FrontendEffect] = []
        if group.cached_from <= group.places[subscriber] < group.cached_upto:
            effects = self._tell(group, subscriber, group.cache, upto=group.cached_upto)
        return effects + self._pull((group,), subscriber)

    # -- the cache -----------------------------------------------------------------------------------------------------

    def _remember(self, group: Group, found: Found) -> None:
        """Results that go on where the cache ends, or begin it anew, are kept for those who come later."""
        if found.upto <= group.cached_upto:
            return
        goes_on = bool(group.cached_upto) and found.after <= group.cached_upto and not found.lost_upto
        start = group.cached_upto if goes_on else found.after
        if not goes_on:
            self._uncache(group)
            group.cached_from = max(found.after, found.lost_upto)
        new = [(tick, packed) for tick, packed in found.runs if tick > start]
        group.cache += new
        group.cached_upto = found.upto
        self._cached_rows += sum(packed.count for _, packed in new)
        self._cached[group.want] = None
        self._cached.move_to_end(group.want)
        while self._cached_rows > self._cached_rows_max:
            self._uncache(self._groups[next(iter(self._cached))])

    def _uncache(self, group: Group) -> None:
        self._cached_rows -= group.cached_rows()
        self._cached.pop(group.want, None)
        group.cache.clear()
        group.cached_from = group.cached_upto
