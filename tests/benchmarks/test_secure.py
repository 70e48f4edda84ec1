"""What TLS and permissions cost is measured with brokers that deliver the same."""

import msgspec
import pytest

from tidewire.benchmarks import filters
from tidewire.benchmarks.certificates import certificates
from tidewire.benchmarks.load import Delays, Loaded, Traffic, run_load
from tidewire.benchmarks.peers import Broker
from tidewire.benchmarks.permits import CASES, PUBLISH, SUBSCRIBE
from tidewire.benchmarks.processes import free_port
from tidewire.benchmarks.secure import PARTS, SCENARIOS, PlainBroker, Plan, Report, compared, run
from tidewire.benchmarks.wire import Contender
from tidewire.benchmarks.workloads import make_workload
from tidewire.identity.grants import Grant, Permissions
from tidewire.language import compile_filter
from tidewire.model.errors import Unavailable, UnknownName, UsageError


def test_both_parts_are_measured_with_live_brokers() -> None:
    plan = Plan(peers=(), scenarios=("one_to_one",), rounds=6, turn_s=0.02, filters=200, starts=1, pairs=6)
    report = run(plan)
    assert report.tls is not None
    assert list(report.tls.scenarios) == ["one_to_one"]
    for servers in report.tls.scenarios.values():
        assert list(servers) == ["tidewire", "tidewire, plain"]
        assert all(figures.lost == figures.out_of_order == 0 for figures in servers.values())
    assert report.tls.cpu_share_of_better == {}
    assert all(ratio.median > 0 for ratio in report.tls.cpu_over_plain.values())
    assert report.permissions is not None
    assert (report.permissions.pairs, report.permissions.on.lost, report.permissions.off.lost) == (6, 0, 0)
    assert set(report.permissions.engine.ratios) == {*CASES} - {"none"}
    assert report.permissions.cpu.low <= report.permissions.cpu.median <= report.permissions.cpu.high
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_a_secured_broker_delivers_by_tls_alone() -> None:
    with certificates() as own:
        server, port = Broker(certificates=own), free_port()
        server.start(port)
        try:
            traffic = Traffic(events=300, subscribers=2)
            loaded = run_load(server.dialect, traffic, port=port, subject="s", authority=server.authority)
            assert (loaded.deliveries, loaded.lost) == (600, 0)
            with pytest.raises(Unavailable):
                run_load(server.dialect, traffic, port=port, subject="s")
            with pytest.raises(Unavailable, match="token"):
                run_load(PlainBroker.dialect, traffic, port=port, subject="s", authority=server.authority)
        finally:
            server.stop()


def test_every_event_lies_within_the_permissions() -> None:
    events = make_workload("selective", filters=100, events=500, seed=1, folder=None).events
    wanted = [compile_filter(SUBSCRIBE.format(who)) for who in (0, filters.SUBSCRIBERS - 1)]
    Permissions("publisher", Grant(publish=PUBLISH))
    for permission in (compile_filter(PUBLISH), *wanted):
        assert all(permission.accepts(event) for event in events)


def _took(name: str, cpu_us: float) -> Contender:
    server = PlainBroker()
    contender = Contender({1: (server, 1)}, turn_s=1.0)
    contender.name = name
    delays = Delays(1.0, 1.0, 1.0, 1.0)
    turn = Loaded(
        deliveries=1_000_000, lost=0, seconds=1.0, deliveries_per_s=1e6, delay_us=delays, late_us=delays,
        out_of_order=0, complaints=0, server_cpu_s=cpu_us, client_cpu_s=1.0, bytes_in=1, bytes_out=1, errors=[],
    )  # fmt: skip
    for scenario in SCENARIOS:
        contender.loaded[scenario] = [turn] * 6
        contender.rss_bytes[scenario] = 1
    return contender


def test_ours_is_compared_with_the_better_peer() -> None:
    tls = compared(_took("tidewire", 0.6), _took("plain", 0.3), [_took("nats", 2.0), _took("redis", 1.2)], SCENARIOS)
    assert tls.cpu_share_of_better["one_to_one"].median == pytest.approx(0.5)
    assert tls.cpu_over_plain["fan_out_100"].median == pytest.approx(2.0)
    assert tls.ratios["one_to_one"]["nats"].cpu.median == pytest.approx(2 / 0.6)


def test_a_plan_names_only_what_there_is() -> None:
    with pytest.raises(UnknownName, match="'mosquitto'"):
        Plan(peers=("mosquitto",))
    with pytest.raises(UnknownName, match="'walls'"):
        Plan(parts=("walls",))
    with pytest.raises(UsageError, match="at least 6"):
        Plan(starts=1, pairs=5)
    assert tuple(Plan().shortened().parts) == PARTS
