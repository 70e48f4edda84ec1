"""The workloads are what they say, the same for the same seed, and made of filters as the compiler makes them."""

from pathlib import Path

import numpy as np
import pytest

from tidewire.benchmarks.workloads import (
    RANGE_SELECTIVITY,
    SELECTIVE_FILTERS_PER_SYMBOL,
    WORKLOADS,
    Workload,
    make_workload,
)
from tidewire.language import compile_filter
from tidewire.model.errors import UnknownName, UsageError
from tidewire.model.filters import decode_filter, encode_filter

FILTERS = 3_000
NAMES = sorted(WORKLOADS)


@pytest.fixture(scope="module", params=NAMES)
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return make_workload(request.param, filters=FILTERS, events=200, seed=3, folder=tmp_path_factory.mktemp("empty"))


def test_the_seed_decides_everything(work: Workload, tmp_path: Path) -> None:
    again = make_workload(work.name, filters=FILTERS, events=200, seed=3, folder=tmp_path)
    assert again.filters() == work.filters()
    assert again.events == work.events
    other = make_workload(work.name, filters=FILTERS, events=200, seed=4, folder=tmp_path)
    assert other.filters() != work.filters()


def test_filters_are_as_the_compiler_makes_them(work: Workload) -> None:
    distinct = work.subscriptions.distinct
    for i in range(0, len(distinct), max(1, len(distinct) // 300)):
        assert distinct[i] == encode_filter(compile_filter(work.subscriptions.text_of(i)))


def test_distinct_filters_are_distinct(work: Workload) -> None:
    assert len(set(work.subscriptions.distinct)) == len(work.subscriptions.distinct)
    assert set(work.filters()) == set(work.subscriptions.distinct)


def test_numbers_are_dense_per_destination(work: Workload) -> None:
    destinations, numbers = work.owners(np.arange(len(work)))
    by_destination: dict[int, list[int]] = {}
    for destination, number in zip(destinations.tolist(), numbers.tolist(), strict=True):
        by_destination.setdefault(destination, []).append(number)
    assert len(by_destination) == work.destinations
    assert all(sorted(found) == list(range(len(found))) for found in by_destination.values())


def test_stock_has_the_templates_of_the_paper(tmp_path: Path) -> None:
    """peer §9.4, Table 5.1: the six templates with their probabilities."""
    work = make_workload("stock", filters=20_000, events=1, seed=1, folder=tmp_path)
    shapes = [
        tuple(c.attribute for c in decode_filter(one).conjunctions[0].constraints)
        for one in work.subscriptions.distinct
    ]
    share = np.bincount(work.subscriptions.chosen, minlength=len(shapes)) / len(work)
    found: dict[tuple[str, ...], float] = {}
    for shape, part in zip(shapes, share.tolist(), strict=True):
        found[shape] = found.get(shape, 0.0) + part
    assert found == pytest.approx(
        {
            ("class", "high", "symbol"): 0.20,
            ("class", "low", "symbol"): 0.20,
            ("class", "symbol", "volume"): 0.20,
            ("class", "symbol"): 0.34,
            ("class", "volume"): 0.05,
            ("class",): 0.01,
        },
        abs=0.02,
    )


def test_ranges_select_half_a_percent(tmp_path: Path) -> None:
    work = make_workload("ranges", filters=2_000, events=200, seed=1, folder=tmp_path)
    filters = [decode_filter(one) for one in work.subscriptions.distinct]
    assert {len(one.conjunctions[0].constraints) for one in filters} == {3, 4}
    hits = sum(one.accepts(event) for one in filters for event in work.events[:100])
    assert hits / (len(filters) * 100) == pytest.approx(RANGE_SELECTIVITY, rel=0.15)


def test_selective_always_has_a_symbol_and_about_ten_match(tmp_path: Path) -> None:
    work = make_workload("selective", filters=2_000, events=500, seed=1, folder=tmp_path)
    assert all("symbol = '" in work.subscriptions.text_of(i) for i in range(len(work.subscriptions.distinct)))
    symbols = {event["symbol"] for event in work.events}
    assert 150 < len(symbols) <= 2_000 // SELECTIVE_FILTERS_PER_SYMBOL
    filters = [decode_filter(one) for one in work.filters()]
    hits = sum(one.accepts(event) for one in filters for event in work.events[:50])
    assert 5 < hits / 50 < 15


def test_an_unknown_workload_names_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="ranges, selective, stock"):
        make_workload("stocks", filters=1, events=1, seed=1)


@pytest.mark.parametrize(("filters", "events"), [(0, 1), (1, 0), (10**9, 1)])
def test_sizes_are_bounded(filters: int, events: int) -> None:
    with pytest.raises(UsageError):
        make_workload("ranges", filters=filters, events=events, seed=1)
