"""A head's agent: it knows how all are, says who may give to whom, keeps those out of other sessions, and counts.

A session (epeer §2.9, §2.12) is one donor's: locate, select, migrate. First within the cluster; if that does not do,
between clusters; if that does not either, there is not enough of everything. While one donor chooses, no other one
does: what is offered to it is still there when it has chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Literal

import msgspec

from tidewire.balancing.drd.answers import Answer, NothingFound, Say, SessionEnded, Tell, WantProfile
from tidewire.balancing.drd.bundles import Bundle
from tidewire.balancing.drd.cluster import STATUS_PERIODS, Cluster
from tidewire.balancing.drd.giving import Giving, keys_of, moves_of
from tidewire.balancing.drd.guests import Guests
from tidewire.balancing.drd.loads import Load, Smoothing, available, required, state_of, worst
from tidewire.balancing.drd.policies import Policy
from tidewire.model.balance_fields import SessionId
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.notes import Note
from tidewire.model.offload_messages import (
    Busy,
    Candidates,
    CapacityReport,
    CapacityRequest,
    ClassMove,
    ClusterStatus,
    InterClusterRequest,
    LoadState,
    LoadUpdate,
    Metric,
    MoveNow,
    Offer,
    OffloadDone,
    OffloadList,
    OffloadPayload,
    Side,
)
from tidewire.model.traffic import ClassKey

Stage = Literal["selecting", "asking clusters", "selecting beyond", "migrating"]


class _Session(msgspec.Struct):
    """One donor's, an edge or we ourselves."""

    session: SessionId
    donor: BrokerId
    stage: Stage
    until_ns: int
    metric: Metric
    needed: float = 0.0
    waits_for: dict[BrokerId, None] = {}
    """Heads that have not said yet what they can take."""
    offers: list[Offer] = []
    taking: dict[BrokerId, BrokerId] = {}
    """Who takes clients over, and in which cluster."""


class HeadAgent:
    """One head, and the cluster that has its name."""

    def __init__(self, head: BrokerId, policy: Policy, *, address: str, life: int, is_automatic: bool = True) -> None:
        """``address``: where clients reach it. ``is_automatic``: does it look by itself, or only when it is asked?"""
        self._head = head
        self._address = address
        self._is_automatic = is_automatic
        self._life = life
        self._policy = policy
        self._config = policy.config
        self.cluster = Cluster(head, policy.config)
        self._smoothing = Smoothing(policy.config.weights)
        self._load: Load | None = None
        self._giving = Giving(policy.planner, side="publishers")
        self._skip_until_ns = 0
        self._sessions: dict[SessionId, _Session] = {}
        self._guests = Guests(head, self.cluster, policy)
        self._number = 0
        self._told: ClusterStatus | None = None
        self._told_periods = 0

    @property
    def load(self) -> Load | None:
        """The head's own, smoothed."""
        return self._load

    @property
    def state(self) -> LoadState:
        """The head's own."""
        if self._giving.session is not None:
            return "BUSY"
        if self._load is None:
            return "LOW"
        return state_of(self._load.highest, low=self._config.low, high=self._config.high)

    def cluster_state(self, now_ns: Nanoseconds) -> LoadState:
        """Of its edges together; BUSY while they take clients over from another cluster."""
        return "BUSY" if self._guests.are_expected(now_ns) else self.cluster.state(now_ns)

    def sessions(self) -> list[tuple[SessionId, BrokerId, Stage, list[BrokerId]]]:
        """Those under way: whose, how far, and who takes clients over."""
        return [(one.session, one.donor, one.stage, list(one.taking)) for one in self._sessions.values()]

    @property
    def session(self) -> SessionId | None:
        """The one in which it gives publishers away itself."""
        return self._giving.session

    @property
    def partners(self) -> list[BrokerId]:
        """Who takes its publishers over."""
        return self._giving.acceptors

    @property
    def is_donor(self) -> bool:
        """Does it give publishers away?"""
        return self._giving.session is not None

    @property
    def on_their_way(self) -> list[int]:
        """Publishers that have been sent away, and are not there yet."""
        return self._giving.on_their_way

    def deadline_ns(self) -> int | None:
        """When to call ``tick``, if nothing else happens."""
        return min((one.until_ns for one in self._sessions.values()), default=None)

    # -- neighbours, load, newcomers -----------------------------------------------------------------------------------

    def connected(
        self, edges: Mapping[BrokerId, str], heads: Iterable[BrokerId], *, now_ns: Nanoseconds
    ) -> list[Answer]:
        """These are our edges, with their addresses, and the heads next to us now."""
        answers: list[Answer] = []
        for gone in self.cluster.connected(edges, heads, now_ns):
            for one in [one for one in self._sessions.values() if one.donor == gone]:
                answers += self._end(one, OffloadDone(one.session, why=f"{gone} is gone"))
        for one in self._sessions.values():
            one.waits_for = {head: None for head in one.waits_for if head in self.cluster.heads}
        for one in [one for one in self._sessions.values() if one.stage == "asking clusters" and not one.waits_for]:
            answers += self._select_beyond(one, now_ns)
        return answers

    def place(
        self, classes: Sequence[ClassKey], distances: Mapping[BrokerId, float], *, now_ns: Nanoseconds
    ) -> BrokerId | None:
        """Which edge does a newcomer get that wants these classes? None: there is no edge."""
        return self._policy.distribution.choose(classes, self.cluster.choices(distances, now_ns), now_ns=now_ns)

    def measured(self, load: Load, *, since_ns: Nanoseconds, now_ns: Nanoseconds) -> list[Answer]:
        """What the head itself had to do. Heads tell each other how their clusters are, and relieve themselves."""
        answers: list[Answer] = []
        if since_ns >= self._skip_until_ns and load.is_sound():
            self._load = self._smoothing.add(load)
            if self._policy.looks_further and self._is_automatic:
                answers += self._relieve_ourselves(self._load, now_ns)
        return [*answers, *self._tell(now_ns)]

    def _relieve_ourselves(self, load: Load, now_ns: Nanoseconds) -> list[Answer]:
        needed = required(load, self._config)
        if not needed or self.state == "BUSY" or self._is_choosing:
            return []
        metric = worst(load)
        session = self._new(self._head, metric, now_ns)
        session.needed = needed[metric]
        return self._look_beyond(session, now_ns)

    def _tell(self, now_ns: Nanoseconds) -> list[Answer]:
        if not self.cluster.heads:
            return []
        own = inf if self._load is None else available(self._load, self._config)
        status = ClusterStatus(self.cluster_state(now_ns), own, self.cluster.edges_available(now_ns))
        self._told_periods += 1
        if self._told is not None and self._told.state == status.state and self._told_periods < STATUS_PERIODS:
            return []
        self._told, self._told_periods = status, 0
        return [Tell(status)]

    # -- what others say -----------------------------------------------------------------------------------------------

    def heard(self, payload: OffloadPayload, sender: BrokerId, *, now_ns: Nanoseconds) -> list[Answer]:
        """An edge of ours, or another head, has said something."""
        match payload:
            case LoadUpdate() as update:
                self.cluster.edge_said(sender, update, now_ns)
                return self._look(sender, now_ns) if self._is_automatic else []
            case ClusterStatus() as status:
                self.cluster.cluster_said(sender, status, now_ns)
            case CapacityRequest(session, side):
                return self._guests.report(sender, session, self._offers(side, now_ns), now_ns)
            case OffloadList(session, moves) if session.asker != self._head:
                return self._guests.come(sender, session, moves, now_ns)
            case OffloadDone(session) if session.asker != self._head:
                self._smoothing.begin_anew()
                return self._guests.came(payload)
            case OffloadList() | InterClusterRequest() | CapacityReport() | OffloadDone():
                known = self._sessions.get(payload.session)
                return [] if known is None else self._answered(known, sender, payload, now_ns)
        return []

    def _answered(
        self,
        session: _Session,
        sender: BrokerId,
        payload: OffloadList | InterClusterRequest | CapacityReport | OffloadDone,
        now_ns: Nanoseconds,
    ) -> list[Answer]:
        match payload:
            case CapacityReport(_, offers):
                if session.stage == "asking clusters" and session.waits_for.pop(sender, 0) is None:
                    session.offers += offers
                    return [] if session.waits_for else self._select_beyond(session, now_ns)
            case _ if sender != session.donor:
                return []
            case OffloadList(_, moves):
                if session.stage in ("selecting", "selecting beyond"):
                    return self._migrate(session, moves, now_ns)
            case InterClusterRequest(_, metric, needed):
                session.metric, session.needed = metric, needed
                if session.stage == "selecting" and self._policy.looks_further:
                    return self._look_beyond(session, now_ns)
                return self._found_nothing(session)
            case OffloadDone() as done:
                return self._end(session, done)
        return []

    def _offers(self, side: Side, now_ns: Nanoseconds) -> list[Offer]:
        """What we can take of another cluster."""
        if side == "subscribers":
            return self.cluster.offers(self.cluster.low_edges(now_ns))
        if self._load is None or self.state != "LOW" or self.cluster.is_kept(self._head, now_ns):
            return []
        return [Offer(self._head, self._head, self._address, self._load.used, self._load.capacity, [])]

    # -- locate --------------------------------------------------------------------------------------------------------

    @property
    def _is_choosing(self) -> bool:
        return any(one.stage != "migrating" for one in self._sessions.values())

    def look_now(self, now_ns: Nanoseconds) -> list[Answer]:
        """An operator wants it to look, and to do what follows, also if it does nothing by itself."""
        answers = self._look(None, now_ns)
        if not answers and self._load is not None and self._policy.looks_further:
            answers = self._relieve_ourselves(self._load, now_ns)
        return answers

    def _look(self, edge: BrokerId | None, now_ns: Nanoseconds) -> list[Answer]:
        """Is this edge (None: one of them) to give, and can somebody take?

        Once all have been heard: who is silent might be the one.
        """
        if self._is_choosing or not self.cluster.is_complete(now_ns):
            return []
        edges = self.cluster.edges(now_ns)
        for donor, takers in self._policy.pairs(edges):
            if edge is not None and donor != edge:
                continue
            session = self._new(donor, worst(edges[donor][1]), now_ns)
            if takers:
                for one in takers:
                    self.cluster.keep(one, until_ns=session.until_ns)
                session.offers = self.cluster.offers(takers)
                return [Say(donor, self._head, Candidates(session.session, False, session.offers))]
            session.needed = required(edges[donor][1], self._config).get(session.metric, 0.0)
            return self._look_beyond(session, now_ns)
        return []

    def _new(self, donor: BrokerId, metric: Metric, now_ns: Nanoseconds) -> _Session:
        self._number += 1
        session = _Session(
            session=SessionId(self._head, self._life, self._number),
            donor=donor,
            stage="selecting",
            until_ns=now_ns + int(self._config.reply_s * 1e9),
            metric=metric,
        )
        self._sessions[session.session] = session
        return session

    def _look_beyond(self, session: _Session, now_ns: Nanoseconds) -> list[Answer]:
        """Ask the clusters next to us what they can take."""
        self._let_go(session)
        heads = self.cluster.low_clusters(now_ns) if self._policy.looks_further else []
        if not heads:
            return self._found_nothing(session)
        session.stage, session.offers = "asking clusters", []
        session.waits_for = dict.fromkeys(heads)
        session.until_ns = now_ns + int(self._config.reply_s * 1e9)
        side: Side = "publishers" if session.donor == self._head else "subscribers"
        return [Say(head, head, CapacityRequest(session.session, side)) for head in heads]

    def _select_beyond(self, session: _Session, now_ns: Nanoseconds) -> list[Answer]:
        """All have said what they can take, or patience is at its end."""
        if not session.offers:
            return self._found_nothing(session)
        session.stage, session.waits_for = "selecting beyond", {}
        session.until_ns = now_ns + int(self._config.reply_s * 1e9)
        if session.donor != self._head:
            return [Say(session.donor, self._head, Candidates(session.session, True, session.offers))]
        self._giving.begin(session.session, session.offers)
        return [WantProfile(session.session)]

    def profiled(self, session: SessionId, bundles: Sequence[Bundle], *, now_ns: Nanoseconds) -> list[Answer]:
        """The publishers that are here: choose which go, if that helps enough."""
        known = self._sessions.get(session)
        if known is None or session != self._giving.session or self._load is None:
            return []
        plan, noted = self._giving.choose(bundles, self._load, scope="publishers", now_ns=now_ns)
        if not plan.moves or not (plan.is_enough or self._config.partial_intra):
            self._giving.end()
            known.metric, known.needed = plan.metric, max([0.0, *plan.needed.values()])
            return [*noted, *self._found_nothing(known)]
        return [*noted, *self._migrate(known, moves_of(plan), now_ns)]

    def _found_nothing(self, session: _Session) -> list[Answer]:
        """Neither here nor elsewhere: less traffic is all that is left."""
        del self._sessions[session.session]
        self._let_go(session)
        if not self._policy.looks_further:
            return []
        facts: dict[str, str | int | float] = {"broker": session.donor, "metric": session.metric}
        note = Note("nobody can take what is too much", {**facts, "needed": round(session.needed, 1)})
        return [note, NothingFound(session.donor, session.metric, session.needed)]

    def _let_go(self, session: _Session) -> None:
        for offer in session.offers:
            self.cluster.let_go(BrokerId(offer.broker))
        self.cluster.let_go(session.donor)

    # -- migrate -------------------------------------------------------------------------------------------------------

    def _migrate(self, session: _Session, moves: Sequence[ClassMove], now_ns: Nanoseconds) -> list[Answer]:
        """All who take part are kept out of other sessions, and know it; then the donor sends its clients."""
        self._let_go(session)
        session.stage = "migrating"
        session.until_ns = now_ns + int((self._config.migration_s + self._config.reply_s) * 1e9)
        clusters = {offer.broker: BrokerId(offer.cluster) for offer in session.offers}
        taken = [move for move in moves if move.to in clusters]
        session.taking = {BrokerId(move.to): clusters[move.to] for move in taken}
        session.offers = [offer for offer in session.offers if offer.broker in session.taking]
        for move in taken:
            self._policy.distribution.moved(keys_of(move), BrokerId(move.to), now_ns=now_ns)
        answers: list[Answer] = []
        for broker in (session.donor, *session.taking):
            self.cluster.keep(broker, until_ns=session.until_ns)
        for broker, cluster in session.taking.items():
            if cluster == self._head:
                answers.append(Say(broker, cluster, Busy(session.session)))
        for cluster in dict.fromkeys(session.taking.values()):
            if cluster != self._head:
                theirs = [move for move in taken if clusters[move.to] == cluster]
                answers.append(Say(cluster, cluster, OffloadList(session.session, theirs)))
        facts: dict[str, str | int | float] = {
            "donor": session.donor,
            "to": ", ".join(session.taking),
            "metric": session.metric,
            "bundles": len(taken),
            "clients": sum(move.clients for move in taken),
        }
        answers.append(Note("clients are to move", facts))
        if session.donor != self._head:
            return [*answers, Say(session.donor, self._head, MoveNow(session.session))]
        moving = self._giving.go()
        return [*answers, *(moving or self._gave(self._giving.end(), now_ns))]

    def moved(self, client: int, *, is_moved: bool, now_ns: Nanoseconds) -> list[Answer]:
        """A publisher that was sent away has gone, or stays."""
        return self._gave(self._giving.moved(client, is_moved=is_moved), now_ns)

    def _gave(self, ended: SessionEnded | None, now_ns: Nanoseconds) -> list[Answer]:
        if ended is None:
            return []
        self._smoothing.begin_anew()
        self._skip_until_ns = now_ns
        session = self._sessions.get(ended.session)
        done = OffloadDone(ended.session, ended.moved, ended.stayed, "", list(ended.arrived.items()))
        return [ended, *([] if session is None else self._end(session, done))]

    def _end(self, session: _Session, done: OffloadDone) -> list[Answer]:
        """All who took part are told, and are free again. ``why``: it did not end by itself."""
        self._sessions.pop(session.session, None)
        self._let_go(session)
        if session.stage != "migrating":
            return [Note("a session ended early", {"donor": session.donor, "why": done.why})]
        for broker in session.taking:
            self.cluster.let_go(broker)
        clusters = dict.fromkeys(session.taking.values())
        ours = [broker for broker, cluster in session.taking.items() if cluster == self._head and broker != self._head]
        answers: list[Answer] = [Say(broker, self._head, done) for broker in ours]
        answers += [Say(cluster, cluster, done) for cluster in clusters if cluster != self._head]
        if done.why and session.donor != self._head:
            answers.append(Say(session.donor, self._head, done))
        facts: dict[str, str | int | float] = {
            "donor": session.donor,
            "moved": done.moved,
            "stayed": done.stayed,
        }
        return [*answers, Note("a session is over", facts | ({"why": done.why} if done.why else {}))]

    # -- time ----------------------------------------------------------------------------------------------------------

    def tick(self, now_ns: Nanoseconds) -> list[Answer]:
        """Nobody is waited for longer than was said."""
        answers: list[Answer] = []
        for one in [one for one in self._sessions.values() if now_ns >= one.until_ns]:
            if one.stage == "asking clusters":
                answers += self._select_beyond(one, now_ns)
                continue
            if one.donor == self._head:
                self._giving.end()
            answers += self._end(one, OffloadDone(one.session, why="it took too long"))
        self._guests.tick(now_ns)
        return answers

    def give_up(self, reason: str) -> list[Answer]:
        """This broker is no head any more."""
        self._giving.end()
        return [
            answer
            for one in list(self._sessions.values())
            for answer in self._end(one, OffloadDone(one.session, why=reason))
        ]
