"""Sessions between two edges, step by step (peer §6.2)."""

from __future__ import annotations

from typing import TypeVar

import pytest
from msgspec.structs import replace

from tests.balancing.parts import CONFIG, HEAD, at, condition_of, plan, report
from tidewire.balancing.answers import BeginSampling, CallForHelp, EndSampling, Inner, MoveClients, Say
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.detectors import Candidate
from tidewire.balancing.mediator import Ended, Mediator, Ourselves, queue_delay_s
from tidewire.balancing.states import EdgeState
from tidewire.model.balance_messages import Action, Ask, Condition, Finished, Indices, Moving, Reply, SessionId
from tidewire.model.ids import BrokerId, Conn

A, B, C = BrokerId("A"), BrokerId("B"), BrokerId("C")
Kind = TypeVar("Kind")


class Edge:
    """A mediator and the condition that it shares with the rest of its broker."""

    def __init__(self, name: BrokerId, config: BalancingConfig = CONFIG, *, condition: Condition = "OK") -> None:
        self.state = EdgeState()
        self.state.condition = condition
        ourselves = Ourselves(broker=name, life=1, address=f"{name}:1", migration_timeout_s=10.0)
        self.mediator = Mediator(ourselves, config, self.state, report=report)

    def ask(self, *candidates: Candidate, overload: Action | None = None, second: float = 0) -> list[Inner]:
        return self.mediator.propose(candidates, overload=overload, now_ns=at(second))

    def reply(self, sender: BrokerId, reply: Reply, *, second: float = 1) -> list[Inner]:
        return self.mediator.replied(sender, HEAD, reply, now_ns=at(second))

    def asked(self, sender: BrokerId, ask: Ask, *, is_near: bool = True, second: float = 1) -> list[Inner]:
        return self.mediator.asked(sender, HEAD, ask, is_near=is_near, now_ns=at(second))

    def plan(self, session: SessionId, clients: list[int], *, second: float = 10, donor: float = 0.4) -> list[Inner]:
        return self.mediator.planned(session, plan(*clients, donor=donor), now_ns=at(second))


def candidate(broker: BrokerId, action: Action = "input") -> Candidate:
    return Candidate(broker, HEAD, action, 0.3)


def the(kind: type[Kind], answers: list[Inner]) -> Kind:
    """The one answer, or payload, of this kind."""
    found = [one.payload if isinstance(one, Say) else one for one in answers]
    [only] = [one for one in found if isinstance(one, kind)]
    return only


def session(number: int = 1, asker: BrokerId = A) -> SessionId:
    return SessionId(asker, 1, number)


def donor(*, condition: Condition = "OK", config: BalancingConfig = CONFIG) -> Edge:
    """One whose request B has just accepted."""
    edge = Edge(A, config, condition=condition)
    edge.ask(candidate(B), overload="input" if condition == "N/A" else None)
    edge.reply(B, Reply(session(), "OK", report(), "B:1"))
    return edge


def acceptor() -> Edge:
    """One that has just accepted a request of A."""
    edge = Edge(B)
    edge.asked(A, Ask(session(), "input"))
    return edge


def test_a_session_of_the_donor() -> None:
    """peer §6.2, steps 1 to 8, as the donor sees them."""
    edge = Edge(A)
    asked = edge.ask(candidate(B))
    assert asked[0] == Say(B, HEAD, Ask(session(), "input"))
    assert condition_of(edge.state) == "OK"
    begun = the(BeginSampling, edge.reply(B, Reply(session(), "OK", report(subscriptions=7), "B:1")))
    assert (begun.acceptor, begun.action, begun.report.subscriptions) == (B, "input", 7)
    assert begun.until_ns == at(1 + CONFIG.press_s)
    assert condition_of(edge.state) == "BUSY"
    sent = edge.plan(session(), [4, 5, 6])
    assert the(Moving, sent) == Moving(session(), 3, Indices(0.4, 0.5, 1.0))
    moved = the(MoveClients, sent)
    assert (moved.to, moved.address, moved.clients, moved.let_go_after_s, moved.in_order) == (
        B,
        "B:1",
        (4, 5, 6),
        None,
        True,
    )
    assert edge.mediator.on_their_way(now_ns=at(11)) == [4, 5, 6]
    assert edge.mediator.moved(Conn(4), is_moved=True, now_ns=at(12)) == []
    assert edge.mediator.moved(Conn(5), is_moved=False, now_ns=at(12)) == []
    ended = edge.mediator.moved(Conn(6), is_moved=True, now_ns=at(13))
    assert the(Finished, ended) == Finished(session(), 2, "done")
    assert (edge.state.condition, edge.state.session_end_ns) == ("STABILIZING", at(13))
    assert edge.mediator.on_their_way(now_ns=at(14)) == []


def test_a_session_of_the_acceptor() -> None:
    """peer §6.2, steps 2' to 6: it is BUSY from its answer on."""
    edge = Edge(B)
    [said, _] = edge.asked(A, Ask(session(), "output"))
    assert said == Say(A, HEAD, Reply(session(), "OK", report(), "B:1"))
    assert condition_of(edge.state) == "BUSY"
    assert edge.mediator.told_moving(A, HEAD, Moving(session(), 3), now_ns=at(40)) == []
    edge.mediator.told_finished(A, Finished(session(), 3, "done"), now_ns=at(50))
    assert (edge.state.condition, edge.state.session_end_ns) == ("STABILIZING", at(50))


@pytest.mark.parametrize("condition", ["N/A", "BUSY", "STABILIZING"])
def test_only_who_is_ok_accepts(condition: Condition) -> None:
    """peer §6.2, step 2."""
    edge = Edge(B, condition=condition)
    assert edge.asked(A, Ask(session(), "input")) == [Say(A, HEAD, Reply(session(), condition))]
    assert condition_of(edge.state) == condition


def test_nothing_is_accepted_from_a_cluster_that_we_do_not_balance_with() -> None:
    """peer §6.3: when clusters no longer balance, no session between them begins."""
    edge = Edge(B)
    assert edge.asked(A, Ask(session(), "input"), is_near=False) == [Say(A, HEAD, Reply(session(), "BUSY"))]
    assert condition_of(edge.state) == "OK"


def test_the_next_one_is_asked() -> None:
    """peer §6.2, step 2 and §11 row 14: who has declined is not asked again, for another action either."""
    edge = Edge(A)
    edge.ask(candidate(B), candidate(B, "match"), candidate(C, "output"))
    assert the(Ask, edge.reply(B, Reply(session(), "BUSY"))) == Ask(session(2), "output")
    assert edge.reply(B, Reply(session(), "OK", report()))[0] == Say(
        B, HEAD, Finished(session(), 0, "your answer came too late")
    )
    edge.reply(C, Reply(session(2), "N/A"))
    assert not edge.mediator.is_asking


def test_the_overloaded_call_for_help() -> None:
    """peer §5.1: when nobody is found, and only then."""
    edge = Edge(A, condition="N/A")
    assert edge.ask(overload="output") == [CallForHelp("output")]
    edge.ask(candidate(B, "match"), overload="match")
    assert the(CallForHelp, edge.reply(B, Reply(session(1), "BUSY"))) == CallForHelp("match")
    content = Edge(A)
    assert content.ask() == []
    content.ask(candidate(B))
    assert not [one for one in content.reply(B, Reply(session(), "BUSY")) if isinstance(one, CallForHelp)]


def test_a_missing_reply_counts_as_no() -> None:
    """peer M8: after 10 s. If it comes later, the other side is let go."""
    edge = Edge(A)
    edge.ask(candidate(B), candidate(C))
    assert edge.mediator.next_deadline_ns() == at(10)
    assert edge.mediator.tick(at(9.9)) == []
    assert the(Ask, edge.mediator.tick(at(10))) == Ask(session(2), "input")
    late = edge.reply(B, Reply(session(), "OK", report()), second=11)
    assert the(Finished, late).session == session()
    assert condition_of(edge.state) == "OK"


@pytest.mark.parametrize(("ours", "theirs"), [(A, B), (B, A)])
def test_two_that_ask_each_other(ours: BrokerId, theirs: BrokerId) -> None:
    """peer S2: the one with the smaller name gives way, and the other one's request is answered."""
    edge = Edge(ours)
    edge.ask(candidate(theirs))
    said = edge.asked(theirs, Ask(session(1, theirs), "output"))
    reply = the(Reply, said)
    if ours < theirs:
        assert reply.report is not None
        assert condition_of(edge.state) == "BUSY"
        assert edge.reply(theirs, Reply(session(1, ours), "BUSY")) == []
    else:
        assert (reply.condition, reply.report) == ("BUSY", None)
        assert edge.mediator.is_asking
    assert edge.mediator.is_donor is False


def test_one_that_asks_declines_others() -> None:
    """peer S2."""
    edge = Edge(A)
    edge.ask(candidate(B))
    assert edge.asked(C, Ask(session(1, C), "input")) == [Say(C, HEAD, Reply(session(1, C), "BUSY"))]
    assert edge.mediator.is_asking


def test_one_that_gives_way_but_cannot_accept_asks_the_next() -> None:
    """peer S2: it has dropped its request, and is free."""
    edge = Edge(A, condition="N/A")
    edge.ask(candidate(B), candidate(C), overload="input")
    said = edge.asked(B, Ask(session(1, B), "input"))
    assert the(Reply, said).condition == "N/A"
    assert the(Ask, said) == Ask(session(2), "input")


@pytest.mark.parametrize("condition", ["OK", "N/A"])
def test_nothing_to_move(condition: Condition) -> None:
    """peer §6.2, last line: both sides are told at once, and are as before. The overloaded still need help."""
    edge = donor(condition=condition)
    ended = edge.plan(session(), [], donor=0.96)
    assert [one for one in ended if isinstance(one, CallForHelp)] == (
        [CallForHelp("input")] if condition == "N/A" else []
    )
    assert the(Finished, ended).moved == 0
    assert the(EndSampling, ended) == EndSampling(session())
    assert condition_of(edge.state) == condition
    other = acceptor()
    other.mediator.told_finished(A, Finished(session(), 0), now_ns=at(20))
    assert condition_of(other.state) == "OK"


def test_who_is_overloaded_only_until_others_have_left_needs_no_help() -> None:
    """peer M7: those whom another broker serves already still load this one, and that will be over."""
    edge = donor(condition="N/A")
    assert not [one for one in edge.plan(session(), [], donor=0.89) if isinstance(one, CallForHelp)]


def test_a_client_that_moves_is_not_chosen_again() -> None:
    """peer M7."""
    edge = donor()
    edge.plan(session(), [4, 5])
    edge.mediator.gone(B, now_ns=at(11))
    edge.state.condition = "OK"
    edge.ask(candidate(C), second=12)
    edge.reply(C, Reply(session(2), "OK", report(), "C:1"), second=13)
    assert the(MoveClients, edge.plan(session(2), [4, 5, 6], second=14)).clients == (6,)


def test_clients_that_did_not_move_in_time_stay() -> None:
    """peer M6, M8 and G19: 10 s for each; 248 of them have 2480 s."""
    edge = donor()
    edge.plan(session(), list(range(248)), second=0)
    assert edge.mediator.next_deadline_ns() == at(2480)
    edge.mediator.moved(Conn(0), is_moved=True, now_ns=at(5))
    ended = edge.mediator.tick(at(2480))
    assert the(Finished, ended) == Finished(session(), 1, "not in time")
    assert condition_of(edge.state) == "STABILIZING"
    assert edge.mediator.on_their_way(now_ns=at(2480)) == []


def test_an_acceptor_waits_longer_than_its_donor() -> None:
    """peer M8: N x timeout + 30 s; before it is known how many come, as long as sampling may take."""
    edge = acceptor()
    assert edge.mediator.next_deadline_ns() == at(1 + 2 * CONFIG.reply_s + CONFIG.press_s + CONFIG.done_s)
    edge.mediator.told_moving(A, HEAD, Moving(session(), 248), now_ns=at(40))
    assert edge.mediator.next_deadline_ns() == at(40 + 2480 + 30)
    assert edge.mediator.tick(at(2549)) == []
    told = edge.mediator.tick(at(2550))
    assert the(Finished, told).session == session()
    assert condition_of(edge.state) == "OK"


def test_a_donor_that_never_decides_ends() -> None:
    """peer M8: sampling has its lease too."""
    edge = donor()
    deadline = edge.mediator.next_deadline_ns()
    assert deadline == at(1 + CONFIG.press_s + CONFIG.done_s)
    ended = edge.mediator.tick(at(deadline / 1e9))
    assert (the(EndSampling, ended), the(Finished, ended).moved) == (EndSampling(session()), 0)
    assert condition_of(edge.state) == "OK"
    assert edge.plan(session(), [4]) == []


def test_the_death_of_either_side_ends_the_session() -> None:
    """peer §11 row 24: at once, and not with the lease."""
    edge = acceptor()
    assert edge.mediator.gone(C, now_ns=at(5)) == []
    edge.mediator.gone(A, now_ns=at(5))
    assert condition_of(edge.state) == "OK"
    edge = donor()
    assert the(EndSampling, edge.mediator.gone(B, now_ns=at(5))) == EndSampling(session())
    assert condition_of(edge.state) == "OK"
    edge = donor()
    edge.plan(session(), [4, 5])
    edge.mediator.moved(Conn(4), is_moved=True, now_ns=at(11))
    edge.mediator.gone(B, now_ns=at(12))
    assert condition_of(edge.state) == "STABILIZING"
    edge = Edge(A)
    edge.ask(candidate(B), candidate(C))
    assert the(Ask, edge.mediator.gone(B, now_ns=at(5))) == Ask(session(2), "input")


def test_an_acceptor_that_no_longer_knows_says_so() -> None:
    """peer M8: then the donor need not wait."""
    edge = Edge(B)
    told = edge.mediator.told_moving(A, HEAD, Moving(session(), 3), now_ns=at(1))
    assert told == [Say(A, HEAD, Finished(session(), 0, "we are not in this session"))]
    other = donor()
    other.plan(session(), [4])
    other.mediator.told_finished(B, Finished(session(), 0, "we are not in this session"), now_ns=at(12))
    assert condition_of(other.state) == "OK"


def test_strangers_end_nothing() -> None:
    edge, other = acceptor(), donor()
    for stranger, number in ((C, 1), (A, 2), (B, 2)):
        edge.mediator.told_finished(stranger, Finished(session(number), 5), now_ns=at(2))
        other.mediator.told_finished(stranger, Finished(session(number), 5), now_ns=at(2))
    assert (edge.state.condition, other.state.condition) == ("BUSY", "BUSY")


def test_the_wait_of_the_thesis() -> None:
    """peer §6.2, step 7, M4 and M5a: what is queued, matched, queued again; nothing is held back if order is loose."""
    assert queue_delay_s(report(queued_in_bytes=400, queued_out_bytes=500)) == pytest.approx(3 * 0.01 + 0.5)
    assert queue_delay_s(report(event_bytes=0, output_bytes_s_max=0)) == pytest.approx(0.01)
    edge = donor(config=replace(CONFIG, handover="timed", order="loose"))
    moved = the(MoveClients, edge.plan(session(), [4]))
    assert moved.let_go_after_s == pytest.approx(0.01)
    assert not moved.in_order


def test_what_was_predicted_is_kept_until_it_can_be_compared() -> None:
    edge = donor()
    edge.plan(session(), [4], second=9)
    edge.mediator.moved(Conn(4), is_moved=True, now_ns=at(10))
    assert isinstance(edge.mediator.last, Ended)
    assert edge.mediator.last.moved == 1
    assert edge.mediator.last.predicted.donor.input_utilisation == pytest.approx(0.4)
