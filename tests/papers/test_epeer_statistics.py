"""Wilcoxon's signed-rank test, as the thesis uses it."""

from __future__ import annotations

from itertools import product

import pytest

from tidewire.papers.epeer.statistics import Side, signed_rank


def test_all_of_one_sign() -> None:
    """The golden values of epeer G22."""
    differences = [float(one) for one in range(1, 501)]
    found = signed_rank(differences, is_corrected=False)
    assert (found.pairs, found.sum_above, found.mean) == (500, 125_250.0, 62_625.0)
    assert found.deviation == pytest.approx(3232.327, abs=5e-4)
    assert found.z == pytest.approx(19.3746, abs=5e-5)
    assert found.p == pytest.approx(1.26e-83, rel=0.005)
    # R corrects for continuity unless it is told not to: the golden value is without.
    assert signed_rank(differences).p == pytest.approx(1.2685e-83, rel=1e-4)
    assert signed_rank(differences, side="greater").p == pytest.approx(signed_rank(differences).p / 2)
    assert signed_rank(differences, side="less").p == pytest.approx(1.0)


@pytest.mark.parametrize("side", ["two-sided", "less", "greater"])
def test_few_pairs_are_counted_out(side: Side) -> None:
    """All signs of n ranks are as likely (epeer §4.1 names R's test): counted here one by one."""
    differences = [3.0, -1.0, 2.5, -0.5, 4.0, 6.0]
    sizes = sorted(abs(one) for one in differences)
    above = sum(sizes.index(abs(one)) + 1 for one in differences if one > 0)
    sums = [sum(rank + 1 for rank, sign in enumerate(signs) if sign) for signs in product((0, 1), repeat=6)]
    upper, lower = sum(one >= above for one in sums) / 64, sum(one <= above for one in sums) / 64
    expected = {"greater": upper, "less": lower, "two-sided": min(1.0, 2 * min(upper, lower))}[side]
    assert signed_rank(differences, side=side).p == pytest.approx(expected)


def test_ties_share_their_rank_and_equals_are_left_out() -> None:
    """As in R: ``wilcox.test(c(1, 1, -1, 2, 0), exact = FALSE)`` has V = 8 of 10."""
    found = signed_rank([1.0, 1.0, -1.0, 2.0, 0.0])
    assert (found.pairs, found.sum_above) == (4, 8.0)
    assert found.deviation == pytest.approx((4 * 5 * 9 / 24 - (27 - 3) / 48) ** 0.5)


def test_nothing_but_equals_is_no_evidence() -> None:
    """No pair differs: chance explains it."""
    assert signed_rank([0.0, 0.0]).p == 1.0
