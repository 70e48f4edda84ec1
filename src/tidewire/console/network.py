"""The way from the door to the brokers: as any client, with what the request shows and nothing of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tidewire.broker.status import BrokerStatus
from tidewire.client.events import Tell
from tidewire.live.connect import Wire, connect
from tidewire.live.credentials import Credentials
from tidewire.live.operate import ask, status_of
from tidewire.model.errors import PeerError, Unavailable
from tidewire.model.messages import AskMembers, Member, Members

PATIENCE_S: Final = 5.0
"""A request that finds no broker for so long is told so."""

LOOK_S: Final = 2.0
"""A broker that does not say within this how it is, is taken to be unreachable."""


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Where the brokers are, and by what they are known."""

    brokers: tuple[str, ...]
    """Some of them; the others are found."""

    coordinator: str | None = None
    authority: Path | None = None
    """The certificate that brokers' certificates are signed with."""

    def credentials(self, token: str | None) -> Credentials:
        """What a request shows, for the brokers. The one place that makes them."""
        return Credentials(token=token, authority=self.authority)

    def wire(self, credentials: Credentials, *, name: str, on_notice: Callable[[Tell], None] | None = None) -> Wire:
        """A session, to be entered."""
        del credentials
        return connect(list(self.brokers), name=name, timeout=PATIENCE_S, on_notice=on_notice)

    async def status(self, address: str, credentials: Credentials) -> BrokerStatus:
        """How a broker is."""
        del credentials
        document = await status_of(address, seconds=LOOK_S)
        try:
            return msgspec.json.decode(document, type=BrokerStatus)
        except msgspec.DecodeError as problem:
            raise PeerError(f"{address} says how it is in words of another version: {problem}") from None

    async def members(self, credentials: Credentials) -> list[Member]:
        """Whom the coordinator knows; nobody if there is none, or it does not answer."""
        if self.coordinator is None:
            return []
        del credentials
        try:
            answer = await ask(self.coordinator, AskMembers(1), seconds=LOOK_S)
        except Unavailable:
            return []
        return answer.members if isinstance(answer, Members) else []
