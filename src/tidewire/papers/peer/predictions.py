"""What sessions were expected to do, and what they did: E1i of the thesis (peer §10, Fig. 5.14).

The thesis gives means, and so do we; a run has some fifteen sessions of donors, whose errors scatter by more than its
figures, so the interval of each mean is told too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, pi, sqrt, tan
from statistics import NormalDist, fmean, stdev
from typing import Final

from tidewire.papers.peer.measure import Error
from tidewire.papers.report import Claim

_PAPER: Final = {"input": (0.033, 0.016), "output": (0.0012, 0.015), "delay_share": (0.01, 0.01)}
"""By index: how far predictions were off on average, of donors and of acceptors."""
_NAMES: Final = {"input": "input utilisation", "output": "output utilisation", "delay_share": "matching delay"}


def student(freedom: int) -> float:
    """So many standard errors to either side hold a mean with 95 %: the t distribution's quantile of 97.5 %."""
    if freedom == 1:
        return tan(0.475 * pi)
    if freedom == 2:
        return 0.95 * sqrt(2 / (0.975 * 0.025)) / 2
    z = NormalDist().inv_cdf(0.975)
    # Fisher's series; with three degrees of freedom it is 0.1 % off, with more of them less.
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / float(freedom) ** power for power, term in enumerate(terms))


def half_interval(values: Sequence[float]) -> float:
    """Half of the 95 % interval of their mean; without end if there are fewer than two."""
    if len(values) < 2:
        return inf
    return student(len(values) - 1) * stdev(values) / sqrt(len(values))


def predicted(found: list[Error]) -> list[Claim]:
    """E1i: each index, of donors and of acceptors."""
    claims = []
    for index, is_donor, paper, values in _errors(found):
        mean, half = fmean(values) if values else 0.0, half_interval(values)
        deviation = stdev(values) if len(values) > 1 else 0.0
        claims.append(
            Claim(
                claim=f"E1i: the {'donor' if is_donor else 'acceptor'}'s {_NAMES[index]} is predicted well",
                paper=f"{paper:.2%} off on average",
                measured=f"{mean:+.2%} on average, {mean - half:+.2%} to {mean + half:+.2%} with 95 %"
                f" (± {deviation:.2%} in {len(values)} sessions)",
                tolerance=f"within {paper:.2%}",
                holds=bool(values) and abs(mean) <= paper,
            )
        )
    return claims


def prediction_figures(found: list[Error]) -> dict[str, float]:
    """What several runs can be judged by together."""
    figures: dict[str, float] = {}
    for index, is_donor, _, values in _errors(found):
        whose = f"{'donor' if is_donor else 'acceptor'}'s {_NAMES[index]}"
        figures[f"sessions compared, {whose}"] = len(values)
        figures[f"error of the {whose}, sum"] = sum(values)
        figures[f"error of the {whose}, sum of squares"] = sum(one * one for one in values)
    return figures


def _errors(found: list[Error]) -> Iterator[tuple[str, bool, float, list[float]]]:
    """Index, whether it is the donor's, the thesis's figure, and ours."""
    for index, papers in _PAPER.items():
        for is_donor, paper in zip((True, False), papers, strict=True):
            yield index, is_donor, paper, [getattr(one, index) for one in found if one.is_donor is is_donor]
