"""For whom events are held, and what may be in a log: what ``holds.py`` and ``offers.py`` promise."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tidewire.delivery.holds import ENDED_KEY, ENDED_MAX, ENDED_MS, KEY, LATE_MS, Claimed, Holds
from tidewire.delivery.offers import OFFERS_MAX, Offers
from tidewire.model.ids import PubendId, Tick
from tidewire.model.messages import ANYTHING
from tidewire.model.stream_messages import HeldFor, Holding
from tidewire.model.ticks import tick_at

ONE, TWO = PubendId(1), PubendId(2)
ENDS = {ONE: (Tick(0), tick_at(100), tick_at(500)), TWO: (Tick(0), tick_at(0), tick_at(600))}


def any_of_it(_: bytes) -> bool:
    return True


def claim(
    holds: Holds, holding: Holding, *, now_ms: int = 1000, may_have: Callable[[bytes], bool] = any_of_it
) -> Claimed:
    """A claim."""
    return holds.claim(holding, ENDS, now_ms=now_ms, may_have=may_have)


def places(holds: Holds, holding: Holding, *, now_ms: int = 1000) -> dict[int, int]:
    """Where a claim puts it."""
    return dict(claim(holds, holding, now_ms=now_ms).answer.places)


def end(holds: Holds, name: str, *, now_ms: int, origin: int = 0) -> Claimed:
    """It ends."""
    return claim(holds, Holding(name, 0, -1, kind="end", origin=origin), now_ms=now_ms)


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
    claim(holds, Holding("a", 1, -1))
    assert holds.progress("a", 1, ONE, Tick(tick_at(505)))
    answer = claim(holds, Holding("a", 2, 0), now_ms=2000)
    assert answer.superseded == 1
    assert answer.answer == HeldFor("held", 1000, False, [(ONE, tick_at(505)), (TWO, tick_at(600))], 1)
    assert claim(holds, Holding("a", 2, 0), now_ms=2000).superseded is None


def test_a_place_that_the_follower_names_itself_is_better() -> None:
    holds = Holds()
    claim(holds, Holding("a", 1, -1))
    assert places(holds, Holding("a", 1, -1, [(ONE, Tick(7))]))[ONE] == 7
    assert holds.least(ONE) == 7


def test_what_has_come_and_is_not_done_is_held_on() -> None:
    """One who follows goes on where it is; should it end, all that it was not done with is there."""
    holds = Holds()
    claim(holds, Holding("a", 1, -1))
    assert places(holds, Holding("a", 1, -1, [(ONE, Tick(tick_at(400)))]))[ONE] == tick_at(400)
    not_done = Holding("a", 1, -1, [(ONE, Tick(tick_at(450)))], done=[(ONE, Tick(tick_at(420)))])
    assert places(holds, not_done)[ONE] == tick_at(450)
    assert holds.least(ONE) == tick_at(420)
    assert places(holds, Holding("a", 2, -1))[ONE] == tick_at(420)
    assert holds.progress("a", 2, ONE, Tick(tick_at(440)))
    assert places(holds, Holding("a", 2, -1, not_done.places, done=not_done.done))[ONE] == tick_at(450)
    assert holds.least(ONE) == tick_at(440)  # what is known to be done stays so


def test_one_that_is_ahead_of_a_stream_goes_on_now() -> None:
    """The log is younger than what it has seen; and so is the clock, it may be."""
    for ahead_ms, first in ((700, 700), (5000, 5000)):
        claimed = claim(Holds(), Holding("a", 1, -1, [(ONE, Tick(tick_at(ahead_ms)))]))
        assert dict(claimed.answer.places)[ONE] == tick_at(1000)
        assert claimed.answer.lost == [(ONE, tick_at(first))]


def test_how_far_one_was_who_has_left_is_known_later() -> None:
    """Unless somebody else has had the name since; other streams are not touched."""
    holds = Holds()
    claim(holds, Holding("a", 1, 300))
    left = Holding("a", 1, -1, [(ONE, Tick(tick_at(400))), (PubendId(9), Tick(5))], kind="left")
    assert claim(holds, left).answer.state == "held"
    assert places(holds, Holding("a", 2, -1)) == {ONE: tick_at(400), TWO: tick_at(300)}
    claim(holds, Holding("a", 1, -1, [(ONE, Tick(tick_at(450)))], kind="left"))
    claim(holds, Holding("b", 1, -1, [(ONE, Tick(tick_at(450)))], kind="left"))
    assert (holds.names(), places(holds, Holding("a", 2, -1))[ONE]) == (["a"], tick_at(400))


def test_who_names_a_time_hears_what_is_gone_since_then() -> None:
    """Who wants the earliest wants what there is."""
    assert places(Holds(), Holding("a", 1, 50))[ONE] == tick_at(50)
    assert places(Holds(), Holding("a", 1, 0))[ONE] == tick_at(100)


def test_an_older_claim_counts_no_more() -> None:
    holds = Holds()
    claim(holds, Holding("a", 1, -1))
    claim(holds, Holding("a", 2, -1))
    assert not holds.progress("a", 1, ONE, Tick(tick_at(900)))
    assert holds.least(ONE) == tick_at(500)
    assert holds.progress("nobody", 1, ONE, Tick(5))


def test_of_two_that_could_not_hear_of_each_other_the_one_has_it_that_came_last() -> None:
    """Each is told to the other's store when the cut has healed: one of them goes on, and not neither."""
    first, last = Holding("a", 1, -1, claim_age_ms=9000), Holding("a", 2, -1, claim_age_ms=8000)
    here, there = Holds(), Holds()
    claim(here, first, now_ms=10_000)
    claim(there, last, now_ms=10_000)
    assert claim(there, first, now_ms=10_000) == Claimed(HeldFor("taken"))
    assert claim(here, last, now_ms=10_000).superseded == 1
    for holds in here, there:
        assert holds.progress("a", 2, ONE, tick_at(700))
        assert not holds.progress("a", 1, ONE, tick_at(700))


def test_who_comes_now_has_the_name_also_after_the_clock_was_set_back() -> None:
    holds = Holds()
    claim(holds, Holding("a", 1, -1), now_ms=10_000)
    assert claim(holds, Holding("a", 2, -1), now_ms=9000).superseded == 1


def test_progress_never_goes_back() -> None:
    holds = Holds()
    claim(holds, Holding("a", 1, 0))
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
        claim(holds, Holding(name, 1, since))
    assert holds.least(ONE) == tick_at(200)
    end(holds, "b", now_ms=1000)
    assert holds.least(ONE) == tick_at(300)
    assert (len(holds), holds.names()) == (2, ["a", "c"])


# -- other stores ------------------------------------------------------------------------------------------------------


def told(one: Holds, other: Holds, *, now_ms: int) -> list[Claimed]:
    """One store tells another what it knows."""
    return [claim(other, copy, now_ms=now_ms) for copy in one.copies(one.known(), now_ms=now_ms)]


def test_a_store_that_hears_late_of_a_name_holds_what_came_since_it_began() -> None:
    """gryphon §1.3: whatever is published after it has begun it is owed, wherever."""
    first, later = Holds(), Holds()
    claim(first, Holding("a", 7, -1), now_ms=LATE_MS + 3450)
    (copy,) = first.copies(["a"], now_ms=LATE_MS + 4000)
    ends = {ONE: (Tick(0), Tick(0), tick_at(90_000))}
    copied = later.claim(copy, ends, now_ms=LATE_MS + 4000, may_have=any_of_it)
    assert copied.answer == HeldFor("held", 550, True, [(ONE, tick_at(3450))], 7)
    assert later.progress("a", 7, ONE, Tick(tick_at(3500)))


def test_what_was_released_since_it_began_is_a_gap_and_what_was_before_is_not() -> None:
    released, now_ms = {ONE: (Tick(0), tick_at(700), tick_at(9000))}, LATE_MS + 1000
    for since, age_ms, place in ((-1, 100, 900), (-1, 500, 500), (0, 200, 700), (0, 500, 500)):
        holds = Holds()
        copy = Holding("a", 1, since, age_ms=age_ms, kind="copy")
        holds.claim(copy, released, now_ms=now_ms, may_have=any_of_it)
        assert holds.least(ONE) == tick_at(place), (since, age_ms)


def test_at_a_store_that_began_later_it_begins_where_that_did() -> None:
    """Before that there was nothing: it is no gap."""
    holds, ends = Holds(), {ONE: (tick_at(700), Tick(0), tick_at(9000))}
    holds.claim(Holding("a", 1, -1, age_ms=500, kind="copy"), ends, now_ms=LATE_MS + 1000, may_have=any_of_it)
    assert holds.least(ONE) == tick_at(700)


def test_one_that_came_as_new_goes_back_to_where_it_began_unless_it_has_gone_on() -> None:
    for has_gone_on in (False, True):
        holds = Holds()
        claim(holds, Holding("a", 1, -1), now_ms=LATE_MS + 1000)
        if has_gone_on:
            holds.progress("a", 1, ONE, Tick(tick_at(501)))
        claim(holds, Holding("a", 1, -1, age_ms=600), now_ms=LATE_MS + 1000)
        assert holds.least(ONE) == tick_at(501 if has_gone_on else 400)
        assert holds.least(TWO) == tick_at(400)


def test_two_stores_come_to_know_the_same_and_then_have_nothing_to_tell() -> None:
    """Else they would tell each other for ever."""
    left, right = Holds(), Holds()
    claim(left, Holding("a", 9, -1), now_ms=10_000)
    claim(right, Holding("a", 5, -1), now_ms=10_500)
    now_ms = 11_000
    while (left.news() or right.news()) and now_ms < 100_000:
        told(left, right, now_ms=now_ms)
        told(right, left, now_ms=now_ms)
        now_ms += 2000
    assert now_ms < 20_000
    ages = [one.copies(["a"], now_ms=now_ms)[0].age_ms for one in (left, right)]
    assert ages == [now_ms - 10_000] * 2


def test_what_has_ended_is_not_brought_back_by_a_store_that_did_not_hear_of_it() -> None:
    one, other = Holds(), Holds()
    claim(one, Holding("a", 1, -1), now_ms=10_000)
    told(one, other, now_ms=11_000)
    assert end(one, "a", now_ms=20_000) == Claimed(HeldFor("ended", origin=1), 1)
    assert [answer.answer.state for answer in told(other, one, now_ms=21_000)] == ["ended"]
    assert one.names() == []
    assert [answer.superseded for answer in told(one, other, now_ms=22_000)] == [1]
    assert (other.names(), other.is_ended("a")) == ([], True)
    assert not other.progress("a", 1, ONE, Tick(5))


def test_a_name_that_has_ended_may_begin_anew() -> None:
    one, other = Holds(), Holds()
    claim(one, Holding("a", 1, -1), now_ms=10_000)
    told(one, other, now_ms=11_000)
    end(one, "a", now_ms=20_000)
    assert claim(one, Holding("a", 2, -1), now_ms=20_000).answer.is_new
    told(one, other, now_ms=30_000)
    assert (one.names(), other.names()) == (["a"], ["a"])
    assert not other.progress("a", 1, ONE, Tick(5))
    assert other.progress("a", 2, ONE, Tick(5))


def test_a_session_that_was_there_before_it_ended_hears_that() -> None:
    holds = Holds()
    claim(holds, Holding("a", 1, -1), now_ms=10_000)
    end(holds, "a", now_ms=20_000)
    assert claim(holds, Holding("a", 1, -1, age_ms=15_000), now_ms=21_000).answer.state == "ended"
    assert claim(holds, Holding("a", 2, -1), now_ms=21_000).answer.state == "held"


def test_who_begins_anew_begins_anew_also_where_the_end_was_not_heard_of() -> None:
    holds = Holds()
    claim(holds, Holding("a", 1, 0), now_ms=10_000)
    answer = claim(holds, Holding("a", 2, -1, origin=2, ended=1), now_ms=11_000)
    assert answer.answer == HeldFor("held", 0, True, [(ONE, tick_at(500)), (TWO, tick_at(600))], 2)
    claim(holds, Holding("a", 2, -1, origin=2, ended=1), now_ms=12_000)
    assert holds.progress("a", 2, ONE, tick_at(501))


def test_a_store_that_knows_another_of_this_name_keeps_its_place_and_hears_which_it_is() -> None:
    """So that the end of the other, when it hears of it, does not end this one."""
    holds = Holds()
    claim(holds, Holding("a", 1, 300), now_ms=10_000)
    assert claim(holds, Holding("a", 2, -1, age_ms=50, origin=9), now_ms=11_000).answer.origin == 9
    end(holds, "a", now_ms=12_000, origin=1)
    assert (holds.least(ONE), holds.is_ended("a")) == (tick_at(300), False)
    assert claim(holds, Holding("a", 3, -1, age_ms=5000, origin=1), now_ms=13_000).answer.origin == 9
    assert claim(holds, Holding("a", 9, -1, age_ms=5000, origin=1), now_ms=13_000).answer.state == "ended"
    holds.news()
    copy = Holding("a", 3, -1, age_ms=5000, origin=1, kind="copy")
    assert claim(holds, copy, now_ms=13_000).answer == HeldFor("held", origin=9)  # the other hears of both at once:
    assert holds.news() == ["a"]


def _begun_anew(*, now_ms: int) -> tuple[Holds, Holds]:
    """A store where a name has ended and begun anew, and one that was out of reach and knows only the one before."""
    here, there = Holds(), Holds()
    for one in here, there:
        claim(one, Holding("a", 1, 300), now_ms=1000)
    end(here, "a", now_ms=now_ms)
    claim(here, Holding("a", 2, -1), now_ms=now_ms)
    return here, there


def test_who_came_after_a_name_had_begun_anew_goes_on_as_the_next() -> None:
    """It follows where the end was not heard of: that end was before it, and does not end it."""
    here, there = _begun_anew(now_ms=10_000)
    assert claim(there, Holding("a", 3, -1), now_ms=12_000).answer.origin == 1
    there.progress("a", 3, ONE, tick_at(400))
    there = again(kept(there))
    (claimed,) = told(here, there, now_ms=14_000)
    assert (claimed.answer.state, claimed.answer.origin, claimed.superseded) == ("held", 2, None)
    assert there.progress("a", 3, ONE, tick_at(450))
    assert there.least(ONE) == tick_at(450)
    assert told(there, here, now_ms=14_000)[0].superseded is None
    assert (here.names(), there.names()) == (["a"], ["a"])
    end(there, "a", now_ms=15_000, origin=1)
    assert there.names() == ["a"]
    assert end(there, "a", now_ms=15_000).superseded == 3


def test_who_followed_before_a_name_began_anew_hears_of_the_end() -> None:
    here, there = _begun_anew(now_ms=10_000)
    claim(there, Holding("a", 3, -1), now_ms=9000)
    (claimed,) = told(here, there, now_ms=14_000)
    assert (claimed.answer.origin, claimed.superseded) == (2, 3)
    assert not there.progress("a", 3, ONE, tick_at(450))


def test_who_came_after_the_end_at_another_store_goes_on_as_the_next() -> None:
    """It followed where the end was not heard of yet. Who was there before the end is over."""
    for claim_age_ms, superseded in ((3000, None), (5000, 3)):
        here, there = Holds(), Holds()
        claim(here, Holding("a", 1, 300), now_ms=1000)
        told(here, there, now_ms=2000)
        end(here, "a", now_ms=10_000)
        claim(there, Holding("a", 3, -1, age_ms=13_000, origin=1, claim_age_ms=claim_age_ms), now_ms=14_000)
        there.progress("a", 3, ONE, tick_at(400))
        assert [one.superseded for one in told(here, again(kept(there)), now_ms=15_000)] == [superseded]
        told(here, there, now_ms=15_000)
        assert (there.is_ended("a"), there.progress("a", 3, ONE, tick_at(450))) == (superseded == 3, superseded is None)
        if superseded is None:
            assert (there.least(ONE), there.copies(["a"], now_ms=15_000)[0].origin) == (tick_at(450), 3)
            assert told(there, here, now_ms=16_000)[0].answer.state == "held"
        assert there.copies(["a"], now_ms=16_000)[0].ended_age_ms == (6000 if superseded is None else -1)


def test_a_session_that_brings_its_name_to_a_store_brings_how_old_it_is_itself() -> None:
    for claim_age_ms, is_over in ((3000, False), (5000, True)):
        holds = Holds()
        claim(holds, Holding("a", 3, -1, age_ms=13_000, origin=1, claim_age_ms=claim_age_ms), now_ms=14_000)
        claim(holds, Holding("a", 0, -1, age_ms=4500, kind="end", origin=1), now_ms=14_500)
        assert holds.is_ended("a") == is_over


def test_one_that_has_not_begun_yet_begins_anew_also_where_it_was_taken_for_the_next() -> None:
    """It came by a name that it wants to begin with, not to go on from where another was that has ended."""
    holds = Holds()
    claim(holds, Holding("a", 1, 300), now_ms=10_000)
    claim(holds, Holding("a", 2, -1), now_ms=12_000)
    claim(holds, Holding("a", 0, -1, age_ms=1000, kind="end", origin=1), now_ms=12_500)
    assert holds.least(ONE) == tick_at(300)
    goes_on = Holding("a", 2, -1, origin=2, ended=1, ended_age_ms=1100)
    assert dict(claim(holds, goes_on, now_ms=12_600).answer.places)[ONE] == tick_at(300)
    anew = Holding("a", 2, -1, origin=2, ended=1)
    assert dict(claim(holds, anew, now_ms=12_700).answer.places)[ONE] == tick_at(500)
    holds.progress("a", 2, ONE, tick_at(700))
    claim(holds, anew, now_ms=13_000)
    assert holds.least(ONE) == tick_at(700)  # once


def test_the_answer_says_how_long_ago_it_ended() -> None:
    one, other = Holds(), Holds()
    claim(one, Holding("a", 1, -1), now_ms=10_000)
    end(one, "a", now_ms=20_000)
    claimed = claim(one, Holding("a", 1, -1, age_ms=15_000, origin=1), now_ms=21_000)
    assert claimed.answer == HeldFor("ended", 1000, origin=1)
    told(one, other, now_ms=22_000)
    assert [(copy.origin, copy.age_ms) for copy in other.copies(["a"], now_ms=23_000)] == [(1, 3000)]
    claim(one, Holding("a", 2, -1), now_ms=24_000)
    end(one, "a", now_ms=25_000)  # also for one who came between the two ends this was the end
    claimed = claim(one, Holding("a", 2, -1, age_ms=15_000, origin=1), now_ms=26_000)
    assert claimed.answer == HeldFor("ended", 1000, origin=1)


def test_a_store_that_tells_of_the_one_before_hears_of_the_end_with_the_next() -> None:
    here, there = _begun_anew(now_ms=10_000)
    claim(there, Holding("a", 3, -1), now_ms=12_000)
    here.news()
    (claimed,) = told(there, here, now_ms=13_000)
    assert (claimed.answer.state, claimed.answer.origin, here.news()) == ("held", 2, ["a"])
    assert here.names() == ["a"]


def test_only_the_last_that_had_a_name_are_remembered() -> None:
    holds = Holds()
    for number in range(1, ENDED_MAX + 3):
        claim(holds, Holding("a", number, -1), now_ms=number)
        end(holds, "a", now_ms=number)
    copies = again(kept(holds)).copies(["a"], now_ms=99)
    assert [copy.origin for copy in copies] == list(range(3, ENDED_MAX + 3))


def test_that_a_name_has_ended_is_remembered_for_a_while() -> None:
    holds = Holds()
    claim(holds, Holding("a", 1, -1), now_ms=900)
    end(holds, "a", now_ms=1000)
    kept(holds)
    holds.forget_ended(now_ms=1000 + ENDED_MS)
    assert holds.is_ended("a")
    holds.forget_ended(now_ms=1001 + ENDED_MS)
    assert not holds.is_ended("a")
    assert kept(holds) == {ENDED_KEY + b"a": None}


# -- what cannot have been published -----------------------------------------------------------------------------------


def test_one_who_can_want_nothing_here_keeps_nothing_back() -> None:
    holds = Holds()
    claim(holds, Holding("a", 1, 0, wanted=b"shares"), may_have=lambda wanted: wanted == b"quakes")
    assert holds.least(ONE) is None
    holds.woken(ENDS, lambda _: True)
    assert (holds.least(ONE), holds.least(TWO)) == (tick_at(500), tick_at(600))


def test_it_is_known_in_the_next_life_who_can_want_nothing() -> None:
    holds = Holds()
    claim(holds, Holding("a", 1, 0, wanted=b"shares"))
    later = again(kept(holds))
    assert later.least(ONE) == tick_at(100)
    later.settle(lambda _: False)
    assert later.least(ONE) is None


def test_what_is_wanted_anew_is_owed_from_the_change_on() -> None:
    """A store that was out of reach hears later for how long it has been wanted."""
    holds = Holds()
    claim(holds, Holding("a", 1, -1, wanted=b"shares"), now_ms=300, may_have=lambda wanted: wanted == b"quakes")
    changed = Holding("a", 1, -1, wanted=b"quakes", age_ms=9_000, wanted_age_ms=150, kind="copy")
    moved = holds.claim(
        changed, {ONE: (Tick(0), Tick(0), tick_at(9_000))}, now_ms=9_300, may_have=lambda wanted: wanted == b"quakes"
    )
    assert moved.answer.places == [(ONE, tick_at(9_300 - 150 - LATE_MS))]


def test_the_younger_wish_counts() -> None:
    holds = Holds()
    claim(holds, Holding("a", 1, -1, wanted=b"new"), now_ms=5000)
    claim(holds, Holding("a", 1, -1, wanted=b"old", age_ms=4000, wanted_age_ms=4000, kind="copy"), now_ms=6000)
    assert holds.copies(["a"], now_ms=7000)[0].wanted == b"new"
    claim(holds, Holding("a", 1, -1, wanted=b"newest", age_ms=4000, wanted_age_ms=500, kind="copy"), now_ms=7000)
    assert holds.copies(["a"], now_ms=7000)[0].wanted == b"newest"


# -- other lives -------------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "größe"])
steps = st.one_of(
    st.tuples(st.just("claim"), names, st.integers(0, 3), st.sampled_from([-1, 0, 300])),
    st.tuples(st.just("progress"), names, st.integers(0, 3), st.integers(0, 700)),
    st.tuples(st.just("end"), names, st.just(0), st.just(0)),
    st.tuples(st.just("restart"), st.just(""), st.just(0), st.just(0)),
)


@given(st.lists(steps, max_size=25))
def test_it_outlives_the_broker(done: list[tuple[str, str, int, int]]) -> None:
    """What was kept, and nothing else, is known in the next life; between two of them nothing changes."""
    holds, on_disk = Holds(), dict[bytes, bytes | None]()
    for now_ms, (what, name, number, value) in enumerate(done, 1000):
        if what == "claim":
            claim(holds, Holding(name, number, value), now_ms=now_ms)
        elif what == "progress":
            holds.progress(name, number, ONE, Tick(tick_at(value)))
        elif what == "end":
            end(holds, name, now_ms=now_ms)
        on_disk |= kept(holds)
        later = again(on_disk)
        assert sorted(later.names()) == sorted(holds.names())
        assert [later.least(one) for one in ENDS] == [holds.least(one) for one in ENDS]
        told_now, told_then = (one.copies(sorted(one.known()), now_ms=9999) for one in (holds, later))
        assert told_now == told_then
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


def test_what_is_known_already_is_not_written_again() -> None:
    """Stores tell each other of the same names again and again."""
    holds = Holds()
    for wanted in (b"idle", b"wanted"):
        copy = Holding(wanted.decode(), 5, -1, wanted=wanted, age_ms=10, kind="copy", origin=5)
        claim(holds, copy, may_have=lambda one: one != b"idle")
        assert len(kept(holds)) == 1
        later = {pubend: (first, kept_, tick_at(900)) for pubend, (first, kept_, _) in ENDS.items()}
        holds.claim(copy, later, now_ms=1000, may_have=lambda one: one != b"idle")
        assert kept(holds) == {}
