"""Loads, classes of clients, and who goes where: the golden values of epeer §5 that are arithmetic."""

from __future__ import annotations

import random
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.balancing.agents import ROOMY, bundle, matching
from tidewire.balancing.drd.bundles import (
    Bundle,
    Locality,
    Member,
    Scope,
    delay_ratio,
    member_load,
    prioritised,
    shares,
)
from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.drd.distribution import Edge, Scattered, Together
from tidewire.balancing.drd.loads import (
    Load,
    Smoothing,
    available,
    remaining,
    required,
    state_of,
    weighted,
    worst,
)
from tidewire.balancing.drd.peer_lb import Evening, gap, uneven
from tidewire.balancing.drd.selection import Acceptor, DelayDriven, Snapshot
from tidewire.model.errors import BadConfiguration
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.offload_messages import METRICS, Amounts, Metric
from tidewire.model.traffic import ClassKey

CONFIG = DrdConfig()
NOW = Nanoseconds(0)


# -- loads -------------------------------------------------------------------------------------------------------------


def test_the_newest_sample_counts_most() -> None:
    """epeer G1, E4: divided by the weights, not by the number of samples."""
    assert weighted([0.80, 1.00], CONFIG.weights) == pytest.approx(0.94)
    assert state_of(0.94, low=0.90, high=0.95) == "HIGH"
    assert weighted([0.5], CONFIG.weights) == 0.5
    assert weighted([9.0, 0.80, 1.00], CONFIG.weights) == pytest.approx(0.94)
    smoothing = Smoothing(CONFIG.weights)
    capacity = Amounts(100.0, 100.0, 1.0)
    smoothing.add(Load(matching(0.80), capacity))
    assert smoothing.add(Load(matching(1.00), capacity)).utilisation("matching") == pytest.approx(0.94)
    smoothing.begin_anew()
    assert smoothing.add(Load(matching(0.2), capacity)).utilisation("matching") == pytest.approx(0.2)


@pytest.mark.parametrize(("highest", "state"), [(0.8999, "LOW"), (0.90, "HIGH"), (0.95, "HIGH"), (0.9501, "OVERLOAD")])
def test_states(highest: float, state: str) -> None:
    """epeer G2, E8: both thresholds belong to HIGH."""
    assert state_of(highest, low=0.90, high=0.95) == state


def test_what_is_left() -> None:
    """epeer G3, in KB/s."""
    load = Load(Amounts(0.40 * 5000, 0.0, 0.0), Amounts(5000.0, 1.0, 1.0))
    assert remaining(load, high=0.90).input_bytes_s == pytest.approx(2500)
    assert remaining(load, high=0.95).input_bytes_s == pytest.approx(2750)


def test_what_is_left_is_the_least_of_three_in_events() -> None:
    """epeer §2.6, E7: bytes become events by what one takes here; an idle broker goes by the settings."""
    busy = Load(Amounts(60_000.0, 120_000.0, 100.0), Amounts(1_000_000.0, 200_000.0, 1000.0))
    by_output = (0.95 * 200_000 - 120_000) / 1200
    assert available(busy, CONFIG) == pytest.approx(by_output)
    idle = Load(Amounts(), Amounts(600_000.0, 600_000.0, 1000.0))
    assert available(idle, CONFIG) == pytest.approx(0.95 * 600_000 / (600 * 4.5))
    over = Load(Amounts(0.0, 0.0, 1200.0), Amounts(ROOMY, ROOMY, 1000.0))
    assert available(over, CONFIG) == 0.0
    assert remaining(over, high=0.95).matching_events_s == pytest.approx(-250)


def test_a_capacity_that_does_not_matter_is_never_used_up() -> None:
    """epeer §2.6: of a head matching is not looked at."""
    head = Load(Amounts(10.0, 10.0, 1e9), Amounts(100.0, 100.0, inf))
    assert head.highest == pytest.approx(0.1)
    assert required(head, CONFIG) == {}


def test_the_worst_metric_is_the_one_furthest_beyond() -> None:
    """epeer §2.8: with several too high, that with the largest excess; all have to come down."""
    load = Load(Amounts(97.0, 99.0, 10.0), Amounts(100.0, 100.0, 100.0))
    assert worst(load) == "output"
    assert required(load, CONFIG) == {"input": pytest.approx(2.0), "output": pytest.approx(4.0)}
    assert required(load, DrdConfig(offload_to="low"))["output"] == pytest.approx(9.0)


# -- classes of clients ------------------------------------------------------------------------------------------------


def test_what_a_class_and_one_of_its_clients_take() -> None:
    """epeer G9, Table 4-3: input and matching fall only with the last of them."""
    members = tuple(Member(number, 100.0) for number in range(3))
    topic = Bundle(key=ClassKey("t"), load=Amounts(50.0, 300.0, 7.0), members=members)
    capacity = Amounts(1000.0, 1000.0, 1000.0)
    assert shares(topic.load, capacity)[1] == pytest.approx(0.3)
    one = member_load(members[0], scope="subscribers")
    assert list(shares(one, capacity)) == pytest.approx([0.0, 0.1, 0.0])


def of_each_class(*, delay_s: float = 10.0) -> list[Bundle]:
    localities: tuple[Locality, ...] = ("local", "none", "both", "remote")
    return [Bundle(key=ClassKey(one), delay_s=delay_s, load=Amounts(1.0, 1.0, 1.0), locality=one) for one in localities]


@pytest.mark.parametrize(
    ("scope", "metric", "order"),
    [
        ("publishers", "input", ["none", "remote", "both", "local"]),
        ("publishers", "output", ["remote", "both", "local", "none"]),
        ("subscribers between clusters", "matching", ["remote", "both", "local", "none"]),
        ("subscribers between clusters", "output", ["remote", "both", "local", "none"]),
    ],
)
def test_who_goes_first_by_where_the_others_are(scope: Scope, metric: Metric, order: list[str]) -> None:
    """epeer G8."""
    assert [one.key for one in prioritised(of_each_class(), scope=scope, metric=metric)] == order


def test_within_a_cluster_only_delays_count() -> None:
    """epeer G8: the first three by delay alone, those whom nothing comes for last."""
    delays = {"local": 5.0, "remote": 1.0, "both": 50.0, "none": 99.0}
    bundles = [
        Bundle(key=one.key, delay_s=delays[one.key], load=one.load, locality=one.locality) for one in of_each_class()
    ]
    ordered = prioritised(bundles, scope="subscribers", metric="output")
    assert [one.key for one in ordered] == ["both", "local", "remote", "none"]


def test_who_can_wait_longest_goes_first_then_who_relieves_most() -> None:
    """epeer §2.8: no delay named is infinite; ties go by the load, then by the name."""
    bundles = [bundle("a", 5, 10, 1), bundle("b", inf, 1, 1), bundle("d", 5, 20, 1), bundle("c", 5, 20, 1)]
    ordered = prioritised(bundles, scope="subscribers", metric="matching")
    assert [one.key for one in ordered] == ["b", "c", "d", "a"]


# -- who goes where ----------------------------------------------------------------------------------------------------


def edge(name: str, capacity: float, share: float, *, hosts: tuple[str, ...] = ()) -> Acceptor:
    load = Load(matching(capacity * share), Amounts(ROOMY, ROOMY, capacity))
    return Acceptor(broker=BrokerId(name), load=load, hosts=frozenset(ClassKey(one) for one in hosts))


TOPICS = (
    bundle("tA", 50, 300, 4, first=10),
    bundle("tB", 45, 5000, 2, first=20),
    bundle("tC", 30, 200, 3, first=30),
    bundle("tD", 2, 446, 5, first=40),
    bundle("tZ", 1, 15687.91, 9, first=50),
)
DONOR = Load(matching(22303 * 0.97), Amounts(ROOMY, ROOMY, 22303.0))
OTHERS = (edge("B0", 27570, 0.80), edge("B1", 25067, 0.93), edge("B2", 24725, 0.85))


def test_the_golden_selection() -> None:
    """epeer G5: whoever is HIGH takes nothing; what does not fit is passed over."""
    low = tuple(one for one in OTHERS if state_of(one.load.highest, low=CONFIG.low, high=CONFIG.high) == "LOW")
    assert [one.broker for one in low] == ["B0", "B2"]
    assert [remaining(one.load, high=0.95).matching_events_s for one in low] == pytest.approx([4135.5, 2472.5])
    assert required(DONOR, CONFIG) == {"matching": pytest.approx(446.06)}
    snapshot = Snapshot(scope="subscribers", donor=DONOR, bundles=TOPICS, acceptors=low)
    plan = DelayDriven(CONFIG).plan(snapshot, now_ns=NOW)
    assert [(move.bundle.key, move.to) for move in plan.moves] == [("tA", "B0"), ("tC", "B0")]
    assert plan.needed == {"matching": pytest.approx(-53.94)}
    assert plan.is_enough
    left = remaining(plan.acceptors[BrokerId("B0")], high=0.95).matching_events_s
    assert left == pytest.approx(3635.5)
    assert plan.predicted.highest == pytest.approx((22303 * 0.97 - 500) / 22303)


def test_the_golden_cost() -> None:
    """epeer G6: what the same relief costs those who move, by delay and by load."""
    low = (OTHERS[0], OTHERS[2])
    snapshot = Snapshot(scope="subscribers", donor=DONOR, bundles=TOPICS, acceptors=low)
    planner = DelayDriven(CONFIG)
    plan = planner.plan(snapshot, now_ns=NOW)
    cost = delay_ratio([(move.bundle, len(move.clients)) for move in plan.moves], unexpected_s=0.2)
    assert cost == pytest.approx(0.036)
    # those that come to B0 first: by load alone tZ and tB do not fit there, nor at B2
    by_load = sorted(TOPICS, key=lambda one: -one.load.matching_events_s)
    plan = planner.ordered(snapshot, by_load, metric="matching", now_ns=NOW)
    assert [move.bundle.key for move in plan.moves] == ["tD", "tA"]
    cost = delay_ratio([(move.bundle, len(move.clients)) for move in plan.moves], unexpected_s=0.2)
    assert cost == pytest.approx(0.516)


def test_not_enough_room() -> None:
    """epeer G7: what fits does not suffice, and it says what is still needed."""
    room = Acceptor(broker=BrokerId("B9"), load=Load(matching(700), Amounts(ROOMY, ROOMY, 1000.0)))
    snapshot = Snapshot(scope="subscribers", donor=DONOR, bundles=TOPICS, acceptors=(room,))
    plan = DelayDriven(CONFIG).plan(snapshot, now_ns=NOW)
    assert [move.bundle.key for move in plan.moves] == ["tC"]
    assert plan.needed == {"matching": pytest.approx(246.06)}
    assert not plan.is_enough


def test_what_comes_in_any_case_comes_once() -> None:
    """epeer §2.8: where the class is already, only the output grows."""
    topic = Bundle(key=ClassKey("t"), load=Amounts(50.0, 10.0, 500.0), members=(Member(1, 10.0),), delay_s=1.0)
    donor = Load(Amounts(0.0, 0.0, 990.0), Amounts(ROOMY, ROOMY, 1000.0))
    full = Load(Amounts(0.0, 0.0, 899.0), Amounts(ROOMY, ROOMY, 1000.0))
    for hosts, moves in ((frozenset[ClassKey](), 0), (frozenset([ClassKey("t")]), 1)):
        acceptor = Acceptor(broker=BrokerId("B1"), load=full, hosts=hosts)
        snapshot = Snapshot(scope="subscribers", donor=donor, bundles=(topic,), acceptors=(acceptor,))
        assert len(DelayDriven(CONFIG).plan(snapshot, now_ns=NOW).moves) == moves


def test_single_subscribers_go_only_for_the_sake_of_output() -> None:
    """epeer §2.9 b: one of many relieves the output; where no bundle fits, single ones go, as few as needed."""
    members = tuple(Member(number, 100.0) for number in range(10))
    topic = Bundle(key=ClassKey("t"), load=Amounts(10.0, 1000.0, 10.0), members=members, delay_s=9.0)
    room = Load(Amounts(0.0, 0.0, 0.0), Amounts(ROOMY, 300.0, ROOMY))
    acceptor = Acceptor(broker=BrokerId("B1"), load=room)
    donor = Load(Amounts(10.0, 1000.0, 10.0), Amounts(ROOMY, 900.0, ROOMY))
    plan = DelayDriven(CONFIG).plan(
        Snapshot(scope="subscribers", donor=donor, bundles=(topic,), acceptors=(acceptor,)), now_ns=NOW
    )
    assert [move.clients for move in plan.moves] == [(0,), (1,)]
    assert plan.needed == {"output": pytest.approx(1000 - 0.95 * 900 - 200)}
    assert plan.moves[0].load == Amounts(10.0, 100.0, 10.0)
    assert plan.moves[1].load == Amounts(0.0, 100.0, 0.0)
    crowded = Load(Amounts(0.0, 0.0, 1000.0), Amounts(ROOMY, ROOMY, 1000.0))
    by_matching = Snapshot(
        scope="subscribers",
        donor=Load(Amounts(0.0, 0.0, 970.0), Amounts(ROOMY, ROOMY, 1000.0)),
        bundles=(topic,),
        acceptors=(Acceptor(broker=BrokerId("B1"), load=crowded),),
    )
    assert DelayDriven(CONFIG).plan(by_matching, now_ns=NOW).moves == ()


def test_who_relieves_nothing_stays() -> None:
    """epeer §2.9 b: a class without load on what is too much is skipped."""
    idle = Bundle(key=ClassKey("idle"), load=Amounts(5.0, 5.0, 0.0), delay_s=inf, members=(Member(1, 5.0),))
    snapshot = Snapshot(scope="subscribers", donor=DONOR, bundles=(idle, *TOPICS), acceptors=OTHERS[:1])
    moved = {move.bundle.key for move in DelayDriven(CONFIG).plan(snapshot, now_ns=NOW).moves}
    assert "idle" not in moved


amounts = st.builds(Amounts, *[st.floats(0, 1000, allow_nan=False)] * 3)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    bundles = []
    for number in range(draw(st.integers(0, 8))):
        each = draw(st.lists(st.floats(0, 50), min_size=1, max_size=4))
        members = tuple(Member(number * 10 + place, size) for place, size in enumerate(each))
        load = Amounts(draw(st.floats(0, 99)), sum(each), draw(st.floats(0, 99)))
        bundles.append(Bundle(key=ClassKey(f"t{number}"), delay_s=draw(st.floats(1, 50)), load=load, members=members))
    used = sum((one.load for one in bundles), Amounts())
    donor = Load(used, Amounts(*(max(1.0, used.of(metric) * draw(st.floats(0.5, 2))) for metric in METRICS)))
    acceptors = tuple(
        Acceptor(
            broker=BrokerId(f"B{number}"),
            load=Load(draw(amounts), Amounts(*(draw(st.floats(1, 2000)) for _ in METRICS))),
            hosts=frozenset(one.key for one in bundles if draw(st.booleans())),
        )
        for number in range(draw(st.integers(0, 3)))
    )
    return Snapshot(
        scope=draw(st.sampled_from(["subscribers", "publishers"])),
        donor=donor,
        bundles=tuple(bundles),
        acceptors=acceptors,
    )


@given(snapshots())
def test_nobody_is_brought_beyond_the_threshold(snapshot: Snapshot) -> None:
    """epeer §2.9 b: an acceptor does not become overloaded; each client goes once; the sums are right."""
    plan = DelayDriven(CONFIG).plan(snapshot, now_ns=NOW)
    before = {one.broker: one.load for one in snapshot.acceptors}
    for broker, load in plan.acceptors.items():
        for metric in METRICS:
            assert load.utilisation(metric) <= max(CONFIG.high, before[broker].utilisation(metric)) + 1e-9
    clients = [client for move in plan.moves for client in move.clients]
    assert len(clients) == len(set(clients))
    for metric, needed in required(snapshot.donor, CONFIG).items():
        relief = sum(move.relief.of(metric) for move in plan.moves)
        assert plan.needed[metric] == pytest.approx(needed - relief, abs=1e-6)
    if not required(snapshot.donor, CONFIG):
        assert not plan.moves


# -- where newcomers go ------------------------------------------------------------------------------------------------


def test_newcomers_go_where_most_is_left_and_stay_together() -> None:
    """epeer G23: a LOW edge, though a HIGH one has more left; the second of a class follows the first."""
    e1, e2, e3 = (BrokerId(name) for name in ("e1", "e2", "e3"))
    edges = [
        Edge(broker=e1, state="LOW", available=5000),
        Edge(broker=e2, state="HIGH", available=9000),
        Edge(broker=e3, state="LOW", available=4000),
    ]
    distribution = Together(CONFIG)
    topic = [ClassKey("t")]
    assert distribution.choose(topic, edges, now_ns=NOW) == e1
    fuller = [Edge(broker=e1, state="HIGH", available=10), *edges[1:]]
    assert distribution.choose(topic, fuller, now_ns=NOW) == e1
    assert distribution.choose([ClassKey("new")], fuller, now_ns=NOW) == e3
    distribution.moved(topic, e3, now_ns=NOW)
    assert distribution.choose(topic, fuller, now_ns=NOW) == e3
    assert distribution.choose(topic, [], now_ns=NOW) is None


def test_newcomers_by_distance_and_without_room() -> None:
    """epeer §2.7: in a WAN the nearest LOW one; none LOW: the HIGH one with most; else the least utilised."""
    near, far = BrokerId("near"), BrokerId("far")
    wan = DrdConfig(environment="wan")
    low = [
        Edge(broker=far, state="LOW", available=9000, distance=7.0),
        Edge(broker=near, state="LOW", available=10, distance=1.0),
    ]
    assert Together(wan).choose([], low, now_ns=NOW) == near
    high = [Edge(broker=near, state="HIGH", available=1), Edge(broker=far, state="OVERLOAD", available=2)]
    assert Together(CONFIG).choose([], high, now_ns=NOW) == near
    over = [
        Edge(broker=near, state="OVERLOAD", available=0, utilisation=1.5),
        Edge(broker=far, state="OVERLOAD", available=0, utilisation=1.1),
    ]
    assert Together(CONFIG).choose([], over, now_ns=NOW) == far


def test_newcomers_may_be_kept_from_overloaded_hosts() -> None:
    """epeer §2.7: together, whatever the load; unless it is so set."""
    here, there = BrokerId("here"), BrokerId("there")
    edges = [
        Edge(broker=here, state="OVERLOAD", available=0, hosts=frozenset([ClassKey("t")])),
        Edge(broker=there, state="LOW", available=100),
    ]
    assert Together(CONFIG).choose([ClassKey("t")], edges, now_ns=NOW) == here
    assert Together(DrdConfig(colocate_skip_overloaded=True)).choose([ClassKey("t")], edges, now_ns=NOW) == there


def test_a_class_that_was_placed_and_never_seen_is_forgotten() -> None:
    e1, e2 = BrokerId("e1"), BrokerId("e2")
    edges = [Edge(broker=e1, state="LOW", available=2), Edge(broker=e2, state="LOW", available=1)]
    distribution = Together(CONFIG)
    assert distribution.choose([ClassKey("t")], edges, now_ns=NOW) == e1
    elsewhere = [Edge(broker=e1, state="LOW", available=1), Edge(broker=e2, state="LOW", available=2)]
    assert distribution.choose([ClassKey("t")], elsewhere, now_ns=Nanoseconds(29 * 10**9)) == e1
    assert distribution.choose([ClassKey("t")], elsewhere, now_ns=Nanoseconds(99 * 10**9)) == e2


# -- the baseline ------------------------------------------------------------------------------------------------------


def test_the_baseline_draws_an_edge_for_each_class_or_client() -> None:
    """epeer §4.3, E19."""
    edges = [Edge(broker=BrokerId(f"e{number}"), state="LOW", available=1) for number in range(4)]
    by_class = Scattered(CONFIG, random.Random(3))
    assert len({by_class.choose([ClassKey("t")], edges, now_ns=NOW) for _ in range(50)}) == 1
    assert len({by_class.choose([ClassKey(f"t{n}")], edges, now_ns=NOW) for n in range(50)}) == 4
    by_client = Scattered(DrdConfig(placement="client"), random.Random(3))
    assert len({by_client.choose([ClassKey("t")], edges, now_ns=NOW) for _ in range(50)}) == 4


def test_the_baseline_balances_any_two_that_differ_by_a_tenth() -> None:
    """epeer §4.2: relative to the larger; whoever is BUSY, or not LOW, takes nothing."""
    capacity = Amounts(ROOMY, ROOMY, 1000.0)
    e1, e2, e3 = (BrokerId(name) for name in ("e1", "e2", "e3"))
    loads = {e1: Load(matching(500), capacity), e2: Load(matching(451), capacity), e3: Load(matching(480), capacity)}
    assert uneven({name: ("LOW", load) for name, load in loads.items()}, config=CONFIG) is None
    loads[e2] = Load(matching(440), capacity)
    assert uneven({name: ("LOW", load) for name, load in loads.items()}, config=CONFIG) == (e1, e2)
    assert uneven({e1: ("LOW", loads[e1]), e2: ("BUSY", loads[e2])}, config=CONFIG) is None
    assert uneven({e1: ("BUSY", loads[e1]), e2: ("LOW", loads[e2])}, config=CONFIG) is None
    absolute = DrdConfig(difference="absolute")
    assert uneven({name: ("LOW", load) for name, load in loads.items()}, config=absolute) is None


def two_edges() -> Snapshot:
    bundles = tuple(bundle(f"t{number:02}", 1.0 + number, 10.0 + number, 1, first=number) for number in range(20))
    used = sum((one.load for one in bundles), Amounts())
    capacity = Amounts(ROOMY, ROOMY, 1000.0)
    acceptor = Acceptor(broker=BrokerId("e2"), load=Load(matching(100), capacity))
    return Snapshot(scope="subscribers", donor=Load(used, capacity), bundles=bundles, acceptors=(acceptor,))


@pytest.mark.parametrize("order", ["random", "largest", "delay"])
def test_the_baseline_makes_two_even(order: str) -> None:
    """epeer §4.3: until they differ by at most 2 %, and never the other way round by more."""
    snapshot = two_edges()
    plan = Evening(CONFIG, order, random.Random(5)).plan(snapshot, now_ns=NOW)  # type: ignore[arg-type]
    after = gap(plan.predicted, plan.acceptors[BrokerId("e2")], "matching", config=CONFIG)
    assert abs(after) <= CONFIG.balanced
    names = [move.bundle.key for move in plan.moves]
    expected = {"largest": "t19", "delay": "t19"}
    if order in expected:
        assert names[0] == expected[order]
    else:
        assert names != sorted(names)


def test_settings_that_cannot_be() -> None:
    for wrong in (
        {"low": 0.96},
        {"weights": ()},
        {"weights": (0.0, 1.0)},
        {"period_s": 0.0},
        {"profile_samples": 0},
        {"balanced": 0.5},
        {"event_bytes": inf},
    ):
        with pytest.raises(BadConfiguration):
            DrdConfig(**wrong)
