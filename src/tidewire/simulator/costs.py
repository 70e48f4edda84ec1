"""How long does a broker's CPU take? Models, chosen by name; their unit is nanoseconds of simulated time."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Final, Protocol

import msgspec

from tidewire.dataplane.protocol import Work
from tidewire.model.errors import UnknownName

PEER_FILTERS_PER_MHZ_AND_S: Final = 60
"""peer §9.3: the matching delay of n subscriptions is n / (60 · CPU) seconds."""


class Costs(Protocol):
    """A model."""

    def of(self, before: Work, after: Work, *, messages: int, writes: int) -> int:
        """What did the engine's work between these two, so many messages for the machine and so many writes, cost?"""


class Free(msgspec.Struct, frozen=True):
    """Nothing costs anything."""

    def of(self, before: Work, after: Work, *, messages: int, writes: int) -> int:  # noqa: ARG002
        """Nothing."""
        return 0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The live broker's costs; ``tidewire bench calibrate`` measures them, and the defaults are what it found."""

    call_ns: float = 2_300
    """A read, whatever is in it."""
    event_ns: float = 140
    doubling_ns: float = 20
    """For each event and each time that the number of filters doubles."""
    copy_ns: float = 95
    """An event that leaves, in its place in a queue."""
    write_ns: float = 1_050
    """A connection that something is written to, whatever it is."""
    message_ns: float = 40_000
    """For the Python machine."""

    def of(self, before: Work, after: Work, *, messages: int, writes: int) -> int:
        """Linear in each."""
        copies = after.deliveries - before.deliveries + after.forwards - before.forwards
        events = after.events - before.events + after.refused - before.refused
        event_ns = self.event_ns + self.doubling_ns * log2(1 + after.subscriptions) if events else 0
        moved_ns = events * event_ns + copies * self.copy_ns + writes * self.write_ns
        return int(self.call_ns + moved_ns + messages * self.message_ns)


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """The thesis's broker: matching delay linear in the subscriptions, over a speed without a unit (peer §9.3)."""

    mhz: float

    def of(self, before: Work, after: Work, *, messages: int, writes: int) -> int:  # noqa: ARG002
        """Only matching costs."""
        events = after.events - before.events
        return int(events * after.subscriptions * self.slope_s * 1e9)

    @property
    def slope_s(self) -> float:
        """What one more subscription adds to the matching of an event."""
        return 1 / (PEER_FILTERS_PER_MHZ_AND_S * self.mhz)


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that matches so many events a second, whoever wants them (epeer §2.6)."""

    events_s: float

    def of(self, before: Work, after: Work, *, messages: int, writes: int) -> int:  # noqa: ARG002
        """Only matching costs."""
        return int((after.events - before.events) * 1e9 / self.events_s)


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
