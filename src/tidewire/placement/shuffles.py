"""Where would everybody be, if places were chosen anew? Stage 3 of bad §4, and a way to it with far fewer moves.

``greedy`` (GSH) forgets who is where: by chance one in as many as there are brokers stays. ``sticky`` starts from
where everybody is: brokers above the mean give away subscribers that fit into the room below it, the heaviest first,
each to where it adds least; when no single move helps, two subscribers change places.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from heapq import heapify, heapreplace
from typing import Final

from tidewire.placement.config import StageConfig
from tidewire.placement.loads import Loads, LoadSnapshot
from tidewire.placement.migrations import Ranks

FITS_TRIED: Final = 48
"""Subscribers that are looked at for one move of a sticky shuffle: those whose weights are nearest to the best."""

Shuffle = Callable[[LoadSnapshot, StageConfig], Loads]
"""Everybody's place."""


def greedy(snapshot: LoadSnapshot, config: StageConfig) -> Loads:
    """GSH: the heaviest first, each to the least loaded broker; nobody's old place counts (bad §4.4).

    Those who get nothing yet would all go to the one that is least loaded in the end, and overload it as soon as they
    get something (bad §3 says so of newcomers): with ``spreads_idle`` they go to where there are the fewest.
    """
    loads = Loads(snapshot, is_empty=True)
    order = sorted(range(len(loads.weights)), key=lambda i: (-loads.weights[i], i))
    counts = [0] * len(loads.loads)
    heap = [(0.0, j) for j in range(len(loads.loads))]
    for i in order:
        if loads.weights[i] <= 0 and config.spreads_idle:
            break
        j = heap[0][1]
        loads.place(i, j)
        counts[j] += 1
        heapreplace(heap, (loads.loads[j], j))
    fewest = [(count, j) for j, count in enumerate(counts)]
    heapify(fewest)
    for i in order[sum(counts) :]:
        count, j = fewest[0]
        loads.place(i, j)
        heapreplace(fewest, (count + 1, j))
    return loads


def sticky(snapshot: LoadSnapshot, config: StageConfig) -> Loads:
    """As even as GSH, and nearly everybody stays (bad §7)."""
    loads = Loads(snapshot)
    ranks = Ranks(loads)
    for _ in range(config.moves_max):
        balance = loads.balance()
        if balance.cov <= config.sticky_cov:
            break
        source = loads.loads.index(balance.max)
        step = _best_move(loads, ranks, source, balance.mean) or _best_swap(loads, ranks, source)
        if step is None:
            break
        for i, to in step:
            ranks.move(i, source=loads.where[i], to=to)
            loads.move(i, to)
    return loads


SHUFFLES: Final[dict[str, Shuffle]] = {"gsh": greedy, "sticky": sticky}

_Steps = list[tuple[int, int]]


def _near(ranked: list[tuple[float, int]], weight: float) -> Iterator[int]:
    """Those whose weights are not above this, the heaviest first; then those just above."""
    at = bisect_left(ranked, (-weight, -1))
    for _, i in ranked[at : at + FITS_TRIED]:
        yield i
    for _, i in ranked[max(0, at - FITS_TRIED // 4) : at]:
        yield i


def _best_move(loads: Loads, ranks: Ranks, source: int, mean: float) -> _Steps | None:
    """The heaviest that brings neither broker past the mean; else what leaves the two of them lowest."""
    most = loads.loads[source]
    room = max((mean - load for load in loads.loads), default=0.0)
    wanted = min(most - mean, room)
    best: tuple[float, int, int] | None = None
    for i in _near(ranks.of[source], wanted):
        after, to = min((load + loads.rise(i, j), j) for j, load in enumerate(loads.loads) if j != source)
        left = most - loads.fall(i)
        if after <= mean <= left:
            return [(i, to)]
        found = (max(after, left), i, to)
        if found[0] < most and (best is None or found < best):
            best = found
    return None if best is None else [best[1:]]


def _best_swap(loads: Loads, ranks: Ranks, source: int) -> _Steps | None:
    """One of the source for a lighter one of another broker: what leaves the two of them lowest."""
    most = loads.loads[source]
    best: tuple[float, int, int, int] | None = None
    for to, load in sorted(enumerate(loads.loads), key=lambda one: (one[1], one[0])):
        if to == source or not load < most:
            continue
        for _, i in ranks.of[source][:FITS_TRIED]:
            for other in _near(ranks.of[to], loads.weights[i] - (most - load) / 3):
                if not loads.weights[other] < loads.weights[i]:
                    continue
                found = _swapped(loads, i, other, source=source, to=to)
                if found < most and (best is None or (found, i, other, to) < best):
                    best = (found, i, other, to)
        if best is not None:
            return [(best[1], to), (best[2], source)]
    return None


def _swapped(loads: Loads, i: int, other: int, *, source: int, to: int) -> float:
    """The higher load of the two, if these changed places. Leaves everything as it was."""
    before = (loads.loads[source], loads.loads[to])
    loads.remove(i)
    loads.remove(other)
    after = max(loads.loads[source] + loads.rise(other, source), loads.loads[to] + loads.rise(i, to))
    loads.place(i, source)
    loads.place(other, to)
    loads.loads[source], loads.loads[to] = before
    return after
