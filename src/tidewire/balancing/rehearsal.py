"""What would a session do? An edge goes through one without having it: it asks, samples and plans, and nobody moves.

Nothing follows from it: neither side is BUSY meanwhile, and a real session that begins ends it.
"""

from __future__ import annotations

import msgspec

from tidewire.balancing.answers import BeginSampling, EndSampling, Inner, Rehearsed, Say
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.detectors import Candidate
from tidewire.balancing.plans import Plan
from tidewire.model.balance_messages import Action, Ask, Reply, SessionId
from tidewire.model.ids import BrokerId, Nanoseconds


class _Under(msgspec.Struct):
    """The one that is under way."""

    session: SessionId
    candidate: Candidate
    further: list[Candidate]
    overload: Action | None
    until_ns: int
    is_sampling: bool = False


class Rehearsals:
    """One edge's: at most one at a time."""

    def __init__(self, config: BalancingConfig) -> None:
        self._config = config
        self._under: _Under | None = None
        self._declined: dict[BrokerId, str] = {}

    @property
    def is_under_way(self) -> bool:
        """Is there one?"""
        return self._under is not None

    def is_about(self, session: SessionId) -> bool:
        """Is this the one that is under way?"""
        return self._under is not None and self._under.session == session

    def give_way(self) -> list[Inner]:
        """A real session begins: that goes first."""
        return self.end("a session has begun") if self._under is not None else []

    def next_deadline_ns(self) -> int | None:
        """When the patience with it ends."""
        return None if self._under is None else self._under.until_ns

    def begin(
        self, session: SessionId, candidates: list[Candidate], *, overload: Action | None, now_ns: Nanoseconds
    ) -> list[Inner]:
        """Ask the first of these, as if it were meant."""
        assert self._under is None
        self._declined = {}
        return self._ask(session, candidates, overload, now_ns)

    def _ask(
        self, session: SessionId, candidates: list[Candidate], overload: Action | None, now_ns: Nanoseconds
    ) -> list[Inner]:
        if not candidates:
            return self.end("nobody takes anything over")
        first, *further = candidates
        until_ns = now_ns + int(self._config.reply_s * 1e9)
        self._under = _Under(session, first, further, overload, until_ns)
        return [Say(first.broker, first.cluster, Ask(session, first.action, is_rehearsal=True))]

    def replied(self, sender: BrokerId, reply: Reply, *, now_ns: Nanoseconds) -> list[Inner] | None:
        """An answer has come; None: it is not about this."""
        under = self._under
        if under is None or under.session != reply.session or under.is_sampling:
            return None
        if under.candidate.broker != sender:
            return []
        if reply.report is None:
            return self._go_on(under, reply.condition, now_ns)
        under.is_sampling = True
        until_ns = Nanoseconds(now_ns + int(self._config.press_s * 1e9))
        under.until_ns = until_ns + int(self._config.done_s * 1e9)
        sampling = BeginSampling(
            session=under.session,
            acceptor=sender,
            action=under.candidate.action,
            is_overloaded=under.overload is not None,
            report=reply.report,
            until_ns=until_ns,
        )
        return [sampling]

    def _go_on(self, under: _Under, condition: str, now_ns: Nanoseconds) -> list[Inner]:
        """The next one; who has declined is not asked again for another action either."""
        declined = under.candidate.broker
        self._declined[declined] = condition
        further = [one for one in under.further if one.broker != declined]
        return self._ask(under.session, further, under.overload, now_ns)

    def planned(self, session: SessionId, plan: Plan) -> list[Inner] | None:
        """It has been decided who would move; None: it is not about this."""
        under = self._under
        if under is None or under.session != session:
            return None
        self._under = None
        return [Rehearsed(plan.reason, dict(self._declined), under.candidate, plan)]

    def end(self, why: str) -> list[Inner]:
        """There is nothing more to learn."""
        under, self._under = self._under, None
        dropped: list[Inner] = [EndSampling(under.session)] if under is not None and under.is_sampling else []
        return [*dropped, Rehearsed(why, dict(self._declined), None if under is None else under.candidate, None)]

    def tick(self, now_ns: Nanoseconds) -> list[Inner]:
        """Is its time up?"""
        under = self._under
        if under is None or now_ns < under.until_ns:
            return []
        return self.end("it took too long") if under.is_sampling else self._go_on(under, "no answer", now_ns)
