"""Policies by name, their settings, and what only one of them does."""

from __future__ import annotations

from math import inf

import msgspec
import pytest

from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.direct import Density, Direct
from tidewire.congestion.policies import POLICIES, WINDOWS, rate_policy, window_policy
from tidewire.congestion.settled import Settled
from tidewire.model.congestion import Alert, Query
from tidewire.model.errors import BadConfiguration, UnknownName
from tidewire.model.ids import Nanoseconds, PubendId, Tick
from tidewire.model.ticks import tick_at

PUBEND = PubendId(1)
TABLE_1 = {
    "nack_ms": 100,
    "silence_s": 1.0,
    "quiet_s": 2.0,
    "increase_msgs_s": 2.0,
    "increase_factor": 0.05,
    "decrease_factor": 0.5,
    "decrease_share": 0.25,
    "smoothing": 0.1,
    "slack": 0.05,
    "recovery": 1.0,
    "lag_ms_max": 4000,
    "nack_window_ms": 100,
    "nack_rise": 0.1,
    "nack_fall": 0.3,
    "query_s": 1.0,
}


def test_the_defaults_are_the_papers() -> None:
    """gryphon §4: Table 1, and the query interval of the text."""
    config = CongestionConfig()
    assert {name: getattr(config, name) for name in TABLE_1} == TABLE_1


def test_policies_are_chosen_by_name() -> None:
    config = CongestionConfig()
    assert rate_policy(config) is POLICIES["pdcc"]
    assert window_policy(config) is WINDOWS["sdcc-probing"]
    with pytest.raises(UnknownName, match="no rate policy named 'vegas'; known: pdcc, pdcc-direct"):
        rate_policy(CongestionConfig(rate_policy="vegas"))
    with pytest.raises(UnknownName, match="no window policy named 'pdcc'; known: sdcc, sdcc-probing, unlimited"):
        window_policy(CongestionConfig(window_policy="pdcc"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("query_s", 0),
        ("quiet_s", 1.0),
        ("direct_drain_s", inf),
        ("decrease_factor", 1.0),
        ("smoothing", 0.0),
        ("nack_fall", 1.1),
        ("slack", -0.1),
        ("base_first", inf),
        ("hold_queries", -1),
        ("increase_msgs_s", 0),
        ("leftover_queries_max", 0),
        ("recovery", -1.0),
        ("rate_max_msgs_s", 1.0),
        ("nack_window_ms", 99),
        ("receive_window_ms", 99),
        ("silence_s", float("nan")),
    ],
)
def test_settings_that_cannot_be_right_are_refused(name: str, value: float) -> None:
    with pytest.raises(BadConfiguration, match=rf"\w+ = {value}|nack_window_ms = 100"):
        CongestionConfig(**{name: value})  # type: ignore[arg-type]


def test_an_experiments_settings_are_accepted() -> None:
    """gryphon §6: E3 and E4."""
    for recovery in (-0.2, 0.0, 0.5, 2.0):
        assert CongestionConfig(recovery=recovery).recovery == recovery
    assert msgspec.convert({"quiet_s": 3}, CongestionConfig).quiet_s == 3
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"t_nouca": 3}, CongestionConfig)


def test_queries_and_alerts_survive_the_wire() -> None:
    """gryphon §2.1: infinity = none."""
    query = Query(pubend=PUBEND, sequence=1, latest=tick_at(5))
    alert = Alert(pubend=PUBEND, sequence=1, slowest_recovering=0.5)
    for message in (query, alert):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message)) == message
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(Alert(pubend=PUBEND, sequence=1, slowest=-1)), type=Alert)


def complain(rate: Settled | Direct, *, slowest: float, horizon_ms: int, now_ms: int, recovering: float = inf) -> bool:
    """In answer to a query that is sent now."""
    now_ns, latest = Nanoseconds(now_ms * 1_000_000), tick_at(now_ms)
    assert rate.due(latest=latest, now_ns=now_ns) is not None
    horizon = tick_at(horizon_ms) if slowest < inf else None
    alert = Alert(
        pubend=PUBEND, sequence=rate.sequence, slowest=slowest, slowest_recovering=recovering, horizon=horizon
    )
    return rate.hear(alert, latest=latest, now_ns=now_ns)


def test_settled_waits_until_its_decrease_has_arrived() -> None:
    """gryphon §7, undershoot: dense ticks from before a decrease arrive slowly after it."""
    rate = Settled(PUBEND, CongestionConfig(), offered_msgs_s=100, now_ns=Nanoseconds(0))
    assert complain(rate, slowest=0.5, horizon_ms=9_000, now_ms=10_000)
    assert not complain(rate, slowest=0.5, horizon_ms=9_500, now_ms=11_000)
    assert not complain(rate, slowest=0.5, horizon_ms=10_000, now_ms=12_000)
    assert complain(rate, slowest=0.5, horizon_ms=10_001, now_ms=13_000)
    assert rate.rate_msgs_s == 25


def test_settled_does_not_wait_for_ever() -> None:
    """gryphon §7: a lag beyond dt_s is congestion by itself."""
    rate = Settled(PUBEND, CongestionConfig(), offered_msgs_s=100, now_ns=Nanoseconds(0))
    assert complain(rate, slowest=0.5, horizon_ms=9_000, now_ms=10_000)
    assert not complain(rate, slowest=0.4, horizon_ms=9_000, now_ms=13_000)
    assert complain(rate, slowest=0.3, horizon_ms=10_000, now_ms=14_001)


def test_direct_sets_what_arrives() -> None:
    """gryphon §7: r·tbar·margin, less what it takes to work off the queue in ``direct_drain_s``."""
    config = CongestionConfig(direct_margin=0.9)
    rate = Direct(PUBEND, config, offered_msgs_s=100, now_ns=Nanoseconds(0))
    assert complain(rate, slowest=0.6, horizon_ms=9_000, now_ms=10_000)
    assert rate.rate_msgs_s == pytest.approx(100 * 0.6 * 0.9 - 100 / 10)
    # What arrives next is from before the decrease: as dense as before, and so the same rate is right.
    assert not complain(rate, slowest=0.6, horizon_ms=9_600, now_ms=11_000)
    assert rate.rate_msgs_s == pytest.approx(44)
    # The link is narrower still: half of what arrives is the least that draining leaves.
    assert complain(rate, slowest=0.1, horizon_ms=9_700, now_ms=12_000)
    assert rate.rate_msgs_s == pytest.approx(100 * 0.1 * 0.9 / 2)


def test_direct_makes_room_for_recovery_as_pdcc_does() -> None:
    """gryphon §2.2, §7: a recovering edge asks for room, and its progress does not say how much."""
    rate = Direct(PUBEND, CongestionConfig(), offered_msgs_s=100, now_ns=Nanoseconds(0))
    assert complain(rate, slowest=inf, recovering=1.9, horizon_ms=0, now_ms=10_000)
    assert rate.rate_msgs_s == 50


def test_direct_grows_by_a_share() -> None:
    """2 msg/s more per second are nothing to a pubend of 10,000."""
    rate = Direct(PUBEND, CongestionConfig(), offered_msgs_s=10_000, now_ns=Nanoseconds(0))
    complain(rate, slowest=0.5, horizon_ms=9_999, now_ms=10_000)
    before = rate.rate_msgs_s
    rate.due(latest=tick_at(13_000), now_ns=Nanoseconds(13_000_000_000))
    assert rate.rate_msgs_s == pytest.approx(1.04 * before)


def test_density_counts_the_events_of_a_part_of_the_stream() -> None:
    density = Density(100)
    density.note(100, at_ms=500)
    density.note(50, at_ms=1000)
    density.note(10, at_ms=3000)
    assert density.between(0, 1000) == 100
    assert density.between(500, 2000) == 100
    assert density.between(900, 4000) == pytest.approx(10 + 100 + 10)
    assert density.between(3500, 3500) == 0
    assert density.between(-1000, 0) == 100
    for change in range(1000):
        density.note(change % 2, at_ms=5000 + 1000 * change)
    assert density.between(0, 1000) == pytest.approx(0.0)
    assert density.between(1_003_000, 1_005_000) == 1


def test_unlimited_slows_nobody() -> None:
    """gryphon C1, C2: the null baseline."""
    config = CongestionConfig()
    rate = POLICIES["unlimited"](PUBEND, config, offered_msgs_s=100, now_ns=Nanoseconds(0))
    assert rate.next_deadline() is None
    assert rate.due(latest=Tick(0), now_ns=Nanoseconds(10**12)) is None
    assert not rate.hear(Alert(pubend=PUBEND, sequence=1, slowest=0.1), latest=Tick(0), now_ns=Nanoseconds(10**12))
    assert rate.rate_msgs_s == 100
    assert rate.limit_msgs_s == inf
    assert WINDOWS["unlimited"](config, first=1, step=1, most=10_000).size == 10_000
