"""A cable is cut: what is published is three times what is left of the links. Does the most valuable keep its deadline?

A head, and edges behind links of which each is to carry all classes of a warning system. After a while the links carry
a third of what is published, and later as much as before. With FDCC the least valuable gives way; without it all wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.congestion.fdcc.utility import keyword_utility
from tidewire.model.values import Value

INTERESTS: Final = ("tsunami", "wave", "height", "warning")
"""Of every subscriber (epeer Eq 8)."""
NOISE: Final = ("music", "sale", "football", "holiday", "lunch", "cat", "traffic", "weather")


class TrafficKind(msgspec.Struct, frozen=True):
    """One class of events."""

    name: str
    share: float
    """Of all events."""
    publishers: int
    words: int
    """Of its keywords that subscribers are interested in; the rest is noise, eight in all."""
    delay_s: float

    @property
    def keywords(self) -> str:
        """In an event of it."""
        return " ".join((*INTERESTS[: self.words], *NOISE[: 4 - min(4, self.words)]))

    @property
    def utility(self) -> float:
        """What an event of it is worth."""
        return keyword_utility(INTERESTS, self.keywords.split()) or 0.0


KINDS: Final = (
    TrafficKind("warning", 0.05, 2, 4, 5.0),
    TrafficKind("sensor", 0.15, 3, 3, 10.0),
    TrafficKind("workflow", 0.20, 3, 2, 20.0),
    TrafficKind("advice", 0.25, 4, 1, 30.0),
    TrafficKind("social", 0.35, 4, 0, 50.0),
)
"""The first is the most valuable. Delays are within those of epeer §1.1."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How it is to be run."""

    edges: int = 2
    subscribers: int = 2
    """Of each class at each edge."""
    event_bytes: int = 600
    capacity_bytes_s: float = 60_000.0
    """Of each link, while the cable is cut. Live, relays and clients share a small machine with the brokers."""
    demand: float = 3.0
    """What is published, in capacities."""
    before_s: float = 10.0
    cut_s: float = 300.0
    after_s: float = 20.0
    free_bytes_s: float = 12_500_000.0
    """Of each link before and after, in the simulator."""
    fdcc: FdccConfig = FdccConfig(policy="fdcc")
    seed: int = 1

    def shortened(self) -> Plan:
        """To look at."""
        return msgspec.structs.replace(self, cut_s=60.0, after_s=10.0)

    @property
    def msgs_s(self) -> float:
        """All that is published."""
        return self.demand * self.capacity_bytes_s / self.event_bytes

    def settings(self, role: str, *, is_on: bool) -> dict[str, Any]:
        """Of a broker."""
        fdcc = self.fdcc if is_on else msgspec.structs.replace(self.fdcc, policy="never")
        return {"role": role, "fdcc": fdcc}

    def event(self, kind: TrafficKind, number: int) -> dict[str, Value]:
        """One of a class; what it weighs is mostly padding."""
        padding = "x" * max(0, self.event_bytes - 150)
        return {"class": kind.name, "number": number, "keywords": kind.keywords, "padding": padding}


class ClassResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one class while the cable was cut."""

    delay_s: float
    """How long its events are of use."""
    utility: float
    offered: int
    held_back: int
    """That no message was made of."""
    delivered: int
    p50_s: float | None
    p99_s: float | None
    p99_settled_s: float | None
    """The same of what was published later than ``SETTLED_S`` behind the cut, and came."""
    max_s: float | None
    late: int
    """Deliveries that came later than they were of use."""
    keeps_deadline: bool
    """Is p99 within it, and did all come that were sent?"""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    is_on: bool
    classes: dict[str, ClassResult]
    limited_after_s: float | None
    """From the cut to the first limit."""
    lifted_after_s: float | None
    """From when the cable was mended until every limit was lifted; None: not in time, or there was none."""
    triggers: int
    feedback_msgs_s: float
    """What subscribers say, per second."""
    control_share: float
    """Messages about shortage, of all messages that brokers took: events and messages."""
    control_bytes_share: float | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Both."""

    how: str
    plan: Plan
    capacity_msgs_s: float
    offered_msgs_s: float
    lifted_within_s: float
    """The bound: three periods of measuring."""
    with_fdcc: RunResult
    without_fdcc: RunResult
    feedback_of_matching: float
    """Feedback messages a second over what the least of the thesis's edges can match (epeer G4: at most 0.0167)."""

    @property
    def holds(self) -> bool:
        """Is it as it must be?"""
        first = KINDS[0].name
        lifted = self.with_fdcc.lifted_after_s
        return (
            self.with_fdcc.classes[first].keeps_deadline
            and not self.without_fdcc.classes[first].keeps_deadline
            and lifted is not None
            and lifted <= self.lifted_within_s
            and self.feedback_of_matching <= THESIS_FEEDBACK
        )


THESIS_FEEDBACK: Final = 435 / 26015
MATCHING_MSGS_S: Final = 20_000.0
"""The least that the thesis gives an edge (epeer §3)."""
LIFTED_PERIODS: Final = 3
SETTLED_S: Final = 15.0


def percentile(sorted_values: list[float], share: float) -> float | None:
    """The least value that so many are not above; None of nothing."""
    if not sorted_values:
        return None
    return sorted_values[min(len(sorted_values) - 1, max(0, -(-len(sorted_values) * round(share * 1000) // 1000) - 1))]


def class_result(
    kind: TrafficKind, came: list[tuple[float, float]], *, offered: int, held_back: int, expected: int
) -> ClassResult:
    """What became of a class: when its events were published, in seconds behind the cut, and how long they took.

    ``expected``: so many should have come.
    """
    delays_s = sorted(delay for _, delay in came)
    settled = sorted(delay for at_s, delay in came if at_s >= SETTLED_S)
    # What never came is later than anything that did.
    missing = max(0, expected - len(delays_s))
    p99 = percentile([*delays_s, *([float("inf")] * missing)], 0.99)
    return ClassResult(
        delay_s=kind.delay_s,
        utility=round(kind.utility, 4),
        offered=offered,
        held_back=held_back,
        delivered=len(delays_s),
        p50_s=percentile(delays_s, 0.5),
        p99_s=None if p99 is None or p99 == float("inf") else p99,
        p99_settled_s=percentile(settled, 0.99),
        max_s=delays_s[-1] if delays_s else None,
        late=sum(delay > kind.delay_s for delay in delays_s),
        keeps_deadline=p99 is not None and p99 <= kind.delay_s,
    )


def judge(attributes: Mapping[str, Value]) -> float | None:
    """What an event is worth to every subscriber here."""
    return keyword_utility(INTERESTS, str(attributes.get("keywords", "")).split())


def report(plan: Plan, how: str, with_fdcc: RunResult, without_fdcc: RunResult) -> Report:
    """Both runs beside each other."""
    return Report(
        how=how,
        plan=plan,
        capacity_msgs_s=plan.capacity_bytes_s / plan.event_bytes,
        offered_msgs_s=plan.msgs_s,
        lifted_within_s=LIFTED_PERIODS * 1.0,
        with_fdcc=with_fdcc,
        without_fdcc=without_fdcc,
        feedback_of_matching=with_fdcc.feedback_msgs_s / plan.edges / MATCHING_MSGS_S,
    )
