"""How do two clusters agree to balance with each other? Sessions between heads (peer §6.3, D8).

While a session lasts, the edges of both clusters hear of each other and balance as those of one cluster do. It ends
when all are even, when the cluster's own edges call for help too often, or when for long nothing has moved between the
two: balanced sets may never fill, and a head may be gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewire.balancing.answers import Inner, Say
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.detectors import Candidate
from tidewire.balancing.pie import Entry
from tidewire.balancing.states import ClusterState
from tidewire.model.balance_messages import ClusterAsk, ClusterFinished, ClusterReply, LocalPie, SessionId
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.notes import Note


class _Asking(msgspec.Struct, frozen=True):
    """A request that waits for its reply, and whom to ask next."""

    session: SessionId
    head: BrokerId
    further: list[Candidate]
    until_ns: int


class _Session(msgspec.Struct):
    """Two clusters that balance with each other."""

    session: SessionId
    partner: BrokerId
    edges: dict[BrokerId, None]
    """The partner's."""

    began_ns: int
    idle_until_ns: int
    calls: int = 0
    """For help, by our own edges."""


class ClusterSessions:
    """One head's: at most one at a time."""

    def __init__(self, head: BrokerId, config: BalancingConfig, state: ClusterState, *, life: int) -> None:
        self._head = head
        self._config = config
        self._state = state
        self._life = life
        self._number = 0
        self._asking: _Asking | None = None
        self._session: _Session | None = None
        self.edges: dict[BrokerId, None] = {}
        """Our own."""

    @property
    def is_asking(self) -> bool:
        """Is a request out?"""
        return self._asking is not None

    @property
    def partner(self) -> BrokerId | None:
        """The cluster that ours balances with."""
        return None if self._session is None else self._session.partner

    def next_deadline_ns(self) -> int | None:
        """When the patience with somebody ends."""
        times = [] if self._asking is None else [self._asking.until_ns]
        return min([*times, *([] if self._session is None else [self._session.idle_until_ns])], default=None)

    # -- asking --------------------------------------------------------------------------------------------------------

    def propose(self, candidates: Sequence[Candidate], *, now_ns: Nanoseconds) -> list[Inner]:
        """Ask these clusters, in order."""
        if self._asking is not None or self._session is not None:
            return []
        return self._ask(list(candidates), now_ns)

    def _ask(self, candidates: list[Candidate], now_ns: Nanoseconds) -> list[Inner]:
        self._asking = None
        if not candidates:
            return []
        first, *further = candidates
        self._number += 1
        session = SessionId(self._head, self._life, self._number)
        until_ns = now_ns + int(self._config.reply_s * 1e9)
        self._asking = _Asking(session, first.broker, further, until_ns)
        note = Note(
            "asks another cluster",
            {"cluster": first.broker, "action": first.action, "difference": round(first.difference, 4)},
        )
        return [Say(first.broker, first.cluster, ClusterAsk(session, sorted(self.edges))), note]

    def replied(self, sender: BrokerId, reply: ClusterReply, *, now_ns: Nanoseconds) -> list[Inner]:
        """An answer has come."""
        asking = self._asking
        if asking is None or (asking.session, asking.head) != (reply.session, sender):
            is_known = self._session is not None and self._session.session == reply.session
            if reply.edges is None or reply.session.asker != self._head or is_known:
                return []
            return [Say(sender, sender, ClusterFinished(reply.session, "your answer came too late"))]
        if reply.edges is None:
            declined = Note("another cluster declined", {"cluster": sender, "condition": reply.condition})
            return [declined, *self._ask(asking.further, now_ns)]
        self._asking = None
        self._state.go("agreed")
        return self._begin(reply.session, sender, reply.edges, now_ns)

    def asked(self, sender: BrokerId, ask: ClusterAsk, *, now_ns: Nanoseconds) -> list[Inner]:
        """Another cluster wants to balance with ours. A cluster without edges has nothing to offer."""
        asking = self._asking
        if asking is not None and asking.head == sender and self._head < sender:
            self._asking = None  # both have asked: the one with the smaller name gives way (S2)
        else:
            asking = None
        if self._asking is not None:
            return [Say(sender, sender, ClusterReply(ask.session, "BUSY"))]
        if self._state.condition != "OK" or not self.edges:
            condition = self._state.condition if self.edges else "N/A"
            declined: list[Inner] = [Say(sender, sender, ClusterReply(ask.session, condition))]
            return declined if asking is None else [*declined, *self._ask(asking.further, now_ns)]
        self._state.go("accepts")
        agreed = Say(sender, sender, ClusterReply(ask.session, "OK", sorted(self.edges)))
        return [agreed, *self._begin(ask.session, sender, ask.edges, now_ns)]

    def _begin(
        self, session: SessionId, partner: BrokerId, edges: Sequence[BrokerId], now_ns: Nanoseconds
    ) -> list[Inner]:
        self._session = _Session(session, partner, dict.fromkeys(edges), now_ns, now_ns + self._idle_ns())
        return [Note("clusters balance", {"with": partner})]

    def _idle_ns(self) -> int:
        return int(self._config.global_idle_periods * self._config.global_detect_s_max * 1e9)

    # -- while it lasts ------------------------------------------------------------------------------------------------

    def active(self, *, now_ns: Nanoseconds) -> None:
        """Clients move between the two clusters."""
        if self._session is not None:
            self._session.idle_until_ns = now_ns + self._idle_ns()

    def told(self, edges: Sequence[Entry[LocalPie]], *, now_ns: Nanoseconds) -> list[Inner]:
        """What the edges of both clusters have said: is everybody even with everybody?"""
        session = self._session
        if session is None:
            return []
        fresh = {entry.broker: entry.pie for entry in edges if entry.heard_ns >= session.began_ns}
        session.edges.update({entry.broker: None for entry in edges if entry.cluster == session.partner})
        everybody = [*self.edges, *session.edges]
        is_even = all(one in fresh and set(everybody) <= set(fresh[one].balanced) for one in everybody)
        return self._end("all are even", now_ns) if is_even else []

    def called(self, *, now_ns: Nanoseconds) -> tuple[list[Inner], BrokerId | None]:
        """One of our edges calls for help, and we are in a session: too often, and another cluster is tried (D8).

        The cluster that was given up is returned: it is left out that one time.
        """
        session = self._session
        if session is None:
            return [], None
        session.calls += 1
        if session.calls < self._config.global_requests_max:
            return [], None
        return self._end("our edges still need help", now_ns), session.partner

    def edge_gone(self, edge: BrokerId) -> None:
        """It is no longer counted."""
        if self._session is not None:
            self._session.edges.pop(edge, None)

    # -- the end -------------------------------------------------------------------------------------------------------

    def told_finished(self, sender: BrokerId, finished: ClusterFinished, *, now_ns: Nanoseconds) -> list[Inner]:
        """The other head says that it is over."""
        session = self._session
        if session is None or (session.session, session.partner) != (finished.session, sender):
            return []
        return self._end(finished.reason or "given up", now_ns, is_told=False)

    def gone(self, head: BrokerId, *, now_ns: Nanoseconds) -> list[Inner]:
        """Another head is no longer there."""
        if self._session is not None and self._session.partner == head:
            return self._end(f"{head} is gone", now_ns, is_told=False)
        if self._asking is not None and self._asking.head == head:
            return self._ask(self._asking.further, now_ns)
        return []

    def give_up(self, reason: str, *, now_ns: Nanoseconds) -> list[Inner]:
        """End all that is going on."""
        self._asking = None
        return [] if self._session is None else self._end(reason, now_ns)

    def _end(self, reason: str, now_ns: Nanoseconds, *, is_told: bool = True) -> list[Inner]:
        session = self._session
        assert session is not None
        self._session = None
        self._state.end()
        lasted_s = round((now_ns - session.began_ns) / 1e9, 1)
        note = Note("clusters no longer balance", {"with": session.partner, "why": reason, "seconds": lasted_s})
        if not is_told:
            return [note]
        return [Say(session.partner, session.partner, ClusterFinished(session.session, reason[:200])), note]

    def tick(self, now_ns: Nanoseconds) -> list[Inner]:
        """Whose time is up?"""
        if self._asking is not None and now_ns >= self._asking.until_ns:
            silent = Note("another cluster declined", {"cluster": self._asking.head, "condition": "no answer"})
            return [silent, *self._ask(self._asking.further, now_ns)]
        if self._session is not None and now_ns >= self._session.idle_until_ns:
            return self._end("nothing has moved between the two for long", now_ns)
        return []
