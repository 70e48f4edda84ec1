"""What a broker says about shortage to people and scripts."""

from __future__ import annotations

import msgspec


class FlowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A publisher in one class that is limited."""

    publisher: str
    traffic_class: str
    limit_msgs_s: float
    reason: str
    offered_msgs_s: float
    utility: float


class ShortageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's part in what is done under shortage. Counters only grow, from the broker's start."""

    policy: str
    mode: str | None
    """Of a head: ``normal``, ``limited`` or ``recovering``; None: it is no head."""
    flows: int
    """Publishers in their classes that it knows of, here and elsewhere."""
    limited: list[FlowStatus]
    """Of its own publishers, the first."""
    demand: dict[str, float]
    """How loaded its cluster would be with all that is offered, by what there is."""
    predicted: dict[str, float]
    """How loaded it is to be under the limits."""
    measured: dict[str, float]
    """How loaded it is."""
    opinions_heard: int
    opinions_ignored: int
    """Messages of subscribers that came too often, and opinions about publishers that they cannot know."""
    quenched: int
    """Advertisements that nobody wants, and whose publishers know it."""
    publishers_ended: int
    """Because they sent more than they might, or did not say that they speak again."""
    triggers: int
    """How often a shortage began."""
    messages_sent: dict[str, int]
    messages_heard: dict[str, int]
    """What was said about shortage, by kind."""
