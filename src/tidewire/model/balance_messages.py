"""What brokers tell each other about their load, and how they agree on who takes clients over (peer §3.2, §6).

Where the head decides, brokers say what ``offload_messages.py`` has, in the same bulletins.

All of it travels as ``Bulletin``, in the control lane, of one of the reserved classes. It is routed by what it says:
its class, the cluster that it comes from, whom it is for. No event has such a class, so that no subscription of a
client can match one.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tidewire.model.balance_fields import Amount, Brokers, Count
from tidewire.model.balance_fields import SessionId as SessionId  # noqa: PLC0414 - a field of many of these messages
from tidewire.model.message_fields import BrokerName
from tidewire.model.offload_messages import OffloadPayload

LOCAL_PIE: Final = "LOCAL_PIE"
GLOBAL_PIE: Final = "GLOBAL_PIE"
LB_CONTROL: Final = "LB_CONTROL"
ControlClass = Literal["LOCAL_PIE", "GLOBAL_PIE", "LB_CONTROL"]
RESERVED_CLASSES: Final = (LOCAL_PIE, GLOBAL_PIE, LB_CONTROL)
"""No client publishes these, or subscribes to them (peer L1)."""

Condition = Literal["OK", "BUSY", "N/A", "STABILIZING"]
"""A broker's: it may begin and accept sessions; it is in one; it is overloaded; it waits until its load settles."""

ClusterCondition = Literal["OK", "BUSY", "N/A"]
Action = Literal["input", "match", "output"]
"""What is to be balanced: input utilisation, matching delay, output utilisation."""

HOPS_MAX: Final = 16
"""Heads that pass a bulletin on, at most: ways may be out of date, and then nothing goes round for ever."""


class Indices(msgspec.Struct, frozen=True, array_like=True):
    """The three that are balanced."""

    input_utilisation: Amount
    output_utilisation: Amount
    matching_delay_s: Amount


class LoadReport(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What a donor must know of its acceptor, to tell what a move would do to it (peer §6.2, step 2')."""

    covering_set: list[bytes]
    """Filters; those of clients alone."""

    subscriptions: Count
    input_rate: Amount
    input_bytes_s: Amount
    output_bytes_s: Amount
    matching_delay_s: Amount
    matching_slope_s: float
    cpu_utilisation: Amount
    queued_in_bytes: Amount
    queued_out_bytes: Amount
    engine_bytes: Amount
    output_bytes_s_max: Amount
    memory_bytes_max: Amount
    event_bytes: Amount
    """An event's, on average."""


class _Payload(msgspec.Struct, frozen=True, array_like=True):
    """The base of what bulletins say."""


# -- load, told to all -------------------------------------------------------------------------------------------------


class LocalPie(_Payload, frozen=True, tag=1):
    """How an edge is."""

    condition: Condition
    indices: Indices
    balanced: Brokers
    """With whom its load is even, itself among them."""

    is_pressing: bool = False
    """Is it so overloaded that it asks for help?"""


class GlobalPie(_Payload, frozen=True, tag=2):
    """How a cluster is: the mean over its edges."""

    condition: ClusterCondition
    indices: Indices


class Gone(_Payload, frozen=True, tag=3):
    """A head to its cluster: this edge is no longer connected."""

    broker: BrokerName


# -- a session between two edges ---------------------------------------------------------------------------------------


class Ask(_Payload, frozen=True, tag=10):
    """Will you take clients over from me? Answered by Reply."""

    session: SessionId
    action: Action
    is_rehearsal: bool = False
    """Is it only to know what would happen? The answer is the same, and no session begins."""


class Reply(_Payload, frozen=True, tag=11):
    """Yes, if ``report`` is there; then the session has begun, unless it is a rehearsal. Else why not."""

    session: SessionId
    condition: Condition
    report: LoadReport | None = None
    address: Annotated[str, Meta(max_length=512)] = ""
    """Where clients reach the acceptor."""


class Moving(_Payload, frozen=True, tag=12):
    """The donor: so many clients are on their way to you."""

    session: SessionId
    clients: Count
    expected: Indices | None = None
    """What you will be like with them: you will see how far that was off."""


class Finished(_Payload, frozen=True, tag=13):
    """The session is over, and so many clients have moved. From the donor; or from one who cannot go on."""

    session: SessionId
    moved: Count
    reason: Annotated[str, Meta(max_length=200)] = ""


# -- a session between two clusters ------------------------------------------------------------------------------------


class Help(_Payload, frozen=True, tag=20):
    """An overloaded edge to its head: nobody here takes anything over."""

    action: Action


class ClusterAsk(_Payload, frozen=True, tag=21):
    """A head to another: may our edges balance with yours? These are ours."""

    session: SessionId
    edges: Brokers


class ClusterReply(_Payload, frozen=True, tag=22):
    """Yes, if ``edges`` is there: these are ours. Else why not."""

    session: SessionId
    condition: ClusterCondition
    edges: Brokers | None = None


class ClusterFinished(_Payload, frozen=True, tag=23):
    """The session between our clusters is over."""

    session: SessionId
    reason: Annotated[str, Meta(max_length=200)] = ""


class Watch(_Payload, frozen=True, tag=24):
    """A head to its edges: balance with the edges of this cluster too; None: with ours alone. Said again and again."""

    cluster: BrokerName | None


Payload = (
    LocalPie
    | GlobalPie
    | Gone
    | Ask
    | Reply
    | Moving
    | Finished
    | Help
    | ClusterAsk
    | ClusterReply
    | ClusterFinished
    | Watch
    | OffloadPayload
)


class Bulletin(msgspec.Struct, frozen=True, array_like=True, tag=95, kw_only=True):
    """Control. Between brokers alone: what one of them says about load, to whom it concerns."""

    traffic_class: ControlClass
    sender: BrokerName
    life: Count
    """Of the sender: it tells one life from another."""

    number: Count
    """Of the sender, in this life: it only grows."""

    cluster: BrokerName
    """The sender's: the name of its head."""

    toward: BrokerName | None = None
    """The cluster that it is for; None: the sender's own and, of GLOBAL_PIE, those next to it."""

    to: BrokerName | None = None
    """The broker that it is for; None: all of the cluster."""

    hops: Annotated[int, Meta(ge=0, le=HOPS_MAX)] = HOPS_MAX
    """How many heads may still pass it on."""

    payload: Payload


BalanceMessage = Bulletin
"""What of these is a message of its own."""
