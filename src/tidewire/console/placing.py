"""What the coordinator is asked through the door: which broker serves whom, and how load is spread (bad §1.2)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tidewire.console.documents import CamelDocument
from tidewire.console.network import LOOK_S, Network
from tidewire.coordinator.balancing import BalanceView
from tidewire.live.credentials import Credentials
from tidewire.live.operate import balance_of, register_user, request_broker
from tidewire.model.errors import Unavailable
from tidewire.model.placement_messages import USER_NAME_MAX

UserName = Annotated[str, Meta(min_length=1, max_length=USER_NAME_MAX)]


class RegisterUserRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who wants to be known."""

    user: UserName


class LocationDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In degrees."""

    lat: Annotated[float, Meta(ge=-90, le=90)]
    lon: Annotated[float, Meta(ge=-180, le=180)]


class RequestBrokerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A registered user, and where it is: needed where the nearest broker is chosen."""

    user: UserName
    location: LocationDocument | None = None


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
        await register_user(self._coordinator(), asked.user, seconds=LOOK_S, credentials=credentials)
        return RegisteredDocument(user=asked.user)

    async def request(self, credentials: Credentials, asked: RequestBrokerRequest) -> ServedByDocument:
        """Which broker serves this user?"""
        place = None if asked.location is None else (asked.location.lat, asked.location.lon)
        found = await request_broker(self._coordinator(), asked.user, place, seconds=LOOK_S, credentials=credentials)
        return ServedByDocument(user=asked.user, broker=found.broker, address=found.address)

    async def balance(self, credentials: Credentials) -> BalanceDocument:
        """How is load spread?"""
        view = await balance_of(self._coordinator(), seconds=LOOK_S, credentials=credentials)
        return _document(view)


def _document(view: BalanceView) -> BalanceDocument:
    fields = msgspec.structs.asdict(view)
    brokers = [BrokerLoadDocument(**msgspec.structs.asdict(one)) for one in view.brokers]
    return BalanceDocument(**{**fields, "brokers": brokers})
