"""The load indices of peer §3.1."""

from __future__ import annotations

from typing import Any

import pytest

from tidewire.balancing.load import Capacity, LoadMeter, Sample
from tidewire.balancing.reports import report_of
from tidewire.model.ids import Nanoseconds


def sample(
    second: float, *, events: int = 0, delay_s: float = 0.0, subscriptions: int = 100, done: int | None = None
) -> Sample:
    finished = events if done is None else done
    return Sample(
        at_ns=Nanoseconds(int(second * 1e9)),
        events_in=events,
        bytes_in=events * 200,
        events_out=2 * events,
        bytes_out=events * 500,
        busy_ns=int(finished * delay_s * 1e9),
        events_done=finished,
        subscriptions=subscriptions,
        queued_in_bytes=1000,
        queued_out_bytes=3000,
        engine_bytes=6000,
    )


def meter() -> LoadMeter:
    return LoadMeter(Capacity(output_bytes_s=1000.0, memory_bytes=20_000.0))


@pytest.mark.parametrize(("rate", "delay_s"), [(0.5, 1.0), (0.05, 10.0)])
def test_input_utilisation_is_rate_times_delay(rate: float, delay_s: float) -> None:
    """peer G8, Eq. 3.1 and 3.2: 0.5 both times, while the delays differ by 9 s."""
    one = meter()
    one.add(sample(0))
    one.add(sample(1000, events=int(1000 * rate), delay_s=delay_s))
    load = one.load()
    assert load is not None
    assert load.input_utilisation == pytest.approx(0.5)
    assert load.matching_delay_s == pytest.approx(delay_s)


def test_output_and_memory() -> None:
    """peer Eq. 3.3, 4.11 and 4.12."""
    one = meter()
    one.add(sample(0))
    one.add(sample(10, events=10))
    load = one.load()
    assert load is not None
    assert load.output_utilisation == pytest.approx(0.5)
    assert load.memory_utilisation == pytest.approx(0.5)
    assert load.input_bytes_s == pytest.approx(200)


def test_cpu_stays_at_one_while_a_backlog_drains() -> None:
    """peer §3.1: needed for E1. Nothing comes in, ten events are worked off in ten seconds."""
    one = meter()
    one.add(sample(0, events=100, done=0, delay_s=1.0))
    one.add(sample(10, events=100, done=10, delay_s=1.0))
    load = one.load()
    assert load is not None
    assert load.input_utilisation == 0.0
    assert load.cpu_utilisation == pytest.approx(1.0)


def test_only_the_window_counts() -> None:
    one = meter()
    for second in range(30):
        one.add(sample(second, events=100 * second if second < 15 else 1500))
    load = one.load()
    assert load is not None
    assert load.input_rate == 0.0


def test_the_slope_is_taken_anew_when_subscriptions_change() -> None:
    """peer §7.2: d'_m = d_m + slope · Δn."""
    one = LoadMeter(Capacity(1.0, 1.0), window_s=1.0)
    one.add(sample(0, events=0, subscriptions=100))
    one.add(sample(1, events=10, delay_s=0.1, subscriptions=100))
    first = one.load()
    assert first is not None
    assert first.matching_slope_s == pytest.approx(0.001)
    fresh = LoadMeter(Capacity(1.0, 1.0), window_s=1.0)
    fresh.add(Sample(**{**_fields(sample(0)), "subscriptions": 100}))
    fresh.add(Sample(**{**_fields(sample(1, events=10, delay_s=0.1)), "subscriptions": 100}))
    fresh.add(Sample(**{**_fields(sample(2, events=20)), "busy_ns": int(4e9), "subscriptions": 200}))
    fresh.add(Sample(**{**_fields(sample(3, events=30)), "busy_ns": int(7e9), "subscriptions": 200}))
    load = fresh.load()
    assert load is not None
    assert load.matching_delay_s == pytest.approx(0.3)
    assert load.matching_slope_s == pytest.approx(0.002)


def test_what_met_an_unknown_number_says_nothing_of_the_slope() -> None:
    """peer §7.2: half of them leave between two samples; the events from before and after still lie on one line."""
    one = LoadMeter(Capacity(1.0, 1.0), window_s=10.0)
    busy_s = 0.0
    for second in range(40):
        met = 200 if second <= 20 else 100
        busy_s += 10 * 0.001 * met
        fields = {**_fields(sample(second, events=10 * second)), "busy_ns": int(busy_s * 1e9)}
        one.add(Sample(**{**fields, "subscriptions": 100 if second >= 20 else 200}))
        load = one.load()
        assert load is None or load.matching_slope_s == pytest.approx(0.001)


def test_a_broker_that_has_matched_nothing_says_what_it_expects() -> None:
    """peer §6.2, step 2': it is what a donor needs to know. What is measured counts instead, if there is something."""
    one = LoadMeter(Capacity(1.0, 1.0, matching_slope_s=0.004), window_s=2.0)
    slopes = []
    for taken in (sample(0), sample(1), sample(2, events=10, delay_s=0.1), sample(9, events=10, delay_s=0.1)):
        one.add(taken)
        load = one.load()
        slopes.append(None if load is None else load.matching_slope_s)
    assert slopes == [None, 0.004, pytest.approx(0.001), 0.004]


def test_what_goes_out_is_not_what_would_while_there_is_a_backlog() -> None:
    """peer §7.2: 20 events come while 10 are matched, so twice as much would go out; the index is what does (PIE1)."""
    one = meter()
    one.add(sample(0))
    taken = sample(10, events=20, done=10)
    one.add(taken)
    load = one.load()
    assert load is not None
    assert load.came_per_done == pytest.approx(2.0)
    report = report_of(load, taken, Capacity(1000.0, 20_000.0), [])
    assert report.output_bytes_s == pytest.approx(2 * load.output_bytes_s)


def _fields(one: Sample) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def test_indices_are_relative_to_the_share_of_a_core() -> None:
    """peer §3.1: with half of it an event takes twice as long, and CPU is full when half a core is busy."""
    one = LoadMeter(Capacity(1000.0, 20_000.0, cpu_share=0.5))
    one.add(sample(0))
    one.add(sample(10, events=10, delay_s=0.25))
    load = one.load()
    assert load is not None
    assert load.matching_delay_s == pytest.approx(0.5)
    assert load.input_utilisation == pytest.approx(0.5)
    assert load.cpu_utilisation == pytest.approx(0.5)


def slope_of(*steps: tuple[int, float]) -> float:
    """Ten events a second; each step is a number of subscriptions for two seconds, and what an event took then."""
    one = LoadMeter(Capacity(1.0, 1.0), window_s=1.0)
    busy_s = 0.0
    for second, (subscriptions, delay_s) in enumerate(step for step in steps for _ in range(2)):
        busy_s += 10 * delay_s if second else 0.0
        fields = {**_fields(sample(second, events=10 * second)), "busy_ns": int(busy_s * 1e9)}
        one.add(Sample(**{**fields, "subscriptions": subscriptions}))
    load = one.load()
    assert load is not None
    return load.matching_slope_s


def test_a_slope_is_not_taken_from_noise() -> None:
    """peer §7.2: between numbers that hardly differ there is none, nor one that falls: the delay is proportional."""
    assert slope_of((1000, 1.0), (1060, 2.0)) == pytest.approx(2.0 / 1060)
    assert slope_of((1000, 1.0), (1500, 2.0)) == pytest.approx(0.002)
    assert slope_of((1000, 1.0), (1500, 0.9)) == pytest.approx(0.9 / 1500)


def test_a_slope_belongs_to_what_the_events_of_the_window_met() -> None:
    """peer §7.2: subscriptions come while the delay is an average over the window; the line is found all the same."""
    one = LoadMeter(Capacity(1.0, 1.0), window_s=10.0)
    busy_s = 0.0
    for second in range(30):
        subscriptions = 100 + 20 * second
        busy_s += 10 * (0.5 + 0.001 * subscriptions)
        fields = {**_fields(sample(second, events=10 * second)), "busy_ns": int(busy_s * 1e9)}
        one.add(Sample(**{**fields, "subscriptions": subscriptions}))
    load = one.load()
    assert load is not None
    assert load.matching_slope_s == pytest.approx(0.001, rel=0.01)


def test_an_idle_broker_has_no_delay() -> None:
    """peer §7.2: what an event took long ago is no reason to send nobody there."""
    one = meter()
    one.add(sample(0))
    one.add(sample(5, events=10, delay_s=0.25))
    for second in range(6, 20):
        one.add(sample(second, events=10, delay_s=0.25))
    load = one.load()
    assert load is not None
    assert load.matching_delay_s == 0.0


def test_the_slope_is_that_of_those_who_were_there() -> None:
    """peer §7.2: when many have left at once, the delays of the window are still those with all of them."""
    one = meter()
    busy_ns = 0
    for second in range(41):
        subscriptions = 700 if second < 20 else 100
        busy_ns += 20 * subscriptions * 50_000
        one.add(
            Sample(
                at_ns=Nanoseconds(second * 10**9),
                events_in=20 * second,
                bytes_in=0,
                events_out=0,
                bytes_out=0,
                busy_ns=busy_ns,
                events_done=20 * second,
                subscriptions=subscriptions,
                queued_in_bytes=0,
                queued_out_bytes=0,
                engine_bytes=0,
            )
        )
        load = one.load()
        assert load is None or load.matching_slope_s == pytest.approx(5e-5)


def test_an_event_is_as_large_as_it_is_when_it_leaves() -> None:
    """peer §7.1: what a subscriber takes of the output is what is delivered to it; before that, what came."""
    one = meter()
    one.add(sample(0))
    one.add(sample(1, events=10))
    load = one.load()
    assert load is not None
    assert load.event_bytes == pytest.approx(250.0)
    quiet = meter()
    quiet.add(sample(0))
    quiet.add(Sample(**{**_fields(sample(1, events=10)), "events_out": 0, "bytes_out": 0}))
    load = quiet.load()
    assert load is not None
    assert load.event_bytes == pytest.approx(200.0)


def test_behind_a_change_rates_are_those_since_then() -> None:
    """Once that is a third of the window: a plan is not made from clients that have gone."""
    one = meter()
    for second in range(11):
        events = 10 * second if second <= 6 else 60 + 2 * (second - 6)
        one.add(sample(second, events=events, delay_s=0.01))
    rates = []
    for changed_s in (None, 6, 8):
        load = one.load(changed_ns=None if changed_s is None else Nanoseconds(changed_s * 10**9))
        assert load is not None
        rates.append(load.input_rate)
    assert rates == pytest.approx([6.8, 2.0, 6.8])
