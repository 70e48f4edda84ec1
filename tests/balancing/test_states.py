"""The state machines of peer §4."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.balancing.parts import at, condition_of
from tidewire.balancing.states import Cause, ClusterState, EdgeState
from tidewire.model.balance_messages import Condition

TABLE: dict[tuple[Condition, Cause], Condition] = {
    ("OK", "accepts"): "BUSY",
    ("OK", "agreed"): "BUSY",
    ("OK", "overloaded"): "N/A",
    ("N/A", "agreed"): "BUSY",
    ("N/A", "relieved"): "STABILIZING",
    ("BUSY", "ended"): "STABILIZING",
    ("STABILIZING", "settled"): "OK",
    ("STABILIZING", "overloaded"): "N/A",
    ("STABILIZING", "agreed"): "BUSY",
}
"""Written from the sheet, not from the code."""


@pytest.mark.parametrize("cause", get_args(Cause))
@pytest.mark.parametrize("condition", get_args(Condition))
def test_an_edge(condition: Condition, cause: Cause) -> None:
    """peer §4: what the table has happens, and nothing else."""
    state = EdgeState()
    state.condition = condition
    assert state.may(cause) == ((condition, cause) in TABLE)
    if not state.may(cause):
        with pytest.raises(AssertionError):
            state.go(cause, now_ns=at(7))
        return
    state.go(cause, now_ns=at(7))
    assert condition_of(state) == TABLE[condition, cause]
    assert state.session_end_ns == (at(7) if cause == "ended" else None)


@pytest.mark.parametrize("prior", ["OK", "N/A", "STABILIZING"])
def test_a_session_that_came_to_nothing_leads_back(prior: Condition) -> None:
    """peer §4: no stabilizing then."""
    state = EdgeState()
    state.condition = prior
    state.go("agreed", now_ns=at(0))
    state.revert()
    assert condition_of(state) == prior
    assert state.session_end_ns is None


def test_a_cluster() -> None:
    """peer §4, global: BUSY ends in OK or N/A, as the edges then are."""
    state = ClusterState()
    assert condition_of(state) == "OK"
    state.edges(is_one_overloaded=True)
    assert condition_of(state) == "N/A"
    with pytest.raises(AssertionError):
        state.go("accepts")  # the overloaded may ask, not accept
    state.go("agreed")
    assert condition_of(state) == "BUSY"
    with pytest.raises(AssertionError):
        state.go("agreed")
    state.end()
    assert condition_of(state) == "N/A"
    state.edges(is_one_overloaded=False)
    assert condition_of(state) == "OK"
    state.go("accepts")
    state.edges(is_one_overloaded=True)
    assert condition_of(state) == "BUSY"
    state.end()
    assert condition_of(state) == "N/A"
