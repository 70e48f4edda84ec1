"""One run with resources to spare: classes come, two bursts follow each other, then all is calm again (epeer §4.1).

Every policy meets the same workload and the same noise for one seed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Final, Protocol

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.drd.policies import DRIVEN_BY_HEADS, policy
from tidewire.model.errors import UnknownName
from tidewire.model.ids import Nanoseconds
from tidewire.papers.epeer.workload import BURST, HEAD, JOIN_S, NOISE, THESIS, Phases, surplus
from tidewire.simulator.rate_drd import RateDrd
from tidewire.simulator.rate_moves import Moves, Session
from tidewire.simulator.rate_peer import RatePeer
from tidewire.simulator.rates import Rates

POLICIES: Final = ("drd", "peer-lb", "peer-drd", "peer")
HIGH: Final = 0.95
PRESS_SAMPLES: Final = 500
"""Of ``peer``: with the usual 50 it would know next to nothing of each of an edge's 25 classes."""


class Balanced(Protocol):
    """A cluster that balances."""

    def place(self, traffic_class: int, *, now_ns: Nanoseconds) -> str:
        """Which edge do the subscribers of a new class get?"""

    def second(self, now_ns: Nanoseconds) -> None:
        """A second has passed."""


def balanced(name: str, rates: Rates, moves: Moves, *, seed: int, is_smoothed: bool = True) -> Balanced:
    """The policy of this name over these rates; UnknownName, if there is none such."""
    chance = Random(f"epeer/policy/{seed}")
    if name == "peer":
        return RatePeer(rates, moves, BalancingConfig(press_samples=PRESS_SAMPLES), chance)
    if name not in DRIVEN_BY_HEADS:
        raise UnknownName(name, what="policy", known=POLICIES)
    config = DrdConfig() if is_smoothed else DrdConfig(weights=(1.0,))
    return RateDrd(rates, moves, policy(name, config, chance=chance))


class Trace(msgspec.Struct, frozen=True):
    """The matching utilisation of each edge, second by second."""

    at_s: list[float]
    matching: dict[str, list[float]]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run. A phase's sessions and delays are those that began in it."""

    policy: str
    seed: int
    sessions: tuple[float, float, float, float]
    """In each phase: classes come; calm; bursts; calm again."""

    delay_ratios: tuple[float, float, float, float]
    """Od: the sum over those who moved of what it took over what their class may take."""

    moved: int
    overloaded_s: int
    """Seconds in which an edge had more to match than 0.95 of what it can, from the first burst on."""

    cured_s: int
    """So long after a burst, at most, some edge was still beyond 0.95, by mean rates."""

    detection: float
    """Detection messages of the first edge, as a share of what it can match."""

    subscribers: int
    trace: Trace | None = None

    @property
    def offloads(self) -> float:
        """Sessions, without those while classes come."""
        return sum(self.sessions[1:])

    @property
    def delay_ratio(self) -> float:
        """Od, without what came of it while classes come."""
        return sum(self.delay_ratios[1:])

    @property
    def delay_ratio_in_all(self) -> float:
        """Od."""
        return sum(self.delay_ratios)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What to run."""

    policy: str
    seed: int
    level: float = 0.78
    is_smoothed: bool = True
    """Does the load that decides hold the second before too (epeer §2.6), or the last one alone?"""

    phases: Phases = THESIS
    is_traced: bool = False


def play(run: Run) -> Outcome:
    """Do it."""
    work, phases = surplus(run.seed, level=run.level, phases=run.phases), run.phases
    rates = Rates(HEAD, work.machines, work.traffic, noise=NOISE, chance=Random(f"epeer/noise/{run.seed}"))
    moves = Moves(rates, Random(f"epeer/moves/{run.seed}"))
    cluster = balanced(run.policy, rates, moves, seed=run.seed, is_smoothed=run.is_smoothed)
    bursts = {one.at_s: one.classes for one in work.bursts}
    cure = _Cure(rates, phases)
    overloaded, trace = 0, Trace([], {edge: [] for edge in rates.edges})
    for second in range(1, phases.end_s + 1):
        now_ns = Nanoseconds(second * 1_000_000_000)
        moves.run(now_ns)
        if second <= len(work.traffic):
            rates.join(second - 1, cluster.place(second - 1, now_ns=now_ns))
        for number in bursts.get(second, ()):
            rates.factor[number] = BURST
        if second == phases.calm_s:
            rates.factor = [1.0] * len(rates.factor)
        rates.advance()
        cluster.second(now_ns)
        matching = {edge: used[2] for edge, used in rates.utilisations().items() if edge != HEAD}
        overloaded += second >= phases.trouble_s and max(matching.values()) > HIGH
        cure.look(second, began=second in bursts)
        if run.is_traced:
            trace.at_s.append(float(second))
            for edge, used in matching.items():
                trace.matching[edge].append(used)
    return Outcome(
        policy=run.policy,
        seed=run.seed,
        sessions=_by_phase(phases, moves.sessions, lambda _: 1.0),
        delay_ratios=_by_phase(phases, moves.sessions, lambda one: one.delay_ratio),
        moved=sum(len(one.moved) for one in moves.sessions),
        overloaded_s=overloaded,
        cured_s=cure.longest_s,
        detection=1 / work.machines[rates.edges[0]].matches_s,
        subscribers=work.subscribers,
        trace=trace if run.is_traced else None,
    )


class _Cure:
    """How long some edge has more to do than it should, after a burst: by mean rates, since noise comes and goes."""

    def __init__(self, rates: Rates, phases: Phases) -> None:
        self._rates, self._phases = rates, phases
        self._since_s: int | None = None
        self._changes = -1
        self._is_over = False
        self.longest_s = 0

    def look(self, second: int, *, began: bool) -> None:
        """A second is over; ``began``: with a burst."""
        if began:
            self._since_s = second
        if self._since_s is None or second >= self._phases.calm_s:
            return
        if began or self._rates.changes != self._changes:
            used = self._rates.utilisations(self._rates.mean_totals())
            self._is_over = any(used[edge][2] > HIGH for edge in self._rates.edges)
            self._changes = self._rates.changes
        if self._is_over:
            self.longest_s = max(self.longest_s, second - self._since_s + 1)


def _by_phase(
    phases: Phases, sessions: list[Session], amount: Callable[[Session], float]
) -> tuple[float, float, float, float]:
    begins = (0, JOIN_S + 1, phases.trouble_s, phases.calm_s, phases.end_s + 1)
    first, second, third, fourth = (
        sum(amount(one) for one in sessions if begin <= one.at_s < end) for begin, end in pairwise(begins)
    )
    return first, second, third, fourth
