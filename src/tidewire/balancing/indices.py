"""How far apart are two brokers? Differences of the three indices that are balanced (peer §3.1, D1)."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import msgspec

from tidewire.balancing.estimates import delay_difference
from tidewire.balancing.load import Load
from tidewire.model.balance_messages import Action, Indices


def differences(one: Indices, other: Indices, *, norm_s: float) -> dict[Action, float]:
    """By what the first exceeds the second, index by index."""
    return {
        "input": one.input_utilisation - other.input_utilisation,
        "match": delay_difference(one.matching_delay_s, other.matching_delay_s, norm_s=norm_s),
        "output": one.output_utilisation - other.output_utilisation,
    }


def index_of(indices: Indices, action: Action) -> float:
    """The one that an action balances."""
    match action:
        case "input":
            return indices.input_utilisation
        case "match":
            return indices.matching_delay_s
        case "output":
            return indices.output_utilisation


def mean(many: Iterable[Indices]) -> Indices | None:
    """Of a cluster: over its edges, whatever their size. None of none."""
    all_of_them = list(many)
    if not all_of_them:
        return None
    count = len(all_of_them)
    return Indices(
        sum(one.input_utilisation for one in all_of_them) / count,
        sum(one.output_utilisation for one in all_of_them) / count,
        sum(one.matching_delay_s for one in all_of_them) / count,
    )


def is_sound(indices: Indices) -> bool:
    """Are these numbers that can be compared?"""
    return all(isfinite(value) for value in msgspec.structs.astuple(indices))


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The smoothed indices of one broker: what detection goes by, and what is told."""

    input_utilisation: float
    output_utilisation: float
    cpu_utilisation: float
    memory_utilisation: float
    matching_delay_s: float

    @property
    def indices(self) -> Indices:
        """Those that are balanced."""
        return Indices(self.input_utilisation, self.output_utilisation, self.matching_delay_s)

    @property
    def highest(self) -> float:
        """Of the four utilisations that can be overloaded."""
        return max(self.input_utilisation, self.output_utilisation, self.cpu_utilisation, self.memory_utilisation)


def smoothed(load: Load, before: Reading | None, *, weight: float) -> Reading:
    """Eq. 3.4: y = α·x + (1−α)·y of the run before; the first is as it is."""
    values = {name: getattr(load, name) for name in Reading.__struct_fields__}
    if before is None:
        return Reading(**values)
    return Reading(**{name: weight * x + (1 - weight) * getattr(before, name) for name, x in values.items()})
