"""How does a donor, edge or head, give clients away? It chooses, waits until it may, sends them, and counts.

Every step has a lease: whoever falls silent, nobody stays in a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidewire.balancing.drd.answers import Answer, MoveClients, SessionEnded
from tidewire.balancing.drd.bundles import Bundle, Scope
from tidewire.balancing.drd.loads import Load
from tidewire.balancing.drd.selection import Acceptor, Plan, Snapshot
from tidewire.model.balance_fields import SessionId
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.notes import Note
from tidewire.model.offload_messages import METRICS, ClassMove, Offer, Side
from tidewire.model.traffic import ClassKey


class Planner(Protocol):
    """Decides who moves."""

    def plan(self, snapshot: Snapshot, *, now_ns: Nanoseconds) -> Plan:
        """Who is to move?"""


def acceptors_of(offers: Sequence[Offer]) -> tuple[Acceptor, ...]:
    """Those that can be believed."""
    found = (
        Acceptor(
            broker=BrokerId(one.broker),
            load=Load(one.used, one.capacity),
            hosts=frozenset(ClassKey(name) for name in one.classes),
        )
        for one in offers
    )
    return tuple(one for one in found if one.load.is_sound())


def moves_of(plan: Plan) -> list[ClassMove]:
    """As others are told of them."""
    return [
        ClassMove([str(one) for one in move.bundle.of_classes], move.to, len(move.clients), move.load)
        for move in plan.moves
    ]


def keys_of(move: ClassMove) -> list[ClassKey]:
    """The classes of those who move."""
    return [ClassKey(one) for one in move.classes]


class _Session(msgspec.Struct):
    session: SessionId
    offers: dict[BrokerId, Offer]
    plan: Plan | None = None
    waits_for: dict[int, BrokerId] = {}
    """Clients that are on their way, and where to."""
    stayed: int = 0
    arrived: dict[BrokerId, int] = {}


class Giving:
    """One donor's sessions: at most one at a time."""

    def __init__(self, planner: Planner, *, side: Side) -> None:
        self._planner = planner
        self._side = side
        self._session: _Session | None = None

    @property
    def session(self) -> SessionId | None:
        """The one it is in."""
        return None if self._session is None else self._session.session

    @property
    def acceptors(self) -> list[BrokerId]:
        """Those who take, or may take, its clients over."""
        session = self._session
        if session is None:
            return []
        return list(session.offers) if session.plan is None else list(session.plan.acceptors)

    def begin(self, session: SessionId, offers: Sequence[Offer]) -> None:
        """These could take something."""
        self._session = _Session(session, {BrokerId(one.broker): one for one in offers})

    def choose(
        self, bundles: Sequence[Bundle], donor: Load, *, scope: Scope, now_ns: Nanoseconds
    ) -> tuple[Plan, list[Answer]]:
        """Who would go where?"""
        session = self._session
        assert session is not None
        snapshot = Snapshot(
            scope=scope,
            donor=donor,
            bundles=tuple(bundles),
            acceptors=acceptors_of(list(session.offers.values())),
        )
        plan = session.plan = self._planner.plan(snapshot, now_ns=now_ns)
        return plan, [_noted(plan, session.session)]

    def go(self) -> list[Answer]:
        """Those who take them over are ready."""
        session = self._session
        if session is None or session.plan is None or session.waits_for:
            return []
        answers: list[Answer] = []
        to: dict[BrokerId, dict[int, None]] = {}
        for move in session.plan.moves:
            to.setdefault(move.to, {}).update(dict.fromkeys(move.clients))
            session.waits_for |= dict.fromkeys(move.clients, move.to)
        for broker, clients in to.items():
            answers.append(
                MoveClients(
                    session=session.session,
                    side=self._side,
                    to=broker,
                    address=session.offers[broker].address,
                    clients=tuple(clients),
                )
            )
        return answers

    def moved(self, client: int, *, is_moved: bool) -> SessionEnded | None:
        """One has gone, or stays; the end, if it was the last."""
        session = self._session
        if session is None or client not in session.waits_for:
            return None
        to = session.waits_for.pop(client)
        if is_moved:
            session.arrived[to] = session.arrived.get(to, 0) + 1
        else:
            session.stayed += 1
        return None if session.waits_for else self.end()

    @property
    def on_their_way(self) -> list[int]:
        """Those that have been sent away, and are not there yet."""
        return [] if self._session is None else list(self._session.waits_for)

    def end(self) -> SessionEnded | None:
        """It is over, however far it has come; who is still on the way counts as staying."""
        session, self._session = self._session, None
        if session is None or session.plan is None:
            return None
        return SessionEnded(
            session.session,
            sum(session.arrived.values()),
            session.stayed + len(session.waits_for),
            session.plan.predicted.used,
            session.arrived,
        )


def _noted(plan: Plan, session: SessionId) -> Note:
    facts: dict[str, str | int | float] = {
        "session": f"{session.asker}/{session.number}",
        "metric": plan.metric,
        "why": plan.reason,
        "bundles": len(plan.moves),
        "clients": sum(len(move.clients) for move in plan.moves),
        "to": ", ".join(plan.acceptors),
    }
    for metric in METRICS:
        facts[f"{metric} utilisation"] = round(plan.before.utilisation(metric), 4)
        facts[f"predicted {metric} utilisation"] = round(plan.predicted.utilisation(metric), 4)
    if not plan.moves:
        return Note("found nobody to give away", facts)
    return Note("chose clients to give away", facts)
