"""A decision that may not look at everything is still safe, and nearly as good (peer §8)."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.balancing.market import NOW, encoded, linear, moved, snapshot_of, snapshots
from tidewire.balancing.bundles import Pool
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.estimates import LoadInfo, completed
from tidewire.balancing.offload import OFFLOADS
from tidewire.balancing.outlook import SPENT, Outlook
from tidewire.balancing.plans import Action, OffloadSnapshot, Plan
from tidewire.balancing.press import Candidate, Profile
from tidewire.model.ids import Conn

SAMPLES = 8
EVERYTHING = (1 << SAMPLES) - 1
UNBOUNDED = BalancingConfig(choices_max=10**9, looks_max=10**9)
FILTERS = [encoded([f"x = {number}"]) for number in range(150)]
ACTIONS: list[Action] = ["input", "match", "output"]
MARGIN = 0.02
"""How much more of the difference may be left than by a look at everything."""


def plan_of(action: Action, snapshot: OffloadSnapshot, **bounds: int) -> Plan:
    return OFFLOADS[action](msgspec.structs.replace(UNBOUNDED, **bounds)).plan(snapshot, now_ns=NOW)


def difference(action: Action, donor: LoadInfo, acceptor: LoadInfo) -> float:
    if action == "match":
        return (donor.matching_delay_s - acceptor.matching_delay_s) / UNBOUNDED.delay_norm_s
    name = f"{action}_utilisation"
    return float(getattr(donor, name) - getattr(acceptor, name))


def left(action: Action, plan: Plan) -> float:
    return abs(difference(action, plan.predicted.donor, plan.predicted.acceptor))


def scattered(seed: int) -> OffloadSnapshot:
    """Filters that have nothing in common, with random vectors; the acceptor gets none, some or all of the samples."""
    random = Random(seed)
    density, most = random.choice([0.15, 0.5]), random.choice([1, 1, 4])
    acceptor_bits = random.choice([0, 0, EVERYTHING, random.getrandbits(SAMPLES)])
    candidates: list[Candidate] = []
    count = 0
    for wanted in FILTERS[: random.randint(20, len(FILTERS))]:
        clients = tuple(Conn(count + number) for number in range(random.randint(1, most)))
        bits = sum(1 << place for place in range(SAMPLES) if random.random() < density)
        candidates.append(Candidate(wanted, clients, bits))
        count += len(clients)
    profile = Profile(
        samples=SAMPLES,
        input_rate=100.0,
        event_bytes=10.0,
        acceptor_bits=acceptor_bits,
        candidates=tuple(candidates),
    )
    is_overloaded = random.random() < 0.4
    used = 0.97 if is_overloaded else random.uniform(0.5, 0.89)
    output = sum(profile.rate(one.bits.bit_count()) * 10.0 * len(one.clients) for one in candidates)
    theirs = random.randint(0, count)
    share = theirs / count
    slope_s, output_max = used / 100.0 / count, output / used + 1.0
    rate = profile.rate(acceptor_bits.bit_count())
    return snapshot_of(
        profile,
        linear(100.0, count, slope_s=slope_s, output=output, output_max=output_max),
        linear(rate, theirs, slope_s=slope_s, output=output * share, output_max=output_max),
        theirs=["x >= 0"] if acceptor_bits == EVERYTHING else [],
        is_overloaded=is_overloaded,
    )


@pytest.mark.parametrize("action", ACTIONS)
def test_a_few_choices_are_nearly_as_good(action: Action) -> None:
    """peer §8.3: it ends as with all choices in sight, and leaves hardly more of a difference."""
    for seed in range(60):
        snapshot = scattered(seed)
        everything, few = plan_of(action, snapshot), plan_of(action, snapshot, choices_max=16)
        assert few.reason == everything.reason, seed
        assert left(action, few) <= left(action, everything) + MARGIN, seed


@given(snapshots() | st.integers(0, 10**6).map(scattered), st.sampled_from(ACTIONS), st.integers(1, 3), st.booleans())
def test_bounded_plans_are_safe(snapshot: OffloadSnapshot, action: Action, choices_max: int, is_short: bool) -> None:
    """peer V1, V2, V3: however little is looked at."""
    plan = plan_of(action, snapshot, choices_max=choices_max, looks_max=20 if is_short else 10**9)
    assert is_short or plan.reason != SPENT
    assert len(set(moved(plan))) == len(plan.moves)
    assert not plan.moves or not plan.predicted.acceptor.utilisations.reach(UNBOUNDED.overload_lower)
    if not snapshot.is_overloaded:
        before = abs(difference(action, snapshot.donor, completed(snapshot.acceptor, by=snapshot.donor)))
        assert left(action, plan) <= before + 1e-9


def test_what_follows_comes_into_sight() -> None:
    """Every candidate is in sight once, a few at a time, if those before it do not help."""
    snapshot = scattered(0)
    candidates = [
        msgspec.structs.replace(one, bits=1 + number, clients=(Conn(number),))
        for number, one in enumerate(snapshot.profile.candidates)
    ]
    profile = msgspec.structs.replace(snapshot.profile, candidates=tuple(candidates), acceptor_bits=0)
    outlook = Outlook(msgspec.structs.replace(snapshot, profile=profile))
    pool = Pool(candidates, choices_max=7)
    seen: list[int] = []
    is_more = True
    while is_more:
        bundles = pool.bundles(outlook)
        assert len(bundles) <= 7
        seen += [group.bits for bundle in bundles for group in bundle.groups]
        is_more = pool.more(outlook)
    assert len(set(seen)) == len(seen)
    assert {bits.bit_count() for bits in seen} == {one.bits.bit_count() for one in candidates}


def test_lots_follow_each_other() -> None:
    """What is not in the first lot comes when that is used up: every vector is in sight once."""
    snapshot = scattered(0)
    candidates = [
        msgspec.structs.replace(one, bits=1 + number, clients=(Conn(number),))
        for number, one in enumerate(snapshot.profile.candidates)
    ]
    profile = msgspec.structs.replace(snapshot.profile, candidates=tuple(candidates), acceptor_bits=0)
    outlook = Outlook(msgspec.structs.replace(snapshot, profile=profile))
    pool = Pool(candidates, lot_max=7)
    seen: list[int] = []
    lots = 0
    is_more = True
    while is_more:
        bits = [group.bits for bundle in pool.bundles(outlook) for group in bundle.groups]
        assert len(bits) <= 7
        lots += bool(bits)
        seen += bits
        is_more = pool.more(outlook)
    assert lots == -(-len(candidates) // 7)
    assert len(set(seen)) == len(seen)


def test_a_decision_ends_when_it_has_looked_enough() -> None:
    """What has been picked by then is a plan."""
    snapshot = scattered(3)
    ends = {looks: plan_of("input", snapshot, looks_max=looks) for looks in (1, 100, 10**9)}
    assert ends[1].reason == ends[100].reason == SPENT
    assert 0 < len(ends[1].moves) < len(ends[100].moves) < len(ends[10**9].moves)
    assert ends[10**9].reason != SPENT
