"""One run with resources short: classes come, cables break, and are repaired (epeer §4.1).

Balancing is ``drd`` in all runs; what is compared is whether traffic gives way, and by which rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import fmean
from typing import Final, Literal

import msgspec

from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.drd.policies import policy
from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.model.ids import Nanoseconds
from tidewire.papers.epeer.quality import Experience, Opinions, experience
from tidewire.papers.epeer.workload import HEAD, NOISE, THESIS, Phases, limited
from tidewire.simulator.rate_drd import RateDrd
from tidewire.simulator.rate_fdcc import RateFdcc
from tidewire.simulator.rate_moves import Moves
from tidewire.simulator.rates import Machine, Rates

CALM_LAST_S: Final = 100
ANSWERED_S: Final = 20
"""What is compared: so much of the calm, and the damage when so much of it has passed."""

LOOK_S: Final = 10
"""How often it is asked how subscribers are served: that changes with limits alone."""

QUEUE_BYTES_MAX: Final = 256e6
"""Of each broker: what waits longer than that is of use to nobody."""

HIGH: Final = 0.95
PERIOD_S: Final = 10
"""To decide anew in every second costs most of a run, and changes nothing: the rates are the same on average."""


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The load of the edges with and without limits, on average: a share of what each can do."""

    offered: float
    """As if nobody were limited."""

    admitted: float
    offered_capped: float
    admitted_capped: float
    """The same; no second counts as more than all that a broker can do."""

    @property
    def share(self) -> float:
        """Of the offered load, what is cut."""
        return 1 - self.admitted / self.offered if self.offered else 0.0

    @property
    def capped_share(self) -> float:
        """The same, of what a broker can do."""
        return 1 - self.admitted_capped / self.offered_capped if self.offered_capped else 0.0

    @property
    def points(self) -> float:
        """The difference itself."""
        return self.offered - self.admitted


class Trace(msgspec.Struct, frozen=True):
    """Second by second."""

    at_s: list[float] = []
    output: dict[str, list[float]] = {}
    experience: list[Experience] = []
    late: list[float] = []
    """The share of subscribers whose events come too late, or not at all."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run."""

    seed: int
    before: Experience
    after: Experience
    output: Cut
    input: Cut
    matching: Cut
    trigger_s: int
    """From the damage to the first limit; -1: there was none."""

    highest: float
    """The mean output of the edge that has most to send, behind it."""

    highest_10s: float
    """The highest mean of ten seconds in a row, of any edge."""

    lifted_s: int
    """From the repair until the last limit is lifted; -1: not at all."""

    updates_s: float
    """Limits told in a second, while they hold."""

    late: float
    """While there is damage: the share of subscribers whose events come too late, or not at all."""

    feedback: float
    """Feedback in a second, as a share of what the first edge can match."""

    offloads: int
    subscribers: int
    trace: Trace | None = None

    @property
    def gain(self) -> float:
        """Of the quality of experience, as a share of what it was."""
        return self.after.heard / self.before.heard - 1


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What to run."""

    seed: int
    level: float = 0.6
    tiers: bool = False
    order: Literal["class", "publisher"] = "class"
    period_s: int = PERIOD_S
    """How often limits are decided anew while they hold."""

    phases: Phases = THESIS
    is_limiting: bool = True
    is_traced: bool = False


def play(run: Run) -> Outcome:
    """Do it."""
    return _Play(run).outcome()


class _Play:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._phases = phases = run.phases
        self._before = range(max(101, phases.trouble_s - CALM_LAST_S), phases.trouble_s)
        self._after = range(phases.trouble_s + ANSWERED_S, phases.calm_s)
        self._work = work = limited(run.seed, level=run.level)
        self._opinions = Opinions(fitting=work.fitting, wanted=work.wanted)
        self._rates = rates = Rates(
            HEAD,
            work.machines,
            work.traffic,
            noise=NOISE,
            chance=Random(f"epeer/noise/{run.seed}"),
            queue_bytes_max=QUEUE_BYTES_MAX,
        )
        self._moves = Moves(rates, Random(f"epeer/moves/{run.seed}"))
        chance = Random(f"epeer/policy/{run.seed}")
        self._cluster = RateDrd(rates, self._moves, policy("drd", DrdConfig(), chance=chance))
        config = FdccConfig(policy="fdcc", tiers=run.tiers, order=run.order)
        self._fdcc = RateFdcc(rates, config, lambda traffic, source: sum(self._opinions.utilities(traffic, source)))
        self._loads: list[tuple[dict[str, tuple[float, float, float]], dict[str, tuple[float, float, float]]]] = []
        self._outputs: dict[str, list[float]] = {edge: [] for edge in rates.edges}
        self._experiences: dict[Literal["before", "after"], list[Experience]] = {"before": [], "after": []}
        self._late: list[float] = []
        self._trigger_s = self._lifted_s = -1
        self._trace = Trace([], {edge: [] for edge in rates.machines}, [], [])
        for second in range(1, phases.end_s + 1):
            self._second(second)

    def _second(self, second: int) -> None:
        rates, now_ns = self._rates, Nanoseconds(second * 1_000_000_000)
        self._moves.run(now_ns)
        if second <= len(rates.traffic):
            rates.join(second - 1, self._cluster.place(second - 1, now_ns=now_ns))
        if second == self._phases.trouble_s:
            rates.machines = {name: _left(one, self._work.left[name]) for name, one in self._work.machines.items()}
        if second == self._phases.calm_s:
            rates.machines = dict(self._work.machines)
        rates.advance()
        if (
            self._fdcc.controller.mode != "limited"
        ):  # one or the other (epeer §2.12): what is throttled is no load to move
            self._cluster.second(now_ns)
        if self._run.is_limiting:
            self._limit(second, now_ns)
        self._look(second)

    def _limit(self, second: int, now_ns: Nanoseconds) -> None:
        limits = self._rates.limits
        was_limited = bool(limits)
        is_due = second % self._run.period_s == 0 or second in (self._phases.trouble_s, self._phases.calm_s)
        self._fdcc.second(now_ns, is_short=self._cluster.is_short, is_due=is_due)
        if limits and self._trigger_s < 0:
            self._trigger_s = second - self._phases.trouble_s
        if was_limited and not limits and second >= self._phases.calm_s:
            self._lifted_s = second - self._phases.calm_s

    # -- what is seen --------------------------------------------------------------------------------------------------

    def _look(self, second: int) -> None:
        rates, run = self._rates, self._run
        used = rates.utilisations()
        if second in self._after:
            self._loads.append((used, rates.utilisations(rates.offered_totals())))
        if self._phases.trouble_s < second < self._phases.calm_s:
            self._late.append(self._late_share())
            for edge, outputs in self._outputs.items():
                outputs.append(used[edge][1])
        is_due = second % LOOK_S == 0
        if is_due or run.is_traced:
            seen = self._experience()
            if second in self._before:
                self._experiences["before"].append(seen)
            if second in self._after:
                self._experiences["after"].append(seen)
            if run.is_traced:
                self._trace.at_s.append(float(second))
                self._trace.experience.append(seen)
                self._trace.late.append(self._late_share())
                for name, values in self._trace.output.items():
                    values.append(used[name][1])

    def _experience(self) -> Experience:
        rates = self._rates
        come = [number for number, hosts in enumerate(rates.hosts) if hosts]
        sums = [
            self._opinions.of_class(
                rates.traffic[number],
                {one.name: rates.published_by(one.name) for one in rates.traffic[number].sources},
            )
            for number in come
        ]
        return experience(sums, subscribers=sum(len(rates.traffic[number].subscribers) for number in come))

    def _late_share(self) -> float:
        """Whose events wait longer than their class may; and those who get none at all."""
        rates, late = self._rates, 0
        delays = {name: queues.delay_s for name, queues in rates.queues.items()}
        for traffic, hosts, events in zip(rates.traffic, rates.hosts, rates.events, strict=True):
            for edge, there in hosts.items():
                if events <= 0.0 or delays[HEAD] + delays[edge] > traffic.delay_s:
                    late += len(there)
        return late / self._work.subscribers

    # -- what came of it -----------------------------------------------------------------------------------------------

    def outcome(self) -> Outcome:
        """All of it."""
        behind = max(0, self._trigger_s) + 10
        outputs = [values[behind:] for values in self._outputs.values()]
        limited_s = self._phases.calm_s - self._phases.trouble_s - max(0, self._trigger_s)
        return Outcome(
            seed=self._run.seed,
            before=_mean(self._experiences["before"]),
            after=_mean(self._experiences["after"]),
            input=self._cut(0),
            output=self._cut(1),
            matching=self._cut(2),
            trigger_s=self._trigger_s,
            highest=max(fmean(values) for values in outputs),
            highest_10s=max(max(_means(values, over=10)) for values in outputs),
            lifted_s=self._lifted_s,
            updates_s=self._fdcc.updates / limited_s,
            late=fmean(self._late),
            feedback=self._work.subscribers / self._work.machines[self._rates.edges[0]].matches_s,
            offloads=len(self._moves.sessions),
            subscribers=self._work.subscribers,
            trace=self._trace if self._run.is_traced else None,
        )

    def _cut(self, metric: int) -> Cut:
        pairs = [(one[edge][metric], other[edge][metric]) for one, other in self._loads for edge in self._rates.edges]
        return Cut(
            offered=fmean([offered for _, offered in pairs]),
            admitted=fmean([admitted for admitted, _ in pairs]),
            offered_capped=fmean([min(1.0, offered) for _, offered in pairs]),
            admitted_capped=fmean([min(1.0, admitted) for admitted, _ in pairs]),
        )


def _left(machine: Machine, share: float) -> Machine:
    return Machine(machine.input_bytes_s * share, machine.output_bytes_s * share, machine.matches_s)


def _means(values: Sequence[float], *, over: int) -> list[float]:
    """Of so many in a row."""
    return [fmean(values[at : at + over]) for at in range(len(values) - over + 1)]


def _mean(seen: Sequence[Experience]) -> Experience:
    def mean(of: Callable[[Experience], float]) -> float:
        return fmean([of(one) for one in seen])

    return Experience(
        heard=mean(lambda one: one.heard),
        everybody=mean(lambda one: one.everybody),
        by_events=mean(lambda one: one.by_events),
        utility_s=mean(lambda one: one.utility_s),
        starved=round(mean(lambda one: one.starved)),
    )
