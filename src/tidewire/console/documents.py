"""What the door says, as JSON. The OpenAPI document is made from these."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Literal

import msgspec

from tidewire.balancing.load import Load
from tidewire.language import Explanation
from tidewire.live.notification import Notification
from tidewire.model.events import Event
from tidewire.model.values import shown_value
from tidewire.observe.network import BrokerState


class CamelDocument(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """In JSON, names are in camel case."""


# -- events ------------------------------------------------------------------------------------------------------------


class EventDocument(CamelDocument, frozen=True, kw_only=True, omit_defaults=True):
    """An event. Timestamps are RFC 3339 strings, bytes base64; NaN and the infinities are strings too."""

    attributes: dict[str, bool | int | float | str]
    body: str | None = None
    """In base64."""
    content_type: str | None = None


class Passed(EventDocument, frozen=True, kw_only=True, omit_defaults=True):
    """An event that has come, and how long that took; both in seconds, the second is give or take."""

    latency: float
    latency_error: float


def event_document(event: Event) -> EventDocument:
    """The event, whatever it holds."""
    return EventDocument(**_parts(event))


def passed(notification: Notification) -> Passed:
    """The event, and how long it took."""
    return Passed(**_parts(notification.event), latency=notification.latency, latency_error=notification.latency_error)


def _parts(event: Event) -> dict[str, Any]:
    body = None if event.body is None else b64encode(event.body).decode()
    attributes = {name: shown_value(value) for name, value in event.attributes.items()}
    return {"attributes": attributes, "body": body, "content_type": event.content_type}


class RefusedEvent(CamelDocument, frozen=True, kw_only=True):
    """One event of a request that was not taken; ``index`` counts from 0."""

    index: int
    code: str
    message: str


class Accepted(CamelDocument, frozen=True, kw_only=True):
    """What became of the events of a request."""

    accepted: int
    refused: list[RefusedEvent] = []
    further_refused: int = 0
    """Refused by the broker without saying which."""


class Notice(CamelDocument, frozen=True, kw_only=True):
    """Something happened on the way: events lost because nobody read them, a move, a lost connection."""

    what: str
    facts: dict[str, str | int | float]


class Subscribed(CamelDocument, frozen=True, kw_only=True):
    """The subscription stands: every event that is published from now on, anywhere, will come."""

    filter: str
    """In its normal form."""
    broker: str | None


# -- filters -----------------------------------------------------------------------------------------------------------


class ExplainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A filter, and an event to try it on."""

    filter: str
    event: dict[str, Any] | None = None


class SampleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A filter to try on what passes."""

    filter: str


class DecidingPredicate(CamelDocument, frozen=True, kw_only=True):
    """A predicate that decided, why, and its place in the text."""

    predicate: str
    outcome: Literal["true", "false", "unknown"]
    because: str
    start: int | None
    end: int | None


class ExplanationDocument(CamelDocument, frozen=True, kw_only=True):
    """What a filter means and costs; the outcome and the decisions if there is an event."""

    text: str
    meaning: list[str]
    normal_form: str
    conjunctions: int
    cost: int
    cost_meaning: str
    access: list[str]
    warnings: list[str]
    outcome: Literal["true", "false", "unknown"] | None
    decisions: list[DecidingPredicate]


def explanation_document(found: Explanation) -> ExplanationDocument:
    """The same, in camel case."""
    return msgspec.convert(found, ExplanationDocument, from_attributes=True)


class Share(CamelDocument, frozen=True, kw_only=True):
    """How much of what passes a filter matches."""

    window_s: float
    seen: int
    """Events looked at in the window."""
    matched: int
    share: float | None
    """None if nothing was seen."""
    events_per_s: float
    """What passes while it is listened to, looked at or not."""


# -- the network -------------------------------------------------------------------------------------------------------


class Rates(CamelDocument, frozen=True, kw_only=True):
    """What passes a broker, per second."""

    events_per_s: float
    deliveries_per_s: float
    forwards_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float


class LoadDocument(CamelDocument, frozen=True, kw_only=True):
    """The load indices of a broker: see the load indices of the sheet `peer`."""

    input_rate: float
    input_bytes_s: float
    output_bytes_s: float
    matching_delay_s: float
    matching_slope_s: float
    input_utilisation: float
    output_utilisation: float
    cpu_utilisation: float
    memory_utilisation: float
    subscriptions: int


def load_document(load: Load | None) -> LoadDocument | None:
    """The same, in camel case."""
    return None if load is None else msgspec.convert(load, LoadDocument, from_attributes=True)


class BrokerDocument(CamelDocument, frozen=True, kw_only=True):
    """A broker. What only it can tell is null while it does not answer."""

    broker: str
    address: str
    state: BrokerState
    is_reachable: bool
    role: str | None = None
    is_leaving: bool = False
    is_full: bool = False
    clients: int | None = None
    publishers: int | None = None
    subscribers: int | None = None
    routes: int | None = None
    rates: Rates | None = None
    load: LoadDocument | None = None


class LinkDocument(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "sender": "from",
        "receiver": "to",
        "events_per_s": "eventsPerS",
        "bytes_per_s": "bytesPerS",
        "queued_bytes": "queuedBytes",
    },
):
    """One direction of a link, as its sender sees it."""

    sender: str
    receiver: str
    events_per_s: float
    bytes_per_s: float
    queued_bytes: int


class OverlayDocument(CamelDocument, frozen=True, kw_only=True):
    """The network at one moment; ``at`` in seconds of 1970."""

    at: float
    brokers: list[BrokerDocument]
    links: list[LinkDocument]


class LoadsDocument(CamelDocument, frozen=True, kw_only=True):
    """The load indices of every broker that answers; null in its first second."""

    at: float
    loads: dict[str, LoadDocument | None]


class DecisionDocument(CamelDocument, frozen=True, kw_only=True):
    """Something that a broker decided, or that befell it; ``at`` in seconds of 1970."""

    at: float
    broker: str
    what: str
    times: int
    """How often, about the same things; the rest is of the last time."""
    facts: dict[str, str | int | float]


class DecisionsDocument(CamelDocument, frozen=True, kw_only=True):
    """What brokers decided lately, the newest last."""

    at: float
    decisions: list[DecisionDocument]


class Health(CamelDocument, frozen=True, kw_only=True):
    """The door is open. Whether brokers are there, the overlay says."""

    status: Literal["ok"] = "ok"
