"""Is a difference between pairs more than chance? Wilcoxon's signed-rank test, as R's ``wilcox.test`` does it.

Pairs that are equal are left out, ties share their rank. Few pairs without ties are counted out exactly; else the sum
of the ranks is taken for normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import erfc, sqrt
from typing import Final, Literal

import msgspec

Side = Literal["two-sided", "less", "greater"]

EXACT_BELOW: Final = 50
"""So many pairs are taken for normal, as in R."""


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """What the test found."""

    pairs: int
    """Those that differ."""

    sum_above: float
    """Of the ranks of positive differences: W, which R calls V."""

    mean: float
    """What it would be by chance."""

    deviation: float
    """Its standard deviation, by chance."""

    z: float
    """By how many deviations it is off, without the correction for continuity."""

    p: float
    """How likely chance alone is at least so far off, to this side."""


def signed_rank(differences: Sequence[float], *, side: Side = "two-sided", is_corrected: bool = True) -> Ranked:
    """Is the median of these differences zero? ``side``: what it is, if not; ``is_corrected``: for continuity."""
    known = sorted((one for one in differences if one != 0.0), key=abs)
    count = len(known)
    ranks: list[float] = []
    tied = 0
    for _, group in groupby(known, key=abs):
        size = len(list(group))
        ranks += [len(ranks) + (size + 1) / 2] * size
        tied += size**3 - size
    above = sum(rank for rank, one in zip(ranks, known, strict=True) if one > 0.0)
    mean = count * (count + 1) / 4
    deviation = sqrt(count * (count + 1) * (2 * count + 1) / 24 - tied / 48)
    z = (above - mean) / deviation if deviation else 0.0
    if count < EXACT_BELOW and not tied:
        p = _exact_p(round(above), count, side)
    else:
        p = _normal_p(above - mean, deviation, side, 0.5 if is_corrected else 0.0)
    return Ranked(pairs=count, sum_above=above, mean=mean, deviation=deviation, z=z, p=p)


def _normal_p(off: float, deviation: float, side: Side, correction: float) -> float:
    if not deviation:
        return 1.0
    match side:
        case "greater":
            return _tail((off - correction) / deviation)
        case "less":
            return _tail(-(off + correction) / deviation)
        case "two-sided":
            return min(1.0, 2 * _tail((abs(off) - correction) / deviation))


def _tail(z: float) -> float:
    """How likely is more than z?"""
    return erfc(z / sqrt(2)) / 2


def _exact_p(above: int, count: int, side: Side) -> float:
    """All signs are as likely: of how many ways is the sum as far off?"""
    ways = [1]
    for rank in range(1, count + 1):
        ways = [
            (ways[at] if at < len(ways) else 0) + (ways[at - rank] if at >= rank else 0)
            for at in range(len(ways) + rank)
        ]
    total = 1 << count
    upper, lower = sum(ways[above:]) / total, sum(ways[: above + 1]) / total
    match side:
        case "greater":
            return upper
        case "less":
            return lower
        case "two-sided":
            return min(1.0, 2 * min(upper, lower))
