"""Brokers that register and report by calls, and are told by the answers who is to move (bad §1.2, §4.5)."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from tidewire.coordinator.balancing import BalanceView
from tidewire.coordinator.config import Decides
from tidewire.coordinator.core import CoordinatorCore, Save
from tidewire.coordinator.foreign import FOREIGN_MAX, ForeignAnswer, ForeignMove
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import Bye, Done, Hello, Message, Refused, Register, Status
from tidewire.model.placement_messages import (
    AskBalance,
    BrokerFound,
    RegisterBroker,
    RegisterUser,
    ReportedClient,
    ReportFor,
    ReportLoad,
    RequestBroker,
)
from tidewire.wire.connections import Closed, Heard, Opened, Send, TimePassed

CALLER, OURS = Conn(1), Conn(2)
STAGES = {"migrate_load_min": 1, "shuffle_load_min": 1, "cycle_s": 10, "average_s": 10}
CROWD = {"ann": ["quakes", "fires"], "bob": ["quakes"], "cid": ["floods"], "dan": ["floods", "storms"]}


class Office:
    """A coordinator that is called."""

    def __init__(self, saved: bytes | None = None, **decides: Any) -> None:
        checked = msgspec.convert({"balance": STAGES, **decides}, Decides)
        self.core = CoordinatorCore(saved, chance=Random(1), decides=checked)
        self.saved = saved
        self.now_s = 0.0
        self.handle(Opened(CALLER))
        self.says(RegisterUser(1, "ann"))

    def handle(self, event: Any) -> list[Message]:
        """What is said, to anybody."""
        effects = self.core.handle(event, now_ns=Nanoseconds(int(self.now_s * 1e9)))
        self.saved = next((one.document for one in effects if isinstance(one, Save)), self.saved)
        return [one.message for one in effects if isinstance(one, Send)]

    def says(self, message: Message) -> Message:
        """The answer to somebody who calls."""
        [answer] = self.handle(Heard(CALLER, message))
        return answer

    def registers(self, broker: str, address: str = "", place: tuple[float, float] | None = None) -> Message:
        address = address or f"http://{broker}.example"
        return self.says(RegisterBroker(1, BrokerId(broker), address, place))

    def reports(self, broker: str, crowd: dict[str, list[str]], *, is_open: bool = True) -> Message:
        """Every subscription has got 10,000 bytes in 10 s."""
        names = list(dict.fromkeys(name for wants in crowd.values() for name in wants))
        clients = [
            ReportedClient(n, user, [names.index(name) for name in wants])
            for n, (user, wants) in enumerate(crowd.items())
        ]
        keys = [name.encode().ljust(16) for name in names]
        report = ReportLoad(seconds=10.0, is_open=is_open, keys=keys, sizes=[1e4] * len(keys), clients=clients)
        return self.says(ReportFor(1, BrokerId(broker), report))

    def moves(self, broker: str, crowd: dict[str, list[str]]) -> list[ForeignMove]:
        """Who is to go, by the answer to a report."""
        answer = self.reports(broker, crowd)
        assert isinstance(answer, Status), answer
        return msgspec.json.decode(answer.document, type=ForeignAnswer).moves

    def found(self, place: tuple[float, float] | None = None) -> tuple[str, str]:
        """The broker of ann, and its address."""
        answer = self.says(RequestBroker(1, "ann", place))
        assert isinstance(answer, BrokerFound), answer
        return answer.broker, answer.address

    def view(self) -> BalanceView:
        answer = self.says(AskBalance(1))
        assert isinstance(answer, Status)
        return msgspec.json.decode(answer.document, type=BalanceView)


def code(answer: Message) -> str:
    """Of a refusal."""
    assert isinstance(answer, Refused), answer
    return answer.code


def test_a_broker_registers_and_users_are_sent_there() -> None:
    office = Office()
    answer = office.registers("b1")
    assert isinstance(answer, Status)
    assert msgspec.json.decode(answer.document, type=ForeignAnswer) == ForeignAnswer(
        report_every_s=10.0, gone_after_s=30.0
    )
    office.registers("b2", "https://b2.example:8443/in")
    assert [office.found() for _ in range(3)] == [
        ("b1", "http://b1.example"),
        ("b2", "https://b2.example:8443/in"),
        ("b1", "http://b1.example"),
    ]


def test_one_that_does_not_call_is_forgotten_and_says_so_if_it_calls_later() -> None:
    office = Office()
    office.registers("b1")
    office.registers("b2")
    office.now_s = 29.0
    office.reports("b2", {})
    office.now_s = 30.0
    office.handle(Closed(CALLER))
    assert office.core.deadline_ns() == 30 * 10**9
    office.handle(TimePassed())
    office.handle(Opened(CALLER))
    assert [office.found()[0] for _ in range(2)] == ["b2", "b2"]
    assert [one.broker for one in office.view().brokers] == ["b2"]
    assert code(office.reports("b1", {})) == "broker-unknown"
    office.now_s = 59.0
    office.handle(TimePassed())
    assert code(office.says(RequestBroker(1, "ann"))) == "unavailable"


def test_who_registered_is_known_after_a_restart_for_as_long() -> None:
    before = Office()
    before.registers("b1", place=(60.2, 24.9))
    after = Office(before.saved)
    assert after.found() == ("b1", "http://b1.example")
    assert isinstance(after.reports("b1", {}), Status)
    after.now_s = 30.0
    after.handle(TimePassed())
    assert code(Office(after.saved).says(RequestBroker(1, "ann"))) == "unavailable"


def test_a_name_is_given_once() -> None:
    """To one of ours, or to one that calls; who calls again is the same one."""
    office = Office()
    office.handle(Opened(OURS))
    office.handle(Heard(OURS, Register(BrokerId("edge"), 1, "127.0.0.1:7601", "edge")))
    refused = office.registers("edge")
    assert code(refused) == "same-name"
    assert isinstance(refused, Refused)
    assert "127.0.0.1:7601" in refused.reason
    assert code(office.reports("edge", {})) == "same-name"
    office.registers("b1")
    assert isinstance(office.registers("b1"), Status)
    office.now_s = 10.0
    taken = office.registers("b1", "http://elsewhere.example")
    assert code(taken) == "same-name"
    assert isinstance(taken, Refused)
    assert "forgotten in 20 s" in taken.reason
    office.handle(Opened(Conn(3)))
    [bye] = office.handle(Heard(Conn(3), Register(BrokerId("b1"), 1, "127.0.0.1:7602", "edge")))
    assert isinstance(bye, Bye)
    assert bye.code == "same-name"


def test_there_is_a_bound() -> None:
    office = Office()
    for n in range(FOREIGN_MAX):
        office.registers(f"b{n}")
    assert code(office.registers("one-more")) == "limit"
    assert isinstance(office.registers("b7"), Status)


def test_the_nearest_by_where_they_say_they_are() -> None:
    """bad §3: NR."""
    office = Office(placement="nearest", locations={"oslo": {"lat": 59.9, "lon": 10.7}})
    office.registers("helsinki", place=(60.2, 24.9))
    office.registers("oslo", place=(0.0, 0.0))  # what the coordinator's settings say counts more
    office.handle(Opened(OURS))
    office.handle(Heard(OURS, Register(BrokerId("fiji"), 1, "127.0.0.1:7601", "edge", (-17.7, 178.0))))
    assert office.found((-18.0, -179.0)) == ("fiji", "127.0.0.1:7601")
    assert office.found((59.9, 11.0))[0] == "oslo"
    assert office.found((60.2, 25.0))[0] == "helsinki"


def test_the_nearest_of_brokers_that_do_not_say_where_they_are() -> None:
    office = Office(placement="nearest")
    office.registers("b1")
    refused = office.says(RequestBroker(1, "ann", (60.0, 25.0)))
    assert code(refused) == "unavailable"
    assert isinstance(refused, Refused)
    assert "set location in their settings" in refused.reason


def test_the_least_loaded_by_what_they_report() -> None:
    """bad §3: LL, and eq. 5: 10,000 bytes in 10 s for two subscriptions, three times, are 2,000 in and 3,000 out."""
    office = Office(placement="least-loaded")
    office.registers("b1")
    office.registers("b2")
    office.reports("b1", {"ann": ["quakes", "fires"], "bob": ["quakes"]})
    office.reports("b2", {"cid": ["floods"]})
    assert {one.broker: one.load_bytes_s for one in office.view().brokers} == {"b1": 5000.0, "b2": 2000.0}
    assert office.found()[0] == "b2"
    office.reports("b2", {"cid": ["floods"]}, is_open=False)
    assert office.found()[0] == "b1"


def test_who_is_to_move_is_in_the_answers_and_seen_in_the_next_report() -> None:
    """bad §4.5: the plan is made when all have reported, and another one when all have gone or stay."""
    office = Office(balancing="ldm")
    office.registers("b1")
    office.registers("b2")
    assert office.moves("b1", CROWD) == []
    assert office.moves("b2", {}) == []  # who is to move is not here
    office.now_s = 10.0
    order = office.moves("b1", CROWD)
    assert {(one.broker, one.address) for one in order} == {("b2", "http://b2.example")}
    assert office.view().is_moving
    gone = [one.user for one in order]
    assert 1 <= len(gone) < len(CROWD)
    there = {user: wants for user, wants in CROWD.items() if user in gone}
    here = {user: wants for user, wants in CROWD.items() if user not in gone}
    office.now_s = 20.0
    assert office.moves("b1", here) == []
    assert office.moves("b2", there) == []
    view = office.view()
    assert (view.is_moving, view.moved, view.stayed, view.plans) == (False, len(gone), 0, 1)


def test_who_stays_is_counted() -> None:
    office = Office(balancing="ldm")
    office.registers("b1")
    office.registers("b2")
    office.moves("b1", CROWD)
    office.moves("b2", {})
    ordered = len(office.moves("b1", CROWD))
    office.moves("b1", CROWD)
    assert (office.view().moved, office.view().stayed) == (0, ordered)


def test_nobody_is_sent_to_a_broker_that_is_gone_meanwhile() -> None:
    office = Office(balancing="ldm")
    office.registers("b1")
    office.registers("b2")
    office.moves("b1", CROWD)
    office.moves("b2", {})
    office.now_s = 20.0
    office.registers("b1")
    office.now_s = 30.0
    office.handle(TimePassed())
    assert office.moves("b1", CROWD) == []


def test_sessions_of_ours_are_not_sent_there_and_users_are_sent_to_both() -> None:
    office = Office()
    office.registers("b1")
    hello = Hello(version=1, name="ann", uses=["subscribe"])
    assert isinstance(office.says(hello), Bye)
    office.handle(Opened(OURS))
    office.handle(Heard(OURS, Register(BrokerId("edge"), 1, "127.0.0.1:7601", "edge")))
    office.handle(Opened(CALLER))
    assert [office.says(hello) for _ in range(2)] == [BrokerFound(0, BrokerId("edge"), "127.0.0.1:7601")] * 2
    office.handle(Opened(CALLER))
    assert sorted(office.found()[0] for _ in range(2)) == ["b1", "edge"]


def test_both_kinds_are_seen_together() -> None:
    office = Office(balancing="sticky")
    office.handle(Opened(OURS))
    office.handle(Heard(OURS, Register(BrokerId("edge"), 1, "127.0.0.1:7601", "edge")))
    told = ReportLoad(
        seconds=10.0, is_open=True, keys=[b"k" * 16], sizes=[5e3], clients=[ReportedClient(1, "eve", [0])]
    )
    office.handle(Heard(OURS, told))
    office.registers("b1")
    office.reports("b1", {"ann": ["quakes", "fires"], "bob": ["quakes"]})
    view = office.view()
    assert {one.broker: one.load_bytes_s for one in view.brokers} == {"edge": 1000.0, "b1": 5000.0}
    assert view.mean_bytes_s == 3000.0
    assert view.cov == pytest.approx(2000 / 3000, abs=1e-6)


def test_a_report_that_cannot_be_changes_nothing() -> None:
    office = Office()
    office.registers("b1")
    clients = [ReportedClient(0, "ann", [3])]
    report = ReportLoad(seconds=1.0, is_open=True, keys=[b"k" * 16], sizes=[1.0], clients=clients)
    assert isinstance(office.says(ReportFor(1, BrokerId("b1"), report)), Refused)
    assert office.view().brokers == []
    assert office.says(RegisterUser(2, "bob")) == Done(2)


def test_one_of_ours_that_is_nowhere_on_the_globe_is_turned_away() -> None:
    office = Office()
    office.handle(Opened(OURS))
    [bye] = office.handle(Heard(OURS, Register(BrokerId("edge"), 1, "127.0.0.1:7601", "edge", (91.0, 0.0))))
    assert isinstance(bye, Bye)
    assert "degrees" in bye.reason
    assert office.core.members() == []
