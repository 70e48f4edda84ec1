"""What would it be like if clients of this bundle moved, how many should, and which card is best? (peer §8.1 to §8.3)

Everything that is asked of a number of clients goes one way: the more of them move, the more loaded is the acceptor and
the less the donor. So the first number for which something holds is found by halving.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

import msgspec

from tidewire.balancing.bundles import Bundle
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.estimates import Forecast, delay_difference
from tidewire.balancing.outlook import Outlook
from tidewire.balancing.plans import Action

KEPT: Final = 0.8
"""So much of a threshold is used up at most by a move for another index: the rest is for errors of prediction."""


class Card(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The report card of one bundle (peer §8.1)."""

    bundle: Bundle
    clients: int
    """How many of it should move."""
    difference: float
    """Donor less acceptor, of the index that is balanced, after it; below 0 the donor ends less loaded."""
    output_rate: float
    """Events per second that one client gets, s_PR."""
    output_bytes_s: float
    """What one client takes of the output."""
    extra_rate: float
    """What the acceptor's input grows by, i_Δ."""
    reducible_rate: float
    """What the donor's input shrinks by, if all of it moves."""

    @property
    def reduced_rate(self) -> float:
        """What the donor's input shrinks by."""
        return self.reducible_rate if self.clients == self.bundle.clients else 0.0

    @property
    def extra_traffic(self) -> float:
        """Match offload takes the least of it first (peer §11 row 17: the sum, once)."""
        return self.output_rate + self.extra_rate

    @property
    def gain(self) -> float:
        """γ: what goes out elsewhere for what comes in there in addition (Eq. 4.19)."""
        moved = self.output_rate * self.output_bytes_s * self.clients
        return moved / self.extra_rate if self.extra_rate else inf


class Trial:
    """One bundle, and what both brokers would be like with some of its clients moved."""

    def __init__(self, bundle: Bundle, outlook: Outlook) -> None:
        self.bundle = bundle
        outlook.looks += bundle.clients.bit_length()
        profile = outlook.profile
        self.output_rate = profile.rate(bundle.wanted)
        self.output_bytes_s = self.output_rate * profile.event_bytes
        self.extra_rate = profile.rate(bundle.extra)
        self.reducible_rate = profile.rate(bundle.reducible)

    def going(self, clients: int) -> tuple[float, int, float]:
        """What so many clients take from the donor (peer §8.2): input only if all of them go."""
        reduced = self.reducible_rate if clients == self.bundle.clients else 0.0
        return -reduced, -clients * self.bundle.each, -clients * self.output_bytes_s

    def coming(self, clients: int) -> tuple[float, int, float]:
        """What so many clients bring to the acceptor: input once, however many they are."""
        return self.extra_rate, clients * self.bundle.each, clients * self.output_bytes_s

    def card(self, clients: int, difference: float) -> Card:
        """The card, when it is known how many should move."""
        return Card(
            bundle=self.bundle,
            clients=clients,
            difference=difference,
            output_rate=self.output_rate,
            output_bytes_s=self.output_bytes_s,
            extra_rate=self.extra_rate,
            reducible_rate=self.reducible_rate,
        )


class Judge:
    """Compares the two brokers by the index that is to be balanced."""

    def __init__(self, action: Action, outlook: Outlook, config: BalancingConfig) -> None:
        self._outlook = outlook
        self._config = config
        self._index = {"input": _input, "match": self._delay, "output": _output}[action]

    @property
    def now(self) -> float:
        """As things are: donor less acceptor; delays in units of the norm (Eq. 3.5)."""
        return self._index(self._outlook.donor_then, _NOTHING) - self._index(self._outlook.acceptor_then, _NOTHING)

    def after(self, trial: Trial, clients: int) -> float:
        """The difference when so many clients of a bundle have moved."""
        going, coming = trial.going(clients), trial.coming(clients)
        return self._index(self._outlook.donor_then, going) - self._index(self._outlook.acceptor_then, coming)

    def is_balanced(self, difference: float) -> bool:
        """Is the donor less loaded, or as much as the acceptor but for the balance share?"""
        return difference < self._config.balance_share

    def enough(self, trial: Trial, at_most: int) -> int:
        """How many of a bundle bring balance: the fewest, or all that may move (peer O2)."""
        bound = self._config.balance_share
        return _first(lambda clients: self.after(trial, clients) < bound, at_most)

    def relieves(self, trial: Trial, clients: int) -> bool:
        """Would the donor itself be better off? It does not help that the acceptor would be worse off."""
        donor = self._outlook.donor_then
        return self._index(donor, trial.going(clients)) < self._index(donor, _NOTHING)

    def _delay(self, broker: Forecast, change: tuple[float, int, float]) -> float:
        return delay_difference(broker.delay(change[1]), 0.0, norm_s=self._config.delay_norm_s)


_NOTHING: Final = (0.0, 0, 0.0)


def _input(broker: Forecast, change: tuple[float, int, float]) -> float:
    return broker.input(change[0], change[1])


def _output(broker: Forecast, change: tuple[float, int, float]) -> float:
    return broker.output(change[2])


def most(trial: Trial, outlook: Outlook, config: BalancingConfig) -> int:
    """How many clients of a bundle may move: one less than bring the acceptor to its lower threshold (peer O1)."""
    bound = config.overload_lower
    if config.as_printed.cap_by_donor:
        donor = outlook.donor_then
        return last_before(lambda clients: not donor.reaches(bound, *trial.going(clients)), trial.bundle.clients)
    acceptor = outlook.acceptor_then
    return last_before(lambda clients: acceptor.reaches(bound, *trial.coming(clients)), trial.bundle.clients)


def without_coming_back(judge: Judge, trial: Trial, at_most: int, *, threshold: float) -> int:
    """How many may move before the acceptor would send them back for another index, the judge's?"""
    return last_before(lambda clients: judge.after(trial, clients) < -threshold * KEPT, at_most)


def enough_to_recover(trial: Trial, outlook: Outlook, config: BalancingConfig, *, at_most: int) -> int:
    """How many bring the donor's engine below its lower threshold: the fewest, or all that may move (Fig. 4.6)."""
    donor, bound = outlook.donor_then, config.overload_lower
    return _first(lambda clients: not donor.engine_reaches(bound, *trial.going(clients)), at_most)


def closest(
    cards: Sequence[Card], before: float, *, is_overloaded: bool, order: Callable[[Card], tuple[float, ...]]
) -> Card | None:
    """The card that leaves the least difference; of equal ones the first in this order (peer O3, O4).

    Who is not overloaded takes none that leaves a greater difference than there is. Who is takes one that makes it the
    less loaded of the two, if there is one, and moves in any case.
    """
    if is_overloaded:
        cards = [card for card in cards if card.difference < 0] or cards
    found = min(cards, key=lambda card: (abs(card.difference), *order(card)), default=None)
    if found is None or (not is_overloaded and abs(found.difference) > abs(before)):
        return None
    return found


def first_descent(cards: Sequence[Card], before: float) -> Card | None:
    """Fig. 4.2 as it is printed: down the list until the next one is no closer to 0 (peer §11 row 5)."""
    for place, card in enumerate(cards):
        is_last = place + 1 == len(cards)
        if is_last or abs(card.difference) <= abs(cards[place + 1].difference):
            return None if abs(card.difference) > abs(before) else card
    return None


def last_before(holds: Callable[[int], bool], limit: int) -> int:
    """The last number from 0 to the limit before something begins to hold."""
    if limit and not holds(limit):
        return limit
    return bisect_left(range(1, limit), True, key=holds)


def _first(holds: Callable[[int], bool], limit: int) -> int:
    """The first number from 1 to the limit from which on something holds; the limit if it never does."""
    return min(last_before(holds, limit) + 1, limit)
