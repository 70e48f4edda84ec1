"""What a session promises of guaranteed events, and of what it follows: ``guarantees.py``, ``followings.py``."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidewire.client.followings import Following, Followings
from tidewire.client.guarantees import Guarantees
from tidewire.model.errors import EventTooLarge, FollowedElsewhere, Forgotten, InDoubt, NotPermitted, Unavailable
from tidewire.model.ids import BrokerId, Nanoseconds, PubendId, Tick
from tidewire.model.stream_messages import Gap
from tidewire.wire.frames import EVENT_AHEAD_MAX, PROMISE, TICK_BYTES, FrameReader

A, B = BrokerId("A"), BrokerId("B")
PUBEND = PubendId(7)
S = 1_000_000_000


def made(count: int = 0, *, give_up_s: float = 10.0) -> Guarantees:
    """With so many events, their tokens from 1 on."""
    found = Guarantees(give_up_s=give_up_s)
    for token in range(1, count + 1):
        found.add(token, b"event", born_ns=5, now_ns=Nanoseconds(0))
    return found


def sent(guarantees: Guarantees, broker: BrokerId, now_ns: int = 0) -> list[int]:
    """The sequences that are sent now."""
    frames = b"".join(guarantees.unsent(broker, now_ns=Nanoseconds(now_ns)))
    return [PROMISE.unpack_from(payload)[1] for _, payload in FrameReader().feed(frames)]


def test_each_is_sent_once_on_a_connection_and_all_again_on_the_next() -> None:
    guarantees = made(3)
    assert sent(guarantees, A) == [1, 2, 3]
    assert sent(guarantees, A) == []
    guarantees.add(4, b"event", born_ns=5, now_ns=Nanoseconds(0))
    assert sent(guarantees, A) == [4]
    assert [one.token for one in guarantees.receipted(2)] == [1, 2]
    guarantees.begin()
    assert sent(guarantees, A) == [3, 4]


def test_it_sticks_to_the_broker_where_something_is_in_doubt() -> None:
    """Another one would not know what it has in its log."""
    guarantees = made(2)
    found = [guarantees.broker]
    sent(guarantees, A)
    found.append(guarantees.broker)
    list(guarantees.receipted(1))
    found.append(guarantees.broker)
    list(guarantees.receipted(2))
    found.append(guarantees.broker)
    guarantees.add(3, b"event", born_ns=5, now_ns=Nanoseconds(0))
    assert sent(guarantees, B) == [3]
    assert [*found, guarantees.broker] == [None, A, A, None, B]


def test_a_refused_one_is_over_with_its_error_and_the_others_are_not() -> None:
    guarantees = made(3)
    sent(guarantees, A)
    error = Unavailable("no")
    assert [(one.token, one.error) for one in guarantees.refused([2, 99], error)] == [(2, error)]
    assert [one.token for one in guarantees.receipted(3)] == [1, 3]
    assert guarantees.broker is None


def test_whoever_is_connected_waits_and_others_give_up_in_time() -> None:
    guarantees = made(1)
    assert guarantees.deadline_ns(is_served=True) is None
    assert guarantees.deadline_ns(is_served=False) == 10 * S
    assert list(guarantees.given_up(Nanoseconds(99 * S), is_served=True, why="x")) == []
    assert list(guarantees.given_up(Nanoseconds(10 * S - 1), is_served=False, why="x")) == []
    (one,) = guarantees.given_up(Nanoseconds(10 * S), is_served=False, why="nobody is there")
    assert type(one.error) is Unavailable
    assert one.error.message == "a guaranteed event was not sent: nobody is there"
    assert guarantees.deadline_ns(is_served=False) is None


def test_those_behind_one_that_is_given_up_are_given_up_with_it() -> None:
    """Taken a moment later, they would leave a hole where it was."""
    guarantees = made(1)
    guarantees.add(2, b"event", born_ns=5, now_ns=Nanoseconds(9 * S))
    assert list(guarantees.given_up(Nanoseconds(9 * S), is_served=False, why="x")) == []
    done = list(guarantees.given_up(Nanoseconds(10 * S), is_served=False, why="x"))
    assert [(one.token, type(one.error)) for one in done] == [(1, Unavailable), (2, Unavailable)]
    assert sent(guarantees, A) == []


def test_the_wait_begins_when_the_connection_is_lost_and_says_where_it_may_be() -> None:
    guarantees = made(1)
    sent(guarantees, A, 3 * S)
    guarantees.no_longer_served(Nanoseconds(50 * S))
    assert list(guarantees.given_up(Nanoseconds(59 * S), is_served=False, why="x")) == []
    (one,) = guarantees.given_up(Nanoseconds(60 * S), is_served=False, why="x")
    assert isinstance(one.error, InDoubt)
    assert "was sent to A and has no receipt, so it may have been taken" in one.error.message


def test_only_what_was_sent_is_in_doubt() -> None:
    """Whatever the end: time, a session that is closed, a broker that will not have us."""
    for end in ("time", "closed", "refused"):
        guarantees = made(1)
        sent(guarantees, A)
        guarantees.begin()  # the connection is lost, and has not come back
        guarantees.add(2, b"event", born_ns=5, now_ns=Nanoseconds(0))
        if end == "time":
            done = list(guarantees.given_up(Nanoseconds(10 * S), is_served=False, why="x"))
        else:
            done = list(guarantees.abandoned(Unavailable("closed") if end == "closed" else NotPermitted("no")))
        kinds = {one.token: type(one.error) for one in done}
        assert kinds == {1: InDoubt, 2: NotPermitted if end == "refused" else Unavailable}, end
        assert ["may have been taken" in str(one.error) for one in done] == [True, False]
        assert "was not sent" in str(done[1].error)


def test_what_no_broker_takes_is_not_sent() -> None:
    """It would end the connection, and be said again on the next one, for ever, with all that is behind it."""
    guarantees = made(1)
    guarantees.add(2, b"x" * 100, born_ns=5, now_ns=Nanoseconds(0))
    size = 100 + EVENT_AHEAD_MAX + TICK_BYTES
    assert list(guarantees.too_large(size)) == []
    (one,) = guarantees.too_large(size - 1)
    assert (one.token, type(one.error)) == (2, EventTooLarge)
    assert "has 100 bytes, 1 too many: this broker takes 99 (its frame_bytes_max is" in str(one.error)
    assert sent(guarantees, A) == [1]


STEPS = st.tuples(st.sampled_from(["add", "send", "receipt", "refuse", "lose"]), st.integers(0, 30))


@given(st.lists(STEPS, max_size=40))
def test_every_event_comes_to_one_end(steps: list[tuple[str, int]]) -> None:
    """Finished once, with a receipt or an error; on every connection sequences ascend, and none is left out."""
    guarantees, tokens = made(), 0
    finished: list[int] = []
    open_ones: list[int] = []
    on_connection: list[int] = []
    for what, value in steps:
        done = []
        if what == "add":
            tokens += 1
            open_ones.append(tokens)
            guarantees.add(tokens, b"event", born_ns=5, now_ns=Nanoseconds(0))
        elif what == "send":
            on_connection += sent(guarantees, A)
            assert on_connection == sorted(set(on_connection))
            assert set(open_ones) <= set(on_connection)
        elif what == "receipt":
            done = list(guarantees.receipted(value))
            assert all(one.error is None for one in done)
        elif what == "refuse":
            done = list(guarantees.refused([value, value + 2], Unavailable("no")))
            assert all(one.error is not None for one in done)
        else:
            guarantees.begin()
            on_connection = []
        finished += [one.token for one in done]
        open_ones = [token for token in open_ones if token not in finished]
        assert len(guarantees) == len(open_ones)
    finished += [one.token for one in guarantees.abandoned(Unavailable("closed"))]
    assert sorted(finished) == list(range(1, tokens + 1))


# -- what it follows ---------------------------------------------------------------------------------------------------


def followings() -> Followings:
    """One of them, as a broker has begun it."""
    found = Followings()
    found.add(Following(3, b"wanted", "name", claim=8, since=-1))
    found.begun(3, [(PUBEND, Tick(100))], origin=8, now_ns=Nanoseconds(1))
    return found


def test_an_event_is_due_once_and_in_its_order() -> None:
    ours = followings()
    ticks = (99, 100, 100, 105, 103, 105, 106)
    assert [ours.is_due(3, PUBEND, Tick(tick)) for tick in ticks] == [False, True, False, True, False, False, True]
    assert not ours.is_due(4, PUBEND, Tick(500))


def test_every_broker_hears_where_it_is() -> None:
    ours = followings()
    ours.is_due(3, PUBEND, Tick(105))
    following = ours.get(3)
    assert following is not None
    message = following.message(12, now_ns=Nanoseconds(2_000_000_001))
    assert (message.age_ms, message.origin) == (2000, 8)
    assert (message.request, message.number, message.name, message.claim) == (12, 3, "name", 8)
    assert message.places == [(PUBEND, Tick(106))]


def test_what_we_know_better_stays() -> None:
    ours = followings()
    ours.is_due(3, PUBEND, Tick(105))
    ours.begun(3, [(PUBEND, Tick(100)), (PubendId(8), Tick(50))], origin=8, now_ns=Nanoseconds(1))
    assert not ours.is_due(3, PUBEND, Tick(105))
    assert [ours.is_due(3, PubendId(8), Tick(tick)) for tick in (49, 50)] == [False, True]


def test_what_is_lost_is_waited_for_no_longer() -> None:
    ours = followings()
    ours.lost(Gap(3, PUBEND, Tick(100), Tick(120)))
    assert [ours.is_due(3, PUBEND, Tick(tick)) for tick in (120, 121)] == [False, True]
    ours.lost(Gap(3, PUBEND, Tick(100), Tick(110)))
    assert not ours.is_due(3, PUBEND, Tick(115))


def test_a_stream_that_goes_back_is_followed_from_there() -> None:
    ours = followings()
    ours.is_due(3, PUBEND, Tick(500))
    ours.lost(Gap(3, PUBEND, Tick(119), Tick(119), is_back=True))
    following = ours.get(3)
    assert following is not None
    assert (following.places[PUBEND], following.undone) == (120, {})
    assert [ours.is_due(3, PUBEND, Tick(tick)) for tick in (119, 120)] == [False, True]


def test_what_the_application_is_not_done_with_is_said() -> None:
    """To the next broker, which would else tell the stores that it is."""
    ours = followings()
    following = ours.get(3)
    assert following is not None

    def said() -> list[tuple[PubendId, Tick]]:
        return following.message(12, now_ns=Nanoseconds(1)).done

    assert (said(), following.settled(PUBEND)) == ([], following.places[PUBEND])
    for tick in (105, 107, 110):
        ours.is_due(3, PUBEND, Tick(tick))
    assert (said(), following.settled(PUBEND)) == ([(PUBEND, 105)], 105)
    ours.done(3, PUBEND, Tick(105))
    assert (said(), following.settled(PUBEND)) == ([(PUBEND, 106)], 106)
    ours.lost(Gap(3, PUBEND, Tick(111), Tick(119)))
    ours.done(3, PUBEND, Tick(110))
    assert (said(), following.settled(PUBEND)) == ([], 120)
    ours.done(4711, PUBEND, Tick(110))


def test_one_whose_change_is_refused_because_another_has_the_name_is_over() -> None:
    """And not silent for ever."""
    followings = Followings()
    for number in (1, 2, 3):
        followings.add(Following(number, b"", f"name {number}", claim=1, since=-1))
    found = [
        followings.refused(number, code) for number, code in ((1, "forgotten"), (2, "followed-elsewhere"), (3, "usage"))
    ]
    assert [type(error) for error in found] == [Forgotten, FollowedElsewhere, type(None)]
    assert [one.number for one in followings.all()] == [3]
    assert followings.refused(9, "forgotten") is None


def test_one_that_is_gone_is_owed_nothing() -> None:
    ours = followings()
    ours.remove([3, 4])
    assert (len(ours), 3 in ours, ours.all()) == (0, False, [])
    ours.begun(3, [(PUBEND, Tick(1))], origin=8, now_ns=Nanoseconds(1))
    ours.lost(Gap(3, PUBEND, Tick(1), Tick(1)))
    assert not ours.is_due(3, PUBEND, Tick(500))
