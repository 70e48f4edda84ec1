"""One thing is changed from run to run, and all else is E1 or E2: how the sweeps of peer §10 are run, E3 to E11.

A point is the mean of some runs with different seeds. Runs are done side by side, and know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final, Literal

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.progress import Tell
from tidewire.papers.parallel import run_all
from tidewire.papers.peer import local
from tidewire.papers.peer.clusters import (
    STAR,
    Table,
    chain,
    clusters,
    clusters_converged_s,
    meetings,
    of_cluster,
    star,
    subscribers,
)
from tidewire.papers.peer.measure import converged_s, errors, mean_spread, within
from tidewire.papers.peer.scene import Cluster, Scene, Seen, parameters
from tidewire.papers.peer.workload import workload
from tidewire.papers.report import Claim, Figure, Options, Report, Series

SEEDS: Final = 3
"""Runs for each point, as in the thesis."""

QUICK: Final = 20
"""So many times fewer subscribers, at edges so much weaker."""

JOIN_S: Final = 10.0
STEADY_S: Final = 500.0
"""The last of a run: what is said of its steady state is from there."""

_EDGE: Final = (500, 64, 3)
_HEAD: Final = (2000, 32, 10)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All that one run needs."""

    value: float
    """Where it is in the sweep."""

    seed: int = 1
    layout: Literal["E1", "edges", "chain", "star"] = "E1"
    size: int = 4
    """Edges, or clusters, where that can be chosen."""

    subscribers: int = local.SUBSCRIBERS
    join_rate: float = 2.0
    idle_share: float = local.IDLE_SHARE
    end_s: float = 3000.0
    scale: int = 1
    balance: BalancingConfig = parameters()
    data: Path | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    value: float
    converged_s: float | None
    """None: not at all."""

    end_s: float
    input_spread: float
    output_spread: float
    delay_spread_s: float
    input_error: float
    """What was predicted for the donors, less what came, on average."""

    output_error: float
    sessions: int
    cluster_sessions: int
    overhead: float
    delivery_s: float
    input_max: float
    """Of the edge that all join."""

    overloaded_s: float
    """How long its input exceeded what it can do."""

    counts: dict[str, float]
    """Subscribers of each cluster in the end."""

    highest: dict[str, float]
    """The largest index of each cluster in steady state; matching delays in tenths of a second."""

    @property
    def lasted_s(self) -> float:
        """How long it took to converge; to the end, if it did not."""
        return self.end_s if self.converged_s is None else self.converged_s


class Point(msgspec.Struct, frozen=True):
    """The runs for one value."""

    value: float
    outcomes: list[Outcome]

    def mean(self, of: Callable[[Outcome], float]) -> float:
        """On average."""
        return fmean([of(one) for one in self.outcomes])

    @property
    def converged_s(self) -> float | None:
        """On average; None if one of them did not."""
        found = [one.converged_s for one in self.outcomes]
        known = [one for one in found if one is not None]
        return fmean(known) if len(known) == len(found) else None


class Line(msgspec.Struct, frozen=True):
    """One figure of a sweep."""

    name: str
    title: str
    unit: str
    of: Mapping[str, Callable[[Outcome], float]]


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment: which values, what follows from a value, and what the thesis says of the results."""

    id: str
    axis: str
    values: Sequence[float]
    quick: Sequence[float]
    run: Callable[[float], Run]
    judge: Callable[[list[Point]], list[Claim]]
    lines: Sequence[Line]

    def __call__(self, options: Options, tell: Tell) -> Report:
        """Run it."""
        runs = planned(self, options)
        found = run_all(outcome, runs, tell, stage=self.id)
        values = dict.fromkeys(run.value for run in runs)
        points = [Point(value, [one for one in found if one.value == value]) for value in values]
        first = runs[0]
        scaled = f", {first.scale} times fewer subscribers at edges so much weaker" if first.scale > 1 else ""
        notes = [f"{len(runs)} runs of {first.end_s:,.0f} s, {len(points[0].outcomes)} for each point{scaled}"]
        notes += [f"not converged: {self.axis} {one.value:g}" for one in points if one.converged_s is None]
        return Report(
            id=self.id,
            claims=self.judge(points),
            notes=notes,
            measured=_table(self, points),
            figures=[_figure(self, line, points) for line in self.lines],
        )


def planned(sweep: Sweep, options: Options) -> list[Run]:
    """All its runs."""
    made = []
    for value in sweep.quick if options.is_quick else sweep.values:
        run = sweep.run(value)
        scale = QUICK if options.is_quick else options.scale
        for seed in range(options.seed, options.seed + (options.runs or (1 if options.is_quick else SEEDS))):
            end_s = min(run.end_s, 1500.0) if options.is_quick else run.end_s
            made.append(msgspec.structs.replace(run, seed=seed, scale=scale, end_s=end_s, data=options.data))
    return made


def outcome(run: Run) -> Outcome:
    """Do it."""
    table = _clusters(run)
    names = [one.head for one in table]
    links = star(names) if run.layout == "star" else chain(names)
    count = run.subscribers // run.scale
    work = workload(seed=run.seed, subscribers=count, idle_share=run.idle_share, data=run.data)
    scene = Scene(table, links, work, balance=run.balance, is_balanced=True, seed=run.seed)
    joined = next(iter(table[0].edges))
    joined_s = JOIN_S + run.subscribers / run.join_rate
    scene.publish_from(5.0, names[0])
    scene.join(joined, JOIN_S, joined_s)
    scene.run(run.end_s)
    begin_s = min(joined_s, run.end_s - STEADY_S)
    if len(table) == 1:
        settled_s = converged_s(scene.looks, run.balance, begin_s=begin_s, end_s=run.end_s)
    else:
        settled_s = clusters_converged_s(scene, links, run.balance, begin_s=begin_s, end_s=run.end_s)
    return _seen(run, scene, joined, joined_s, settled_s)


def _clusters(run: Run) -> list[Cluster]:
    if run.layout == "E1":
        return [local.cluster(run.scale)]
    if run.layout == "star":
        return clusters(STAR, scale=run.scale)
    if run.layout == "edges":
        table: Table = {"B0": {f"B{number + 1}": _EDGE for number in range(run.size)}}
    else:
        table = {f"B{number}0": {f"B{number}1": _EDGE, f"B{number}2": _EDGE} for number in range(1, run.size + 1)}
    return clusters(table, head=_HEAD, scale=run.scale)


def _seen(run: Run, scene: Scene, joined: str, joined_s: float, settled_s: float | None) -> Outcome:
    steady = within(scene.looks, run.end_s - STEADY_S, run.end_s)
    found = [one for one in errors(scene, joining=joined, until_s=joined_s) if one.is_donor]
    sent = sum(look.delivered for look in steady)
    inputs = [look.edges[joined].input for look in scene.looks]
    return Outcome(
        value=run.value,
        converged_s=settled_s,
        end_s=run.end_s,
        input_spread=mean_spread(steady, lambda one: one.input),
        output_spread=mean_spread(steady, lambda one: one.output),
        delay_spread_s=mean_spread(steady, lambda one: one.delay_s),
        input_error=fmean([one.input for one in found]) if found else 0.0,
        output_error=fmean([one.output for one in found]) if found else 0.0,
        sessions=len([one for one in scene.sessions() if one.moved]),
        cluster_sessions=len(meetings(scene)),
        overhead=sum(look.overhead * look.delivered for look in steady) / max(1, sent),
        delivery_s=sum(look.delivery_s * look.delivered for look in steady) / max(1, sent),
        input_max=max(inputs),
        overloaded_s=sum(10.0 for one in inputs if one > 1.0),
        counts=subscribers(scene, scene.looks[-1:]),
        highest={
            one.head: max(fmean([of_cluster(one, look, value) for look in steady]) for value in _INDICES)
            for one in scene.clusters
        },
    )


_INDICES: Final[tuple[Callable[[Seen], float], ...]] = (
    lambda seen: seen.input,
    lambda seen: seen.output,
    lambda seen: seen.delay_s / 0.1,
)


def _table(sweep: Sweep, points: list[Point]) -> dict[str, float]:
    return {
        f"{label} at {sweep.axis} {one.value:g}": one.mean(of)
        for line in sweep.lines
        for label, of in line.of.items()
        for one in points
    }


def _figure(sweep: Sweep, line: Line, points: list[Point]) -> Figure:
    x = [one.value for one in points]
    series = [Series(name=label, x=x, y=[one.mean(of) for one in points]) for label, of in line.of.items()]
    return Figure(name=line.name, title=line.title, x_label=sweep.axis, y_label=line.unit, series=series)
