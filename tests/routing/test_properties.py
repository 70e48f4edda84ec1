"""Whatever the graph, the order of messages and the churn: at rest, each event reaches those who want it, once."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.routing.network import Attributes, Network
from tidewire.language import compile_filter
from tidewire.matching.covering import covers
from tidewire.model.filters import decode_filter

FILTERS = ["a > 1", "a > 5", "a > 9", "a < 3", "b = 1", "a > 5 and b = 1", "a = 7 or b = 2", "b = 1 or b = 2"]
EVENTS: list[Attributes] = [{"a": a, "b": b} for a in (0, 2, 6, 7, 10) for b in (1, 2, 3)]
ADS = [None, "a > 0 and b > 0", "a > 4 and b = 1"]


class Churn:
    """A network that changes at random, and what must be true of it at rest."""

    def __init__(self, seed: int, *, covering: bool) -> None:
        self.random = Random(seed)
        self.names = [f"B{i}" for i in range(self.random.randint(2, 6))]
        self.net = Network(self.names, covering=covering)
        self.links: list[tuple[str, str]] = []
        self.subscribers: dict[str, tuple[str, str]] = {}
        self.publishers: dict[str, tuple[str, str | None]] = {}
        self.barriers: list[tuple[str, int]] = []
        self.count = 0
        for at in range(1, len(self.names)):
            self.connect(self.names[at], self.random.choice(self.names[:at]))

    def connect(self, a: str, b: str) -> None:
        if a != b and (a, b) not in self.links and (b, a) not in self.links:
            self.net.link(a, b)
            self.links.append((a, b))

    def step(self) -> None:
        self.count += 1
        choice = self.random.random()
        if choice < 0.3:
            name, broker, text = f"s{self.count}", self.random.choice(self.names), self.random.choice(FILTERS)
            self.net.subscribe(name, broker, text)
            self.subscribers[name] = broker, text
        elif choice < 0.45 and self.subscribers:
            name = self.random.choice(list(self.subscribers))
            del self.subscribers[name]
            self.net.leave(name)
        elif choice < 0.65:
            name, broker, ad = f"p{self.count}", self.random.choice(self.names), self.random.choice(ADS)
            self.net.advertise(name, broker, ad)
            self.publishers[name] = broker, ad
        elif choice < 0.7 and self.publishers:
            name = self.random.choice(list(self.publishers))
            del self.publishers[name]
            self.net.leave(name)
        elif choice < 0.76:
            broker = self.random.choice(self.names)
            asked = self.net.sync(broker) if self.random.random() < 0.5 else self.net.wave(broker)
            self.barriers.append((broker, asked))
        elif choice < 0.88:
            self.connect(self.random.choice(self.names), self.random.choice(self.names))
        elif self.links:
            link = self.random.choice(self.links)
            self.links.remove(link)
            self.net.cut(*link)
        for _ in range(self.random.randint(0, 12)):
            waiting = [key for key, queue in self.net.queues.items() if queue]
            if waiting:
                self.net.step(self.random.choice(waiting))

    def reachable(self, start: str) -> set[str]:
        seen, waiting = {start}, [start]
        while waiting:
            here = waiting.pop()
            for a, b in self.links:
                for there in (b,) if a == here else (a,) if b == here else ():
                    if there not in seen:
                        seen.add(there)
                        waiting.append(there)
        return seen

    def check(self) -> None:
        self.net.settle(self.random)
        assert all(self.net.nodes[broker].reached.count(asked) == 1 for broker, asked in self.barriers)
        for broker, ad in self.publishers.values():
            near = self.reachable(broker)
            for event in EVENTS:
                if ad is not None and not compile_filter(ad).accepts(event):
                    continue
                wanted = sorted(
                    name
                    for name, (at, text) in self.subscribers.items()
                    if at in near and compile_filter(text).accepts(event)
                )
                assert self.net.publish(broker, event) == wanted

    def check_that_little_is_told(self) -> None:
        for node in self.net.nodes.values():
            for (conn, tree), table in node.tables.items():
                if tree is None or conn not in node.links:
                    continue
                filters = [decode_filter(wanted) for wanted in table.values()]
                assert not any(covers(a, b) for i, a in enumerate(filters) for j, b in enumerate(filters) if i != j)


@pytest.mark.parametrize("covering", [True, False])
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40))
def test_at_rest_each_event_reaches_those_who_want_it(covering: bool, seed: int, steps: int) -> None:
    """peer L8–L11 and design §3.3, over any graph, with links, clients and advertisements that come and go."""
    churn = Churn(seed, covering=covering)
    for _ in range(steps):
        churn.step()
    churn.check()
    if covering:
        churn.check_that_little_is_told()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 25))
def test_a_synced_subscription_is_served_at_once(seed: int, steps: int) -> None:
    """When a sync is back, every event published from then on comes, whatever else is still under way."""
    churn = Churn(seed, covering=True)
    for _ in range(steps):
        churn.step()
    churn.net.settle(churn.random)
    broker = churn.random.choice(churn.names)
    churn.net.subscribe("new", broker, "a > 1")
    churn.subscribers["new"] = broker, "a > 1"
    barrier = churn.net.sync(broker)
    while barrier not in churn.net.nodes[broker].reached:
        waiting = [key for key, queue in churn.net.queues.items() if queue]
        churn.net.step(churn.random.choice(waiting))
    for at, ad in churn.publishers.values():
        if ad is None and at in churn.reachable(broker):
            assert "new" in churn.net.publish(at, {"a": 7, "b": 3})


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 25))
def test_an_advertisement_is_heard_by_all_when_its_wave_is_back(seed: int, steps: int) -> None:
    """Also the very first one of a broker: all subscriptions have found their way before the publisher begins."""
    churn = Churn(seed, covering=True)
    for _ in range(steps):
        churn.step()
    churn.net.settle(churn.random)
    broker = churn.random.choice(churn.names)
    churn.net.advertise("new", broker)
    barrier = churn.net.wave(broker)
    while barrier not in churn.net.nodes[broker].reached:
        waiting = [key for key, queue in churn.net.queues.items() if queue]
        churn.net.step(churn.random.choice(waiting))
    churn.publishers = {"new": (broker, None)}
    for event in EVENTS:
        wanted = sorted(
            name
            for name, (at, text) in churn.subscribers.items()
            if at in churn.reachable(broker) and compile_filter(text).accepts(event)
        )
        assert churn.net.publish(broker, event) == wanted
