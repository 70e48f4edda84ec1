"""What heads and edges say to each other about congestion. Both go in the control lane, and so overtake data."""

from __future__ import annotations

from math import inf
from typing import Annotated

import msgspec
from msgspec import Meta

from tidewire.model.ids import PubendId, Tick

Progress = Annotated[float, Meta(ge=0)]
"""Seconds of stream per second; 1.0 keeps up. Infinite: none."""


class Query(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """How does my stream arrive? From a pubend to every edge on its tree; heads on the way pass it on.

    It proves nothing about the ticks up to ``latest``: they may still be on their way.
    """

    pubend: PubendId
    sequence: Annotated[int, Meta(ge=1)]
    latest: Annotated[Tick, Meta(ge=0)]
    """The last tick given."""


class Alert(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Your stream does not arrive as fast as it must. From an edge to a pubend; heads on the way merge alerts."""

    pubend: PubendId
    sequence: Annotated[int, Meta(ge=1)]
    """That of the query that it answers."""

    slowest: Progress = inf
    """Of the edges that are not recovering."""

    slowest_recovering: Progress = inf

    horizon: Annotated[Tick, Meta(ge=0)] | None = None
    """The lowest of the edges that are not recovering: what was published before it has arrived (gryphon §7)."""
