"""Guaranteed events at a broker: the streams it hosts, those it passes on, those its subscribers are owed.

Along the tree of the host: lacks, replays, alerts and progress go up; queries and answers come down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tidewire.broker.attending import Attending
from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Effect, Step
from tidewire.broker.followers import Follower, Followers, Wish
from tidewire.broker.incoming import check
from tidewire.broker.leaving import Leaving
from tidewire.broker.links import Links
from tidewire.broker.names import Names
from tidewire.broker.pubends import Pubends
from tidewire.broker.stream_events import (
    AnswerNack,
    Doubted,
    FollowersTook,
    Kept,
    Lacking,
    LogSeen,
    MakeFollower,
    RelayReplay,
    StartReplay,
    StopReplay,
    StreamEvent,
    StreamsSeen,
    StreamsTold,
    Unwanted,
)
from tidewire.broker.ways import TreeMessage, Ways
from tidewire.congestion.alerts import Alerts
from tidewire.dataplane.stream_news import StreamNews
from tidewire.dataplane.streams import Range, StreamState
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.stream_messages import Alerted, Follow, Held, Hold, Nack, Progress, Queried, Replay, Stop, TakenOver
from tidewire.routing.answers import Answer, Confirmed, SetParent
from tidewire.routing.router import Router
from tidewire.wire.connections import Send

LOG: Final = Conn(-1)
"""In place of a client: what the log offers."""


class Streams:
    """The streams of one broker. Methods return effects."""

    def __init__(self, config: BrokerConfig, router: Router, links: Links, own_tree: TreeId) -> None:
        self._config = config
        self._router = router
        self._ways = Ways(router, links, own_tree)
        self._own = own_tree
        self.pubends = Pubends(config)
        self.followers = Followers(config.congestion, bytes_max=config.queue_bytes_max // 2)
        self.attending = Attending(config.congestion)
        self._alerts: dict[PubendId, Alerts] = {}
        self.names = Names(router, self._ways, self.pubends, self.followers)
        self._syncing: dict[int, list[Follower]] = {}
        """Barriers behind which followers can be held."""
        self._confirmed: dict[TreeId, dict[PubendId, Tick]] = {}
        self._leaving = Leaving(self.attending)

    def begin(
        self,
        states: list[StreamState],
        kept: list[tuple[bytes, bytes]],
        *,
        unix_offset_ns: int,
        now_ns: Nanoseconds,
    ) -> list[Answer]:
        """The log is open: what is in it may be wanted."""
        self.pubends.begin(states, kept, unix_offset_ns=unix_offset_ns, now_ns=now_ns)
        answers = self._offer(self.pubends.offers.filters)
        self.names.begin(unix_offset_ns=unix_offset_ns, now_ns=now_ns)
        return answers

    def offered(self, filters: list[bytes]) -> Iterator[Step]:
        """A client will publish this: it is offered for as long as it may be in the log."""
        new, effects = self.pubends.offered(filters)
        yield from effects
        yield from self._offer(new)
        if new:
            self.names.woken()

    def _offer(self, filters: list[bytes]) -> list[Answer]:
        if not filters:
            return []
        first = len(self._router.advertisements(LOG))
        return self._router.advertise(LOG, list(range(first, first + len(filters))), filters)

    def deadline_ns(self) -> Nanoseconds | None:
        """When something is due next."""
        times = self.pubends.deadline_ns(), self.followers.deadline_ns(), self.names.deadline_ns()
        return min((time for time in times if time is not None), default=None)

    # -- what neighbours say -------------------------------------------------------------------------------------------

    def heard(self, conn: Conn, message: TreeMessage, *, now_ns: Nanoseconds) -> Iterable[Step]:
        """A neighbour says something about a stream, in the control lane; PeerError if no broker would."""
        check(message)
        data = self._ways.data_of(conn)
        branch = self._router.branch(message.tree)
        if data is None or branch is None:
            return []
        if isinstance(message, Queried | Held | TakenOver):
            return self._from_parent(message, now_ns) if branch.tree.parent == data else []
        return self._from_child(data, conn, message, now_ns) if data in branch.tree.children else []

    def _from_child(self, data: Conn, control: Conn, message: TreeMessage, now_ns: Nanoseconds) -> Iterator[Step]:
        is_own = message.tree == self._own
        match message:
            case Nack(tree, pubend, ranges):
                yield AnswerNack(data, tree, pubend, ranges)
            case Replay():
                yield from self._replay(data, message)
            case Stop(tree, number):
                yield StopReplay(data, number, tree)
            case Alerted(tree, alert):
                yield from self._alert(tree, alert, now_ns)
            case Hold():
                yield from self.names.asked(data, message, now_ns=now_ns)
            case Progress(tree, pubend, names, claims, places):
                if not is_own:
                    yield from self._ways.up(tree, message)
                    return
                for i in self.pubends.progress(names, claims, pubend, places):
                    is_ended = self.pubends.holds.is_ended(names[i])
                    yield Send(control, TakenOver(tree, names[i], claims[i], is_ended), "control")

    def _from_parent(self, message: TreeMessage, now_ns: Nanoseconds) -> Iterator[Step]:
        match message:
            case Queried(tree, query):
                yield from self._query(tree, query, now_ns)
            case Held():
                yield from self.names.answered(message, now_ns=now_ns)
            case TakenOver():
                yield from self.names.taken(message, now_ns=now_ns)

    # -- congestion ----------------------------------------------------------------------------------------------------

    def _query(self, tree: TreeId, query: Query, now_ns: Nanoseconds) -> Iterator[Effect]:
        self._alerts.setdefault(query.pubend, Alerts(self._config.congestion)).query(query)
        yield from self._ways.down(tree, Queried(tree, query))
        alert = self.attending.queried(query, now_ns=now_ns)
        if alert is not None:
            yield from self._alert(tree, alert, now_ns)

    def _alert(self, tree: TreeId, alert: Alert, now_ns: Nanoseconds) -> Iterator[Effect]:
        merged = self._alerts.setdefault(alert.pubend, Alerts(self._config.congestion)).alert(alert, now_ns=now_ns)
        if merged is not None and tree == self._own:
            yield from self.pubends.alerted(merged, now_ns=now_ns)
        elif merged is not None:
            yield from self._ways.up(tree, Alerted(tree, merged))

    # -- followers -----------------------------------------------------------------------------------------------------

    def follow(self, conn: Conn, follow: Follow, *, name: str, wanted: bytes, now_ns: Nanoseconds) -> Iterator[Effect]:
        """A client follows; its routes are told next, and then a barrier."""
        yield from self._told_up(self.followers.add(Follower(conn, follow, name, wanted, now_ns=now_ns)))
        yield MakeFollower(conn, follow.number)

    def gone(self, conn: Conn, numbers: Iterable[int] | None = None) -> Iterator[Effect]:
        """A client has gone, or some of its followers have; what is held for them stays."""
        if numbers is None:
            self._leaving.gone(conn)
            numbers = self.followers.of(conn)
        else:
            numbers = list(numbers)
            yield from self.followers.taken_back(conn, numbers)
        self.names.gone(conn, numbers)
        yield from self._told_up(self.followers.remove(conn, numbers))

    def leave(self, told: Send) -> Iterator[Effect]:
        """A subscriber goes to another broker: it is told when it has what was confirmed there."""
        heads: dict[PubendId, Tick] = {}
        for tree, confirmed in self._confirmed.items():
            heads |= confirmed if self._ways.is_on(tree) and self._is_owed(tree) else {}
        yield from self._leaving.add(told, heads)

    def _told_up(self, effects: Iterable[Effect | Stop]) -> Iterator[Effect]:
        for effect in effects:
            if isinstance(effect, Stop):
                yield from self._ways.up(effect.tree, effect)
            else:
                yield effect

    def hold_behind(self, barrier: int, conn: Conn, number: int) -> None:
        """When this barrier is complete, events are to be held for this follower."""
        self._syncing.setdefault(barrier, []).append(self.followers.at(conn, number))

    @property
    def is_syncing(self) -> bool:
        """Does a follower wait for its routes to stand?"""
        return bool(self._syncing)

    def reached(self, barrier: int, *, now_ns: Nanoseconds) -> Iterator[Step]:
        """A barrier is complete: the routes of those who waited for it stand."""
        for follower in self._syncing.pop(barrier, []):
            if self.followers.get(follower.conn, follower.number) is follower:
                yield from self.names.hold(follower, self._confirmed, now_ns=now_ns)

    def hold_more(self, tree: TreeId) -> list[Answer]:
        """A tree may have something for followers that it had nothing for before."""
        branch = self._router.branch(tree) if len(self.followers) else None
        if branch is None or not branch.tree.is_on:
            return []
        unheld = [one for one in self.followers.all() if tree not in one.ready and branch.may_have(one.wanted)]
        if not unheld:
            return []
        barrier, answers = self._router.sync()
        for follower in unheld:
            self.hold_behind(barrier, follower.conn, follower.number)
        return answers

    def proven(self, answer: Confirmed | SetParent, *, now_ns: Nanoseconds) -> Iterator[Step]:
        """From these ticks on streams have all that we want. A new parent that is asked now would call it silence."""
        if isinstance(answer, SetParent):
            self._confirmed.pop(answer.tree, None)
            return
        self._confirmed[answer.tree] = dict(answer.heads)
        if self._is_owed(answer.tree):
            yield from self.attending.begin(answer.tree, answer.heads)
        if answer.is_all:
            yield from self.names.proven(answer.tree, self._confirmed, now_ns=now_ns)

    # -- replays -------------------------------------------------------------------------------------------------------

    def _replay(self, child: Conn, asked: Replay) -> Iterator[Effect]:
        """From the log, or from what is remembered here if that has all that is wanted; else from further up."""
        name = self.followers.name_replay()
        branch = self._router.branch(asked.tree)
        is_here = asked.tree == self._own or (
            self.attending.is_cached(asked.pubend, asked.place) and branch is not None and branch.covers(asked.wanted)
        )
        if is_here:
            yield StartReplay(name, child, asked.number, asked.pubend, asked.place, asked.wanted, asked.bytes_max)
            return
        parent = self._ways.parent(asked.tree)
        if parent is not None:
            yield RelayReplay(parent[0], name, child, asked.number, asked.pubend)
            bytes_max = min(asked.bytes_max, max(1, self._config.link_queue_bytes_max // 2))  # they go on by a queue
            yield Send(parent[1], msgspec.structs.replace(asked, number=name, bytes_max=bytes_max), "control")

    def _ask_far(self, found: Iterable[Effect | Wish], now_ns: Nanoseconds) -> Iterator[Effect]:
        for one in found:
            if not isinstance(one, tuple):
                yield from self._told_up([one])
                continue
            follower, pubend = one
            place = follower.places[pubend]
            parent = self._ways.parent(place.tree)
            if pubend in self.pubends or parent is None:
                self.followers.pause(follower, pubend, now_ns=now_ns)
            else:
                yield from self.followers.far(follower, pubend, data=parent[0], control=parent[1], now_ns=now_ns)

    # -- what the data plane says, and time ----------------------------------------------------------------------------

    def handle(self, event: StreamEvent, *, now_ns: Nanoseconds) -> Iterator[Step]:
        """Something has happened to the streams."""
        match event:
            case StreamsSeen(states):
                for state in states:
                    (self.pubends if state.pubend in self.pubends else self.attending).seen(state, now_ns=now_ns)
                yield from self._leaving.due()
                yield from self.attending.end(self._is_owed)
            case StreamsTold(news):
                yield from self._told(news, now_ns)
            case Doubted(pubend, ranges):
                yield from self._nack(pubend, ranges, now_ns)
            case Lacking(tree, pubend, ranges):
                yield from self._ways.up(tree, Nack(tree, pubend, ranges))
            case FollowersTook(taken):
                for progress in self.followers.took(taken):
                    yield from self._took(progress, now_ns)
            case Unwanted(tree, number):
                yield from self._ways.up(tree, Stop(tree, number))
            case LogSeen():
                yield from self.pubends.log_seen(event)
            case Kept(number):
                yield from self.names.kept(number, now_ns=now_ns)

    def _took(self, progress: Progress, now_ns: Nanoseconds) -> Iterator[Step]:
        if progress.tree != self._own:
            yield from self._ways.up(progress.tree, progress)
            return
        names, claims = progress.names, progress.claims
        for i in self.pubends.progress(names, claims, progress.pubend, progress.places):
            is_ended = self.pubends.holds.is_ended(names[i])
            yield from self.names.taken(TakenOver(self._own, names[i], claims[i], is_ended), now_ns=now_ns)

    def _told(self, news: StreamNews, now_ns: Nanoseconds) -> Iterator[Effect]:
        for lack in news.lacks:
            yield from self.followers.lacks(lack, now_ns=now_ns)
        for replayed in news.replayed:
            yield from self._ask_far(self.followers.replayed(replayed, now_ns=now_ns), now_ns)
        for fallen in news.fallen:
            yield from self.followers.fallen(fallen)

    def _is_owed(self, tree: TreeId) -> bool:
        """Is there somebody here who may want something of this tree? While it is lost, whoever did still does."""
        branch = self._router.branch(tree)
        is_known = branch is not None and branch.tree.is_on and branch.is_settled
        return self._router.has_subscribers and not (is_known and branch is not None and branch.upstream.is_idle)

    def _nack(self, pubend: PubendId, ranges: list[Range], now_ns: Nanoseconds) -> Iterator[Effect]:
        tree = self.attending.tree_of(pubend)
        if tree is None or self._ways.parent(tree) is None or tree not in self._confirmed:
            return
        asked = self.attending.to_ask(pubend, ranges, now_ns=now_ns)
        if asked:
            yield from self._ways.up(tree, Nack(tree, pubend, asked))

    def tick(self, now_ns: Nanoseconds) -> Iterator[Step]:
        """What is due."""
        for one in self.pubends.due(now_ns=now_ns):
            if isinstance(one, Query):
                yield from self._ways.down(self._own, Queried(self._own, one))
            else:
                yield one
        yield from self._ask_far(self.followers.tick(now_ns), now_ns)
        yield from self.names.tick(now_ns)
