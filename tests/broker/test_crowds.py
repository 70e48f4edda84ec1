"""Very many connections: what one of them does, and what time brings, takes no look at the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.routing.network import encoded
from tidewire._kernel.codec import encode
from tidewire.broker.client import Client
from tidewire.broker.clients import Clients
from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import GUESTS_MAX, BrokerCore
from tidewire.broker.effects import Effect, Note
from tidewire.broker.events import MoveClient, NoRoom
from tidewire.broker.expiries import Expiries
from tidewire.broker.guests import Guests
from tidewire.broker.node import BrokerNode
from tidewire.broker.turns import PINGS_AT_ONCE
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.protocol import Traffic
from tidewire.identity.authority import Authority, Identity
from tidewire.identity.grants import EVERYTHING, Permissions
from tidewire.identity.guard import Trust
from tidewire.model.events import make_event
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import (
    ANYTHING,
    VERSION,
    Advertise,
    Bye,
    Done,
    Hello,
    Leave,
    Left,
    Ping,
    Refused,
    Stay,
    Subscribe,
    Unadvertise,
)
from tidewire.routing.answers import Uninstall
from tidewire.wire.connections import Close, Closed, Heard, Opened, Peer, Send, TimePassed
from tidewire.wire.frames import message_frame, publish_frame

SECOND = 1_000_000_000
NOW = Nanoseconds(SECOND)


def at(seconds: float) -> Nanoseconds:
    return Nanoseconds(NOW + int(seconds * SECOND))


def broker(clients: int, **settings: Any) -> BrokerCore:
    core = BrokerCore(
        BrokerConfig(broker=BrokerId("A"), heartbeat_s=1.0, connections_max=50_000, **settings),
        incarnation=1,
        chance=Random(1),
    )
    for number in range(clients):
        core.handle(Opened(Conn(number)), now_ns=NOW)
        hello = Hello(version=VERSION, name=f"client{number}", uses=["publish", "subscribe"])
        core.handle(Heard(Conn(number), hello), now_ns=NOW)
    return core


def ended(effects: list[Effect]) -> list[Conn]:
    return [one.conn for one in effects if isinstance(one, Close)]


def pinged(effects: list[Effect]) -> list[Conn]:
    return [one.conn for one in effects if isinstance(one, Send) and isinstance(one.message, Ping)]


def goodbyes(effects: list[Effect]) -> list[str]:
    return [one.message.code for one in effects if isinstance(one, Send) and isinstance(one.message, Bye)]


class _Counted(dict[Conn, Client]):
    """A dict of all clients that knows how often it was gone through."""

    walks = 0

    def _walked(self, walk: Callable[[], Any]) -> Any:
        type(self).walks += 1
        return walk()

    def __iter__(self) -> Iterator[Conn]:
        return self._walked(super().__iter__)  # type: ignore[no-any-return]

    def items(self) -> Any:
        return self._walked(super().items)

    def values(self) -> Any:
        return self._walked(super().values)

    def keys(self) -> Any:
        return self._walked(super().keys)


def test_neither_time_nor_a_client_makes_it_look_at_all_clients() -> None:
    """Ten thousand of them would make everybody wait, again and again."""
    core = broker(300)
    clients: Clients = core.clients
    clients._clients = _Counted(clients._clients)
    _Counted.walks = 0
    assert len(clients) == 300
    core.handle(Heard(Conn(1), Advertise(1, [1], [ANYTHING])), now_ns=at(0.1))
    core.handle(Heard(Conn(2), Subscribe(1, [1], [b"\x91\x80"])), now_ns=at(0.1))
    core.handle(Heard(Conn(1), Unadvertise(2, [1])), now_ns=at(0.2))
    core.handle(Closed(Conn(3)), now_ns=at(0.2))
    for tick in range(1, 40):
        core.handle(TimePassed(), now_ns=at(tick / 2))
    assert _Counted.walks == 0
    core.handle(Trust(Authority(domain="d", token_key=""), unix_ns=10**18), now_ns=at(30))
    assert _Counted.walks == 1, "the count would not have seen it"


def test_of_those_who_publish_each_is_pinged_with_every_heartbeat_a_few_at_a_time() -> None:
    """A thousand pings in one moment are a pause for everybody."""
    core = broker(1_000)
    publishers = [Conn(number) for number in range(900)]
    for conn in publishers:
        core.handle(Heard(conn, Advertise(1, [1], [ANYTHING])), now_ns=NOW)
    times: dict[Conn, list[float]] = {conn: [] for conn in publishers}
    listeners: list[Conn] = []
    due = core.deadline_ns()
    core.handle(TimePassed(), now_ns=Nanoseconds(due or 0))
    while (due := core.deadline_ns()) is not None and due < at(5):
        turn = pinged(core.handle(TimePassed(), now_ns=Nanoseconds(due)))
        assert len(turn) <= PINGS_AT_ONCE + PINGS_AT_ONCE // 8
        for conn in turn:
            if conn in times:
                times[conn].append((due - NOW) / SECOND)
            else:
                listeners.append(conn)
    for pings in times.values():
        gaps = [after - before for before, after in pairwise(pings)]
        assert len(gaps) >= 3
        assert max(gaps) <= 1.1
    assert len(set(listeners)) == 100
    assert len(listeners) <= 5 * 2 * PINGS_AT_ONCE


def test_who_no_longer_publishes_has_the_turn_of_those_who_listen() -> None:
    core = broker(3 * PINGS_AT_ONCE)
    core.handle(Heard(Conn(100), Advertise(1, [1, 2], [ANYTHING, ANYTHING])), now_ns=NOW)
    assert all(Conn(100) in pinged(core.handle(TimePassed(), now_ns=at(tick))) for tick in range(1, 4))
    core.handle(Heard(Conn(100), Unadvertise(2, [1])), now_ns=at(3))
    assert all(Conn(100) in pinged(core.handle(TimePassed(), now_ns=at(tick))) for tick in range(4, 7))
    core.handle(Heard(Conn(100), Unadvertise(3, [2])), now_ns=at(6))
    turns = [pinged(core.handle(TimePassed(), now_ns=at(tick))) for tick in range(7, 13)]
    assert sum(Conn(100) in turn for turn in turns) == 2


def test_a_move_that_takes_too_long_is_noted_once_and_may_be_tried_again() -> None:
    core = broker(3, migration_timeout_s=5.0)

    def notes(effects: list[Effect]) -> list[str]:
        return [one.what for one in effects if isinstance(one, Note)]

    def move(conn: int, seconds: float) -> list[str]:
        return notes(core.handle(MoveClient(Conn(conn), "subscribe", "there:1"), now_ns=at(seconds)))

    assert move(0, 0) == move(1, 1) == move(2, 1) == ["client moves"]
    assert move(0, 2) == []
    core.handle(Heard(Conn(2), Stay(3, "no")), now_ns=at(2))
    core.handle(Heard(Conn(1), Stay(1, "that is another's session")), now_ns=at(2))
    told = {second: notes(core.handle(TimePassed(), now_ns=at(second))) for second in range(1, 12)}
    assert {second: notes for second, notes in told.items() if notes} == {
        5: ["a client did not move in time"],
        6: ["a client did not move in time"],
    }
    assert move(0, 12) == ["client moves"]
    core.handle(Closed(Conn(0)), now_ns=at(12))
    assert all(notes(core.handle(TimePassed(), now_ns=at(second))) == [] for second in range(13, 20))


def test_who_stays_after_all_may_be_moved_again() -> None:
    """peer M7: who is served elsewhere is not chosen again; who had to come back is."""
    core = broker(2)
    for conn in (Conn(0), Conn(1)):
        core.handle(MoveClient(conn, "subscribe", "there:1"), now_ns=at(0))
    core.handle(Heard(Conn(0), Leave(1)), now_ns=at(1))
    core.handle(Heard(Conn(0), Stay(7, "of another session")), now_ns=at(1))
    assert [core.clients.may_move(conn) for conn in (Conn(0), Conn(1))] == [False, True]
    core.handle(Heard(Conn(0), Stay(1, "the new broker is gone")), now_ns=at(2))
    assert core.clients.may_move(Conn(0))


def test_who_leaves_is_sent_nothing_more_behind_left() -> None:
    """peer M4, beyond M7: what comes after Left the new broker brings; who stays after all says again what it wants."""
    core = broker(2)
    core.handle(Heard(Conn(0), Subscribe(1, [1, 2], [encoded("n >= 0"), encoded("n < 9")])), now_ns=at(0))
    core.handle(Heard(Conn(1), Subscribe(1, [1], [encoded("n >= 0")])), now_ns=at(0))
    for conn in (Conn(0), Conn(1)):
        core.handle(MoveClient(conn, "subscribe", "there:1"), now_ns=at(0))
    effects = core.handle(Heard(Conn(0), Leave(1)), now_ns=at(1))
    (told,) = [one for one in effects if isinstance(one, Send) and isinstance(one.message, Left)]
    (gone,) = [one for one in effects if isinstance(one, Uninstall)]
    assert (told.conn, gone.conn, sorted(gone.numbers)) == (0, 0, [1, 2])
    assert effects.index(told) < effects.index(gone)
    assert core.clients.using("subscribe") == [1]
    core.handle(Heard(Conn(0), Stay(1, "the new broker is gone")), now_ns=at(2))
    core.handle(Heard(Conn(0), Subscribe(2, [1], [encoded("n >= 0")])), now_ns=at(2))
    assert sorted(core.clients.using("subscribe")) == [0, 1]


def test_at_the_limit_a_filter_may_be_changed_or_said_again() -> None:
    core = broker(1, subscriptions_max=2)

    def answer(numbers: list[int]) -> list[type]:
        wanted = Subscribe(1, numbers, [encoded("n >= 0")] * len(numbers))
        told = core.handle(Heard(Conn(0), wanted), now_ns=at(0))
        return [type(one.message) for one in told if isinstance(one, Send)]

    assert answer([1, 2]) == answer([1, 2]) == answer([2]) == [Done]
    assert answer([3]) == answer([2, 3]) == [Refused]


class _Asked(KernelEngine):
    """An engine that knows of how many connections it was asked."""

    asked = 0

    def traffic(self, conn: Conn) -> Traffic:
        self.asked += 1
        return super().traffic(conn)


def test_when_one_loses_events_the_others_are_not_looked_at() -> None:
    engine = _Asked()
    config = BrokerConfig(broker=BrokerId("A"), queue_bytes_max=4096, slow_subscriber="drop")
    node = BrokerNode(BrokerCore(config, incarnation=1, chance=Random(1)), engine)
    for number in range(200):
        node.handle(Opened(Conn(number)), now_ns=NOW)
        hello = Hello(version=VERSION, name=f"client{number}", uses=["publish", "subscribe"])
        node.receive(Conn(number), message_frame(hello), now_ns=NOW)
    node.receive(Conn(7), message_frame(Subscribe(1, [1], [encoded("n >= 0")])), now_ns=NOW)
    node.receive(Conn(8), message_frame(Advertise(1, [1], [ANYTHING])), now_ns=NOW)
    for second in (1, 2):
        event = publish_frame(encode(make_event({"n": 1}, body=b"x" * 100)), born_ns=1)
        node.receive(Conn(8), 100 * event, now_ns=at(second))
        engine.asked = 0
        noted = node.handle(TimePassed(), now_ns=at(second))
        assert [one.facts["client"] for one in noted if isinstance(one, Note)] == ["client7"]
        assert engine.asked == 1


# -- those who may stay until then ------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "due"]), st.integers(0, 20), st.integers(0, 50))))
def test_expiries_are_those_of_a_plain_table(steps: list[tuple[str, int, int]]) -> None:
    """Numbers of connections are used again, with the same time or another."""
    expiries, table = Expiries(), dict[Conn, float]()
    for step, number, time in steps:
        conn = Conn(number)
        match step:
            case "add":
                if conn not in table:
                    table[conn] = time
                    expiries.add(conn, time)
            case "remove":
                table.pop(conn, None)
                expiries.remove(conn)
            case _:
                over = [conn for conn, until in table.items() if until <= time]
                assert sorted(expiries.due(time)) == sorted(over)
                for conn in over:
                    del table[conn]


def test_those_who_come_and_go_leave_nothing_behind() -> None:
    expiries = Expiries()
    for number in range(10_000):
        expiries.add(Conn(number % 7), 1e9 + number)
        expiries.remove(Conn(number % 7))
    assert len(expiries) < 200
    assert expiries.due(1e12) == []


def test_the_time_of_one_who_has_gone_is_not_that_of_the_next_with_its_number() -> None:
    expiries = Expiries()
    expiries.add(Conn(1), 10)
    expiries.remove(Conn(1))
    expiries.add(Conn(1), 20)
    assert [expiries.due(time) for time in (10, 19, 20, 30)] == [[], [], [Conn(1)], []]


def test_who_has_expired_is_turned_away_once() -> None:
    core = broker(0)
    core.handle(Trust(Authority(domain="d", token_key=""), unix_ns=1_000 * SECOND), now_ns=NOW)

    def come(conn: int, expires_s: float | None) -> None:
        identity = Identity("ann", Permissions("ann", EVERYTHING), token=f"t{conn}", expires_s=expires_s)
        hello = Hello(version=VERSION, name=f"ann{conn}", uses=["subscribe"])
        core.clients.greet(Conn(conn), hello, identity, core.links.welcome([]), now_ns=NOW)

    for conn, expires_s in ((1, 1_005), (2, 1_003), (3, None), (4, 1_003)):
        come(conn, expires_s)
    core.handle(Closed(Conn(4)), now_ns=NOW)
    come(4, None)
    told = {second: core.handle(TimePassed(), now_ns=at(second)) for second in range(1, 8)}
    assert {second: ended(effects) for second, effects in told.items() if ended(effects)} == {
        3: [Conn(2)],
        5: [Conn(1)],
    }
    assert goodbyes(told[3]) == ["not-authenticated"]


def _peer(name: str) -> Peer:
    return Peer("broker", name, f"fingerprint of {name}")


def test_a_revoked_certificate_is_turned_away_at_the_door_and_when_it_is_revoked() -> None:
    core = broker(0, security="keys", neighbours=["there:1"])
    authority = Authority(domain="d", token_key="", revoked={"fingerprint of mallory": None})
    core.handle(Trust(authority, unix_ns=10**18), now_ns=NOW)
    assert ended(core.handle(Opened(Conn(1), None, _peer("mallory")), now_ns=NOW)) == [Conn(1)]
    assert ended(core.handle(Opened(Conn(2), None, _peer("ann")), now_ns=NOW)) == []
    stricter = Authority(domain="d", token_key="", revoked={"fingerprint of ann": None})
    assert ended(core.handle(Trust(stricter, unix_ns=10**18), now_ns=NOW)) == [Conn(2)]


def test_a_neighbour_whose_certificate_is_revoked_is_dialled_again_later() -> None:
    """It may have another by then."""
    core = broker(0, security="keys", neighbours=["there:1"])
    core.handle(Trust(Authority(domain="d", token_key="", revoked={"fingerprint of B": None}), unix_ns=1), now_ns=NOW)
    core.handle(TimePassed(), now_ns=NOW)
    for conn, order in ((1, 1), (2, 2)):
        assert ended(core.handle(Opened(Conn(conn), order, _peer("B")), now_ns=NOW)) == [Conn(conn)]
    assert not core.links.is_link(Conn(1))
    due = core.links.deadline_ns()
    assert due is not None
    assert NOW < due < at(10)


# -- those who have not said who they are ------------------------------------------------------------------------------


def test_guests_from_a_crowded_place_make_room_for_each_other() -> None:
    """Who opens connections and says nothing does not push out anybody from elsewhere."""
    core = broker(0)
    core.handle(Opened(Conn(1), place="10.0.0.1"), now_ns=NOW)
    for number in range(2, GUESTS_MAX + 1):
        assert ended(core.handle(Opened(Conn(number), place="10.6.6.6"), now_ns=NOW)) == []
    core.handle(Opened(Conn(GUESTS_MAX + 1), place="10.0.0.2"), now_ns=at(1))
    for number in range(5_000):
        gone = core.handle(Opened(Conn(10_000 + number), place="10.6.6.6"), now_ns=at(1))
        expected = 3 + number if number + 3 <= GUESTS_MAX else 10_000 + number - GUESTS_MAX + 2
        assert ended(gone) == [Conn(expected)]
        assert goodbyes(gone) == ["limit"]
    for conn in (Conn(1), Conn(GUESTS_MAX + 1)):
        hello = Hello(version=VERSION, name="slow but honest", uses=["subscribe"])
        assert goodbyes(core.handle(Heard(conn, hello), now_ns=at(2))) == []
        assert conn in core.clients


@given(st.lists(st.tuples(st.sampled_from(["come", "leave", "room", "late"]), st.integers(0, 9), st.integers(0, 2))))
def test_guests_are_bounded_and_the_right_one_goes(steps: list[tuple[str, int, int]]) -> None:
    guests, table = Guests(most=5, patience_ns=10), dict[Conn, tuple[str, int]]()

    def crowded() -> list[Conn]:
        sizes: dict[str, int] = {}
        for place, _ in table.values():
            sizes[place] = sizes.get(place, 0) + 1
        most = max(sizes.values(), default=0)
        return [next(c for c, (p, _) in table.items() if p == place) for place in sizes if sizes[place] == most]

    for now, (step, number, where) in enumerate(steps):
        conn, now_ns = Conn(number), Nanoseconds(now)
        match step:
            case "come" if conn not in table:
                candidates = crowded() if len(table) == 5 else [None]
                gone = guests.come(conn, f"place {where}", now_ns)
                assert gone in candidates
                table.pop(gone, None) if gone is not None else None
                table[conn] = f"place {where}", now + 10
            case "leave":
                guests.leave(conn)
                table.pop(conn, None)
            case "room":
                candidates = crowded() or [None]
                gone = guests.make_room()
                assert gone in candidates
                table.pop(gone, None) if gone is not None else None
            case "late":
                over = [conn for conn, (_, until) in table.items() if until <= now]
                assert guests.overdue(now_ns) == over
                for conn in over:
                    del table[conn]
        assert list(guests) == list(table)
        assert len(guests) == len(table) <= 5
        assert guests.deadline_ns() == next((until for _, until in table.values()), None)


@pytest.mark.parametrize("guests", [0, 2])
def test_without_room_for_one_more_a_guest_goes_if_there_is_one(guests: int) -> None:
    core = broker(3)
    for number in range(guests):
        core.handle(Opened(Conn(100 + number)), now_ns=NOW)
    assert [ended(core.handle(NoRoom(), now_ns=NOW)) for _ in range(3)] == [
        [Conn(100 + number)] if number < guests else [] for number in range(3)
    ]
