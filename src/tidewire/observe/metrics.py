"""Metrics in the text format of Prometheus, from status documents. The names are stable: dashboards hold on to them.

``docs/reference/metrics.md`` lists them all, and a test compares it with what is rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from tidewire.balancing.load import Load
from tidewire.broker.balance_documents import BalanceStatus
from tidewire.broker.channels import ChannelsStatus
from tidewire.broker.shortage_status import ShortageStatus
from tidewire.broker.status import BrokerStatus, LogStatus, NeighbourStatus

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
"""Of what ``render`` gives."""

_Kind = Literal["counter", "gauge"]


class _Of(msgspec.Struct, frozen=True):
    """One metric, of brokers or of links: None where there is nothing to say."""

    name: str
    kind: _Kind
    meaning: str


class _OfBroker(_Of, frozen=True):
    value: Callable[[BrokerStatus], float | None]


class _OfKinds(_Of, frozen=True):
    """Of a broker, one for each kind of something: the label, and how many of each."""

    label: str
    values: Callable[[BalanceStatus], dict[str, float]]


class _OfLink(_Of, frozen=True):
    value: Callable[[NeighbourStatus], float | None]


def _loaded(name: str) -> Callable[[BrokerStatus], float | None]:
    def value(status: BrokerStatus) -> float | None:
        load: Load | None = status.load
        return None if load is None else getattr(load, name)

    return value


def _count(name: str, meaning: str, value: Callable[[BrokerStatus], float | None]) -> _OfBroker:
    return _OfBroker(f"tidewire_{name}_total", "counter", meaning, value)


def _now(name: str, meaning: str, value: Callable[[BrokerStatus], float | None]) -> _OfBroker:
    return _OfBroker(f"tidewire_{name}", "gauge", meaning, value)


def _started(status: BrokerStatus) -> float | None:
    return None if status.unix_s is None else status.unix_s - status.uptime_s


def _of_log(value: Callable[[LogStatus], float | None]) -> Callable[[BrokerStatus], float | None]:
    return lambda status: None if status.log is None else value(status.log)


def _of_balancing(value: Callable[[BalanceStatus], float | None]) -> Callable[[BrokerStatus], float | None]:
    return lambda status: None if status.balance is None else value(status.balance)


def _of_channels(value: Callable[[ChannelsStatus], float]) -> Callable[[BrokerStatus], float | None]:
    return lambda status: None if status.channels is None else value(status.channels)


def _of_shortage(value: Callable[[ShortageStatus], float]) -> Callable[[BrokerStatus], float | None]:
    return lambda status: None if status.shortage is None else value(status.shortage)


def _error(name: str) -> Callable[[BrokerStatus], float | None]:
    return _of_balancing(lambda balance: None if balance.errors is None else getattr(balance.errors, name))


def _limit(log: LogStatus) -> float | None:
    return min((one.limit_events_s for one in log.pubends if one.limit_events_s is not None), default=None)


def _files_max(status: BrokerStatus) -> float | None:
    return None if status.host is None else status.host.files_max


_BROKERS: Final = [
    _count("events", "Events taken, from publishers and neighbours.", lambda s: s.events),
    _count("deliveries", "Events put into the queues of local subscribers.", lambda s: s.deliveries),
    _count("forwards", "Events put into the queues of neighbours.", lambda s: s.forwards),
    _count("matches", "Filters found to match.", lambda s: s.matches),
    _count("refused_events", "Events of publishers that were not taken.", lambda s: s.refused),
    _count("dropped_events", "Events that slow subscribers lost.", lambda s: s.dropped),
    _count("received_bytes", "Bytes read from all connections.", lambda s: s.bytes_in),
    _count("sent_bytes", "Bytes put into the queues of all connections.", lambda s: s.bytes_out),
    _count("busy_seconds", "Time spent on events: reading, matching, queueing.", lambda s: s.busy_s),
    _count("stuck_links", "Links ended because nothing moved on them.", lambda s: s.links_stuck),
    _count(
        "guaranteed_events",
        "Guaranteed events taken into the log.",
        _of_log(lambda log: sum(one.events for one in log.pubends)),
    ),
    _now("log_bytes", "What the log takes of the disk.", _of_log(lambda log: log.disk_bytes)),
    _now(
        "log_standstill",
        "1 while the disk is full or has failed, and no guaranteed event is taken.",
        _of_log(lambda log: log.trouble in ("full", "failed")),
    ),
    _now(
        "log_losses",
        "Parts of streams that the log has kept, or should have kept, and does not have.",
        _of_log(lambda log: sum(one.why != "said" for one in log.losses)),
    ),
    _now(
        "pubend_limit_events_per_second",
        "The least that a pubend is limited to, of those that something is published in.",
        _of_log(_limit),
    ),
    _now("held_subscriptions", "Durable subscriptions for which events are kept.", _of_log(lambda log: log.held)),
    _now("followers", "Durable subscriptions of the broker's clients.", lambda s: s.followers),
    _now("followers_behind", "Durable subscriptions that are catching up.", lambda s: s.followers_behind),
    _now("streams", "Streams of guaranteed events that come to the broker.", lambda s: len(s.streams)),
    _now(
        "recovering_streams",
        "Streams of which the broker lacks something, and asks for it.",
        lambda s: sum(one.is_recovering for one in s.streams),
    ),
    _now("start_time_seconds", "When the broker started, in seconds of 1970.", _started),
    _now("clients", "Connected clients.", lambda s: s.clients),
    _now("publishers", "Clients that have advertised something.", lambda s: s.publishers),
    _now("subscribers", "Clients that have subscribed to something.", lambda s: s.subscribers),
    _now("slow_clients", "Clients with a queue over a quarter full, or that lost events.", lambda s: s.slow_clients),
    _now("connections", "Open connections of all kinds.", lambda s: s.connections),
    _now("connections_limit", "Clients beyond it are turned away.", lambda s: s.connections_max),
    _now("waiting_connections", "Not read until there is room elsewhere for what they sent.", lambda s: s.waiting),
    _now("open_files_limit", "Files and connections the process may open.", _files_max),
    _now("neighbours", "Neighbours that are connected.", lambda s: len(s.neighbours)),
    _now("unreached_neighbours", "Neighbours that should be connected and are not.", lambda s: len(s.unreached)),
    _now("source_trees", "Source trees that the broker is on.", lambda s: s.trees),
    _now("routes", "Subscriptions in the index, of clients and of neighbours.", lambda s: s.routes),
    _now("index_bytes", "Memory of the engine: index, connections, queues.", lambda s: s.index_bytes),
    _now("queued_bytes", "What waits in all queues.", lambda s: s.queued_bytes),
    _now("queue_limit_bytes", "The bound of each client's queue.", lambda s: s.queue_bytes_max),
    _now("draining", "1 while the broker's clients are being moved away.", lambda s: s.is_leaving),
    _now("registered", "1 while the broker is connected to its coordinator.", lambda s: s.is_registered),
    _now("matching_delay_seconds", "Time per event, of the last ten seconds.", _loaded("matching_delay_s")),
    _now("input_utilisation_ratio", "Rate times delay; beyond 1 input waits.", _loaded("input_utilisation")),
    _now("output_utilisation_ratio", "Share of output_bytes_s in use.", _loaded("output_utilisation")),
    _now("cpu_utilisation_ratio", "Share of a core that the engine uses.", _loaded("cpu_utilisation")),
    _now("memory_utilisation_ratio", "Share of memory_bytes in use.", _loaded("memory_utilisation")),
    _count("expired_events", "Events past their deadline, thrown away, by connection.", lambda s: s.expired),
]

_LINKS: Final = [
    _OfLink("tidewire_link_received_events_total", "counter", "Events from the neighbour.", lambda n: n.events_in),
    _OfLink("tidewire_link_sent_events_total", "counter", "Events to the neighbour.", lambda n: n.events_out),
    _OfLink("tidewire_link_received_bytes_total", "counter", "Bytes from the neighbour.", lambda n: n.bytes_in),
    _OfLink("tidewire_link_sent_bytes_total", "counter", "Bytes to the neighbour.", lambda n: n.bytes_out),
    _OfLink("tidewire_link_queued_bytes", "gauge", "What waits for the neighbour.", lambda n: n.queued_bytes),
    _OfLink("tidewire_link_queue_limit_bytes", "gauge", "The bound of that queue.", lambda n: n.queue_bytes_max),
    _OfLink(
        "tidewire_link_dropped_events_total",
        "counter",
        "Guaranteed events that found no room in that queue, and are asked for again.",
        lambda n: n.dropped,
    ),
    _OfLink(
        "tidewire_link_clock_error_seconds",
        "gauge",
        "How far off a time from the neighbour may be.",
        lambda n: None if n.clock_error_us is None else n.clock_error_us / 1e6,
    ),
    _OfLink(
        "tidewire_link_expired_events_total",
        "counter",
        "Events for the neighbour that were past their deadline, and thrown away.",
        lambda n: n.expired,
    ),
]

_BALANCING: Final = [
    _count("balancing_moved_clients", "Clients that balancing moved away.", _of_balancing(lambda b: b.moved_away)),
    _count("balancing_received_clients", "Clients that balancing moved here.", _of_balancing(lambda b: b.moved_here)),
    _count(
        "balancing_stayed_clients",
        "Clients that balancing was to move away, and that stayed.",
        _of_balancing(lambda b: b.stayed),
    ),
    _count(
        "balancing_accepted_sessions",
        "Sessions of others in which the broker was to take clients over.",
        _of_balancing(lambda b: b.sessions_accepted),
    ),
    _count(
        "balancing_declined_requests",
        "Requests of the broker to take clients over that others declined.",
        _of_balancing(lambda b: b.declined),
    ),
    _count(
        "balancing_calls_for_help",
        "Times that the broker was overloaded and no edge of its cluster could help.",
        _of_balancing(lambda b: b.calls_for_help),
    ),
    _now(
        "balancing_input_error_ratio",
        "How far predictions of the input utilisation were off, on average.",
        _error("input_utilisation"),
    ),
    _now(
        "balancing_output_error_ratio",
        "How far predictions of the output utilisation were off, on average.",
        _error("output_utilisation"),
    ),
    _now(
        "balancing_delay_error_seconds",
        "How far predictions of the matching delay were off, on average.",
        _error("matching_delay_s"),
    ),
]

_KINDS: Final = [
    _OfKinds(
        "tidewire_balancing_condition",
        "gauge",
        "1 for what the broker or its cluster may do now: OK, BUSY, N/A, STABILIZING; LOW, HIGH, OVERLOAD.",
        "condition",
        lambda b: {} if b.condition is None else {b.condition: 1},
    ),
    _OfKinds(
        "tidewire_balancing_sessions_total",
        "counter",
        "Sessions that the broker asked for: clients moved, nothing to move, failed.",
        "outcome",
        lambda b: dict(b.sessions),
    ),
    _OfKinds(
        "tidewire_balancing_sent_bulletins_total",
        "counter",
        "What the broker told about load, or passed on.",
        "class",
        lambda b: dict(b.bulletins_sent),
    ),
    _OfKinds(
        "tidewire_balancing_received_bulletins_total",
        "counter",
        "What the broker was told about load.",
        "class",
        lambda b: dict(b.bulletins_heard),
    ),
]

_SHORTAGE: Final = [
    _now(
        "shortage", "1 while the broker's cluster is short of something.", _of_shortage(lambda s: s.mode == "limited")
    ),
    _count("shortage_triggers", "How often a shortage began.", _of_shortage(lambda s: s.triggers)),
    _now("shortage_flows", "Publishers by class that the broker knows of.", _of_shortage(lambda s: s.flows)),
    _now("shortage_limited_flows", "Of its own those that are limited.", _of_shortage(lambda s: len(s.limited))),
    _now("shortage_quenched", "Advertisements that nobody wants.", _of_shortage(lambda s: s.quenched)),
    _count("shortage_opinions", "Opinions of subscribers that counted.", _of_shortage(lambda s: s.opinions_heard)),
    _count(
        "shortage_ignored_opinions",
        "Those that came too often, or were about publishers that the subscriber cannot know.",
        _of_shortage(lambda s: s.opinions_ignored),
    ),
    _count(
        "shortage_ended_publishers",
        "Publishers ended because they sent more than they might, or did not answer.",
        _of_shortage(lambda s: s.publishers_ended),
    ),
    _count(
        "shortage_messages",
        "Messages about shortage that the broker heard.",
        _of_shortage(lambda s: sum(s.messages_heard.values())),
    ),
]

_LATER_KINDS: Final = [
    _OfKinds(
        "tidewire_balancing_utilisation_ratio",
        "gauge",
        "Where the head decides: the share of its capacity that the broker uses.",
        "metric",
        lambda b: dict(b.utilisation),
    ),
]
"""Names stay in their order: what is new comes last."""

_CHANNELS: Final = [
    _now(
        "data_cluster_connected",
        "1 while the broker is connected to its data cluster.",
        _of_channels(lambda c: c.is_connected),
    ),
    _now("channels", "Channels that the broker's data cluster has.", _of_channels(lambda c: c.channels)),
    _now(
        "channel_subscriptions",
        "Subscriptions of the broker's clients to channels.",
        _of_channels(lambda c: c.subscriptions),
    ),
    _now(
        "shared_channel_subscriptions",
        "Subscriptions of the data cluster that the broker has for them.",
        _of_channels(lambda c: c.shared),
    ),
]

_INFO: Final = ("tidewire_broker_info", "Always 1; its labels tell what the broker is.")
_INFO_LABELS: Final = ("address", "broker", "role", "version")


def render(statuses: Sequence[BrokerStatus]) -> bytes:
    """The text that a Prometheus server reads. Each broker once."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Brokers(statuses))
    return generate_latest(registry)


class _Brokers(Collector):
    def __init__(self, statuses: Sequence[BrokerStatus]) -> None:
        self._statuses = statuses

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily(*_INFO, labels=_INFO_LABELS)
        for status in self._statuses:
            version = "" if status.host is None else status.host.version
            info.add_metric([status.address, status.broker, status.role, version], 1)
        yield info
        for of_broker in _BROKERS:
            yield _family(of_broker, ["broker"], (([s.broker], of_broker.value(s)) for s in self._statuses))
        for of_link in _LINKS:
            values = (([s.broker, n.broker], of_link.value(n)) for s in self._statuses for n in s.neighbours)
            yield _family(of_link, ["broker", "neighbour"], values)
        for of_broker in _BALANCING:
            yield _family(of_broker, ["broker"], (([s.broker], of_broker.value(s)) for s in self._statuses))
        balances = [(s.broker, s.balance) for s in self._statuses if s.balance is not None]
        for of_kinds in _KINDS:
            kinds = (([name, kind], n) for name, b in balances for kind, n in of_kinds.values(b).items())
            yield _family(of_kinds, ["broker", of_kinds.label], kinds)
        for of_broker in (*_CHANNELS, *_SHORTAGE):
            yield _family(of_broker, ["broker"], (([s.broker], of_broker.value(s)) for s in self._statuses))
        for of_kinds in _LATER_KINDS:
            kinds = (([name, kind], n) for name, b in balances for kind, n in of_kinds.values(b).items())
            yield _family(of_kinds, ["broker", of_kinds.label], kinds)


def _family(one: _Of, labels: list[str], values: Iterable[tuple[list[str], float | None]]) -> Metric:
    make = CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily
    family = make(one.name, one.meaning, labels=labels)
    for of, value in values:
        if value is not None:
            family.add_metric(of, value)
    return family
