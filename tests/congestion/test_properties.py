"""Whatever is offered, asked and complained about: gryphon §5, the properties of rates and windows."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.congestion.alerts import Alerts
from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.policies import POLICIES, WINDOWS
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import Nanoseconds, PubendId, Tick
from tidewire.model.ticks import tick_at

PUBEND = PubendId(1)
SEEDS = st.integers(0, 2**32)


def ms(count: int) -> Nanoseconds:
    return Nanoseconds(count * 1_000_000)


def complaint(random: Random, sequence: int, *, now_ms: int) -> Alert:
    """Of edges of one class or both."""
    slowest, recovering = random.choice([(1, 0), (0, 1), (1, 1)])
    return Alert(
        pubend=PUBEND,
        sequence=sequence,
        slowest=random.random() * 1.1 if slowest else inf,
        slowest_recovering=random.random() * 3 if recovering else inf,
        horizon=tick_at(max(0, now_ms - random.randrange(20_000))) if slowest else None,
    )


@pytest.mark.parametrize("policy", POLICIES)
@given(seed=SEEDS)
def test_a_rate_stays_between_the_floor_and_what_is_offered(policy: str, seed: int) -> None:
    """gryphon §5: never above offered, never below the floor; alerts never raise it, and growth takes its time."""
    random = Random(seed)
    config = CongestionConfig(rate_max_msgs_s=random.choice([inf, 300.0]))
    offered = random.uniform(2, 1000)
    rate = POLICIES[policy](PUBEND, config, offered_msgs_s=offered, now_ns=ms(0))
    most = inf if policy == "unlimited" else config.rate_max_msgs_s
    sequence, alerted_ms, grew_ms = 1, 0, -1000
    for now_ms in range(0, 60_000, 250):
        before = rate.limit_msgs_s
        query = rate.due(latest=tick_at(now_ms), now_ns=ms(now_ms))
        if before < rate.limit_msgs_s < most:
            assert now_ms >= max(alerted_ms + 2000, grew_ms + 1000)
            grew_ms = now_ms
        if query is not None:
            assert query.latest == tick_at(now_ms)
            sequence = query.sequence
        if random.random() < 0.1:
            offered = inf if rate.is_throttled and random.random() < 0.3 else random.uniform(0, 1000)
            rate.offer(offered, now_ns=ms(now_ms))
        if random.random() < (0.3 if now_ms % 20_000 < 10_000 else 0):
            before = rate.rate_msgs_s
            answers = random.randint(max(1, sequence - 3), sequence)
            if rate.hear(complaint(random, answers, now_ms=now_ms), latest=tick_at(now_ms), now_ns=ms(now_ms)):
                assert rate.rate_msgs_s < before or rate.rate_msgs_s == min(offered, config.rate_min_msgs_s)
            assert rate.rate_msgs_s <= before
            alerted_ms = now_ms
        assert rate.rate_msgs_s <= offered
        assert config.rate_min_msgs_s <= rate.limit_msgs_s <= most
        assert rate.rate_msgs_s >= min(offered, config.rate_min_msgs_s)
        assert rate.is_throttled == (rate.rate_msgs_s < offered)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "unlimited"])
@given(seed=SEEDS)
def test_the_next_deadline_is_when_something_happens(policy: str, seed: int) -> None:
    """Nothing happens before it, and at it something does: a query goes out or the rate grows."""
    random = Random(seed)
    rate = POLICIES[policy](PUBEND, CongestionConfig(), offered_msgs_s=500, now_ns=ms(0))
    now_ns = ms(0)
    for _ in range(60):
        deadline = rate.next_deadline()
        assert deadline is not None
        limit = rate.limit_msgs_s
        if deadline > now_ns:
            assert rate.due(latest=Tick(0), now_ns=Nanoseconds(deadline - 1)) is None
            assert rate.limit_msgs_s == limit
        now_ns = max(now_ns, deadline)
        query = rate.due(latest=Tick(0), now_ns=now_ns)
        assert query is not None or rate.limit_msgs_s > limit
        if query is not None and random.random() < 0.2:
            now_ns = Nanoseconds(now_ns + random.randrange(900_000_000))
            rate.hear(complaint(random, query.sequence, now_ms=0), latest=Tick(0), now_ns=now_ns)


@given(SEEDS)
def test_no_more_alerts_go_up_than_queries_went_down(seed: int) -> None:
    """gryphon §5, §2.3: one per query at most; and without an age limit no complaint is lost on the way."""
    random = Random(seed)
    head = Alerts(CongestionConfig(leftover_queries_max=inf))
    waiting: list[Alert] = []
    went_up = 0
    for sequence in range(1, 30):
        head.query(Query(pubend=PUBEND, sequence=sequence, latest=Tick(0)))
        for _ in range(random.randrange(5)):
            alert = complaint(random, random.randint(max(1, sequence - 1), sequence), now_ms=sequence * 1000)
            waiting.append(alert)
            up = head.alert(alert, now_ns=ms(sequence * 1000))
            if up is not None:
                went_up += 1
                assert up.slowest == min(one.slowest for one in waiting)
                assert up.slowest_recovering == min(one.slowest_recovering for one in waiting)
                assert up.horizon == min((one.horizon for one in waiting if one.horizon is not None), default=None)
                waiting.clear()
        assert went_up <= sequence


@pytest.mark.parametrize("policy", WINDOWS)
@given(seed=SEEDS)
def test_a_window_stays_within_its_bounds(policy: str, seed: int) -> None:
    """gryphon §5: nwnd in [size_NACK, rwnd], by one step at a time, at most once per round trip."""
    random = Random(seed)
    step = random.randint(1, 500)
    most = step * random.randint(1, 20) + random.randrange(step)
    window = WINDOWS[policy](CongestionConfig(), first=step, step=step, most=most)
    now_ms, changed_ms = 0, -10_000
    for _ in range(200):
        before = window.size
        assert step <= before <= most
        now_ms += random.choice([0, 1, 20, 50, 100])
        asked_ms = max(0, now_ms - random.choice([0, 1, 50, 100, 100, 400]))
        if random.random() < 0.02:
            window.restart(now_ns=ms(now_ms))
            changed_ms = now_ms
        elif window.answered(asked_ns=ms(asked_ms), now_ns=ms(now_ms)):
            assert 0 < abs(window.size - before) <= step
            assert asked_ms >= changed_ms
            changed_ms = now_ms
        else:
            assert window.size == before
        assert window.retry_ns >= 1_000_000_000
