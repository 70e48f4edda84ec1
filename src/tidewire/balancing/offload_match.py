"""Who moves, so that matching takes less time? Match offload (peer §8.5).

It moves what carries least: the other two indices should not notice.
"""

from __future__ import annotations

from collections.abc import Callable

from tidewire.balancing.bundles import LOT, Bundle, Group, Pool, by_order
from tidewire.balancing.cards import (
    Card,
    Judge,
    Trial,
    enough_to_recover,
    most,
    without_coming_back,
)
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.estimates import Change
from tidewire.balancing.outlook import SPENT, Outlook
from tidewire.balancing.plans import OffloadSnapshot, Plan
from tidewire.model.ids import Nanoseconds


class MatchOffload:
    """Balances the matching delay, or frees an engine that is overloaded."""

    def __init__(self, config: BalancingConfig) -> None:
        self._config = config

    def plan(self, snapshot: OffloadSnapshot, *, now_ns: Nanoseconds) -> Plan:
        """Who is to move?"""
        outlook = Outlook(snapshot)
        reason = self.pick(outlook, is_overloaded=snapshot.is_overloaded)
        return outlook.plan(reason, now_ns=now_ns)

    def pick(self, outlook: Outlook, *, is_overloaded: bool) -> str:
        """Pick from what has not been picked yet, and say why no more was."""
        judge = Judge("match", outlook, self._config)
        left = self._pick(
            outlook,
            is_done=lambda: self._is_done(outlook, judge, is_overloaded),
            choice=lambda pool: self._choice(pool, outlook, judge, is_overloaded),
        )
        return left or ("no longer overloaded" if is_overloaded else "balanced")

    def lighten(self, outlook: Outlook) -> str:
        """Pick what carries least for the sake of the input: it shrinks with the delay.

        Only as long as the donor has the longer delay: the acceptor would send them back for its own (peer O6). Nor may
        it have so much more output that it would for that.
        """
        inputs = Judge("input", outlook, self._config)
        left = self._pick(
            outlook,
            is_done=lambda: inputs.is_balanced(inputs.now),
            choice=lambda pool: self._light_choice(pool, outlook, inputs),
        )
        return left or "balanced by shorter matching"

    def _pick(self, outlook: Outlook, *, is_done: Callable[[], bool], choice: Callable[[Pool], Card | None]) -> str:
        """Pick until it is done; else say why it is not."""
        config = self._config
        pool = Pool(
            outlook.left,
            one_by_one=config.as_printed.filter_by_filter,
            choices_max=config.choices_max,
            lot_max=LOT * config.choices_max,
            order=by_order(self._order),
        )
        must_pick = config.as_printed.pick_then_ask
        while must_pick or not is_done():
            must_pick = False
            if outlook.looks >= config.looks_max:
                return SPENT
            card = choice(pool)
            if card is None and pool.more(outlook):
                continue
            if card is None:
                return "nothing that could move would help"
            outlook.move(pool.take(card.bundle, card.clients))
        return ""

    def _is_done(self, outlook: Outlook, judge: Judge, is_overloaded: bool) -> bool:
        if is_overloaded:
            return not outlook.donor_then.engine_reaches(self._config.overload_lower, 0.0, 0, 0.0)
        return judge.is_balanced(judge.now)

    def _choice(self, pool: Pool, outlook: Outlook, judge: Judge, is_overloaded: bool) -> Card | None:
        """The first that helps, of those with least traffic."""
        for bundle in sorted(pool.bundles(outlook), key=self._order):
            trial = Trial(bundle, outlook)
            cap = most(trial, outlook, self._config)
            if is_overloaded:
                count = enough_to_recover(trial, outlook, self._config, at_most=cap)
                helps = bool(count) and self._relieves(trial, outlook, count)
            else:
                count = judge.enough(trial, self._stable(trial, outlook, cap))
                is_no_worse = abs(judge.after(trial, count)) <= abs(judge.now)
                helps = bool(count) and is_no_worse and judge.relieves(trial, count)
            if helps:
                return trial.card(count, judge.after(trial, count))
        return None

    def _light_choice(self, pool: Pool, outlook: Outlook, inputs: Judge) -> Card | None:
        delays, outputs = Judge("match", outlook, self._config), Judge("output", outlook, self._config)
        for bundle in sorted(pool.bundles(outlook), key=self._order):
            trial = Trial(bundle, outlook)
            cap = most(trial, outlook, self._config)
            cap = without_coming_back(delays, trial, cap, threshold=0.0)
            if not self._config.as_printed.input_alone:
                cap = without_coming_back(outputs, trial, cap, threshold=self._config.local_ratio)
            count = inputs.enough(trial, cap)
            is_no_worse = abs(inputs.after(trial, count)) <= abs(inputs.now)
            if count and is_no_worse and inputs.relieves(trial, count):
                return trial.card(count, inputs.after(trial, count))
        return None

    def _stable(self, trial: Trial, outlook: Outlook, cap: int) -> int:
        """Not so many that the acceptor sends them back for its input; if it does anyway, it is not for them."""
        inputs, threshold = Judge("input", outlook, self._config), self._config.local_ratio
        if not self._config.match_minds_input or inputs.now < -threshold:
            return cap
        return without_coming_back(inputs, trial, cap, threshold=threshold)

    def _relieves(self, trial: Trial, outlook: Outlook, count: int) -> bool:
        """Does it lower what is overloaded?"""
        before, after = outlook.donor.utilisations, outlook.donor.utilisations_after(Change(*trial.going(count)))
        pairs = (before.input, after.input), (before.cpu, after.cpu), (before.memory, after.memory)
        return any(then < now and now >= self._config.overload_lower for now, then in pairs)

    def _order(self, bundle: Bundle | Group) -> tuple[float, ...]:
        if self._config.as_printed.traffic_then_input:
            return bundle.wanted, bundle.extra, -bundle.clients
        return bundle.wanted + bundle.extra, bundle.extra, -bundle.clients
