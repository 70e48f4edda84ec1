"""PEER in a head: it speaks for its cluster, brings clusters together, and passes bulletins on.

It has no clients to balance itself (peer A7).
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewire.balancing.answers import Answer, Inner, Say
from tidewire.balancing.bulletins import HeadWays, Pass
from tidewire.balancing.cluster_sessions import ClusterSessions
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.detectors import Finding, Pace, look_around
from tidewire.balancing.indices import mean
from tidewire.balancing.pie import Book, Entry, Telling
from tidewire.balancing.states import ClusterState
from tidewire.model.balance_messages import (
    GLOBAL_PIE,
    LB_CONTROL,
    LOCAL_PIE,
    Bulletin,
    ClusterAsk,
    ClusterCondition,
    ClusterFinished,
    ClusterReply,
    ControlClass,
    Finished,
    GlobalPie,
    Gone,
    Help,
    Indices,
    LocalPie,
    Moving,
    Payload,
    Watch,
)
from tidewire.model.chance import Chance
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.notes import Note


class HeadBalancer:
    """A head, and the cluster that has its name."""

    def __init__(
        self, head: BrokerId, config: BalancingConfig, *, life: int, chance: Chance, now_ns: Nanoseconds
    ) -> None:
        """``life`` only grows from one life of this broker to the next."""
        self._head = head
        self._config = config
        self._life = life
        self._state = ClusterState()
        self._ways = HeadWays(head)
        self._edges: Book[LocalPie] = Book(config, period_s=config.local_pie_s)
        self._clusters: Book[GlobalPie] = Book(config, period_s=config.global_pie_s)
        self._telling = Telling(config, period_s=config.global_pie_s, now_ns=now_ns)
        self._pace = Pace(
            least_s=config.global_detect_s_min, most_s=config.global_detect_s_max, chance=chance, now_ns=now_ns
        )
        self._sessions = ClusterSessions(head, config, self._state, life=life)
        self._number = 0
        self._lives: dict[BrokerId, int] = {}
        self._watched: BrokerId | None = None
        """What the edges have been told to balance with."""

    @property
    def condition(self) -> ClusterCondition:
        """The cluster's."""
        return self._state.condition

    @property
    def partner(self) -> BrokerId | None:
        """The cluster that this one balances with."""
        return self._sessions.partner

    def known(self, *, now_ns: Nanoseconds) -> list[BrokerId]:
        """The clusters whose load it has heard of lately."""
        return [entry.broker for entry in self._clusters.entries(now_ns=now_ns)]

    def is_full(self, edge: BrokerId, *, now_ns: Nanoseconds) -> bool:
        """Should this edge get no further clients (peer A4)?"""
        return any(entry.broker == edge and entry.pie.condition == "N/A" for entry in self._ours(now_ns))

    def next_deadline_ns(self) -> int:
        """When to call ``tick``, if nothing else happens."""
        deadline_ns = self._sessions.next_deadline_ns()
        times = [self._pace.next_ns, self._telling.next_deadline_ns()]
        return min(times if deadline_ns is None else [*times, deadline_ns])

    # -- what happens --------------------------------------------------------------------------------------------------

    def connected(self, *, edges: Iterable[BrokerId], heads: Iterable[BrokerId], now_ns: Nanoseconds) -> list[Answer]:
        """These are our neighbours now."""
        edges, heads = dict.fromkeys(edges), dict.fromkeys(heads)
        answers: list[Answer] = []
        for edge in [edge for edge in self._ways.edges if edge not in edges]:
            self._forget_edge(edge)
            answers += self._say(LOCAL_PIE, Gone(edge))
        for head in [head for head in self._ways.heads if head not in heads]:
            self._ways.gone(head)
            self._clusters.forget(head)
            answers += self._done(self._sessions.gone(head, now_ns=now_ns))
        come = [edge for edge in edges if edge not in self._ways.edges]
        self._ways.edges, self._ways.heads = edges, heads
        self._sessions.edges = dict(edges)
        for edge in come:
            self._edges.keep(edge)
            if self._watched is not None:
                answers += self._say(LB_CONTROL, Watch(self._watched), to=edge)
        if not edges:
            answers += self._done(self._sessions.give_up("no edge is left", now_ns=now_ns))
        self._take_stock(now_ns)
        return answers

    def _forget_edge(self, edge: BrokerId) -> None:
        self._ways.gone(edge)
        self._edges.forget(edge)
        self._sessions.edges.pop(edge, None)

    def heard(self, bulletin: Bulletin, *, came_from: BrokerId, now_ns: Nanoseconds) -> list[Answer]:
        """A bulletin has come from a neighbour: it is passed on, heard, or both."""
        way = self._ways.heard(
            bulletin, came_from=came_from, partner=self._sessions.partner, is_overloaded=self.condition == "N/A"
        )
        self._watch_traffic(bulletin, way.passes, now_ns)
        answers: list[Answer] = list(way.passes)
        known = self._lives.get(bulletin.sender, bulletin.life)
        if not way.is_for_us or bulletin.life < known:
            return answers
        self._lives[bulletin.sender] = bulletin.life
        inner = self._sessions.gone(bulletin.sender, now_ns=now_ns) if bulletin.life > known else []
        return answers + self._done([*inner, *self._told(bulletin, now_ns)])

    def _watch_traffic(self, bulletin: Bulletin, passes: list[Pass], now_ns: Nanoseconds) -> None:
        """What edges of both clusters agree on passes by here: so it shows that something moves."""
        is_between = {bulletin.cluster, bulletin.toward} == {self._head, self._sessions.partner}
        match bulletin.payload:
            case Moving() if passes and is_between:
                self._sessions.active(now_ns=now_ns)
            case Finished(_, moved) if passes and is_between and moved:
                self._sessions.active(now_ns=now_ns)

    def _told(self, bulletin: Bulletin, now_ns: Nanoseconds) -> list[Inner]:
        sender, sessions = bulletin.sender, self._sessions
        match bulletin.payload:
            case LocalPie() as pie:
                self._edges.take(sender, bulletin.cluster, pie, now_ns=now_ns)
                self._take_stock(now_ns)
                return sessions.told(self._edges.entries(now_ns=now_ns), now_ns=now_ns)
            case Gone(edge):
                self._edges.forget(edge)
                sessions.edge_gone(edge)
            case GlobalPie() as cluster:
                if self._clusters.take(sender, bulletin.cluster, cluster, now_ns=now_ns):
                    self._pace.wake(now_ns)
            case Help(action):
                return [Note("an edge calls for help", {"edge": sender, "action": action}), *self._called(now_ns)]
            case ClusterAsk() as ask:
                return sessions.asked(sender, ask, now_ns=now_ns)
            case ClusterReply() as reply:
                return sessions.replied(sender, reply, now_ns=now_ns)
            case ClusterFinished() as finished:
                return sessions.told_finished(sender, finished, now_ns=now_ns)
        return []

    def _called(self, now_ns: Nanoseconds) -> list[Inner]:
        """An edge finds nobody here: look further at once, and if a session does not help, elsewhere (D8)."""
        if self._sessions.partner is None:
            return self._look(now_ns)
        inner, without = self._sessions.called(now_ns=now_ns)
        return inner if without is None else [*inner, *self._look(now_ns, without=without)]

    def _take_stock(self, now_ns: Nanoseconds) -> None:
        ours = self._ours(now_ns)
        self._state.edges(is_one_overloaded=any(entry.pie.condition == "N/A" for entry in ours))

    def _ours(self, now_ns: Nanoseconds) -> list[Entry[LocalPie]]:
        return [entry for entry in self._edges.entries(now_ns=now_ns) if entry.cluster == self._head]

    def _indices(self, now_ns: Nanoseconds) -> Indices | None:
        return mean(entry.pie.indices for entry in self._ours(now_ns))

    def give_up(self, reason: str, *, now_ns: Nanoseconds) -> list[Answer]:
        """This broker no longer balances: it leaves, or its role is another."""
        return self._done(self._sessions.give_up(reason, now_ns=now_ns))

    # -- time ----------------------------------------------------------------------------------------------------------

    def tick(self, now_ns: Nanoseconds) -> list[Answer]:
        """What is due: ends of patience, a look around, something to tell."""
        answers = self._done(self._sessions.tick(now_ns))
        if now_ns >= self._pace.next_ns:
            answers += self._done(self._look(now_ns))
            if self._watched is not None:
                answers += self._say(LB_CONTROL, Watch(self._watched))
        indices = self._indices(now_ns)
        if self._telling.is_due(now_ns) and indices is not None:
            pie = GlobalPie(self.condition, indices)
            if self._telling.is_news(pie, is_watching=False, now_ns=now_ns):
                self._telling.tell(pie, now_ns=now_ns)
                answers += self._say(GLOBAL_PIE, pie)
        return answers

    def _look(self, now_ns: Nanoseconds, *, without: BrokerId | None = None, is_asked: bool = False) -> list[Inner]:
        self._pace.rest(now_ns)
        if not is_asked and not self._config.automatic:
            return []
        return self._sessions.propose(self.preview(now_ns, without=without).candidates, now_ns=now_ns)

    def look_now(self, now_ns: Nanoseconds) -> list[Answer]:
        """An operator wants it to look, and to do what follows, also if it does nothing by itself."""
        return self._done(self._look(now_ns, is_asked=True))

    def preview(self, now_ns: Nanoseconds, *, without: BrokerId | None = None) -> Finding:
        """What a look around shows now, and whom it would ask. It does nothing."""
        indices = self._indices(now_ns)
        if indices is None:
            return Finding("balanced")
        entries = self._clusters.entries(now_ns=now_ns)
        return look_around(indices, self.condition, entries, without=without, config=self._config)

    # -- from inner answers to outer ones ------------------------------------------------------------------------------

    def _done(self, inner: Iterable[Inner]) -> list[Answer]:
        answers: list[Answer] = []
        for one in inner:
            match one:
                case Say(to, cluster, payload):
                    answers += self._say(LB_CONTROL, payload, to=to, toward=cluster)
                case Note():
                    answers.append(one)
                case _:
                    raise AssertionError(one)
        return answers + self._settle()

    def _settle(self) -> list[Answer]:
        """The edges are told when their cluster begins or ends to balance with another one."""
        if self._watched == self._sessions.partner:
            return []
        self._watched = self._sessions.partner
        self._edges.forget_all_but(self._head)
        return list(self._say(LB_CONTROL, Watch(self._watched)))

    def _say(
        self,
        traffic_class: ControlClass,
        payload: Payload,
        *,
        to: BrokerId | None = None,
        toward: BrokerId | None = None,
    ) -> list[Pass]:
        self._number += 1
        bulletin = Bulletin(
            traffic_class=traffic_class,
            sender=self._head,
            life=self._life,
            number=self._number,
            cluster=self._head,
            toward=toward,
            to=to,
            payload=payload,
        )
        return self._ways.own(bulletin, partner=self._sessions.partner)
