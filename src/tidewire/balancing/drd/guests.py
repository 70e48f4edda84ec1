"""Clients of other clusters that are to come: who of ours is kept for them, and until when? (epeer §2.9)"""

from __future__ import annotations

from collections.abc import Sequence

from tidewire.balancing.drd.answers import Answer, Say
from tidewire.balancing.drd.cluster import Cluster
from tidewire.balancing.drd.giving import keys_of
from tidewire.balancing.drd.policies import Policy
from tidewire.model.balance_fields import SessionId
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.offload_messages import Busy, CapacityReport, ClassMove, Offer, OffloadDone


class Guests:
    """A head's sessions in which it is another cluster that gives."""

    def __init__(self, head: BrokerId, cluster: Cluster, policy: Policy) -> None:
        self._head = head
        self._cluster = cluster
        self._policy = policy
        self._sessions: dict[SessionId, list[BrokerId]] = {}
        """Who of ours is kept for each."""

    def are_expected(self, now_ns: Nanoseconds) -> bool:
        """Is somebody kept for a session of others?"""
        return any(self._cluster.is_kept(one, now_ns) for ones in self._sessions.values() for one in ones)

    def report(self, asker: BrokerId, session: SessionId, offers: Sequence[Offer], now_ns: Nanoseconds) -> list[Answer]:
        """This we can take; it is kept for the asker for as long as it may take to choose."""
        until_ns = now_ns + int(3 * self._policy.config.reply_s * 1e9)
        self._sessions[session] = [BrokerId(offer.broker) for offer in offers]
        for offer in offers:
            self._cluster.keep(BrokerId(offer.broker), until_ns=until_ns)
        return [Say(asker, asker, CapacityReport(session, list(offers)))]

    def come(
        self, asker: BrokerId, session: SessionId, moves: Sequence[ClassMove], now_ns: Nanoseconds
    ) -> list[Answer]:
        """They are on their way: those of ours who take them over are BUSY, the others are free again."""
        if session.asker != asker:
            return []
        for broker in self._sessions.pop(session, []):
            self._cluster.let_go(broker)
        config = self._policy.config
        until_ns = now_ns + int((config.migration_s + 2 * config.reply_s) * 1e9)
        ours = [move for move in moves if move.to == self._head or move.to in self._cluster.addresses]
        taking = self._sessions[session] = list(dict.fromkeys(BrokerId(move.to) for move in ours))
        for broker in taking:
            self._cluster.keep(broker, until_ns=until_ns)
        for move in ours:
            if move.to != self._head:
                self._policy.distribution.moved(keys_of(move), BrokerId(move.to), now_ns=now_ns)
        return [Say(broker, self._head, Busy(session)) for broker in taking if broker != self._head]

    def came(self, done: OffloadDone) -> list[Answer]:
        """It is over."""
        kept = self._sessions.pop(done.session, [])
        for broker in kept:
            self._cluster.let_go(broker)
        return [Say(broker, self._head, done) for broker in kept if broker != self._head]

    def tick(self, now_ns: Nanoseconds) -> None:
        """Sessions of which nobody is kept any more are forgotten."""
        self._sessions = {
            session: kept
            for session, kept in self._sessions.items()
            if any(self._cluster.is_kept(broker, now_ns) for broker in kept)
        }
