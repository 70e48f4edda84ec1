"""What a broker says about balancing to people where the head decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from tidewire.balancing.detectors import Verdict
from tidewire.balancing.drd.bundles import Bundle
from tidewire.balancing.drd.edge_agent import EdgeAgent
from tidewire.balancing.drd.head_agent import HeadAgent
from tidewire.balancing.drd.loads import Load, available
from tidewire.balancing.drd.selection import Plan
from tidewire.balancing.indices import Reading
from tidewire.balancing.record import Record
from tidewire.broker.balance_documents import NAMES_MAX, BalanceStatus, NextStep, WouldGo
from tidewire.broker.config import BrokerConfig
from tidewire.model.balance_messages import Indices
from tidewire.model.ids import Nanoseconds
from tidewire.model.offload_messages import METRICS, LoadState

VERDICTS: dict[LoadState, Verdict] = {
    "LOW": "balanced",
    "HIGH": "inert",
    "OVERLOAD": "overloaded",
    "BUSY": "busy",
}


def _utilisation(load: Load | None) -> dict[str, float]:
    return {} if load is None else {metric: round(load.utilisation(metric), 4) for metric in METRICS}


def indices_of(load: Load) -> Indices:
    """What there is of the three that are compared: how long matching takes is not predicted here."""
    return Indices(load.utilisation("input"), load.utilisation("output"), 0.0)


def reading_of(load: Load) -> Reading:
    """The same, as it was measured."""
    return Reading(
        input_utilisation=load.utilisation("input"),
        output_utilisation=load.utilisation("output"),
        cpu_utilisation=load.utilisation("matching"),
        memory_utilisation=0.0,
        matching_delay_s=0.0,
    )


def status_of(
    config: BrokerConfig, edge: EdgeAgent | None, head: HeadAgent | None, record: Record, *, now_ns: Nanoseconds
) -> BalanceStatus:
    """How it goes."""
    agent = edge or head
    condition: LoadState | None = None
    could: float | None = None
    known: list[str] = []
    if edge is not None:
        condition, known = edge.state, [str(one) for one in edge.others]
        could = None if edge.load is None else available(edge.load, config.drd)
    elif head is not None:
        condition, known = head.cluster_state(now_ns), [str(one) for one in head.cluster.known_clusters(now_ns)]
        could = head.cluster.edges_available(now_ns)
    return BalanceStatus(
        policy=config.balancing,
        is_automatic=config.balance.automatic,
        condition=condition,
        partner=None if agent is None else next((str(one) for one in agent.partners), None),
        is_donor=agent is not None and agent.is_donor,
        smoothed=None,
        known=known,
        sessions={str(outcome): count for outcome, count in record.sessions.items()},
        sessions_accepted=record.sessions_accepted,
        declined=record.declined,
        moved_away=record.moved_away,
        moved_here=record.moved_here,
        stayed=record.stayed,
        calls_for_help=record.calls_for_help,
        errors=record.errors(),
        bulletins_sent=dict(record.bulletins_sent),
        bulletins_heard=dict(record.bulletins_heard),
        utilisation=_utilisation(None if agent is None else agent.load),
        available_events_s=could if could is None or isfinite(could) else None,
    )


def next_step(
    config: BrokerConfig,
    edge: EdgeAgent | None,
    head: HeadAgent | None,
    *,
    bundles: Sequence[Bundle] | None,
    names: Callable[[int], str],
    now_ns: Nanoseconds,
) -> NextStep:
    """What a look would lead to. ``bundles``: who is here, if that is known; ``names``: of clients."""
    agent = edge or head
    assert agent is not None
    plan, why = None, "nothing is too much"
    if head is not None:
        why = "it decides for its edges: ask them"
    elif edge is not None and edge.state == "OVERLOAD" and bundles is None:
        why = "it does not know yet who is here: ask again in a second"
    elif edge is not None and bundles is not None:
        plan = edge.rehearse(bundles, now_ns=now_ns)
        why = why if plan is None else plan.reason
    state = agent.state if head is None else head.cluster_state(now_ns)
    would_go = [] if plan is None else _would_go(plan, names)
    known = list(edge.others) if edge is not None else [] if head is None else head.cluster.known_clusters(now_ns)
    return NextStep(
        broker=config.broker,
        role="edge" if head is None else "head",
        is_automatic=config.balance.automatic,
        condition=state,
        verdict="imbalanced" if would_go and state != "OVERLOAD" else VERDICTS[state],
        smoothed=None,
        known=[str(one) for one in known],
        partner=next((str(one) for one in agent.partners), None),
        candidates=[],
        why=why,
        utilisation=_utilisation(agent.load),
        would_go=would_go,
    )


def _would_go(plan: Plan, names: Callable[[int], str]) -> list[WouldGo]:
    return [
        WouldGo(
            classes=[str(one) for one in move.bundle.of_classes],
            delay_s=move.bundle.delay_s if isfinite(move.bundle.delay_s) else None,
            to=move.to,
            clients=len(move.clients),
            names=[names(one) for one in move.clients[:NAMES_MAX]],
            relief={
                metric: round(Load(move.relief, plan.before.capacity).utilisation(metric), 4) for metric in METRICS
            },
        )
        for move in plan.moves
    ]
