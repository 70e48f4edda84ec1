"""Servers take turns in every scenario; what cannot be measured is named."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidewire.benchmarks import dialects, wire
from tidewire.benchmarks.peers import PEERS, Peer, Server
from tidewire.benchmarks.wire import Plan, Report, run
from tidewire.model.errors import Unavailable, UnknownName, UsageError

ROOT = Path(__file__).resolve().parents[2]


def _few(cache: Path, *, peers: tuple[str, ...] = ("echo", "unreachable"), **more: Any) -> Plan:
    return Plan(**{"scenarios": ("paced_1000",), "rounds": 6, "turn_s": 0.02, "cache": cache, "peers": peers, **more})


class Echo(Peer):
    """The tests' own broker, as a process."""

    name = "echo"
    dialect: dialects.Dialect = dialects.Tidewire()

    def _unpack(self, into: Path) -> str:
        return "1.0"

    def _launch(self, port: int, folder: Path) -> None:
        self._run([sys.executable, ROOT / "tests/benchmarks/servers.py", str(port)], folder, PYTHONPATH=str(ROOT))


class Ours(Echo):
    """The same again, in our place."""

    name = "tidewire"


class Unreachable(Echo):
    """Cannot be had."""

    name = "unreachable"

    def _unpack(self, into: Path) -> str:
        raise Unavailable("no network")


class Silent(Echo):
    """Understands nothing that is said to it."""

    name = "silent"
    dialect = dialects.Mqtt()


@pytest.fixture(autouse=True)
def _peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for peer in (Echo, Unreachable, Silent):
        monkeypatch.setitem(PEERS, peer.name, peer)


def _ours(folder: Path) -> Server:
    return Ours(folder)


def test_all_that_can_be_had_are_measured_and_compared(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    plan = _few(tmp_path, scenarios=("one_to_one", "paced_1000"))
    report = run(plan, tell=lambda stage, step=0, steps=0: told.append((stage, step)), ours=lambda: _ours(tmp_path))
    assert report.versions == {"tidewire": "1.0", "echo": "1.0"}
    assert report.missing == {"unreachable": "no network"}
    assert ("one_to_one", 6) in told
    for name, servers in report.scenarios.items():
        assert list(servers) == ["tidewire", "echo"], name
        for figures in servers.values():
            assert figures.lost == figures.out_of_order == 0
            assert figures.cpu_us_per_delivery > 0
            assert figures.deliveries_per_s > 0
            assert 0 < figures.delay_us.p50 <= figures.delay_us.p999
            assert figures.rss_mb > 1
        ratios = report.ratios[name]["echo"]
        assert 0 < ratios.cpu.low <= ratios.cpu.median <= ratios.cpu.high
    assert report.scenarios["paced_1000"]["echo"].deliveries_per_round == 20
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_without_ours_there_is_nothing_to_compare(tmp_path: Path) -> None:
    plan = _few(tmp_path, peers=("echo",))
    report = run(plan, ours=None)
    assert (list(report.versions), report.ratios) == (["echo"], {})


def test_a_missing_peer_is_an_error_when_all_are_needed(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no network"):
        run(_few(tmp_path, needs_all_peers=True), ours=None)


def test_we_may_not_be_missing(tmp_path: Path) -> None:
    class Absent(Unreachable):
        name = "tidewire"

    with pytest.raises(Unavailable, match="no network"):
        run(_few(tmp_path), ours=lambda: Absent(tmp_path))


def test_a_peer_that_fails_is_left_out(tmp_path: Path) -> None:
    plan = _few(tmp_path, peers=("silent", "echo"))
    report = run(plan, ours=None)
    assert list(report.versions) == ["echo"]
    assert "the server closed" in report.missing["silent"]


def test_a_plan_names_only_what_there_is() -> None:
    with pytest.raises(UnknownName, match="peer named 'kafka'"):
        Plan(peers=("kafka",))
    with pytest.raises(UnknownName, match="scenario named 'all_to_all'"):
        Plan(scenarios=("all_to_all",))
    with pytest.raises(UsageError, match="at least 6"):
        Plan(rounds=5)
    assert Plan().shortened().rounds == 6
    assert set(wire.SCENARIOS) == {"one_to_one", "fan_out_100", "two_hops", "paced_1000", "paced_20000"}
