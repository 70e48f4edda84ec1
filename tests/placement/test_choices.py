"""Where newcomers go (bad §3), and averages (bad §2.3)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tidewire.model.errors import Unavailable, UnknownName, UsageError
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.placement.averages import Averages
from tidewire.placement.choices import Candidate, Location, placement

HELSINKI, TURKU, FIJI = (60.17, 24.94), (60.45, 22.27), (-17.7, 178.0)


def brokers(*names: str) -> list[Candidate]:
    return [Candidate(broker=BrokerId(name)) for name in names]


def at(place: tuple[float, float]) -> Location:
    return Location(lat=place[0], lon=place[1])


def test_nearest_is_nearest_on_the_globe() -> None:
    """bad §3: NR; also across the date line."""
    nearest = placement("nearest", chance=Random(1))
    candidates = [
        Candidate(broker=BrokerId(name), location=at(place))
        for name, place in (("helsinki", HELSINKI), ("turku", TURKU), ("fiji", FIJI))
    ]
    assert nearest.choose(candidates, at((60.2, 24.9))) == "helsinki"
    assert nearest.choose(candidates, at((60.4, 22.3))) == "turku"
    assert nearest.choose(candidates, at((-17.0, -179.0))) == "fiji"


def test_nearest_says_what_it_lacks() -> None:
    nearest = placement("nearest", chance=Random(1))
    with pytest.raises(UsageError, match="say where you are"):
        nearest.choose(brokers("a"), None)
    with pytest.raises(Unavailable, match="no broker has said where it is"):
        nearest.choose(brokers("a"), at(TURKU))
    with pytest.raises(UsageError, match="lat = 91"):
        at((91, 0))


def test_round_robin_gives_everyone_the_same_number() -> None:
    """bad §3: RR; a broker that goes away or comes has its turn among the others."""
    turn = placement("round-robin", chance=Random(1))
    assert [turn.choose(brokers("a", "b", "c"), None) for _ in range(7)] == list("abcabca")
    assert [turn.choose(brokers("a", "c"), None) for _ in range(3)] == list("cac")
    assert [turn.choose(brokers("a", "c", "d"), None) for _ in range(4)] == list("dacd")


def test_random_is_uniform_and_comes_from_the_chance_that_is_handed_in() -> None:
    """bad §3: RND."""
    names = [placement("random", chance=Random(seed)).choose(brokers("a", "b"), None) for seed in range(9)]
    assert names == [placement("random", chance=Random(seed)).choose(brokers("a", "b"), None) for seed in range(9)]
    chosen = placement("random", chance=Random(1))
    counts = Counter(chosen.choose(brokers("a", "b", "c", "d"), None) for _ in range(4000))
    assert min(counts.values()) > 900
    assert len(counts) == 4


def test_with_a_seed_random_gives_the_same_names_the_same_whoever_comes_when() -> None:
    """bad §3, X1: runs that are compared begin alike, though brokers and subscribers come in another order."""
    names = [f"p{number}" for number in range(2000)]
    first, second, other = (placement("random", chance=Random(), seed=seed) for seed in (1, 1, 2))
    found = {name: first.choose(brokers("a", "b", "c", "d"), None, name) for name in names}
    assert found == {name: second.choose(brokers("d", "b", "a", "c"), None, name) for name in reversed(names)}
    assert found == {name: first.choose(brokers("a", "b", "c", "d"), None, name) for name in names}, "asked again"
    assert found != {name: other.choose(brokers("a", "b", "c", "d"), None, name) for name in names}
    counts = Counter(found.values())
    assert min(counts.values()) > 400
    assert len(counts) == 4


def test_a_crowd_without_subscriptions_all_goes_to_the_least_loaded() -> None:
    """bad §3: why LL is a counter-example."""
    least = placement("least-loaded", chance=Random(1))
    candidates = [Candidate(broker=BrokerId(name), load=load) for name, load in (("a", 5.0), ("b", 4.0), ("c", 9.0))]
    assert {least.choose(candidates, None) for _ in range(100)} == {"b"}


def test_a_placement_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownName, match="least-loaded, nearest, random, round-robin"):
        placement("closest", chance=Random(1))


def test_an_average_hides_a_peak_and_forgets_it() -> None:
    """bad §2.3."""
    rates: Averages[str] = Averages(60.0)
    assert rates.rates() == {}
    for second in range(10, 70, 10):
        counted = {"a": 100.0, "b": 6000.0} if second == 30 else {"a": 100.0}
        rates.add(counted, seconds=10.0, now_ns=Nanoseconds(int(second * 1e9)))
    assert rates.rates() == {"a": 10.0, "b": 100.0}
    for second in range(70, 100, 10):
        rates.add({"a": 100.0}, seconds=10.0, now_ns=Nanoseconds(int(second * 1e9)))
    assert rates.rates() == {"a": 10.0}
