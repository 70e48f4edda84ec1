"""Rates are differences of counters, over the broker's own time."""

from __future__ import annotations

from tests.observe.examples import neighbour, status
from tidewire.observe.rates import rates_between


def test_a_rate_is_what_was_added_per_second_of_the_broker() -> None:
    before = status("a", uptime_s=10.0, events=100, deliveries=0, busy_s=1.0, bytes_in=0, bytes_out=50)
    after = status("a", uptime_s=12.0, events=300, deliveries=1000, busy_s=1.5, bytes_in=10, bytes_out=50)
    rates = rates_between(before, after)
    assert rates is not None
    assert (rates.over_s, rates.events_s, rates.deliveries_s, rates.busy) == (2.0, 100.0, 500.0, 0.25)
    assert (rates.bytes_in_s, rates.bytes_out_s, rates.dropped_s) == (5.0, 0.0, 0.0)


def test_two_lives_have_no_rate_between_them() -> None:
    before, after = status("a", uptime_s=10.0), status("a", uptime_s=12.0, incarnation="2")
    assert rates_between(before, after) is None


def test_one_moment_has_no_rate() -> None:
    assert rates_between(status("a"), status("a")) is None


def test_links_that_stayed_have_rates_and_those_that_began_anew_count_from_their_beginning() -> None:
    before = status("a", uptime_s=0.0, neighbours=[neighbour("b", events_out=20), neighbour("c", bytes_out=2000)])
    after = status(
        "a",
        uptime_s=2.0,
        neighbours=[
            neighbour("b", events_out=30),
            neighbour("c", events_out=4, bytes_out=100, bytes_in=0),
            neighbour("d"),
        ],
    )
    rates = rates_between(before, after)
    assert rates is not None
    assert [(one.neighbour, one.events_out_s) for one in rates.links] == [("b", 5.0), ("c", 2.0)]
