"""The coordinator as BAD's: users and where they are served, reports and who is to move (bad §1.1, §4)."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from tidewire.coordinator.balancing import BalanceView
from tidewire.coordinator.config import Decides
from tidewire.coordinator.core import CoordinatorCore, CoordinatorEffect, Save, read_saved
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import Bye, DeclaredRole, Done, Message, Refused, Register, Status
from tidewire.model.placement_messages import (
    AskBalance,
    BrokerFound,
    ClientMove,
    Migrate,
    Migrated,
    RegisterUser,
    ReportedClient,
    ReportLoad,
    RequestBroker,
    WantReports,
)
from tidewire.wire.connections import Close, Closed, Heard, Opened, Send

USER = Conn(1)
FIRST, SECOND, HEAD = Conn(11), Conn(12), Conn(13)
KEYS = [bytes([k]) * 16 for k in range(4)]
STAGES = {"migrate_load_min": 1, "shuffle_load_min": 1, "cycle_s": 10, "average_s": 10}


class Office:
    """A coordinator with a head and two edges."""

    def __init__(self, saved: bytes | None = None, **decides: Any) -> None:
        checked = msgspec.convert({"balance": STAGES, **decides}, Decides)
        self.core = CoordinatorCore(saved, chance=Random(1), decides=checked)
        self.saved = saved
        self.time_s = 0.0
        self.says(USER, None)
        roles: dict[Conn, tuple[str, DeclaredRole]] = {
            HEAD: ("head", "head"),
            FIRST: ("first", "edge"),
            SECOND: ("second", "edge"),
        }
        self.first_words = [
            said
            for conn, (name, role) in roles.items()
            for said in self.says(conn, Register(BrokerId(name), 1, f"{name}:1", role))
        ]

    def says(self, conn: Conn, message: Message | None) -> list[Message]:
        """What is answered, to anybody."""
        now_ns = Nanoseconds(int(self.time_s * 1e9))
        effects: list[CoordinatorEffect] = []
        if message is None or isinstance(message, Register):
            effects += self.core.handle(Opened(conn), now_ns=now_ns)
        if message is not None:
            effects += self.core.handle(Heard(conn, message), now_ns=now_ns)
        for effect in effects:
            if isinstance(effect, Save):
                self.saved = effect.document
        self.closed = [effect.conn for effect in effects if isinstance(effect, Close)]
        return [effect.message for effect in effects if isinstance(effect, Send)]

    def reports(self, conn: Conn, clients: dict[str, list[int]], sizes: list[float] | None = None) -> list[Message]:
        told = [ReportedClient(number, name, wants) for number, (name, wants) in enumerate(clients.items())]
        return self.says(
            conn,
            ReportLoad(seconds=10.0, is_open=conn != HEAD, keys=KEYS, sizes=sizes or [1000.0] * 4, clients=told),
        )

    def view(self) -> BalanceView:
        [answer] = self.says(USER, AskBalance(1))
        assert isinstance(answer, Status)
        return msgspec.json.decode(answer.document, type=BalanceView)


CROWD: dict[str, list[int]] = {"a": [0, 1], "b": [0], "c": [2], "d": [2, 3]}


def orders(told: list[Message]) -> list[Migrate]:
    return [one for one in told if isinstance(one, Migrate)]


def test_a_user_registers_and_is_told_its_broker() -> None:
    """bad §1.1 step 3: edges in turn; a head that has edges takes no subscribers."""
    office = Office()
    assert office.says(USER, RegisterUser(1, "ann")) == [Done(1)]
    found = [office.says(USER, RequestBroker(n, "ann"))[0] for n in range(3)]
    assert [(one.broker, one.address) for one in found if isinstance(one, BrokerFound)] == [
        ("first", "first:1"),
        ("second", "second:1"),
        ("first", "first:1"),
    ]


def test_who_has_not_registered_is_refused() -> None:
    [answer] = Office().says(USER, RequestBroker(7, "ann"))
    assert isinstance(answer, Refused)
    assert (answer.request, answer.code) == (7, "user-unknown")
    assert "register it first" in answer.reason


@pytest.mark.parametrize("name", ["\0", "a\nb", "\x1b[2J"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    office = Office()
    (refused,) = office.says(USER, RegisterUser(1, name))
    assert isinstance(refused, Refused)
    assert (refused.request, refused.code) == (1, "usage")
    assert office.core.users.names() == []


def test_without_brokers_there_is_nobody_to_name() -> None:
    office = Office()
    office.says(USER, RegisterUser(1, "ann"))
    for conn in (FIRST, SECOND, HEAD):
        office.core.handle(Closed(conn), now_ns=Nanoseconds(0))
    [answer] = office.says(USER, RequestBroker(2, "ann"))
    assert isinstance(answer, Refused)
    assert answer.code == "unavailable"


def test_users_survive_a_restart() -> None:
    """What was confirmed is remembered; it is saved before it is confirmed."""
    before = Office()
    before.says(USER, RegisterUser(1, "ann"))
    after = Office(before.saved)
    assert isinstance(after.says(USER, RequestBroker(2, "ann"))[0], BrokerFound)
    effects = before.core.handle(Heard(USER, RegisterUser(3, "bob")), now_ns=Nanoseconds(0))
    assert [type(effect) for effect in effects] == [Save, Send]
    assert before.core.handle(Heard(USER, RegisterUser(4, "bob")), now_ns=Nanoseconds(0)) == [Send(USER, Done(4))]


def test_what_was_saved_before_there_were_users_is_still_read() -> None:
    old = msgspec.json.encode(read_saved(Office().saved).brokers)
    assert [one.broker for one in read_saved(old).brokers] == ["head", "first", "second"]
    with pytest.raises(ValueError, match="xpected"):
        read_saved(b"7")


def test_the_nearest_broker_by_where_one_is() -> None:
    """bad §3: NR."""
    places = {"first": {"lat": 60.2, "lon": 24.9}, "second": {"lat": -17.7, "lon": 178.0}}
    office = Office(placement="nearest", locations=places)
    office.says(USER, RegisterUser(1, "ann"))
    [answer] = office.says(USER, RequestBroker(2, "ann", (-18.0, -179.0)))
    assert isinstance(answer, BrokerFound)
    assert answer.broker == "second"
    [refused] = office.says(USER, RequestBroker(3, "ann"))
    assert isinstance(refused, Refused)
    assert "say where you are" in refused.reason


def test_the_least_loaded_broker_by_what_was_reported() -> None:
    """bad §3: LL."""
    office = Office(placement="least-loaded")
    assert [one for one in office.first_words if isinstance(one, WantReports)] == [WantReports(10.0, 256)] * 3
    office.says(USER, RegisterUser(1, "ann"))
    office.reports(FIRST, CROWD)
    office.reports(SECOND, {"e": [0]})
    for request in range(3):
        [answer] = office.says(USER, RequestBroker(request, "ann"))
        assert isinstance(answer, BrokerFound)
        assert answer.broker == "second"


def test_nobody_is_asked_to_report_for_nothing() -> None:
    assert not [one for one in Office().first_words if isinstance(one, WantReports)]


def test_a_plan_goes_to_the_brokers_that_have_to_do_something() -> None:
    """bad §4.2: when all have reported; a head that takes no subscribers is no destination."""
    office = Office(balancing="ldm")
    assert orders(office.reports(FIRST, CROWD)) == [], "the second one has not reported"
    office = Office(balancing="ldm")
    for conn in (HEAD, SECOND):
        assert orders(office.reports(conn, {})) == []
    [order] = orders(office.reports(FIRST, CROWD))
    assert order.plan == 1
    assert {move.broker for move in order.moves} == {"second"}
    assert order.moves[0] == ClientMove(0, "a", BrokerId("second"), "second:1"), "the heaviest, the first of two"
    seen = office.view()
    assert (seen.policy, seen.plans, seen.is_moving) == ("ldm", 1, True)
    assert seen.last_cov_predicted < seen.last_cov_before == 1.0


def test_loads_are_those_of_the_formula() -> None:
    """bad eq. (5): 100 bytes/s for each filter; at the first broker four come in and six go out."""
    office = Office(balancing="sdm")
    office.reports(HEAD, {})
    office.reports(SECOND, {"e": [0]})
    office.reports(FIRST, CROWD)
    loads = {one.broker: (one.load_bytes_s, one.subscribers) for one in office.view().brokers}
    assert loads == {"head": (0.0, 0), "second": (200.0, 1), "first": (1000.0, 4)}


def test_what_is_new_at_a_broker_is_known_from_the_others() -> None:
    """bad §2.3: a subscriber that has just moved takes its rates along, though its new broker has seen nothing yet."""
    office = Office(balancing="sdm", balance={**STAGES, "average_s": 100})
    for _ in range(9):
        office.time_s += 10
        office.reports(HEAD, {})
        office.reports(FIRST, CROWD)
    office.time_s += 10
    office.reports(SECOND, {"e": [0]}, [0.0] * 4)
    loads = {one.broker: one.load_bytes_s for one in office.view().brokers}
    assert loads == pytest.approx({"head": 0.0, "second": 180.0, "first": 900.0}), "nine told 100, one 0"


def test_who_only_wants_to_see_the_loads_gets_reports_too() -> None:
    office = Office(always_reports=True)
    assert [one for one in office.first_words if isinstance(one, WantReports)] == [WantReports(10.0, 256)] * 3
    for conn in (HEAD, SECOND):
        office.reports(conn, {})
    assert orders(office.reports(FIRST, CROWD)) == []
    assert office.view().cov == 1.0


def test_nothing_is_decided_while_clients_are_on_their_way() -> None:
    """What was reported before they had moved is not decided on; a broker that never answers is not waited for."""
    office = Office(balancing="ldm")
    for conn in (HEAD, SECOND):
        office.reports(conn, {})
    assert orders(office.reports(FIRST, CROWD))
    office.time_s = 10
    for conn in (HEAD, SECOND, FIRST):
        assert orders(office.reports(conn, CROWD if conn == FIRST else {})) == []
    office.says(FIRST, Migrated(1, 2, 0))
    assert (office.view().moved, office.view().is_moving) == (2, False)
    for conn in (HEAD, SECOND):
        assert orders(office.reports(conn, {})) == []
    assert [order.plan for order in orders(office.reports(FIRST, CROWD))] == [2]
    office.time_s = 100
    for conn in (HEAD, SECOND):
        office.reports(conn, {})
    assert [order.plan for order in orders(office.reports(FIRST, CROWD))] == [3]


def test_a_broker_that_has_gone_is_not_waited_for() -> None:
    """What it told is forgotten, and the others are decided on without it."""
    office = Office(balancing="ldm")
    for conn in (HEAD, SECOND, FIRST):
        assert orders(office.reports(conn, {})) == []
    office.core.handle(Closed(HEAD), now_ns=Nanoseconds(0))
    assert [one.broker for one in office.view().brokers] == ["second", "first"]
    office.reports(SECOND, {})
    assert orders(office.reports(FIRST, CROWD))


@pytest.mark.parametrize(
    "report",
    [
        {"sizes": [1.0]},
        {"sizes": [float("inf")] * 4},
        {"keys": [KEYS[0]] * 4},
        {"clients": [ReportedClient(1, "a", [4])]},
    ],
)
def test_a_report_that_cannot_be_ends_the_connection(report: dict[str, Any]) -> None:
    office = Office(balancing="ldm")
    usual: dict[str, Any] = {"keys": KEYS, "sizes": [1.0] * 4, "clients": []}
    [answer] = office.says(FIRST, ReportLoad(seconds=1.0, is_open=True, **{**usual, **report}))
    assert isinstance(answer, Bye)
    assert office.closed == [FIRST]


def test_only_brokers_report() -> None:
    office = Office(balancing="ldm")
    [answer] = office.says(USER, ReportLoad(seconds=1.0, is_open=True, keys=[], sizes=[], clients=[]))
    assert isinstance(answer, Bye)
    assert office.view().brokers == []
