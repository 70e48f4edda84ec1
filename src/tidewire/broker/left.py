"""Those who have left a broker: how far they were, for stores that could not be told then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tidewire.model.ids import TreeId
from tidewire.model.stream_messages import Holding

LEFT_MAX: Final = 10_000
"""So many are remembered; of more, those who left first are owed again what they were done with."""


class _Left(msgspec.Struct, frozen=True):
    holding: Holding
    told: dict[TreeId, None]
    """The stores that know it."""


class Left:
    """By name; a broker that starts anew has another tree, and is told again."""

    def __init__(self) -> None:
        self._left: dict[str, _Left] = {}

    def __len__(self) -> int:
        return len(self._left)

    def add(self, holdings: Iterable[Holding], told: Iterable[TreeId]) -> None:
        """These have left; the sources of these trees have heard of it."""
        for holding in holdings:
            self._left.pop(holding.name, None)
            self._left[holding.name] = _Left(holding, dict.fromkeys(told))
        while len(self._left) > LEFT_MAX:
            del self._left[next(iter(self._left))]

    def untold(self, tree: TreeId) -> list[Holding]:
        """Those of whom its source has not heard. It is told now."""
        found = [one for one in self._left.values() if tree not in one.told]
        for one in found:
            one.told[tree] = None
        return [one.holding for one in found]
