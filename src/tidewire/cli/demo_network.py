"""The demo's network and its people: real processes, real sessions, and the count of what each must get."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from tidewire.benchmarks.progress import Tell
from tidewire.benchmarks.scene import Interest, name_of
from tidewire.broker.status import BrokerStatus
from tidewire.cli.layout import DATA, Layout
from tidewire.language import compile_filter
from tidewire.live.connect import Wire, connect
from tidewire.live.notification import Notification
from tidewire.live.operate import drain_broker, status_of
from tidewire.live.supervisor import Supervisor
from tidewire.model.errors import TidewireError, Unavailable

READY_S = 30.0
EDGES = 2


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the demo showed."""

    people: int
    subscriptions: int
    events: int
    deliveries: int
    moved: int
    lost: int
    twice: int
    out_of_order: int
    p50_ms: float
    p99_ms: float


class Network:
    """A coordinator, a head and two edges, as processes on free ports; and a data cluster, if it is asked for."""

    def __init__(self, state: Path, *, with_data: bool = False) -> None:
        layout = Layout(port=1, edges=EDGES, state=state, with_console=False, with_data=with_data)
        self._layout = replace(layout, port=_free_ports(layout.ports))
        self._said: list[str] = []
        self._has_data = False
        self._supervisor = Supervisor(say=self._heard)

    def _heard(self, name: str, line: str) -> None:
        self._said.append(f"{name}: {line}")
        self._has_data = self._has_data or (name == DATA and f'"what":"{DATA}"' in line)

    async def __aenter__(self) -> Self:
        for child in self._layout.children():
            self._supervisor.start(child)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End all of it."""
        await self._supervisor.stop()

    @property
    def addresses(self) -> list[str]:
        """The head's, then the edges'."""
        return self._layout.brokers

    @property
    def data_cluster(self) -> str:
        """Where its channels are."""
        assert self._layout.data_cluster is not None
        return self._layout.data_cluster

    @property
    def data_folder(self) -> Path:
        """Its tables."""
        return self._layout.data_folder

    async def until_data(self, tell: Tell, *, seconds: float) -> None:
        """Wait until the data cluster is there; Unavailable if that takes too long, or it is given up."""
        tell("Spark starts, in a process of its own")
        end = monotonic() + seconds
        while not self._has_data:
            if monotonic() > end or self._supervisor.children[DATA].is_given_up:
                said = [line for line in self._said if line.startswith(DATA)]
                raise Unavailable("the data cluster did not come up:\n" + "\n".join(said[-4:]))
            await asyncio.sleep(0.1)

    async def until_ready(self) -> None:
        """Wait until all are connected."""
        end = monotonic() + READY_S
        while monotonic() < end:
            with suppress(TidewireError):
                statuses = await self.statuses()
                if len(statuses) == EDGES + 1 and len(statuses[0].neighbours) == EDGES:
                    return
            await asyncio.sleep(0.1)
        raise Unavailable("the brokers did not come up:\n" + "\n".join(self._said[-12:]))

    async def statuses(self) -> list[BrokerStatus]:
        """How each broker is."""
        documents = await asyncio.gather(*(status_of(address) for address in self.addresses))
        return [msgspec.json.decode(document, type=BrokerStatus) for document in documents]


class Person:
    """Somebody with a session of their own, and what has come."""

    def __init__(self, number: int, texts: Sequence[str]) -> None:
        self.name = name_of(number)
        self.texts = list(texts)
        self.filters = [compile_filter(text) for text in texts]
        self.wire: Wire | None = None
        self.got: list[int] = []
        self.last: dict[str, Any] | None = None
        self.latencies: list[float] = []
        self._newest: Notification | None = None

    @property
    def count(self) -> int:
        """How many events have come."""
        return len(self.got)

    @property
    def broker(self) -> str:
        """Who serves this person now."""
        return (self.wire.subscribed_at if self.wire is not None else None) or "–"

    def take(self, notification: Notification) -> None:
        """An event has come; it is counted once, however many subscriptions it matched."""
        if notification is self._newest:
            return
        self._newest = notification
        self.got.append(notification["demo.number"])
        self.latencies.append(notification.latency)
        self.last = dict(notification.attributes)

    def wants(self, event: dict[str, Any]) -> bool:
        """Must this event come?"""
        return any(wanted.accepts(event) for wanted in self.filters)


class Scene:
    """People, events, and what happens to them."""

    def __init__(
        self, wanted: Sequence[Interest], events: list[dict[str, Any]], *, seconds: float, rate: float
    ) -> None:
        texts: dict[int, list[str]] = {}
        for one in wanted:
            texts.setdefault(one.person, []).append(one.text)
        self.people = [Person(number, some) for number, some in texts.items()]
        self._events = events
        self._seconds = seconds
        self._rate = rate
        self.published = 0
        self.statuses: list[BrokerStatus] = []

    @property
    def got(self) -> int:
        """All deliveries."""
        return sum(person.count for person in self.people)

    async def subscribe(self, network: Network) -> None:
        """Everyone connects to the head, is led to an edge, and subscribes."""
        self.statuses = await network.statuses()
        for person in self.people:
            person.wire = connect(network.addresses[0], name=person.name)
            await person.wire.__aenter__()
            await person.wire.subscribe_many(person.texts, person.take)

    async def flow(self, network: Network) -> Outcome:
        """Publish at a steady rate; half-way, empty the first edge."""
        before = [person.broker for person in self.people]
        watching = asyncio.create_task(self._watch(network))
        draining: asyncio.Task[None] | None = None
        async with connect(network.addresses[0], name="demo publisher") as publisher:
            began = monotonic()
            while (elapsed := monotonic() - began) < self._seconds:
                if draining is None and elapsed > self._seconds / 2:
                    draining = asyncio.create_task(drain_broker(network.addresses[1], seconds=30))
                while self.published < elapsed * self._rate:
                    await publisher.publish(self._event(self.published) | {"demo.number": self.published})
                    self.published += 1
                await asyncio.sleep(0.005)
            await publisher.flush()
        if draining is not None:
            await draining
        expected = [[n for n in range(self.published) if person.wants(self._event(n))] for person in self.people]
        await self._until_quiet(expected)
        watching.cancel()
        moved = sum(person.broker != was for person, was in zip(self.people, before, strict=True))
        for person in self.people:
            if person.wire is not None:
                await person.wire.close()
        return self._outcome(expected, moved)

    def _event(self, number: int) -> dict[str, Any]:
        return self._events[number % len(self._events)]

    async def _watch(self, network: Network) -> None:
        while True:
            with suppress(TidewireError):
                self.statuses = await network.statuses()
            await asyncio.sleep(0.25)

    async def _until_quiet(self, expected: list[list[int]]) -> None:
        """What is under way may still come."""
        end = monotonic() + 5.0
        while monotonic() < end and self.got < sum(map(len, expected)):
            await asyncio.sleep(0.02)

    def _outcome(self, expected: list[list[int]], moved: int) -> Outcome:
        lost = twice = out_of_order = 0
        for person, wanted in zip(self.people, expected, strict=True):
            lost += len(set(wanted) - set(person.got))
            twice += len(person.got) - len(set(person.got))
            out_of_order += person.got != sorted(person.got)
        delays = sorted(latency for person in self.people for latency in person.latencies) or [0.0]
        return Outcome(
            people=len(self.people),
            subscriptions=sum(len(person.texts) for person in self.people),
            events=self.published,
            deliveries=self.got,
            moved=moved,
            lost=lost,
            twice=twice,
            out_of_order=out_of_order,
            p50_ms=delays[len(delays) // 2] * 1000,
            p99_ms=delays[len(delays) * 99 // 100] * 1000,
        )


def _free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for _ in range(100):
        held: list[socket.socket] = []
        try:
            first = socket.create_server(("127.0.0.1", 0))
            held.append(first)
            port: int = first.getsockname()[1]
            for at in range(1, count):
                held.append(socket.create_server(("127.0.0.1", port + at)))  # noqa: PERF401 - those before are closed
        except (OSError, OverflowError):
            continue
        finally:
            for one in held:
                one.close()
        return port
    raise Unavailable(f"there are no {count} free ports in a row on 127.0.0.1")
