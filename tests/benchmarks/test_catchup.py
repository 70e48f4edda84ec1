"""One who catches up beside others: all is counted, on a real broker; what is lost ends the run."""

import os
from pathlib import Path

import msgspec
import pytest

from tidewire.benchmarks.catchup import Plan, Report, run
from tidewire.benchmarks.durable_load import Place, Turn
from tidewire.benchmarks.durable_peers import DurableBroker
from tidewire.benchmarks.load import Load, Loaded
from tidewire.model.errors import PeerError, UsageError


@pytest.fixture(autouse=True)
def _little_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.benchmarks.disk._SYNCS", 10)
    monkeypatch.setattr("tidewire.benchmarks.catchup._WARM_UP_S", 0.01)
    monkeypatch.setattr("tidewire.benchmarks.durable_load._SETTLE_S", 0.01)


def _few(folder: Path) -> Plan:
    return Plan(rounds=6, missed_events=10_000, readers=2, rate=2_000.0, folder=folder / "disk")


def test_both_flows_are_measured_without_and_beside(tmp_path: Path) -> None:
    told: list[str] = []
    report = run(_few(tmp_path), tell=lambda stage, step=0, steps=0: told.append(stage))
    assert list(report.flows) == ["best_effort", "guaranteed"]
    for others in report.flows.values():
        for flow in (others.alone, others.beside):
            assert 0 < flow.delay_us.p50 <= flow.delay_us.p99
            assert flow.lost == 0
        assert 0 < others.delay_p99.low <= others.delay_p99.high
    assert report.events_per_s.low > 0
    assert 0 < report.covered <= 1
    assert told.count("catching up beside others") == report.rounds == 6
    assert list((tmp_path / "disk").iterdir()) == []
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_the_broker_shares_its_cpu_with_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does anything stay confined behind it."""
    before, found = os.sched_getaffinity(0), dict[str, set[int]]()
    start, read = DurableBroker.start, Place.read

    def started(self: DurableBroker, port: int, *, within: Path) -> None:
        start(self, port, within=within)
        found["broker"] = {cpu for pid in self.pids() for cpu in os.sched_getaffinity(pid)}

    def reading(self: Place, *, reader: int = 0, way: str | None = None, gives_way: bool = False) -> Turn:
        found["others"] = os.sched_getaffinity(0)
        return read(self, reader=reader, way=way, gives_way=gives_way)

    monkeypatch.setattr(DurableBroker, "start", started)
    monkeypatch.setattr(Place, "read", reading)
    run(_few(tmp_path))
    assert found["broker"] | found["others"] == before
    assert len(before) == 1 or (len(found["broker"]) == 1 and found["broker"].isdisjoint(found["others"]))
    assert os.sched_getaffinity(0) == before


def test_nobody_may_lose_anything_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = Load.go

    def losing(self: Load, *, events: int, expect: int) -> Loaded:
        return msgspec.structs.replace(go(self, events=events, expect=expect), lost=1)

    monkeypatch.setattr(Load, "go", losing)
    with pytest.raises(PeerError, match="best_effort: 1 lost"):
        run(_few(tmp_path))


def test_a_plan_can_be_measured() -> None:
    with pytest.raises(UsageError, match="at least 6"):
        Plan(rounds=5)
    with pytest.raises(UsageError, match="multiple of 10000"):
        Plan(missed_events=1_500)
    assert Plan().shortened().rounds == 6
