"""How a broker judges the streams that come, and how fast those may go that it hosts."""

from __future__ import annotations

from tidewire.broker.attending import Attending
from tidewire.broker.config import BrokerConfig
from tidewire.broker.pubends import Pubends
from tidewire.broker.stream_events import LimitPubend
from tidewire.congestion.config import CongestionConfig
from tidewire.dataplane.streams import StreamState
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import BrokerId, Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.ticks import tick_at

PUBEND, TREE = PubendId(7), TreeId(1)


def at(seconds: float) -> Nanoseconds:
    return Nanoseconds(int(seconds * 1e9))


class Edge:
    """An edge that attends one stream."""

    def __init__(self) -> None:
        self.attending = Attending(CongestionConfig())
        self.sequence = 0

    def see(self, *, horizon_ms: int, heard_ms: int, at_s: float, ignored_ms: int = 0) -> None:
        heard, horizon = tick_at(heard_ms), tick_at(horizon_ms)
        state = StreamState(PUBEND, TREE, heard, horizon, Tick(0), tick_at(ignored_ms))
        self.attending.seen(state, now_ns=at(at_s))

    def ask(self, *, latest_ms: int, at_s: float) -> Alert | None:
        self.sequence += 1
        query = Query(pubend=PUBEND, sequence=self.sequence, latest=tick_at(latest_ms))
        return self.attending.queried(query, now_ns=at(at_s))


def test_the_query_that_ends_an_idle_time_proves_nothing() -> None:
    """gryphon §2.1: it overtakes the events; the edge has heard nothing yet, and is not behind."""
    edge = Edge()
    edge.see(horizon_ms=1000, heard_ms=1000, at_s=1.0)
    assert edge.ask(latest_ms=60_000, at_s=60.0) is None
    edge.see(horizon_ms=60_000, heard_ms=60_000, at_s=60.1)
    assert edge.ask(latest_ms=61_000, at_s=61.0) is None
    edge.see(horizon_ms=60_500, heard_ms=65_500, at_s=65.5)
    assert edge.ask(latest_ms=65_600, at_s=63.4) is not None, "then it is judged again"


def test_a_hole_where_an_idle_time_ends_is_no_congestion() -> None:
    """The first event is there, and that all was silent before it is not known yet."""
    edge = Edge()
    for step in range(40):
        edge.see(horizon_ms=1000, heard_ms=1000, at_s=1.0 + step * 0.1)
    edge.see(horizon_ms=1000, heard_ms=60_000, at_s=60.0)
    assert edge.ask(latest_ms=60_000, at_s=60.0) is None
    for step in range(10):
        edge.see(horizon_ms=60_000 + step * 100, heard_ms=60_000 + step * 100, at_s=60.1 + step * 0.1)
    assert edge.ask(latest_ms=61_000, at_s=61.0) is None


def test_an_edge_that_was_cut_off_is_judged_by_what_it_lacks() -> None:
    """gryphon §2.4: on re-connection after a failure it goes on sampling, and has fallen to near 0."""
    edge = Edge()
    edge.see(horizon_ms=1000, heard_ms=1000, at_s=1.0)
    assert edge.ask(latest_ms=1000, at_s=1.0) is None
    for step in range(100):
        edge.see(horizon_ms=1000, heard_ms=1000, at_s=1.1 + step * 0.1)
    edge.see(horizon_ms=1000, heard_ms=120_000, ignored_ms=120_000, at_s=120.0)
    alert = edge.ask(latest_ms=120_000, at_s=120.1)
    assert alert is not None
    assert alert.slowest_recovering < 0.1
    (coming,) = edge.attending.coming().values()
    assert coming.is_recovering
    assert coming.window_ms == CongestionConfig().nack_window_ms


class Root:
    """A broker that hosts one pubend, whose publishers always wait to be let."""

    def __init__(self) -> None:
        self.pubends = Pubends(BrokerConfig(broker=BrokerId("B"), store="log"))
        self.events = 0
        self.state = StreamState(PUBEND, None, tick_at(1000), tick_at(1000), Tick(0), Tick(0))
        self.pubends.begin([self.state], [], unix_offset_ns=0, now_ns=at(0))

    def publish(self, events: int, *, at_s: float, is_awaited: bool) -> list[float | None]:
        """So many since the last time; which limits follow?"""
        self.events += events
        heard = tick_at(int(1000 + at_s * 1000))
        state = StreamState(PUBEND, None, heard, heard, Tick(0), Tick(0), self.events, is_awaited)
        self.pubends.seen(state, now_ns=at(at_s))
        due = list(self.pubends.due(now_ns=at(at_s)))
        return [one.events_s for one in due if isinstance(one, LimitPubend)]

    def alert(self, sequence: int, *, at_s: float) -> list[float | None]:
        alert = Alert(pubend=PUBEND, sequence=sequence, slowest=0.5)
        return [one.events_s for one in self.pubends.alerted(alert, now_ns=at(at_s)) if isinstance(one, LimitPubend)]


def test_a_pubend_at_its_floor_grows_step_by_step() -> None:
    """gryphon §2.2: those who wait would send more, nobody knows how much. A floor of 2 grows to 4, not to all."""
    root = Root()
    for second in range(1, 4):
        root.publish(4, at_s=second, is_awaited=False)
    (limit,) = root.alert(3, at_s=3.5)
    assert limit == CongestionConfig().rate_min_msgs_s
    limits = [limit for second in range(4, 13) for limit in root.publish(2, at_s=second, is_awaited=True)]
    assert None not in limits
    assert max(limit for limit in limits if limit is not None) < 20
    assert [alerts for _, _, alerts in root.pubends.states()] == [(1, 0)]


def test_a_pubend_in_which_nothing_is_published_shows_no_limit() -> None:
    """What it was limited to when it was last used says nothing of now."""
    root = Root()
    for second in range(1, 4):
        root.publish(4, at_s=second, is_awaited=False)
    assert root.alert(3, at_s=3.5) != []
    root.publish(2, at_s=4, is_awaited=False)
    assert [limit is None for _, limit, _ in root.pubends.states()] == [False]
    root.publish(0, at_s=10, is_awaited=False)
    assert [limit for _, limit, _ in root.pubends.states()] == [None]
    root.publish(0, at_s=11, is_awaited=True)
    assert [limit is None for _, limit, _ in root.pubends.states()] == [False]
