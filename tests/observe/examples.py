"""Brokers as they might be, for tests that look at them."""

from __future__ import annotations

from typing import Any

from tidewire.balancing.load import Load
from tidewire.balancing.record import Errors
from tidewire.broker.balance_documents import BalanceStatus
from tidewire.broker.channels import ChannelsStatus
from tidewire.broker.shortage_status import ShortageStatus
from tidewire.broker.status import BrokerStatus, Host, LogStatus, NeighbourStatus, PubendStatus
from tidewire.observe.network import Answered, CoordinatorView, KnownMember, Network, Unanswered


def load(**given: Any) -> Load:
    """Hardly any load, but for what is given."""
    usual: dict[str, Any] = dict.fromkeys(Load.__struct_fields__, 0.01) | {"subscriptions": 3}
    return Load(**usual | given)


def neighbour(broker: str, **given: Any) -> NeighbourStatus:
    """A neighbour in good health."""
    usual: dict[str, Any] = {
        "broker": broker,
        "address": f"127.0.0.1:{7600 + sum(map(ord, broker)) % 100}",
        "role": "edge",
        "is_full": False,
        "is_leaving": False,
        "events_in": 10,
        "events_out": 20,
        "bytes_in": 1000,
        "bytes_out": 2000,
        "queued_bytes": 0,
        "queue_bytes_max": 32 << 20,
        "dropped": 0,
        "clock_error_us": 150,
    }
    return NeighbourStatus(**usual | given)


def log(*, limit_events_s: float | None = None, is_awaited: bool = False, **given: Any) -> LogStatus:
    """A log that is well, unless it is said otherwise."""
    pubend = PubendStatus(
        pubend="0" * 15 + "a",
        events=10,
        limit_events_s=limit_events_s,
        is_awaited=is_awaited,
        reached_ms=1_700_000_100_000,
        alerts=0,
        alerts_recovering=0,
    )
    usual: dict[str, Any] = {"folder": "log", "trouble": "none", "why": "", "disk_bytes": 1 << 26, "pubends": [pubend]}
    return LogStatus(**usual | {"held": 1, "names": []} | given)


def balance(**given: Any) -> BalanceStatus:
    """An edge that balances, and has done so with success."""
    usual: dict[str, Any] = {
        "policy": "peer",
        "is_automatic": True,
        "condition": "OK",
        "partner": None,
        "is_donor": False,
        "smoothed": None,
        "known": [],
        "sessions": {"moved": 3, "nothing": 2, "failed": 1},
        "sessions_accepted": 4,
        "declined": 1,
        "moved_away": 30,
        "moved_here": 20,
        "stayed": 1,
        "calls_for_help": 0,
        "errors": Errors(compared=3, input_utilisation=0.01, output_utilisation=0.02, matching_delay_s=1e-6),
        "bulletins_sent": {"LOCAL_PIE": 9, "LB_CONTROL": 5},
        "bulletins_heard": {"LOCAL_PIE": 8, "LB_CONTROL": 4},
    }
    return BalanceStatus(**usual | given)


def channels(**given: Any) -> ChannelsStatus:
    """Of a broker that is connected to its data cluster."""
    usual: dict[str, Any] = {"data_cluster": "127.0.0.1:7605", "is_connected": True, "channels": 2}
    return ChannelsStatus(**usual | {"subscriptions": 40, "shared": 5} | given)


def shortage(**given: Any) -> ShortageStatus:
    """Of a head whose cluster is short of something."""
    usual: dict[str, Any] = {
        "policy": "fdcc",
        "mode": "limited",
        "flows": 5,
        "limited": [],
        "demand": {"head >edge": 3.0},
        "predicted": {"head >edge": 0.94},
        "measured": {"head >edge": 0.93},
        "opinions_heard": 100,
        "opinions_ignored": 3,
        "quenched": 2,
        "publishers_ended": 1,
        "triggers": 4,
        "messages_sent": {"Limits": 7},
        "messages_heard": {"Offering": 70, "Room": 8},
    }
    return ShortageStatus(**usual | given)


def status(broker: str, **given: Any) -> BrokerStatus:
    """A broker in good health."""
    usual: dict[str, Any] = {
        "broker": broker,
        "address": neighbour(broker).address,
        "role": "head",
        "incarnation": "1",
        "uptime_s": 100.0,
        "unix_s": 1_700_000_100.0,
        "host": Host(version="0.1.0", pid=1, files_max=20_000),
        "is_leaving": False,
        "coordinator": None,
        "is_registered": False,
        "clients": 5,
        "publishers": 2,
        "subscribers": 3,
        "connections": 8,
        "connections_max": 10_000,
        "neighbours": [],
        "unreached": [],
        "links_stuck": 0,
        "log": log(),
        "streams": [],
        "followers": 1,
        "followers_behind": 0,
        "trees": 1,
        "events": 1000,
        "deliveries": 3000,
        "forwards": 500,
        "matches": 3500,
        "refused": 1,
        "dropped": 0,
        "bytes_in": 100_000,
        "bytes_out": 300_000,
        "queued_bytes": 0,
        "queue_bytes_max": 8 << 20,
        "waiting": 0,
        "slow": [],
        "slow_clients": 0,
        "routes": 3,
        "index_bytes": 4096,
        "busy_s": 0.5,
        "load": load(),
        "decisions": [],
    }
    return BrokerStatus(**usual | given)


def answered(broker: str, *, clock_ahead_s: float | None = 0.0, **given: Any) -> Answered:
    """A broker that answered."""
    made = status(broker, **given)
    return Answered(status=made, where=made.address, rates=None, took_s=0.001, clock_ahead_s=clock_ahead_s)


def network(*brokers: Answered, silent: tuple[Unanswered, ...] = (), **members: bool) -> Network:
    """A look; members are those of its coordinator, if there is one: is it connected?"""
    known = [
        KnownMember(broker=name, address=neighbour(name).address, declared="auto", is_alive=is_alive)
        for name, is_alive in members.items()
    ]
    coordinators = [CoordinatorView(address="127.0.0.1:7599", members=known, reason="")] if members else []
    return Network(at_unix_s=1_700_000_100.0, brokers=list(brokers), silent=list(silent), coordinators=coordinators)
