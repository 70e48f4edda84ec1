"""Deciding who moves takes little, whatever the workload: by ratios, since machines differ and are busy."""

from __future__ import annotations

import pytest

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.balance_decision import SCATTERED, case_of
from tidewire.benchmarks.workloads import WORKLOADS

REPEATS = 6
ANEW_MAX = {True: 4.0, False: 20.0}
"""PRESS and a decision against what it takes to look at all clients anew, where many want the same and where nobody
does; as a rule it is a third of this."""
GROWTH_MAX = 12.0
"""With four times as many; linear would be 4."""


@pytest.mark.parametrize("name", [*WORKLOADS, *SCATTERED])
def test_a_decision_takes_about_as_long_as_looks_at_all_clients(name: str) -> None:
    """peer §8: also where no two clients want the same; overloaded and not; and it grows as their number does."""
    config = BalancingConfig()
    case, smaller = case_of(name, 8000, config), case_of(name, 2000, config)
    anew_s = min(case.made_anew_s() for _ in range(REPEATS))
    for is_overloaded in (False, True):
        found = case.measure(config, is_overloaded=is_overloaded, repeats=REPEATS)
        less = smaller.measure(config, is_overloaded=is_overloaded, repeats=REPEATS)
        assert found.subscriptions == 8000
        assert all(found.moves.values())
        assert found.session_s.low < ANEW_MAX[name in WORKLOADS] * anew_s, (found, anew_s)
        assert found.session_s.low < GROWTH_MAX * less.session_s.low, (found, less)
