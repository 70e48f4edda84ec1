"""What comes out of some runs: means over their looks, lines to plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Protocol

from tidewire.papers.bad.scene import Look
from tidewire.papers.report import Figure, Series


class Run(Protocol):
    """What was seen of brokers and subscribers, simulated or live."""

    @property
    def looks(self) -> Sequence[Look]:
        """In the order of time."""

    @property
    def subscriptions(self) -> tuple[int, int]:
        """Back-end and front-end ones, at the end."""

    def since(self, at_s: float) -> Sequence[Look]:
        """From then on."""


def mean(runs: Sequence[Run], value: Callable[[Look], float], *, since_s: float) -> float:
    """Over the looks from then on, and over all runs."""
    return fmean(fmean(value(look) for look in run.since(since_s)) for run in runs)


def moves(runs: Sequence[Run], *, without: str = "") -> float:
    """Moves of a run, on average; without those of cycles in which this stage had its turn."""
    return fmean(sum(look.moves for look in run.looks if without not in look.stages) for run in runs)


def cov(look: Look) -> float:
    """After what was decided."""
    return look.after.cov


def peak(look: Look) -> float:
    """The highest load, after what was decided."""
    return look.after.max


def total(look: Look) -> float:
    """The load of all brokers together."""
    return look.after.mean * len(look.after.loads)


def balanced_s(run: Run) -> float:
    """When did the last subscriber move? 0 if none did."""
    return max((look.at_s for look in run.looks if look.moves), default=0.0)


def lines(name: str, title: str, y_label: str, runs: Mapping[str, Run], value: Callable[[Look], float]) -> Figure:
    """One line for each run."""
    series = [
        Series(name=policy, x=[look.at_s for look in run.looks], y=[value(look) for look in run.looks])
        for policy, run in runs.items()
    ]
    return Figure(name=name, title=title, x_label="s", y_label=y_label, series=series)


def by_broker(name: str, title: str, y_label: str, run: Run, value: Callable[[Look, int], float]) -> Figure:
    """One line for each broker: of many the first and the last, and some between."""
    count = len(run.looks[0].subscribers)
    shown = range(count) if count <= 5 else (0, 1, count // 2, count - 2, count - 1)
    series = [
        Series(name=f"b{j + 1}", x=[look.at_s for look in run.looks], y=[value(look, j) for look in run.looks])
        for j in shown
    ]
    return Figure(name=name, title=title, x_label="s", y_label=y_label, series=series)
