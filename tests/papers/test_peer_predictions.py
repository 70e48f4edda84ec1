"""peer E1i: predictions are judged by their means; how well a run knows them is told."""

from __future__ import annotations

from math import inf

import pytest

from tidewire.papers.peer.measure import Error
from tidewire.papers.peer.predictions import half_interval, predicted, student
from tidewire.papers.peer.scene import Session

SESSION = Session(began_s=0.0, ended_s=1.0, donor="B1", acceptor="B2", action="input", moved=1, predicted={})


def judged(*outputs: float) -> bool:
    """Is the donor's output predicted well by sessions with these errors? The thesis has 0.12 %."""
    found = [Error(SESSION, True, 0.0, one, 0.0, 0.0) for one in outputs]
    claim = predicted(found)[2]
    assert claim.claim == "E1i: the donor's output utilisation is predicted well"
    return claim.holds


@pytest.mark.parametrize(
    ("freedom", "tabulated"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (14, 2.145), (300, 1.968)]
)
def test_the_quantile_is_the_one_of_the_tables(freedom: int, tabulated: float) -> None:
    """Student's t, two-sided, 95 %."""
    assert student(freedom) == pytest.approx(tabulated, rel=1.5e-3)


def test_the_interval_of_a_mean_follows_from_its_values() -> None:
    """Of 1, 2, 3: the standard error is 1 / sqrt 3, with two degrees of freedom; one value says nothing."""
    assert half_interval([1.0, 2.0, 3.0]) == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert half_interval([1.0]) == inf


def test_the_mean_is_held_against_the_thesiss() -> None:
    """peer E1i: at most 0.12 % off on average, whatever single sessions are."""
    assert judged(0.011, -0.009, 0.001, 0.001)
    assert not judged(0.014, -0.006, 0.004, 0.014, -0.006, 0.004)
    assert not judged()
