"""Deciding who moves takes little, whatever the workload."""

from __future__ import annotations

import pytest

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.balance_decision import measure_decisions, measure_scattered
from tidewire.benchmarks.workloads import WORKLOADS, make_workload

CPU_S_MAX = 1.0


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_decision_takes_less_than_a_second(name: str) -> None:
    """PRESS and one decision of each algorithm, in CPU time; as a rule it takes less than a tenth of this."""
    work = make_workload(name, filters=10_000, events=50, seed=1, destinations=10_000)
    found = measure_decisions(work, BalancingConfig())
    assert found.subscriptions == 10_000
    assert all(found.moves.values())
    assert found.total_s < CPU_S_MAX, found


@pytest.mark.parametrize("is_overloaded", [False, True])
@pytest.mark.parametrize("acceptor_gets", [0.0, 1.0])
@pytest.mark.parametrize("density", [0.1, 0.5])
def test_nor_does_one_where_nothing_is_alike(density: float, acceptor_gets: float, is_overloaded: bool) -> None:
    """PRESS and one decision, in CPU time, when the vectors differ; as a rule it takes a quarter of this."""
    config = BalancingConfig()
    found = measure_scattered(20_000, config, density=density, acceptor_gets=acceptor_gets, is_overloaded=is_overloaded)
    assert found.vectors > 9_000
    assert all(found.moves.values())
    assert found.longest_s < CPU_S_MAX, found
