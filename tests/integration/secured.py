"""A secured installation for tests: its keys, tokens, and brokers that use them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import tidewire
from tests.integration.network import brokers
from tidewire.identity.grants import EVERYTHING, Grant
from tidewire.live.broker import LiveBroker
from tidewire.live.certificates import make_certificate
from tidewire.live.connect import Wire
from tidewire.live.credentials import Credentials
from tidewire.live.security import ensure_certificate, init_security
from tidewire.live.tokens import issue


class Installation:
    """Keys in a folder, and certificates for three brokers and a coordinator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        init_security(folder)
        for name in ("B0", "B1", "B2"):
            ensure_certificate(folder, name)
        ensure_certificate(folder, "coordinator", of="coordinator")

    def token(self, grant: Grant = EVERYTHING, *, name: str = "ann", seconds: float = 60.0) -> Credentials:
        """Somebody with a token."""
        shown, _ = issue(self.folder, name, grant, seconds=seconds)
        return self.show(shown)

    def show(self, token: str | None) -> Credentials:
        """Whoever shows this."""
        return Credentials(token=token, authority=self.folder / "authority.pem")

    def certificate(self, name: str) -> Credentials:
        """Somebody with a certificate of its own."""
        made = make_certificate(self.folder, name, of="client")
        return Credentials(authority=self.folder / "authority.pem", certificate=made, key=made.with_suffix(".key"))

    @asynccontextmanager
    async def brokers(self, *configs: dict[str, Any]) -> AsyncIterator[list[LiveBroker]]:
        """As ``network.brokers``, secured."""
        async with brokers(*({**given, "security": str(self.folder)} for given in configs)) as started:
            yield started

    def connect(self, node: LiveBroker, shown: Credentials, **options: Any) -> Wire:
        """A session of somebody who shows this."""
        return tidewire.connect(f"tidewires://{node.address}", credentials=shown, **options)
