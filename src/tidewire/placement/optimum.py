"""What is the best that could be done? Exact, by a search with bounds: for a dozen subscribers, not for thousands."""

from __future__ import annotations

from math import inf
from typing import Final

import msgspec

from tidewire.model.errors import LimitReached
from tidewire.placement.loads import NOWHERE, Loads, LoadSnapshot, lower_bound

SUBSCRIBERS_MAX: Final = 16


class Optimum(msgspec.Struct, frozen=True):
    """The smallest possible maximum load, and places that give it."""

    max_load: float
    where: tuple[int, ...]
    moves: int
    """So many of them are not where they were."""


def smallest_max(snapshot: LoadSnapshot) -> Optimum:
    """No assignment has a smaller maximum load."""
    return _search(snapshot, at_most=inf, counts_moves=False)


def fewest_moves(snapshot: LoadSnapshot, *, max_load: float) -> Optimum | None:
    """The fewest moves after which no broker has more than this; None if no assignment can."""
    found = _search(snapshot, at_most=max_load, counts_moves=True)
    return found if found.moves <= len(snapshot.subscribers) else None


class _Best(msgspec.Struct):
    max_load: float
    moves: int
    where: tuple[int, ...] = ()


def _search(snapshot: LoadSnapshot, *, at_most: float, counts_moves: bool) -> Optimum:
    if len(snapshot.subscribers) > SUBSCRIBERS_MAX:
        raise LimitReached(f"an exact search takes at most {SUBSCRIBERS_MAX} subscribers")
    loads = Loads(snapshot, is_empty=True)
    before = [one.broker for one in snapshot.subscribers]
    order = sorted(range(len(before)), key=lambda i: (-loads.weights[i], i))
    bound = lower_bound(snapshot)
    best = _Best(inf, len(before) + 1)
    brokers = range(len(loads.loads))

    def is_hopeless(peak: float, moves: int) -> bool:
        if counts_moves:
            return peak > at_most or moves >= best.moves
        return peak >= best.max_load or best.max_load <= bound

    def go(depth: int, moves: int) -> None:
        peak = max(loads.loads)
        if is_hopeless(peak, moves):
            return
        if depth == len(order):
            best.max_load, best.moves, best.where = peak, moves, tuple(loads.where)
            return
        i = order[depth]
        has_tried_empty = False
        for j in sorted(brokers, key=lambda j: (j != before[i], loads.loads[j] + loads.rise(i, j), j)):
            is_empty = j not in loads.where
            if is_empty and has_tried_empty and not counts_moves:
                continue  # empty brokers are alike, unless it counts who was where
            has_tried_empty |= is_empty
            fans = list(loads.loads)
            loads.place(i, j)
            go(depth + 1, moves + (j != before[i]))
            loads.remove(i)
            loads.loads[:] = fans  # exactly, so that rounding does not add up

    go(0, 0)
    assert NOWHERE not in best.where
    return Optimum(best.max_load, best.where, best.moves)
