"""Who moves, and when it ends (bad §4, §5)."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.placement.parts import NOW, snapshot, snapshots, worked_example
from tidewire.model.errors import BadConfiguration, LimitReached, UnknownName
from tidewire.model.ids import Nanoseconds
from tidewire.placement.config import StageConfig
from tidewire.placement.loads import Loads, LoadSnapshot, Subscriber, lower_bound
from tidewire.placement.migrations import MIGRATIONS, migrate
from tidewire.placement.optimum import fewest_moves, smallest_max
from tidewire.placement.plans import Plan
from tidewire.placement.shuffles import SHUFFLES, greedy, sticky
from tidewire.placement.stages import POLICIES, Staged

CONFIG = StageConfig(migrate_above=0.15, migrate_load_min=0, shuffle_above=0.5, shuffle_load_min=0)


def decide(policy: str, world: LoadSnapshot, config: StageConfig = CONFIG) -> Plan:
    return Staged(policy, config).plan(world, now_ns=NOW)


def applied(plan: Plan, world: LoadSnapshot) -> LoadSnapshot:
    """The world when everybody has moved."""
    to = {move.subscriber: world.brokers.index(move.to) for move in plan.moves}
    moved = tuple(replace(one, broker=to.get(one.name, one.broker)) for one in world.subscribers)
    return replace(world, subscribers=moved)


def trace(scheme: str) -> list[tuple[str, list[float], float]]:
    """Each move of the worked example: who from where to where, F and cov after it."""
    world = worked_example()
    loads = Loads(world)
    found = []
    for step in migrate(loads, CONFIG, MIGRATIONS[scheme]):
        move = f"u{step.subscriber + 1} b{step.source + 1}->b{step.to + 1}"
        found.append((move, list(loads.loads), round(loads.balance().cov, 6)))
    return found


def test_ldm_in_the_worked_example() -> None:
    """bad G1: LDM 1 to 3."""
    assert trace("ldm") == [
        ("u3 b1->b3", [170, 50, 130], 0.427618),
        ("u5 b1->b2", [80, 150, 130], 0.245327),
        ("u6 b2->b1", [105, 100, 130], 0.117523),
    ]
    plan = decide("ldm", worked_example())
    assert plan.predicted.cov == pytest.approx(0.1175225056, abs=1e-10)
    assert (plan.stages, plan.reason) == (("ldm",), "even enough")


def test_sdm_in_the_worked_example() -> None:
    """bad G1: SDM 1 to 3; it ends at the optimum."""
    assert trace("sdm") == [
        ("u3 b1->b2", [170, 150, 10], 0.647096),
        ("u5 b1->b3", [80, 150, 110], 0.253010),
        ("u6 b2->b1", [105, 120, 110], 0.055846),
    ]
    assert decide("sdm", worked_example()).predicted.cov == pytest.approx(0.0558456326, abs=1e-10)


def test_gsh_in_the_worked_example() -> None:
    """bad G1: u3 stays, all others move; the maximum is the smallest that there is."""
    plan = decide("gsh", worked_example())
    to = {move.subscriber: move.to for move in plan.moves}
    assert to == {"u5": "b2", "u1": "b3", "u6": "b3", "u2": "b3", "u4": "b2"}
    assert list(plan.predicted.loads) == [120, 110, 105]
    assert plan.predicted.cov == pytest.approx(0.0558456326, abs=1e-10)
    assert smallest_max(worked_example()).max_load == 120 == lower_bound(worked_example())


def test_sticky_reaches_the_optimum_of_the_worked_example_with_fewer_moves() -> None:
    """bad §7: GSH's balance with four moves in place of five; an exact search finds three."""
    plan = decide("sticky", worked_example())
    assert plan.predicted.max == 120
    best = fewest_moves(worked_example(), max_load=120)
    assert best is not None
    assert (best.moves, len(plan.moves)) == (3, 4)


def test_one_subscriber_does_not_go_to_and_fro() -> None:
    """bad G3: with <= it never ends but for the bound on moves; strict, nobody moves."""
    world = snapshot({"A": 10}, {"u1": "A"}, {"b1": ["u1"], "b2": []})
    assert Loads(world).loads == [20, 0]
    assert Loads(world).balance().cov == 1
    for policy in ("ldm", "sdm", "sticky"):
        plan = decide(policy, world)
        assert (plan.moves, plan.reason) == ((), "nothing else helps")
    loose = replace(CONFIG, is_strict=False, moves_max=1001)
    assert len(list(migrate(Loads(world), loose, MIGRATIONS["ldm"]))) == 1001
    assert len(decide("ldm", world, loose).moves) == 1, "only the net move"
    assert decide("ldm", world, replace(loose, moves_max=1000)).moves == ()


def test_without_sharing_gsh_is_longest_processing_time_first() -> None:
    """bad G4: 14 and 10, where 12 and 12 could be had: 7/6, the bound for two brokers."""
    rates = dict(zip("ABCDE", (3.0, 3.0, 2.0, 2.0, 2.0), strict=True))
    names = [f"u{i}" for i in range(5)]
    world = snapshot(rates, dict(zip(names, rates, strict=True)), {"b1": names, "b2": []})
    assert sorted(greedy(world, CONFIG).loads) == [10, 14]
    best = smallest_max(world)
    assert best.max_load == 12
    assert 14 / best.max_load == pytest.approx(4 / 3 - 1 / (3 * 2))


def test_a_shuffle_comes_first_and_migration_works_on_what_it_left() -> None:
    """bad §4.3 row 4: after the shuffle the loads are even, so nobody is moved twice."""
    plan = decide("ldm-gsh", worked_example())
    assert plan.stages == ("gsh",)
    assert plan.moves == decide("gsh", worked_example()).moves


def test_a_shuffle_is_rare() -> None:
    """bad §8: five minutes after one there may be another, not before."""
    staged = Staged("gsh", CONFIG)
    assert staged.plan(worked_example(), now_ns=NOW).moves
    assert not staged.plan(worked_example(), now_ns=Nanoseconds(int(299e9))).moves
    assert staged.plan(worked_example(), now_ns=Nanoseconds(int(300e9))).moves


def test_little_load_is_not_worth_a_move() -> None:
    """bad §4.1: beta and theta."""
    for policy in POLICIES:
        plan = decide(policy, worked_example(), replace(CONFIG, migrate_load_min=97, shuffle_load_min=97))
        assert (plan.moves, plan.reason) == ((), "there is little load")
        assert plan.before == plan.predicted


def test_sdm_stops_when_no_broker_is_below_the_mean() -> None:
    """bad §4.3 row 7: b itself is never a candidate."""
    world = snapshot({"A": 10}, {"u1": "A"}, {"b1": ["u1"]})
    assert list(migrate(Loads(world), replace(CONFIG, migrate_above=0), MIGRATIONS["sdm"])) == []


def test_a_policy_and_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UnknownName, match="ldm, ldm-gsh"):
        Staged("lmd", CONFIG)
    for name, value in (
        ("migrate_above", -1),
        ("migrate_above", float("nan")),
        ("shuffle_above", 0.1),
        ("migrate_load_min", -1),
        ("cycle_s", 0),
        ("average_s", 1),
        ("moves_max", 0),
    ):
        with pytest.raises(BadConfiguration, match=name):
            replace(StageConfig(), **{name: value})
    many = replace(worked_example(), subscribers=tuple(Subscriber(f"u{i}", 0, ()) for i in range(17)))
    with pytest.raises(LimitReached):
        smallest_max(many)


@given(snapshots(), st.sampled_from(sorted(POLICIES)), st.sampled_from([0.0, 0.05, 0.15, 0.5]))
def test_every_plan_keeps_its_promises(world: LoadSnapshot, policy: str, above: float) -> None:
    """bad §5: it ends; everybody is at one broker; applied to the world it gives the loads that it told."""
    config = replace(CONFIG, migrate_above=above)
    plan = decide(policy, world, config)
    after = applied(plan, world)
    assert Loads(after).balance() == plan.predicted
    assert Loads(world).balance() == plan.before
    here = {one.name: world.brokers[one.broker] for one in world.subscribers}
    assert len({move.subscriber for move in plan.moves}) == len(plan.moves)
    assert all(here[move.subscriber] == move.source != move.to for move in plan.moves)
    assert {move for moves in plan.by_source().values() for move in moves} == set(plan.moves)
    assert all(move.source == source for source, moves in plan.by_source().items() for move in moves)
    if policy in ("ldm", "sdm", "sticky"):
        assert plan.predicted.max <= plan.before.max
        assert plan.predicted.cov <= above or plan.reason in ("nothing else helps", "there is little load")


@given(snapshots(), st.sampled_from(sorted(MIGRATIONS)))
def test_at_every_strict_move_the_sorted_loads_fall(world: LoadSnapshot, scheme: str) -> None:
    """bad §4.3 row 3: the maximum falls, or fewer brokers have it."""
    loads = Loads(world)
    before = sorted(loads.loads, reverse=True)
    for _ in migrate(loads, replace(CONFIG, migrate_above=0), MIGRATIONS[scheme]):
        after = sorted(loads.loads, reverse=True)
        assert after < before
        before = after


@given(snapshots(), st.randoms(use_true_random=False))
def test_gsh_does_not_depend_on_where_everybody_is(world: LoadSnapshot, chance: Random) -> None:
    """bad §5."""
    brokers = len(world.brokers)
    moved = tuple(replace(one, broker=chance.randrange(brokers)) for one in world.subscribers)
    assert greedy(world, CONFIG).where == greedy(replace(world, subscribers=moved), CONFIG).where


def test_a_shuffle_spreads_those_who_get_nothing_yet() -> None:
    """bad §4.4 by the letter gives them all to the least loaded broker, which bad §3 warns of."""
    names = [f"idle{i}" for i in range(6)]
    rates = {"A": 10.0, "B": 10.0, "C": 9.0}
    wants = {"u1": "A", "u2": "B", "u3": "C", **dict.fromkeys(names, "")}
    world = snapshot(rates, wants, {"b1": [*wants], "b2": [], "b3": []})
    assert [greedy(world, CONFIG).where.count(j) for j in range(3)] == [3, 3, 3]
    assert [greedy(world, replace(CONFIG, spreads_idle=False)).where.count(j) for j in range(3)] == [1, 1, 7]


@given(snapshots(subscribers_max=6, brokers_max=3))
def test_nothing_is_better_than_the_optimum(world: LoadSnapshot) -> None:
    """The exact search finds what trying everything finds; the bound of bad §2.2 is below it, every policy above."""
    brokers = range(len(world.brokers))
    tried = []
    for where in product(brokers, repeat=len(world.subscribers)):
        placed = tuple(replace(one, broker=j) for one, j in zip(world.subscribers, where, strict=True))
        moves = sum(one.broker != j for one, j in zip(world.subscribers, where, strict=True))
        tried.append((Loads(replace(world, subscribers=placed)).balance().max, moves))
    best = smallest_max(world)
    assert best.max_load == min(tried)[0] >= lower_bound(world)
    assert all(shuffle(world, CONFIG).measured().max >= best.max_load for shuffle in SHUFFLES.values())
    fewest = fewest_moves(world, max_load=best.max_load)
    assert fewest is not None
    assert fewest.moves == min(tried)[1]
    assert fewest_moves(world, max_load=best.max_load - 1) is None or best.max_load == 0


@given(snapshots())
def test_sticky_never_makes_it_worse(world: LoadSnapshot) -> None:
    before, after = Loads(world).balance(), sticky(world, CONFIG).measured()
    assert sorted(after.loads, reverse=True) <= sorted(before.loads, reverse=True)
