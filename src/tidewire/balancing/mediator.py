"""How do two edges agree that clients move from one to the other? The sessions of peer §6.2, both sides.

The donor asks one candidate after the other; the first that says yes is the acceptor, and both are BUSY. The donor then
samples, plans and moves; it hears of each client whether it went, since the client carries its own migration
(docs/decisions/0008-moving-clients.md), and so it is the donor that says when the session is over. Whatever is lost on
the way, every step has a lease: nobody stays BUSY.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tidewire.balancing.answers import BeginSampling, CallForHelp, EndSampling, Inner, MoveClients, Say
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.detectors import Candidate
from tidewire.balancing.estimates import LoadInfo
from tidewire.balancing.indices import Reading
from tidewire.balancing.plans import Plan, Predicted
from tidewire.balancing.record import Outcome, Record
from tidewire.balancing.states import EdgeState
from tidewire.model.balance_messages import Action, Ask, Finished, Indices, LoadReport, Moving, Reply, SessionId
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.notes import Note


class Ourselves(msgspec.Struct, frozen=True, kw_only=True):
    """The broker that balances."""

    broker: BrokerId
    life: int
    """It only grows from one life to the next."""

    address: str
    """Where clients reach it."""

    migration_timeout_s: float
    """How long one client may take to move."""


class _Asking(msgspec.Struct):
    """A request that waits for its reply, and whom to ask next."""

    session: SessionId
    candidate: Candidate
    further: list[Candidate]
    overload: Action | None
    """What would relieve us, if we are overloaded."""

    until_ns: int


class _Giving(msgspec.Struct):
    """A session in which we are the donor."""

    session: SessionId
    acceptor: Candidate
    address: str
    overload: Action | None
    until_ns: int
    clients: dict[Conn, None] = {}
    """Those that have not been heard of yet."""

    is_moving: bool = False
    moved: int = 0
    stayed: int = 0


class _Taking(msgspec.Struct):
    """A session in which we are the acceptor."""

    session: SessionId
    donor: BrokerId
    cluster: BrokerId
    """The donor's."""

    action: Action
    until_ns: int
    expected: Indices | None = None


class Ended(msgspec.Struct, frozen=True):
    """A session of ours is over; the last is kept, to compare what was predicted with what came."""

    session: SessionId
    action: Action
    acceptor: BrokerId
    moved: int
    predicted: Predicted


class Took(msgspec.Struct, frozen=True):
    """The same of a session in which we were the acceptor: the donor has said what it expects of us."""

    donor: BrokerId
    action: Action
    moved: int
    expected: Indices


class Mediator:
    """One edge's requests and sessions: at most one at a time."""

    def __init__(
        self,
        ourselves: Ourselves,
        config: BalancingConfig,
        state: EdgeState,
        *,
        report: Callable[[], LoadReport],
        record: Record | None = None,
    ) -> None:
        """``report`` says how loaded we are: only an acceptor needs it, and it is no small thing.

        ``record`` counts what comes of sessions.
        """
        self._broker = ourselves.broker
        self._config = config
        self._state = state
        self._life = ourselves.life
        self._address = ourselves.address
        self._migration_timeout_s = ourselves.migration_timeout_s
        self._report = report
        self._record = record or Record()
        self._number = 0
        self._asking: _Asking | None = None
        self._giving: _Giving | None = None
        self._taking: _Taking | None = None
        self._predicted: Predicted | None = None
        self._in_vain: dict[tuple[BrokerId, Action], int] = {}
        """Who could take nothing of this kind, and until when others are asked first: else they never would be."""
        self._on_their_way: dict[Conn, int] = {}
        """Clients that were sent away and not heard of since, and until when they have time."""
        self.last: Ended | Took | None = None

    @property
    def is_asking(self) -> bool:
        """Is a request out?"""
        return self._asking is not None

    @property
    def is_donor(self) -> bool:
        """Are we in a session, as the one that gives clients away?"""
        return self._giving is not None

    @property
    def partner(self) -> BrokerId | None:
        """With whom we are in a session."""
        if self._giving is not None:
            return self._giving.acceptor.broker
        return None if self._taking is None else self._taking.donor

    @property
    def session(self) -> SessionId | None:
        """The one we are in."""
        under = self._giving or self._taking
        return None if under is None else under.session

    def on_their_way(self, *, now_ns: Nanoseconds) -> list[Conn]:
        """Clients that move already: not to be chosen again (M7). Those whose time is up stay, and may be (M6)."""
        self._on_their_way = {one: until_ns for one, until_ns in self._on_their_way.items() if now_ns < until_ns}
        return list(self._on_their_way)

    def next_deadline_ns(self) -> int | None:
        """When the patience with somebody ends."""
        parts = self._asking, self._giving, self._taking
        return min((part.until_ns for part in parts if part is not None), default=None)

    # -- the donor -----------------------------------------------------------------------------------------------------

    def propose(self, candidates: Sequence[Candidate], *, overload: Action | None, now_ns: Nanoseconds) -> list[Inner]:
        """Ask these, in order. ``overload``: what would relieve us; then, if there is nobody, we call for help."""
        if self._asking is not None or self._state.condition == "BUSY":
            return []
        self._in_vain = {key: until_ns for key, until_ns in self._in_vain.items() if now_ns < until_ns}
        in_turn = sorted(candidates, key=lambda one: (one.broker, one.action) in self._in_vain)
        return self._ask(in_turn, overload=overload, now_ns=now_ns)

    def _ask(self, candidates: list[Candidate], *, overload: Action | None, now_ns: Nanoseconds) -> list[Inner]:
        self._asking = None
        if not candidates:
            return [] if overload is None else [CallForHelp(overload)]
        first, *further = candidates
        session = self.next_session()
        until_ns = now_ns + int(self._config.reply_s * 1e9)
        self._asking = _Asking(session, first, further, overload, until_ns)
        facts: dict[str, str | int | float] = {"of": first.broker, **_why(first, overload)}
        return [Say(first.broker, first.cluster, Ask(session, first.action)), Note("asks to take over", facts)]

    def next_session(self) -> SessionId:
        """One that has never been."""
        self._number += 1
        return SessionId(self._broker, self._life, self._number)

    def _declined(self, asking: _Asking, now_ns: Nanoseconds) -> list[Inner]:
        """The next one; who has declined is not asked again for another action either (§11 row 14)."""
        self._record.declined += 1
        further = [one for one in asking.further if one.broker != asking.candidate.broker]
        return self._ask(further, overload=asking.overload, now_ns=now_ns)

    def replied(self, sender: BrokerId, cluster: BrokerId, reply: Reply, *, now_ns: Nanoseconds) -> list[Inner]:
        """An answer has come."""
        asking = self._asking
        if asking is None or asking.session != reply.session or asking.candidate.broker != sender:
            if reply.report is None or reply.session.asker != self._broker or self._is_known(reply.session):
                return []
            return [Say(sender, cluster, Finished(reply.session, 0, "your answer came too late"))]
        if reply.report is None:
            declined = Note("declined to take over", {"by": sender, "condition": reply.condition})
            return [declined, *self._declined(asking, now_ns)]
        self._asking = None
        self._state.go("agreed", now_ns=now_ns)
        until_ns = now_ns + int((self._config.press_s + self._config.done_s) * 1e9)
        self._giving = _Giving(reply.session, asking.candidate, reply.address, asking.overload, until_ns)
        self._predicted = None
        sampling = BeginSampling(
            session=reply.session,
            acceptor=sender,
            action=asking.candidate.action,
            is_overloaded=asking.overload is not None,
            report=reply.report,
            until_ns=Nanoseconds(now_ns + int(self._config.press_s * 1e9)),
        )
        began: dict[str, str | int | float] = {"acceptor": sender, **_why(asking.candidate, asking.overload)}
        return [sampling, Note("session began", began)]

    def _is_known(self, session: SessionId) -> bool:
        return any(part is not None and part.session == session for part in (self._giving, self._taking))

    def planned(self, session: SessionId, plan: Plan, *, now_ns: Nanoseconds) -> list[Inner]:
        """It has been decided who moves."""
        giving = self._giving
        if giving is None or giving.session != session or giving.is_moving:
            return []
        moving = dict.fromkeys(self.on_their_way(now_ns=now_ns))
        chosen = [client for client in dict.fromkeys(move.client for move in plan.moves) if client not in moving]
        if not chosen:
            patience_s = self._config.pie_lifetime_periods * self._config.local_pie_s
            self._in_vain[giving.acceptor.broker, giving.acceptor.action] = now_ns + int(patience_s * 1e9)
            ended = self._end_giving(f"nothing to move: {plan.reason}", now_ns, outcome="nothing")
            # One who can take nothing is as good as nobody: else the head would not hear of it while that one is OK.
            # Unless it is enough that those leave who have been sent away before.
            is_relieved = not plan.before.donor.utilisations.reach(self._config.overload_lower)
            return ended if giving.overload is None or is_relieved else [*ended, CallForHelp(giving.overload)]
        giving.is_moving = True
        giving.clients = dict.fromkeys(chosen)
        giving.until_ns = now_ns + int(len(chosen) * self._migration_timeout_s * 1e9)
        self._predicted = plan.predicted
        self._on_their_way |= dict.fromkeys(chosen, giving.until_ns)
        timed_s = queue_delay_s(self._report()) if self._config.handover == "timed" else None
        acceptor = giving.acceptor
        facts: dict[str, str | int | float] = {
            "acceptor": acceptor.broker,
            "action": acceptor.action,
            "clients": len(chosen),
            "reason": plan.reason,
            **figures("before", plan.before.donor),
            **figures("predicted", plan.predicted.donor),
            **figures("predicted there", plan.predicted.acceptor),
        }
        return [
            Say(acceptor.broker, acceptor.cluster, Moving(session, len(chosen), plan.predicted.acceptor.indices)),
            MoveClients(
                session=session,
                to=acceptor.broker,
                address=giving.address,
                clients=tuple(chosen),
                let_go_after_s=timed_s,
                in_order=self._config.order == "kept",
            ),
            Note("clients are to move", facts),
        ]

    def moved(self, client: Conn, *, is_moved: bool, now_ns: Nanoseconds) -> list[Inner]:
        """A client has gone, or it stays: it could not, or its connection has ended (M6)."""
        self._on_their_way.pop(client, None)
        giving = self._giving
        if giving is None or client not in giving.clients:
            return []
        del giving.clients[client]
        giving.moved += is_moved
        giving.stayed += not is_moved
        return [] if giving.clients else self._end_giving("done", now_ns)

    def _end_giving(
        self, reason: str, now_ns: Nanoseconds, *, is_told: bool = True, outcome: Outcome = "failed"
    ) -> list[Inner]:
        giving = self._giving
        assert giving is not None
        self._giving = None
        stayed = giving.stayed + len(giving.clients)
        self._record.gave("moved" if giving.moved else outcome, moved=giving.moved, stayed=stayed)
        self._leave(is_moved=giving.moved > 0, now_ns=now_ns)
        acceptor = giving.acceptor
        if giving.moved and self._predicted is not None:
            self.last = Ended(giving.session, acceptor.action, acceptor.broker, giving.moved, self._predicted)
        facts: dict[str, str | int | float] = {
            "acceptor": acceptor.broker,
            "action": acceptor.action,
            "moved": giving.moved,
            "stayed": stayed,
            "why": reason,
        }
        answers: list[Inner] = [] if giving.is_moving else [EndSampling(giving.session)]
        if is_told:
            answers.append(Say(acceptor.broker, acceptor.cluster, Finished(giving.session, giving.moved, reason[:200])))
        return [*answers, Note("session ended", facts)]

    def _leave(self, *, is_moved: bool, now_ns: Nanoseconds) -> None:
        if is_moved:
            self._state.go("ended", now_ns=now_ns)
        else:
            self._state.revert()

    # -- the acceptor --------------------------------------------------------------------------------------------------

    def asked(
        self, sender: BrokerId, cluster: BrokerId, ask: Ask, *, is_near: bool, now_ns: Nanoseconds
    ) -> list[Inner]:
        """Somebody wants to give clients away. ``is_near``: is it of our cluster, or of one that we balance with?"""
        asking = self._asking
        if asking is not None and asking.candidate.broker == sender and self._broker < sender:
            self._asking = None  # both have asked: the one with the smaller name gives way (S2)
        else:
            asking = None
        if self._asking is not None or not is_near:
            return [Say(sender, cluster, Reply(ask.session, "BUSY"))]
        if self._state.condition != "OK":
            declined: list[Inner] = [Say(sender, cluster, Reply(ask.session, self._state.condition))]
            return declined if asking is None else [*declined, *self._declined(asking, now_ns)]
        self._state.go("accepts", now_ns=now_ns)
        config = self._config
        patience_s = 2 * config.reply_s + config.press_s + config.done_s
        self._taking = _Taking(ask.session, sender, cluster, ask.action, now_ns + int(patience_s * 1e9))
        note = Note("takes over", {"donor": sender, "action": ask.action})
        return [Say(sender, cluster, Reply(ask.session, "OK", self._report(), self._address)), note]

    def rehearsed(self, sender: BrokerId, cluster: BrokerId, ask: Ask, *, is_near: bool) -> list[Inner]:
        """Somebody wants to know what we would say. No session begins, and nothing changes."""
        condition = "BUSY" if self._asking is not None or not is_near else self._state.condition
        report = self._report() if condition == "OK" else None
        return [Say(sender, cluster, Reply(ask.session, condition, report, self._address))]

    def told_moving(self, sender: BrokerId, cluster: BrokerId, moving: Moving, *, now_ns: Nanoseconds) -> list[Inner]:
        """The donor has sent its clients: they have their time (M8)."""
        taking = self._taking
        if taking is None or taking.session != moving.session:
            return [Say(sender, cluster, Finished(moving.session, 0, "we are not in this session"))]
        patience_s = moving.clients * self._migration_timeout_s + self._config.done_s
        taking.until_ns = now_ns + int(patience_s * 1e9)
        taking.expected = moving.expected
        return []

    def _end_taking(self, moved: int, reason: str, now_ns: Nanoseconds) -> list[Inner]:
        taking = self._taking
        assert taking is not None
        self._taking = None
        self._record.sessions_accepted += 1
        self._record.moved_here += moved
        if moved and taking.expected is not None:
            self.last = Took(taking.donor, taking.action, moved, taking.expected)
        self._leave(is_moved=moved > 0, now_ns=now_ns)
        return [Note("session ended", {"donor": taking.donor, "moved": moved, "why": reason})]

    def _abandon_taking(self, taking: _Taking, reason: str, now_ns: Nanoseconds) -> list[Inner]:
        """It is not the donor that ended it: it is to know."""
        told = Say(taking.donor, taking.cluster, Finished(taking.session, 0, reason))
        return [told, *self._end_taking(0, reason, now_ns)]

    # -- both ----------------------------------------------------------------------------------------------------------

    def told_finished(self, sender: BrokerId, finished: Finished, *, now_ns: Nanoseconds) -> list[Inner]:
        """The other side says that it is over."""
        giving, taking = self._giving, self._taking
        if taking is not None and (taking.session, taking.donor) == (finished.session, sender):
            return self._end_taking(finished.moved, finished.reason or "done", now_ns)
        if giving is not None and (giving.session, giving.acceptor.broker) == (finished.session, sender):
            return self._end_giving(finished.reason or "given up", now_ns, is_told=False)
        return []

    def gone(self, broker: BrokerId, *, now_ns: Nanoseconds) -> list[Inner]:
        """A broker is no longer there: what we have with it ends now, and not with its lease."""
        if self._taking is not None and self._taking.donor == broker:
            return self._end_taking(0, f"{broker} is gone", now_ns)
        if self._giving is not None and self._giving.acceptor.broker == broker:
            return self._end_giving(f"{broker} is gone", now_ns, is_told=False)
        if self._asking is not None:
            self._asking.further = [one for one in self._asking.further if one.broker != broker]
            if self._asking.candidate.broker == broker:
                return self._declined(self._asking, now_ns)
        return []

    def give_up(self, reason: str, *, now_ns: Nanoseconds) -> list[Inner]:
        """End all that is going on: this broker no longer balances. Clients on their way go on."""
        self._asking = None
        if self._giving is not None:
            return self._end_giving(reason, now_ns)
        return [] if self._taking is None else self._abandon_taking(self._taking, reason, now_ns)

    def tick(self, now_ns: Nanoseconds) -> list[Inner]:
        """Whose time is up?"""
        if self._asking is not None and now_ns >= self._asking.until_ns:
            asking = self._asking
            silent = Note("declined to take over", {"by": asking.candidate.broker, "condition": "no answer"})
            return [silent, *self._declined(asking, now_ns)]
        if self._giving is not None and now_ns >= self._giving.until_ns:
            return self._end_giving("not in time", now_ns)
        if self._taking is not None and now_ns >= self._taking.until_ns:
            return self._abandon_taking(self._taking, "nothing was heard of it in time", now_ns)
        return []


def _why(candidate: Candidate, overload: Action | None) -> dict[str, str | int | float]:
    """What triggered it, for people."""
    because = "uneven" if overload is None else "overloaded"
    return {"action": candidate.action, "because": because, "difference": round(candidate.difference, 4)}


def figures(what: str, load: LoadInfo | Reading | Indices) -> dict[str, float]:
    """The balanced indices, for people: each by its name."""
    return {
        f"{what} input": round(load.input_utilisation, 4),
        f"{what} output": round(load.output_utilisation, 4),
        f"{what} delay_s": round(load.matching_delay_s, 6),
    }


def queue_delay_s(report: LoadReport) -> float:
    """How long an event that comes now takes until a client has it: the wait of the thesis (peer §6.2, step 7)."""
    waiting = report.queued_in_bytes / report.event_bytes if report.event_bytes else 0.0
    output_s = report.queued_out_bytes / report.output_bytes_s_max if report.output_bytes_s_max else 0.0
    return (waiting + 1) * report.matching_delay_s + output_s
