"""Who moves, so that less goes out? Output offload (peer §8.6), in two phases that take turns.

Phase I moves what the acceptor gets in any case: its input does not grow. When nothing of that is left, Phase II moves
something else, if the acceptor's input stays within bounds; what that covers is then Phase I's.
"""

from __future__ import annotations

from collections.abc import Callable

from tidewire.balancing.bundles import Pool
from tidewire.balancing.cards import KEPT, Card, Judge, Trial, closest, first_descent, last_before, most
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.orders import AcceptorOrder
from tidewire.balancing.outlook import SPENT, Outlook, Taken
from tidewire.balancing.plans import OffloadSnapshot, Plan
from tidewire.balancing.press import Candidate
from tidewire.model.ids import Nanoseconds

Counting = Callable[[Trial, int], int]
"""How many of a bundle should move, if at most so many may?"""


class OutputOffload:
    """Balances the output utilisation, as far as the input utilisations allow."""

    def __init__(self, config: BalancingConfig) -> None:
        self._config = config

    def plan(self, snapshot: OffloadSnapshot, *, now_ns: Nanoseconds) -> Plan:
        """Who is to move?"""
        picking = _Picking(snapshot, self._config)
        reason = picking.run()
        return picking.outlook.plan(reason, now_ns=now_ns)


class _Picking:
    """One plan in the making."""

    def __init__(self, snapshot: OffloadSnapshot, config: BalancingConfig) -> None:
        self._config = config
        self._is_overloaded = snapshot.is_overloaded
        self.outlook = Outlook(snapshot)
        self._judge = Judge("output", self.outlook, config)
        self._inputs = Judge("input", self.outlook, config)
        self._acceptor = AcceptorOrder(snapshot.acceptor_filters)
        one_by_one, missing = config.as_printed.filter_by_filter, ~self.outlook.acceptor_bits
        candidates = [one for one in self.outlook.left if one.bits]
        others = (one for one in candidates if one.bits & missing)
        self._rest = Pool(others, one_by_one=one_by_one, choices_max=config.choices_max)
        """What the acceptor does not get in any case. What carries nothing is left out: it would help nobody."""
        self._covered = Pool((), one_by_one=one_by_one)
        self._lot = 10 * config.choices_max
        self._unchecked: dict[Candidate, None] = {}
        """What may be covered: it is found out lot by lot, while that is needed. At first it is in no pool."""
        self._check_later([one for one in candidates if not one.bits & missing])

    def run(self) -> str:
        """Pick until it is balanced or nothing helps, and say which."""
        must_pick = self._config.as_printed.pick_then_ask
        while must_pick or not self._judge.is_balanced(self._judge.now):
            must_pick = False
            if self.outlook.looks >= self._config.looks_max:
                return SPENT
            card = self._covered_choice()
            if card is not None:
                self.outlook.move(self._covered.take(card.bundle, card.clients))
                continue
            if self._unchecked:
                self._check_some()
                continue
            card = self._other_choice()
            if card is None and self._rest.more(self.outlook):
                continue
            if card is None:
                return "nothing that could move would help"
            taken = self._rest.take(card.bundle, card.clients)
            self.outlook.move(taken)
            self._now_at_the_acceptor(taken)
        return "balanced"

    # -- what the acceptor gets in any case ----------------------------------------------------------------------------

    def _may_be_covered(self, bits: int) -> None:
        """What wants only these samples may be; what wants others cannot."""
        self._rest.settle(self.outlook)
        self._check_later(self._rest.within(bits))

    def _check_later(self, candidates: list[Candidate]) -> None:
        """Those that carry most are checked first."""
        if len(candidates) > self._lot:
            candidates.sort(key=lambda one: one.bits.bit_count() * len(one.clients))
        self._unchecked |= dict.fromkeys(candidates)

    def _check_some(self) -> None:
        """Which of the next lot are covered?"""
        lot = [self._unchecked.popitem()[0] for _ in range(min(self._lot, len(self._unchecked)))]
        found = dict.fromkeys(self._acceptor.covered(lot))
        self.outlook.looks += len(lot)
        self._rest.discard(found)
        self._rest.add(one for one in lot if one not in found)
        self._covered.add(found)

    def _now_at_the_acceptor(self, taken: list[Taken]) -> None:
        bits = 0
        for one in taken:
            bits |= one.candidate.bits
        self._acceptor.take([one.candidate for one in taken])
        self._may_be_covered(bits)

    # -- Phase I -------------------------------------------------------------------------------------------------------

    def _covered_choice(self) -> Card | None:
        """By type (peer O8): what lowers the donor's input, what would if more of it could move, and the rest."""
        types: tuple[list[Card], list[Card], list[Card]] = [], [], []
        printed = self._config.as_printed
        counting = self._judge.enough if printed.stability_late else self._covered_count
        for card in self._cards(self._covered, self._counted_down if printed.stability_by_output else counting):
            types[0 if card.reduced_rate else 1 if card.reducible_rate else 2].append(card)
        for cards in types:
            found = self._chosen(cards, _covered_order)
            if found is not None:
                return found
        return None

    def _covered_count(self, trial: Trial, cap: int) -> int:
        """How many bring balance. Phase I adds nothing to the acceptor's input, but what it takes off the donor's makes
        them differ all the same: then those come back (peer O9). Where they differ already, only a lower rate counts.
        """
        if -self._inputs.now <= self._config.local_ratio:
            return self._judge.enough(trial, self._stable(trial, cap))
        lowers_rate = cap == trial.bundle.clients and trial.reducible_rate > 0
        return self._judge.enough(trial, cap - 1 if lowers_rate and self._comes_back(trial, cap) else cap)

    # -- Phase II ------------------------------------------------------------------------------------------------------

    def _other_choice(self) -> Card | None:
        return self._chosen(self._cards(self._rest, self._counted_down), _other_order)

    def _counted_down(self, trial: Trial, cap: int) -> int:
        """How many bring balance, without those numbers that would bring the clients back (peer O9, §11 rows 2, 3)."""
        printed = self._config.as_printed
        is_balanced, last = self._judge.is_balanced, 0
        if not (printed.stability_by_output or printed.skipped_counts):
            return self._judge.enough(trial, self._stable(trial, cap))
        for count in range(cap, 0, -1):
            if self._comes_back(trial, count):
                continue
            if not is_balanced(self._judge.after(trial, count)):
                if not last:
                    return count
                return count + 1 if printed.skipped_counts else last
            last = count
        return 1 if last and printed.skipped_counts else last

    def _stable(self, trial: Trial, cap: int) -> int:
        """The most that do not come back: with more, the acceptor's input only grows and the donor's only shrinks."""
        return last_before(lambda count: self._comes_back(trial, count), cap)

    def _comes_back(self, trial: Trial, count: int) -> bool:
        """Would the acceptor have so much more input than the donor that it would send clients back?

        Not to a donor whose output is overloaded, and stays at the lower threshold even so: it accepts nothing.
        """
        beyond = self._inputs.after(trial, count)
        if self._config.as_printed.stability_by_output:
            return beyond < 0 and abs(self._judge.after(trial, count)) > self._config.local_ratio
        if -beyond <= self._config.local_ratio * KEPT:
            return False
        one_less = self.outlook.donor_then.output(trial.going(count - 1)[2])
        return not (self._is_overloaded and one_less >= self._config.overload_lower)

    # -- both ----------------------------------------------------------------------------------------------------------

    def _cards(self, pool: Pool, counting: Counting) -> list[Card]:
        cards = []
        for bundle in pool.bundles(self.outlook):
            trial = Trial(bundle, self.outlook)
            count = counting(trial, most(trial, self.outlook, self._config))
            if count and self._judge.relieves(trial, count):
                cards.append(trial.card(count, self._judge.after(trial, count)))
        return cards

    def _chosen(self, cards: list[Card], order: Callable[[Card], tuple[float, ...]]) -> Card | None:
        before = self._judge.now
        printed = self._config.as_printed
        if not self._is_overloaded and (printed.first_descent or printed.covered_by_reduced):
            is_covered = order is _covered_order and printed.covered_by_reduced
            return first_descent(sorted(cards, key=order if is_covered else _by_difference(order)), before)
        return closest(cards, before, is_overloaded=self._is_overloaded, order=order)


def _covered_order(card: Card) -> tuple[float, ...]:
    return -card.reduced_rate, card.difference


def _other_order(card: Card) -> tuple[float, ...]:
    return card.difference, -card.gain


def _by_difference(order: Callable[[Card], tuple[float, ...]]) -> Callable[[Card], tuple[float, ...]]:
    return lambda card: (card.difference, *order(card))
