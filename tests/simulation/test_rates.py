"""Rates per class and second: what brokers have to do, what waits, and what moves (epeer §2.6, §4.2)."""

from __future__ import annotations

from random import Random

import pytest

from tidewire.model.ids import Nanoseconds
from tidewire.simulator.rate_moves import Moves
from tidewire.simulator.rates import Machine, Rates, Source, Traffic

WIDE = Machine(1e6, 1e6, 1e4)
FIRE = Traffic("fire", 2.0, (Source("f1", 10.0, 100), Source("f2", 30.0, 200)), ("a", "b", "c"))
FLOOD = Traffic("flood", 20.0, (Source("g1", 50.0, 100),), ("d",))


def cluster(*, edge: Machine = WIDE, noise: float = 0.0, seed: int = 1, **others: float) -> Rates:
    """A head, two edges, both classes at the first."""
    rates = Rates("H", {"H": WIDE, "E1": edge, "E2": WIDE}, [FIRE, FLOOD], noise=noise, chance=Random(seed), **others)
    rates.join(0, "E1")
    rates.join(1, "E1")
    return rates


def test_what_a_second_asks_of_each_broker() -> None:
    """epeer §2.6, §2.8: an edge matches an event once and sends it to each subscriber, a head to each edge."""
    rates = cluster()
    rates.advance()
    assert rates.totals()["E1"] == pytest.approx((7000 + 5000, 3 * 7000 + 5000, 90))
    assert rates.totals()["H"] == pytest.approx((12_000, 12_000, 90))
    assert rates.totals()["E2"] == (0, 0, 0)
    assert rates.utilisations()["E1"] == pytest.approx((0.012, 0.026, 0.009))


def test_a_class_at_two_edges_comes_to_both() -> None:
    """epeer §2.8: splitting a bundle relieves an edge of output alone."""
    rates = cluster()
    rates.move("a", 0, to="E2")
    rates.advance()
    assert rates.totals()["E1"] == pytest.approx((12_000, 2 * 7000 + 5000, 90))
    assert rates.totals()["E2"] == pytest.approx((7000, 7000, 40))
    assert rates.totals()["H"] == pytest.approx((12_000, 19_000, 90))
    for name in ("b", "c"):
        rates.move(name, 0, to="E2")
    rates.advance()
    assert rates.totals()["E1"] == pytest.approx((5000, 5000, 50))
    assert rates.classes_at("E1") == [1]


def test_a_limit_takes_off_what_is_above_it() -> None:
    """epeer G20: so many pass in a second, and of limit 0 nothing."""
    rates = cluster()
    rates.limits = {"f2": 5.0, "g1": 0.0, "f1": 100.0}
    rates.advance()
    assert rates.events == pytest.approx([15, 0])
    assert rates.bytes == pytest.approx([2000, 0])
    assert rates.offered == pytest.approx([40, 50])
    assert rates.offered_totals()["E1"] == pytest.approx((12_000, 26_000, 90))
    assert (rates.offered_by("f2"), rates.published_by("f2")) == pytest.approx((30, 5))


def test_what_cannot_be_sent_waits_and_nothing_is_lost() -> None:
    """epeer §2.1: output beyond the bandwidth makes queues grow; when it is repaired they are worked off."""
    rates = cluster(edge=Machine(1e6, 20_000, 1e4))
    for _ in range(10):
        rates.advance()
    queues = rates.queues["E1"]
    assert queues.output_bytes == pytest.approx(10 * 6000)
    assert queues.delay_s == pytest.approx(3.0)
    assert rates.delivered_bytes == pytest.approx(10 * 20_000)
    rates.machines["E1"] = WIDE
    rates.advance()
    assert queues.output_bytes == 0
    assert rates.delivered_bytes == pytest.approx(11 * 26_000)


def test_a_queue_has_a_bound() -> None:
    """What finds no room is counted."""
    rates = cluster(edge=Machine(1e6, 20_000, 1e4), queue_bytes_max=15_000)
    for _ in range(10):
        rates.advance()
    queues = rates.queues["E1"]
    assert queues.output_bytes == 15_000
    assert queues.dropped_bytes + queues.output_bytes + rates.delivered_bytes == pytest.approx(10 * 26_000)


def test_what_cannot_be_matched_waits_at_the_input() -> None:
    """epeer §2.1: input beyond the matching capacity makes the input queue grow."""
    rates = cluster(edge=Machine(1e6, 1e6, 45))
    rates.advance()
    assert rates.queues["E1"].input_bytes == pytest.approx(6000)
    assert rates.queues["E1"].delay_s == pytest.approx(1.0)


def test_noise_is_the_same_whatever_was_decided() -> None:
    """Runs are paired by their seed (epeer §4.1); a publisher varies more than many together do (§4.3)."""
    one, other = cluster(noise=0.12), cluster(noise=0.12)
    other.limits = {"f1": 0.0}
    seen = []
    for _ in range(2000):
        one.advance()
        other.advance()
        other.move("a", 0, to="E2")
        assert one.swing == other.swing
        seen.append(one.swing)
    for number, expected in ((0, 0.12 / 2**0.5), (1, 0.12)):
        values = [swing[number] for swing in seen]
        mean = sum(values) / len(values)
        deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
        assert mean == pytest.approx(1, abs=0.01)
        assert deviation == pytest.approx(expected, rel=0.05)


def test_each_who_moves_takes_its_time() -> None:
    """epeer §4.2: Od is the sum, over those who were moved, of what it took over what their class may take."""
    rates = cluster()
    moves = Moves(rates, Random(1))
    arrived: list[tuple[int, int]] = []
    numbers = moves.numbers()
    moves.send(
        "E1",
        [("E2", [numbers["a"], numbers["d"]])],
        now_ns=Nanoseconds(5_000_000_000),
        on_moved=lambda client, at_ns: arrived.append((client, at_ns)),
    )
    moves.run(Nanoseconds(5_050_000_000))
    assert not arrived
    assert "a" in rates.hosts[0]["E1"]
    moves.run(Nanoseconds(6_000_000_000))
    assert sorted(client for client, _ in arrived) == [numbers["a"], numbers["d"]]
    assert all(5_100_000_000 <= at_ns <= 5_300_000_000 for _, at_ns in arrived)
    assert list(rates.hosts[1]) == ["E2"]
    session = moves.sessions[0]
    took = {one.subscriber: one.unexpected_s for one in session.moved}
    assert session.delay_ratio == pytest.approx(took["a"] / 2 + took["d"] / 20)
