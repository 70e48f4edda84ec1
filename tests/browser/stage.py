"""Live brokers and a live door on loopback, in a thread of their own, and a Chromium that looks at them."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

from playwright.sync_api import Browser, Dialog, Page, sync_playwright

import tidewire
from tests.integration.network import until
from tidewire.broker.config import BrokerConfig
from tidewire.console.network import Network
from tidewire.console.server import LiveDoor
from tidewire.live.broker import LiveBroker
from tidewire.model.ids import BrokerId

T = TypeVar("T")

FLAGS: Final = [
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE_MS: Final = 30_000
"""A machine may be busy; nothing here waits longer than it must."""


def find_chromium() -> str | None:
    """Debian's Chromium, or another one on the path."""
    return shutil.which("chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS  # Chromium's own sandbox does not run as root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=flags)
        try:
            yield browser
        finally:
            browser.close()


class Stage:
    """A head, two edges and a door."""

    def __init__(self) -> None:
        self.url = ""
        self.brokers: dict[str, LiveBroker] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stage")
        self._door: LiveDoor | None = None
        self._traffic: asyncio.Task[None] | None = None

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it where the brokers are, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def __enter__(self) -> Self:
        self._thread.start()
        self.do(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.do(self._stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _start(self) -> None:
        for name, role in (("head", "head"), ("edge1", "edge"), ("edge2", "edge")):
            await self._add(name, role)
        await until(lambda: len(self.brokers["head"].node.core.links.up()) == 2)
        await self._open_door("127.0.0.1:0")

    async def _add(self, name: str, role: str) -> None:
        known = [self.brokers["head"].address] if self.brokers else []
        settings: Any = {"address": "127.0.0.1:0", "role": role, "neighbours": known}
        node = LiveBroker(BrokerConfig(broker=BrokerId(name), **settings))
        await node.start()
        self.brokers[name] = node

    async def _open_door(self, address: str) -> None:
        self._door = LiveDoor(address, Network(brokers=tuple(node.address for node in self.brokers.values())))
        await self._door.start()
        self.url = self._door.url

    async def _stop(self) -> None:
        if self._traffic is not None:
            self._traffic.cancel()
        await self.close_door()
        for node in self.brokers.values():
            await node.stop()

    async def close_door(self) -> None:
        """As when the console's process ends."""
        if self._door is not None:
            await self._door.stop()
            self._door = None

    async def open_door_again(self) -> None:
        """At the same address."""
        await self._open_door(self.url.removeprefix("http://"))

    async def end_broker(self, name: str) -> None:
        """As when its process ends."""
        await self.brokers.pop(name).stop()

    async def publish(self, *events: dict[str, Any]) -> None:
        """Through the head, from a session of its own."""
        async with tidewire.connect(self.brokers["head"].address) as wire:
            for event in events:
                await wire.publish(event)

    async def begin_traffic(self, *events: dict[str, Any], every_s: float = 0.02) -> None:
        """These events in turn, over and over, for a subscriber at each edge."""

        async def run() -> None:
            edges = [node.address for name, node in self.brokers.items() if name != "head"]
            async with tidewire.connect(self.brokers["head"].address) as publisher:
                readers = [tidewire.connect(address) for address in edges]
                for reader in readers:
                    await reader.__aenter__()
                    await reader.subscribe("true", lambda _: None)
                try:
                    while True:
                        for event in events:
                            await publisher.publish(event)
                            await asyncio.sleep(every_s)
                finally:
                    for reader in readers:
                        await reader.close()

        self._traffic = asyncio.ensure_future(run())


class Witness:
    """What must not happen on a page: errors, dialogs, breaches of the policy, requests to other places."""

    def __init__(self, page: Page, url: str, *, statuses: tuple[int, ...] = (400,)) -> None:
        """A browser notes every answer that is an error. These may be: the lab gets a 400 for every mistake."""
        self.seen: list[str] = []
        self._statuses = statuses
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        page.on("dialog", self._asked_by_dialog)
        page.on("request", lambda request: self._asked(request.url, url))
        page.on("console", lambda message: self._said(message.type, message.text))
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation', breach =>"
            " console.error('policy: ' + breach.violatedDirective + ' ' + breach.blockedURI))"
        )

    def _asked_by_dialog(self, dialog: Dialog) -> None:
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, asked: str, ours: str) -> None:
        if not asked.startswith((f"{ours}/", "data:")):
            self.seen.append(f"request: {asked}")

    def _said(self, kind: str, text: str) -> None:
        is_expected = any(f"status of {status} " in text for status in self._statuses)
        if kind in ("error", "warning") and not is_expected:
            self.seen.append(f"console: {text}")
