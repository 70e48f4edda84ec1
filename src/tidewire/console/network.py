"""The way from the door to the brokers: as any client, with what the request shows and nothing of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tidewire.client.events import Tell
from tidewire.live.connect import Wire, connect
from tidewire.live.credentials import Credentials
from tidewire.live.operate import members_of
from tidewire.live.sockets import is_secured
from tidewire.model.errors import Unavailable

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

    @property
    def is_secured(self) -> bool:
        """Do the brokers ask who somebody is?"""
        return any(is_secured(address) for address in (*self.brokers, self.coordinator or ""))

    def credentials(self, token: str | None) -> Credentials:
        """What a request shows, for the brokers. The one place that makes them."""
        return Credentials(token=token, authority=self.authority)

    async def wire(
        self, credentials: Credentials, *, name: str, on_notice: Callable[[Tell], None] | None = None
    ) -> Wire:
        """A session, to be entered."""
        brokers = await self.addresses(credentials)
        return connect(brokers, name=name, timeout=PATIENCE_S, on_notice=on_notice, credentials=credentials)

    async def addresses(self, credentials: Credentials) -> list[str]:
        """Brokers to begin with."""
        if self.brokers or self.coordinator is None:
            return list(self.brokers)
        members = await members_of(self.coordinator, seconds=LOOK_S, credentials=credentials)
        scheme = "tidewires://" if is_secured(self.coordinator) else ""
        known = [scheme + one.address for one in members if one.is_alive]
        if not known:
            raise Unavailable(f"the coordinator at {self.coordinator} knows no broker that is running")
        return known
