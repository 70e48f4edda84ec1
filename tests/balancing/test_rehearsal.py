"""What a session would do, learnt without having it; and edges that move nobody by themselves (peer §6.2)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.balancing.parts import CONFIG, Half, at, condition_of, load, plan, report
from tests.balancing.test_balancers import X1, X2, Voice, X, edge, head, hear, notes, payloads
from tidewire.balancing.answers import Answer, BeginSampling, EndSampling, MoveClients, Rehearsed
from tidewire.balancing.edge_balancer import EdgeBalancer
from tidewire.balancing.head_balancer import HeadBalancer
from tidewire.balancing.mediator import Ourselves
from tidewire.balancing.record import Record
from tidewire.model.balance_messages import Ask, Condition, Finished, GlobalPie, Indices, Reply, SessionId
from tidewire.model.ids import BrokerId, Conn

FIRST = SessionId(X1, 1, 1)


def rehearsed(answers: Sequence[Answer]) -> Rehearsed:
    (found,) = [one for one in answers if isinstance(one, Rehearsed)]
    return found


def uneven() -> tuple[EdgeBalancer, Voice]:
    """An edge with more to do than the other."""
    one, other = edge(), Voice(X2, X)
    one.measured(load(0.8))
    hear(one, other.pie(), second=1)
    return one, other


def test_who_would_move_is_learnt_and_nobody_does() -> None:
    """peer §6.2, steps 1 to 3: neither side is in a session meanwhile, and none follows."""
    one, other = uneven()
    assert payloads(one.rehearse(at(2))) == [(X, Ask(FIRST, "input", is_rehearsal=True))]
    (sampling,) = hear(one, other.says(Reply(FIRST, "OK", report(), "X2:1"), to=X1), second=3)
    assert isinstance(sampling, BeginSampling)
    assert (condition_of(one), one.partner) == ("OK", None)
    answers = one.planned(FIRST, plan(7, 8, to="X2"), now_ns=at(4))
    found = rehearsed(answers)
    assert found.plan is not None
    assert [move.client for move in found.plan.moves] == [Conn(7), Conn(8)]
    assert len(answers) == 1
    assert (condition_of(one), one.on_their_way(now_ns=at(4))) == ("OK", [])


@pytest.mark.parametrize(("condition", "says"), [("OK", True), ("N/A", False), ("BUSY", False), ("STABILIZING", False)])
def test_one_that_is_asked_in_a_rehearsal_stays_as_it_is(condition: Condition, says: bool) -> None:
    one, other = edge(), Voice(X2, X)
    one.measured(load(1.5 if condition == "N/A" else 0.1))
    one.tick(at(30))
    if condition in ("BUSY", "STABILIZING"):
        real = SessionId(X2, 1, 1)
        hear(one, other.says(Ask(real, "input"), to=X1), second=31)
        if condition == "STABILIZING":
            hear(one, other.says(Finished(real, 3), to=X1), second=32)
    assert condition_of(one) == condition
    ask = Ask(SessionId(X2, 1, 9), "input", is_rehearsal=True)
    ((_, reply),) = payloads(hear(one, other.says(ask, to=X1), second=33))
    assert isinstance(reply, Reply)
    assert (reply.condition, reply.report is not None) == (condition, says)
    assert condition_of(one) == condition


def test_who_would_decline_is_named_and_the_next_is_asked() -> None:
    """peer §6.2, step 2."""
    one, other = uneven()
    third = Voice(BrokerId("X3"), X)
    hear(one, third.pie(input_utilisation=0.1), second=1)
    one.rehearse(at(2))
    assert one.rehearse(at(2)) == []  # one at a time: whoever asks meanwhile hears of the same
    (asked,) = payloads(hear(one, other.says(Reply(FIRST, "BUSY"), to=X1), second=3))
    assert asked == (X, Ask(FIRST, "input", is_rehearsal=True))
    found = rehearsed([answer for second in range(3, 20) for answer in one.tick(at(second))])
    assert found.declined == {X2: "BUSY", "X3": "no answer"}
    assert found.plan is None


def test_a_real_session_goes_first() -> None:
    """Sampling is for one: what was kept for the rehearsal is dropped, and who waits is told."""
    one, other = uneven()
    one.rehearse(at(2))
    hear(one, other.says(Reply(FIRST, "OK", report(), "X2:1"), to=X1), second=3)
    one.tick(at(30))
    second = SessionId(X1, 1, 2)
    answers = hear(one, other.says(Reply(second, "OK", report(), "X2:1"), to=X1), second=31)
    assert rehearsed(answers).why == "a session has begun"
    kinds = [type(answer) for answer in answers]
    assert kinds.index(EndSampling) < kinds.index(BeginSampling)
    assert condition_of(one) == "BUSY"
    moves = one.planned(second, plan(7, to="X2"), now_ns=at(32))
    assert any(isinstance(answer, MoveClients) for answer in moves)


def test_samples_that_never_come_end_it() -> None:
    one, other = uneven()
    one.rehearse(at(2))
    hear(one, other.says(Reply(FIRST, "OK", report(), "X2:1"), to=X1), second=3)
    one.measured(load(0.0))
    ended = [answer for second in range(4, 100) for answer in one.tick(at(second))]
    assert rehearsed(ended).why == "it took too long"
    assert EndSampling(FIRST) in ended


def test_an_edge_that_moves_nobody_by_itself_still_looks_tells_and_accepts() -> None:
    """``automatic = false``: its condition is true, others hear of it, and it asks only when it is told to."""
    ourselves = Ourselves(broker=X1, life=1, address="X1:1", migration_timeout_s=10.0)
    config = replace(CONFIG, automatic=False)
    one = EdgeBalancer(ourselves, config, chance=Half(), report=report, now_ns=at(0))
    one.connected(X, now_ns=at(0))
    other = Voice(X2, X)
    one.measured(load(1.5))
    hear(one, other.pie(), second=1)
    looked = [answer for second in range(1, 60) for answer in one.tick(at(second))]
    assert "condition" in notes(looked)
    assert not {"asks to take over", "calls for help"} & set(notes(looked))
    assert condition_of(one) == "N/A"
    hear(one, other.pie(), second=60)
    assert notes(one.look_now(at(60))) == ["asks to take over"]


def test_a_head_that_brings_no_clusters_together_by_itself_does_when_it_is_told_to() -> None:
    """``automatic = false``, of a head; what it would do is shown all the same."""
    for automatic in (True, False):
        one = HeadBalancer(X, replace(CONFIG, automatic=automatic), life=1, chance=Half(), now_ns=at(0))
        one.connected(edges=[X1, X2], heads=[BrokerId("Y")], now_ns=at(0))
        far = Voice(BrokerId("Y"), BrokerId("Y"))
        for mine in (Voice(X1, X), Voice(X2, X)):
            one.heard(mine.pie(input_utilisation=0.8), came_from=mine.name, now_ns=at(1))
        told = far.says(GlobalPie("OK", Indices(0.1, 0.0, 0.0)), of="GLOBAL_PIE")
        one.heard(told, came_from=BrokerId("Y"), now_ns=at(1))
        assert [found.broker for found in one.preview(at(2)).candidates] == ["Y"]
        assert ("asks another cluster" in notes(one.tick(at(2)))) == automatic
        if not automatic:
            assert "asks another cluster" in notes(one.look_now(at(3)))
    assert head().known(now_ns=at(0)) == []


def test_what_came_of_sessions_is_counted() -> None:
    """peer E1i: of each, what was moved, and how far the prediction was off."""
    record = Record()
    ourselves = Ourselves(broker=X1, life=1, address="X1:1", migration_timeout_s=10.0)
    one = EdgeBalancer(ourselves, CONFIG, chance=Half(), report=report, record=record, now_ns=at(0))
    one.connected(X, now_ns=at(0))
    other = Voice(X2, X)
    one.measured(load(0.8))
    hear(one, other.pie(), second=3)
    one.tick(at(3))
    hear(one, other.says(Reply(FIRST, "OK", report(), "X2:1"), to=X1), second=4)
    one.planned(FIRST, plan(7, 8, donor=0.5), now_ns=at(9))
    one.moved(Conn(7), is_moved=True, now_ns=at(10))
    one.moved(Conn(8), is_moved=False, now_ns=at(10))
    assert (record.sessions, record.moved_away, record.stayed) == ({"moved": 1, "nothing": 0, "failed": 0}, 1, 1)
    assert record.errors() is None
    one.measured(load(0.4))
    for second in range(10, 400):
        one.tick(at(second))
    errors = record.errors()
    assert errors is not None
    assert errors.compared == 1
    assert errors.input_utilisation == pytest.approx(0.1, abs=0.02)
