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
from tidewire.live.sockets import is_secured
from tidewire.model.errors import PeerError, Unavailable, error_of
from tidewire.model.messages import AskMembers, Member, Members, Refused

PATIENCE_S: Final = 5.0
"""A request that finds no broker for so long is told so."""

LOOK_S: Final = 2.0
"""A broker that does not say within this how it is, is taken to be unreachable."""


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Where the brokers are, and by what they are known."""

    brokers: tuple[str, ...] = ()
    """Some of them; the others are found. If there is none, the coordinator knows them."""

    coordinator: str | None = None
    authority: Path | None = None
    """The certificate that brokers' certificates are signed with."""

    def credentials(self, token: str | None) -> Credentials:
        """What a request shows, for the brokers. The one place that makes them."""
        return Credentials(token=token, authority=self.authority)

    async def wire(
        self, credentials: Credentials, *, name: str, on_notice: Callable[[Tell], None] | None = None
    ) -> Wire:
        """A session, to be entered."""
        brokers = list(self.brokers) or [one.address for one in await self.members(credentials) if one.is_alive]
        if not brokers:
            raise Unavailable(f"the coordinator at {self.coordinator} knows no broker")
        return connect(brokers, name=name, timeout=PATIENCE_S, on_notice=on_notice, credentials=credentials)

    async def status(self, address: str, credentials: Credentials) -> BrokerStatus:
        """How a broker is."""
        document = await status_of(address, seconds=LOOK_S, credentials=credentials)
        try:
            return msgspec.json.decode(document, type=BrokerStatus)
        except msgspec.DecodeError as problem:
            raise PeerError(f"{address} says how it is in words of another version: {problem}") from None

    async def members(self, credentials: Credentials) -> list[Member]:
        """Whom the coordinator knows."""
        if self.coordinator is None:
            return []
        question = AskMembers(1, credentials.token)
        answer = await ask(self.coordinator, question, seconds=LOOK_S, credentials=credentials)
        if isinstance(answer, Refused):
            raise error_of(answer.code, answer.reason)
        if not isinstance(answer, Members):
            raise PeerError(f"{self.coordinator} answered {type(answer).__name__}: is it a coordinator?")
        return [msgspec.structs.replace(one, address=self.written(one.address)) for one in answer.members]

    def written(self, address: str) -> str:
        """An address that somebody told, as it is written where all is secured."""
        is_all = is_secured(self.brokers[0] if self.brokers else self.coordinator or "")
        return f"tidewires://{address}" if is_all and not is_secured(address) else address
