"""What is expected of a broker after a change (peer §7.2)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.balancing.market import linear, loads
from tidewire.balancing.estimates import Change, LoadInfo, completed, delay_difference

BROKER = LoadInfo(
    input_rate=10.0,
    matching_delay_s=0.05,
    matching_slope_s=0.0005,
    cpu_utilisation=0.5,
    subscriptions=100,
    output_bytes_s=400.0,
    output_bytes_s_max=1000.0,
    queued_in_bytes=1.0,
    queued_out_bytes=2.0,
    engine_bytes=8.0,
    memory_bytes_max=28.0,
)


def test_the_formulas() -> None:
    """peer G16, Eq. 4.7 to 4.16."""
    then = BROKER.after(Change(input_rate=2.0, subscriptions=25, output_bytes_s=100.0))
    assert then.matching_delay_s == pytest.approx(0.0625)
    assert then.input_utilisation == pytest.approx(0.75)
    assert then.cpu_utilisation == pytest.approx(0.75)
    assert then.output_utilisation == pytest.approx(0.5)
    assert (then.queued_in_bytes, then.queued_out_bytes, then.engine_bytes) == pytest.approx((1.5, 2.5, 10.0))
    assert then.memory_utilisation == pytest.approx(14 / 28)
    assert then.subscriptions == 125


@pytest.mark.parametrize(("rate", "delay_s"), [(0.5, 1.0), (0.05, 10.0)])
def test_equal_utilisations_may_hide_unequal_delays(rate: float, delay_s: float) -> None:
    """peer G8: 0.5 both times."""
    assert linear(rate, 10, slope_s=delay_s / 10).input_utilisation == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("ours_s", "theirs_s", "difference"), [(0.000002, 0.000001, 1e-5), (10.0, 9.0, 10.0), (0.022, 0.018, 0.04)]
)
def test_delays_are_compared_in_units_of_a_fixed_one(ours_s: float, theirs_s: float, difference: float) -> None:
    """peer G6, Eq. 3.5."""
    assert delay_difference(ours_s, theirs_s, norm_s=0.1) == pytest.approx(difference)


def test_an_engine_with_a_base_cost_follows_its_slope() -> None:
    """peer §7.2, outside simulation: half the subscriptions are not half the delay."""
    flat = msgspec.structs.replace(BROKER, matching_slope_s=0.0001)
    assert flat.after(Change(subscriptions=-50)).matching_delay_s == pytest.approx(0.045)
    wrong = msgspec.structs.replace(BROKER, matching_slope_s=-0.0001)
    assert wrong.after(Change(subscriptions=-50)).matching_delay_s == pytest.approx(0.05)


def test_a_backlog_is_worked_off_cheaper() -> None:
    """peer §3.1: the CPU stays at 1 while a backlog drains, however low the input is (E1 after 1010 s)."""
    draining = msgspec.structs.replace(BROKER, cpu_utilisation=1.0)
    assert draining.after(Change(subscriptions=-20)).cpu_utilisation == pytest.approx(0.8)
    assert BROKER.after(Change(subscriptions=-20)).cpu_utilisation == pytest.approx(0.4)
    assert draining.after(Change(subscriptions=20)).cpu_utilisation == 1.0


def test_nothing_is_divided_by_nothing() -> None:
    """peer §7.2: zero denominators."""
    empty = LoadInfo(
        input_rate=0.0,
        matching_delay_s=0.0,
        matching_slope_s=0.001,
        cpu_utilisation=0.0,
        subscriptions=0,
        output_bytes_s=0.0,
        output_bytes_s_max=1.0,
        queued_in_bytes=3.0,
        queued_out_bytes=4.0,
        subscription_bytes=10.0,
    )
    then = empty.after(Change(input_rate=2.0, subscriptions=5, output_bytes_s=1.0))
    assert then.matching_delay_s == pytest.approx(0.005)
    assert (then.queued_in_bytes, then.queued_out_bytes, then.engine_bytes) == (3.0, 4.0, 50.0)


def test_an_empty_acceptor_is_expected_to_work_as_the_donor_does() -> None:
    """Else it would seem to take any number of subscriptions at no cost."""
    base = msgspec.structs.replace(BROKER, matching_slope_s=0.0002)
    empty = linear(0.0, 0, slope_s=0.0)
    assert completed(empty, by=base).matching_delay_s == pytest.approx(0.03)
    assert completed(empty, by=base).after(Change(5.0, 100)).input_utilisation == pytest.approx(0.25)
    assert completed(empty, by=base).subscription_bytes == pytest.approx(0.08)
    busy = linear(1.0, 10, slope_s=0.007)
    assert completed(busy, by=base).matching_slope_s == 0.007


def test_an_empty_acceptor_that_knows_its_speed_is_taken_at_its_word() -> None:
    """peer §6.2, step 2' and §7.2: with nothing to go by, the delay is slope · n, however slow the donor is."""
    base = msgspec.structs.replace(BROKER, matching_slope_s=0.0002)
    empty = linear(0.0, 0, slope_s=0.00002)
    assert completed(empty, by=base).matching_delay_s == 0.0
    assert completed(empty, by=base).after(Change(5.0, 100)).input_utilisation == pytest.approx(0.01)


@given(
    st.floats(0.0, 20.0).flatmap(lambda rate: loads(rate=rate, subscriptions=30)), st.integers(0, 20), st.integers(1, 9)
)
def test_more_subscriptions_are_never_less_load(load: LoadInfo, some: int, more: int) -> None:
    """What the search for a number of clients relies on."""
    few = load.utilisations_after(Change(0.0, some, 10.0 * some))
    many = load.utilisations_after(Change(0.0, some + more, 10.0 * (some + more)))
    assert all(one <= other for one, other in zip(_all(few), _all(many), strict=True))
    assert _all(load.after(Change(0.0, some, 10.0 * some)).utilisations) == pytest.approx(_all(few))
    assert _all(load.utilisations_after(Change())) == pytest.approx(_all(load.utilisations))


def _all(utilisations: msgspec.Struct) -> tuple[float, ...]:
    return msgspec.structs.astuple(utilisations)
