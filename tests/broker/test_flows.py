"""What a broker believes of its publishers, and whose voice counts how much: lies gain nothing (epeer §7)."""

from __future__ import annotations

from random import Random

import msgspec

from tidewire.broker.config import BrokerConfig
from tidewire.broker.flows import PATIENCE, Flow, OwnFlows, flow_key
from tidewire.broker.links import Links
from tidewire.broker.rooms import OwnRoom, Rooms
from tidewire.broker.shortage import watch_for
from tidewire.broker.shortage_head import HeadShortage
from tidewire.broker.voices import EdgeVoices, HeadVoices
from tidewire.broker.wanted_classes import ClassOverlap
from tidewire.congestion.fdcc.controller import Limit
from tidewire.congestion.fdcc.intake import Intake, Voice
from tidewire.congestion.fdcc.selection import Budget, FlowKey
from tidewire.congestion.fdcc.utility import Judgement, judgement
from tidewire.model.ids import BrokerId, Conn, Nanoseconds, PubendId, TreeId
from tidewire.model.shortage_messages import LimitFlow, OfferedClass, Opinion
from tidewire.model.traffic import ClassKey
from tidewire.routing.router import Router
from tidewire.traffic.classes import Classes

TREE = TreeId(5)
ANN = Conn(1)
QUAKE, NEWS = ClassKey("=QUAKE"), ClassKey("=NEWS")


class Publisher:
    """One that sends so much, and says what it likes."""

    def __init__(self) -> None:
        self.flows = OwnFlows(TREE)
        self.events = 0
        self.period(0)

    def period(self, sent: int, **said: float) -> dict[ClassKey, tuple[float, float]]:
        """A second passes: it sent so many events, and says this. What the broker takes for offered and accepted."""
        self.events += sent
        self.flows.measured([(ANN, self.events, 100 * self.events)], {ANN: (7, "")}, elapsed_s=1.0)
        self.flows.said(ANN, [OfferedClass(f"={kind}", rate, 0.0, 100.0) for kind, rate in said.items()])
        return {flow.traffic_class: (flow.offered_msgs_s, flow.accepted_msgs_s) for flow in self.flows.flows()}

    def limit(self, msgs_s: float, kind: ClassKey = QUAKE) -> int:
        """The head decides; how many messages does it make?"""
        key = flow_key(TREE, 7, kind)
        return len(list(self.flows.news({key: Limit(msgs_s, "selection")}, {})))


def test_who_is_free_offers_what_it_sends() -> None:
    """To say more, or less, than that changes nothing: neither the class's need nor its importance."""
    for claim in (1.0, 100.0, 1e9):
        one = Publisher()
        assert one.period(100, QUAKE=claim)[QUAKE] == (100.0, 100.0)


def test_of_several_classes_only_the_parts_are_believed() -> None:
    one = Publisher()
    assert one.period(100, QUAKE=3e6, NEWS=1e6) == {QUAKE: (75.0, 75.0), NEWS: (25.0, 25.0)}


def test_who_is_limited_is_believed_within_bounds() -> None:
    """What it sent when it was free says what it would send: a thousand times more is not believed."""
    one = Publisher()
    one.period(100, QUAKE=100)
    one.limit(0.0)
    assert one.period(0, QUAKE=120)[QUAKE] == (120.0, 0.0)
    assert one.period(0, QUAKE=1e9)[QUAKE] == (300.0, 0.0)


def test_who_says_less_than_it_sends_is_not_believed() -> None:
    one = Publisher()
    one.period(100, QUAKE=100)
    one.limit(50.0)
    assert one.period(100, QUAKE=1)[QUAKE] == (100.0, 100.0)


def test_who_ignores_its_limit_is_ended() -> None:
    """Not at once: what was under way counts too."""
    one = Publisher()
    one.period(1000, QUAKE=1000)
    one.limit(10.0)
    ended: list[Conn] = []
    for _ in range(PATIENCE):
        assert not ended
        one.period(1000, QUAKE=1000)
        ended = one.flows.beyond()
    assert ended == [ANN]
    for _ in range(2 * PATIENCE):
        one.period(10, QUAKE=1000)
        assert one.flows.beyond() == []


def test_only_changes_are_told() -> None:
    """epeer §2.11, RATE_UPDATE."""
    one = Publisher()
    one.period(100, QUAKE=100)
    assert [one.limit(10.0), one.limit(10.0), one.limit(5.0)] == [1, 0, 1]
    [(conn, lifted)] = list(one.flows.news({}, {}))
    assert conn == ANN
    assert [(limit.traffic_class, limit.msgs_s) for limit in lifted.limits] == [("=QUAKE", None)]


def test_limits_of_other_heads_hold_while_they_are_said() -> None:
    """The least of them; one that is no longer said again is over (epeer §2.10, remote clients)."""
    one = Publisher()
    one.period(100, QUAKE=100)
    for broker, msgs_s in (("B", 50.0), ("C", 20.0)):
        one.flows.limited_by(BrokerId(broker), [LimitFlow(7, QUAKE, msgs_s, "selection")])
    key: FlowKey = flow_key(TREE, 7, QUAKE)
    assert one.flows.by_others()[key].msgs_s == 20.0
    one.flows.limited_by(BrokerId("C"), [])
    assert one.flows.by_others()[key].msgs_s == 50.0
    for _ in range(4):
        one.period(50, QUAKE=100)
    assert one.flows.by_others() == {}


def test_a_voice_is_shared_by_edges() -> None:
    """One identity at three edges says together what it says at one; who leaves gives its part back."""
    head, edges = HeadVoices(), {Conn(i): EdgeVoices() for i in range(3)}
    lane, eve, ann = Conn(99), Voice("eve"), Voice("ann")

    def period(there: dict[Conn, list[Voice]]) -> None:
        for conn, edge in edges.items():
            for send in head.said(conn, *edge.news(lane, dict.fromkeys(there[conn]))):
                edges[send.conn].heard(lane, send.message)  # type: ignore[arg-type]

    everywhere = {conn: [eve, ann] if conn == 0 else [eve] for conn in edges}
    period(everywhere)
    assert [edge.share(eve) for edge in edges.values()] == [1 / 3] * 3
    assert edges[Conn(0)].share(ann) == 1.0
    heard: list[Judgement] = []
    for conn, edge in edges.items():
        intake = Intake(period_ns=10**9)
        for voice in everywhere[conn]:
            said = [Opinion(1, 7, QUAKE, 1.0 if voice == eve else 0.0, 1)]
            at = Conn(hash(voice) % 1000)
            intake.said(at, said, voice=voice, weight=1.0, may_know=lambda _: True, now_ns=Nanoseconds(0))
        heard += intake.taken(edge.share).values()
    whole = heard[0] + heard[1] + heard[2]
    assert whole.utility is not None
    assert round(whole.utility, 9) == 0.5
    period({**everywhere, Conn(1): []})
    assert edges[Conn(0)].share(eve) == 0.5
    for send in head.gone(Conn(2)):
        edges[send.conn].heard(lane, send.message)  # type: ignore[arg-type]
    assert edges[Conn(0)].share(eve) == 1.0


def test_balancing_has_its_time_first() -> None:
    """design §3.5: within the cluster, between clusters, and only then less traffic."""
    config = BrokerConfig(broker=BrokerId("B"))
    output = Budget("output")
    alone = watch_for(config)
    assert [alone.look({output: 2.0}) for _ in range(2)] == [False, True]
    among_edges = watch_for(msgspec.structs.replace(config, balancing="peer"))
    found = [among_edges.look({output: 2.0}) for _ in range(100)]
    assert found.index(True) == 89, "after inert_s"


class _Held:
    """Pubends of which one may take only so much (what PDCC says)."""

    def pace_of(self, publisher: int) -> tuple[PubendId, float | None, str]:
        return (PubendId(1), 100.0, "held back") if publisher < 10 else (PubendId(2), None, "")


def test_who_gives_way_in_a_stream_that_is_held_back() -> None:
    """design §3.6: PDCC says how much a pubend may take, FDCC who of its publishers gives way; others are free."""
    config = BrokerConfig(broker=BrokerId("B"))
    router = Router(config.broker, TREE)
    links = Links(config, incarnation=1, chance=Random(1))
    overlap = ClassOverlap(Classes(config.traffic), "class")
    head = HeadShortage(config, router, links, overlap, OwnRoom(config), Rooms())
    flows = [_flow(1, QUAKE, 60.0), _flow(2, NEWS, 60.0), _flow(3, NEWS, 60.0), _flow(11, NEWS, 60.0)]
    for number, utility in ((1, 0.9), (2, 0.2), (3, 0.6), (11, 0.1)):
        flow = next(one for one in flows if one.publisher == number)
        head.controller.hear(flow.key, judgement(utility))
    wanted = {QUAKE: (1, 1), NEWS: (1, 1)}
    list(head.decide(TREE, flows, [], wanted, [], is_short=False, now_ns=Nanoseconds(10**9)))
    found = head.shares(flows, _Held())  # type: ignore[arg-type]
    assert {key.split("/")[1]: share for key, share in found.items()} == {"1": 60.0, "3": 40.0, "2": 0.0}


def _flow(publisher: int, kind: ClassKey, rate: float) -> Flow:
    return Flow(
        key=flow_key(TREE, publisher, kind),
        publisher=publisher,
        traffic_class=kind,
        offered_msgs_s=rate,
        accepted_msgs_s=rate,
        guaranteed_msgs_s=rate,
        size_bytes=100.0,
        owner="",
    )
