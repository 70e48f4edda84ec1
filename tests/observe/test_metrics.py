"""Metrics: stable names, documented, in the format that Prometheus reads."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.observe.examples import balance, channels, load, log, neighbour, shortage, status
from tidewire.observe.metrics import CONTENT_TYPE, render

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"

STABLE = [
    "broker_info",
    "events_total",
    "deliveries_total",
    "forwards_total",
    "matches_total",
    "refused_events_total",
    "dropped_events_total",
    "received_bytes_total",
    "sent_bytes_total",
    "busy_seconds_total",
    "stuck_links_total",
    "guaranteed_events_total",
    "log_bytes",
    "log_standstill",
    "log_losses",
    "pubend_limit_events_per_second",
    "held_subscriptions",
    "followers",
    "followers_behind",
    "streams",
    "recovering_streams",
    "start_time_seconds",
    "clients",
    "publishers",
    "subscribers",
    "slow_clients",
    "connections",
    "connections_limit",
    "waiting_connections",
    "open_files_limit",
    "neighbours",
    "unreached_neighbours",
    "source_trees",
    "routes",
    "index_bytes",
    "queued_bytes",
    "queue_limit_bytes",
    "draining",
    "registered",
    "matching_delay_seconds",
    "input_utilisation_ratio",
    "output_utilisation_ratio",
    "cpu_utilisation_ratio",
    "memory_utilisation_ratio",
    "expired_events_total",
    "link_received_events_total",
    "link_sent_events_total",
    "link_received_bytes_total",
    "link_sent_bytes_total",
    "link_queued_bytes",
    "link_queue_limit_bytes",
    "link_dropped_events_total",
    "link_clock_error_seconds",
    "link_expired_events_total",
    "balancing_moved_clients_total",
    "balancing_received_clients_total",
    "balancing_stayed_clients_total",
    "balancing_accepted_sessions_total",
    "balancing_declined_requests_total",
    "balancing_calls_for_help_total",
    "balancing_input_error_ratio",
    "balancing_output_error_ratio",
    "balancing_delay_error_seconds",
    "balancing_condition",
    "balancing_sessions_total",
    "balancing_sent_bulletins_total",
    "balancing_received_bulletins_total",
    "data_cluster_connected",
    "channels",
    "channel_subscriptions",
    "shared_channel_subscriptions",
    "shortage",
    "shortage_triggers_total",
    "shortage_flows",
    "shortage_limited_flows",
    "shortage_quenched",
    "shortage_opinions_total",
    "shortage_ignored_opinions_total",
    "shortage_ended_publishers_total",
    "shortage_messages_total",
    "balancing_utilisation_ratio",
]
"""Dashboards and alerts hold on to these: none may go or change. New ones are added at the end."""

BROKERS = [
    status(
        "head",
        neighbours=[neighbour("edge", events_out=42)],
        load=load(cpu_utilisation=0.5),
        log=log(limit_events_s=5.0),
        channels=channels(shared=7),
        shortage=shortage(),
    ),
    status(
        'ed"ge\n', role="edge", events=7, is_leaving=True, balance=balance(moved_away=12, utilisation={"output": 0.5})
    ),
]


def families() -> dict[str, Metric]:
    """What a Prometheus server reads, by the names of its samples."""
    found = text_string_to_metric_families(render(BROKERS).decode())
    return {family.samples[0].name: family for family in found}


def test_names_are_stable() -> None:
    assert list(families()) == [f"tidewire_{name}" for name in STABLE]


def test_every_metric_is_documented() -> None:
    """Name, type, labels and meaning, as rendered."""
    told = re.findall(r"^\| `(tidewire_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    rendered = [
        (name, family.type, ", ".join(f"`{label}`" for label in family.samples[0].labels), family.documentation)
        for name, family in families().items()
    ]
    assert told == rendered


def test_values_stand_with_their_broker_and_neighbour() -> None:
    """Whatever a broker is called."""
    found = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families().values()
        for sample in family.samples
    }
    assert found["tidewire_events_total", ("head",)] == 1000
    assert found["tidewire_events_total", ('ed"ge\n',)] == 7
    assert found["tidewire_link_sent_events_total", ("head", "edge")] == 42
    assert found["tidewire_link_clock_error_seconds", ("head", "edge")] == 0.00015
    assert found["tidewire_draining", ('ed"ge\n',)] == 1
    assert found["tidewire_cpu_utilisation_ratio", ("head",)] == 0.5
    assert found["tidewire_start_time_seconds", ("head",)] == 1_700_000_000.0
    assert found["tidewire_balancing_moved_clients_total", ('ed"ge\n',)] == 12
    assert found["tidewire_balancing_condition", ('ed"ge\n', "OK")] == 1
    assert found["tidewire_balancing_sessions_total", ('ed"ge\n', "nothing")] == 2
    assert found["tidewire_balancing_sent_bulletins_total", ('ed"ge\n', "LOCAL_PIE")] == 9
    assert found["tidewire_balancing_output_error_ratio", ('ed"ge\n',)] == 0.02
    assert found["tidewire_data_cluster_connected", ("head",)] == 1
    assert found["tidewire_shared_channel_subscriptions", ("head",)] == 7
    assert found["tidewire_broker_info", (BROKERS[0].address, "head", "head", "0.1.0")] == 1


def test_what_is_not_known_is_absent() -> None:
    """Before the first second there is no load; in a simulation no calendar and no process."""
    text = render([status("head", load=None, unix_s=None, host=None)]).decode()
    assert "cpu_utilisation_ratio{" not in text
    assert "start_time_seconds{" not in text
    assert "open_files_limit{" not in text
    assert "balancing_" not in re.sub("^#.*", "", text, flags=re.MULTILINE)
    assert "tidewire_clients{" in text


def test_units_and_totals_follow_the_conventions() -> None:
    """Counters end in _total; nothing is in milliseconds or kilobytes."""
    for name, family in families().items():
        assert name.endswith("_total") == (family.type == "counter"), name
        assert not re.search("milli|micro|kilo|_ms|_us|_kb|_mb", name), name
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
