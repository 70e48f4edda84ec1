"""The subscribers of the live prototype: sessions that the coordinator places and moves, and what comes to them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from hashlib import blake2b
from random import Random
from typing import Any, Final, Protocol

from tidewire.live.channels import ChannelNotification
from tidewire.live.connect import Wire, connect
from tidewire.model.ticks import tick_at
from tidewire.papers.bad import declarations, emergencies
from tidewire.papers.bad.declarations import Walker, channel_name
from tidewire.papers.bad.emergencies import City, Key
from tidewire.papers.bad.nodes import Processes
from tidewire.papers.bad.scene import name_of

PATIENCE_S: Final = 600.0
"""A machine may be busy with other things: what cannot be said now is said later."""
POSITION_EVERY_S: Final = 30.0
"""In the paper's time, where it was every second: brokers and Spark would do little else."""


class Scene(Protocol):
    """What a subscriber must know of where it is."""

    city: City
    nodes: Processes
    seed: int
    seconds: float
    """Up to then it is played, in the paper's time."""
    wardens: list[str]
    positions: dict[tuple[str, int], tuple[float, float]]
    ledger: Ledger
    stack: contextlib.AsyncExitStack

    @property
    def now_s(self) -> float:
        """In the paper's time."""

    async def until(self, at_s: float) -> None:
        """In the paper's time."""


class Taken:
    """One subscription of one session, and what came."""

    def __init__(self, person: Listener, key: Key, given: Mapping[str, Any]) -> None:
        self.person, self.key, self.given = person, key, given
        self.asked = self.confirmed = 0
        self.came: list[tuple[int, bytes]] = []
        """The tick of each notification, and what stands for its rows."""

    def take(self, notification: ChannelNotification) -> None:
        """A run has found something."""
        self.person.scene.ledger.take(self, notification)


class Ledger:
    """What came, to everybody: equal bytes are kept once."""

    def __init__(self) -> None:
        self.notifications: dict[tuple[Key, int, bytes], tuple[ChannelNotification, float]] = {}
        """By subscription, tick and digest: the first one, and when it came."""
        self.bytes_in: dict[str, int] = {}
        self.bytes_out: dict[str, int] = {}
        """By broker, as the sessions know it: results that came to it, and that it sent."""
        self._brought: set[tuple[str, Key, int]] = set()
        self.last_s = 0.0

    def bytes_in_all(self) -> int:
        """To and from brokers, of results."""
        return sum(self.bytes_in.values()) + sum(self.bytes_out.values())

    def take(self, taken: Taken, notification: ChannelNotification) -> None:
        self.last_s = time.monotonic()
        data = notification.data
        digest = blake2b(data, digest_size=16).digest()
        taken.came.append((notification.tick, digest))
        self.notifications.setdefault((taken.key, notification.tick, digest), (notification, time.time()))
        broker = taken.person.broker
        self.bytes_out[broker] = self.bytes_out.get(broker, 0) + len(data)
        brought = (broker, taken.key, notification.tick)
        if brought not in self._brought:
            self._brought.add(brought)
            self.bytes_in[broker] = self.bytes_in.get(broker, 0) + len(data)


class Listener:
    """A subscriber: a session that the coordinator places."""

    def __init__(self, scene: Scene, number: int) -> None:
        self.scene = scene
        self.name = name_of(number)
        self.citizen = scene.city.people[number]
        near = scene.wardens.index(self.name) if self.name in scene.wardens else None
        self.walker = Walker(Random(f"{scene.seed}/{number}"), self.citizen.x, self.citizen.y, within=near)
        self.taken: list[Taken] = []
        self.wire: Wire | None = None

    @property
    def broker(self) -> str:
        """Which broker serves it now?"""
        return (self.wire and self.wire.subscribed_at) or ""

    async def live(self) -> None:
        """From its login to the end; its positions go on beside."""
        where = emergencies.location(self.citizen.x, self.citizen.y)
        await self.scene.until(self.citizen.login_s)
        self.wire = connect(
            coordinator=self.scene.nodes.coordinator, location=(where.lat, where.lon), name=self.name, guaranteed=True,
            timeout=PATIENCE_S,
        )  # fmt: skip
        await self.scene.stack.enter_async_context(self.wire)
        await asyncio.gather(self._subscribe(self.wire), self._walk(self.wire))

    async def _subscribe(self, wire: Wire) -> None:
        for at_s, key in self.citizen.wants:
            if at_s >= self.scene.seconds:
                return
            await self.scene.until(at_s)
            one = Taken(self, key, declarations.parameters(key, self.scene.wardens))
            self.taken.append(one)
            one.asked = tick_at(time.time_ns() // 1_000_000)
            await wire.channel(channel_name(key[0]), one.given, callback=one.take)
            one.confirmed = tick_at(time.time_ns() // 1_000_000 + 1)

    async def _walk(self, wire: Wire) -> None:
        at_s = self.citizen.login_s
        while at_s < self.scene.seconds:
            await self.scene.until(at_s)
            position = self.walker.go()
            self.scene.positions[self.name, position["step"]] = (position["lat"], position["lon"])
            await wire.publish({**position, "user": self.name})
            at_s = max(at_s + POSITION_EVERY_S, self.scene.now_s)  # where it was is no news
