"""What is asked of a planner, and what it answers: one signature for all of them (peer §8)."""

from __future__ import annotations

from typing import Protocol

import msgspec

from tidewire.balancing.estimates import LoadInfo
from tidewire.balancing.press import Profile
from tidewire.model.balance_messages import Action as Action  # noqa: PLC0414 - what a planner is chosen by
from tidewire.model.ids import BrokerId, Conn, Nanoseconds


class OffloadSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that the donor knows when it decides who moves."""

    is_overloaded: bool
    """Is it about an overload of the donor, or only about balance?"""
    to: BrokerId
    """The acceptor."""
    donor: LoadInfo
    acceptor: LoadInfo
    acceptor_filters: tuple[bytes, ...]
    """The acceptor's covering set."""
    profile: Profile


class Move(msgspec.Struct, frozen=True, gc=False):
    """One client that is to move."""

    client: Conn
    to: BrokerId


class Predicted(msgspec.Struct, frozen=True, kw_only=True):
    """Both brokers: what is expected when all have moved and nothing else has changed; or what they were before."""

    donor: LoadInfo
    acceptor: LoadInfo


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Who moves, why no more do, and what is expected of it: to be held against what is measured afterwards."""

    moves: tuple[Move, ...]
    reason: str
    before: Predicted
    predicted: Predicted
    made_ns: Nanoseconds


class Planner(Protocol):
    """Decides who moves."""

    def plan(self, snapshot: OffloadSnapshot, *, now_ns: Nanoseconds) -> Plan:
        """Who is to move? Nobody, if that would help nobody."""
