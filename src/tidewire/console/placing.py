"""What the coordinator is asked through the door: which broker serves whom, and how load is spread (bad §1.2).

Brokers that do not speak the wire register and report here, too; ours do it by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidewire.console.documents import CamelDocument
from tidewire.console.errors import BodyTooLarge
from tidewire.console.network import LOOK_S, Network
from tidewire.coordinator.balancing import BalanceView
from tidewire.live.credentials import Credentials
from tidewire.live.operate import balance_of, register_user, request_broker, tell_of_broker
from tidewire.model.errors import Unavailable, UsageError
from tidewire.model.ids import BrokerId
from tidewire.model.message_fields import BROKER_NAME_MAX, SECONDS_MAX, SECONDS_MIN
from tidewire.model.placement_messages import (
    ADDRESS_MAX,
    HIDDEN,
    KEY_BYTES,
    USER_NAME_MAX,
    RegisterBroker,
    ReportedClient,
    ReportFor,
    ReportLoad,
)
from tidewire.wire.frames import FRAME_BYTES_MAX, message_frame

_NAME: Final = "^[!-~]([ -~]*[!-~])?$"
_ADDRESS: Final = "^([a-z][a-z0-9+.-]*://[!-~]+|[!-~]+:[0-9]{1,5})$"
"""A URL, or host:port."""

UserName = Annotated[str, Meta(min_length=1, max_length=USER_NAME_MAX)]
NewUserName = Annotated[
    str, Meta(min_length=1, max_length=USER_NAME_MAX, extra_json_schema={"not": {"pattern": HIDDEN}})
]
BrokerName = Annotated[str, Meta(max_length=BROKER_NAME_MAX, pattern=_NAME)]


class RegisterUserRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who wants to be known."""

    user: NewUserName


class LocationDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In degrees."""

    lat: Annotated[float, Meta(ge=-90, le=90)]
    lon: Annotated[float, Meta(ge=-180, le=180)]


class RequestBrokerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A registered user, and where it is: needed where the nearest broker is chosen."""

    user: UserName
    location: LocationDocument | None = None


class RegisterBrokerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broker that does not speak the wire, where its users find it, and where it is on the globe."""

    broker: BrokerName
    address: Annotated[str, Meta(max_length=ADDRESS_MAX, pattern=_ADDRESS)]
    location: LocationDocument | None = None


class SubscriptionLoad(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came in for a subscription, once for all who have it, and who they are."""

    bytes: Annotated[float, Meta(ge=0)]
    subscribers: list[UserName]


class ReportLoadRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How loaded a broker was for so many seconds: by subscription, who is there and how much came."""

    broker: BrokerName
    seconds: Annotated[float, Meta(ge=SECONDS_MIN, le=SECONDS_MAX)]
    subscriptions: dict[str, SubscriptionLoad]
    is_open: bool = True
    """Does it take subscribers?"""


class RegisteredBrokerDocument(CamelDocument, frozen=True, kw_only=True):
    """How often it should report, and when it is forgotten unless it does."""

    broker: str
    report_every_s: float
    gone_after_s: float


class MoveDocument(CamelDocument, frozen=True, kw_only=True):
    """A subscriber that is to go, and where to."""

    user: str
    broker: str
    address: str


class ReportedDocument(RegisteredBrokerDocument, frozen=True, kw_only=True):
    """The same, and who is to go."""

    moves: list[MoveDocument]


class RegisteredDocument(CamelDocument, frozen=True, kw_only=True):
    """Who is known."""

    user: str


class ServedByDocument(CamelDocument, frozen=True, kw_only=True):
    """The broker to subscribe at."""

    user: str
    broker: str
    address: str


class BrokerLoadDocument(CamelDocument, frozen=True, kw_only=True):
    """One broker, as the coordinator sees it."""

    broker: str
    load_bytes_s: float
    subscribers: int
    is_open: bool
    """Does it take subscribers?"""


class BalanceDocument(CamelDocument, frozen=True, kw_only=True):
    """How load is spread over the brokers, and what was done about it."""

    policy: str
    placement: str
    brokers: list[BrokerLoadDocument]
    mean_bytes_s: float
    cov: float
    is_moving: bool
    plans: int
    moved: int
    stayed: int
    moved_by: dict[str, int]
    """How many of them by plans of which stages."""
    last_stages: list[str]
    last_reason: str
    last_cov_before: float
    last_cov_predicted: float


class Placing:
    """The coordinator of a network, as far as there is one."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def _coordinator(self) -> str:
        if self._network.coordinator is None:
            raise Unavailable(
                "this console knows no coordinator: start it with --coordinator, or beside one with --http"
            )
        return self._network.coordinator

    async def register(self, credentials: Credentials, asked: RegisterUserRequest) -> RegisteredDocument:
        """Know this user from now on."""
        with _in_characters():
            await register_user(self._coordinator(), asked.user, seconds=LOOK_S, credentials=credentials)
        return RegisteredDocument(user=asked.user)

    async def request(self, credentials: Credentials, asked: RequestBrokerRequest) -> ServedByDocument:
        """Which broker serves this user?"""
        where, office = _place(asked.location), self._coordinator()
        with _in_characters():
            found = await request_broker(office, asked.user, where, seconds=LOOK_S, credentials=credentials)
        return ServedByDocument(user=asked.user, broker=found.broker, address=found.address)

    async def register_broker(self, credentials: Credentials, asked: RegisterBrokerRequest) -> RegisteredBrokerDocument:
        """Know this broker for a while."""
        broker, where = BrokerId(_one_line(asked.broker)), _place(asked.location)
        told = RegisterBroker(1, broker, _one_line(asked.address), where, credentials.token)
        found = await tell_of_broker(self._coordinator(), told, seconds=LOOK_S, credentials=credentials)
        return RegisteredBrokerDocument(
            broker=broker, report_every_s=found.report_every_s, gone_after_s=found.gone_after_s
        )

    async def report(self, credentials: Credentials, asked: ReportLoadRequest) -> ReportedDocument:
        """This broker is so loaded; who is to go?"""
        with _in_characters():
            told = ReportFor(1, BrokerId(_one_line(asked.broker)), _report(asked), credentials.token)
            if len(message_frame(told)) > FRAME_BYTES_MAX:
                raise BodyTooLarge(f"a report has at most {FRAME_BYTES_MAX:,} bytes on its way to the coordinator")
        found = await tell_of_broker(self._coordinator(), told, seconds=LOOK_S, credentials=credentials)
        moves = [MoveDocument(user=one.user, broker=one.broker, address=one.address) for one in found.moves]
        return ReportedDocument(
            broker=asked.broker, report_every_s=found.report_every_s, gone_after_s=found.gone_after_s, moves=moves
        )

    async def balance(self, credentials: Credentials) -> BalanceDocument:
        """How is load spread?"""
        view = await balance_of(self._coordinator(), seconds=LOOK_S, credentials=credentials)
        return _document(view)


def _place(location: LocationDocument | None) -> tuple[float, float] | None:
    return None if location is None else (location.lat, location.lon)


def _report(asked: ReportLoadRequest) -> ReportLoad:
    """As brokers of ours report: by subscriber. What stands for a subscription is the same at every broker."""
    wants: dict[str, list[int]] = {}
    for at, one in enumerate(asked.subscriptions.values()):
        for user in dict.fromkeys(one.subscribers):
            wants.setdefault(user, []).append(at)
    return ReportLoad(
        seconds=asked.seconds,
        is_open=asked.is_open,
        keys=[blake2b(name.encode(), digest_size=KEY_BYTES).digest() for name in asked.subscriptions],
        sizes=[one.bytes for one in asked.subscriptions.values()],
        clients=[ReportedClient(number, user, places) for number, (user, places) in enumerate(wants.items())],
    )


def _one_line(text: str) -> str:
    """Patterns let a line end at the end pass."""
    if text.endswith("\n"):
        raise UsageError(f"{text!r} has a line end")
    return text


@contextmanager
def _in_characters() -> Iterator[None]:
    """UsageError if what was said cannot be said in UTF-8."""
    try:
        yield
    except UnicodeEncodeError:
        raise UsageError("the body has half of a surrogate pair in it: it is no character") from None


def _document(view: BalanceView) -> BalanceDocument:
    fields = msgspec.structs.asdict(view)
    brokers = [BrokerLoadDocument(**msgspec.structs.asdict(one)) for one in view.brokers]
    return BalanceDocument(**{**fields, "brokers": brokers})
