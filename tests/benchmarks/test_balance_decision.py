"""Deciding who moves takes little, whatever the workload."""

from __future__ import annotations

import pytest

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.balance_decision import measure_decisions
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
