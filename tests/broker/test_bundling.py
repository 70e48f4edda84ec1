"""Who belongs together at a broker, by what they want and what samples show (epeer §0, §2.8)."""

from __future__ import annotations

from math import inf
from typing import Any, cast

import pytest

from tests.routing.network import encoded
from tidewire.balancing.drd.bundles import Bundle
from tidewire.balancing.drd.config import DrdConfig
from tidewire.broker.balancing_parts import Parts
from tidewire.broker.bundling import Bundling, InputRates, Turns
from tidewire.broker.config import BrokerConfig
from tidewire.broker.terms import ClientTerms
from tidewire.dataplane.protocol import Samples
from tidewire.model.ids import BrokerId, Conn, TreeId
from tidewire.model.offload_messages import Amounts
from tidewire.model.traffic import ClassKey, Terms
from tidewire.routing.router import Router
from tidewire.traffic.config import ClassConfig, TrafficConfig

TRAFFIC = TrafficConfig(
    classes=[
        ClassConfig(name="a", filter="class = 'a'", delay_s=5.0),
        ClassConfig(name="b", filter="class = 'b'", delay_s=50.0),
    ]
)
USED = Amounts(1000.0, 4000.0, 10.0)
"""A hundred bytes an event."""


class Someone:
    """Clients, as far as bundling asks."""

    def __init__(self) -> None:
        self.terms = ClientTerms()
        self.there: dict[Conn, None] = {}

    def __contains__(self, conn: Conn) -> bool:
        return conn in self.there


class Place:
    """A broker with subscribers."""

    def __init__(self) -> None:
        self.router = Router(BrokerId("edge"), TreeId(1))
        self.clients = Someone()
        config = BrokerConfig(broker=BrokerId("edge"), traffic=TRAFFIC)
        self.bundling = Bundling(
            Parts(config, self.router, cast(Any, None), cast(Any, self.clients), 1, cast(Any, None))
        )

    def wants(self, conn: int, *texts: str, delay_s: float | None = None) -> None:
        numbers = list(range(len(texts)))
        self.clients.there[Conn(conn)] = None
        self.router.subscribe(Conn(conn), numbers, [encoded(text) for text in texts])
        self.clients.terms.said(Conn(conn), "subscribe", numbers, [Terms(delay_s=delay_s)] * len(texts))

    def bundles(self, wanted: dict[int, int], samples: int, *, staying: tuple[int, ...] = ()) -> dict[str, Bundle]:
        """``wanted``: a bit for each sample, of a hundred bytes each."""
        seen = Samples([b"x" * 100] * samples, {Conn(conn): bits for conn, bits in wanted.items()})
        found = self.bundling.subscribers(seen, USED, staying=dict.fromkeys(Conn(one) for one in staying), head=None)
        return {str(one.key): one for one in found}


def test_clients_of_a_class_are_one_bundle() -> None:
    """epeer G9: what comes for them comes once, what goes out goes to each; sums are what was counted."""
    place = Place()
    place.wants(1, "class = 'a'")
    place.wants(2, "class = 'a' and x > 1")
    place.wants(3, "class = 'b'")
    found = place.bundles({1: 0b0011, 2: 0b0001, 3: 0b1100}, 4)
    a, b = found["a"], found["b"]
    assert a.load == Amounts(500.0, 2400.0, 5.0)
    assert b.load == Amounts(500.0, 1600.0, 5.0)
    assert [(one.client, one.bytes_s) for one in a.members] == [(1, 1600.0), (2, 800.0)]
    assert (a.delay_s, b.delay_s) == (5.0, 50.0)
    assert sum((one.load for one in found.values()), Amounts()) == USED


def test_what_others_want_too_is_not_relieved() -> None:
    """epeer §0: the relief is what is matched by that class alone; the load that of the whole class."""
    place = Place()
    place.wants(1, "class = 'a'")
    place.wants(3, "price > 1")
    found = place.bundles({1: 0b0011, 3: 0b0110}, 4)
    assert found["a"].load.matching_events_s == 5.0
    assert found["a"].relief == Amounts(250.0, 2000.0, 2.5)
    assert found["a"].relief.output_bytes_s == found["a"].load.output_bytes_s


def test_who_wants_several_classes_is_with_those_who_want_the_same() -> None:
    """design §3.2: the session is what moves; the shortest delay counts."""
    place = Place()
    place.wants(1, "class = 'a'", "class = 'b'")
    place.wants(2, "class = 'b'", "class = 'a'")
    place.wants(3, "class = 'b'")
    found = place.bundles({1: 0b11, 2: 0b11, 3: 0b10}, 2)
    assert sorted(found) == ["a+b", "b"]
    assert found["a+b"].of_classes == (ClassKey("a"), ClassKey("b"))
    assert found["a+b"].delay_s == 5.0
    assert found["a+b"].relief.matching_events_s == 5.0
    assert found["b"].relief.matching_events_s == 0.0


def test_what_a_subscriber_says_counts_if_it_is_shorter() -> None:
    """epeer §0: where its subscriptions differ, the least."""
    place = Place()
    place.wants(1, "class = 'b'")
    place.wants(2, "class = 'b'", delay_s=3.0)
    place.wants(3, "x > 1")
    found = place.bundles({1: 1, 2: 1, 3: 1}, 1)
    assert found["b"].delay_s == 3.0
    assert next(one for name, one in found.items() if name != "b").delay_s == inf


def test_those_who_stay_hold_the_input_up() -> None:
    place = Place()
    place.wants(1, "class = 'a'")
    place.wants(2, "class = 'a'")
    found = place.bundles({1: 0b11, 2: 0b01}, 2, staying=(2,))
    assert [one.client for one in found["a"].members] == [1]
    assert found["a"].relief.matching_events_s == 5.0
    assert found["a"].load.matching_events_s == 10.0


def test_it_keeps_up_with_those_who_come_change_and_go() -> None:
    place = Place()
    place.wants(1, "class = 'a'")
    place.wants(2, "class = 'b'")
    place.bundling.look()
    assert sorted(place.bundling.here()) == ["a", "b"]
    place.wants(1, "class = 'c'")
    place.router.unsubscribe(Conn(2), [0])
    place.bundling.look()
    assert place.bundling.here() == [ClassKey("=c")]
    assert place.bundles({}, 0) == {}


def test_turns_are_looked_at_together() -> None:
    """The newest first, as many as are allowed; what is old is nothing."""
    turns = Turns(DrdConfig(profile_samples=5, profile_turns=3, profile_s=1.0))
    assert turns.together(0) is None
    turns.add(Samples([b"old"] * 3, {Conn(1): 0b111}), 0)
    turns.add(Samples([b"mid"] * 2, {Conn(1): 0b01, Conn(2): 0b10}), 10**9)
    turns.add(Samples([b"new"] * 3, {Conn(2): 0b100}), 2 * 10**9)
    found = turns.together(2 * 10**9)
    assert found is not None
    assert found.events == [b"new"] * 3 + [b"mid"] * 2
    assert found.wanted == {Conn(2): 0b10100, Conn(1): 0b01000}
    assert turns.together(9 * 10**9) is None
    turns.forget()
    assert turns.together(2 * 10**9) is None


def test_input_is_counted_twice_to_be_a_rate() -> None:
    rates = InputRates()
    rates.counted({Conn(1): 1000}, 0)
    assert rates.rates == {}
    rates.counted({Conn(1): 3000, Conn(2): 500}, 2 * 10**9)
    assert rates.rates == {Conn(1): pytest.approx(1000.0)}
    rates.forget()
    assert rates.rates == {}
