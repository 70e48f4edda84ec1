"""Who moves, so that less comes in? Input offload (peer §8.4).

Only what is in the covering set can lower the donor's input rate: whatever is covered leaves behind a filter that
attracts the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidewire.balancing.bundles import LOT, Pool
from tidewire.balancing.cards import KEPT, Card, Judge, Trial, closest, first_descent, most, without_coming_back
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.offload_match import MatchOffload
from tidewire.balancing.orders import DonorOrder
from tidewire.balancing.outlook import SPENT, Outlook, whole
from tidewire.balancing.plans import OffloadSnapshot, Plan
from tidewire.balancing.press import Candidate
from tidewire.model.ids import Nanoseconds


class InputOffload:
    """Balances the input utilisation."""

    def __init__(self, config: BalancingConfig) -> None:
        self._config = config
        self._match = MatchOffload(config)

    def plan(self, snapshot: OffloadSnapshot, *, now_ns: Nanoseconds) -> Plan:
        """Who is to move? If that leaves an overload, a shorter matching delay may still relieve it (peer O6).

        Without an overload it may only as far as the acceptor's delay stays the shorter one: it would send the same
        clients back to balance its own. That is tried where the covering set leaves the inputs far apart, as it does if
        one client in it brings most of what comes in.
        """
        outlook = Outlook(snapshot)
        reason = self._pick(outlook, snapshot.is_overloaded)
        if snapshot.is_overloaded:
            if outlook.donor.input_utilisation >= self._config.overload_lower:
                reason = self._match.pick(outlook, is_overloaded=True)
        elif not self._config.as_printed.covering_alone and self._apart(outlook) > self._config.local_ratio / 2:
            lighter = Outlook(snapshot)
            why = self._match.lighten(lighter)
            if lighter.picked and self._apart(lighter) < self._apart(outlook):
                outlook, reason = lighter, why
        return outlook.plan(reason, now_ns=now_ns)

    def _apart(self, outlook: Outlook) -> float:
        return abs(Judge("input", outlook, self._config).now)

    def _pick(self, outlook: Outlook, is_overloaded: bool) -> str:
        order = DonorOrder(outlook.profile)
        config = self._config
        one_by_one = config.as_printed.filter_by_filter
        pool = Pool(
            order.covering(), one_by_one=one_by_one, choices_max=config.choices_max, lot_max=LOT * config.choices_max
        )
        judge = Judge("input", outlook, config)
        must_pick = config.as_printed.pick_then_ask
        gone: list[Candidate] = []
        while must_pick or not judge.is_balanced(judge.now):
            must_pick = False
            if outlook.looks >= config.looks_max:
                return SPENT
            pool.add(one for one in order.without(gone) if one not in outlook.picked)
            card = self._choice(pool, outlook, judge, is_overloaded)
            if card is None and pool.more(outlook):
                gone = []
                continue
            if card is None:
                return "nothing that could move would help"
            taken = pool.take(card.bundle, card.clients)
            outlook.move(taken)
            gone = whole(taken)
        return "balanced"

    def _choice(self, pool: Pool, outlook: Outlook, judge: Judge, is_overloaded: bool) -> Card | None:
        """One that leaves the outputs as close as they may be, if there is one; else one that is worth it."""
        trials = [Trial(bundle, outlook) for bundle in pool.bundles(outlook)]
        limits = [self._most(trial, outlook, is_overloaded) for trial in trials]
        if is_overloaded or self._config.as_printed.input_alone:
            return self._best(_cards(judge, zip(trials, limits, strict=True)), judge, is_overloaded)
        outputs = Judge("output", outlook, self._config)
        gentle = (
            (trial, without_coming_back(outputs, trial, limit, threshold=self._config.local_ratio))
            for trial, limit in zip(trials, limits, strict=True)
        )
        found = self._best(_cards(judge, gentle), judge, is_overloaded)
        if found is not None:
            return found
        worth = [
            card
            for trial, card in _tried(judge, zip(trials, limits, strict=True))
            if self._tears(outputs, trial, card) <= abs(judge.now) - abs(card.difference)
        ]
        return self._best(worth, judge, is_overloaded)

    def _tears(self, outputs: Judge, trial: Trial, card: Card) -> float:
        """By how much the acceptor's output would exceed the donor's, beyond what it may or does already."""
        return -outputs.after(trial, card.clients) - max(self._config.local_ratio * KEPT, -outputs.now)

    def _best(self, cards: list[Card], judge: Judge, is_overloaded: bool) -> Card | None:
        if self._config.as_printed.first_descent and not is_overloaded:
            return first_descent(sorted(cards, key=_order), judge.now)
        return closest(cards, judge.now, is_overloaded=is_overloaded, order=_order)

    def _most(self, trial: Trial, outlook: Outlook, is_overloaded: bool) -> int:
        """Not so many that the acceptor sends them back for its delay (peer O6), unless this broker is overloaded.

        One client that changes a rate may go in any case: there are engines in which one makes such a difference (G10).
        """
        at_most = most(trial, outlook, self._config)
        changes_rates = trial.extra_rate > 0 or trial.reducible_rate > 0
        if is_overloaded or (changes_rates and self._config.as_printed.input_alone):
            return at_most
        delay = Judge("match", outlook, self._config)
        stay = without_coming_back(delay, trial, at_most, threshold=self._config.local_delay)
        return min(at_most, 1) if not stay and changes_rates and not outlook.picked else stay


def _tried(judge: Judge, trials: Iterable[tuple[Trial, int]]) -> Iterator[tuple[Trial, Card]]:
    """Cards of those that help, if at most so many of each may move."""
    for trial, limit in trials:
        count = judge.enough(trial, limit)
        if count and judge.relieves(trial, count):
            yield trial, trial.card(count, judge.after(trial, count))


def _cards(judge: Judge, trials: Iterable[tuple[Trial, int]]) -> list[Card]:
    return [card for _, card in _tried(judge, trials)]


def _order(card: Card) -> tuple[float, ...]:
    """Many clients at last: the fewer subscriptions are left, the shorter is the matching delay."""
    return card.difference, -card.reduced_rate, -card.clients
