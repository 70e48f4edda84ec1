"""PEER in an edge: detection, conditions, PIE and sessions together (of a head: ``head_balancer.py``).

The broker machine tells it what was measured, what was heard, what has become of clients and of its head, and what time
it is; it answers with bulletins to send, events to sample, clients to move, and what it has decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tidewire.balancing.answers import Answer, BeginSampling, CallForHelp, Inner, Say
from tidewire.balancing.bulletins import EdgeWays
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.detectors import Candidate, LocalDetector, Verdict, balanced_set
from tidewire.balancing.indices import Reading, smoothed
from tidewire.balancing.load import Load
from tidewire.balancing.mediator import Mediator, Ourselves, Took, figures
from tidewire.balancing.pie import Book, Telling
from tidewire.balancing.plans import Plan
from tidewire.balancing.record import Record
from tidewire.balancing.rehearsal import Rehearsals
from tidewire.balancing.states import EdgeState
from tidewire.model.balance_messages import (
    LB_CONTROL,
    LOCAL_PIE,
    Ask,
    Bulletin,
    Condition,
    Finished,
    Gone,
    Help,
    LoadReport,
    LocalPie,
    Moving,
    Payload,
    Reply,
    SessionId,
    Watch,
)
from tidewire.model.chance import Chance
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.notes import Note


class Preview(msgspec.Struct, frozen=True):
    """What an edge would do now: for people who ask before they let it."""

    condition: Condition
    verdict: Verdict
    reading: Reading | None
    """Smoothed, as a look now would see it."""

    candidates: tuple[Candidate, ...]
    """Whom it would ask, in order."""

    known: tuple[BrokerId, ...]
    """Those that it has heard of."""

    partner: BrokerId | None
    """With whom it is in a session."""


class EdgeBalancer:
    """An edge: it balances with those of its cluster, and of one that its head names."""

    def __init__(
        self,
        ourselves: Ourselves,
        config: BalancingConfig,
        *,
        chance: Chance,
        report: Callable[[], LoadReport],
        record: Record | None = None,
        now_ns: Nanoseconds,
    ) -> None:
        """``report`` says how loaded this broker is, in full: only an acceptor needs it, and it is no small thing.

        ``record`` counts what comes of it all.
        """
        broker = ourselves.broker
        self._broker = broker
        self._config = config
        self._life = ourselves.life
        self._state = EdgeState()
        self._ways = EdgeWays(broker)
        self._book: Book[LocalPie] = Book(config, period_s=config.local_pie_s)
        self._telling = Telling(config, period_s=config.local_pie_s, now_ns=now_ns)
        self._detector = LocalDetector(config, chance=chance, now_ns=now_ns)
        self._record = record or Record()
        self._mediator = Mediator(ourselves, config, self._state, report=report, record=self._record)
        self._rehearsals = Rehearsals(config)
        self._number = 0
        self._lives: dict[BrokerId, int] = {}
        self._load: Load | None = None
        self._let_go_ns: Nanoseconds | None = None
        self._watched: BrokerId | None = None
        self._watched_until_ns = 0

    @property
    def condition(self) -> Condition:
        """What it may do now."""
        return self._state.condition

    @property
    def is_full(self) -> bool:
        """Should no further clients come here (peer A4)? Also while it is in a session because of that."""
        reading = self._detector.reading
        return reading is not None and reading.highest >= self._config.overload_lower

    @property
    def reading(self) -> Reading | None:
        """Smoothed, as of the last look."""
        return self._detector.reading

    def known(self, *, now_ns: Nanoseconds) -> list[BrokerId]:
        """Whose load it has heard of lately."""
        return [entry.broker for entry in self._book.entries(now_ns=now_ns)]

    @property
    def partner(self) -> BrokerId | None:
        """With whom it is in a session."""
        return self._mediator.partner

    @property
    def session(self) -> SessionId | None:
        """The one it is in."""
        return self._mediator.session

    @property
    def is_donor(self) -> bool:
        """Is it the one that gives clients away?"""
        return self._mediator.is_donor

    def on_their_way(self, *, now_ns: Nanoseconds) -> list[Conn]:
        """Clients that move already: not to be planned with."""
        return self._mediator.on_their_way(now_ns=now_ns)

    def next_deadline_ns(self) -> int | None:
        """When to call ``tick``, if nothing else happens. Without load or head nothing is due but ends of sessions."""
        times = [self._mediator.next_deadline_ns(), self._rehearsals.next_deadline_ns()]
        if self._is_ready:
            times += [self._telling.next_deadline_ns(), self._detector.pace.next_ns]
        if self._watched is not None:
            times.append(self._watched_until_ns)
        return min((time for time in times if time is not None), default=None)

    @property
    def _is_ready(self) -> bool:
        return self._load is not None and self._ways.head is not None

    # -- what happens --------------------------------------------------------------------------------------------------

    def connected(self, head: BrokerId | None, *, now_ns: Nanoseconds) -> list[Answer]:
        """This is our head now; None: there is none. With another one all begins anew."""
        if head == self._ways.head:
            return []
        ended = self._done(self._mediator.give_up("the head is gone", now_ns=now_ns))
        self._ways.head = head
        self._watched = None
        self._book = Book(self._config, period_s=self._config.local_pie_s)
        self._telling = Telling(self._config, period_s=self._config.local_pie_s, now_ns=now_ns)
        return ended

    def measured(self, load: Load, *, let_go_ns: Nanoseconds | None = None) -> None:
        """How loaded we are. ``let_go_ns``: when somebody who had been sent away was last sent an event."""
        self._load = load
        self._let_go_ns = let_go_ns

    @property
    def changed_ns(self) -> Nanoseconds | None:
        """When clients last came or went for the sake of the load: what was before that is no measure of it."""
        times = [time for time in (self._state.session_end_ns, self._let_go_ns) if time is not None]
        return max(times, default=None)

    def heard(self, bulletin: Bulletin, *, came_from: BrokerId, now_ns: Nanoseconds) -> list[Answer]:
        """A bulletin has come from a neighbour."""
        if not self._ways.heard(bulletin, came_from=came_from).is_for_us:
            return []
        known = self._lives.get(bulletin.sender, bulletin.life)
        if bulletin.life < known:
            return []
        self._lives[bulletin.sender] = bulletin.life
        inner = self._mediator.gone(bulletin.sender, now_ns=now_ns) if bulletin.life > known else []
        return self._done([*inner, *self._told(bulletin, now_ns)])

    def _told(self, bulletin: Bulletin, now_ns: Nanoseconds) -> list[Inner]:
        sender, cluster, mediator = bulletin.sender, bulletin.cluster, self._mediator
        match bulletin.payload:
            case LocalPie() as pie:
                if self._is_near(cluster) and self._book.take(sender, cluster, pie, now_ns=now_ns):
                    self._detector.pace.wake(now_ns)
                return []
            case Gone(broker):
                self._book.forget(broker)
                return mediator.gone(broker, now_ns=now_ns)
            case Ask(is_rehearsal=True) as ask:
                return mediator.rehearsed(sender, cluster, ask, is_near=self._is_near(cluster))
            case Ask() as ask:
                return mediator.asked(sender, cluster, ask, is_near=self._is_near(cluster), now_ns=now_ns)
            case Reply() as reply:
                rehearsed = self._rehearsals.replied(sender, reply, now_ns=now_ns)
                return mediator.replied(sender, cluster, reply, now_ns=now_ns) if rehearsed is None else rehearsed
            case Moving() as moving:
                return mediator.told_moving(sender, cluster, moving, now_ns=now_ns)
            case Finished() as finished:
                return mediator.told_finished(sender, finished, now_ns=now_ns)
            case Watch(watched):
                if sender == self._ways.head:
                    self._watch(watched, now_ns)
        return []

    def _is_near(self, cluster: BrokerId) -> bool:
        return cluster in (self._ways.head, self._watched)

    def _watch(self, cluster: BrokerId | None, now_ns: Nanoseconds) -> None:
        """Balance with this cluster too, as long as the head goes on saying so."""
        if cluster != self._watched and self._ways.head is not None:
            self._book.forget_all_but(self._ways.head)
        self._watched = cluster
        config = self._config
        patience_s = config.pie_lifetime_periods * max(config.global_pie_s, config.global_detect_s_max)
        self._watched_until_ns = now_ns + int(patience_s * 1e9)

    def planned(self, session: SessionId, plan: Plan, *, now_ns: Nanoseconds) -> list[Answer]:
        """Sampling is over, and it has been decided who moves, or that nobody does."""
        rehearsed = self._rehearsals.planned(session, plan)
        return self._done(self._mediator.planned(session, plan, now_ns=now_ns) if rehearsed is None else rehearsed)

    def moved(self, client: Conn, *, is_moved: bool, now_ns: Nanoseconds) -> list[Answer]:
        """A client that was to move has gone, or stays."""
        return self._done(self._mediator.moved(client, is_moved=is_moved, now_ns=now_ns))

    def give_up(self, reason: str, *, now_ns: Nanoseconds) -> list[Answer]:
        """This broker no longer balances: it leaves, or its role is another."""
        return self._done(self._mediator.give_up(reason, now_ns=now_ns))

    # -- time ----------------------------------------------------------------------------------------------------------

    def tick(self, now_ns: Nanoseconds) -> list[Answer]:
        """What is due: ends of patience, a look at the load, something to tell."""
        answers = self._done([*self._mediator.tick(now_ns), *self._rehearsals.tick(now_ns)])
        if self._watched is not None and now_ns >= self._watched_until_ns:
            self._watch(None, now_ns)
        if not self._is_ready or self._load is None:
            return answers
        if now_ns >= self._detector.pace.next_ns:
            answers += self._done(self._look(self._load, now_ns))
        if self._telling.is_due(now_ns):
            answers += self._tell(self._load, now_ns)
        return answers

    def look_now(self, now_ns: Nanoseconds) -> list[Answer]:
        """An operator wants it to look, and to do what follows, also if it does nothing by itself."""
        return (
            []
            if not self._is_ready or self._load is None
            else self._done(self._look(self._load, now_ns, is_asked=True))
        )

    def rehearse(self, now_ns: Nanoseconds) -> list[Answer]:
        """Find out what would follow from a look, down to who would move: ``Rehearsed`` says it. Nothing changes."""
        if self._rehearsals.is_under_way:
            return []
        found = self.preview(now_ns)
        if not found.candidates or self._mediator.is_asking:
            return self._done(self._rehearsals.end("it is asking already" if found.candidates else ""))
        overload = found.candidates[0].action if found.verdict == "overloaded" else None
        session = self._mediator.next_session()
        return self._done(self._rehearsals.begin(session, list(found.candidates), overload=overload, now_ns=now_ns))

    def _look(self, load: Load, now_ns: Nanoseconds, *, is_asked: bool = False) -> list[Inner]:
        entries = self._book.entries(now_ns=now_ns)
        before = self._state.condition
        finding = self._detector.run(
            load, before, entries, session_end_ns=self._state.session_end_ns, changed_ns=self.changed_ns, now_ns=now_ns
        )
        for cause in finding.causes:
            self._state.go(cause, now_ns=now_ns)
        inner: list[Inner] = []
        if self._state.condition != before:
            inner += [Note("condition", {"was": before, "is": self._state.condition}), *self._compared(before)]
        if not is_asked and not self._config.automatic:
            return inner
        return inner + self._mediator.propose(finding.candidates, overload=finding.action, now_ns=now_ns)

    def _compared(self, before: Condition) -> list[Inner]:
        """The load has settled after a session: how does it compare with what was predicted?

        One who is overloaded, or is again before that, is compared when it is so no longer, unless another session
        comes first.
        """
        last, reading = self._mediator.last, self._detector.reading
        if (before, self._state.condition) != ("STABILIZING", "OK") or last is None or reading is None:
            return []
        self._mediator.last = None
        facts: dict[str, str | int | float]
        if isinstance(last, Took):
            predicted, facts = last.expected, {"donor": last.donor}
        else:
            predicted, facts = last.predicted.donor.indices, {"acceptor": last.acceptor}
        self._record.compared(predicted, reading)
        facts |= {"action": last.action, "moved": last.moved}
        facts |= {**figures("predicted", predicted), **figures("measured", reading)}
        return [Note("measured after a session", facts)]

    def _tell(self, load: Load, now_ns: Nanoseconds) -> list[Answer]:
        reading = self._detector.reading or smoothed(load, None, weight=self._config.smoothing)
        entries = self._book.entries(now_ns=now_ns)
        balanced = balanced_set(self._broker, reading.indices, entries, config=self._config)
        is_pressing = reading.highest > self._config.overload_upper
        pie = LocalPie(self._state.condition, reading.indices, balanced, is_pressing)
        if not self._telling.is_news(pie, is_watching=self._watched is not None, now_ns=now_ns):
            return []
        self._telling.tell(pie, now_ns=now_ns)
        return list(self._ways.own(self._bulletin(pie)))

    # -- from inner answers to outer ones ------------------------------------------------------------------------------

    def _done(self, inner: Iterable[Inner]) -> list[Answer]:
        answers: list[Answer] = []
        for one in inner:
            match one:
                case Say(to, cluster, payload):
                    answers += self._ways.own(self._bulletin(payload, to=to, toward=cluster))
                case CallForHelp(action):
                    head = self._ways.head
                    if head is not None:
                        self._record.calls_for_help += 1
                        answers += self._ways.own(self._bulletin(Help(action), to=head, toward=head))
                        answers.append(Note("calls for help", {"action": action}))
                case BeginSampling(session=session):
                    if not self._rehearsals.is_about(session):
                        answers += self._done(self._rehearsals.give_way())
                    answers.append(one)
                case _:
                    answers.append(one)
        return answers

    def _bulletin(self, payload: Payload, *, to: BrokerId | None = None, toward: BrokerId | None = None) -> Bulletin:
        self._number += 1
        return Bulletin(
            traffic_class=LOCAL_PIE if isinstance(payload, LocalPie) else LB_CONTROL,
            sender=self._broker,
            life=self._life,
            number=self._number,
            cluster=self._ways.head or self._broker,
            toward=toward,
            to=to,
            payload=payload,
        )

    def preview(self, now_ns: Nanoseconds) -> Preview:
        """What it would do now. It does nothing."""
        entries = self._book.entries(now_ns=now_ns)
        known = tuple(entry.broker for entry in entries)
        condition, partner = self._state.condition, self._mediator.partner
        if self._load is None:
            return Preview(condition, "waits", None, (), known, partner)
        finding = self._detector.preview(
            self._load,
            condition,
            entries,
            session_end_ns=self._state.session_end_ns,
            changed_ns=self.changed_ns,
            now_ns=now_ns,
        )
        reading = smoothed(self._load, self._detector.reading, weight=self._config.smoothing)
        return Preview(condition, finding.verdict, reading, finding.candidates, known, partner)
