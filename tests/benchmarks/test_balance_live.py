"""`tidewire bench balance-live`: the capacities that it gives to its edges."""

from __future__ import annotations

import pytest

from tidewire.benchmarks.balance_live import edges_for, line_through
from tidewire.benchmarks.balance_scene import Plan

RATE = 40.0


def needed(*, of_none: float, of_subscriber: float, subscribers: int = 2000) -> dict[str, float]:
    """What four edges need together, if an event costs so much."""
    return {
        "cpu_share": RATE * (4 * of_none + subscribers * of_subscriber),
        "cpu_share_of_none": RATE * of_none,
        "cpu_share_of_subscriber": RATE * of_subscriber,
        "output_bytes_s": 2e6,
    }


def test_a_line_goes_through_its_points() -> None:
    assert line_through([(100, 3.0), (200, 5.0), (400, 9.0)]) == pytest.approx((1.0, 0.02))


@pytest.mark.parametrize("points", [[(100, 3.0), (200, 2.0)], [(100, 1.0), (200, 4.0)], [(50, 2.0), (50, 2.0)]])
def test_noise_makes_nothing_negative(points: list[tuple[float, float]]) -> None:
    assert min(line_through(points)) >= 0


def test_capacities_are_as_the_weights_and_leave_the_planned_share_in_use() -> None:
    found = edges_for(Plan(), needed(of_none=0.1e-6, of_subscriber=0.02e-6))
    assert [edge.cpu_share / found[0].cpu_share for edge in found] == pytest.approx([1, 2, 3, 4])
    assert [edge.output_bytes_s / found[0].output_bytes_s for edge in found] == pytest.approx([1, 2, 3, 4])
    assert RATE * (0.4e-6 + 2000 * 0.02e-6) / sum(edge.cpu_share for edge in found) == pytest.approx(0.3)
    assert 2e6 / sum(edge.output_bytes_s for edge in found) == pytest.approx(0.25)


def test_the_weakest_can_bear_what_events_cost_whoever_wants_them() -> None:
    found = edges_for(Plan(), needed(of_none=20e-6, of_subscriber=0.02e-6))
    assert RATE * 20e-6 / found[0].cpu_share == pytest.approx(0.2)
