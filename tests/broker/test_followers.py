"""Followers, streams that come, streams that are hosted: what ``followers``, ``attending``, ``pubends`` promise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from tidewire.broker.attending import Attending
from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Effect, Note
from tidewire.broker.followers import (
    ASK_BYTES,
    PATIENCE_NS,
    PATIENCE_NS_MAX,
    PAUSE_NS,
    Follower,
    Followers,
)
from tidewire.broker.pubends import IDLE_NS, Pubends, begun_key, pubend_of
from tidewire.broker.stream_events import (
    Attend,
    CatchUp,
    EndReplay,
    Keep,
    LogSeen,
    Owe,
    Paced,
    RelayReplay,
    ReleaseTicks,
    TellSilence,
)
from tidewire.congestion.config import CongestionConfig
from tidewire.dataplane.stream_news import Fallen, Lack, Replayed
from tidewire.dataplane.streams import StreamState
from tidewire.delivery import offers
from tidewire.delivery.holds import ENDED_KEY, KEY, Claimed
from tidewire.model.ids import BrokerId, Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.stream_messages import Begun, Follow, Gap, HeldFor, Holding, Progress, Replay, Stop
from tidewire.model.ticks import TICK_MAX, tick_at
from tidewire.wire.connections import Send

ANN, DATA, CONTROL = Conn(1), Conn(8), Conn(9)
NEAR, FAR = TreeId(10), TreeId(20)
PUBEND, OTHER = PubendId(70), PubendId(71)
S = 1_000_000_000


def at(seconds: float) -> Nanoseconds:
    return Nanoseconds(int(seconds * S))


# -- followers ---------------------------------------------------------------------------------------------------------


class Alone:
    """Followers of a broker, one of them Ann's, and what it was told to do."""

    def __init__(self, *, number: int = 5, request: int = 3, done: Sequence[tuple[PubendId, Tick]] = ()) -> None:
        self.followers = Followers(CongestionConfig())
        follow = Follow(request, number, b"wanted", "ann", 77, done=list(done))
        self.ann = Follower(ANN, follow, "me/ann", b"wanted", now_ns=at(0))
        list(self.followers.add(self.ann))

    def held(self, *, place: int = 100, pubend: PubendId = PUBEND, tree: TreeId = FAR) -> list[Any]:
        """Events are held for her from there on."""
        self.ann.ready[tree] = None
        self.ann.trees[tree] = HeldFor("held", 0, True, [(pubend, Tick(place))])
        return list(self.followers.begin(self.ann))

    def replayed(self, place: int, *, now_s: float = 1.0, **more: bool) -> list[Any]:
        """How far her last replay has come."""
        found = self.ann.places[PUBEND].replay
        assert found is not None
        return list(self.followers.replayed(Replayed(found, Tick(place), **more), now_ns=at(now_s)))

    def far(self, now_s: float = 1.0) -> list[Any]:
        """Ask for it far away."""
        return list(self.followers.far(self.ann, PUBEND, data=DATA, control=CONTROL, now_ns=at(now_s)))


def kinds(effects: Iterable[Any]) -> list[str]:
    return [type(one).__name__ for one in effects]


def test_it_hears_where_it_begins_before_anything_else() -> None:
    alone = Alone()
    assert alone.held(place=100) == [
        Send(ANN, Begun(3, 5, [(PUBEND, Tick(100))])),
        Owe(ANN, 5, PUBEND, Tick(100), Tick(100), Tick(100)),
        CatchUp(1, ANN, 5, PUBEND),
    ]
    assert alone.held(place=300, pubend=OTHER, tree=NEAR)[0] == Send(ANN, Begun(0, 5, [(OTHER, Tick(300))]))


def test_it_is_told_of_streams_that_may_have_something_for_it() -> None:
    alone = Alone()
    alone.ann.trees[NEAR] = HeldFor("held", 0, True, [(OTHER, Tick(100))])
    assert alone.held()[0] == Send(ANN, Begun(3, 5, [(PUBEND, Tick(100))]))
    alone.ann.ready[NEAR] = None
    begun = list(alone.followers.begin(alone.ann))
    assert begun[0] == Send(ANN, Begun(0, 5, [(OTHER, Tick(100))]))
    assert list(alone.followers.begin(alone.ann)) == []


def test_it_joins_from_where_the_stream_has_what_it_wants() -> None:
    alone = Alone()
    alone.ann.sounds[PUBEND] = Tick(250)
    assert Owe(ANN, 5, PUBEND, Tick(100), Tick(250), Tick(100)) in alone.held(place=100)


def test_what_is_not_here_is_asked_for_far_away_and_then_looked_for_here() -> None:
    """Until it has joined; how much is asked for at a time grows with how well it goes."""
    alone = Alone()
    alone.held()
    assert alone.replayed(100, is_over=True) == [(alone.ann, PUBEND)]
    relay, asked = alone.far()
    assert isinstance(relay, RelayReplay)
    assert (relay.link, relay.conn, relay.number) == (DATA, ANN, 5)
    assert asked == Send(CONTROL, Replay(FAR, PUBEND, relay.replay, Tick(100), b"wanted", ASK_BYTES), "control")
    assert alone.replayed(150) == []
    stop, near = alone.replayed(180, is_over=True)
    assert stop == Stop(FAR, relay.replay)  # there may have been no room for all of it
    assert isinstance(near, CatchUp)
    assert alone.replayed(200, is_over=True, is_joined=True) == []
    assert alone.followers.behind() == 0
    assert alone.followers.deadline_ns() is None


def test_one_who_got_nowhere_pauses() -> None:
    alone = Alone()
    alone.held()
    alone.replayed(100, is_over=True)
    alone.far(1.0)
    assert kinds(alone.replayed(100, is_over=True, now_s=1.0)) == ["Stop"]
    assert alone.followers.deadline_ns() == at(1.0) + PAUSE_NS
    assert list(alone.followers.tick(Nanoseconds(at(1.0) + PAUSE_NS - 1))) == []
    assert kinds(alone.followers.tick(Nanoseconds(at(1.0) + PAUSE_NS))) == ["CatchUp"]


def test_patience_doubles_until_something_comes() -> None:
    alone = Alone()
    alone.held()
    now_ns, waits = at(1.0), []
    for _ in range(8):
        alone.replayed(100, is_over=True)
        list(alone.followers.far(alone.ann, PUBEND, data=DATA, control=CONTROL, now_ns=now_ns))
        deadline_ns = alone.followers.deadline_ns()
        assert deadline_ns is not None
        waits.append(deadline_ns - now_ns)
        tried = list(alone.followers.tick(deadline_ns))
        assert kinds(tried) == ["EndReplay", "Stop", "CatchUp"]
        now_ns = deadline_ns
    assert waits == [min(PATIENCE_NS_MAX, PATIENCE_NS << i) for i in range(8)]
    alone.replayed(100, is_over=True)
    alone.far()
    alone.replayed(110, now_s=2.0)
    assert alone.followers.deadline_ns() == at(2.0) + PATIENCE_NS


def test_what_comes_late_counts_no_more() -> None:
    alone = Alone()
    alone.held()
    first = alone.ann.places[PUBEND].replay
    assert first is not None
    list(alone.followers.fallen(Fallen(ANN, 5, PUBEND, Tick(140))))
    assert list(alone.followers.replayed(Replayed(99, Tick(500), is_over=True), now_ns=at(1))) == []
    assert alone.ann.places[PUBEND].place == 140


def test_one_that_falls_goes_on_from_there() -> None:
    alone = Alone()
    alone.held()
    alone.replayed(200, is_over=True, is_joined=True)
    (again,) = alone.followers.fallen(Fallen(ANN, 5, PUBEND, Tick(230)))
    assert isinstance(again, CatchUp)
    assert (alone.ann.places[PUBEND].place, alone.followers.behind()) == (230, 1)
    assert list(alone.followers.fallen(Fallen(ANN, 6, PUBEND, Tick(230)))) == []


def gap(first: int, last: int) -> Send:
    return Send(ANN, Gap(5, PUBEND, Tick(first), Tick(last)))


def test_one_loss_that_comes_in_pieces_is_said_once() -> None:
    """When the follower is beyond it, or when no more of it has come for a while."""
    alone = Alone()
    alone.held()
    followers = alone.followers

    def lacks(first: int, last: int, now_s: float) -> list[Any]:
        return list(followers.lacks(Lack(ANN, 5, PUBEND, Tick(first), Tick(last)), now_ns=at(now_s)))

    assert [lacks(first, first + 9, 1.0) for first in range(110, 210, 10)] == [[]] * 10
    assert gap(110, 209) not in alone.replayed(210, is_over=False)
    assert gap(110, 209) in alone.replayed(215, is_over=False)
    assert lacks(220, 229, 2.0) == []
    assert lacks(240, 249, 2.5) == [gap(220, 229)]
    assert followers.deadline_ns() == at(3.5)
    assert gap(240, 249) not in list(followers.tick(at(3.4)))
    assert gap(240, 249) in list(followers.tick(at(3.5)))
    assert lacks(260, 269, 4.0) == []
    assert gap(260, 269) in alone.replayed(270, is_over=True, is_joined=True)


def test_one_who_has_seen_more_than_the_log_has_hears_of_a_gap() -> None:
    alone = Alone()
    alone.ann.ready[FAR] = None
    alone.ann.trees[FAR] = HeldFor("held", 0, False, [(PUBEND, Tick(300))], lost=[(PUBEND, Tick(200))])
    effects = list(alone.followers.begin(alone.ann))
    assert [one for one in effects if one == gap(200, 299)] == [gap(200, 299)]
    (owe,) = [one for one in effects if isinstance(one, Owe)]
    assert owe.place == 300


def test_one_that_goes_ends_what_is_under_way() -> None:
    """Here, and where it was asked for."""
    alone = Alone()
    alone.held()
    alone.replayed(100, is_over=True)
    relay, _ = alone.far()
    ended = list(alone.followers.remove(ANN, [5, 6]))
    assert ended == [EndReplay(relay.replay), Stop(FAR, relay.replay)]
    assert (len(alone.followers), alone.followers.get(ANN, 5)) == (0, None)
    assert alone.held() == [], "an answer about one who is gone is about nobody"


def test_who_has_a_claim_is_known() -> None:
    alone = Alone()
    assert alone.followers.by("me/ann", 76) == []
    assert alone.followers.by("me/ann", 77) == [alone.ann]


def test_progress_goes_to_the_source_by_tree_and_stream() -> None:
    alone = Alone()
    alone.held()
    alone.held(pubend=OTHER, tree=NEAR)
    taken = [(ANN, 5, PUBEND, Tick(120)), (ANN, 5, OTHER, Tick(130)), (ANN, 6, PUBEND, Tick(9))]
    assert list(alone.followers.took(taken)) == [
        Progress(FAR, PUBEND, ["me/ann"], [77], [Tick(120)]),
        Progress(NEAR, OTHER, ["me/ann"], [77], [Tick(130)]),
    ]


def test_what_is_to_be_held_knows_how_far_it_is() -> None:
    alone = Alone()
    alone.ann.given = {PUBEND: Tick(50), OTHER: Tick(60)}
    alone.held(place=100)
    places = [(PUBEND, Tick(100)), (OTHER, Tick(60))]
    assert alone.ann.holding(at(1)) == Holding("me/ann", 77, -1, places, b"wanted", claim_age_ms=1000)
    alone.ann.began_ns = at(1)
    assert alone.ann.holding(at(4)) == Holding("me/ann", 77, -1, places, b"wanted", 3000, claim_age_ms=4000)


def test_what_has_come_and_is_not_done_is_owed_again_should_it_end() -> None:
    """It goes on where it is; a store hears from where on it is not done."""
    alone = Alone(done=[(PUBEND, Tick(80))])
    assert Owe(ANN, 5, PUBEND, Tick(100), Tick(100), Tick(80)) in alone.held(place=100)
    assert alone.ann.holding(at(1)).done == [(PUBEND, Tick(80))]
    list(alone.followers.took([(ANN, 5, PUBEND, Tick(90))]))
    assert alone.ann.holding(at(1)).places == [(PUBEND, Tick(100))]
    assert alone.ann.holding(at(1)).done == [(PUBEND, Tick(90))]
    left = Holding("me/ann", 77, -1, [(PUBEND, Tick(90))], kind="left")
    assert alone.followers.leaving(ANN, [5, 6]) == [left]
    list(alone.followers.took([(ANN, 5, PUBEND, Tick(100))]))
    assert alone.ann.holding(at(1)).done == []


def test_one_that_was_ahead_of_a_younger_log_goes_back_and_hears_of_it() -> None:
    """Its clock was set back: what comes next has ticks that the follower has had."""
    alone = Alone()
    alone.ann.trees[FAR] = HeldFor("held", 0, False, [(PUBEND, Tick(100))], 0, [(PUBEND, Tick(500))])
    alone.ann.ready[FAR] = None
    assert Send(ANN, Gap(5, PUBEND, Tick(99), Tick(99), is_back=True)) in list(alone.followers.begin(alone.ann))


# -- streams that come -------------------------------------------------------------------------------------------------


def state(
    *, horizon: int | None, heard: int = 500, cached: int = 0, ignored: int = 0, tree: TreeId = FAR
) -> StreamState:
    """Of the stream from afar; ticks in milliseconds."""
    place = None if horizon is None else tick_at(horizon)
    return StreamState(PUBEND, tree, tick_at(heard), place, tick_at(cached), tick_at(ignored))


def test_a_stream_begins_where_the_way_is_right_and_only_once() -> None:
    attending = Attending(CongestionConfig())
    assert list(attending.begin(FAR, [(PUBEND, Tick(100))])) == [Attend(PUBEND, Tick(100))]
    assert list(attending.begin(FAR, [(PUBEND, Tick(200)), (OTHER, Tick(50))])) == [Attend(OTHER, Tick(50))]
    attending.seen(state(horizon=None), now_ns=at(1))
    assert list(attending.begin(FAR, [(PUBEND, Tick(300))])) == [Attend(PUBEND, Tick(300))]


def test_it_ends_when_nobody_is_owed_it() -> None:
    attending = Attending(CongestionConfig())
    attending.seen(state(horizon=400), now_ns=at(1))
    assert attending.attended() == [PUBEND]
    assert list(attending.end(lambda _tree: True)) == []
    assert list(attending.end(lambda tree: tree != FAR)) == [Attend(PUBEND, None)]
    assert (attending.attended(), attending.tree_of(PUBEND)) == ([], None)


def test_asking_is_within_the_window_and_not_twice_at_a_time() -> None:
    """gryphon §1.2: only unknown ticks inside the NACK window may be asked for."""
    config = CongestionConfig()
    attending = Attending(config)
    assert attending.window_end(PUBEND) is None
    assert attending.to_ask(PUBEND, [(Tick(1), Tick(2))], now_ns=at(1)) == []
    attending.seen(state(horizon=400), now_ns=at(1))
    end = attending.window_end(PUBEND)
    assert end is not None
    assert end >= tick_at(400 + config.nack_window_ms)
    lacking = [(Tick(tick_at(400)), Tick(tick_at(410)))]
    assert attending.to_ask(PUBEND, lacking, now_ns=at(1)) == lacking
    assert attending.to_ask(PUBEND, lacking, now_ns=at(1.001)) == []
    assert attending.to_ask(PUBEND, lacking, now_ns=at(30)) == lacking


def test_a_replay_is_from_here_only_if_all_of_it_is_here() -> None:
    attending = Attending(CongestionConfig())
    attending.seen(state(horizon=400, cached=200), now_ns=at(1))
    places = (199, 200, 499, 500)
    assert [attending.is_cached(PUBEND, tick_at(place)) for place in places] == [False, True, True, False]
    assert not attending.is_cached(OTHER, tick_at(300))


def test_who_is_ahead_of_us() -> None:
    attending = Attending(CongestionConfig())
    attending.seen(state(horizon=400), now_ns=at(1))
    heads = {PUBEND: tick_at(401), OTHER: tick_at(9)}
    assert attending.ahead(heads) == {PUBEND: tick_at(401)}
    assert attending.ahead({PUBEND: tick_at(400)}) == {}


# -- streams that are hosted -------------------------------------------------------------------------------------------


class Hosting:
    """A broker with one pubend of its own; ``heard_s`` is the time of its stream."""

    def __init__(self, kept: list[tuple[bytes, bytes]] | None = None, **settings: Any) -> None:
        self.pubend = pubend_of(BrokerId("A"), 0)
        self.pubends = Pubends(BrokerConfig(broker=BrokerId("A"), store="disk", **settings))
        self.pubends.begin([self.state(events=0)], kept or [], unix_offset_ns=0, now_ns=at(0))
        self.log_begins(Tick(1))

    def state(self, *, heard_s: float = 100.0, released_s: float = 0.0, events: int = 1) -> StreamState:
        heard = tick_at(int(heard_s * 1000))
        released = tick_at(int(released_s * 1000))
        return StreamState(self.pubend, None, heard, heard, Tick(0), Tick(0), events, released=released)

    def log_begins(self, first: Tick) -> None:
        """The first event that is in the log; 0: none is."""
        assert self.pubends.log_seen(LogSeen("none", "", 0, [(self.pubend, first)])) == []

    def see(self, now_s: float, **more: Any) -> None:
        self.pubends.seen(self.state(**more), now_ns=at(now_s))

    def due(self, now_s: float) -> list[Any]:
        return list(self.pubends.due(now_ns=at(now_s)))

    def released(self, now_s: float) -> list[Tick]:
        return [one.tick for one in self.due(now_s) if isinstance(one, ReleaseTicks)]


def test_a_pubend_is_the_same_in_every_life() -> None:
    assert pubend_of(BrokerId("A"), 0) == pubend_of(BrokerId("A"), 0)
    ids = [pubend_of(BrokerId(name), number) for name in "AB" for number in range(3)]
    assert len(ids) == len(set(ids))


def test_silence_is_told_of_what_was_ever_used_and_often_while_events_flow() -> None:
    """gryphon §1.1, §2.2: every t_silence; sooner while some are not sent what others are."""
    host = Hosting()
    assert [one for now in range(10) for one in host.due(now) if isinstance(one, TellSilence)] == []
    told: list[float] = []
    for step in range(200):
        now_s = 10 + step * 0.05
        if step < 60:
            host.see(now_s, events=2 + step)
        told += [now_s for one in host.due(now_s) if isinstance(one, TellSilence)]
    early = [time for time in told if time < 13]
    late = [time for time in told if time > 13 + IDLE_NS / S]
    assert len(early) >= 25
    assert all(0.99 < b - a < 1.06 for a, b in pairwise(late))
    assert len(late) >= 4


def test_what_nobody_is_owed_goes_with_its_time() -> None:
    host = Hosting(retain_s=60.0)
    host.see(1, heard_s=100.0)
    assert host.released(2) == [tick_at(40_000)]
    host.see(3, heard_s=100.0, released_s=40.0)
    assert host.released(5) == []


def test_time_passes_for_a_stream_that_stands_still() -> None:
    """A full disk takes nothing more: what is old goes all the same, or it would be full for ever."""
    host = Hosting(retain_s=60.0)
    host.see(1, heard_s=100.0)
    assert host.released(130) == [tick_at(70_000)]
    assert host.released(500) == [tick_at(100_000)]


def test_where_no_event_is_nothing_is_released() -> None:
    """Else whoever comes back with an old position would be told of a gap where there was silence."""
    host = Hosting(retain_s=60.0)
    host.see(1, heard_s=100.0)
    host.log_begins(Tick(0))
    assert host.released(500) == []
    host.log_begins(tick_at(90_000))
    assert host.released(510) == [tick_at(100_000)]


def claim(host: Hosting, *holdings: Holding, now_ms: int = 100_000) -> tuple[int | None, list[Claimed], list[Effect]]:
    return host.pubends.claim(list(holdings), now_ms=now_ms, may_have=lambda _: True)


@pytest.mark.parametrize(("release", "expected"), [("acknowledged", 20_000), ("retention", 40_000)])
def test_a_follower_holds_back_release_if_the_configuration_says_so(release: str, expected: int) -> None:
    host = Hosting(retain_s=60.0, release=release)
    host.see(1, heard_s=100.0)
    claim(host, Holding("ann", 1, 20_000))
    assert host.released(2) == [tick_at(expected)]
    assert host.pubends.progress(["ann"], [1], host.pubend, [tick_at(70_000)]) == []
    host.see(3, heard_s=100.0, released_s=expected / 1000)
    assert host.released(5) == ([tick_at(40_000)] if release == "acknowledged" else [])


def test_what_is_durable_and_not_told_is_not_released_for_bytes() -> None:
    """The first event that is still there may be one that nobody has been told of yet."""
    host = Hosting(retain_bytes=1 << 30)
    host.pubends.log_seen(LogSeen("none", "", 1 << 31, [(host.pubend, tick_at(100_001))]))
    host.see(2, heard_s=100.0)
    assert host.released(2) == []


BEGUN = [(begun_key(pubend_of(BrokerId("A"), 0)), tick_at(50_000).to_bytes(8, "little"))]


def told(host: Hosting, name: str, place: int, *, is_joined: bool) -> tuple[HeldFor, list[str]]:
    """What one hears that comes at 300 s, and what is noted."""
    joined = [host.pubend] if is_joined else []
    holding = Holding(name, 1, -1, [(host.pubend, Tick(place))], joined=joined)
    _, (one,), effects = claim(host, holding, now_ms=300_000)
    return one.answer, [effect.what for effect in effects if isinstance(effect, Note)]


def test_a_follower_that_has_had_more_than_the_log_tells_on_it() -> None:
    """A store that was emptied begins later than its followers are; an older copy ends before. Each is said once."""
    host = Hosting(BEGUN)
    pubend = host.pubend
    at_once = told(host, "ann", tick_at(60_000), is_joined=True)
    assert at_once == (HeldFor("held", 0, True, [(pubend, tick_at(60_000))], 1), [])
    assert host.pubends.losses == []
    assert told(host, "bob", tick_at(40_000), is_joined=True)[1] == ["log younger than a follower"]
    assert told(host, "cyd", tick_at(30_000), is_joined=True)[1] == []
    (loss,) = host.pubends.losses
    assert (loss.first, loss.last, loss.why) == (tick_at(30_000), tick_at(50_000) - 1, "younger")
    assert loss.found_ns == 300 * S
    answer, _ = told(host, "dan", tick_at(200_000), is_joined=True)
    assert (answer.lost, answer.places) == ([(pubend, tick_at(200_000))], [(pubend, tick_at(300_000))])
    assert host.pubends.losses[0].last == tick_at(300_000) - 1


def test_what_only_a_client_says_is_told_as_its_word() -> None:
    """A place before the log begins says nothing of the log; one ahead of it, that a client says so."""
    host = Hosting(BEGUN)
    for name, place in (("ann", 1), ("bob", tick_at(40_000))):
        assert told(host, name, place, is_joined=False)[1] == []
    assert host.pubends.losses == []
    assert told(host, "cyd", tick_at(200_000), is_joined=False)[1] == ["follower ahead of the log"]
    assert told(host, "dan", TICK_MAX, is_joined=False)[1] == []
    assert told(host, "dan", TICK_MAX, is_joined=False)[1] == []
    (loss,) = host.pubends.losses
    assert (loss.why, loss.names, loss.last) == ("said", 2, tick_at(300_000) - 1)


def test_progress_says_who_belongs_to_somebody_else() -> None:
    host = Hosting()
    claim(host, Holding("ann", 1, -1), Holding("bob", 1, -1))
    claim(host, Holding("bob", 2, -1))
    assert host.pubends.progress(["ann", "bob"], [1, 1], host.pubend, [Tick(5), Tick(5)]) == [1]


def test_what_is_held_is_kept_and_found_in_the_next_life() -> None:
    host = Hosting()
    number, _, (keep,) = claim(host, Holding("ann", 1, 5000))
    assert isinstance(keep, Keep)
    assert keep.number == number
    new, (kept_offers,) = host.pubends.offered([b"filter"])
    assert isinstance(kept_offers, Keep)
    assert (new, host.pubends.offered([b"filter"])) == ([b"filter"], ([], []))
    kept = [(key, value) for key, value in (*keep.items, *kept_offers.items) if value is not None]
    assert dict(kept_offers.items).keys() == {offers.KEY}
    later = Hosting(kept)
    assert later.pubends.holds.least(later.pubend) == tick_at(5000)
    assert later.pubends.offers.filters == [b"filter"]
    _, _, (gone,) = claim(later, Holding("ann", 0, -1, age_ms=0, kind="end"))
    assert isinstance(gone, Keep)
    assert [(key, value is None) for key, value in gone.items] == [(KEY + b"ann", True), (ENDED_KEY + b"ann", False)]


def test_while_nothing_becomes_durable_only_known_names_are_held() -> None:
    """Nothing is published then either. What is new is told by others when there is room again."""
    host = Hosting()
    claim(host, Holding("ann", 1, -1))
    host.pubends.log_seen(LogSeen("full", "no space", 0, []))
    number, claimed, _ = claim(host, Holding("ann", 2, -1), Holding("bob", 1, -1))
    assert number is None
    assert [one.answer.state for one in claimed] == ["held", "full"]
    host.pubends.log_seen(LogSeen("none", "", 0, []))
    assert claim(host, Holding("bob", 1, -1))[0] is not None


def test_a_log_that_stops_is_told_to_people_and_publishers_once() -> None:
    host = Hosting()

    def seen(trouble: str) -> list[Any]:
        return [
            one.events_s if isinstance(one, Paced) else one.what
            for one in host.pubends.log_seen(LogSeen(trouble, "why", 5, []))
            if isinstance(one, Paced | Note)
        ]

    assert seen("full") == ["log full", 0.0]
    assert seen("full") == []
    found = host.pubends.pace_of(6)
    assert found is not None
    assert found[:2] == (host.pubend, 0.0)
    assert seen("none") == ["log goes on", None]
    assert seen("behind") == []
    assert seen("failed") == ["log failed", 0.0]
