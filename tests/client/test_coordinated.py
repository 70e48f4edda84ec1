"""A session that asks the coordinator which broker to use, now and whenever its broker is gone (bad §1.1 step 3)."""

from __future__ import annotations

import pytest

from tests.client.brokers import WELCOME_S, Manner, Session
from tidewire.client.config import ClientConfig
from tidewire.client.events import AdvertiseThat, Connect, SubscribeTo
from tidewire.model.errors import Unavailable, UsageError
from tidewire.model.ids import BrokerId
from tidewire.model.messages import ANYTHING, Bye, Move
from tidewire.wire.connections import Closed, Heard

SUBSCRIBE = SubscribeTo(1, [1], [b"\x90"])


def coordinated(
    *addresses: str, coordinator: str | None = "C", office: Manner = "well", give_up_s: float = 20.0
) -> Session:
    """Two edges, which the coordinator names in turn; publishers go to the head."""
    session = Session(
        *addresses, coordinator=coordinator, give_up_s=give_up_s, C=office, edge1="well", edge2="well", head="well"
    )
    session.sends_to["C"] = ["edge1", "edge2"]
    session.publish_at |= {"edge1": "head", "edge2": "head"}
    return session


def cut(session: Session, broker: str) -> None:
    """The broker is gone, with its connections."""
    session.brokers[broker] = "gone"
    for conn in [conn for conn, there in session.lines.items() if there == broker]:
        del session.lines[conn]
        session.happens(Closed(conn, "closed by the broker"))


def test_the_coordinator_says_which_broker_to_use() -> None:
    session = coordinated()
    session.happens(Connect(1))
    assert session.finished[1] == (0.0, None)
    session.happens(SUBSCRIBE)
    session.happens(AdvertiseThat(2, [2], [ANYTHING]))
    assert session.dialled == ["C", "edge1", "head"]
    assert (session.core.broker("subscribe"), session.core.broker("publish")) == ("edge1", "head")
    assert sorted(session.lines.values()) == ["edge1", "head"]  # the coordinator is not kept busy


def test_who_publishes_first_and_subscribes_later_is_placed_by_the_coordinator() -> None:
    """bad §3: not by the broker that it publishes at, which knows nobody's load or place."""
    session = coordinated()
    session.subscribe_at["head"] = "edge3"
    session.brokers["edge3"] = "well"
    session.happens(Connect(1))
    session.happens(AdvertiseThat(2, [2], [ANYTHING]))
    assert sorted(session.lines.values()) == ["head"]
    session.happens(SUBSCRIBE)
    assert session.dialled == ["C", "edge1", "head", "C", "edge2"]
    assert session.core.broker("subscribe") == "edge2"


def test_without_its_coordinator_a_broker_says_where_subscribers_go() -> None:
    session = coordinated()
    session.subscribe_at["head"] = "edge3"
    session.brokers["edge3"] = "well"
    session.happens(AdvertiseThat(2, [2], [ANYTHING]))
    session.brokers["C"] = "gone"
    session.happens(SUBSCRIBE)
    session.runs(5)
    assert session.core.broker("subscribe") in ("edge1", "edge3")


def test_to_connect_is_to_reach_a_broker_and_not_only_the_coordinator() -> None:
    session = coordinated(give_up_s=2.0)
    session.brokers |= {"edge1": "gone", "edge2": "gone"}
    session.happens(Connect(1))
    session.runs(10)
    error = session.finished[1][1]
    assert isinstance(error, Unavailable)
    assert error.message.startswith("no broker could be reached through the coordinator at C for 2 s: edge")


def test_who_loses_its_broker_asks_the_coordinator_again() -> None:
    """Also if it knows brokers itself: first it is the coordinator's turn."""
    session = coordinated("head")
    session.happens(SUBSCRIBE)
    cut(session, "edge1")
    session.runs(1)
    assert session.dialled == ["C", "edge1", "C", "edge2"]
    assert session.core.broker("subscribe") == "edge2"
    cut(session, "edge2")
    session.brokers["edge1"] = "well"
    session.runs(1)
    assert session.dialled[4:] == ["C", "edge1"]


def test_who_was_moved_asks_the_coordinator_again_when_that_broker_is_gone() -> None:
    session = coordinated()
    session.brokers["edge3"] = "well"
    session.happens(SUBSCRIBE)
    (conn,) = session.lines
    session.happens(Heard(conn, Move(1, "subscribe", BrokerId("edge3"), "edge3")))
    assert session.core.broker("subscribe") == "edge3"
    cut(session, "edge3")
    session.runs(1)
    assert session.dialled == ["C", "edge1", "edge3", "C", "edge2"]


def test_while_the_coordinator_is_gone_brokers_that_are_known_will_do() -> None:
    session = coordinated()
    session.happens(SUBSCRIBE)
    session.brokers["C"] = "gone"
    (conn,) = session.lines
    del session.lines[conn]
    session.happens(Closed(conn, "closed by the broker"))
    session.runs(2)
    assert session.core.broker("subscribe") == "edge1"
    assert [told.what for told in session.told] == ["connection lost", "the coordinator names no broker"]
    assert session.told[1].facts == {"address": "C", "reason": "C: Connection refused"}


@pytest.mark.parametrize("manner", ["gone", "hung"])
def test_a_coordinator_that_is_not_there_is_named(manner: Manner) -> None:
    session = coordinated(office=manner, give_up_s=5.0)
    session.happens(Connect(1))
    session.runs(10)
    error = session.finished[1][1]
    assert isinstance(error, Unavailable)
    why = "C: Connection refused" if manner == "gone" else "C does not answer, though it can be reached"
    assert error.message == f"no broker could be reached through the coordinator at C for 5 s: {why}"
    assert [told.what for told in session.told] == ["the coordinator names no broker"]


def test_that_no_broker_is_there_yet_is_told_once_and_asked_again() -> None:
    session = coordinated(office=Bye("unavailable", "no broker is connected", 1.0))
    session.happens(Connect(1))
    session.runs(5)
    session.brokers["C"] = "well"
    session.runs(1)
    assert session.finished[1][1] is None
    (told,) = session.told
    assert told.facts == {"address": "C", "reason": "no broker is connected"}


def test_with_addresses_beside_it_nobody_needs_the_coordinator() -> None:
    session = coordinated("head", office="hung")
    session.happens(SUBSCRIBE)
    session.runs(3 * WELCOME_S)
    assert session.core.broker("subscribe") == "head"


def test_the_address_of_a_coordinator_is_an_address_like_any_other() -> None:
    session = coordinated("C", coordinator=None)
    session.happens(SUBSCRIBE)
    cut(session, "edge1")
    session.runs(1)
    assert session.dialled == ["C", "edge1", "C", "edge2"]


def test_what_the_coordinator_will_never_do_ends_the_session() -> None:
    session = coordinated(office=Bye("usage", "say where you are", -1.0))
    session.happens(Connect(1))
    error = session.finished[1][1]
    assert isinstance(error, UsageError)
    assert error.message == "say where you are"
    assert session.dialled == ["C"]


def test_coordinators_that_send_us_to_each_other_are_left() -> None:
    session = coordinated(give_up_s=1.0)
    session.sends_to |= {"C": ["edge1"], "edge1": ["C"]}
    session.happens(Connect(1))
    assert len(session.dialled) == 9
    session.runs(5)
    assert "sent on again and again" in str(session.finished[1][1])


def test_a_place_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="degrees"):
        ClientConfig(addresses=["A"], location=(91.0, 0.0))
