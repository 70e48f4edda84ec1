"""What passes per second: the difference of two status documents of one life of a broker."""

from __future__ import annotations

from typing import Final

import msgspec

from tidewire.broker.status import BrokerStatus, NeighbourStatus

TOO_SOON_S: Final = 0.01
"""Two documents closer than this say nothing about rates."""


class LinkRates(msgspec.Struct, frozen=True, kw_only=True):
    """On one link, as the broker at this end counts; per second."""

    neighbour: str
    events_in_s: float
    events_out_s: float
    bytes_in_s: float
    bytes_out_s: float


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Of one broker; per second."""

    over_s: float
    """The time between the two looks, by the broker's clock."""

    events_s: float
    """Taken, from publishers and neighbours."""

    deliveries_s: float
    forwards_s: float
    matches_s: float
    refused_s: float
    dropped_s: float
    """Lost by slow clients."""

    expired_s: float
    """Thrown away because they were late."""

    bytes_in_s: float
    bytes_out_s: float
    busy: float
    """The share of the time that the engine worked on events."""

    links: list[LinkRates]


def rates_between(before: BrokerStatus, after: BrokerStatus) -> Rates | None:
    """None if they are of two lives of the broker, or too close."""
    seconds = after.uptime_s - before.uptime_s
    if before.incarnation != after.incarnation or seconds < TOO_SOON_S:
        return None

    def rate(name: str) -> float:
        grown: float = getattr(after, name) - getattr(before, name)
        return grown / seconds

    known = {neighbour.broker: neighbour for neighbour in before.neighbours}
    return Rates(
        over_s=seconds,
        events_s=rate("events"),
        deliveries_s=rate("deliveries"),
        forwards_s=rate("forwards"),
        matches_s=rate("matches"),
        refused_s=rate("refused"),
        dropped_s=rate("dropped"),
        expired_s=rate("expired"),
        bytes_in_s=rate("bytes_in"),
        bytes_out_s=rate("bytes_out"),
        busy=rate("busy_s"),
        links=[
            _link_rates(known[neighbour.broker], neighbour, seconds)
            for neighbour in after.neighbours
            if neighbour.broker in known
        ],
    )


def _link_rates(before: NeighbourStatus, after: NeighbourStatus, seconds: float) -> LinkRates:
    """A link that was lost and found again in between begins anew: what it has carried since is all we know."""
    is_new = after.bytes_in < before.bytes_in or after.bytes_out < before.bytes_out

    def rate(name: str) -> float:
        grown: float = getattr(after, name) - (0 if is_new else getattr(before, name))
        return grown / seconds

    return LinkRates(
        neighbour=after.broker,
        events_in_s=rate("events_in"),
        events_out_s=rate("events_out"),
        bytes_in_s=rate("bytes_in"),
        bytes_out_s=rate("bytes_out"),
    )
