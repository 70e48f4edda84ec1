"""Sessions between two clusters, step by step (peer §6.3, D8)."""

from __future__ import annotations

from tests.balancing.parts import CONFIG, at, condition_of
from tidewire.balancing.answers import Inner, Say
from tidewire.balancing.cluster_sessions import ClusterSessions
from tidewire.balancing.detectors import Candidate
from tidewire.balancing.pie import Entry
from tidewire.balancing.states import ClusterState
from tidewire.model.balance_messages import (
    ClusterAsk,
    ClusterCondition,
    ClusterFinished,
    ClusterReply,
    Indices,
    LocalPie,
    SessionId,
)
from tidewire.model.ids import BrokerId

X, Y, Z = BrokerId("X"), BrokerId("Y"), BrokerId("Z")
X1, Y1 = BrokerId("X1"), BrokerId("Y1")
IDLE_S = CONFIG.global_idle_periods * CONFIG.global_detect_s_max


class Head:
    """Sessions, and the condition of the cluster."""

    def __init__(self, name: BrokerId = X, *edges: BrokerId) -> None:
        self.state = ClusterState()
        self.sessions = ClusterSessions(name, CONFIG, self.state, life=1)
        self.sessions.edges = dict.fromkeys(edges or (X1,))

    def ask(self, *clusters: BrokerId, second: float = 0) -> list[Inner]:
        candidates = [Candidate(cluster, cluster, "input", 0.3) for cluster in clusters]
        return self.sessions.propose(candidates, now_ns=at(second))


def session(number: int = 1, asker: BrokerId = X) -> SessionId:
    return SessionId(asker, 1, number)


def in_session() -> Head:
    """X, with Y, since second 1."""
    head = Head()
    head.ask(Y)
    head.sessions.replied(Y, ClusterReply(session(), "OK", [Y1]), now_ns=at(1))
    return head


def said(answers: list[Inner]) -> list[object]:
    return [one.payload for one in answers if isinstance(one, Say)]


def told(edge: BrokerId, cluster: BrokerId, balanced: list[BrokerId], *, second: float) -> Entry[LocalPie]:
    return Entry(edge, cluster, LocalPie("OK", Indices(0, 0, 0), balanced), at(second))


def test_a_request_and_its_reply() -> None:
    """peer §6.3, steps 1 to 3: both clusters are BUSY."""
    head = Head()
    assert said(head.ask(Y)) == [ClusterAsk(session(), [X1])]
    assert condition_of(head.state) == "OK"
    other = Head(Y, Y1)
    assert said(other.sessions.asked(X, ClusterAsk(session(), [X1]), now_ns=at(1))) == [
        ClusterReply(session(), "OK", [Y1])
    ]
    head.sessions.replied(Y, ClusterReply(session(), "OK", [Y1]), now_ns=at(1))
    assert (head.state.condition, head.sessions.partner) == ("BUSY", Y)
    assert (other.state.condition, other.sessions.partner) == ("BUSY", X)


def test_the_next_cluster_is_asked() -> None:
    """peer §6.3, step 2; a missing reply counts as no (M8)."""
    head = Head()
    head.ask(Y, Z, BrokerId("W"))
    assert said(head.sessions.replied(Y, ClusterReply(session(), "N/A"), now_ns=at(1))) == [
        ClusterAsk(session(2), [X1])
    ]
    assert said(head.sessions.tick(at(11))) == [ClusterAsk(session(3), [X1])]
    late = head.sessions.replied(Z, ClusterReply(session(2), "OK", [Y1]), now_ns=at(12))
    assert said(late) == [ClusterFinished(session(2), "your answer came too late")]
    assert head.sessions.tick(at(21))[0] is not None
    assert not head.sessions.is_asking


def test_only_a_cluster_that_is_ok_and_has_edges_accepts() -> None:
    """peer §3.2: an overloaded one can ask, not accept."""
    full = Head()
    full.state.edges(is_one_overloaded=True)
    cases: list[tuple[Head, ClusterCondition]] = [(full, "N/A"), (in_session(), "BUSY")]
    for head, condition in cases:
        asked = head.sessions.asked(Z, ClusterAsk(session(1, Z), []), now_ns=at(2))
        assert said(asked) == [ClusterReply(session(1, Z), condition)]
    bare = Head()
    bare.sessions.edges = {}
    assert said(bare.sessions.asked(Z, ClusterAsk(session(1, Z), []), now_ns=at(2))) == [
        ClusterReply(session(1, Z), "N/A")
    ]
    overloaded = Head()
    overloaded.state.edges(is_one_overloaded=True)
    overloaded.ask(Y)
    overloaded.sessions.replied(Y, ClusterReply(session(), "OK", [Y1]), now_ns=at(1))
    assert condition_of(overloaded.state) == "BUSY"


def test_two_heads_that_ask_each_other() -> None:
    """peer S2, between clusters."""
    smaller, larger = Head(X), Head(Y, Y1)
    smaller.ask(Y)
    larger.ask(X)
    answered = said(smaller.sessions.asked(Y, ClusterAsk(session(1, Y), [Y1]), now_ns=at(1)))
    assert answered == [ClusterReply(session(1, Y), "OK", [X1])]
    assert said(larger.sessions.asked(X, ClusterAsk(session(), [X1]), now_ns=at(1))) == [
        ClusterReply(session(), "BUSY")
    ]
    assert smaller.sessions.replied(Y, ClusterReply(session(), "BUSY"), now_ns=at(2)) == []
    larger.sessions.replied(X, ClusterReply(session(1, Y), "OK", [X1]), now_ns=at(2))
    assert (smaller.sessions.partner, larger.sessions.partner) == (Y, X)


def test_it_ends_when_all_are_even() -> None:
    """peer §6.3, step 5: every edge of both clusters, by what was said since it began."""
    head = in_session()
    everybody = [X1, Y1]
    ours, theirs = told(X1, X, everybody, second=5), told(Y1, Y, everybody, second=5)
    assert head.sessions.told([ours], now_ns=at(6)) == []
    assert head.sessions.told([ours, told(Y1, Y, [Y1], second=5)], now_ns=at(6)) == []
    assert head.sessions.told([told(X1, X, everybody, second=0.5), theirs], now_ns=at(6)) == []
    newcomer = told(BrokerId("Y2"), Y, everybody, second=5)
    assert head.sessions.told([ours, theirs, newcomer], now_ns=at(6)) == []
    head.sessions.edge_gone(BrokerId("Y2"))
    ended = head.sessions.told([ours, theirs], now_ns=at(6))
    assert said(ended) == [ClusterFinished(session(), "all are even")]
    assert condition_of(head.state) == "OK"
    other = Head(Y, Y1)
    other.sessions.asked(X, ClusterAsk(session(), [X1]), now_ns=at(1))
    other.sessions.told_finished(Z, ClusterFinished(session()), now_ns=at(6))
    assert condition_of(other.state) == "BUSY"
    other.sessions.told_finished(X, ClusterFinished(session()), now_ns=at(6))
    assert condition_of(other.state) == "OK"


def test_too_many_calls_for_help_end_it() -> None:
    """peer D8: the third, and the cluster that was given up is left out that one time."""
    head = in_session()
    assert [head.sessions.called(now_ns=at(second)) for second in (2, 3)] == [([], None), ([], None)]
    ended, without = head.sessions.called(now_ns=at(4))
    assert without == Y
    assert said(ended) == [ClusterFinished(session(), "our edges still need help")]
    head.ask(Z, second=5)
    head.sessions.replied(Z, ClusterReply(session(2), "OK", []), now_ns=at(6))
    assert head.sessions.called(now_ns=at(7)) == ([], None)  # the count begins anew


def test_it_ends_when_nothing_moves() -> None:
    """peer §6.3, liveness, §11 row 25: three detection periods without a move between the two."""
    head = in_session()
    assert head.sessions.next_deadline_ns() == at(1 + IDLE_S)
    head.sessions.active(now_ns=at(100))
    assert head.sessions.tick(at(1 + IDLE_S)) == []
    ended = head.sessions.tick(at(100 + IDLE_S))
    assert isinstance(said(ended)[0], ClusterFinished)
    assert condition_of(head.state) == "OK"


def test_it_ends_with_the_other_head() -> None:
    """peer §11 row 24."""
    head = in_session()
    assert head.sessions.gone(Z, now_ns=at(2)) == []
    assert said(head.sessions.gone(Y, now_ns=at(2))) == []
    assert condition_of(head.state) == "OK"
    asking = Head()
    asking.ask(Y, Z)
    assert said(asking.sessions.gone(Y, now_ns=at(2))) == [ClusterAsk(session(2), [X1])]


def test_a_cluster_is_overloaded_again_afterwards() -> None:
    """peer §4: from BUSY to what its edges are."""
    head = in_session()
    head.state.edges(is_one_overloaded=True)
    head.sessions.give_up("stops", now_ns=at(3))
    assert condition_of(head.state) == "N/A"
