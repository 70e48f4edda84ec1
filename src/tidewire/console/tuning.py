"""Channels over HTTP, by the names of the paper (bad §1.2): for programs that speak neither our wire nor our client.

Who logs in has a session, which the coordinator places and may move as any other; a broker that does not speak the
wire has one by ``createbroker``. What comes for its subscriptions waits here, and in the data cluster, until it is
asked for. A session of which nothing is heard for a while is over.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tidewire.broker.status import BrokerStatus
from tidewire.channels.commands import CreateChannel
from tidewire.channels.schemas import TYPE_NAMES
from tidewire.console.documents import CamelDocument
from tidewire.console.network import LOOK_S, PATIENCE_S, Network
from tidewire.console.parameters import WAIT_S_MAX
from tidewire.console.placing import BrokerName, LocationDocument, UserName
from tidewire.live.channels import ChannelNotification, ChannelSubscription
from tidewire.live.connect import Wire, connect
from tidewire.live.credentials import Credentials
from tidewire.live.operate import command_channels, status_of
from tidewire.live.sockets import is_secured
from tidewire.model.channel_messages import CHANNEL_NAME_MAX
from tidewire.model.errors import LimitReached, TidewireError, Unavailable, UnknownSubscription, UnknownUser
from tidewire.model.values import shown_value

SESSIONS_MAX: Final = 1000
SUBSCRIPTIONS_MAX: Final = 1000
"""Of one session."""
GONE_AFTER_S: Final = 120.0
"""A session of which nothing is heard for so long is over."""
NOTIFICATIONS_AT_ONCE: Final = 100
LOOK_AGAIN_S: Final = 0.05
CREATE_S: Final = 30.0
_PLAIN: Final = "^[A-Za-z_][A-Za-z0-9_]*$"

ChannelName = Annotated[str, Meta(min_length=1, max_length=CHANNEL_NAME_MAX, pattern=_PLAIN)]
SessionName = Annotated[str, Meta(min_length=1, max_length=100)]
Wait = Annotated[float, Meta(ge=0, le=WAIT_S_MAX)]
Parameter = bool | int | float | str
"""A timestamp is a string too, as RFC 3339 has it."""
TypeName = Annotated[str, Meta(pattern=f"^(?i:{'|'.join(TYPE_NAMES)})$")]


class CreateChannelRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A query with parameters, and how often it runs."""

    name: ChannelName
    query: Annotated[str, Meta(min_length=1, max_length=20_000)]
    parameters: dict[ChannelName, TypeName] = {}
    """The type of each, as in {"least": "double"}."""
    period_s: Annotated[float, Meta(ge=1, le=86_400)] | None = None
    """Without one it is continuous."""
    feed: ChannelName | None = None
    """The dataset whose new rows it tells of, if that is not plain."""

    def text(self) -> str:
        """As it is said in SQL."""
        given = ", ".join(f"{name} {kind}" for name, kind in self.parameters.items())
        when = "continuous" if self.period_s is None else f"period {self.period_s:g}s"
        feed = "" if self.feed is None else f" on new {self.feed}"
        return f"create channel {self.name}({given}) {when}{feed} as {self.query}"


class CreatedChannelDocument(CamelDocument, frozen=True, kw_only=True):
    """The channel that there is now."""

    name: str
    columns: list[str]


class LoginRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A subscriber, and where it is: needed where the nearest broker is chosen."""

    user: UserName
    location: LocationDocument | None = None


class CreateBrokerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broker that does not speak the wire, and wants results for its own subscribers."""

    broker: BrokerName


class SessionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One that has logged in, or was created."""

    session: SessionName


class SubscribeChannelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What it wants to be told."""

    session: SessionName
    channel: Annotated[str, Meta(min_length=1, max_length=CHANNEL_NAME_MAX)]
    parameters: dict[str, Parameter] = {}


class SubscriptionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A subscription, as it was numbered when it was made."""

    session: SessionName
    subscription: int


class NotifyRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What is there for me? If there is nothing, it is waited for so long."""

    session: SessionName
    wait_s: Wait = 0.0


class SessionDocument(CamelDocument, frozen=True, kw_only=True):
    """What to say with every call, and when it is over unless there is one."""

    session: str
    gone_after_s: float


class EndedDocument(CamelDocument, frozen=True, kw_only=True):
    """The session is over, or the subscription."""

    session: str
    subscription: int | None = None


class SubscribedChannelDocument(CamelDocument, frozen=True, kw_only=True):
    """Every result of later runs will be there."""

    session: str
    subscription: int


class NotifyDocument(CamelDocument, frozen=True, kw_only=True):
    """The subscriptions that there is something for; what it is, getresults tells."""

    session: str
    subscriptions: list[int]


class ResultsOfRun(CamelDocument, frozen=True, kw_only=True):
    """What one run has found: its place in the channel's stream, and the rows, with the events that they came from."""

    tick: int
    rows: list[dict[str, Any]]
    origins: list[list[tuple[str, int]]]


class ResultsDocument(CamelDocument, frozen=True, kw_only=True):
    """What was not asked for yet, in order; each run once."""

    session: str
    subscription: int
    runs: list[ResultsOfRun]
    has_more: bool


class _Session:
    """Somebody who calls, and what there is for it."""

    def __init__(self, wire: Wire, credentials: Credentials) -> None:
        self.wire = wire
        self.credentials = credentials
        self.subscriptions: dict[int, ChannelSubscription] = {}
        self.ending: asyncio.TimerHandle | None = None

    def get(self, number: int) -> ChannelSubscription:
        """UnknownSubscription if there is none."""
        if number not in self.subscriptions:
            raise UnknownSubscription(f"there is no subscription {number} in this session")
        return self.subscriptions[number]


class Tuning:
    """All sessions that have come through this door."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._sessions: dict[str, _Session] = {}
        self._closing: dict[asyncio.Task[None], None] = {}

    # -- the data cluster ----------------------------------------------------------------------------------------------

    async def create_channel(self, credentials: Credentials, asked: CreateChannelRequest) -> CreatedChannelDocument:
        """One more channel."""
        cluster = await self._data_cluster(credentials)
        command = CreateChannel(asked.text())
        answer = await command_channels(cluster, command, seconds=CREATE_S, credentials=credentials)
        [made] = answer.channels
        return CreatedChannelDocument(name=made.channel, columns=[one.name for one in made.columns])

    async def _data_cluster(self, credentials: Credentials) -> str:
        """Brokers know where it is."""
        for address in await self._network.addresses(credentials):
            with suppress(Unavailable):
                told = await status_of(address, seconds=LOOK_S, credentials=credentials)
                status = msgspec.json.decode(told, type=BrokerStatus)
                if status.channels is not None:
                    scheme = "tidewires://" if is_secured(address) else ""
                    return scheme + status.channels.data_cluster
        raise Unavailable("no broker that can be reached has a data cluster: start one, or try again later")

    # -- who is here ---------------------------------------------------------------------------------------------------

    async def login(self, credentials: Credentials, asked: LoginRequest) -> SessionDocument:
        """A subscriber is here; the coordinator says at which broker, if there is one."""
        place = None if asked.location is None else (asked.location.lat, asked.location.lon)
        return await self._begin(credentials, asked.user, place)

    async def create_broker(self, credentials: Credentials, asked: CreateBrokerRequest) -> SessionDocument:
        """A broker is here."""
        return await self._begin(credentials, asked.broker, None)

    async def _begin(
        self, credentials: Credentials, name: str, location: tuple[float, float] | None
    ) -> SessionDocument:
        if len(self._sessions) >= SESSIONS_MAX:
            raise LimitReached(f"{SESSIONS_MAX} sessions are open here: try again in a moment")
        office = self._network.coordinator
        brokers = list(self._network.brokers) or (None if office else await self._network.addresses(credentials))
        wire = connect(
            brokers, coordinator=office, location=location, name=name, timeout=PATIENCE_S, credentials=credentials
        )
        await wire.__aenter__()
        number = secrets.token_urlsafe(18)
        self._sessions[number] = _Session(wire, credentials)
        self._heard_of(number)
        return SessionDocument(session=number, gone_after_s=GONE_AFTER_S)

    def _session(self, credentials: Credentials, number: str) -> _Session:
        """UnknownUser if it is over, or another one's."""
        found = self._sessions.get(number)
        if found is None or found.credentials != credentials:
            raise UnknownUser(
                f"there is no such session: log in (login). One that has not called for {GONE_AFTER_S:g} s is over"
            )
        self._heard_of(number)
        return found

    def _heard_of(self, number: str, *, for_s: float = 0.0) -> None:
        session = self._sessions[number]
        if session.ending is not None:
            session.ending.cancel()
        session.ending = asyncio.get_running_loop().call_later(for_s + GONE_AFTER_S, self._end, number)

    def _end(self, number: str) -> None:
        session = self._sessions.pop(number, None)
        if session is None:
            return
        if session.ending is not None:
            session.ending.cancel()
        task = asyncio.ensure_future(session.wire.close())
        self._closing[task] = None
        task.add_done_callback(self._closing.pop)

    async def logout(self, credentials: Credentials, asked: SessionRequest) -> EndedDocument:
        """It wants nothing more."""
        self._session(credentials, asked.session)
        self._end(asked.session)
        return EndedDocument(session=asked.session)

    async def close(self) -> None:
        """End them all."""
        for number in list(self._sessions):
            self._end(number)
        with suppress(TidewireError):
            await asyncio.gather(*self._closing)

    # -- what they want ------------------------------------------------------------------------------------------------

    async def subscribe(self, credentials: Credentials, asked: SubscribeChannelRequest) -> SubscribedChannelDocument:
        """When it is confirmed."""
        session = self._session(credentials, asked.session)
        if len(session.subscriptions) >= SUBSCRIPTIONS_MAX:
            raise LimitReached(f"a session has at most {SUBSCRIPTIONS_MAX} subscriptions here")
        made = await session.wire.channel(asked.channel, asked.parameters)
        session.subscriptions[made.number] = made
        return SubscribedChannelDocument(session=asked.session, subscription=made.number)

    async def unsubscribe(self, credentials: Credentials, asked: SubscriptionRequest) -> EndedDocument:
        """What has come for it and was not asked for is gone."""
        session = self._session(credentials, asked.session)
        await session.get(asked.subscription).unsubscribe()
        session.subscriptions.pop(asked.subscription, None)
        return EndedDocument(session=asked.session, subscription=asked.subscription)

    async def notify(self, credentials: Credentials, asked: NotifyRequest) -> NotifyDocument:
        """Which of them have something new? It carries no results."""
        session = self._session(credentials, asked.session)
        self._heard_of(asked.session, for_s=asked.wait_s)
        loop = asyncio.get_running_loop()
        until = loop.time() + asked.wait_s
        while not (found := [number for number, one in session.subscriptions.items() if one.waiting]):
            if loop.time() >= until or asked.session not in self._sessions:
                break
            await asyncio.sleep(LOOK_AGAIN_S)
        return NotifyDocument(session=asked.session, subscriptions=found)

    async def results(self, credentials: Credentials, asked: SubscriptionRequest) -> ResultsDocument:
        """What has come for one of them; what has ended it, if that is all there is."""
        one = self._session(credentials, asked.session).get(asked.subscription)
        runs: list[ResultsOfRun] = []
        while one.waiting and len(runs) < NOTIFICATIONS_AT_ONCE:
            runs.append(_run(await one.get(LOOK_S)))
        if not runs:
            with suppress(TimeoutError):
                runs.append(_run(await one.get(0.0)))
        return ResultsDocument(
            session=asked.session, subscription=asked.subscription, runs=runs, has_more=bool(one.waiting)
        )


def _run(notification: ChannelNotification) -> ResultsOfRun:
    rows = notification.rows
    return ResultsOfRun(
        tick=notification.tick,
        rows=[{name: None if cell is None else shown_value(cell) for name, cell in row.items()} for row in rows],
        origins=[row.origins for row in rows],
    )
