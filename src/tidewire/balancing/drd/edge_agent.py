"""An edge's agent: it measures, tells, chooses which subscribers go, and sends them when its head says so.

It is one half of epeer §2.3; the other is ``head_agent.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewire.balancing.drd.answers import Answer, Compared, Say, SessionEnded, Tell, WantProfile
from tidewire.balancing.drd.bundles import Bundle, Scope
from tidewire.balancing.drd.giving import Giving, moves_of
from tidewire.balancing.drd.loads import Load, Smoothing, available, state_of
from tidewire.balancing.drd.policies import Policy
from tidewire.balancing.drd.selection import Acceptor, Plan, Snapshot
from tidewire.model.balance_fields import SessionId
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.notes import Note
from tidewire.model.offload_messages import (
    CLASS_NAME_MAX,
    CLASSES_MAX,
    METRICS,
    Busy,
    Candidates,
    InterClusterRequest,
    LoadState,
    LoadUpdate,
    MoveNow,
    OffloadDone,
    OffloadList,
    OffloadPayload,
)
from tidewire.model.traffic import ClassKey

CLASSES_TOLD_PERIODS = 10
"""What classes an edge has is told when it changes, and so often: its head may have lost it."""
FORGOTTEN_PERIODS = 3
"""Who has not been heard of for so long is not counted on."""


_AS_USUAL = "its head has ended it"


class Heard(msgspec.Struct, frozen=True):
    """The last that a broker said of itself."""

    update: LoadUpdate
    classes: frozenset[ClassKey]
    until_ns: int

    @property
    def load(self) -> Load:
        """Its load."""
        return Load(self.update.used, self.update.capacity)


def told(update: LoadUpdate, before: Heard | None, *, until_ns: int) -> Heard:
    """An update, with the classes that it does not repeat."""
    known: frozenset[ClassKey] = frozenset() if before is None else before.classes
    classes = known if update.classes is None else frozenset(ClassKey(one) for one in update.classes)
    return Heard(update, classes, until_ns)


class EdgeAgent:
    """One edge."""

    def __init__(self, broker: BrokerId, policy: Policy, *, place: tuple[float, float] | None = None) -> None:
        """``place``: its latitude and longitude, if they are known."""
        self._broker = broker
        self._place = place
        self._policy = policy
        self._config = policy.config
        self.head: BrokerId | None = None
        self._smoothing = Smoothing(policy.config.weights)
        self._load: Load | None = None
        self._giving = Giving(policy.planner, side="subscribers")
        self._is_between = False
        self._lease_ns: int | None = None
        """Until when the session that it is in, as donor or acceptor, may last."""
        self._taking: SessionId | None = None
        self._skip_until_ns = 0
        self._predicted: SessionEnded | None = None
        self._classes: tuple[ClassKey, ...] = ()
        self._told: tuple[ClassKey, ...] | None = None
        self._told_periods = 0
        self.others: dict[BrokerId, Heard] = {}
        """The other edges of its cluster."""

    @property
    def state(self) -> LoadState:
        """What it may do now."""
        if self.session is not None:
            return "BUSY"
        return "LOW" if self._load is None else self._measured_state(self._load)

    def _measured_state(self, load: Load) -> LoadState:
        return state_of(load.highest, low=self._config.low, high=self._config.high)

    @property
    def load(self) -> Load | None:
        """Smoothed, as of its last look."""
        return self._load

    @property
    def session(self) -> SessionId | None:
        """The one it is in, on either side; while it chooses it is in none yet."""
        return self._taking if self._lease_ns is None or self._taking is not None else self._giving.session

    @property
    def is_donor(self) -> bool:
        """Is it the one that gives clients away?"""
        return self._taking is None and self._giving.session is not None

    @property
    def partners(self) -> list[BrokerId]:
        """Who takes its clients over."""
        return self._giving.acceptors

    @property
    def on_their_way(self) -> list[int]:
        """Clients that have been sent away, and are not there yet."""
        return self._giving.on_their_way

    def deadline_ns(self) -> int | None:
        """When to call ``tick``, if nothing else happens."""
        return self._lease_ns

    # -- load ----------------------------------------------------------------------------------------------------------

    def connected(self, head: BrokerId | None, *, now_ns: Nanoseconds) -> list[Answer]:
        """This is our head now; None: there is none. With another one all begins anew."""
        if head == self.head:
            return []
        self.head = head
        self.others.clear()
        self._told = None
        return self._over("its head is gone", now_ns) if self._lease_ns is not None else []

    def measured(self, load: Load, *, classes: Sequence[ClassKey], since_ns: Nanoseconds) -> list[Answer]:
        """What it had to do from ``since_ns`` until now, and the classes of its subscribers."""
        self._classes = tuple(one for one in dict.fromkeys(classes) if len(one) <= CLASS_NAME_MAX)[:CLASSES_MAX]
        if since_ns < self._skip_until_ns or not load.is_sound():
            return []  # clients came or went in the midst of it
        self._load = self._smoothing.add(load)
        return [*self._compared(load), *self._tell(self._load)]

    def _tell(self, load: Load) -> list[Answer]:
        if self.head is None:
            return []
        self._told_periods += 1
        is_news = self._classes != self._told or self._told_periods >= CLASSES_TOLD_PERIODS
        if is_news:
            self._told, self._told_periods = self._classes, 0
        update = LoadUpdate(
            self.state,
            load.used,
            load.capacity,
            available(load, self._config),
            [str(one) for one in self._classes] if is_news else None,
            self._place,
        )
        return [Tell(update)]

    def _compared(self, load: Load) -> list[Answer]:
        """The first look behind a session: how does it compare with what was predicted?"""
        last, self._predicted = self._predicted, None
        if last is None or self.session is not None:
            return []
        facts: dict[str, str | int | float] = {"moved": last.moved, "stayed": last.stayed}
        predicted = Load(last.predicted, load.capacity)
        for metric in METRICS:
            facts[f"predicted {metric} utilisation"] = round(predicted.utilisation(metric), 4)
            facts[f"measured {metric} utilisation"] = round(load.utilisation(metric), 4)
        return [Note("measured after a session", facts), Compared(predicted, load)]

    # -- what others say -----------------------------------------------------------------------------------------------

    def heard(self, payload: OffloadPayload, sender: BrokerId, *, now_ns: Nanoseconds) -> list[Answer]:
        """The head has said something, or passed on what another edge has."""
        match payload:
            case LoadUpdate() as update:
                until_ns = now_ns + int(FORGOTTEN_PERIODS * self._config.period_s * 1e9)
                self.others[sender] = told(update, self.others.get(sender), until_ns=until_ns)
            case _ if sender != self.head:
                return []
            case Candidates(session, is_between, offers):
                if self._load is None or self.session is not None:
                    return []
                self._giving.begin(session, offers)
                self._is_between = is_between
                return [WantProfile(session)]
            case MoveNow(session):
                return self._go(session, now_ns)
            case Busy(session):
                if self.session is None:
                    self._giving.end()
                    self._taking = session
                    self._lease(self._config.migration_s + self._config.reply_s, now_ns)
            case OffloadDone(session):
                if session == self.session:
                    return self._over(_AS_USUAL, now_ns)
        return []

    def profiled(self, session: SessionId, bundles: Sequence[Bundle], *, now_ns: Nanoseconds) -> list[Answer]:
        """Who is here: choose who goes, if that helps enough."""
        if session != self._giving.session or self._load is None or self._lease_ns is not None or self.head is None:
            return []
        scope: Scope = "subscribers between clusters" if self._is_between else "subscribers"
        plan, noted = self._giving.choose(bundles, self._load, scope=scope, now_ns=now_ns)
        if plan.moves and (plan.is_enough or self._config.partial_intra):
            self._lease(self._config.reply_s, now_ns)
            return [*noted, Say(self.head, self.head, OffloadList(session, moves_of(plan), plan.reason))]
        self._giving.end()
        needed = max(plan.needed.values(), default=0.0)
        return [*noted, Say(self.head, self.head, InterClusterRequest(session, plan.metric, max(0.0, needed)))]

    def _go(self, session: SessionId, now_ns: Nanoseconds) -> list[Answer]:
        if session != self._giving.session or self._lease_ns is None:
            return []
        self._lease(self._config.migration_s, now_ns)
        moves = self._giving.go()
        return moves or self._ended(self._giving.end(), now_ns)

    def moved(self, client: int, *, is_moved: bool, now_ns: Nanoseconds) -> list[Answer]:
        """A client that was sent away has gone, or stays."""
        return self._ended(self._giving.moved(client, is_moved=is_moved), now_ns)

    def _ended(self, ended: SessionEnded | None, now_ns: Nanoseconds) -> list[Answer]:
        if ended is None:
            return []
        self._settle(ended, now_ns)
        facts: dict[str, str | int | float] = {"moved": ended.moved, "stayed": ended.stayed}
        answers: list[Answer] = [Note("gave clients away", facts), ended]
        if self.head is not None:
            done = OffloadDone(ended.session, ended.moved, ended.stayed, "", list(ended.arrived.items()))
            answers.append(Say(self.head, self.head, done))
        return answers

    def _settle(self, ended: SessionEnded | None, now_ns: Nanoseconds) -> None:
        """The load is another one now: what was measured before, or in the midst of it, says nothing of it."""
        self._lease_ns = self._taking = None
        self._smoothing.begin_anew()
        self._skip_until_ns = now_ns
        self._predicted = ended

    def _lease(self, seconds: float, now_ns: Nanoseconds) -> None:
        self._lease_ns = now_ns + int(seconds * 1e9)

    # -- time ----------------------------------------------------------------------------------------------------------

    def tick(self, now_ns: Nanoseconds) -> list[Answer]:
        """Nobody waits for ever, and who is silent is forgotten."""
        self.others = {broker: one for broker, one in self.others.items() if now_ns < one.until_ns}
        if self._lease_ns is None or now_ns < self._lease_ns:
            return []
        return self._over("it took too long", now_ns)

    def _over(self, why: str, now_ns: Nanoseconds) -> list[Answer]:
        """The session is over, whatever has become of it."""
        was_taking, ended = self._taking, self._giving.end()
        if was_taking is None:
            note = Note("a session ended early", {"why": why})
            if ended is not None:
                return [note, *self._ended(ended, now_ns)]
            self._settle(None, now_ns)
            return [note]
        self._settle(None, now_ns)
        return [] if why == _AS_USUAL else [Note("no longer takes clients", {"why": why})]

    def rehearse(self, bundles: Sequence[Bundle], *, now_ns: Nanoseconds) -> Plan | None:
        """Who would go where now, by what the other edges have said last? None: nobody is to go."""
        if self._load is None:
            return None
        edges = {broker: (one.update.state, one.load) for broker, one in self.others.items() if now_ns < one.until_ns}
        edges[self._broker] = self.state, self._load
        for donor, takers in self._policy.pairs(edges):
            if donor == self._broker:
                acceptors = (
                    Acceptor(broker=one, load=self.others[one].load, hosts=self.others[one].classes) for one in takers
                )
                snapshot = Snapshot(
                    scope="subscribers", donor=self._load, bundles=tuple(bundles), acceptors=tuple(acceptors)
                )
                return self._policy.planner.plan(snapshot, now_ns=now_ns)
        return None
