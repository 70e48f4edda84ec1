"""How well are subscribers served? Quality of experience in all the ways that epeer E12 asks for.

A subscriber is content with a publisher as far as its events say what interests the subscriber (Eq 8). Over many events
that is an expectation, which is known: words are drawn evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil, floor
from statistics import fmean

import msgspec

from tidewire.papers.epeer.workload import SAID, WORDS
from tidewire.simulator.rates import Traffic


@cache
def expected_utility(wanted: int, fitting: float) -> float:
    """Eq 8 on average, for one who wants so many words of its class, of events of which this share are such words.

    Where a share of the words is no whole number, it is the one above as often as the one below.
    """
    return fmean(
        _mean_square(wanted, fit) / (wanted * said)
        for said in range(SAID[0], SAID[1] + 1)
        for fit in (floor(said * fitting), ceil(said * fitting))
    )


def _mean_square(wanted: int, fit: int) -> float:
    """Of how many words meet, when so many of all are wanted, and so many are said."""
    share = wanted / WORDS
    return fit * share * (1 - share) * (WORDS - fit) / (WORDS - 1) + (fit * share) ** 2


class Experience(msgspec.Struct, frozen=True, kw_only=True):
    """What subscribers have of it."""

    heard: float
    """Eq 5 and 6: the mean over subscribers of the mean over publishers, of those who hear any."""

    everybody: float
    """The same; who hears nothing counts as 0."""

    by_events: float
    """The same as the first; a publisher counts by the events that come from it."""

    utility_s: float
    """Of all events that are delivered in a second, added up."""

    starved: int
    """Subscribers who hear nothing."""


class Opinions:
    """What each subscriber thinks of each publisher of its class, once for all."""

    def __init__(self, *, fitting: Mapping[str, float], wanted: Mapping[str, int]) -> None:
        self._fitting, self._wanted = fitting, wanted

    def utilities(self, traffic: Traffic, source: str) -> list[float]:
        """Of its subscribers, of this publisher."""
        return [expected_utility(self._wanted[one], self._fitting[source]) for one in traffic.subscribers]

    def of_source(self, traffic: Traffic, source: str) -> float:
        """On average: Eq 2 with equal weights."""
        return fmean(self.utilities(traffic, source))

    def of_class(self, traffic: Traffic, rates: Mapping[str, float]) -> tuple[float, float, float, int]:
        """Sums over its subscribers, when its publishers publish so much.

        Of Eq 6, of the same by events, of utility per second; and how many hear anybody.
        """
        loud = {name: rate for name, rate in rates.items() if rate > 0.0}
        if not loud:
            return 0.0, 0.0, 0.0, 0
        by_source = {name: self.utilities(traffic, name) for name in loud}
        total = sum(loud.values())
        equal = sum(sum(one) for one in by_source.values()) / len(loud)
        weighted = sum(sum(by_source[name]) * rate for name, rate in loud.items())
        return equal, weighted / total, weighted, len(traffic.subscribers)


def experience(sums: list[tuple[float, float, float, int]], *, subscribers: int) -> Experience:
    """Of all classes together."""
    hearing = sum(one[3] for one in sums)
    equal = sum(one[0] for one in sums)
    return Experience(
        heard=equal / hearing if hearing else 0.0,
        everybody=equal / subscribers if subscribers else 0.0,
        by_events=sum(one[1] for one in sums) / hearing if hearing else 0.0,
        utility_s=sum(one[2] for one in sums),
        starved=subscribers - hearing,
    )
