"""Who leaves the most loaded broker, and where to? Stage 2 of bad §4: LDM and SDM, one subscriber at a time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tidewire.placement.config import StageConfig
from tidewire.placement.loads import Loads


class Step(msgspec.Struct, frozen=True, gc=False):
    """One subscriber has been moved."""

    subscriber: int
    source: int
    to: int


Destination = Callable[[Loads, int, int, float], int | None]
"""Where should this subscriber of that broker go, with the mean as it is? None: nowhere."""


def lightest(loads: Loads, _subscriber: int, source: int, _mean: float) -> int | None:
    """LDM: to the least loaded broker."""
    others = (j for j in range(len(loads.loads)) if j != source)
    return min(others, key=lambda j: (loads.loads[j], j), default=None)


def most_similar(loads: Loads, subscriber: int, source: int, mean: float) -> int | None:
    """SDM: among those below the mean to the one that takes in most of what the subscriber gets anyway."""
    below = (j for j, load in enumerate(loads.loads) if load < mean and j != source)
    return min(below, key=lambda j: (-loads.similarity(subscriber, j), loads.loads[j], j), default=None)


MIGRATIONS: Final[dict[str, Destination]] = {"ldm": lightest, "sdm": most_similar}


class Ranks:
    """The subscribers of each broker, the heaviest first, then in the order of the snapshot."""

    def __init__(self, loads: Loads) -> None:
        self._weights = loads.weights
        self.of: list[list[tuple[float, int]]] = [[] for _ in loads.loads]
        for i, j in enumerate(loads.where):
            if self._weights[i] > 0:
                self.of[j].append((-self._weights[i], i))
        for one in self.of:
            one.sort()

    def move(self, i: int, *, source: int, to: int) -> None:
        """Keep them in order."""
        rank = (-self._weights[i], i)
        del self.of[source][bisect_left(self.of[source], rank)]
        insort(self.of[to], rank)


def migrate(loads: Loads, config: StageConfig, destination: Destination) -> Iterator[Step]:
    """Move subscribers until the loads are even enough, or no move helps; each one when it has been moved."""
    ranks = Ranks(loads)
    moves = 0
    while moves < config.moves_max:
        balance = loads.balance()
        if not (balance.cov > config.migrate_above and balance.mean > config.migrate_load_min):
            return
        source = loads.loads.index(balance.max)
        step = _next(loads, ranks, source, config=config, destination=destination, mean=balance.mean)
        if step is None:
            return
        loads.move(step.subscriber, step.to)
        ranks.move(step.subscriber, source=source, to=step.to)
        moves += 1
        yield step


def _next(
    loads: Loads, ranks: Ranks, source: int, *, config: StageConfig, destination: Destination, mean: float
) -> Step | None:
    """The heaviest whose move is valid: its destination stays below what the source is now."""
    most = loads.loads[source]
    for _, i in ranks.of[source]:
        to = destination(loads, i, source, mean)
        if to is None:
            return None
        after = loads.loads[to] + loads.rise(i, to)
        if after < most or (after == most and not config.is_strict):
            return Step(i, source, to)
    return None
