"""The checker of the crowd: what a subscriber should have got and did not is found, and nothing else is."""

from __future__ import annotations

from random import Random

import pytest

from tidewire.benchmarks.crowd import NOBODY, Gap, Subscriber, Wanted, draw, event, volume
from tidewire.language import compile_filter
from tidewire.live.notification import Notification
from tidewire.model.events import make_event

STREAMS = 3


def subscriber(wanted: Wanted, published: list[int], *, since: list[int]) -> Subscriber:
    """One that was confirmed when so much was published."""
    made = Subscriber("s", wanted, published)
    made._since = since
    return made


def come(one: Subscriber, stream: int, *numbers: int) -> None:
    for number in numbers:
        given = make_event(event(stream, number))
        one.came(Notification(given, latency=0.0, latency_error=0.0, subscriptions=()))


def test_what_is_lacking_between_is_a_gap() -> None:
    one = subscriber(Wanted(1), [0, 9, 0], since=[0, 2, 0])
    come(one, 1, 3, 4, 7, 8)
    assert one.gaps == [Gap(1, 5, 7)]
    assert one.events_in(one.gaps[0]) == 2
    assert one.lacks() == [Gap(1, 9, 10)]
    assert one.repeated == 0


def test_what_comes_again_or_late_is_counted() -> None:
    one = subscriber(Wanted(1), [0, 4, 0], since=[0, 0, 0])
    come(one, 1, 1, 2, 2, 3, 1, 4)
    assert one.repeated == 2
    assert one.gaps == one.lacks() == []


def test_before_it_is_confirmed_nothing_is_owed() -> None:
    one = Subscriber("s", Wanted(1), [0, 6, 0])
    come(one, 1, 1, 4)
    one._since = [0, 5, 0]
    come(one, 1, 6)
    assert one.gaps == one.lacks() == []


def test_only_what_is_wanted_is_owed() -> None:
    above = 500
    wanted = [number for number in range(1, 40) if volume(2, number) > above]
    one = subscriber(Wanted(None, above), [0, 0, 39], since=[0, 0, 0])
    come(one, 2, *wanted[:3], *wanted[4:-1])
    assert [one.events_in(gap) for gap in one.gaps] == [1]
    assert one.gaps[0].first == wanted[3]
    assert [one.events_in(gap) for gap in one.lacks()] == [1]


@pytest.mark.parametrize("seed", range(5))
def test_a_filter_says_what_its_subscriber_expects(seed: int) -> None:
    """Else brokers and subscribers would not mean the same."""
    chance = Random(seed)
    for _ in range(40):
        wanted = draw(chance, streams=STREAMS)
        written = compile_filter(wanted.text)
        for stream in range(STREAMS):
            for number in range(1, 20):
                is_accepted = wanted.stream != NOBODY and wanted.accepts(stream, number)
                assert written.accepts(make_event(event(stream, number)).attributes) == is_accepted
