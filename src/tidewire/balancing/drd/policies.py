"""Which policies are there where the head decides? By name; what they share is how sessions go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.drd.distribution import Distribution, Scattered, Together
from tidewire.balancing.drd.giving import Planner
from tidewire.balancing.drd.loads import Load
from tidewire.balancing.drd.peer_lb import Evening, Order, uneven
from tidewire.balancing.drd.selection import DelayDriven
from tidewire.model.chance import Chance
from tidewire.model.errors import UnknownName
from tidewire.model.ids import BrokerId
from tidewire.model.offload_messages import LoadState

Edges = Mapping[BrokerId, tuple[LoadState, Load]]
Pair = tuple[BrokerId, list[BrokerId]]
"""An edge that is to give, and those that could take; none: nobody can."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Who gives, to whom, and who goes; where newcomers go."""

    name: str
    config: DrdConfig
    pairs: Callable[[Edges], list[Pair]]
    planner: Planner
    distribution: Distribution
    looks_further: bool
    """Does it go to other clusters, and does it relieve heads?"""


def _overloaded(edges: Edges) -> list[Pair]:
    """Every overloaded edge may give to all that are LOW."""
    low = [broker for broker, (state, _) in sorted(edges.items()) if state == "LOW"]
    return [(broker, low) for broker, (state, _) in sorted(edges.items()) if state == "OVERLOAD"]


def _drd(config: DrdConfig, _chance: Chance) -> Policy:
    return Policy(
        name="drd",
        config=config,
        pairs=_overloaded,
        planner=DelayDriven(config),
        distribution=Together(config),
        looks_further=True,
    )


def _evening(name: str, order: Order, config: DrdConfig, chance: Chance) -> Policy:
    def pairs(edges: Edges) -> list[Pair]:
        found = uneven(edges, config=config)
        return [] if found is None else [(found[0], [found[1]])]

    return Policy(
        name=name,
        config=config,
        pairs=pairs,
        planner=Evening(config, order, chance),
        distribution=Scattered(config, chance),
        looks_further=False,
    )


DRIVEN_BY_HEADS: Final[dict[str, Callable[[DrdConfig, Chance], Policy]]] = {
    "drd": _drd,
    "peer-drd": lambda config, chance: _evening("peer-drd", "delay", config, chance),
    "peer-lb": lambda config, chance: _evening("peer-lb", config.order, config, chance),
}


def policy(name: str, config: DrdConfig, *, chance: Chance) -> Policy:
    """The policy with this name; UnknownName with those that there are."""
    if name not in DRIVEN_BY_HEADS:
        raise UnknownName(name, what="balancing", known=DRIVEN_BY_HEADS)
    return DRIVEN_BY_HEADS[name](config, chance)
