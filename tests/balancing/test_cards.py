"""How many clients should move, and which card is best (peer §8.1 to §8.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.balancing.market import (
    OURS,
    OVER_15,
    OVER_150,
    SPORTS,
    STOCK,
    THEIRS,
    linear,
    profile_of,
    snapshot_of,
    snapshots,
)
from tidewire.balancing.bundles import Pool
from tidewire.balancing.cards import Card, Judge, Trial, closest, enough_to_recover, first_descent, most
from tidewire.balancing.config import AsPrinted, BalancingConfig
from tidewire.balancing.estimates import Change, LoadInfo
from tidewire.balancing.outlook import Outlook
from tidewire.balancing.plans import Action, OffloadSnapshot
from tidewire.model.ids import Conn

CONFIG = BalancingConfig()


def trial_of(donor: LoadInfo, acceptor: LoadInfo, *, clients: int) -> tuple[Trial, Outlook]:
    """One bundle of clients that nothing that comes is for."""
    crowd = {Conn(number): ["class = 'MOVIES'"] for number in range(clients)}
    outlook = Outlook(snapshot_of(profile_of(crowd, []), donor, acceptor))
    (bundle,) = Pool(outlook.left).bundles(outlook)
    return Trial(bundle, outlook), outlook


@pytest.mark.parametrize(("cap", "count"), [(10, 4), (3, 3), (0, 0)])
def test_how_many_balance_the_delays(cap: int, count: int) -> None:
    """peer G11, O2: 10 and 2 subscriptions, both 0.030 s after 4."""
    trial, outlook = trial_of(linear(1, 10, slope_s=0.005), linear(1, 2, slope_s=0.005), clients=10)
    assert Judge("match", outlook, CONFIG).enough(trial, cap) == count


def test_how_many_free_an_overloaded_engine() -> None:
    """peer G12, Fig. 4.6: three leave 0.84, two would leave 0.96."""
    trial, outlook = trial_of(linear(20, 10, slope_s=0.006), linear(1, 2, slope_s=0.005), clients=10)
    assert enough_to_recover(trial, outlook, CONFIG, at_most=10) == 3


def cards_of(differences: Sequence[float]) -> list[Card]:
    trial, _ = trial_of(linear(1, 10, slope_s=0.005), linear(1, 2, slope_s=0.005), clients=1)
    return [trial.card(1, difference) for difference in differences]


def by_difference(card: Card) -> tuple[float, ...]:
    return (card.difference,)


@pytest.mark.parametrize(
    ("differences", "calm", "overloaded"),
    [
        ((-0.3, -0.1, 0.05, 0.2), 0.05, -0.1),
        ((-0.05, 0.05, 0.2), -0.05, -0.05),
        ((0.3, 0.4), None, 0.3),
        ((-0.4, -0.2), -0.2, -0.2),
    ],
)
def test_which_card(differences: tuple[float, ...], calm: float | None, overloaded: float) -> None:
    """peer G13, O3 and O4, with a difference of 0.25 before."""
    cards = cards_of(differences)
    chosen = closest(cards, 0.25, is_overloaded=False, order=by_difference)
    assert (chosen and chosen.difference) == calm
    chosen = closest(cards, 0.25, is_overloaded=True, order=by_difference)
    assert chosen is not None
    assert chosen.difference == overloaded


def test_the_printed_search_stops_early() -> None:
    """peer §11 row 5: at the first of two equal cards, though another one is closer to 0."""
    cards = cards_of((-0.3, -0.3, 0.1))
    assert first_descent(cards, 0.25) is None
    found = first_descent(cards, 0.4)
    assert found is not None
    assert found.difference == -0.3
    found = closest(cards, 0.25, is_overloaded=False, order=by_difference)
    assert found is not None
    assert found.difference == 0.1


@given(st.lists(st.integers(-20, 20), unique=True), st.integers(0, 20))
def test_without_repeats_the_printed_search_finds_the_best(numbers: list[int], before: int) -> None:
    """peer §11 row 5: both are the same there, and the best is the best of all."""
    cards = cards_of(sorted(number / 16 for number in numbers))
    chosen = closest(cards, before / 16, is_overloaded=False, order=by_difference)
    assert chosen is first_descent(cards, before / 16)
    good = [card for card in cards if abs(card.difference) <= before / 16]
    assert (chosen is None) == (not good)
    assert chosen is None or abs(chosen.difference) == min(abs(card.difference) for card in good)


def test_match_offload_goes_by_traffic() -> None:
    """peer G14, §11 row 17: output rate plus extra input rate."""
    snapshot = snapshot_of(
        profile_of(OURS, THEIRS), linear(3, 4, slope_s=0.05), linear(1.5, 3, slope_s=0.05), theirs=THEIRS
    )
    outlook = Outlook(snapshot)
    cards = {}
    for bundle in Pool(outlook.left).bundles(outlook):
        (who,) = next(iter(bundle.groups[0].members)).clients
        cards[who] = Trial(bundle, outlook).card(1, 0.0)
    assert {who: card.extra_traffic for who, card in cards.items()} == pytest.approx(
        {OVER_150: 0.5, SPORTS: 1.0, OVER_15: 2.0, STOCK: 3.5}
    )
    # peer G15: γ, of events of 200 bytes.
    assert {who: card.gain for who, card in cards.items()} == pytest.approx(
        {STOCK: 1250, OVER_15: 900, SPORTS: 100, OVER_150: float("inf")}
    )


def test_input_changes_once_and_only_with_all() -> None:
    """peer §8.2: the donor's when the last one has gone, the acceptor's with the first one."""
    clients = {Conn(number): ["class = 'SPORTS'"] for number in range(3)}
    outlook = Outlook(snapshot_of(profile_of(clients, []), linear(3, 4, slope_s=0.05), linear(1, 1, slope_s=0.05)))
    (bundle,) = Pool(outlook.left).bundles(outlook)
    trial = Trial(bundle, outlook)
    assert [trial.going(count)[0] for count in (1, 2, 3)] == [0.0, 0.0, -0.5]
    assert [trial.coming(count)[0] for count in (1, 2, 3)] == [0.5, 0.5, 0.5]
    assert [trial.card(count, 0.0).reduced_rate for count in (2, 3)] == [0.0, 0.5]
    assert [trial.coming(count)[2] for count in (1, 3)] == [100.0, 300.0]


# -- against the loops of the figures ----------------------------------------------------------------------------------


def counted_down(maximum: int, is_balanced: Callable[[int], bool]) -> int:
    """Figs 4.1, 4.5, 4.6 as they are printed."""
    previous = False
    for count in range(maximum, 0, -1):
        if is_balanced(count):
            previous = True
        else:
            return count + 1 if previous else count
    return 1 if previous else 0


def counted_up(limit: int, reaches: Callable[[int], bool]) -> int:
    """O1 as it is said: one less than the smallest count that does."""
    return next((count - 1 for count in range(1, limit + 1) if reaches(count)), limit)


@given(snapshots(), st.sampled_from(["input", "match", "output"]))
def test_counts_are_those_of_the_loops(snapshot: OffloadSnapshot, action: Action) -> None:
    """peer O1, O2: halving finds what counting finds."""
    outlook = Outlook(snapshot)
    judge = Judge(action, outlook, CONFIG)
    for bundle in Pool(outlook.left).bundles(outlook):
        trial = Trial(bundle, outlook)

        def reaches(count: int, trial: Trial = trial) -> bool:
            return outlook.acceptor.utilisations_after(Change(*trial.coming(count))).reach(0.9)

        cap = counted_up(bundle.clients, reaches)
        assert most(trial, outlook, CONFIG) == cap

        def is_balanced(count: int, trial: Trial = trial) -> bool:
            difference = judge.after(trial, count)
            return difference < 0 or abs(difference) < 0.005

        def is_free(count: int, trial: Trial = trial) -> bool:
            after = outlook.donor.utilisations_after(Change(*trial.going(count)))
            return max(after.cpu, after.memory, after.input) < 0.9

        assert judge.enough(trial, cap) == counted_down(cap, is_balanced)
        assert enough_to_recover(trial, outlook, CONFIG, at_most=cap) == counted_down(cap, is_free)


def test_the_printed_cap_looks_at_the_donor() -> None:
    """peer §11 row 1: one less than free the donor, whatever that does to the acceptor."""
    printed = BalancingConfig(as_printed=AsPrinted(cap_by_donor=True))
    trial, outlook = trial_of(linear(20, 10, slope_s=0.006), linear(20, 7, slope_s=0.006), clients=10)
    assert most(trial, outlook, CONFIG) == 0
    assert most(trial, outlook, printed) == 2
