"""How much is an event worth to those who get it, and what follows for publishers and classes? Eq 1–8 of epeer §2.10.

All utilities are in [0, 1]. A *flow* is one publisher in one class (epeer E23).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf

import msgspec


def keyword_utility(interests: Collection[str], words: Collection[str]) -> float | None:
    """Eq 8: the share of the interests that is met, times the share of the words that meets one.

    None: without interests there is nothing to judge by, and nothing is said. Each word counts once.
    """
    wanted, said = dict.fromkeys(interests), dict.fromkeys(words)
    if not wanted:
        return None
    met = sum(word in wanted for word in said)
    return 0.0 if not said else met * met / (len(wanted) * len(said))


def clamped(utility: float) -> float:
    """Within [0, 1]; what is no number is worth nothing."""
    return min(1.0, max(0.0, utility)) if utility == utility else 0.0


def average(utilities: Iterable[float]) -> float | None:
    """Eq 1 (what a subscriber got from a publisher), Eq 3 (the publishers of a class), Eq 6 (those of a subscriber).

    None: of nothing there is no average.
    """
    known = list(utilities)
    return sum(known) / len(known) if known else None


class Judgement(msgspec.Struct, frozen=True, array_like=True):
    """What several subscribers think of one flow, summed up: Eq 2 stays exact however often sums are added up."""

    weighted: float = 0.0
    """ΣW·Ū."""
    count: float = 0.0
    """How many have spoken. One voice that is shared by several connections is a fraction at each."""

    def __add__(self, other: Judgement) -> Judgement:
        return Judgement(self.weighted + other.weighted, self.count + other.count)

    @property
    def utility(self) -> float | None:
        """Eq 2: of the publisher; None if nobody has spoken."""
        return clamped(self.weighted / self.count) if self.count > 0 else None


def judgement(utility: float, *, weight: float = 1.0, share: float = 1.0) -> Judgement:
    """What one subscriber says; ``share``: how much of a voice it has, if others speak with the same."""
    return Judgement(share * clamped(weight) * clamped(utility), share)


def importance(utility: float, *, subscribers: float, rate_msgs_s: float) -> float:
    """Eq 4, of a class: what is had for what is needed. What needs nothing comes before all else."""
    return utility * subscribers / rate_msgs_s if rate_msgs_s > 0 else inf


def experience(of_subscribers: Iterable[tuple[float, float]]) -> float | None:
    """Eq 5: the average of weight and experience (Eq 6) of the subscribers that heard anybody (epeer E12)."""
    known = list(of_subscribers)
    return sum(weight * one for weight, one in known) / len(known) if known else None
