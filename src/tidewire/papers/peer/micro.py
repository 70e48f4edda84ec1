"""peer/E3 to E11: what is changed in each, and what the thesis found (Figs. 5.23 to 5.57)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from tidewire.papers.peer.scene import parameters
from tidewire.papers.peer.sweeps import Line, Outcome, Point, Run, Sweep
from tidewire.papers.report import Claim

RATIO: Final = 0.1
DELAY_S: Final = 0.01
"""The local thresholds: of ratios, and of delays in seconds (peer D1)."""

WORLD_S: Final = 6000.0
"""So long run clusters that balance with each other."""

_SPREADS: Final[dict[str, Callable[[Outcome], float]]] = {
    "input": lambda one: one.input_spread,
    "output": lambda one: one.output_spread,
    "delay / 0.1 s": lambda one: one.delay_spread_s / 0.1,
}


def _spreads(mark: str, figures: str) -> Line:
    return Line(f"{mark}-spread", f"{mark.upper()}: standard deviation over the edges ({figures})", "", _SPREADS)


def _convergence(mark: str, figures: str) -> Line:
    title = f"{mark.upper()}: convergence ({figures})"
    return Line(f"{mark}-convergence", title, "s", {"converged": lambda one: one.lasted_s})


def _overhead(mark: str, figures: str) -> Line:
    return Line(
        f"{mark}-overhead", f"{mark.upper()}: messages of all ({figures})", "%", {"share": lambda o: 100 * o.overhead}
    )


def _errors(mark: str, figures: str) -> Line:
    of: dict[str, Callable[[Outcome], float]] = {
        "input": lambda one: one.input_error,
        "output": lambda one: one.output_error,
    }
    return Line(f"{mark}-error", f"{mark.upper()}: predicted less measured ({figures})", "", of)


def _by_value(points: list[Point], of: Callable[[Outcome], float], form: str = ".3f") -> str:
    """As in ``2: 0.031, 3: 0.027``."""
    return ", ".join(f"{one.value:g}: {one.mean(of):{form}}" for one in points)


def _when(points: list[Point]) -> str:
    found = ((one.value, one.converged_s) for one in points)
    return ", ".join(f"{value:g}: {'never' if at_s is None else f'{at_s:,.0f} s'}" for value, at_s in found)


def _within(mark: str, points: list[Point], of: Callable[[Outcome], float], limit: float, what: str) -> Claim:
    return Claim(
        claim=f"{mark}: the deviation of {what} is below its threshold at all points",
        paper="below",
        measured=_by_value(points, of, ".4f" if limit < RATIO else ".3f"),
        tolerance=f"below {limit:g} each",
        holds=all(one.mean(of) < limit for one in points),
    )


def _even(mark: str, points: list[Point]) -> list[Claim]:
    return [
        _within(mark, points, lambda one: one.input_spread, RATIO, "input utilisation"),
        _within(mark, points, lambda one: one.delay_spread_s, DELAY_S, "matching delay"),
    ]


def _grows(claim: str, points: list[Point], *, paper: str, per: float, at_most_s: float) -> Claim:
    """Convergence, from the first point to the last: by how much for ``per`` more?"""
    times = [one.converged_s for one in points]
    known = [one for one in times if one is not None]
    steps = max((points[-1].value - points[0].value) / per, 1.0)
    return Claim(
        claim=claim,
        paper=paper,
        measured=_when(points),
        tolerance=f"all converge, the last at most {at_most_s:,.0f} s later for each {per:g}",
        holds=len(known) == len(times) and known[-1] - known[0] <= at_most_s * steps,
    )


# -- one cluster: E3 to E8 ---------------------------------------------------------------------------------------------


def _judge_subscribers(points: list[Point]) -> list[Claim]:
    errors = [one.mean(lambda o: o.input_error) for one in points]
    return [
        _grows(
            "E3: convergence takes longer with more subscribers",
            points,
            paper="1,000 s for each 2,000, of which they join for 500 s",
            per=2000,
            at_most_s=1500,
        ),
        *_even("E3", points),
        Claim(
            claim="E3: predictions are as good with many subscribers as with few",
            paper="the error does not depend on their number",
            measured=_by_value(points, lambda one: one.input_error),
            tolerance="at most 0.05 apart",
            holds=max(errors) - min(errors) <= 0.05,
        ),
    ]


def _judge_idle(points: list[Point]) -> list[Claim]:
    later = [one.converged_s for one in points if one.value >= 0.2]
    return [
        *_even("E4", points),
        Claim(
            claim="E4: with a fifth of idle subscribers or more it converges soon after the last has joined",
            paper="600 s to 800 s after 1,010 s",
            measured=_when(points),
            tolerance="by 1,810 s",
            holds=all(one is not None and one <= 1810 for one in later),
        ),
    ]


def _judge_edges(points: list[Point]) -> list[Claim]:
    delays = [one.mean(lambda o: o.delivery_s) for one in points]
    return [
        Claim(
            claim="E5: each further edge makes delivery faster",
            paper="it falls with each",
            measured=_by_value(points, lambda one: one.delivery_s),
            tolerance="the last fastest, none more than 10 % slower than the one before",
            holds=delays[-1] == min(delays) and all(now <= 1.1 * before for before, now in pairwise(delays)),
        ),
        *_even("E5", points),
        _grows(
            "E5: further edges do not delay convergence much",
            points[1:],
            paper="it jumps from two to three, and is nearly flat then",
            per=1,
            at_most_s=200,
        ),
    ]


def _judge_samples(points: list[Point]) -> list[Claim]:
    best = [one for one in points if 10 <= one.value <= 50]
    few, many = points[0], points[-1]
    error = max(abs(one.mean(lambda o: o.input_error)) for one in best)
    return [
        Claim(
            claim="E6: from 10 to 50 samples predict the input well",
            paper="nearly 0 at 10, about 0.07 at 50",
            measured=_by_value(points, lambda one: one.input_error),
            tolerance="at most 0.07 off from 10 to 50",
            holds=error <= 0.07,
        ),
        Claim(
            claim="E6: many samples delay convergence, few do not",
            paper="it takes clearly longer above 100",
            measured=_when(points),
            tolerance="longer with the most than with the fewest",
            holds=many.mean(lambda o: o.lasted_s) >= few.mean(lambda o: o.lasted_s),
        ),
        Claim(
            claim="E6: the more samples, the longer the first edge is overloaded",
            paper="it grows, little below 50",
            measured=_by_value(points, lambda one: one.overloaded_s, ",.0f"),
            tolerance="longer with the most than with the fewest",
            holds=many.mean(lambda o: o.overloaded_s) >= few.mean(lambda o: o.overloaded_s),
        ),
    ]


def _judge_thresholds(points: list[Point]) -> list[Claim]:
    wide = [one for one in points if one.value >= 0.08]
    return [
        Claim(
            claim="E7: the deviation of input utilisation stays below the threshold",
            paper="below it, at most 0.25 even with 0.7",
            measured=_by_value(points, lambda one: one.input_spread),
            tolerance="below it from 0.08 on, and at most 0.25",
            holds=all(one.mean(lambda o: o.input_spread) <= min(one.value, 0.25) for one in wide),
        ),
        Claim(
            claim="E7: with 0.08 and more it comes to rest",
            paper="fewer than 40 sessions; with 0.04 and less it never does",
            measured=_by_value(points, lambda one: one.sessions, ".0f"),
            tolerance="fewer than 40 from 0.08 on",
            holds=all(one.mean(lambda o: o.sessions) < 40 for one in wide),
        ),
    ]


def _judge_period(points: list[Point]) -> list[Claim]:
    shares = [one.mean(lambda o: o.overhead) for one in points]
    return [
        _grows(
            "E8: the rarer edges tell their load, the later they converge",
            points,
            paper="about 200 s for each 100 s",
            per=100,
            at_most_s=400,
        ),
        Claim(
            claim="E8: and the fewer messages there are",
            paper="less than 0.6 % with 20 s, 0.1 % with 120 s",
            measured=_by_value(points, lambda one: 100 * one.overhead, ".2f"),
            tolerance="less with the longest period than with the shortest",
            holds=shares[-1] < shares[0],
        ),
    ]


# -- several clusters: E9 to E11 ---------------------------------------------------------------------------------------


def _judge_clusters(points: list[Point]) -> list[Claim]:
    longest = points[-1]
    beyond = sum(one.mean(lambda o: sum(list(o.counts.values())[4:])) for one in points[-1:])
    fourth = longest.mean(lambda o: [*o.highest.values(), 0.0, 0.0, 0.0][3])
    near = [one.mean(lambda o: o.delivery_s) for one in points]
    return [
        Claim(
            claim="E9: clusters far from the first one get no subscribers",
            paper="B40's indices never exceed 0.15, so B50 to B80 have none",
            measured=f"B40 {fourth:.2f} at most, {beyond:.0f} subscribers beyond it",
            tolerance="none, as long as B40 is below 0.15",
            holds=beyond == 0 or fourth >= 0.15,
        ),
        Claim(
            claim="E9: a second cluster makes delivery faster, those beyond the fourth do not",
            paper="from three hops on it is flat",
            measured=_by_value(points, lambda one: one.delivery_s),
            tolerance="less with the most clusters than with one",
            holds=near[-1] < near[0],
        ),
    ]


def _judge_global(points: list[Point]) -> list[Claim]:
    inputs = [one.mean(lambda o: o.input_spread) for one in points]
    met = [one.mean(lambda o: o.cluster_sessions) for one in points]
    return [
        Claim(
            claim="E10: the deviation of input utilisation does not grow with the threshold",
            paper="it does not",
            measured=_by_value(points, lambda one: one.input_spread),
            tolerance="at most 0.1 more with the widest than with the narrowest",
            holds=inputs[-1] - inputs[0] <= 0.1,
        ),
        Claim(
            claim="E10: the wider the threshold, the fewer sessions between clusters",
            paper="they become fewer",
            measured=_by_value(points, lambda one: one.cluster_sessions, ".1f"),
            tolerance="not more with the widest than with the narrowest",
            holds=met[-1] <= met[0],
        ),
    ]


def _judge_global_period(points: list[Point]) -> list[Claim]:
    shares = [one.mean(lambda o: o.overhead) for one in points]
    times = [one.converged_s for one in points]
    known = [one for one in times if one is not None]
    met = [one.mean(lambda o: o.cluster_sessions) for one in points]
    return [
        Claim(
            claim="E11: overhead does not depend on how often clusters tell their load",
            paper="it does not",
            measured=_by_value(points, lambda one: 100 * one.overhead, ".2f"),
            tolerance="at most 0.1 % apart",
            holds=max(shares) - min(shares) <= 0.001,
        ),
        Claim(
            claim="E11: nor does convergence",
            paper="it does not; about 6 sessions between clusters",
            measured=f"{_when(points)}; {min(met):.0f} to {max(met):.0f} sessions",
            tolerance="all converge, the slowest within twice the fastest",
            holds=len(known) == len(times) and max(known) <= 2 * min(known),
        ),
    ]


def _first_edge(mark: str, figures: str) -> Line:
    of: dict[str, Callable[[Outcome], float]] = {"B1": lambda one: one.input_max}
    return Line(f"{mark}-input-max", f"{mark.upper()}: B1's highest input utilisation ({figures})", "I_r", of)


def _delivery(mark: str, figures: str) -> Line:
    title = f"{mark.upper()}: delivery delay ({figures})"
    return Line(f"{mark}-delivery", title, "s", {"delay": lambda one: one.delivery_s})


def _meetings(mark: str, figures: str) -> Line:
    of: dict[str, Callable[[Outcome], float]] = {"between clusters": lambda one: one.cluster_sessions}
    return Line(f"{mark}-sessions", f"{mark.upper()}: sessions ({figures})", "", of)


SWEEPS: Final = (
    Sweep(
        id="peer/E3",
        axis="subscribers",
        # The edges of Table 5.3 are full with about 4,500.
        values=(1000, 2000, 3000, 4000),
        quick=(1000, 2000),
        run=lambda value: Run(value=value, subscribers=round(value), join_rate=4.0, end_s=4000.0),
        judge=_judge_subscribers,
        lines=(_convergence("e3", "Fig. 5.23"), _spreads("e3", "Figs. 5.24, 5.25"), _errors("e3", "Figs. 5.26, 5.27")),
    ),
    Sweep(
        id="peer/E4",
        axis="share of idle subscribers",
        values=(0.0, 0.2, 0.4, 0.6, 0.8),
        quick=(0.0, 0.4),
        run=lambda value: Run(value=value, idle_share=value),
        judge=_judge_idle,
        lines=(_spreads("e4", "Figs. 5.28, 5.29"), _convergence("e4", "Fig. 5.30")),
    ),
    Sweep(
        id="peer/E5",
        axis="edges",
        values=(2, 3, 4, 5, 6, 8),
        quick=(2, 4),
        run=lambda value: Run(value=value, layout="edges", size=round(value)),
        judge=_judge_edges,
        lines=(_delivery("e5", "Fig. 5.31"), _spreads("e5", "Figs. 5.32, 5.33"), _convergence("e5", "Fig. 5.34")),
    ),
    Sweep(
        id="peer/E6",
        axis="samples",
        values=(1, 5, 10, 20, 50, 100, 200),
        quick=(10, 100),
        run=lambda value: Run(value=value, balance=parameters(press_samples=round(value))),
        judge=_judge_samples,
        lines=(_errors("e6", "Figs. 5.35, 5.36"), _convergence("e6", "Fig. 5.37"), _first_edge("e6", "Fig. 5.38")),
    ),
    Sweep(
        id="peer/E7",
        axis="threshold",
        values=(0.02, 0.04, 0.08, 0.1, 0.2, 0.4, 0.7),
        quick=(0.1, 0.4),
        run=lambda value: Run(value=value, balance=parameters(local_ratio=value, local_delay=value)),
        judge=_judge_thresholds,
        lines=(
            _spreads("e7", "Figs. 5.40, 5.41"),
            Line("e7-sessions", "E7: sessions (Fig. 5.42)", "", {"sessions": lambda one: one.sessions}),
            _overhead("e7", "Fig. 5.43"),
        ),
    ),
    Sweep(
        id="peer/E8",
        axis="period, s",
        values=(20, 30, 60, 120, 240),
        quick=(30, 120),
        run=lambda value: Run(value=value, balance=parameters(local_pie_s=value)),
        judge=_judge_period,
        lines=(_convergence("e8", "Fig. 5.44"), _first_edge("e8", "Fig. 5.45"), _overhead("e8", "Fig. 5.46")),
    ),
    Sweep(
        id="peer/E9",
        axis="clusters",
        values=(1, 2, 3, 4, 6, 8),
        quick=(1, 5),
        run=lambda value: Run(value=value, layout="chain", size=round(value), end_s=WORLD_S),
        judge=_judge_clusters,
        lines=(_delivery("e9", "Fig. 5.47"), _convergence("e9", "Fig. 5.48"), _spreads("e9", "Figs. 5.49 to 5.52")),
    ),
    Sweep(
        id="peer/E10",
        axis="threshold",
        values=(0.1, 0.15, 0.2, 0.3, 0.4),
        quick=(0.15, 0.4),
        run=lambda value: Run(
            value=value, layout="star", end_s=WORLD_S, balance=parameters(global_ratio=value, global_delay=value)
        ),
        judge=_judge_global,
        lines=(_spreads("e10", "Figs. 5.53, 5.54"), _meetings("e10", "Fig. 5.55")),
    ),
    Sweep(
        id="peer/E11",
        axis="period, s",
        values=(30, 60, 120, 240),
        quick=(60, 240),
        run=lambda value: Run(value=value, layout="star", end_s=WORLD_S, balance=parameters(global_pie_s=value)),
        judge=_judge_global_period,
        lines=(_overhead("e11", "Fig. 5.56"), _convergence("e11", "Fig. 5.57"), _meetings("e11", "Fig. 5.57")),
    ),
)
