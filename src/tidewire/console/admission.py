"""Who may ask here at all? Where brokers are secured, whoever they know. What each may do, they say themselves."""

from __future__ import annotations

import asyncio
from typing import Final

from tidewire.console.network import LOOK_S, Network
from tidewire.live.credentials import Credentials
from tidewire.live.operate import known_to_coordinator
from tidewire.model.errors import NotAuthenticated

REMEMBERED_S: Final = 5.0
"""Who was let in is not asked again for so long. Whatever is asked of brokers they check all the same."""
REMEMBERED_MAX: Final = 1024


class Admission:
    """The door has no keys: it shows the brokers what it was shown, and remembers for a moment whom they know."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._known: dict[Credentials, float] = {}
        """Until when; the oldest first."""

    async def admit(self, credentials: Credentials) -> None:
        """NotAuthenticated unless the brokers know who this is; Unavailable if no broker can say."""
        if not self._network.is_secured:
            return
        if credentials.token is None:
            raise NotAuthenticated("show a token (Authorization: Bearer TOKEN): make one with tidewire token create")
        now_s = asyncio.get_running_loop().time()
        if now_s < self._known.get(credentials, 0.0):
            return
        self._known.pop(credentials, None)
        await self._ask(credentials)
        self._known[credentials] = now_s + REMEMBERED_S
        while len(self._known) > REMEMBERED_MAX:
            del self._known[next(iter(self._known))]

    async def _ask(self, credentials: Credentials) -> None:
        """A broker; where only the coordinator is known, that: there may be no broker that speaks the wire."""
        if self._network.brokers or self._network.coordinator is None:
            async with await self._network.wire(credentials, name="http admission"):
                return
        await known_to_coordinator(self._network.coordinator, seconds=LOOK_S, credentials=credentials)
