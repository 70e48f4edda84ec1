"""Who moves: the three offload algorithms (peer §8.4 to §8.7)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.balancing.market import (
    NOW,
    OURS,
    OVER_15,
    OVER_150,
    SPORTS,
    STOCK,
    THEIRS,
    encoded,
    linear,
    moved,
    profile_of,
    snapshot_of,
    snapshots,
)
from tidewire.balancing.bundles import Pool
from tidewire.balancing.cards import Judge, Trial, most
from tidewire.balancing.config import AsPrinted, BalancingConfig
from tidewire.balancing.estimates import Change, LoadInfo, completed
from tidewire.balancing.offload import OFFLOADS
from tidewire.balancing.orders import AcceptorOrder, DonorOrder
from tidewire.balancing.outlook import Outlook
from tidewire.balancing.plans import Action, OffloadSnapshot, Plan
from tidewire.model.ids import Conn, Nanoseconds

CONFIG = BalancingConfig()
ACTIONS: list[Action] = ["input", "match", "output"]


def plan_of(action: Action, snapshot: OffloadSnapshot, config: BalancingConfig = CONFIG) -> Plan:
    return OFFLOADS[action](config).plan(snapshot, now_ns=NOW)


# -- golden ------------------------------------------------------------------------------------------------------------


def test_input_offload() -> None:
    """peer G10: STOCK would leave −0.20, SPORTS leaves −0.025; the rest is covered."""
    snapshot = snapshot_of(
        profile_of(OURS, THEIRS), linear(3, 4, slope_s=0.05), linear(1.5, 3, slope_s=0.05), theirs=THEIRS
    )
    plan = OFFLOADS["input"](CONFIG).plan(snapshot, now_ns=Nanoseconds(7))
    assert moved(plan) == [SPORTS]
    assert plan.reason == "balanced"
    assert plan.made_ns == 7
    assert plan.predicted.donor.input_utilisation == pytest.approx(0.375)
    assert plan.predicted.acceptor.input_utilisation == pytest.approx(0.40)


def test_what_was_covered_rises_when_its_cover_has_gone() -> None:
    """peer O5: STOCK must go first, then what is below it is in the covering set."""
    clients = {who: OURS[who] for who in (STOCK, OVER_15, OVER_150)}
    fast = linear(0.001, 1, slope_s=1e-6)
    snapshot = snapshot_of(profile_of(clients, []), linear(3, 3, slope_s=0.05), fast)
    first, second, *_ = moved(plan_of("input", msgspec.structs.replace(snapshot, is_overloaded=True)))
    assert (first, second) == (STOCK, OVER_15)


def loop_of(*, is_covered: bool, output_max: float = 1.0) -> OffloadSnapshot:
    """B2 with input 0.5 and output 0.7 beside B1 with 0.5 and 0.3; a client that gets 0.3 of B2's input.

    If it is covered, it is at both: somebody else at B2 wants the same, and somebody at B1.
    """
    events = [{"x": number} for number in range(10)]
    clients = {Conn(1): ["x < 6"], Conn(2): ["x < 100" if is_covered else "x >= 6"]}
    theirs = ["x < 100"] if is_covered else []
    event_bytes = 1.0 if is_covered else 2 / 3
    profile = profile_of(clients, theirs, events=events, input_rate=0.5, event_bytes=event_bytes, kept=[Conn(2)])
    donor = LoadInfo(
        input_rate=0.5,
        matching_delay_s=1.0,
        matching_slope_s=0.0,
        cpu_utilisation=0.5,
        subscriptions=2,
        output_bytes_s=0.7,
        output_bytes_s_max=1.0,
    )
    acceptor = msgspec.structs.replace(donor, output_bytes_s=0.3 * output_max, output_bytes_s_max=output_max)
    return snapshot_of(profile, donor, acceptor, theirs=theirs)


def test_what_would_come_back_is_not_moved() -> None:
    """peer G7, O9, §11 row 2: it would leave inputs of 0.2 and 0.8. The test as it is printed lets it through."""
    snapshot = loop_of(is_covered=False)
    assert moved(plan_of("output", snapshot)) == []
    literal = plan_of("output", snapshot, BalancingConfig(as_printed=AsPrinted(stability_by_output=True)))
    assert moved(literal) == [1]
    assert literal.predicted.donor.input_utilisation == pytest.approx(0.2)
    assert literal.predicted.acceptor.input_utilisation == pytest.approx(0.8)
    assert literal.predicted.donor.output_utilisation == pytest.approx(0.5)


def test_what_the_acceptor_gets_anyway_is_moved() -> None:
    """peer G7, the favourable case: inputs of 0.5 and 0.5, outputs of 0.4 and 0.4."""
    plan = plan_of("output", loop_of(is_covered=True, output_max=3.0))
    assert moved(plan) == [1]
    donor, acceptor = plan.predicted.donor, plan.predicted.acceptor
    assert (donor.input_utilisation, acceptor.input_utilisation) == pytest.approx((0.5, 0.5))
    assert (donor.output_utilisation, acceptor.output_utilisation) == pytest.approx((0.4, 0.4))


def test_what_holds_up_the_input_is_not_moved_for_the_output() -> None:
    """peer O9, in Phase I too: the client that wants all would leave inputs of 0.2 and 0.4, and come back for that."""
    clients = {Conn(1): ["x < 100"], Conn(2): ["x < 5"], Conn(3): ["x < 5"]}
    events = [{"x": number} for number in range(10)]
    profile = profile_of(clients, ["x < 100"], events=events, input_rate=0.4, event_bytes=0.5, kept=[Conn(3)])
    donor = LoadInfo(
        input_rate=0.4,
        matching_delay_s=1.0,
        matching_slope_s=0.0,
        cpu_utilisation=0.4,
        subscriptions=3,
        output_bytes_s=0.62,
        output_bytes_s_max=1.0,
    )
    snapshot = snapshot_of(profile, donor, msgspec.structs.replace(donor, output_bytes_s=0.4), theirs=["x < 100"])
    plan = plan_of("output", snapshot)
    assert moved(plan) == [2]
    assert plan.predicted.donor.input_utilisation == pytest.approx(0.4)
    late = plan_of("output", snapshot, BalancingConfig(as_printed=AsPrinted(stability_late=True)))
    assert moved(late) == [1]
    assert late.predicted.donor.input_utilisation == pytest.approx(0.2)
    acceptor = msgspec.structs.replace(snapshot.acceptor, input_rate=0.6)
    apart = msgspec.structs.replace(snapshot, acceptor=acceptor)
    assert moved(plan_of("output", apart)) == [2], "inputs that differ already do not stop what changes no rate"


def test_input_is_not_balanced_by_many_who_make_the_acceptor_slow() -> None:
    """peer O6, beyond §8.4: more than the threshold of the delays would come back for them."""
    clients = {Conn(number): ["x = 0"] for number in range(1, 16)} | {Conn(20): ["x > 0"]}
    events = [{"x": number} for number in range(10)]
    profile = profile_of(clients, [], events=events, input_rate=20.0, kept=[Conn(20)])
    donor, acceptor = linear(20, 20, slope_s=0.001), linear(4, 20, slope_s=0.001)
    snapshot = snapshot_of(profile, donor, acceptor)
    plan = plan_of("input", snapshot)
    assert 4 <= len(moved(plan)) <= 5
    assert plan.predicted.acceptor.matching_delay_s - plan.predicted.donor.matching_delay_s <= 0.0101
    alone = plan_of("input", snapshot, BalancingConfig(as_printed=AsPrinted(input_alone=True)))
    assert len(moved(alone)) >= 10


def flat(rate: float, output: float) -> LoadInfo:
    """A broker that takes a second for an event, however many subscribe, and whose output holds one byte a second."""
    return LoadInfo(
        input_rate=rate,
        matching_delay_s=1.0,
        matching_slope_s=0.0,
        cpu_utilisation=rate,
        subscriptions=9,
        output_bytes_s=output,
        output_bytes_s_max=1.0,
    )


def test_input_is_balanced_by_what_the_outputs_bear() -> None:
    """peer §8.4, beyond it as O9 is: five who want the same event and one who wants another lower the input alike."""
    clients = {Conn(number): ["x = 0"] for number in range(1, 6)} | {Conn(6): ["x = 1"], Conn(7): ["x = 2"]}
    events = [{"x": number} for number in range(10)]
    rest = {Conn(8): ["x > 2"]}
    profile = profile_of(clients | rest, [], events=events, input_rate=0.6, event_bytes=0.035 / 0.06, kept=[Conn(8)])
    snapshot = snapshot_of(profile, flat(0.6, 0.5), flat(0.4, 0.5))
    plan = plan_of("input", snapshot)
    assert moved(plan) in ([6], [7]), "a second one would tear outputs further apart than it brings inputs together"
    alone = plan_of("input", snapshot, BalancingConfig(as_printed=AsPrinted(input_alone=True)))
    assert {1, 2, 3, 4, 5} <= set(moved(alone))
    pressed = msgspec.structs.replace(snapshot, is_overloaded=True)
    assert {1, 2, 3, 4, 5} <= set(moved(plan_of("input", pressed))), "who is overloaded cannot mind"


@pytest.mark.parametrize(("wanted", "moves"), [(7, [1]), (9, [])])
def test_output_is_not_balanced_to_the_edge_of_what_inputs_bear(wanted: int, moves: list[int]) -> None:
    """peer O9, with a fifth left for errors: inputs 0.07 apart may be, 0.09 would soon be more than 0.1."""
    events = [{"x": number} for number in range(100)]
    clients = {Conn(1): [f"x < {wanted}"], Conn(2): [f"x >= {wanted}"]}
    each = 0.5 * wanted / 100
    profile = profile_of(clients, [], events=events, input_rate=0.5, event_bytes=0.2 / each, kept=[Conn(2)])
    assert moved(plan_of("output", snapshot_of(profile, flat(0.5, 0.7), flat(0.5, 0.3)))) == moves


def test_inputs_far_apart_are_worth_outputs_that_are_not_even() -> None:
    """peer G7, the first step: inputs of 0.8 and 0.2 become 0.5 and 0.5, outputs of 0.5 and 0.5 become 0.3 and 0.7."""
    events = [{"x": number} for number in range(8)]
    clients = {Conn(1): ["x < 3"], Conn(2): ["x >= 3"]}
    profile = profile_of(clients, [], events=events, input_rate=0.8, event_bytes=2 / 3, kept=[Conn(2)])
    plan = plan_of("input", snapshot_of(profile, flat(0.8, 0.5), flat(0.2, 0.5)))
    assert moved(plan) == [1]
    donor, acceptor = plan.predicted.donor, plan.predicted.acceptor
    assert (donor.input_utilisation, acceptor.input_utilisation) == pytest.approx((0.5, 0.5))
    assert (donor.output_utilisation, acceptor.output_utilisation) == pytest.approx((0.3, 0.7))


def test_input_is_balanced_by_those_who_carry_little_where_one_carries_all() -> None:
    """peer §8.4, O6, and beyond: the one that covers all is too much to move; others go, until delays are even."""
    clients = {Conn(number): ["x = 99"] for number in range(1, 30)} | {Conn(30): ["x < 100"]}
    events = [{"x": number} for number in range(10)]
    profile = profile_of(clients, ["x < 100"], events=events, input_rate=20.0)
    donor, acceptor = linear(20, 30, slope_s=0.001), linear(20, 20, slope_s=0.001)
    plan = plan_of("input", snapshot_of(profile, donor, acceptor))
    assert 4 <= len(moved(plan)) <= 5
    assert 30 not in moved(plan)
    alone = BalancingConfig(as_printed=AsPrinted(covering_alone=True))
    assert moved(plan_of("input", snapshot_of(profile, donor, acceptor), alone)) == []
    slow = linear(20, 18, slope_s=0.0015)
    even = plan_of("input", snapshot_of(profile, donor, slow)).predicted
    assert even.donor.matching_delay_s >= even.acceptor.matching_delay_s, "else they would come back"


def test_delays_may_be_balanced_only_as_far_as_the_acceptors_input_allows() -> None:
    """peer §8.5, and beyond it: the acceptor gets twice as many events; equal delays leave inputs 0.24 apart."""
    clients = {Conn(number): ["x = 99"] for number in range(1, 16)}
    profile = profile_of(clients, [], events=[{"x": number} for number in range(10)], input_rate=10.0)
    donor, acceptor = linear(10, 30, slope_s=0.001), linear(20, 15, slope_s=0.001)
    assert len(moved(plan_of("match", snapshot_of(profile, donor, acceptor)))) == 2
    alone = BalancingConfig(match_minds_input=False)
    assert len(moved(plan_of("match", snapshot_of(profile, donor, acceptor), alone))) == 8
    busy = linear(20, 21, slope_s=0.001)
    assert len(moved(plan_of("match", snapshot_of(profile, donor, busy)))) == 5, "it sends input back anyway"


def test_an_overloaded_output_is_an_exception() -> None:
    """peer O9: until it is at the lower threshold, where it accepts nothing and nothing can come back."""
    snapshot = loop_of(is_covered=False, output_max=3.0)
    donor = msgspec.structs.replace(snapshot.donor, output_bytes_s=1.0)
    heavy = msgspec.structs.replace(snapshot, donor=donor, is_overloaded=True)
    assert moved(plan_of("output", heavy)) == [1]
    lighter = msgspec.structs.replace(heavy, donor=msgspec.structs.replace(donor, output_bytes_s=0.85))
    assert moved(plan_of("output", lighter)) == []


def test_output_phases_take_turns() -> None:
    """peer G15: only v > 150 is covered at first; STOCK, when it has moved, covers v > 15; then SPORTS is left."""
    donor = linear(3, 4, slope_s=1e-6, output=1000.0, output_max=1100.0)
    acceptor = linear(1.5, 3, slope_s=1e-6, output_max=1e6)
    snapshot = snapshot_of(profile_of(OURS, THEIRS), donor, acceptor, theirs=THEIRS)
    assert moved(plan_of("output", snapshot)) == [OVER_150, STOCK, OVER_15, SPORTS]


def test_what_has_become_covered_goes_before_what_would_do_more() -> None:
    """peer §8.6: when STOCK has moved, v > 15 adds no input any more; all of SPORTS would relieve the donor further."""
    clients = OURS | {Conn(10): OURS[STOCK]} | {Conn(20 + number): OURS[SPORTS] for number in range(5)}
    donor = linear(3, 10, slope_s=1e-6, output=2000.0, output_max=2100.0)
    snapshot = snapshot_of(
        profile_of(clients, THEIRS), donor, linear(1.5, 3, slope_s=1e-6, output_max=1e6), theirs=THEIRS
    )
    order = moved(plan_of("output", snapshot))
    assert order[0] == OVER_150
    assert order[1:4] == [STOCK, 10, OVER_15]
    assert len(order) == len(clients)


def outputs(texts: dict[str, int], *, kept: list[Conn] | None = None) -> OffloadSnapshot:
    """Ten samples of x, one event and 10 bytes a second each; the acceptor gets all of them in any case."""
    everybody = [text for text, count in texts.items() for _ in range(count)]
    profile = profile_of(
        {Conn(number): [text] for number, text in enumerate(everybody)},
        ["x < 100"],
        events=[{"x": number} for number in range(10)],
        kept=kept or [],
        input_rate=10.0,
        event_bytes=10.0,
    )
    donor = linear(10, 30, slope_s=1e-6, output=500.0, output_max=1000.0)
    acceptor = linear(10, 30, slope_s=1e-6, output=0.0, output_max=1000.0)
    return snapshot_of(profile, donor, acceptor, theirs=["x < 100"])


def test_what_lowers_the_donors_input_goes_first() -> None:
    """peer O8: type I, though the others leave a smaller difference."""
    snapshot = outputs({"x >= 4 and x < 6": 3, "x < 4": 6}, kept=[Conn(8)])
    assert sorted(moved(plan_of("output", snapshot))[:3]) == [0, 1, 2]


def test_as_printed_the_search_goes_by_reduced_rate() -> None:
    """peer §11 row 6: differences of 0.1, 0.2 and 0.06, by reduced rate; the search stops at the first."""
    snapshot = outputs({"x < 4": 5, "x >= 4 and x < 7": 5, "x >= 7 and x < 9": 11})
    assert plan_of("output", snapshot).moves[0].client >= 10
    literal = BalancingConfig(as_printed=AsPrinted(covered_by_reduced=True))
    assert plan_of("output", snapshot, literal).moves[0].client < 5


def test_the_acceptors_order() -> None:
    """peer O7: by a single filter of the acceptor, equal ones among them; and by what has been picked."""
    clients = OURS | {Conn(5): THEIRS[:1], Conn(6): ["class = 'SPORTS' and type = 'RACING'"], Conn(7): THEIRS[:2]}
    of = {one.clients[0]: one for one in profile_of(clients, []).candidates}
    order = AcceptorOrder(encoded(THEIRS))
    assert [one.clients[0] for one in order.covered(list(of.values()))] == [OVER_150, 5, 7]
    order.take([of[STOCK]])
    assert [one.clients[0] for one in order.covered(list(of.values()))] == [STOCK, OVER_15, OVER_150, 5, 7]


def test_those_who_stay_cover_too() -> None:
    """peer §8.4: with STOCK at the donor, what is below it cannot lower its input."""
    covering = DonorOrder(profile_of(OURS, THEIRS, kept=[STOCK])).covering()
    assert [one.clients for one in covering] == [(SPORTS,)]


def test_a_client_that_would_turn_the_scales_stays() -> None:
    """peer V2: with ten subscriptions it would leave a greater difference than there is."""
    many = [f"class = 'MOVIES' and volume = {number}" for number in range(10)]
    profile = profile_of({Conn(1): many}, [])
    near, far = linear(1, 12, slope_s=0.005), linear(1, 22, slope_s=0.005)
    assert moved(plan_of("match", snapshot_of(profile, near, linear(1, 9, slope_s=0.005)))) == []
    assert moved(plan_of("match", snapshot_of(profile, far, linear(1, 9, slope_s=0.005)))) == [1]


def test_nobody_moves_for_nothing() -> None:
    """An engine that does not care how many filters it holds is not relieved by moving those that carry nothing."""
    clients = {Conn(number): ["class = 'MOVIES'"] for number in range(10)}
    flat = msgspec.structs.replace(linear(4, 10, slope_s=0.03), matching_slope_s=0.0)
    for action in ACTIONS:
        snapshot = snapshot_of(profile_of(clients, []), flat, linear(1, 1, slope_s=0.001), is_overloaded=True)
        assert moved(plan_of(action, snapshot)) == []
    silent = profile_of({Conn(1): ["class = 'STOCK'"]}, [], input_rate=0.0)
    loud = linear(0, 1, slope_s=0.05, output=990.0, output_max=1000.0)
    assert moved(plan_of("output", snapshot_of(silent, loud, linear(0, 1, slope_s=0.05), is_overloaded=True))) == []


def test_match_offload_moves_what_carries_nothing() -> None:
    """peer §8.5: the delays meet, the rates stay."""
    clients = {Conn(number): ["class = 'STOCK'"] for number in range(10)}
    clients |= {Conn(100 + number): [f"class = 'MOVIES' and volume = {number}"] for number in range(10)}
    snapshot = snapshot_of(profile_of(clients, []), linear(3, 20, slope_s=0.005), linear(1, 4, slope_s=0.005))
    plan = plan_of("match", snapshot)
    assert len(moved(plan)) == 8
    assert all(client >= 100 for client in moved(plan))
    assert plan.predicted.acceptor.input_rate == 1
    assert plan.predicted.donor.matching_delay_s == pytest.approx(plan.predicted.acceptor.matching_delay_s)


def heavy_market(*, is_overloaded: bool) -> OffloadSnapshot:
    """All that is in the covering set is more than the acceptor can take; what carries nothing is covered."""
    clients = {Conn(n): [f"class = 'STOCK' and volume > {1000 + n}"] for n in range(1, 10)}
    clients[Conn(0)] = ["class = 'STOCK'"]
    donor, acceptor = linear(3, 10, slope_s=0.05), linear(0.5, 9, slope_s=0.05)
    return snapshot_of(profile_of(clients, ["volume < 5"]), donor, acceptor, is_overloaded=is_overloaded)


def test_who_is_overloaded_may_still_shorten_its_matching() -> None:
    """peer O6: only who is overloaded."""
    assert moved(plan_of("input", heavy_market(is_overloaded=False))) == []
    plan = plan_of("input", heavy_market(is_overloaded=True))
    assert moved(plan)
    assert Conn(0) not in moved(plan)
    assert plan.predicted.donor.input_utilisation < CONFIG.overload_lower


def test_a_backlog_lets_match_offload_go_on() -> None:
    """peer E1a: the input is low, the CPU still at 1; a tenth goes."""
    clients = {Conn(number): ["class = 'MOVIES'"] for number in range(100)}
    donor = msgspec.structs.replace(linear(1, 100, slope_s=0.005), cpu_utilisation=1.0)
    snapshot = snapshot_of(profile_of(clients, []), donor, linear(1, 10, slope_s=0.005), is_overloaded=True)
    plan = plan_of("match", snapshot)
    assert len(moved(plan)) == 11
    assert plan.reason == "no longer overloaded"


# -- the letter of the thesis ------------------------------------------------------------------------------------------


def test_as_printed_at_least_one_moves() -> None:
    """peer §11 row 4."""
    clients = {Conn(number): ["class = 'MOVIES'"] for number in range(4)}
    snapshot = snapshot_of(profile_of(clients, []), linear(3, 4, slope_s=0.05), linear(1, 13, slope_s=0.05))
    overloaded = msgspec.structs.replace(snapshot, is_overloaded=True)
    printed = BalancingConfig(as_printed=AsPrinted(pick_then_ask=True))
    assert moved(plan_of("input", overloaded)) == []
    assert len(moved(plan_of("input", overloaded, printed))) == 1


def test_as_printed_a_skipped_count_comes_out() -> None:
    """peer §11 row 3: of 4 clients 3 bring balance; 2 were skipped, 1 does not, and so 2 come out."""
    clients = {Conn(number): ["x < 6"] for number in range(5)}
    profile = profile_of(clients, ["x < 6"], events=[{"x": 0}], input_rate=1.0, event_bytes=0.1, kept=[Conn(4)])
    donor = LoadInfo(
        input_rate=1.0,
        matching_delay_s=0.53,
        matching_slope_s=0.02,
        cpu_utilisation=0.53,
        subscriptions=5,
        output_bytes_s=0.8,
        output_bytes_s_max=1.0,
    )
    acceptor = msgspec.structs.replace(donor, output_bytes_s=0.2, matching_delay_s=0.47, cpu_utilisation=0.47)
    snapshot = snapshot_of(profile, donor, acceptor, theirs=["x < 6"])
    printed = AsPrinted(stability_by_output=True)
    assert len(moved(plan_of("output", snapshot, BalancingConfig(as_printed=printed)))) == 3
    printed = msgspec.structs.replace(printed, skipped_counts=True)
    assert len(moved(plan_of("output", snapshot, BalancingConfig(as_printed=printed)))) == 2


def test_as_printed_traffic_comes_before_extra_input() -> None:
    """peer §11 row 17: SPORTS carries 0.5 and adds 0.5, v > 50 carries 1.0 and adds nothing; and equal by sum."""
    clients = {SPORTS: ["class = 'SPORTS'"], Conn(9): ["class = 'STOCK' and volume > 50"]}
    snapshot = snapshot_of(profile_of(clients, THEIRS), linear(3, 2, slope_s=0.05), linear(1.5, 1, slope_s=0.05))
    snapshot = msgspec.structs.replace(snapshot, donor=linear(3, 4, slope_s=0.05))
    printed = BalancingConfig(as_printed=AsPrinted(traffic_then_input=True))
    assert moved(plan_of("match", snapshot))[0] == 9
    assert moved(plan_of("match", snapshot, printed))[0] == SPORTS


def test_filters_that_samples_cannot_tell_apart_lower_the_input_together() -> None:
    """Filter by filter each leaves others behind that attract the same events: the donor's input stays."""
    clients = {Conn(number): [f"x < {number} or y = {number}"] for number in range(5, 9)}
    clients[Conn(1)] = ["x = 20"]
    profile = profile_of(clients, [], events=[{"x": 0}, {"x": 20}], input_rate=2.0, kept=[Conn(1)])
    donor = LoadInfo(
        input_rate=2.0,
        matching_delay_s=0.3,
        matching_slope_s=0.0,
        cpu_utilisation=0.6,
        subscriptions=5,
        output_bytes_s=1.0,
        output_bytes_s_max=1e6,
    )
    snapshot = snapshot_of(profile, donor, msgspec.structs.replace(donor, input_rate=0.0, cpu_utilisation=0.0))
    plan = plan_of("input", snapshot)
    assert sorted(moved(plan)) == [5, 6, 7, 8]
    assert plan.predicted.donor.input_utilisation == pytest.approx(0.3)
    assert moved(plan_of("input", snapshot, BalancingConfig(as_printed=AsPrinted(filter_by_filter=True)))) == []


# -- whatever the market -----------------------------------------------------------------------------------------------


def _differences(donor: LoadInfo, acceptor: LoadInfo) -> dict[Action, float]:
    return {
        "input": donor.input_utilisation - acceptor.input_utilisation,
        "match": (donor.matching_delay_s - acceptor.matching_delay_s) / CONFIG.delay_norm_s,
        "output": donor.output_utilisation - acceptor.output_utilisation,
    }


@given(snapshots(), st.sampled_from(ACTIONS), st.booleans())
def test_no_plan_overloads_the_acceptor(snapshot: OffloadSnapshot, action: Action, one_by_one: bool) -> None:
    """peer V1, O1: or nobody moves, if it is overloaded already."""
    config = BalancingConfig(as_printed=AsPrinted(filter_by_filter=one_by_one))
    plan = plan_of(action, snapshot, config)
    assert not plan.moves or not plan.predicted.acceptor.utilisations.reach(CONFIG.overload_lower)


@given(snapshots(), st.sampled_from(ACTIONS), st.booleans())
def test_who_is_not_overloaded_leaves_no_greater_difference(
    snapshot: OffloadSnapshot, action: Action, one_by_one: bool
) -> None:
    """peer V2."""
    snapshot = msgspec.structs.replace(snapshot, is_overloaded=False)
    plan = plan_of(action, snapshot, BalancingConfig(as_printed=AsPrinted(filter_by_filter=one_by_one)))
    acceptor = completed(snapshot.acceptor, by=snapshot.donor)
    before = _differences(snapshot.donor, acceptor)[action]
    after = _differences(plan.predicted.donor, plan.predicted.acceptor)[action]
    assert abs(after) <= abs(before) + 1e-9
    assert (after < before) == bool(plan.moves)


@given(snapshots(), st.sampled_from(ACTIONS))
def test_everybody_moves_at_most_once_and_nobody_who_stays(snapshot: OffloadSnapshot, action: Action) -> None:
    """peer V3, V6: and what is predicted is what moved."""
    plan = plan_of(action, snapshot)
    gone = moved(plan)
    candidates = {client: one for one in snapshot.profile.candidates for client in one.clients}
    assert len(set(gone)) == len(gone)
    assert set(gone) <= set(candidates)
    count = sum(candidates[client].each for client in gone)
    assert plan.predicted.acceptor.subscriptions == snapshot.acceptor.subscriptions + count
    assert plan.predicted.donor.subscriptions == snapshot.donor.subscriptions - count
    profile = snapshot.profile
    gained, kept = profile.acceptor_bits, profile.kept_bits
    for client in gone:
        gained |= candidates[client].bits
    for one in profile.candidates:
        kept |= one.bits if not set(one.clients) <= set(gone) else 0
    everything = profile.kept_bits
    for one in profile.candidates:
        everything |= one.bits
    extra = profile.rate(gained.bit_count() - profile.acceptor_bits.bit_count())
    reduced = profile.rate((everything & ~kept).bit_count())
    assert plan.predicted.acceptor.input_rate == pytest.approx(snapshot.acceptor.input_rate + extra)
    assert plan.predicted.donor.input_rate == pytest.approx(max(0.0, snapshot.donor.input_rate - reduced))


@given(snapshots())
def test_input_offload_takes_the_best_of_the_covering_set(snapshot: OffloadSnapshot) -> None:
    """peer O3, §8.4: against a look at every count of every filter."""
    snapshot = msgspec.structs.replace(snapshot, is_overloaded=False)
    outlook = Outlook(snapshot)
    judge = Judge("input", outlook, CONFIG)
    before = judge.now
    best = abs(before) if not judge.is_balanced(before) else None
    covering = DonorOrder(snapshot.profile).covering()
    for bundle in Pool(covering, one_by_one=True).bundles(outlook):
        trial = Trial(bundle, outlook)
        counts = range(1, most(trial, outlook, CONFIG) + 1)
        enough = [count for count in counts if all(judge.after(trial, n) < 0.005 for n in counts if n >= count)]
        if counts and best is not None:
            count = enough[0] if enough else counts[-1]
            if outlook.donor.after(Change(*trial.going(count))).input_utilisation < outlook.donor.input_utilisation:
                best = min(best, abs(judge.after(trial, count)))
    config = BalancingConfig(
        as_printed=AsPrinted(filter_by_filter=True, covering_alone=True, input_alone=True), local_delay=1e9
    )
    plan = plan_of("input", snapshot, config)
    if best is None:
        assert plan.moves == ()
    elif plan.moves:
        first = next(one for one in snapshot.profile.candidates if plan.moves[0].client in one.clients)
        count = len([move for move in plan.moves if move.client in first.clients])
        (bundle,) = Pool([first], one_by_one=True).bundles(outlook)
        assert abs(judge.after(Trial(bundle, outlook), count)) == pytest.approx(best)
        assert first in covering
    else:
        assert best == abs(before)


@given(snapshots())
def test_the_covering_set_follows_the_picks(snapshot: OffloadSnapshot) -> None:
    """peer O5: what rises, candidate by candidate, against an order made anew."""
    order = DonorOrder(snapshot.profile)
    left = list(snapshot.profile.candidates)
    covering = dict.fromkeys(order.covering())
    while left:
        gone = left.pop(0)
        covering.pop(gone, None)
        covering |= dict.fromkeys(order.without([gone]))
        anew = DonorOrder(msgspec.structs.replace(snapshot.profile, candidates=tuple(left), clientele=None))
        assert set(covering) == set(anew.covering())


def test_nothing_changes_by_nothing() -> None:
    """A change of nothing is no change: what plans are compared with."""
    load = linear(3, 4, slope_s=0.05)
    assert load.after(Change()) == load


@pytest.mark.parametrize("is_overloaded", [False, True])
def test_nobody_moves_for_input_who_would_come_back_for_the_delay(is_overloaded: bool) -> None:
    """peer O6: the acceptor gets few events, and would have to match them against many more filters than the donor."""
    profile = profile_of({Conn(number): ["class = 'MOVIES'"] for number in range(40)}, [])
    donor, acceptor = linear(20, 40, slope_s=0.0005), linear(1, 4, slope_s=0.005)
    snapshot = snapshot_of(profile, donor, acceptor, is_overloaded=is_overloaded)
    predicted = OFFLOADS["input"](CONFIG).plan(snapshot, now_ns=NOW).predicted
    apart_s = predicted.acceptor.matching_delay_s - predicted.donor.matching_delay_s
    assert (apart_s <= CONFIG.local_delay * CONFIG.delay_norm_s) is not is_overloaded
