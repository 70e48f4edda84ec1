"""What a planner of subscribers' places answers: who moves, why, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.placement.loads import Balance, Loads, LoadSnapshot


class Move(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One subscriber that is to move."""

    subscriber: str
    source: BrokerId
    to: BrokerId


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Who moves, and what is expected when all have moved and nothing else has changed."""

    moves: tuple[Move, ...]
    stages: tuple[str, ...]
    """What had its turn: the names of the shuffle and of the migration that moved somebody."""
    reason: str
    """Why it ends there."""
    before: Balance
    predicted: Balance
    made_ns: Nanoseconds

    def by_source(self) -> dict[BrokerId, list[Move]]:
        """What each broker has to do: it sheds those who are with it."""
        found: dict[BrokerId, list[Move]] = {}
        for move in self.moves:
            found.setdefault(move.source, []).append(move)
        return found


def net_moves(snapshot: LoadSnapshot, loads: Loads, moved: Iterable[int]) -> tuple[Move, ...]:
    """Of all who were moved, perhaps more than once: from where they are to where they end (bad §4.3 row 6)."""
    return tuple(
        Move(
            subscriber=snapshot.subscribers[i].name,
            source=snapshot.brokers[snapshot.subscribers[i].broker],
            to=snapshot.brokers[loads.where[i]],
        )
        for i in dict.fromkeys(moved)
        if loads.where[i] != snapshot.subscribers[i].broker
    )
