"""One story, both drivers: the simulator and real brokers bring the same events to the same people, in the same order.

A story is a scenario text (``tidewire sim``) without faults. Each event has a number, so that equal ones differ.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tidewire
from tests.integration.network import until
from tidewire.broker.config import BrokerConfig
from tidewire.broker.events import MoveClient
from tidewire.live.broker import LiveBroker
from tidewire.model.ids import BrokerId
from tidewire.model.messages import Use
from tidewire.simulator.scenario import Scenario

STAR = "broker H role=head\nbroker E1 role=edge\nbroker E2 role=edge\nlink H E1\nlink H E2\n"
LINE = "broker A role=both\nbroker B role=both\nbroker C role=both\nlink A B\nlink B C\n"
RING = LINE + "link C A\n"

STORIES = {
    "one broker": "broker A role=both\nann@A subscribe n > 2\nbob@A publish n=1\nbob publish n=3\nbob publish n=4\n",
    "a star": STAR + "ann@E1 subscribe n > 0\ncleo@E2 subscribe n > 1\nbob@H publish n=1\nbob publish n=2\n",
    "a line": LINE
    + "ann@C subscribe n > 5\ndan@B subscribe n > 9\nbob@A publish n=7\nbob publish n=10\nbob publish n=3\n",
    "a ring": RING
    + "ann@A subscribe t = 't'\ncleo@B subscribe t = 't'\ndan@C subscribe t = 't'\n"
    + "".join(f"p{x}@{x} publish t='t' n={i}\n" for i, x in enumerate("ABCABC")),
    "covering": LINE
    + "ann@C subscribe n > 1\nann subscribe n > 5\ndan@C subscribe n > 3\nbob@A publish n=2\nbob publish n=4\n"
    + "ann unsubscribe 1\nbob publish n=3\nbob publish n=6\n",
    "advertised": LINE
    + "ann@C subscribe class = 'STOCK'\nbob@A advertise class = 'STOCK' and n > 2\n"
    + "bob publish class='STOCK' n=1\nbob publish class='STOCK' n=3\nbob publish class='NEWS' n=4\n",
    "changed in place": STAR
    + "ann@E1 subscribe n > 2\nbob@H publish n=1\nbob publish n=3\nann change 1 n < 3\n"
    + "bob publish n=1\nbob publish n=3\n",
    "two publishers": LINE
    + "ann@B subscribe n > 0\n"
    + "".join(f"bob@A publish n={n} who='bob'\ncleo@C publish n={n} who='cleo'\n" for n in range(1, 6)),
    "a subscriber moves": STAR
    + "ann@E1 subscribe n > 0\nbob@H publish n=1\nbob publish n=2\nmigrate ann E2\nbob publish n=3\nmigrate ann E1\n"
    + "bob publish n=4\n",
    "a publisher moves": LINE
    + "ann@C subscribe n > 0\nbob@A publish n=1\nmigrate bob B publish\nbob publish n=2\nbob publish n=3\n",
    "strings, ranges and places": LINE
    + "ann@C subscribe s like 'a%' and n between 2 and 4\ndan@A subscribe within(lat, lon, 38.3, 142.4, 300 km)\n"
    + "bob@B publish s='abc' n=3\nbob publish s='abc' n=5\nbob publish s='b' n=3\n"
    + "bob publish lat=38.0 lon=142.0\nbob publish lat=0.0 lon=0.0\n",
}

Told = dict[str, list[tuple[str, dict[str, Any]]]]
"""What each client got: by whom it was published, and what it was."""


def simulated(story: str) -> Told:
    scenario = Scenario(story + "\n----\n")
    assert scenario.play() == []
    world = scenario.world
    names = {client.publisher: name for name, client in world.clients.items()}
    return {
        name: [(names[receipt.key[0]], dict(receipt.attributes)) for receipt in client.receipts]
        for name, client in world.clients.items()
    }


class Live:
    """The same story on real sockets. Each deed is finished before the next one begins."""

    def __init__(self) -> None:
        self.brokers: dict[str, LiveBroker] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self.links: list[tuple[str, str]] = []
        self.clients: dict[str, tidewire.Wire] = {}
        self.subscriptions: dict[str, list[tidewire.Subscription]] = {}
        self.got: Told = {}
        self.publishers: dict[int, str] = {}
        self.newest: dict[str, tidewire.Notification] = {}

    async def play(self, story: str) -> Told:
        lines = [line.split() for line in story.splitlines()]
        for words in lines:
            if words[0] == "broker":
                self.settings[words[1]] = dict(word.split("=") for word in words[2:])
            elif words[0] == "link":
                self.links.append((words[1], words[2]))
        try:
            await self._start()
            for words in lines:
                if words[0] == "migrate":
                    await self._migrate(words[1:])
                elif words[0] not in ("broker", "link"):
                    await self._act(words)
            await self._quiet()
        finally:
            for wire in self.clients.values():
                await wire.close()
            for broker in self.brokers.values():
                await broker.stop()
        return self.got

    async def _start(self) -> None:
        for name, settings in self.settings.items():
            neighbours = [self.brokers[a].address for a, b in self.links if b == name and a in self.brokers]
            neighbours += [self.brokers[b].address for a, b in self.links if a == name and b in self.brokers]
            config = BrokerConfig(broker=BrokerId(name), address="127.0.0.1:0", neighbours=neighbours, **settings)
            self.brokers[name] = LiveBroker(config)
            await self.brokers[name].start()
        cores = [broker.node.core for broker in self.brokers.values()]
        await until(lambda: sum(len(core.links.up()) for core in cores) == 2 * len(self.links))
        await until(lambda: all(near.about is not None for core in cores for near in core.links.up()))

    async def _client(self, word: str) -> str:
        name, _, broker = word.partition("@")
        if name not in self.clients:
            self.got[name] = []
            self.subscriptions[name] = []
            wire = self.clients[name] = tidewire.connect(self.brokers[broker].address, name=name)
            await wire.__aenter__()
            self.publishers[wire._session.publisher] = name
        return name

    async def _act(self, words: list[str]) -> None:
        name = await self._client(words[0])
        wire, rest = self.clients[name], " ".join(words[2:])
        match words[1]:
            case "subscribe":
                self.subscriptions[name].append(await wire.subscribe(rest, lambda event: self._take(name, event)))
            case "unsubscribe":
                await self.subscriptions[name][int(rest) - 1].unsubscribe()
            case "change":
                await self.subscriptions[name][int(words[2]) - 1].change(" ".join(words[3:]))
            case "advertise":
                await wire.advertise(rest)
            case "publish":
                await wire.publish({word.split("=")[0]: _value(word.split("=")[1]) for word in words[2:]})
                await wire.flush()

    def _take(self, name: str, notification: tidewire.Notification) -> None:
        if self.newest.get(name) is notification:  # it matched several subscriptions
            return
        self.newest[name] = notification
        publisher = self.publishers[notification.event.envelope.publisher or 0]
        self.got[name].append((publisher, dict(notification.attributes)))

    async def _migrate(self, words: list[str]) -> None:
        use: Use = "publish" if "publish" in words else "subscribe"
        name, to = words[0], words[1]
        wire = self.clients[name]
        at = self.brokers[(wire.publishing_at if use == "publish" else wire.subscribed_at) or ""]
        core = at.node.core
        conn = next(conn for conn in core.clients.using(use) if core.clients.name_of(conn) == name)
        at._tell(MoveClient(conn, use, self.brokers[to].address))
        await until(lambda: (wire.publishing_at if use == "publish" else wire.subscribed_at) == to)

    async def _quiet(self) -> None:
        """What is under way has come: a sync behind it has, through every source and back."""
        for name, wire in self.clients.items():
            if self.subscriptions[name]:
                await wire.subscribe("no = 'thing'")


def _value(text: str) -> Any:
    return text.strip("'") if text.startswith("'") else float(text) if "." in text else int(text)


def by_publisher(told: list[tuple[str, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for publisher, attributes in told:
        found.setdefault(publisher, []).append(attributes)
    return found


@pytest.mark.parametrize("name", STORIES)
def test_both_drivers_tell_the_same(name: str) -> None:
    twin = {who: by_publisher(told) for who, told in simulated(STORIES[name]).items()}
    live = {who: by_publisher(told) for who, told in asyncio.run(Live().play(STORIES[name])).items()}
    assert any(live.values())
    assert live == twin
