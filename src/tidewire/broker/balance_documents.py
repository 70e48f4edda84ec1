"""What a broker says about balancing to people and scripts: how it goes, and what it would do next."""

from __future__ import annotations

from typing import Final

import msgspec

from tidewire.balancing.detectors import Candidate, Verdict
from tidewire.balancing.estimates import LoadInfo
from tidewire.balancing.indices import Reading
from tidewire.balancing.record import Errors

NAMES_MAX: Final = 20
"""Of clients that would move: the first."""


class BalanceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's part in balancing. Counters only grow, from the broker's start."""

    policy: str
    is_automatic: bool
    """Does it move clients by itself? Else only when it is asked to."""

    condition: str | None
    """Of an edge, or of a head's cluster; None: it is neither. Where edges decide OK, BUSY, N/A or STABILIZING; where
    the head does LOW, HIGH, OVERLOAD or BUSY."""

    partner: str | None
    """The broker that it is in a session with; of a head, the cluster."""

    is_donor: bool
    smoothed: Reading | None
    """What an edge goes by: its load indices, as of its last look."""

    known: list[str]
    """Brokers whose load it has heard of lately; of a head, clusters."""

    sessions: dict[str, int]
    """Those that it asked for, by what came of them: ``moved``, ``nothing`` to move, ``failed``."""

    sessions_accepted: int
    declined: int
    """Requests of its own that others could not accept."""

    moved_away: int
    moved_here: int
    stayed: int
    """Clients that were to move and did not."""

    calls_for_help: int
    errors: Errors | None
    """How far predictions were off; None before anything could be compared."""

    bulletins_sent: dict[str, int]
    bulletins_heard: dict[str, int]
    """What it told and heard about load, by class."""

    utilisation: dict[str, float] = {}
    """Where the head decides: the share of its capacity that is used, by metric."""

    available_events_s: float | None = None
    """Where the head decides: what it could still take on; of a head, all its edges together."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a broker, as it is or would be."""

    input_utilisation: float
    output_utilisation: float
    cpu_utilisation: float
    memory_utilisation: float
    matching_delay_s: float


def figures_of(load: LoadInfo) -> Figures:
    """The same, by the names of the status."""
    return Figures(**{name: getattr(load, name) for name in Figures.__struct_fields__})


class WouldMove(msgspec.Struct, frozen=True, kw_only=True):
    """Who would go where, and what is expected of it."""

    acceptor: str
    action: str
    clients: int
    names: list[str]
    """The first of them."""

    why: str
    """Why no more would."""

    donor_before: Figures
    donor_after: Figures
    acceptor_before: Figures
    acceptor_after: Figures


class WouldGo(msgspec.Struct, frozen=True, kw_only=True):
    """Clients of the same classes that would go to the same broker."""

    classes: list[str]
    delay_s: float | None
    """What their events may take; None: any time."""

    to: str
    clients: int
    names: list[str]
    """The first of them."""

    relief: dict[str, float]
    """By what share of the capacity this would relieve, by metric."""


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker would do now, or does: the answer to ``Rebalance``."""

    broker: str
    role: str
    is_automatic: bool
    condition: str
    verdict: Verdict
    smoothed: Reading | None
    """Of an edge: what it goes by."""

    known: list[str]
    """Those whose load it has heard of; of a head, clusters."""

    partner: str | None
    candidates: list[Candidate]
    """Whom it would ask, in order; of a head, clusters."""

    declined: dict[str, str] = {}
    """Who would not take anything now, and the condition it is in."""

    would_move: WouldMove | None = None
    """Of a dry run: if somebody would."""

    why: str = ""
    """Of a dry run: why nobody would."""

    utilisation: dict[str, float] = {}
    """Where the head decides: the share of its capacity that is used, by metric."""

    would_go: list[WouldGo] = []
    """Where the head decides: who would go where, the first first."""
