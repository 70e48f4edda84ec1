"""How long does a broker's CPU take? Models, chosen by name; their unit is nanoseconds of simulated time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from tidewire.dataplane.protocol import Work
from tidewire.model.errors import UnknownName

PEER_FILTERS_PER_MHZ_AND_S: Final = 60
"""peer §9.3: the matching delay of n subscriptions is n / (60 · CPU) seconds."""


class Costs(Protocol):
    """A model."""

    def of(self, before: Work, after: Work, *, messages: int) -> int:
        """What did the engine's work between these two, and so many messages for the machine, cost?"""


class Free(msgspec.Struct, frozen=True):
    """Nothing costs anything."""

    def of(self, before: Work, after: Work, *, messages: int) -> int:  # noqa: ARG002
        """Nothing."""
        return 0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The live broker's costs: a kernel call, an event in it, a copy that leaves, a message for the Python machine.

    The defaults are of the order that was measured for the live broker on one machine.
    """

    call_ns: float = 3_000
    event_ns: float = 400
    copy_ns: float = 150
    message_ns: float = 40_000

    def of(self, before: Work, after: Work, *, messages: int) -> int:
        """Linear in each."""
        copies = after.deliveries - before.deliveries + after.forwards - before.forwards
        events = after.events - before.events + after.refused - before.refused
        return int(self.call_ns + events * self.event_ns + copies * self.copy_ns + messages * self.message_ns)


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """The thesis's broker: matching delay linear in the subscriptions, over a speed without a unit (peer §9.3)."""

    mhz: float

    def of(self, before: Work, after: Work, *, messages: int) -> int:  # noqa: ARG002
        """Only matching costs."""
        events = after.events - before.events
        return int(events * after.subscriptions * 1e9 / (PEER_FILTERS_PER_MHZ_AND_S * self.mhz))


_MODELS: Final[dict[str, Callable[[float], Costs]]] = {
    "free": lambda _mhz: Free(),
    "measured": lambda _mhz: Measured(),
    "peer": lambda mhz: Peer(mhz=mhz),
}


def costs_by_name(name: str, *, mhz: float = 1000.0) -> Costs:
    """The model of this name."""
    if name not in _MODELS:
        raise UnknownName(name, what="cost model", known=_MODELS)
    return _MODELS[name](mhz)
