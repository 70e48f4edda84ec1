"""The names that events are held for, at this store and at others: ``names.py``, with its engine and its log."""

from __future__ import annotations

import pytest

from tests.broker.test_any_message import ALL, ENGINES, OWN, PUBEND, THEIRS, Broker
from tests.broker.test_streams import ANN, CONTROL, DATA, asked, broker, follow, synced
from tidewire.broker.names import COPY_NS, HOMELESS_NS
from tidewire.delivery.holds import Holds
from tidewire.model.ids import BrokerId, Conn, PubendId, Tick
from tidewire.model.messages import VERSION, Done, Hello, Message, Ping, Refused, Unsubscribe
from tidewire.model.routing_messages import Ads, Offer, Sync, Synced, Withdraw
from tidewire.model.stream_messages import (
    Begun,
    Follow,
    Held,
    HeldFor,
    Hold,
    Holding,
    Superseded,
    TakenOver,
    Unfollow,
)
from tidewire.routing.answers import Confirmed

__all__ = ["broker"]

AFAR = PubendId(99)
NAME = "anonymous\0mine"


def heard(at: Broker, kind: type[Message]) -> list[Message]:
    """What Ann has heard of this kind."""
    return [one for one in at.messages(ANN) if isinstance(one, kind)]


def held(age_ms: int, *, is_new: bool, place: int = 100, origin: int = 77) -> HeldFor:
    """What the neighbour's store holds for Ann."""
    return HeldFor("held", age_ms, is_new, [(AFAR, Tick(place))], origin)


def follows(at: Broker) -> Hold:
    """Ann follows here, her routes stand, and this is what the neighbour's store is asked for."""
    follow(at)
    synced(at)
    at.passes(0.01)
    (hold,) = asked(at)
    return hold


def lives(at: Broker, seconds: float) -> None:
    """Time passes, and the neighbour is there."""
    for _ in range(int(seconds * 2)):
        for conn in (DATA, CONTROL, ANN):
            at.says(conn, Ping(at.now_ns))
        at.passes(0.5)


@pytest.mark.parametrize("age_ms", [-1, 5000])
@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_new_name_that_no_store_can_hold_is_refused(engine: str, age_ms: int) -> None:
    """One that is not new waits: stores come and go, and it must not end by that."""
    alone = Broker(engine, has_store=False)
    alone.opened(ANN)
    alone.says(ANN, Hello(version=VERSION, name="ann", uses=["subscribe"], publisher=9))
    alone.says(ANN, Follow(1, 5, ALL, "mine", 77, age_ms=age_ms))
    alone.passes(HOMELESS_NS / 1e9 - 0.1)
    assert heard(alone, Refused) == []
    alone.passes(1)
    refused = [(one.request, one.code) for one in heard(alone, Refused) if isinstance(one, Refused)]
    assert refused == ([(1, "no-store")] if age_ms < 0 else [])
    assert bool(alone.node.core.router.subscriptions(ANN)) == (age_ms >= 0)


def test_a_store_to_which_it_is_new_hears_for_how_long_others_have_known_it(broker: Broker) -> None:
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 1, -1)]))
    broker.passes(1.5)
    broker.messages(CONTROL)
    first = follows(broker)
    assert first.holdings[0].age_ms == -1
    broker.says(CONTROL, Held(THEIRS, first.token, [held(0, is_new=True)]))
    (second,) = asked(broker)
    assert 1500 <= second.holdings[0].age_ms <= 1600
    assert second.holdings[0].origin == 1
    assert heard(broker, Begun) == []
    broker.says(CONTROL, Held(THEIRS, second.token, [held(1500, is_new=False, place=40, origin=1)]))
    (begun,) = heard(broker, Begun)
    assert isinstance(begun, Begun)
    assert dict(begun.places)[AFAR] == 40


def test_a_store_that_comes_later_hears_when_it_began(broker: Broker) -> None:
    """Whatever is published after it has begun it is owed, also at a store that was out of reach."""
    first = follows(broker)
    broker.says(CONTROL, Held(THEIRS, first.token, [HeldFor("none")]))
    assert len(heard(broker, Begun)) == 1
    broker.passes(1.5)
    other = type(THEIRS)(THEIRS + 1)
    broker.says(DATA, Offer(other, [BrokerId("Y"), BrokerId("X")]))
    broker.says(DATA, Ads(other, [1], [b""], True))
    while syncs := [one for one in broker.messages(DATA) if isinstance(one, Sync)]:
        for one in syncs:
            broker.says(DATA, Synced(one.tree, one.token, []))
    broker.passes(0.01)
    late = [one for one in asked(broker) if one.tree == other]
    assert [1500 <= one.holdings[0].age_ms <= 1600 for one in late] == [True]


def test_other_stores_are_told_of_our_names_until_they_know_them(broker: Broker) -> None:
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 1, -1, wanted=ALL)]))
    lives(broker, COPY_NS / 1e9)
    told = asked(broker, "copy")[0]
    assert (told.tree, [(one.name, one.wanted) for one in told.holdings]) == (THEIRS, [(NAME, ALL)])
    lives(broker, COPY_NS / 1e9)
    again = asked(broker, "copy")[-1]
    broker.says(CONTROL, Held(THEIRS, again.token, [held(0, is_new=True)]))
    lives(broker, COPY_NS / 1e9)
    assert asked(broker, "copy") == []


def test_a_broker_without_a_store_is_told_of_names_once(broker: Broker) -> None:
    for number in (1, 2):
        broker.says(CONTROL, Hold(OWN, 9, [Holding(f"{NAME}{number}", 1, -1)]))
        lives(broker, COPY_NS / 1e9)
        for one in asked(broker, "copy"):
            assert number == 1
            broker.says(CONTROL, Held(THEIRS, one.token, [HeldFor("none")]))


def test_what_has_ended_at_another_store_ends_here_and_its_session_hears_of_it(broker: Broker) -> None:
    hold = follows(broker)
    broker.says(CONTROL, Held(THEIRS, hold.token, [HeldFor("held", 0, True, [])]))
    broker.messages(ANN)
    lives(broker, COPY_NS / 1e9)
    told = asked(broker, "copy")[-1]
    broker.says(CONTROL, Held(THEIRS, told.token, [HeldFor("ended", 10)]))
    assert heard(broker, Superseded) == [Superseded(5, is_ended=True)]
    assert broker.node.core.streams.pubends.holds.names() == []


def test_a_name_is_forgotten_when_all_stores_have_noted_it(broker: Broker) -> None:
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 1, -1)]))
    broker.opened(ANN)
    broker.says(ANN, Hello(version=VERSION, name="ann", uses=["subscribe"], publisher=9))
    broker.says(ANN, Unfollow(3, 5, "mine"))
    broker.passes(0.01)
    end = asked(broker, "end")[0]
    assert heard(broker, Done) == []
    broker.says(CONTROL, Held(THEIRS, end.token, [HeldFor("ended", 0)]))
    assert heard(broker, Done) == [Done(3)]
    assert broker.node.core.streams.pubends.holds.least(PUBEND) is None


def test_a_name_that_has_ended_ends_again_at_once(broker: Broker) -> None:
    """Nothing changes by that, so the log has nothing to make durable, and nobody would be called later."""
    for token in (8, 9):
        broker.says(CONTROL, Hold(OWN, token, [Holding(NAME, 0, -1, kind="end")]))
        if token == 8:
            broker.passes(0.01)
            broker.messages(CONTROL)
    (answer,) = (one for one in broker.messages(CONTROL) if isinstance(one, Held))
    assert (answer.token, [one.state for one in answer.answers]) == (9, ["ended"])


def test_what_changes_nothing_is_not_answered_ahead_of_what_is_not_durable(broker: Broker) -> None:
    """By the number of the later one the earlier one would be taken for durable, too."""
    for token in (8, 9):
        broker.says(CONTROL, Hold(OWN, token, [Holding(NAME, 0, -1, kind="end")]))
    broker.act(broker.node.committed(now_ns=broker.now_ns))
    assert [one for one in broker.messages(CONTROL) if isinstance(one, Held)] == []
    broker.passes(0.01)
    assert [one.token for one in broker.messages(CONTROL) if isinstance(one, Held)] == [8, 9]


@pytest.mark.parametrize("last", [Unsubscribe(2, [5]), Unfollow(2, 5, "mine"), Follow(2, 5, ALL, "mine", 78)])
def test_who_is_taken_back_before_it_has_begun_is_answered(broker: Broker, last: Message) -> None:
    """Its session does not move while it waits for an answer."""
    follow(broker)
    broker.says(ANN, last)
    assert Done(1) in heard(broker, Done)
    synced(broker)
    broker.passes(0.01)
    for hold in (one for one in broker.messages(CONTROL) if isinstance(one, Hold)):
        state = HeldFor("ended", 0) if hold.holdings[0].kind == "end" else held(0, is_new=True)
        broker.says(CONTROL, Held(THEIRS, hold.token, [state]))
    answers = [one.request for one in broker.messages(ANN) if isinstance(one, Done | Begun | Refused)]
    assert answers == ([] if isinstance(last, Unsubscribe) else [2])


@pytest.mark.parametrize("engine", list(ENGINES))
def test_where_no_store_is_a_name_cannot_be_forgotten(engine: str) -> None:
    alone = Broker(engine, has_store=False)
    alone.opened(Conn(4))
    alone.says(ANN, Hello(version=VERSION, name="ann", uses=["subscribe"], publisher=9))
    alone.says(ANN, Unfollow(3, 5, "mine"))
    (refused,) = heard(alone, Refused)
    assert isinstance(refused, Refused)
    assert (refused.request, refused.code) == (3, "no-store")


def test_who_follows_anew_by_a_name_that_has_ended_begins_anew_everywhere(broker: Broker) -> None:
    """Our store did not hear of the end: it is told, and the new one is not taken for the old."""
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 1, -1)]))
    broker.passes(0.01)
    broker.messages(CONTROL)
    first = follows(broker)
    broker.says(CONTROL, Held(THEIRS, first.token, [held(0, is_new=True)]))
    (second,) = asked(broker)
    broker.says(CONTROL, Held(THEIRS, second.token, [HeldFor("ended", origin=1)]))
    (third,) = asked(broker)
    assert (third.holdings[0].origin, third.holdings[0].ended) == (77, 1)
    broker.says(CONTROL, Held(THEIRS, third.token, [held(0, is_new=True)]))
    assert heard(broker, Begun) == []
    broker.passes(0.01)
    assert len(heard(broker, Begun)) == 1
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 0, -1, kind="end", origin=1)]))
    assert heard(broker, Superseded) == []
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 0, -1, kind="end", origin=77)]))
    assert heard(broker, Superseded) == [Superseded(5, is_ended=True)]


def test_a_session_whose_name_has_ended_meanwhile_hears_that(broker: Broker) -> None:
    broker.opened(ANN)
    broker.says(ANN, Hello(version=VERSION, name="ann", uses=["subscribe"], publisher=9))
    broker.says(ANN, Follow(1, 5, ALL, "mine", 77, age_ms=5000))
    synced(broker)
    broker.passes(0.01)
    (hold,) = asked(broker)
    broker.says(CONTROL, Held(THEIRS, hold.token, [HeldFor("ended")]))
    (refused,) = heard(broker, Refused)
    assert isinstance(refused, Refused)
    assert (refused.request, refused.code) == (1, "forgotten")
    assert broker.node.core.router.subscriptions(ANN) == {}


def test_a_session_hears_that_one_who_came_later_has_its_name(broker: Broker) -> None:
    """A store that was beyond a cut knows."""
    hold = follows(broker)
    broker.says(CONTROL, Held(THEIRS, hold.token, [HeldFor("taken")]))
    (refused,) = heard(broker, Refused)
    assert isinstance(refused, Refused)
    assert (refused.request, refused.code) == (1, "followed-elsewhere")
    assert broker.node.core.router.subscriptions(ANN) == {}


def test_a_store_that_took_the_name_for_one_that_has_ended_hears_which_it_is(broker: Broker) -> None:
    """Ann's name has begun anew elsewhere. Our store hears late of the end of the old one: hers goes on."""
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 1, -1)]))
    broker.passes(0.5)
    broker.messages(CONTROL)
    first = follows(broker)
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 0, -1, kind="end", origin=1)]))
    broker.says(CONTROL, Held(THEIRS, first.token, [held(100, is_new=False, origin=2)]))
    broker.passes(0.01)
    for one in asked(broker):
        broker.says(CONTROL, Held(THEIRS, one.token, [held(100, is_new=False, origin=one.holdings[0].origin or 2)]))
    broker.passes(0.01)
    assert heard(broker, Superseded) == []
    assert heard(broker, Refused) == []
    assert broker.node.core.streams.pubends.holds.names() == [NAME]


def test_a_far_store_that_took_the_name_for_one_that_has_ended_is_asked_again(broker: Broker) -> None:
    hold = follows(broker)
    broker.says(CONTROL, Held(THEIRS, hold.token, [held(0, is_new=True)]))
    broker.says(CONTROL, TakenOver(THEIRS, NAME, 77, is_ended=True, origin=1))
    (again,) = asked(broker)
    assert (again.tree, again.holdings[0].origin) == (THEIRS, 77)
    assert heard(broker, Superseded) == []
    broker.says(CONTROL, TakenOver(THEIRS, NAME, 77, is_ended=True, origin=77))
    assert heard(broker, Superseded) == [Superseded(5, is_ended=True)]


def test_one_begins_in_a_stream_when_the_parent_is_proven_to_know_its_routes(broker: Broker) -> None:
    """There is a new parent since its barrier was through: silence of that one is not silence for it yet."""
    streams = broker.node.core.streams
    follow(broker)
    (follower,) = streams.followers.all()
    list(streams.names.hold(follower, {}, now_ns=broker.now_ns))
    assert (THEIRS in follower.trees, THEIRS in follower.ready) == (True, False)
    list(streams.proven(Confirmed(THEIRS, [(AFAR, Tick(50))], is_all=False), now_ns=broker.now_ns))
    assert THEIRS not in follower.ready
    list(streams.proven(Confirmed(THEIRS, [(AFAR, Tick(60))], is_all=True), now_ns=broker.now_ns))
    assert (THEIRS in follower.ready, follower.sounds[AFAR]) == (True, 60)


@pytest.mark.parametrize(("age_ms", "is_before"), [(5000, False), (0, True)])
def test_a_session_that_came_after_its_name_had_begun_anew_goes_on(
    broker: Broker, age_ms: int, *, is_before: bool
) -> None:
    """Our store hears late that the name has ended, and begun anew before Ann came: hers is the new one."""
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 1, -1)]))
    broker.passes(0.5)
    follow(broker)
    synced(broker)
    broker.passes(0.5)
    (first,) = asked(broker)
    broker.says(CONTROL, Held(THEIRS, first.token, [held(100, is_new=False, origin=1)]))
    broker.passes(0.5)
    assert len(heard(broker, Begun)) == 1
    theirs = Holds()
    for told in Holding(NAME, 1, -1), Holding(NAME, 0, -1, kind="end"), Holding(NAME, 2, -1):
        theirs.claim(told, {}, now_ms=0, may_have=lambda _: True)
    broker.says(CONTROL, Hold(OWN, 10, theirs.copies([NAME], now_ms=age_ms)))
    broker.passes(0.01)
    assert heard(broker, Superseded) == ([Superseded(5, is_ended=True)] if is_before else [])
    assert broker.node.core.streams.pubends.holds.names() == [NAME]


@pytest.mark.parametrize("is_before", [False, True])
@pytest.mark.parametrize("age_ms", [-1, 2000])
def test_a_session_that_came_after_its_name_had_ended_elsewhere_goes_on(
    broker: Broker, age_ms: int, *, is_before: bool
) -> None:
    """Ann began where the end was not known, beyond a cut; also if she comes again with what she knew then."""
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 1, -1, claim_age_ms=9000)]))
    broker.passes(0.5)
    broker.opened(ANN)
    broker.says(ANN, Hello(version=VERSION, name="ann", uses=["subscribe"], publisher=9))
    broker.says(ANN, Follow(1, 5, ALL, "mine", 77, age_ms=age_ms, origin=1 if age_ms >= 0 else 0))
    synced(broker)
    broker.passes(0.01)
    (first,) = asked(broker)
    broker.says(CONTROL, Held(THEIRS, first.token, [HeldFor("none")]))
    assert len(heard(broker, Begun)) == 1
    broker.passes(1)
    before = max(0, age_ms) + 1000 + (-500 if is_before else 500)
    broker.says(CONTROL, TakenOver(THEIRS, NAME, 77, is_ended=True, origin=1, age_ms=before))
    if is_before:
        assert heard(broker, Superseded) == [Superseded(5, is_ended=True)]
        (ending,) = asked(broker, "end")  # a store may have taken her for the next
        assert [(one.name, one.origin) for one in ending.holdings] == [(NAME, 77)]
        return
    (second,) = asked(broker)
    assert (second.holdings[0].origin, second.holdings[0].ended) == (77, 1)
    assert before <= second.holdings[0].ended_age_ms <= before + 100
    assert before - 500 <= second.holdings[0].claim_age_ms <= before
    assert second.holdings[0].age_ms == second.holdings[0].claim_age_ms
    broker.says(CONTROL, Held(THEIRS, second.token, [HeldFor("ended", before, origin=1)]))  # asked before
    broker.passes(0.01)
    assert heard(broker, Superseded) == []
    assert broker.node.core.streams.pubends.holds.names() == [NAME]
    copies = broker.node.core.streams.pubends.holds.copies([NAME], now_ms=2**41)
    assert [(one.claim, one.origin) for one in copies] == [(77, 77)]


def test_a_store_that_hears_of_an_end_when_it_tells_of_a_name_hears_how_long_ago_that_was(broker: Broker) -> None:
    """So that who came since goes on."""
    broker.says(CONTROL, Hold(OWN, 9, [Holding(NAME, 1, -1)]))
    broker.passes(0.5)
    hold = follows(broker)
    broker.says(CONTROL, Held(THEIRS, hold.token, [HeldFor("none")]))
    for age_ms, is_over in ((20_000, False), (0, True)):
        lives(broker, COPY_NS / 1e9)
        told = asked(broker, "copy")[-1]
        answers = [HeldFor("ended", age_ms, origin=one.origin) for one in told.holdings]
        broker.says(CONTROL, Held(THEIRS, told.token, answers))
        assert bool(heard(broker, Superseded)) == is_over


def test_a_store_that_could_not_be_told_who_has_left_is_told_when_it_is_there_again(broker: Broker) -> None:
    """Also if it goes out of reach before it has answered."""
    first = follows(broker)
    broker.says(CONTROL, Held(THEIRS, first.token, [held(0, is_new=True)]))
    assert len(heard(broker, Begun)) == 1
    broker.says(DATA, Withdraw(THEIRS))
    broker.says(ANN, Unsubscribe(2, [5]))
    broker.says(DATA, Offer(THEIRS, [BrokerId("X")]))
    lives(broker, 0.5)
    assert [[one.name for one in hold.holdings] for hold in asked(broker, "left")] == [[NAME]]
    broker.says(DATA, Withdraw(THEIRS))
    lives(broker, 0.5)
    broker.says(DATA, Offer(THEIRS, [BrokerId("X")]))
    lives(broker, COPY_NS / 1e9)
    (again,) = asked(broker, "left")
    broker.says(CONTROL, Held(THEIRS, again.token, [HeldFor("held")]))
    lives(broker, COPY_NS / 1e9)
    assert asked(broker, "left") == []
