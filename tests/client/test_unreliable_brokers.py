"""A session whose brokers are gone, hang, or will not have it: it goes on where it can, else it says why."""

from __future__ import annotations

import pytest

from tests.client.brokers import CALM_SILENCE_S, HEARTBEAT_S, SILENCE_S, WELCOME_S, Manner, Session
from tidewire.client.events import (
    Abort,
    AdvertiseThat,
    Connect,
    FlushAll,
    Published,
    PublishSoon,
    SubscribeTo,
    Unread,
    UnsubscribeFrom,
)
from tidewire.model.errors import PeerError, Unavailable
from tidewire.model.ids import Conn
from tidewire.model.messages import ANYTHING, Bye, Use
from tidewire.wire.connections import Close, Closed, Heard

SUBSCRIBE = SubscribeTo(1, [1], [b"\x90"])
ADVERTISE = AdvertiseThat(1, [1], [ANYTHING])


@pytest.mark.parametrize("manner", ["gone", "hung", Bye("limit", "full", 5.0)])
def test_the_first_connection_tries_every_address(manner: Manner) -> None:
    session = Session("A", "B", "C", A=manner, B=manner, C="well")
    session.happens(Connect(1))
    session.runs(10)
    assert session.finished[1][1] is None
    assert session.finished[1][0] <= 2 * WELCOME_S + 1
    assert session.dialled == ["A", "B", "C"]


@pytest.mark.parametrize(("use", "silence_s"), [("publish", SILENCE_S), ("subscribe", CALM_SILENCE_S)])
def test_a_broker_that_hangs_is_left_and_not_asked_again_at_once(use: Use, silence_s: float) -> None:
    """Who publishes knows sooner: what it publishes meanwhile is lost."""
    session = Session("A", "A", "B", A="well", B="well")
    session.happens(ADVERTISE if use == "publish" else SUBSCRIBE)
    session.runs(1)
    session.brokers["A"] = "hung"
    session.runs(silence_s + WELCOME_S + 1)
    assert session.dialled == ["A", "A", "B"]
    assert session.core.broker(use) == "B"
    assert [type(effect) for _, effect in session.ended] == [Abort, Abort]
    assert silence_s <= session.ended[0][0] <= silence_s + 1
    (lost,) = session.told
    assert lost.facts == {"use": use, "reason": "the broker A has been silent for too long"}


def test_a_connection_that_cannot_end_is_given_up_though_nobody_reads_it() -> None:
    """Its broker said goodbye, and takes nothing of what waits to be sent."""
    session = Session("A", "B", A="well", B="well")
    session.happens(ADVERTISE)
    session.runs(1)
    session.stay = (Close,)
    (conn,) = session.lines
    session.brokers["A"] = "hung"
    session.happens(Heard(conn, Bye("stopping", "A stops", 0.5)))
    assert session.ended == [(1.0, Close(conn))]
    session.while_time_passes = lambda: session.happens(Unread(conn))
    session.runs(SILENCE_S + HEARTBEAT_S)
    assert session.ended[1][1] == Abort(conn)
    assert session.core.broker("publish") == "B"


def test_a_connection_is_given_up_once() -> None:
    """Until it has ended, time goes on for others."""
    session = Session("A", A="hung")
    session.stay = (Abort,)
    session.happens(SUBSCRIBE)
    session.runs(30)
    assert session.finished[1][1] is not None
    assert session.ended == [(WELCOME_S, Abort(Conn(1)))]


def test_an_application_that_does_not_read_keeps_its_broker() -> None:
    session = Session("A", A="well")
    session.happens(SUBSCRIBE)
    session.runs(1)
    (conn,) = session.lines
    session.brokers["A"] = "hung"
    session.while_time_passes = lambda: session.happens(Unread(conn))
    session.runs(10 * SILENCE_S)
    assert session.ended == []


@pytest.mark.parametrize("manner", ["gone", "hung"])
def test_who_has_something_to_publish_waits_for_a_broker_only_so_long(manner: Manner) -> None:
    session = Session("A", give_up_s=5.0, A="well")
    session.happens(ADVERTISE)
    session.runs(1)
    session.brokers["A"] = manner
    session.happens(Closed(next(iter(session.lines)), "reset"))
    session.happens(PublishSoon(2))
    session.runs(4.9)
    assert 2 not in session.finished
    session.runs(0.2)
    error = session.finished[2][1]
    assert isinstance(error, Unavailable)
    assert "no broker could be reached at A for 5 s: A" in error.message


def test_who_waits_to_publish_is_told_when_it_can() -> None:
    session = Session("A", give_up_s=5.0, A="well")
    session.happens(ADVERTISE)
    session.runs(1)
    session.brokers["A"] = "gone"
    session.happens(Closed(next(iter(session.lines)), "reset"))
    session.happens(PublishSoon(2))
    session.runs(2)
    session.brokers["A"] = "well"
    session.runs(2.5)
    assert session.finished[2][1] is None


def test_who_is_connected_may_wait_to_publish_for_as_long_as_it_takes() -> None:
    """What it will publish is not confirmed yet; when the connection is lost, its patience begins."""
    session = Session("A", give_up_s=5.0, A="well")
    session.happens(Connect(1))
    session.happens(PublishSoon(2))
    session.runs(21.0)
    assert 2 not in session.finished
    session.brokers["A"] = "gone"
    session.happens(Closed(next(iter(session.lines)), "reset"))
    session.runs(4.9)
    assert 2 not in session.finished
    session.runs(0.2)
    assert session.finished[2][1] is not None


def test_what_no_broker_is_known_to_have_read_is_in_doubt() -> None:
    session = Session("A", A="well")
    session.happens(ADVERTISE)
    session.runs(0.9)
    session.happens(Published(7))
    assert session.core.in_doubt == 7
    session.happens(FlushAll(2))
    assert session.core.in_doubt == 0
    session.happens(Published(5))
    session.runs(HEARTBEAT_S)
    assert session.core.in_doubt == 0
    session.brokers["A"] = "hung"
    session.happens(Published(3))
    session.runs(SILENCE_S)
    (lost,) = session.told
    assert lost.facts["unconfirmed"] == 3
    assert session.core.in_doubt == 0


def test_a_broker_that_only_serves_subscriptions_has_read_nothing_of_ours() -> None:
    session = Session("A", A="well", B="well")
    session.publish_at["A"] = "B"
    session.happens(SubscribeTo(2, [2], [b"\x90"]))
    session.happens(ADVERTISE)
    session.runs(0.9)
    session.brokers["B"] = "hung"
    session.happens(Published(7))
    session.runs(2 * HEARTBEAT_S)
    assert (session.core.broker("subscribe"), session.core.broker("publish")) == ("A", "B")
    assert session.core.in_doubt == 7


def test_a_line_is_read_as_long_as_something_is_to_come() -> None:
    session = Session("A", A="hung")
    session.happens(SUBSCRIBE)
    (conn,) = session.lines
    assert session.core.is_awaiting(conn)
    session.brokers["A"] = "well"
    session.runs(WELCOME_S + 1)
    (conn,) = session.lines
    assert not session.core.is_awaiting(conn)
    session.brokers["A"] = "hung"
    session.happens(UnsubscribeFrom(2, [1]))
    assert session.core.is_awaiting(conn)


def test_why_nobody_takes_us_is_said() -> None:
    session = Session("A", give_up_s=5.0, A=Bye("limit", "this broker takes 3 connections", 5.0))
    session.happens(Connect(1))
    session.runs(6)
    error = session.finished[1][1]
    assert error is not None
    assert error.message.endswith("this broker takes 3 connections")


def test_one_who_is_not_to_come_back_hears_it_once() -> None:
    """A coordinator, for instance, is no broker."""
    session = Session("A", A=Bye("protocol", "this is a coordinator", -1.0))
    session.happens(Connect(1))
    session.runs(20)
    assert session.dialled == ["A"]
    time_s, error = session.finished[1]
    assert time_s == 0.0
    assert isinstance(error, PeerError)
    assert session.told == []


def test_a_connection_that_was_only_the_way_is_no_reason() -> None:
    """It was left because it is not needed: what is said of it does not explain anything."""
    session = Session("A", give_up_s=2.0, A="well")
    session.happens(SUBSCRIBE)
    session.happens(Connect(2))
    lines = session.core._lines
    lines.why = "A: Connection refused"
    session._act(lines.leave(Conn(1)))
    session.happens(Closed(Conn(1), "closed by the broker"))
    assert lines.why == "A: Connection refused"
