"""What neighbours say about streams, and what a broker does about it: ``streams.py``, with its engine and its log."""

from __future__ import annotations

import pytest

from tests.broker.test_any_message import ALL, ENGINES, OWN, PUBEND, THEIRS, Broker
from tests.dataplane.streaming import span_of
from tidewire._kernel.codec import encode
from tidewire.model.events import make_event
from tidewire.model.ids import BrokerId, Conn, PubendId, Tick
from tidewire.model.messages import ANYTHING, VERSION, Hello, Lane, Link, Message
from tidewire.model.routing_messages import Ads, Join, Offer, Routes, Sync, Synced
from tidewire.model.stream_messages import (
    Begun,
    Follow,
    Gap,
    Held,
    HeldFor,
    Hold,
    Holding,
    Nack,
    Progress,
    Replay,
    Stop,
    TakenOver,
)
from tidewire.wire.frames import RECOVER, STREAM, guarantee_frame

DATA, CONTROL = Conn(2), Conn(3)
ANN = Conn(4)
AFAR = PubendId(99)


@pytest.fixture(params=list(ENGINES))
def broker(request: pytest.FixtureRequest) -> Broker:
    """With an honest publisher, and a neighbour that is behind us in our tree and ahead of us in its own."""
    made = Broker(request.param)
    lanes: dict[Conn, Lane] = {DATA: "data", CONTROL: "control"}
    for conn, lane in lanes.items():
        made.opened(conn)
        made.says(conn, Link(version=VERSION, broker=BrokerId("X"), incarnation=1, address="X", lane=lane))
    made.says(DATA, Offer(THEIRS, [BrokerId("X")]))
    made.says(DATA, Ads(THEIRS, [1], [ANYTHING], True))
    made.says(DATA, Join(OWN))
    made.says(DATA, Routes(OWN, [1], [ALL]))
    return made


def publish(broker: Broker, *numbers: int) -> None:
    """Guaranteed, and durable."""
    for n in numbers:
        broker.sequence += 1
        event = encode(make_event({"n": n}))
        broker.hears(broker.HONEST, guarantee_frame(event, born_ns=1, sequence=broker.sequence))
    broker.passes(0.01)


def told(broker: Broker, kind: int) -> list[tuple[str, int | None]]:
    """The spans of this kind that wait for the neighbour: what they are, and the event."""
    found = [span_of(one, payload) for one, payload in broker.told(DATA) if one == kind]
    return [(span.kind, span.n) for span in found]


def said(broker: Broker, kind: type[Message]) -> list[Message]:
    """The messages of this kind that wait for the neighbour in the control lane."""
    return [one for one in broker.messages(CONTROL) if isinstance(one, kind)]


def synced(broker: Broker) -> None:
    """The neighbour turns around what it is asked, at its own source."""
    for _ in range(3):
        for one in broker.messages(DATA):
            if isinstance(one, Sync) and one.tree == THEIRS:
                broker.says(DATA, Synced(THEIRS, one.token, [(AFAR, Tick(500))]))


def test_what_a_neighbour_lacks_is_told_again(broker: Broker) -> None:
    """gryphon §1.1: NACKs are answered from the log."""
    publish(broker, 1, 2, 3)
    assert told(broker, STREAM) == [("plain", 1), ("plain", 2), ("plain", 3)]
    broker.says(CONTROL, Nack(OWN, PUBEND, [(Tick(1), Tick(2**63 - 1))]))
    broker.passes(0.01)
    assert [one for one in told(broker, STREAM) if one[1] is not None] == [("answer", n) for n in (1, 2, 3)]


def test_who_is_not_on_our_tree_is_told_nothing(broker: Broker) -> None:
    publish(broker, 1)
    broker.told(DATA)
    broker.says(CONTROL, Nack(THEIRS, PUBEND, [(Tick(1), Tick(2**62))]))
    broker.says(CONTROL, Replay(THEIRS, PUBEND, 7, Tick(1), ALL, 1000))
    broker.passes(0.01)
    assert told(broker, STREAM) == []
    assert told(broker, RECOVER) == []


def test_a_replay_is_told_and_can_be_stopped(broker: Broker) -> None:
    publish(broker, 1, 2)
    broker.told(DATA)
    broker.says(CONTROL, Replay(OWN, PUBEND, 7, Tick(1), ALL, 1 << 20))
    broker.passes(0.01)
    assert told(broker, RECOVER) == [("lost", None), ("plain", 1), ("plain", 2), ("last", None)]  # before the log began
    broker.says(CONTROL, Replay(OWN, PUBEND, 8, Tick(1), ALL, 1 << 20))
    broker.says(CONTROL, Stop(OWN, 8))
    broker.passes(0.01)
    assert told(broker, RECOVER) == []


def test_events_are_held_when_that_is_durable_and_not_before(broker: Broker) -> None:
    """gryphon §1.3: a subscription starts at a tick, fixed where it is installed."""
    publish(broker, 1)
    broker.messages(CONTROL)
    broker.says(CONTROL, Hold(OWN, 5, [Holding("ann", 1, 0), Holding("bob", 1, -1)]))
    assert said(broker, Held) == []
    broker.passes(0.01)
    (held,) = said(broker, Held)
    assert isinstance(held, Held)
    (ann, bob) = held.answers
    assert (held.token, [(one.state, one.is_new) for one in held.answers]) == (5, [("held", True), ("held", True)])
    assert dict(ann.places)[PUBEND] <= dict(bob.places)[PUBEND]
    assert broker.node.core.streams.pubends.holds.least(PUBEND) == dict(ann.places)[PUBEND]


def test_an_older_claim_is_told_that_it_is_over(broker: Broker) -> None:
    for claim in (1, 2):
        broker.says(CONTROL, Hold(OWN, claim, [Holding("ann", claim, -1)]))
        broker.passes(0.01)
    broker.messages(CONTROL)
    broker.says(CONTROL, Progress(OWN, PUBEND, ["ann"], [1], [Tick(2**60)]))
    assert said(broker, TakenOver) == [TakenOver(OWN, "ann", 1)]
    broker.says(CONTROL, Hold(OWN, 3, [Holding("ann", 0, -1, age_ms=0, kind="end")]))
    assert broker.node.core.streams.pubends.holds.names() == []
    assert said(broker, TakenOver) == [TakenOver(OWN, "ann", 2, is_ended=True, origin=1, age_ms=0)]


def asked(broker: Broker, kind: str = "claim") -> list[Hold]:
    """What the neighbour's store is asked for: by those who follow here, or by our own store."""
    holds = (one for one in broker.messages(CONTROL) if isinstance(one, Hold))
    return [one for one in holds if one.holdings[0].kind == kind]


def follow(broker: Broker) -> None:
    """Ann follows here."""
    broker.opened(ANN)
    broker.says(ANN, Hello(version=VERSION, name="ann", uses=["subscribe"], publisher=9))
    broker.says(ANN, Follow(1, 5, ALL, "mine", 77))


def test_a_follower_is_held_at_every_source_before_it_begins(broker: Broker) -> None:
    follow(broker)
    synced(broker)
    broker.passes(0.01)
    (hold,) = asked(broker)
    assert [one for one in broker.messages(ANN) if isinstance(one, Begun)] == []
    broker.says(CONTROL, Held(THEIRS, hold.token, []))  # no answer about her: it is asked again
    broker.passes(3)
    (again,) = asked(broker)
    broker.says(CONTROL, Held(THEIRS, again.token, [HeldFor("none")]))
    (begun,) = [one for one in broker.messages(ANN) if isinstance(one, Begun)]
    assert isinstance(begun, Begun)
    assert (begun.request, begun.number, [pubend for pubend, _ in begun.places]) == (1, 5, [PUBEND])


def test_only_its_parent_can_say_that_events_are_held(broker: Broker) -> None:
    follow(broker)
    synced(broker)
    broker.passes(0.01)
    (hold,) = asked(broker)
    broker.says(CONTROL, Held(OWN, hold.token, [HeldFor("none")]))
    assert [one for one in broker.messages(ANN) if isinstance(one, Begun | Gap)] == []


def test_the_neighbour_stays_whatever_of_this_it_says(broker: Broker) -> None:
    """Nothing of it breaks the protocol, even where it comes to nothing."""
    for message in (Stop(OWN, 3), TakenOver(OWN, "x", 1), Held(OWN, 9, []), Hold(OWN, 9, [])):
        broker.says(CONTROL, message)
    assert broker.delivers()
    assert CONTROL in broker.open
