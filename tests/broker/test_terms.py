"""What clients say of their traffic is kept, said again elsewhere, and forgotten with what it was said of."""

from __future__ import annotations

import pytest

from tidewire.broker.terms import ClientTerms, check_terms
from tidewire.client.events import AdvertiseThat, SubscribeTo, UnsubscribeFrom
from tidewire.client.requests import Requests
from tidewire.model.errors import UsageError
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import WANTED_BYTES_MAX, WANTED_MAX, Advertise, Subscribe
from tidewire.model.traffic import NO_TERMS, Terms

SOON, LATER = Terms(delay_s=1.0), Terms(delay_s=50.0, weight=0.5)
HERE, THERE = Conn(1), Conn(2)


def test_the_last_word_on_a_number_counts() -> None:
    """A subscription that is changed may have other terms, or none."""
    terms = ClientTerms()
    terms.said(HERE, "subscribe", [1, 2], [SOON, LATER])
    terms.said(HERE, "subscribe", [1], [])
    terms.said(THERE, "publish", [1], [LATER])
    assert terms.of(HERE, "subscribe") == {2: LATER}
    assert terms.of(HERE, "publish") == {}
    terms.taken_back(HERE, "subscribe", [2, 7])
    assert terms.of(HERE, "subscribe") == {}
    terms.gone(THERE)
    assert terms.of(THERE, "publish") == {}


def test_terms_are_as_many_as_numbers() -> None:
    """Or there are none."""
    check_terms([1, 2], [])
    check_terms([1, 2], [SOON, NO_TERMS])
    with pytest.raises(UsageError, match="2 numbers and 1 terms"):
        check_terms([1, 2], [SOON])


def made() -> Requests:
    """Of a session."""
    return Requests(give_up_s=10.0, claim=lambda: 1, known=lambda _: None, tuned=lambda *_: pytest.fail("no channel"))


def test_a_session_says_its_terms_again() -> None:
    """At the next broker, with all that was confirmed; what was taken back is not among it."""
    requests = made()
    asked = requests.ask(HERE, SubscribeTo(1, [1, 2, 3], [b"a", b"b", b"c"], [SOON, NO_TERMS, LATER]))
    assert isinstance(asked, Subscribe)
    assert asked.terms == [SOON, NO_TERMS, LATER]
    requests.done(HERE, asked.request)
    requests.ask(HERE, UnsubscribeFrom(2, [1]))
    again = requests.say_again(THERE, "subscribe")
    assert isinstance(again, Subscribe)
    assert (again.numbers, again.terms) == ([2, 3], [NO_TERMS, LATER])
    offered = requests.ask(HERE, AdvertiseThat(3, [4], [b"d"], [SOON]))
    requests.done(HERE, offered.request if isinstance(offered, Advertise) else 0)
    said = requests.say_again(THERE, "publish")
    assert isinstance(said, Advertise)
    assert said.terms == [SOON]


def test_who_has_no_terms_says_none() -> None:
    """Not one for each of its subscriptions."""
    requests = made()
    asked = requests.ask(HERE, SubscribeTo(1, [1, 2], [b"a", b"b"]))
    requests.done(HERE, asked.request if isinstance(asked, Subscribe) else 0)
    again = requests.say_again(THERE, "subscribe")
    assert isinstance(again, Subscribe)
    assert again.terms == []


def test_a_greeting_tells_some_of_what_is_wanted() -> None:
    """epeer §2.7: a newcomer may be sent to where others want the same. There is a bound."""
    requests = made()
    long = b"x" * (WANTED_BYTES_MAX + 1)
    requests.wait(SubscribeTo(1, [1, 2, 3], [b"a", long, b"a"]), now_ns=Nanoseconds(0))
    assert requests.wanted() == [b"a"]
    many = [bytes([number]) for number in range(2 * WANTED_MAX)]
    requests.wait(SubscribeTo(2, list(range(10, 10 + len(many))), many), now_ns=Nanoseconds(0))
    assert len(requests.wanted()) == WANTED_MAX
