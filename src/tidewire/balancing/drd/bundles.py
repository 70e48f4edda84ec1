"""Who belongs together? Clients of one class move together: then nothing of it has to come to both brokers.

A client that wants several classes belongs to those who want exactly these (design §3.2); with one each, this is the
thesis exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Literal

import msgspec

from tidewire.model.offload_messages import METRICS, Amounts, Metric
from tidewire.model.traffic import ClassKey

Locality = Literal["remote", "local", "both", "none"]
"""Where those are with whom a client has to do: in other clusters, in its own, in both, nowhere (epeer §2.8)."""

Scope = Literal["subscribers", "subscribers between clusters", "publishers"]
"""Who is to go: of an edge in its cluster, of an edge to other clusters, of a head."""


class Member(msgspec.Struct, frozen=True):
    """A client, by what its broker calls it."""

    client: int
    bytes_s: float
    """What goes out to a subscriber, or comes in from a publisher."""


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Clients of the same classes at one broker, and what they mean to it."""

    key: ClassKey
    """Its class; of several, one name for them all."""
    classes: tuple[ClassKey, ...] = ()
    """Of several: which."""
    delay_s: float = inf
    """What may pass until an event has come: the least of its classes'."""
    load: Amounts
    """What a broker has to do for all of them, if it has nobody else."""
    marginal: Amounts | None = None
    """What this broker no longer has to do without them; None: as much. Less, if others want what comes for them."""
    members: tuple[Member, ...] = ()
    locality: Locality = "local"

    @property
    def relief(self) -> Amounts:
        """What this broker gains when all of them go."""
        return self.load if self.marginal is None else self.marginal

    @property
    def of_classes(self) -> tuple[ClassKey, ...]:
        """Its classes."""
        return self.classes or (self.key,)


_EQUAL_UNLESS_NONE: dict[Locality, int] = {"remote": 0, "both": 0, "local": 0, "none": 1}
_FROM_AFAR_FIRST: dict[Locality, int] = {"remote": 0, "both": 1, "local": 2, "none": 3}
_USELESS_FIRST: dict[Locality, int] = {"none": 0, "remote": 1, "both": 2, "local": 3}


def _ranks(scope: Scope, metric: Metric) -> dict[Locality, int]:
    match scope:
        case "subscribers":
            return _EQUAL_UNLESS_NONE
        case "subscribers between clusters":
            return _FROM_AFAR_FIRST
        case "publishers":
            return _FROM_AFAR_FIRST if metric == "output" else _USELESS_FIRST


def prioritised(bundles: Iterable[Bundle], *, scope: Scope, metric: Metric) -> list[Bundle]:
    """Who goes first: by locality, then who can wait longest, then who relieves most (epeer §2.8)."""
    ranks = _ranks(scope, metric)
    return sorted(bundles, key=lambda one: (ranks[one.locality], -one.delay_s, -one.relief.of(metric), one.key))


def member_load(member: Member, *, scope: Scope) -> Amounts:
    """What a broker no longer has to do without this one of them, as long as others are left (Table 4-3)."""
    if scope == "publishers":
        return Amounts(input_bytes_s=member.bytes_s)
    return Amounts(output_bytes_s=member.bytes_s)


def shares(load: Amounts, capacity: Amounts) -> tuple[float, float, float]:
    """The same as shares of what a broker has: the profile of a class, or of one client of it."""
    by_input, by_output, by_matching = (load.of(metric) / capacity.of(metric) for metric in METRICS)
    return by_input, by_output, by_matching


def delay_ratio(moved: Sequence[tuple[Bundle, int]], *, unexpected_s: float) -> float:
    """What a session costs those who move: Σ of the extra delay over what each may have (Od, epeer §4.2)."""
    return sum(clients * unexpected_s / bundle.delay_s for bundle, clients in moved)
