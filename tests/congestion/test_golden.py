"""Rates, alerts and windows as gryphon §5 gives them: T1–T14 and T16–T19."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from tidewire.congestion.alerts import Alerts
from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.pdcc import Pdcc, decreased, increased
from tidewire.congestion.progress import Progress
from tidewire.congestion.sdcc import Sdcc
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import Nanoseconds, PubendId, Tick
from tidewire.model.ticks import tick_at

CONFIG = CongestionConfig(lag_ms_min=0)
"""The paper's own: a moment behind counts."""
PUBEND = PubendId(1)


def seconds(count: float) -> Nanoseconds:
    return Nanoseconds(round(count * 1e9))


class Pubend:
    """A pubend's rate, and its time."""

    def __init__(self, offered_msgs_s: float, config: CongestionConfig = CONFIG) -> None:
        self.now_s = 0.0
        self.control = Pdcc(PUBEND, config, offered_msgs_s=offered_msgs_s, now_ns=seconds(0))
        self.ask()

    def ask(self) -> None:
        assert self.control.due(latest=Tick(0), now_ns=seconds(self.now_s)) is not None

    def wait(self, count: int = 1) -> list[float]:
        """So many seconds pass: the rate after each."""
        rates = []
        for _ in range(count):
            self.now_s += 1
            self.ask()
            rates.append(self.control.rate_msgs_s)
        return rates

    def alert(self, progress: float, *, sequence: int | None = None, recovering: float = inf) -> float:
        """An edge complains, in answer to the last query or an older one: the rate after it."""
        alert = Alert(
            pubend=PUBEND,
            sequence=self.control.sequence if sequence is None else sequence,
            slowest=progress,
            slowest_recovering=recovering,
        )
        self.control.hear(alert, latest=Tick(0), now_ns=seconds(self.now_s))
        return self.control.rate_msgs_s


@pytest.mark.parametrize(
    ("rate", "base", "expected"), [(100, 100, 102), (290, 250, 292), (291, 250, 293.05), (500, 250, 512.5)]
)
def test_increase(rate: float, base: float, expected: float) -> None:
    """gryphon T1: equation 1."""
    assert increased(rate, base=base, config=CONFIG) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rate", "base", "expected"), [(500, 250, 312.5), (320, 300, 305), (500, 500, 250), (500, 0, 250), (500, 100, 250)]
)
def test_decrease(rate: float, base: float, expected: float) -> None:
    """gryphon T2: equations 2 and 3."""
    assert decreased(rate, base=base, config=CONFIG) == pytest.approx(expected)


def test_a_decrease_is_one_also_below_the_base() -> None:
    """Publishers may offer less than where growth began: equation 2 would then raise the rate."""
    assert decreased(50, base=100, config=CONFIG) == 25


def test_a_trace() -> None:
    """gryphon T3: two alerts, 25 steps of growth, an alert."""
    pubend = Pubend(125)
    assert pubend.alert(0.5) == 62.5
    pubend.wait()
    assert pubend.alert(0.5) == 31.25
    rates = [rate for rate in pubend.wait(26) if rate > 31.25]
    assert rates == pytest.approx([31.25 + 2 * n for n in range(1, 22)] + [75.35, 77.555, 79.87025, 82.3012625])
    assert pubend.alert(0.9) == pytest.approx(44.012815625)


def test_a_ceiling_is_approached() -> None:
    """gryphon T4: the floor of the oscillation converges to the ceiling."""
    base, bases = 20.0, []
    for _ in range(4):
        base = decreased(40, base=base, config=CONFIG)
        bases.append(base)
    assert bases == [25, 28.75, 31.5625, 33.671875]


def test_a_decrease_has_time_to_take_effect() -> None:
    """gryphon T5: after a decrease behind query 7, an alert to 7 is held, one to 8 is not; both break the quiet."""
    pubend = Pubend(125)
    pubend.wait(6)
    assert pubend.control.sequence == 7
    assert pubend.alert(0.6) == 62.5
    assert pubend.alert(0.5) == 62.5
    pubend.wait()
    assert pubend.alert(0.5, sequence=7) == 62.5
    assert pubend.wait() == [62.5]
    assert pubend.alert(0.5, sequence=8) == 31.25


def test_held_alerts_may_count_as_quiet() -> None:
    """gryphon §2.2, hold_seq: with the other reading, only an alert that is not held breaks the quiet."""
    for counts, expected in ((True, 62.5), (False, 64.5)):
        pubend = Pubend(125, CongestionConfig(held_alerts_count=counts))
        pubend.alert(0.6)
        pubend.wait()
        pubend.alert(0.6, sequence=1)
        assert pubend.wait() == [expected]


def test_an_improvement_is_waited_for() -> None:
    """gryphon T6: 0.60, then 0.61 (larger: no decrease), then 0.61 (not larger: a decrease)."""
    pubend = Pubend(125)
    assert pubend.alert(0.60) == 62.5
    pubend.wait()
    assert pubend.alert(0.61) == 62.5
    pubend.wait()
    assert pubend.alert(0.61) == 31.25


def test_recovering_edges_are_judged_apart() -> None:
    """gryphon §2.2: two throughput values. One class improves, the other does not."""
    for apart, expected in ((True, 31.25), (False, 62.5)):
        pubend = Pubend(125, CongestionConfig(classes_apart=apart))
        pubend.alert(0.6, recovering=1.5)
        pubend.wait()
        assert pubend.alert(0.7, recovering=1.5) == expected


def test_growth_begins_a_new_episode() -> None:
    """gryphon §2.2: the previous value is forgotten at each increase, or the first alert after probing goes unheard."""
    for forgets, expected in ((True, 62.5 + 2 * 0.25), (False, 64.5)):
        pubend = Pubend(125, CongestionConfig(forget_at_increase=forgets))
        pubend.alert(0.6)
        assert pubend.wait(2) == [62.5, 64.5]
        assert pubend.alert(0.9) == expected


def test_growth_needs_quiet_and_a_wish() -> None:
    """gryphon §2.2: repeated increase, its pace, and the cap: what is offered."""
    assert Pubend(125).wait(5) == [125] * 5
    pubend = Pubend(64)
    pubend.alert(0.5)
    assert pubend.wait(3) == [32, 34, 36]
    slow = Pubend(64, CongestionConfig(increase_s=2.0))
    slow.alert(0.5)
    assert slow.wait(6) == [32, 34, 34, 36, 36, 38]
    pubend.control.offer(37, now_ns=seconds(3))
    assert pubend.wait(3) == [37, 37, 37]
    assert not pubend.control.is_throttled


def test_publishers_that_wait_would_send_any_amount() -> None:
    """gryphon §2.2: where acknowledgements are withheld, what is offered can only be guessed."""
    pubend = Pubend(64)
    pubend.alert(0.5)
    pubend.control.offer(inf, now_ns=seconds(0))
    assert pubend.wait(4) == [32, 34, 36, 38]
    with pytest.raises(AssertionError):
        Pubend(64).control.offer(inf, now_ns=seconds(0))


def test_the_rate_has_a_floor_and_silence_is_told_more_often_near_it() -> None:
    """gryphon §2.2: 2 msg/s; below 10 msg/s silence comes every 100 ms, or the jumps look like congestion."""
    pubend = Pubend(20)
    assert pubend.control.silence_s == 1.0
    assert pubend.alert(0.1) == 10
    assert pubend.control.silence_s == 1.0
    for expected in (5, 2.5, 2, 2):
        pubend.wait()
        assert pubend.alert(0.1) == expected
        assert pubend.control.silence_s == 0.1


def test_a_limit_that_nobody_comes_up_to_is_forgotten() -> None:
    pubend = Pubend(1000)
    pubend.alert(0.5)
    pubend.control.offer(100, now_ns=seconds(0))
    pubend.wait(59)
    assert pubend.control.limit_msgs_s == 500
    pubend.wait()
    assert pubend.control.limit_msgs_s == inf
    assert pubend.control.base_msgs_s == 0


def test_an_alert_of_another_life_is_ignored() -> None:
    """A pubend counts its queries from 1 again after a restart: what answers a later one is older than it."""
    pubend = Pubend(125)
    assert pubend.alert(0.5, sequence=2) == 125


def alert(sequence: int, *, slowest: float = inf, recovering: float = inf, horizon: int | None = None) -> Alert:
    return Alert(
        pubend=PUBEND,
        sequence=sequence,
        slowest=slowest,
        slowest_recovering=recovering,
        horizon=None if horizon is None else Tick(horizon),
    )


def test_alerts_become_one_per_query() -> None:
    """gryphon T7: the first answer goes up at once, the worst of the others with the next."""
    head = Alerts(CONFIG)
    assert head.alert(alert(7, slowest=0.9, horizon=50), now_ns=seconds(0)) == alert(7, slowest=0.9, horizon=50)
    assert head.alert(alert(7, slowest=0.6, horizon=40), now_ns=seconds(0)) is None
    assert head.alert(alert(8, slowest=0.8, horizon=60), now_ns=seconds(1)) == alert(8, slowest=0.6, horizon=40)
    assert head.alert(alert(9, slowest=0.8, horizon=70), now_ns=seconds(2)) == alert(9, slowest=0.8, horizon=70)


def test_classes_of_alerts_stay_apart() -> None:
    """gryphon T8."""
    head = Alerts(CONFIG)
    assert head.alert(alert(1, slowest=0.9), now_ns=seconds(0)) == alert(1, slowest=0.9)
    assert head.alert(alert(1, recovering=1.4), now_ns=seconds(0)) is None
    assert head.alert(alert(2, recovering=1.6), now_ns=seconds(1)) == alert(2, recovering=1.4)


def test_old_leftovers_are_dropped() -> None:
    """gryphon §2.3: after 2 query intervals; infinite is Fig. 5 as it is drawn."""
    for most, later, expected in ((2.0, 2.0, 0.1), (2.0, 2.01, 0.8), (inf, 1000.0, 0.1)):
        head = Alerts(CongestionConfig(leftover_queries_max=most))
        head.alert(alert(1, slowest=0.9), now_ns=seconds(0))
        head.alert(alert(1, slowest=0.1), now_ns=seconds(0))
        assert head.alert(alert(2, slowest=0.8), now_ns=seconds(later)) == alert(2, slowest=expected)


def test_a_pubend_that_starts_again_is_heard_of() -> None:
    """gryphon §2.3 is silent about it: its queries count from 1 again, and so must the alerts."""
    head = Alerts(CONFIG)
    head.alert(alert(9, slowest=0.9), now_ns=seconds(0))
    head.alert(alert(9, slowest=0.1), now_ns=seconds(0))
    head.query(Query(pubend=PUBEND, sequence=10, latest=Tick(0)))
    assert head.alert(alert(3, slowest=0.8), now_ns=seconds(0)) is None
    head.query(Query(pubend=PUBEND, sequence=1, latest=Tick(0)))
    assert head.alert(alert(1, slowest=0.8), now_ns=seconds(1)) == alert(1, slowest=0.8)


class Edge:
    """A horizon that moves as it is told, and one query after each sample."""

    def __init__(self, config: CongestionConfig = CONFIG) -> None:
        self.at_ms, self.now_s = 100_000.0, 0.0
        self.progress = Progress(config, horizon=tick_at(100_000), now_ns=seconds(0))

    def sample(self, progress: float, *, after_s: float = 0.1) -> float:
        self.now_s += after_s
        self.at_ms += progress * after_s * 1000
        self.progress.sample(horizon=tick_at(round(self.at_ms)), now_ns=seconds(self.now_s))
        return self.progress.smoothed

    def answer(self, *, lag_ms: int = 0, is_recovering: bool = False) -> Alert | None:
        horizon = tick_at(round(self.at_ms))
        query = Query(pubend=PUBEND, sequence=3, latest=tick_at(round(self.at_ms) + lag_ms))
        return self.progress.answer(query, horizon=horizon, is_recovering=is_recovering)


@pytest.mark.parametrize(
    ("progress", "smoothed"),
    [
        (0.5, [0.95, 0.905, 0.8645, 0.82805, 0.795245]),
        (0.9, [0.99, 0.981, 0.9729, 0.96561, 0.959049, 0.953144, 0.947830]),
        (0.0, [0.9]),
    ],
)
def test_smoothing_and_the_first_alert(progress: float, smoothed: list[float]) -> None:
    """gryphon T9, T10, T11: 0.95 is not below 0.95."""
    edge = Edge()
    for expected in smoothed:
        assert edge.sample(progress) == pytest.approx(expected, abs=1e-6)
        answer = edge.answer()
        assert (answer is not None) == (expected < 0.9499)
        if answer is not None:
            assert answer == alert(3, slowest=edge.progress.smoothed, horizon=tick_at(round(edge.at_ms)))


def test_a_threshold_that_is_met_is_met() -> None:
    """gryphon T9, mind floats: 0.99 + 0.01 · 0.25 is 0.9925, and comes out a little below it."""
    edge = Edge(CongestionConfig(smoothing=0.01, slack=0.0075, sample_s=0.2, lag_ms_min=0))
    assert edge.sample(0.25, after_s=0.2) < 1 - 0.0075
    assert edge.answer() is None


def test_a_recovering_edge_must_be_faster() -> None:
    """gryphon T12: alerts through sample 10, none at 11."""
    edge = Edge(CongestionConfig(progress_first=0.0))
    for _ in range(10):
        edge.sample(3)
        assert edge.answer(is_recovering=True) == alert(3, recovering=edge.progress.smoothed)
    assert edge.progress.smoothed == pytest.approx(1.95396, abs=1e-5)
    assert edge.sample(3) == pytest.approx(2.05857, abs=1e-5)
    assert edge.answer(is_recovering=True) is None
    assert edge.answer(lag_ms=60_000, is_recovering=True) is None, "the lag is no matter while it recovers"


def test_a_lag_is_told_however_steady() -> None:
    """gryphon T13: condition 7 with the erratum."""
    edge = Edge()
    assert edge.answer(lag_ms=4000) is None
    assert edge.answer(lag_ms=4001) is not None


def test_a_moment_behind_is_no_congestion() -> None:
    """Ours: a machine that is busy tells late, and nothing is slowed for it; whoever stays behind is told of."""
    edge = Edge(CongestionConfig())
    edge.sample(0.0)
    assert edge.answer(lag_ms=249) is None
    assert edge.answer(lag_ms=250) is not None


def test_progress_is_stream_over_time() -> None:
    """gryphon T14, equation 11: 450 tickms in 500 ms. Five samples' worth of time weigh as five samples."""
    edge = Edge(CongestionConfig(sample_s=0.5, smoothing=1.0))
    assert edge.sample(0.9, after_s=0.5) == pytest.approx(0.9)
    late, steady = Edge(), Edge()
    late.sample(0.5, after_s=0.5)
    for _ in range(5):
        steady.sample(0.5)
    assert late.progress.smoothed == pytest.approx(steady.progress.smoothed)


def test_samples_that_come_too_soon_wait_for_the_next() -> None:
    edge = Edge()
    assert edge.sample(0.0, after_s=0.049) == 1.0
    assert edge.sample(1.0, after_s=0.051) == pytest.approx(1 - 0.1 * 0.49)


LITERAL = CongestionConfig(round_trip_weight=1.0)


class Recovery:
    """A stream that asks for a whole window, and gets it after a round trip."""

    def __init__(self, round_trip_ms: Callable[[int], float], config: CongestionConfig) -> None:
        self.round_trip_ms = round_trip_ms
        self.window = Sdcc(config, first=100, step=100, most=10_000)
        self.now_ns = seconds(1)

    def rounds(self, count: int) -> list[int]:
        sizes = []
        for _ in range(count):
            sizes.append(self.window.size)
            asked_ns = self.now_ns
            self.now_ns = Nanoseconds(asked_ns + round(self.round_trip_ms(self.window.size) * 1e6))
            self.window.answered(asked_ns=asked_ns, now_ns=self.now_ns)
        return sizes


@pytest.mark.parametrize("config", [LITERAL, CONFIG], ids=["literal", "smoothed"])
@pytest.mark.parametrize("constant_ms", [100, 7, 130, 33.333333])
def test_the_window_opens_by_exact_tenths(config: CongestionConfig, constant_ms: float) -> None:
    """gryphon T16: 1000 → 1100 is exactly a tenth, 1100 → 1200 is not."""
    recovery = Recovery(lambda _: constant_ms, config)
    assert recovery.rounds(14) == [*range(100, 1300, 100), 1200, 1200]


@pytest.mark.parametrize("config", [LITERAL, CONFIG], ids=["literal", "smoothed"])
@pytest.mark.parametrize(("share", "settles"), [(8, 900), (4, 500)])
def test_the_window_settles_where_a_larger_one_brings_no_more(
    share: int, settles: int, config: CongestionConfig
) -> None:
    """gryphon T17, T18: RTT = max(100, nwnd/8) and max(100, nwnd/4)."""
    recovery = Recovery(lambda size: max(100, size / share), config)
    recovery.rounds(30)
    assert set(recovery.rounds(30)) == {settles}


@pytest.mark.parametrize("config", [LITERAL, CONFIG], ids=["literal", "smoothed"])
@pytest.mark.parametrize(("round_trip_ms", "expected"), [(150, 800), (125, 900)])
def test_the_window_closes_when_the_rate_falls(round_trip_ms: int, expected: int, config: CongestionConfig) -> None:
    """gryphon T19: a rate of 9 falls by a third, or by a fifth."""
    recovery = Recovery(lambda _: 800 / 9, config)
    recovery.rounds(8)
    assert recovery.window.size == 900
    recovery.round_trip_ms = lambda _: 100
    recovery.rounds(2)
    assert recovery.window.size == 900
    recovery.round_trip_ms = lambda _: round_trip_ms
    recovery.rounds(1 if config is LITERAL else 8)
    assert recovery.window.size == expected


def test_a_new_recovery_begins_small() -> None:
    """gryphon §3: the window is reset; what was asked for before says nothing; a retry waits for four trips."""
    recovery = Recovery(lambda _: 600, CONFIG)
    assert recovery.window.retry_ns == seconds(1)
    recovery.rounds(20)
    assert recovery.window.size == 1200
    assert recovery.window.retry_ns == seconds(2.4)
    recovery.window.restart(now_ns=recovery.now_ns)
    assert recovery.window.size == 100
    early = Nanoseconds(recovery.now_ns - 1)
    assert not recovery.window.answered(asked_ns=early, now_ns=seconds(recovery.now_ns / 1e9 + 1))
    assert recovery.window.size == 100
