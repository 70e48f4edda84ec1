"""What a session has said, whatever order the answers come in."""

from tidewire.client.events import Finished, FollowAs, SubscribeTo, UnsubscribeFrom
from tidewire.client.followings import Following
from tidewire.client.requests import Requests
from tidewire.client.tunings import Tunings
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import Subscribe
from tidewire.model.stream_messages import Follow

CONN, OTHER = Conn(1), Conn(2)


def asked() -> Requests:
    """A subscription is asked for, and taken back before it is confirmed."""
    requests = Requests(give_up_s=10.0, claim=lambda: 1, known=lambda _: None, tuned=Tunings().tuned)
    requests.ask(CONN, SubscribeTo(1, [7], [b"wanted"]))
    requests.ask(CONN, UnsubscribeFrom(2, [7]))
    return requests


def test_what_was_taken_back_is_not_said_again() -> None:
    """A broker confirms a subscription when it stands everywhere, and its end at once."""
    requests = asked()
    requests.done(CONN, 2)
    requests.done(CONN, 1)
    assert not requests.has_said("subscribe")


def test_nor_after_the_connection_is_lost() -> None:
    """If the end was confirmed, the subscription is over; else both are said again, in their order."""
    requests = asked()
    requests.done(CONN, 2)
    assert list(requests.unanswered(CONN, now_ns=Nanoseconds(0))) == [Finished(1)]
    requests = asked()
    assert list(requests.unanswered(CONN, now_ns=Nanoseconds(0))) == []
    assert [request.token for request in requests.no_longer_waiting("subscribe")] == [1, 2]


def test_a_number_that_is_taken_again_is_said() -> None:
    requests = asked()
    requests.ask(CONN, SubscribeTo(3, [7], [b"anew"]))
    for number in (2, 1, 3):
        requests.done(CONN, number)
    assert requests.has_said("subscribe")


def test_what_was_followed_and_taken_back_before_it_began_holds_nobody_back() -> None:
    """The broker says that it is done with it; it does not begin, and the session may leave."""
    requests = Requests(give_up_s=10.0, claim=lambda: 1, known=lambda _: None, tuned=Tunings().tuned)
    follow = FollowAs(1, 7, b"wanted", "name")
    requests.ask(CONN, follow)
    assert requests.is_bound(CONN, "subscribe")
    assert requests.done(CONN, 1) == follow
    assert not requests.is_bound(CONN, "subscribe")
    assert requests.followed(1) is None


def follows(number: int, begun: dict[int, Following]) -> Requests:
    requests = Requests(give_up_s=10.0, claim=lambda: 1, known=begun.get, tuned=Tunings().tuned)
    requests.ask(CONN, FollowAs(1, number, b"wanted", "name"))
    return requests


def test_another_filter_makes_no_other_session() -> None:
    """It has the name already. By another claim it might seem to have come before itself: ages are not exact."""
    claims, begun = iter((1, 2)), dict[int, Following]()
    requests = Requests(give_up_s=10.0, claim=lambda: next(claims), known=begun.get, tuned=Tunings().tuned)
    found = []
    for request, name in ((1, "name"), (2, "name"), (3, "another")):
        message = requests.ask(CONN, FollowAs(request, 7, b"wanted", name))
        assert isinstance(message, Follow)
        following = requests.followed(message.request)
        assert following is not None
        begun[7] = following
        found.append(message.claim)
    assert found == [1, 1, 2]


def lost(requests: Requests) -> tuple[list[Finished], list[int]]:
    """What is finished when a connection is lost, and what is said again on the next one."""
    finished = list(requests.unanswered(CONN, now_ns=Nanoseconds(0)))
    return finished, [request.token for request in requests.no_longer_waiting("subscribe")]


def test_what_was_followed_and_taken_back_does_not_come_back_with_the_next_connection() -> None:
    """Whether the end was confirmed, or is said again behind what it ends; also if it had begun long before."""
    requests = follows(7, {})
    requests.ask(CONN, UnsubscribeFrom(2, [7]))
    assert lost(requests) == ([], [1, 2])
    requests = follows(7, {})
    requests.ask(CONN, UnsubscribeFrom(2, [7]))
    requests.done(CONN, 2)
    assert lost(requests) == ([Finished(1)], [])
    assert requests.followed(1) is None
    begun: dict[int, Following] = {}
    requests = follows(7, begun)
    following = requests.followed(1)
    assert following is not None
    begun[7] = following
    requests.done(CONN, 1)
    requests.ask(CONN, UnsubscribeFrom(2, [7]))
    assert lost(requests) == ([], [2])
    requests.ask(CONN, UnsubscribeFrom(3, [8]))  # of this one nothing would be said again
    assert lost(requests) == ([Finished(3)], [])


def test_what_is_followed_by_another_number_is_said_again() -> None:
    requests = follows(7, {})
    requests.ask(CONN, UnsubscribeFrom(2, [8]))
    assert lost(requests) == ([Finished(2)], [1])


def moving() -> Requests:
    """A subscription is asked for at one broker, and said again at another one before it is confirmed."""
    requests = Requests(give_up_s=10.0, claim=lambda: 1, known=lambda _: None, tuned=Tunings().tuned)
    requests.ask(CONN, SubscribeTo(1, [7], [b"wanted"]))
    assert not requests.is_bound(CONN, "subscribe")
    assert requests.say_again(OTHER, "subscribe") == Subscribe(2, [7], [b"wanted"])
    return requests


def test_a_subscription_that_is_not_confirmed_goes_along() -> None:
    """A session need not wait for the answer of a broker with a long queue before it leaves."""
    requests = moving()
    assert requests.done(OTHER, 2) == "subscribe"
    assert list(requests.carried(OTHER)) == [Finished(1)]
    assert requests.has_said("subscribe")
    assert requests.done(CONN, 1) is None
    assert list(requests.carried(OTHER)) == []


def test_it_is_done_when_the_new_broker_has_confirmed_it() -> None:
    """All comes from there: what the old one confirms meanwhile does not count, unless the new one is lost."""
    requests = moving()
    assert requests.done(CONN, 1) is None
    assert requests.done(OTHER, 2) == "subscribe"
    assert list(requests.carried(OTHER)) == [Finished(1)]
    requests = moving()
    requests.done(CONN, 1)
    assert list(requests.unanswered(OTHER, now_ns=Nanoseconds(0))) == [Finished(1)]
    requests = moving()
    assert list(requests.unanswered(OTHER, now_ns=Nanoseconds(0))) == []
    assert requests.done(CONN, 1) == SubscribeTo(1, [7], [b"wanted"])


def test_what_else_is_asked_for_is_waited_for() -> None:
    """Of what is taken back, either answer may come first; and if something is confirmed, the old broker owes it."""
    assert asked().is_bound(CONN, "subscribe")
    requests = Requests(give_up_s=10.0, claim=lambda: 1, known=lambda _: None, tuned=Tunings().tuned)
    requests.ask(CONN, SubscribeTo(1, [7], [b"first"]))
    requests.done(CONN, 1)
    requests.ask(CONN, SubscribeTo(2, [8], [b"second"]))
    assert requests.is_bound(CONN, "subscribe")
