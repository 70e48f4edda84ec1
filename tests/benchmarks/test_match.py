"""The benchmark builds both sides, sees that they agree, and reports every figure."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidewire.benchmarks.match import Plan, run
from tidewire.benchmarks.measure import PAIRS_MIN
from tidewire.benchmarks.workloads import WORKLOADS
from tidewire.model.errors import UsageError


def small(workload: str, folder: Path) -> Plan:
    return Plan(workload=workload, filters=1_500, events=300, folder=folder, pairs=PAIRS_MIN, turn_s=0.001)


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_every_figure_is_there(workload: str, tmp_path: Path) -> None:
    stages: list[str] = []
    report = run(small(workload, tmp_path), tell=lambda stage, step=0, steps=0: stages.append(stage))
    assert stages[-1] == "inserting and removing with the poset kept"
    assert report.filters == 1_500
    assert 0 < report.distinct_filters <= 1_500
    assert report.events_checked == 32
    assert set(report.tidewire.modes) == {"deliver", "find_all", "all_ids"}
    assert set(report.ratios) == {"deliver", "find_all", "all_ids", "deliver_against_numpy_by_shape"}
    found = report.filters_found_per_event
    assert found["deliver"] <= found["find_all"] == found["all_ids"] == report.matches_per_event.filters
    assert report.ratio == report.ratios["deliver"]
    assert report.matches_per_event.subscriptions >= report.matches_per_event.filters
    document: Any = msgspec.to_builtins(report)
    for side in (document["tidewire"], document["numpy"]):
        for name in ("us_per_event", "events_per_s", "bytes_per_filter", "inserts_per_s", "removes_per_s"):
            assert side[name] > 0
        assert side["us_per_event_after_churn"] > 0
    assert document["tidewire"]["with_poset"]["inserts_per_s"] > 0
    single = document["tidewire"]["single_inserts"]
    assert 0 < single["us_median"] <= single["us_p9999"] <= single["us_max"]


def test_without_extras_only_the_headlines_are_measured(tmp_path: Path) -> None:
    report = run(msgspec.structs.replace(small("ranges", tmp_path), with_extras=False))
    assert set(report.ratios) == {"deliver", "find_all"}
    assert report.numpy_by_shape is None
    assert report.tidewire.with_poset is None
    assert report.tidewire.single_inserts is None


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 6"):
        Plan(workload="stock", pairs=5)
