"""What balancing wants done. The broker machine says how."""

from __future__ import annotations

import msgspec

from tidewire.balancing.bulletins import Pass
from tidewire.balancing.detectors import Candidate
from tidewire.balancing.plans import Plan
from tidewire.model.balance_messages import Action, LoadReport, Payload, SessionId
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.notes import Note


class Say(msgspec.Struct, frozen=True):
    """To one broker, in this cluster: inside of balancing; outside of it it is a bulletin."""

    to: BrokerId
    cluster: BrokerId
    payload: Payload


class CallForHelp(msgspec.Struct, frozen=True):
    """Overloaded, and nobody here takes anything over: the head is to look further (peer D8)."""

    action: Action


class BeginSampling(msgspec.Struct, frozen=True, kw_only=True):
    """Look which events match which clients, and the acceptor's covering set; then call ``planned`` (peer §7.1).

    Not later than ``until_ns``, however few events have come.
    """

    session: SessionId
    acceptor: BrokerId
    action: Action
    is_overloaded: bool
    report: LoadReport
    until_ns: Nanoseconds


class EndSampling(msgspec.Struct, frozen=True):
    """The session is over: what was sampled for it is no longer wanted."""

    session: SessionId


class MoveClients(msgspec.Struct, frozen=True, kw_only=True):
    """Send these to the acceptor, and call ``moved`` for each, whether it went or not."""

    session: SessionId
    to: BrokerId
    address: str
    clients: tuple[Conn, ...]
    let_go_after_s: float | None
    """Do they leave when everything has come (None), or after so long (peer M4)?"""

    in_order: bool
    """Do they hold back what comes from the acceptor until they have left (peer M5a)?"""


class Rehearsed(msgspec.Struct, frozen=True):
    """What a session would have done: for those who asked."""

    why: str
    """Why it stopped there."""

    declined: dict[BrokerId, str]
    """Who would not have taken anything, and in what condition it is."""

    candidate: Candidate | None
    """The last that was asked."""

    plan: Plan | None
    """Who would move; None: it did not come to that."""


Inner = Say | CallForHelp | BeginSampling | EndSampling | MoveClients | Rehearsed | Note
Answer = Pass | BeginSampling | EndSampling | MoveClients | Rehearsed | Note
