"""What came of a run? Results, by the subscription that they are for, and where each of them came from."""

from __future__ import annotations

from typing import Annotated, NewType

import msgspec
from msgspec import Meta

from tidewire.channels.schemas import Cell
from tidewire.model.ids import PubendId, Tick
from tidewire.model.values import Value

SubscriptionId = NewType("SubscriptionId", int)
"""A subscription of the data cluster: one for each channel and parameters, whoever asked for it. From 1 on."""

Run = NewType("Run", int)
"""A run of one channel, by its number: 1, 2, 3, …. A channel is a stream, and its runs are the ticks of it."""

Origin = tuple[PubendId, Tick]
"""The event that a row was made from."""


class SubscriptionRow(msgspec.Struct, frozen=True):
    """A subscription in the table of its kind."""

    id: SubscriptionId
    channel: str
    values: tuple[Value, ...]
    """For each parameter of the kind."""


class ResultRow(msgspec.Struct, frozen=True):
    """One thing to tell."""

    cells: tuple[Cell, ...]
    """In the order of the channel's outputs."""

    origins: tuple[Origin, ...] = ()
    """The new rows that it comes from; several if they were aggregated."""


class Result(msgspec.Struct, frozen=True):
    """What a run has to tell one subscription. Without rows there is none."""

    subscription: SubscriptionId
    rows: Annotated[tuple[ResultRow, ...], Meta(min_length=1)]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """All that one run of a channel has to tell. It is committed once: ``batch`` tells it from every other."""

    channel: str
    run: Run
    batch: int
    at_ms: int
    """When it ran, in milliseconds since 1970."""

    results: tuple[Result, ...]


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscriber gets: what was asked, what there is, and where it came from."""

    channel: str
    parameters: tuple[tuple[str, Value], ...]
    run: Run
    at_ms: int
    columns: tuple[str, ...]
    rows: tuple[ResultRow, ...]
