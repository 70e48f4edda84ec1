"""The coordinator: who is there, and who is told to connect to whom."""

from __future__ import annotations

from random import Random

from tidewire.coordinator.core import GONE_AFTER_S, CoordinatorCore, CoordinatorEffect, CoordinatorEvent, Save
from tidewire.identity.authority import Authority
from tidewire.identity.guard import Trust
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import AskMembers, Assigned, Bye, DeclaredRole, Hello, Members, Refused, Register
from tidewire.model.notes import Note
from tidewire.wire.connections import Close, Closed, Heard, Opened, Peer, Send, TimePassed


class Office:
    """A coordinator, and what it has told each broker last."""

    def __init__(self, saved: bytes | None = None, *, is_secured: bool = False) -> None:
        self.core = CoordinatorCore(saved, chance=Random(1), is_secured=is_secured)
        self.conns: dict[str, Conn] = {}
        self.assigned: dict[str, list[str]] = {}
        self.saved = saved
        self.time_s = 0.0

    def happens(self, event: CoordinatorEvent) -> list[CoordinatorEffect]:
        effects = self.core.handle(event, now_ns=Nanoseconds(int(self.time_s * 1e9)))
        names = {conn: name for name, conn in self.conns.items()}
        for effect in effects:
            match effect:
                case Send(conn, Assigned(addresses)):
                    self.assigned[names[conn]] = addresses
                case Save(document):
                    self.saved = document
        return effects

    def joins(self, name: str, role: DeclaredRole = "auto", *, incarnation: int = 1) -> list[CoordinatorEffect]:
        conn = Conn(len(self.conns) + 100)
        self.conns[name] = conn
        self.happens(Opened(conn, None, Peer("broker", name, f"of {name}")))
        return self.happens(Heard(conn, Register(BrokerId(name), incarnation, f"{name}:1", role)))

    def revokes(self, *names: str) -> list[CoordinatorEffect]:
        """The certificates of these; then nothing else."""
        revoked = dict.fromkeys(f"of {name}" for name in names)
        return self.happens(Trust(Authority(domain="here", token_key="", revoked=revoked), 0))

    def leaves(self, name: str, *, for_s: float) -> None:
        self.happens(Closed(self.conns.pop(name)))
        self.time_s += for_s
        self.happens(TimePassed())


def test_edges_are_spread_over_the_heads() -> None:
    office = Office()
    office.joins("h1", "head")
    office.joins("h2", "head")
    for number in range(4):
        office.joins(f"e{number}", "edge")
    assert office.assigned["h1"] == []
    assert office.assigned["h2"] == ["h1:1"]
    heads = [head for number in range(4) for head in office.assigned[f"e{number}"]]
    assert sorted(heads) == ["h1:1", "h1:1", "h2:1", "h2:1"]


def test_with_no_roles_the_first_one_becomes_the_middle() -> None:
    """peer A1: whoever has more than one neighbour is a head."""
    office = Office()
    for name in ("a", "b", "c"):
        office.joins(name)
    assert office.assigned == {"a": [], "b": ["a:1"], "c": ["a:1"]}


def test_an_edge_that_came_first_gets_its_head_later() -> None:
    office = Office()
    office.joins("e", "edge")
    assert office.assigned["e"] == []
    office.joins("h", "head")
    assert office.assigned["e"] == ["h:1"]


def test_a_short_absence_changes_nothing_and_a_long_one_does() -> None:
    office = Office()
    office.joins("h1", "head")
    office.joins("h2", "head")
    office.joins("e", "edge")
    before = office.assigned["e"]
    gone = before[0].removesuffix(":1")
    other = "h2" if gone == "h1" else "h1"
    office.leaves(gone, for_s=GONE_AFTER_S / 2)
    assert office.assigned["e"] == before
    office.time_s += GONE_AFTER_S
    office.happens(TimePassed())
    assert office.assigned["e"] == [f"{other}:1"]


def test_it_says_the_same_after_a_restart() -> None:
    office = Office()
    for name, role in (("h1", "head"), ("h2", "head"), ("e1", "edge"), ("e2", "edge")):
        office.joins(name, role)  # type: ignore[arg-type]
    again = Office(office.saved)
    for name, role in (("e2", "edge"), ("h2", "head"), ("e1", "edge"), ("h1", "head")):
        again.joins(name, role)  # type: ignore[arg-type]
    assert again.assigned == office.assigned


def test_a_name_that_is_taken_is_refused() -> None:
    office = Office()
    office.joins("a")
    effects = office.joins("a", incarnation=2)
    assert [
        effect.message.code for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Bye)
    ] == ["same-name"]
    assert any(isinstance(effect, Close) for effect in effects)


def test_members_are_told() -> None:
    office = Office()
    office.joins("a")
    office.joins("b")
    office.leaves("b", for_s=1)
    asker = Conn(7)
    office.happens(Opened(asker))
    [answer] = office.happens(Heard(asker, AskMembers(5)))
    assert isinstance(answer, Send)
    assert isinstance(answer.message, Members)
    assert [(one.broker, one.is_alive) for one in answer.message.members] == [("a", True), ("b", False)]


def test_what_is_for_a_broker_is_refused() -> None:
    office = Office()
    guest = Conn(7)
    office.happens(Opened(guest))
    effects = office.happens(Heard(guest, Hello(version=1, name="x", uses=[])))
    assert [type(effect) for effect in effects] == [Send, Close]


def test_one_that_is_silent_is_dropped() -> None:
    office = Office()
    office.joins("a")
    office.time_s = 7.0
    assert Close(office.conns["a"]) in office.happens(TimePassed())


def test_a_broker_whose_certificate_is_revoked_goes_at_once_and_is_nobodys_neighbour() -> None:
    office = Office(is_secured=True)
    office.revokes()
    office.joins("h1", "head")
    office.joins("h2", "head")
    office.joins("e", "edge")
    lost = office.assigned["e"][0].removesuffix(":1")
    other = "h2" if lost == "h1" else "h1"
    conn = office.conns[lost]
    effects = office.revokes(lost)
    (bye,) = [one.message for one in effects if isinstance(one, Send) and isinstance(one.message, Bye)]
    assert (bye.code, bye.retry_after_s) == ("not-authenticated", -1.0)
    assert Close(conn) in effects
    assert office.assigned["e"] == [f"{other}:1"], "without waiting for it"
    assert lost not in [one.broker for one in office.core.members()]
    office.happens(Closed(conn))
    refused = office.joins(lost, "head")
    assert Close(office.conns[lost]) in refused
    assert [one.facts["act"] for one in refused if isinstance(one, Note)] == ["register"]
    assert office.assigned["e"] == [f"{other}:1"]
    assert lost not in [one.broker for one in office.core.members()]


def test_a_revoked_broker_that_was_remembered_is_forgotten() -> None:
    office = Office(is_secured=True)
    office.revokes()
    office.joins("h1", "head")
    office.joins("e", "edge")
    again = Office(office.saved, is_secured=True)
    again.revokes("h1")
    again.joins("e", "edge")
    assert again.assigned["e"] == []
    assert [one.broker for one in again.core.members()] == ["e"]


def test_who_may_not_observe_is_in_the_log_once_in_a_while() -> None:
    office = Office(is_secured=True)
    office.revokes()
    asker = Conn(7)
    office.happens(Opened(asker, None, None, "10.0.0.1"))
    refused, noted = office.happens(Heard(asker, AskMembers(5)))
    assert isinstance(refused, Send)
    assert isinstance(refused.message, Refused)
    assert isinstance(noted, Note)
    assert (noted.facts["act"], noted.facts["from"]) == ("observe", "10.0.0.1")
    (again,) = office.happens(Heard(asker, AskMembers(6)))
    assert isinstance(again, Send)
