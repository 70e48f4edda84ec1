"""PIE: when load is told, and how long it is believed (peer §3.2, §3.3)."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan

import pytest
from msgspec.structs import replace

from tests.balancing.parts import CONFIG, HEAD, at
from tidewire.balancing.config import AsPrinted, BalancingConfig
from tidewire.balancing.pie import Book, Telling
from tidewire.model.balance_messages import Condition, GlobalPie, Indices, LocalPie
from tidewire.model.ids import BrokerId

A, B = BrokerId("A"), BrokerId("B")


def pie(
    condition: Condition = "OK",
    *,
    input_utilisation: float = 0.5,
    delay_s: float = 0.0,
    balanced: list[BrokerId] | None = None,
) -> LocalPie:
    return LocalPie(condition, Indices(input_utilisation, 0.0, delay_s), balanced or [A])


def told(first: LocalPie, config: BalancingConfig = CONFIG) -> Telling:
    telling = Telling(config, period_s=config.local_pie_s, now_ns=at(0))
    telling.tell(first, now_ns=at(0))
    return telling


@pytest.mark.parametrize(
    ("before", "now", "is_news"),
    [
        (pie(), pie(input_utilisation=0.52), False),
        (pie(), pie(input_utilisation=0.53), True),
        (pie("BUSY"), pie("BUSY", input_utilisation=0.9), False),
        (pie("BUSY"), pie("OK"), True),
    ],
)
def test_what_is_told(before: LocalPie, now: LocalPie, is_news: bool) -> None:
    """peer G18."""
    assert told(before).is_news(now, is_watching=False, now_ns=at(30)) == is_news


@pytest.mark.parametrize("condition", ["BUSY", "N/A", "STABILIZING"])
def test_an_unchanged_condition_but_ok_is_not_told_again(condition: Condition) -> None:
    """peer PIE2 (b): it cannot change what a neighbour decides. No keep-alive either: N/A is to be forgotten."""
    telling = told(pie(condition))
    assert not telling.is_news(pie(condition, input_utilisation=5.0), is_watching=False, now_ns=at(1000))


@pytest.mark.parametrize(("delay_s", "is_news"), [(0.0024, False), (0.0026, True)])
def test_a_delay_moves_in_units_of_the_norm(delay_s: float, is_news: bool) -> None:
    """peer PIE2 (a), Eq. 3.5: 0.025 of 0.1 s."""
    assert told(pie()).is_news(pie(delay_s=delay_s), is_watching=False, now_ns=at(30)) == is_news


def test_a_quiet_broker_stays_known() -> None:
    """peer PIE2, PIE3: a keep-alive every other period, an entry lives three."""
    telling = told(pie())
    assert not telling.is_news(pie(), is_watching=False, now_ns=at(59.9))
    assert telling.is_news(pie(), is_watching=False, now_ns=at(60))


def test_a_late_period_does_not_delay_the_keep_alive_by_another() -> None:
    """peer PIE3: periods are counted from when one began, or the second after a late one would come too early."""
    telling = Telling(CONFIG, period_s=30.0, now_ns=at(0))
    times: list[float] = []
    for late_s in [1.0, 0.5, 0.5, 5.0] * 10:
        now = telling.next_deadline_ns() / 1e9 + late_s
        assert telling.is_due(at(now))
        if telling.is_news(pie(), is_watching=False, now_ns=at(now)):
            telling.tell(pie(), now_ns=at(now))
            times.append(now)
    assert len(times) > 3
    assert all(later - earlier < 90 for earlier, later in pairwise(times))


def test_a_balanced_set_counts_between_clusters_alone() -> None:
    """peer §3.3, effective rule."""
    telling = told(pie())
    assert not telling.is_news(pie(balanced=[A, B]), is_watching=False, now_ns=at(30))
    assert telling.is_news(pie(balanced=[A, B]), is_watching=True, now_ns=at(30))


def test_the_rule_as_printed() -> None:
    """peer §11 row 12: a pure change of condition is hidden, and who is quiet is forgotten."""
    literal = replace(CONFIG, as_printed=AsPrinted(pie_both=True))
    assert not told(pie("BUSY"), literal).is_news(pie("OK"), is_watching=False, now_ns=at(30))
    assert not told(pie(), literal).is_news(pie(), is_watching=False, now_ns=at(1000))
    assert told(pie(), literal).is_news(pie(input_utilisation=0.6), is_watching=False, now_ns=at(30))


@pytest.mark.parametrize(("period_s", "lifetime_s"), [(CONFIG.local_pie_s, 90), (CONFIG.global_pie_s, 180)])
def test_entries_expire(period_s: float, lifetime_s: float) -> None:
    """peer G19, PIE3."""
    book: Book[GlobalPie] = Book(CONFIG, period_s=period_s)
    book.take(A, A, GlobalPie("OK", Indices(0.1, 0.1, 0.1)), now_ns=at(10))
    assert [entry.broker for entry in book.entries(now_ns=at(10 + lifetime_s - 0.001))] == [A]
    assert book.entries(now_ns=at(10 + lifetime_s)) == []


def test_a_head_keeps_what_its_own_edges_said() -> None:
    """peer PIE3: while the link is up; the mean of the cluster depends on it."""
    book: Book[LocalPie] = Book(CONFIG, period_s=30.0)
    book.keep(A)
    for broker in (A, B):
        book.take(broker, HEAD, pie("N/A"), now_ns=at(0))
    assert [entry.broker for entry in book.entries(now_ns=at(5000))] == [A]
    book.forget(A)
    assert book.entries(now_ns=at(5000)) == []


def test_only_who_is_ok_wakes_detection() -> None:
    """peer PIE7."""
    book: Book[LocalPie] = Book(CONFIG, period_s=30.0)
    assert book.take(A, HEAD, pie("OK"), now_ns=at(0))
    assert not book.take(A, HEAD, pie("N/A"), now_ns=at(1))


@pytest.mark.parametrize("nonsense", [nan, inf])
def test_numbers_that_cannot_be_compared_are_not_believed(nonsense: float) -> None:
    book: Book[LocalPie] = Book(CONFIG, period_s=30.0)
    assert not book.take(A, HEAD, pie(input_utilisation=nonsense), now_ns=at(0))
    assert book.entries(now_ns=at(0)) == []


def test_only_one_cluster_is_left() -> None:
    """peer §6.3, step 6."""
    book: Book[LocalPie] = Book(CONFIG, period_s=30.0)
    book.take(A, HEAD, pie(), now_ns=at(0))
    book.take(B, BrokerId("other"), pie(), now_ns=at(0))
    book.forget_all_but(HEAD)
    assert [entry.broker for entry in book.entries(now_ns=at(0))] == [A]
