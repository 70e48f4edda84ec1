"""What may a broker, or a cluster, do now? The state machines of peer §4, as tables."""

from __future__ import annotations

from typing import Final, Literal

from tidewire.model.balance_messages import ClusterCondition, Condition
from tidewire.model.ids import Nanoseconds

Cause = Literal["accepts", "agreed", "overloaded", "relieved", "settled", "ended"]
"""It says yes to a request; its own gets a yes; it is overloaded; it is no longer; its load is steady; clients went."""

EDGE: Final[dict[tuple[Condition, Cause], Condition]] = {
    ("OK", "accepts"): "BUSY",
    ("OK", "agreed"): "BUSY",
    ("OK", "overloaded"): "N/A",
    ("N/A", "agreed"): "BUSY",
    ("N/A", "relieved"): "STABILIZING",
    ("BUSY", "ended"): "STABILIZING",
    ("STABILIZING", "settled"): "OK",
    ("STABILIZING", "overloaded"): "N/A",
    ("STABILIZING", "agreed"): "BUSY",
}
"""All that there are; besides, a session that came to nothing leads from BUSY back to where it began."""


class EdgeState:
    """The condition of an edge."""

    def __init__(self) -> None:
        self.condition: Condition = "OK"
        self.session_end_ns: Nanoseconds | None = None
        """When clients last moved to or from here."""
        self._prior: Condition = "OK"

    def may(self, cause: Cause) -> bool:
        """Does this lead anywhere now?"""
        return (self.condition, cause) in EDGE

    def go(self, cause: Cause, *, now_ns: Nanoseconds) -> None:
        """It has happened; it must be one that may."""
        assert self.may(cause), (self.condition, cause)
        before, self.condition = self.condition, EDGE[self.condition, cause]
        if self.condition == "BUSY":
            self._prior = before
        if cause == "ended":
            self.session_end_ns = now_ns

    def revert(self) -> None:
        """The session came to nothing, or was given up: nothing has changed, so nothing need settle."""
        assert self.condition == "BUSY"
        self.condition = self._prior


class ClusterState:
    """The condition of a cluster, held by its head. A cluster does not stabilise: its edges do."""

    def __init__(self) -> None:
        self._is_busy = False
        self._is_overloaded = False

    @property
    def condition(self) -> ClusterCondition:
        """What others are told."""
        if self._is_busy:
            return "BUSY"
        return "N/A" if self._is_overloaded else "OK"

    def edges(self, *, is_one_overloaded: bool) -> None:
        """How the cluster's own edges are. In a session it shows at its end."""
        self._is_overloaded = is_one_overloaded

    def go(self, cause: Literal["accepts", "agreed"]) -> None:
        """A session begins: an overloaded cluster may ask, not accept."""
        assert self.condition == "OK" or (self.condition == "N/A" and cause == "agreed"), (self.condition, cause)
        self._is_busy = True

    def end(self) -> None:
        """The session is over, whatever came of it."""
        assert self._is_busy
        self._is_busy = False
