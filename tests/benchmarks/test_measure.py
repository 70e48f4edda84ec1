"""Turns are taken fairly, and the interval encloses the median."""

import random

import pytest

from tidewire.benchmarks.measure import Contender, Ratio, median_interval, ratio, take_turns


def test_the_interval_is_made_of_order_statistics() -> None:
    assert median_interval([1, 2, 3, 4, 5, 6]) == Ratio(3.5, 1, 6)
    assert median_interval([5, 1, 4, 2, 3, 10, 9, 8, 7, 6]) == Ratio(5.5, 2, 9)
    assert median_interval(list(range(1, 21))) == Ratio(10.5, 6, 15)


def test_too_few_values_have_no_interval() -> None:
    with pytest.raises(AssertionError):
        median_interval([1, 2, 3, 4, 5])


def test_the_interval_encloses_the_median_often_enough() -> None:
    rng = random.Random(1)
    samples = [median_interval([rng.expovariate(1.0) for _ in range(11)]) for _ in range(2_000)]
    assert sum(one.low <= 0.6931 <= one.high for one in samples) >= 0.95 * len(samples)


def test_contenders_take_turns_and_go_on_where_they_were() -> None:
    order: list[str] = []
    names = ("a", "b")
    contenders = [
        Contender(name, [lambda name=name, i=i: order.append(f"{name}{i}") for i in range(3)], events_per_call=1)  # type: ignore[misc]
        for name in names
    ]
    take_turns(contenders, pairs=6, turn_s=0.0)
    assert all(len(contender.cpu) == len(contender.wall) == 6 for contender in contenders)
    assert [step for step in order if step[0] == "a"][:5] == ["a0", "a1", "a2", "a0", "a1"]
    assert "".join(step[0] for step in order[2:]) == "abbaabbaabba"


def test_a_ratio_says_how_much_less_the_second_takes() -> None:
    slow, fast = Contender("slow", [], events_per_call=1), Contender("fast", [], events_per_call=1)
    slow.cpu, fast.cpu = [10.0] * 6, [2.0] * 6
    assert ratio(slow, fast) == Ratio(5.0, 5.0, 5.0)
    assert str(Ratio(1234.5, 12.34, 0.567)) == "1,234× (12.3–0.567)"
