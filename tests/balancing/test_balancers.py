"""Balancers of an edge and of a head, seen from their broker (peer §3 to §6)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.balancing.parts import CONFIG, Half, at, condition_of, load, plan, report
from tidewire.balancing.answers import Answer, BeginSampling
from tidewire.balancing.bulletins import Pass
from tidewire.balancing.edge_balancer import EdgeBalancer
from tidewire.balancing.head_balancer import HeadBalancer
from tidewire.balancing.mediator import Ourselves
from tidewire.model.balance_messages import (
    GLOBAL_PIE,
    LB_CONTROL,
    LOCAL_PIE,
    Ask,
    Bulletin,
    ClusterAsk,
    ClusterReply,
    Condition,
    ControlClass,
    Finished,
    GlobalPie,
    Gone,
    Help,
    Indices,
    LocalPie,
    Moving,
    Payload,
    Reply,
    SessionId,
    Watch,
)
from tidewire.model.ids import BrokerId, Conn
from tidewire.model.notes import Note

X, Y, Z = BrokerId("X"), BrokerId("Y"), BrokerId("Z")
X1, X2, Y1 = BrokerId("X1"), BrokerId("X2"), BrokerId("Y1")


class Voice:
    """Somebody who says things."""

    def __init__(self, name: BrokerId, cluster: BrokerId, *, life: int = 1) -> None:
        self.name, self.cluster, self.life = name, cluster, life
        self._number = 0

    def says(
        self,
        payload: Payload,
        *,
        of: ControlClass = LB_CONTROL,
        to: BrokerId | None = None,
        toward: BrokerId | None = None,
    ) -> Bulletin:
        self._number += 1
        return Bulletin(
            traffic_class=of,
            sender=self.name,
            life=self.life,
            number=self._number,
            cluster=self.cluster,
            toward=toward,
            to=to,
            payload=payload,
        )

    def pie(self, condition: Condition = "OK", input_utilisation: float = 0.0) -> Bulletin:
        toward = None if self.cluster == X else X
        told = LocalPie(condition, Indices(input_utilisation, 0.0, 0.0), [self.name])
        return self.says(told, of=LOCAL_PIE, toward=toward)


def edge() -> EdgeBalancer:
    """X1, with its head."""
    ourselves = Ourselves(broker=X1, life=1, address="X1:1", migration_timeout_s=10.0)
    made = EdgeBalancer(ourselves, CONFIG, chance=Half(), report=report, now_ns=at(0))
    made.connected(X, now_ns=at(0))
    return made


def head() -> HeadBalancer:
    """X, with two edges and two heads next to it."""
    made = HeadBalancer(X, CONFIG, life=1, chance=Half(), now_ns=at(0))
    made.connected(edges=[X1, X2], heads=[Y, Z], now_ns=at(0))
    return made


def payloads(answers: Sequence[Answer]) -> list[tuple[BrokerId, Payload]]:
    return [(one.neighbour, one.bulletin.payload) for one in answers if isinstance(one, Pass)]


def notes(answers: Sequence[Answer]) -> list[str]:
    return [one.what for one in answers if isinstance(one, Note)]


def hear(one: EdgeBalancer, bulletin: Bulletin, *, second: float) -> list[Answer]:
    return one.heard(bulletin, came_from=X, now_ns=at(second))


# -- an edge -----------------------------------------------------------------------------------------------------------


def test_without_a_load_or_a_head_there_is_nothing_to_do() -> None:
    one = edge()
    assert (one.next_deadline_ns(), one.tick(at(100))) == (None, [])
    one.measured(load(0.5))
    assert one.next_deadline_ns() == 0
    one.connected(None, now_ns=at(1))
    assert (one.next_deadline_ns(), one.tick(at(100))) == (None, [])


def test_an_edge_tells_its_smoothed_load() -> None:
    """peer §3.1, PIE2."""
    one = edge()
    one.measured(load(0.4))
    assert payloads(one.tick(at(0))) == [(X, LocalPie("OK", Indices(0.4, 0.0, 0.0), [X1]))]
    one.tick(at(30))
    one.measured(load(0.8))
    [(_, told)] = payloads(one.tick(at(60)))
    assert isinstance(told, LocalPie)
    assert told.indices.input_utilisation == pytest.approx(0.7)


def test_one_that_could_take_something_is_asked_at_once() -> None:
    """peer PIE7: detection does not wait for its pause to end."""
    one, other = edge(), Voice(X2, X)
    one.measured(load(0.5))
    one.tick(at(0))
    hear(one, other.pie(input_utilisation=0.1), second=3)
    assert one.next_deadline_ns() == at(3)
    assert payloads(one.tick(at(3))) == [(X, Ask(SessionId(X1, 1, 1), "input"))]


def test_a_session_from_trigger_to_what_was_measured_afterwards() -> None:
    """peer §5 and §6.2: what triggered it, what was predicted, what came: each a decision that people can read."""
    one, other = edge(), Voice(X2, X)
    one.measured(load(0.8))
    hear(one, other.pie(), second=3)
    assert notes(one.tick(at(3))) == ["asks to take over"]
    session = SessionId(X1, 1, 1)
    begun = hear(one, other.says(Reply(session, "OK", report(), "X2:1"), to=X1), second=4)
    assert isinstance(begun[0], BeginSampling)
    assert condition_of(one) == "BUSY"
    one.planned(session, plan(7, donor=0.41), now_ns=at(9))
    one.moved(Conn(7), is_moved=True, now_ns=at(10))
    assert condition_of(one) == "STABILIZING"
    one.measured(load(0.4))
    found: list[Note] = []
    for second in range(10, 400):
        found += [answer for answer in one.tick(at(second)) if isinstance(answer, Note)]
    measured = next(note for note in found if note.what == "measured after a session")
    assert measured.facts["predicted input"] == 0.41
    assert measured.facts["measured input"] == pytest.approx(0.4, abs=0.02)
    assert [note.facts["is"] for note in found if note.what == "condition"] == ["OK"]


def test_a_session_is_judged_when_the_load_has_settled() -> None:
    """peer §4, E1i: an edge that still shows its old load right after a session says nothing of the prediction."""
    one, other = edge(), Voice(X2, X)
    one.measured(load(1.5))
    hear(one, other.pie(), second=3)
    one.tick(at(3))
    session = SessionId(X1, 1, 1)
    hear(one, other.says(Reply(session, "OK", report(), "X2:1"), to=X1), second=4)
    one.planned(session, plan(7, donor=0.41), now_ns=at(9))
    one.moved(Conn(7), is_moved=True, now_ns=at(10))
    found: list[Note] = []
    for second in range(10, 400):
        if second == 50:
            assert condition_of(one) == "N/A"
            one.measured(load(0.4))
        found += [answer for answer in one.tick(at(second)) if isinstance(answer, Note)]
    (measured,) = [note for note in found if note.what == "measured after a session"]
    assert measured.facts["measured input"] == pytest.approx(0.4, abs=0.02)


def test_an_acceptor_compares_what_the_donor_expected_of_it() -> None:
    """peer E1i: predictions of the load-accepting broker are judged as well."""
    one, other = edge(), Voice(X2, X)
    one.measured(load(0.1))
    session = SessionId(X2, 1, 1)
    hear(one, other.says(Ask(session, "output"), to=X1), second=4)
    hear(one, other.says(Moving(session, 3, Indices(0.4, 0.3, 0.02)), to=X1), second=6)
    hear(one, other.says(Finished(session, 3, "done"), to=X1), second=8)
    assert condition_of(one) == "STABILIZING"
    one.measured(load(0.45, 0.3, delay_s=0.02))
    found: list[Note] = []
    for second in range(8, 400):
        found += [answer for answer in one.tick(at(second)) if isinstance(answer, Note)]
    (measured,) = [note for note in found if note.what == "measured after a session"]
    assert (measured.facts["donor"], measured.facts["action"], measured.facts["moved"]) == (X2, "output", 3)
    assert measured.facts["predicted input"] == 0.4
    assert measured.facts["measured input"] == pytest.approx(0.45, abs=0.02)


def test_an_overloaded_edge_calls_its_head() -> None:
    """peer §5.1, D8."""
    one = edge()
    one.measured(load(1.5))
    answers = one.tick(at(30))
    assert (X, Help("input")) in payloads(answers)
    assert condition_of(one) == "N/A"
    assert notes(answers) == ["condition", "calls for help"]


def test_an_edge_balances_with_another_cluster_only_while_its_head_says_so() -> None:
    """peer §6.3, steps 3 and 6: what was heard of it is forgotten, and no session with it begins."""
    one, boss, far = edge(), Voice(X, X), Voice(Y1, Y)
    ask = Ask(SessionId(Y1, 1, 1), "input")
    one.measured(load(0.5))
    hear(one, far.pie(), second=1)
    assert one.preview(at(1)).known == ()
    assert payloads(hear(one, far.says(ask, to=X1, toward=X), second=1)) == [(X, Reply(ask.session, "BUSY"))]
    hear(one, boss.says(Watch(Y)), second=2)
    hear(one, far.pie(), second=3)
    assert one.preview(at(3)).known == (Y1,)
    hear(one, boss.says(Watch(None)), second=4)
    assert one.preview(at(4)).known == ()
    hear(one, boss.says(Watch(Y)), second=5)
    hear(one, far.says(ask, to=X1, toward=X), second=6)
    assert condition_of(one) == "BUSY"


def test_a_head_that_falls_silent_is_not_obeyed_for_ever() -> None:
    one, boss = edge(), Voice(X, X)
    hear(one, boss.says(Watch(Y)), second=0)
    deadline = one.next_deadline_ns()
    assert deadline == at(3 * CONFIG.global_detect_s_max)
    one.tick(at(deadline / 1e9))
    assert one.next_deadline_ns() is None


def test_the_next_life_of_a_broker_knows_of_no_session() -> None:
    """peer §11 row 24: its first word ends what its last life had begun."""
    one = edge()
    hear(one, Voice(X2, X).says(Ask(SessionId(X2, 1, 1), "input"), to=X1), second=1)
    assert condition_of(one) == "BUSY"
    hear(one, Voice(X2, X, life=2).pie(), second=2)
    assert condition_of(one) == "OK"
    hear(one, Voice(X2, X, life=1).says(Ask(SessionId(X2, 1, 2), "input"), to=X1), second=3)
    assert condition_of(one) == "OK"


def test_an_edge_that_is_gone_is_forgotten() -> None:
    one, boss, other = edge(), Voice(X, X), Voice(X2, X)
    hear(one, other.pie(), second=1)
    hear(one, other.says(Ask(SessionId(X2, 1, 1), "input"), to=X1), second=1)
    hear(one, boss.says(Gone(X2), of=LOCAL_PIE), second=2)
    assert (one.condition, one.preview(at(2)).known) == ("OK", ())


def test_without_its_head_an_edge_is_in_no_session() -> None:
    one, other = edge(), Voice(X2, X)
    hear(one, other.says(Ask(SessionId(X2, 1, 1), "input"), to=X1), second=1)
    one.connected(None, now_ns=at(2))
    assert condition_of(one) == "OK"


def test_a_preview_does_nothing() -> None:
    one, other = edge(), Voice(X2, X)
    one.measured(load(0.5))
    hear(one, other.pie(input_utilisation=0.1), second=1)
    shown = one.preview(at(2))
    assert (shown.condition, shown.verdict) == ("OK", "imbalanced")
    assert [(who.broker, who.action) for who in shown.candidates] == [(X2, "input")]
    assert one.preview(at(2)) == shown
    assert one.next_deadline_ns() == 0


# -- a head ------------------------------------------------------------------------------------------------------------


def test_a_head_speaks_for_its_cluster() -> None:
    """peer §3.2: the mean; N/A as soon as one edge is."""
    one = head()
    assert payloads(one.tick(at(0))) == []
    one.heard(Voice(X1, X).pie("N/A", 0.95), came_from=X1, now_ns=at(1))
    one.heard(Voice(X2, X).pie("OK", 0.25), came_from=X2, now_ns=at(1))
    pie = GlobalPie("N/A", Indices(0.6, 0.0, 0.0))
    assert [told for told in payloads(one.tick(at(61))) if isinstance(told[1], GlobalPie)] == [(Y, pie), (Z, pie)]
    assert one.is_full(X1, now_ns=at(61))
    assert one.is_full(X1, now_ns=at(5000))  # what is N/A is not told again, and it is still connected
    assert not one.is_full(X2, now_ns=at(61))
    one.connected(edges=[X2], heads=[Y, Z], now_ns=at(62))
    assert condition_of(one) == "OK"


def test_a_head_says_who_is_gone() -> None:
    one = head()
    answers = one.connected(edges=[X2], heads=[Y, Z], now_ns=at(1))
    assert payloads(answers) == [(X2, Gone(X1))]


def uneven() -> HeadBalancer:
    """A head whose cluster has more than the two next to it, Y more so."""
    one = head()
    one.heard(Voice(X1, X).pie("N/A", 0.95), came_from=X1, now_ns=at(1))
    for name, utilisation in ((Y, 0.1), (Z, 0.2)):
        pie = Voice(name, name).says(GlobalPie("OK", Indices(utilisation, 0.0, 0.0)), of=GLOBAL_PIE)
        one.heard(pie, came_from=name, now_ns=at(2))
    return one


def test_a_call_for_help_makes_a_head_look_around() -> None:
    """peer D8; and its edges are told with whom to balance (§6.3, step 3)."""
    one = uneven()
    call = Voice(X1, X).says(Help("input"), to=X, toward=X)
    answers = one.heard(call, came_from=X1, now_ns=at(3))
    session = SessionId(X, 1, 1)
    assert payloads(answers) == [(Y, ClusterAsk(session, [X1, X2]))]
    reply = Voice(Y, Y).says(ClusterReply(session, "OK", [Y1]), to=X, toward=X)
    answers = one.heard(reply, came_from=Y, now_ns=at(4))
    assert payloads(answers) == [(X1, Watch(Y)), (X2, Watch(Y))]
    assert (one.condition, one.partner) == ("BUSY", Y)


def test_a_head_gives_a_session_up_that_does_not_help() -> None:
    """peer D8: after three calls another cluster is asked, not the same one."""
    one, caller = uneven(), Voice(X1, X)
    one.heard(caller.says(Help("input"), to=X, toward=X), came_from=X1, now_ns=at(3))
    reply = Voice(Y, Y).says(ClusterReply(SessionId(X, 1, 1), "OK", [Y1]), to=X, toward=X)
    one.heard(reply, came_from=Y, now_ns=at(4))
    for second in (5, 6):
        assert payloads(one.heard(caller.says(Help("input"), to=X), came_from=X1, now_ns=at(second))) == []
    answers = one.heard(caller.says(Help("input"), to=X), came_from=X1, now_ns=at(7))
    asked = [(to, told) for to, told in payloads(answers) if isinstance(told, ClusterAsk)]
    assert asked == [(Z, ClusterAsk(SessionId(X, 1, 2), [X1, X2]))]
    assert (X1, Watch(None)) in payloads(answers)


def test_a_head_sees_clients_move_between_clusters() -> None:
    """peer §6.3, liveness: what edges agree on passes by their heads."""
    one = uneven()
    one.heard(Voice(X1, X).says(Help("input"), to=X), came_from=X1, now_ns=at(3))
    reply = Voice(Y, Y).says(ClusterReply(SessionId(X, 1, 1), "OK", [Y1]), to=X, toward=X)
    one.heard(reply, came_from=Y, now_ns=at(4))
    idle_s = CONFIG.global_idle_periods * CONFIG.global_detect_s_max
    session = SessionId(X1, 1, 1)
    passing = [
        (Voice(X1, X).says(Moving(session, 3), to=Y1, toward=Y), X1, 100),
        (Voice(X1, X).says(Finished(session, 0), to=Y1, toward=Y), X1, 150),
        (Voice(X1, X).says(Moving(session, 3), to=X2, toward=X), X1, 160),
    ]
    for bulletin, came_from, second in passing:
        assert payloads(one.heard(bulletin, came_from=came_from, now_ns=at(second)))
    one.tick(at(100 + idle_s - 1))
    assert one.partner == Y
    one.tick(at(100 + idle_s))
    assert one.partner is None


def test_an_edge_that_comes_later_is_told_too() -> None:
    one = uneven()
    one.heard(Voice(X1, X).says(Help("input"), to=X), came_from=X1, now_ns=at(3))
    reply = Voice(Y, Y).says(ClusterReply(SessionId(X, 1, 1), "OK", [Y1]), to=X, toward=X)
    one.heard(reply, came_from=Y, now_ns=at(4))
    new = BrokerId("X3")
    assert payloads(one.connected(edges=[X1, X2, new], heads=[Y, Z], now_ns=at(5))) == [(new, Watch(Y))]
    ended = one.connected(edges=[X1, X2, new], heads=[Z], now_ns=at(6))
    assert [told for told in payloads(ended) if isinstance(told[1], Watch)] == [
        (name, Watch(None)) for name in (X1, X2, new)
    ]
    assert condition_of(one) == "N/A"
