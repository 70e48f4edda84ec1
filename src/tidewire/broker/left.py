"""Those who have left a broker: how far they were, for stores that could not be told then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidewire.model.ids import TreeId
from tidewire.model.stream_messages import Holding

LEFT_MAX: Final = 10_000
"""So many are remembered; of more, those who left first are owed again what they were done with."""

TREES_MAX: Final = 10_000


class Left:
    """By name. They are numbered as they leave; of each tree it is known up to which number its source has heard.

    A broker that starts anew has another tree, and is told of all.
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[int, Holding]] = {}
        self._number = 0
        self._heard: dict[TreeId, int] = {}

    def __len__(self) -> int:
        return len(self._left)

    def add(self, holdings: Iterable[Holding], told: Iterable[TreeId]) -> None:
        """These have left; the sources of these trees have heard of it."""
        before = self._number
        for holding in holdings:
            self._number += 1
            self._left.pop(holding.name, None)
            self._left[holding.name] = self._number, holding
        for tree in told if self._number > before else ():
            if self._heard.get(tree, 0) == before:  # of the others before them, too
                self._hears(tree)
        while len(self._left) > LEFT_MAX:
            del self._left[next(iter(self._left))]

    def untold(self, tree: TreeId) -> list[Holding]:
        """Those of whom its source has not heard. It is told now."""
        heard = self._heard.get(tree, 0)
        if heard == self._number:
            return []
        self._hears(tree)
        return [holding for number, holding in self._left.values() if number > heard]

    def unheard(self, tree: TreeId) -> None:
        """What its source was told has not come there."""
        self._heard.pop(tree, None)

    def _hears(self, tree: TreeId) -> None:
        self._heard.pop(tree, None)
        self._heard[tree] = self._number
        while len(self._heard) > TREES_MAX:
            del self._heard[next(iter(self._heard))]
