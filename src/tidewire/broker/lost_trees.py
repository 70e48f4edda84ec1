"""Which source trees are lost, and until when are they remembered, should they come back?"""

from __future__ import annotations

from tidewire.model.ids import Nanoseconds, TreeId
from tidewire.routing.router import Router


class LostTrees:
    """Those that we know and are not on."""

    def __init__(self, router: Router, *, memory_s: float) -> None:
        self._router = router
        self._memory_ns = int(memory_s * 1e9)
        self._until_ns: dict[TreeId, int] = {}

    def look(self, now_ns: Nanoseconds) -> None:
        """Some may have been lost, others have come back."""
        until_ns = now_ns + self._memory_ns
        self._until_ns = {tree: self._until_ns.get(tree, until_ns) for tree in self._router.lost_trees()}

    def overdue(self, now_ns: Nanoseconds) -> list[TreeId]:
        """Those that have been lost for long."""
        return [tree for tree, until_ns in self._until_ns.items() if now_ns >= until_ns]

    def deadline_ns(self) -> int | None:
        """When the next one is to be forgotten."""
        return min(self._until_ns.values(), default=None)
