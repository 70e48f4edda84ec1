"""Who decides what moves, by the index that is to be balanced (peer §8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.offload_input import InputOffload
from tidewire.balancing.offload_match import MatchOffload
from tidewire.balancing.offload_output import OutputOffload
from tidewire.balancing.plans import Action, Planner

OFFLOADS: Final[dict[Action, Callable[[BalancingConfig], Planner]]] = {
    "input": InputOffload,
    "match": MatchOffload,
    "output": OutputOffload,
}
