"""The baseline is right: it finds what the kernel and the filters themselves find, whole or sorted by shape."""

from pathlib import Path

import numpy as np
import pytest

from tidewire._kernel._native import Index, encode_event, join_events
from tidewire.benchmarks.numpy_scan import FilterTable, NumpyScan
from tidewire.benchmarks.workloads import WORKLOADS, Workload, make_workload
from tidewire.model.filters import decode_filter


@pytest.fixture(scope="module", params=sorted(WORKLOADS))
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    folder: Path = tmp_path_factory.mktemp("empty")
    return make_workload(request.param, filters=2_000, events=40, seed=5, folder=folder)


@pytest.mark.parametrize("by_shape", [False, True])
def test_it_finds_what_the_filters_say(work: Workload, by_shape: bool) -> None:
    table = FilterTable(work.filters())
    scan = NumpyScan(table, by_shape=by_shape)
    in_order = list(dict.fromkeys(work.filters()))
    filters = [decode_filter(one) for one in in_order]
    for event in work.events:
        wanted = [row for row, one in enumerate(filters) if one.accepts(event)]
        assert sorted(scan.match(scan.prepare(event)).tolist()) == wanted


def test_it_finds_what_the_kernel_finds(work: Workload) -> None:
    table = FilterTable(work.filters())
    scan, index = NumpyScan(table), Index()
    index.insert(*work.owners(np.arange(len(work))), work.filters())
    for event in work.events:
        found = index.match(join_events([encode_event(event)]), limit=0)
        rows = {
            int(table.row_of_subscription[number * work.destinations + destination])
            for i, destination in enumerate(found.destination)
            for number in found.numbers[found.number_first[i] : found.number_first[i + 1]]
        }
        assert sorted(scan.match(scan.prepare(event)).tolist()) == sorted(rows)


@pytest.mark.parametrize("by_shape", [False, True])
def test_removed_rows_match_nothing_until_they_are_back(work: Workload, by_shape: bool) -> None:
    table = FilterTable(work.filters())
    scan = NumpyScan(table, by_shape=by_shape)
    before = [sorted(scan.match(scan.prepare(event)).tolist()) for event in work.events]
    leaving = np.arange(0, len(work), 2)
    scan.remove(table.row_of_subscription[leaving])
    kept = set(table.row_of_subscription[1::2].tolist())
    for event, rows in zip(work.events, before, strict=True):
        assert sorted(scan.match(scan.prepare(event)).tolist()) == [row for row in rows if row in kept]
    scan.insert_again(table.row_of_subscription[leaving])
    assert [sorted(scan.match(scan.prepare(event)).tolist()) for event in work.events] == before
