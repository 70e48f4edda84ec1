"""A subscriber is sent on while the broker before still has something for it (peer §6.2)."""

from __future__ import annotations

from tests.client.brokers import Session
from tidewire.client.events import ClientEffect, SubscribeTo
from tidewire.language import compile_filter
from tidewire.model.filters import encode_filter
from tidewire.model.ids import BrokerId, Conn
from tidewire.model.messages import Leave, Left, Message, Move, Stay, Subscribe
from tidewire.wire.connections import Closed, Heard, Send

OLD, NEW = Conn(1), Conn(2)
WANTED = encode_filter(compile_filter("price > 10"))


class Recorded(Session):
    """What it sends is kept."""

    def __init__(self) -> None:
        super().__init__("old", old="well", new="well")
        self._sent: list[tuple[Conn, Message]] = []

    def sent(self) -> list[tuple[Conn, Message]]:
        return self._sent

    def last(self) -> tuple[Conn, Message]:
        return self._sent[-1]

    def _act(self, effect: ClientEffect) -> None:
        if isinstance(effect, Send):
            self._sent.append((effect.conn, effect.message))
        super()._act(effect)


def test_one_move_after_the_other() -> None:
    """peer M7: the new broker sends us on, the old one has something left: we stay, and let go of neither."""
    session = Recorded()
    session.happens(SubscribeTo(1, [1], [WANTED]))
    session.brokers["old"] = "hung"
    session.happens(Heard(OLD, Move(1, "subscribe", BrokerId("new"), "new")))
    assert session.last() == (OLD, Leave(1))
    session.brokers["new"] = "hung"
    session.happens(Heard(NEW, Move(9, "subscribe", BrokerId("third"), "third")))
    assert session.last() == (NEW, Stay(9, "this session is not served here, or moves already"))
    assert sorted(session.lines) == [OLD, NEW]
    session.happens(Heard(OLD, Left(1)))
    assert session.core.broker("subscribe") == "new"


def test_who_cannot_stay_at_the_new_broker_says_all_again_at_the_old_one() -> None:
    """The old one was told to let us go: it may have, and what it has not sent then is lost as with any connection."""
    session = Recorded()
    session.happens(SubscribeTo(1, [1], [WANTED]))
    session.brokers["old"] = "hung"
    session.happens(Heard(OLD, Move(1, "subscribe", BrokerId("new"), "new")))
    assert session.last() == (OLD, Leave(1))
    session.happens(Closed(NEW, "the broker died"))
    (stayed, wanted) = [message for conn, message in session.sent() if conn == OLD][-2:]
    assert stayed == Stay(1, "the broker died")
    assert isinstance(wanted, Subscribe)
    assert (wanted.numbers, wanted.filters) == ([1], [WANTED])
    assert session.core.broker("subscribe") == "old"
