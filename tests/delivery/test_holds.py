"""For whom events are held, and what may be in a log: what ``holds.py`` and ``offers.py`` promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidewire.delivery.holds import KEY, Holds
from tidewire.delivery.offers import OFFERS_MAX, Offers
from tidewire.model.ids import PubendId, Tick
from tidewire.model.messages import ANYTHING
from tidewire.model.stream_messages import HeldAt, Holding
from tidewire.model.ticks import tick_at

ONE, TWO = PubendId(1), PubendId(2)
HEADS = {ONE: (tick_at(100), tick_at(500)), TWO: (tick_at(0), tick_at(600))}


def places(holds: Holds, holding: Holding, now_ms: int = 1000) -> dict[int, int]:
    """Where a claim puts it."""
    return {at.pubend: at.place for at in holds.claim(holding, HEADS, now_ms=now_ms).places}


def kept(holds: Holds) -> dict[bytes, bytes | None]:
    """What has changed."""
    return dict(holds.changed())


def again(*given: dict[bytes, bytes | None]) -> Holds:
    """What a later life finds of what was kept, in this order."""
    found: dict[bytes, bytes | None] = {}
    for one in given:
        found |= one
    return Holds((key, value) for key, value in found.items() if value is not None)


def test_a_new_follower_begins_now_at_a_time_or_with_what_is_kept() -> None:
    """gryphon §1.3: a subscription starts at a tick that is fixed where it is installed."""
    assert places(Holds(), Holding("a", 1, -1)) == {ONE: tick_at(500), TWO: tick_at(600)}
    assert places(Holds(), Holding("a", 1, 300)) == {ONE: tick_at(300), TWO: tick_at(300)}
    assert places(Holds(), Holding("a", 1, 0)) == {ONE: tick_at(100), TWO: tick_at(0)}
    assert places(Holds(), Holding("a", 1, 9999)) == {ONE: tick_at(500), TWO: tick_at(600)}


def test_one_that_is_known_goes_on_where_it_was() -> None:
    holds = Holds()
    holds.claim(Holding("a", 1, -1), HEADS, now_ms=1000)
    assert holds.progress("a", 1, ONE, Tick(tick_at(505)))
    answer = holds.claim(Holding("a", 2, 0), HEADS, now_ms=2000)
    assert answer.superseded == 1
    assert answer.places == [
        HeldAt(ONE, Tick(tick_at(505)), 1000, is_new=False),
        HeldAt(TWO, Tick(tick_at(600)), 1000, is_new=False),
    ]
    assert holds.claim(Holding("a", 2, 0), HEADS, now_ms=2000).superseded is None


def test_a_place_that_the_follower_names_itself_is_better() -> None:
    holds = Holds()
    holds.claim(Holding("a", 1, -1), HEADS, now_ms=1000)
    answer = holds.claim(Holding("a", 1, -1, [(ONE, Tick(7))]), HEADS, now_ms=1000)
    assert answer.places[0] == HeldAt(ONE, Tick(7), 1000, is_new=False)
    assert holds.least(ONE) == 7


def test_an_older_claim_counts_no_more() -> None:
    holds = Holds()
    holds.claim(Holding("a", 1, -1), HEADS, now_ms=1000)
    holds.claim(Holding("a", 2, -1), HEADS, now_ms=1000)
    assert not holds.progress("a", 1, ONE, Tick(tick_at(900)))
    assert holds.least(ONE) == tick_at(500)
    assert holds.progress("nobody", 1, ONE, Tick(5))


def test_progress_never_goes_back() -> None:
    holds = Holds()
    holds.claim(Holding("a", 1, 0), HEADS, now_ms=1000)
    kept(holds)
    holds.progress("a", 1, ONE, Tick(tick_at(300)))
    holds.progress("a", 1, ONE, Tick(tick_at(200)))
    assert holds.least(ONE) == tick_at(300)
    assert list(kept(holds)) == [KEY + b"a"]
    holds.progress("a", 1, ONE, Tick(tick_at(300)))
    assert kept(holds) == {}


def test_the_slowest_says_what_is_needed() -> None:
    holds = Holds()
    assert holds.least(ONE) is None
    for name, since in (("a", 300), ("b", 200), ("c", 400)):
        holds.claim(Holding(name, 1, since), HEADS, now_ms=1000)
    assert holds.least(ONE) == tick_at(200)
    holds.release("b")
    assert holds.least(ONE) == tick_at(300)
    assert (len(holds), holds.names()) == (2, ["a", "c"])


names = st.sampled_from(["a", "b", "größe"])
steps = st.one_of(
    st.tuples(st.just("claim"), names, st.integers(0, 3), st.sampled_from([-1, 0, 300])),
    st.tuples(st.just("progress"), names, st.integers(0, 3), st.integers(0, 700)),
    st.tuples(st.just("release"), names, st.just(0), st.just(0)),
    st.tuples(st.just("restart"), st.just(""), st.just(0), st.just(0)),
)


@given(st.lists(steps, max_size=25))
def test_it_outlives_the_broker(told: list[tuple[str, str, int, int]]) -> None:
    """What was kept, and nothing else, is known in the next life; between two of them nothing changes."""
    holds, on_disk = Holds(), dict[bytes, bytes | None]()
    for what, name, claim, value in told:
        if what == "claim":
            holds.claim(Holding(name, claim, value), HEADS, now_ms=1000)
        elif what == "progress":
            holds.progress(name, claim, ONE, Tick(tick_at(value)))
        elif what == "release":
            holds.release(name)
        on_disk |= kept(holds)
        later = again(on_disk)
        assert sorted(later.names()) == sorted(holds.names())
        assert [later.least(one) for one in HEADS] == [holds.least(one) for one in HEADS]
        if what == "restart":
            holds = later


def test_an_offer_is_new_once_and_outlives_the_broker() -> None:
    offers = Offers()
    assert offers.add([b"a", b"b", b"a"]) == [b"a", b"b"]
    assert offers.add([b"b", b"c"]) == [b"c"]
    later = Offers(offers.kept())
    assert later.filters == [b"a", b"b", b"c"]
    assert later.add([b"a"]) == []


def test_with_too_many_offers_it_is_anything() -> None:
    offers = Offers()
    for i in range(OFFERS_MAX):
        assert offers.add([b"%d" % i]) == [b"%d" % i]
    assert offers.add([b"one more"]) == [ANYTHING]
    assert offers.add([b"and another"]) == []
    assert Offers(offers.kept()).add([b"later"]) == []
    assert Offers().add([b"a", ANYTHING]) == [ANYTHING]
