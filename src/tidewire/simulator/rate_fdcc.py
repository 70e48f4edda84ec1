"""Traffic that gives way, over rates: the controller of ``congestion/fdcc/`` in a head, told what that would hear.

What subscribers think of a publisher does not change in a run; it is said as soon as they hear it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.congestion.fdcc.controller import Controller, Offered, View
from tidewire.congestion.fdcc.selection import Budget, FlowKey
from tidewire.congestion.fdcc.utility import Judgement
from tidewire.model.ids import Nanoseconds
from tidewire.model.traffic import ClassKey
from tidewire.simulator.rates import Rates, Traffic

NEWEST: Final = 0.1
"""What the last second weighs in what publishers say they would send: who fits is decided by what they publish for
long, and not by noise. With single seconds those would be admitted who happen to say little, and then publish more."""


class RateFdcc:
    """A head that says who gives way."""

    def __init__(self, rates: Rates, config: FdccConfig, judged: Callable[[Traffic, str], float]) -> None:
        """``judged``: what the subscribers of a class think of one of its publishers, added up."""
        self._rates = rates
        self._judged = judged
        self.controller = Controller(config)
        self._spoken: dict[str, None] = {}
        self._swing = [1.0] * len(rates.traffic)
        self.updates = 0
        """Limits that publishers were told."""

    def second(self, now_ns: Nanoseconds, *, is_short: bool, is_due: bool = True) -> bool:
        """A second has passed; ``is_short``: nobody could take what is too much. Have limits changed?

        ``is_due``: limits that hold are decided anew.
        """
        kept = 1.0 - NEWEST
        self._swing = [kept * old + NEWEST * new for old, new in zip(self._swing, self._rates.swing, strict=True)]
        is_limited = self.controller.mode == "limited"
        if not (is_due if is_limited else is_short or self.controller.mode == "recovering"):
            return False
        self._hear()
        decision = self.controller.decide(self._view(is_short=is_short), now_ns=now_ns)
        self.updates += len(decision.limits)
        for key, limit in decision.limits.items():
            if limit is None:
                self._rates.limits.pop(key, None)
            else:
                self._rates.limits[key] = limit.msgs_s
        return bool(decision.limits)

    def _hear(self) -> None:
        """Whoever is heard for the first time is judged; later it would be judged the same."""
        for traffic in self._rates.traffic:
            for source in traffic.sources:
                if source.name not in self._spoken and self._rates.published_by(source.name) > 0.0:
                    self._spoken[source.name] = None
                    judgement = Judgement(self._judged(traffic, source.name), float(len(traffic.subscribers)))
                    self.controller.hear(FlowKey(source.name), judgement)

    def _view(self, *, is_short: bool) -> View:
        rates, head = self._rates, Budget(self._rates.head)
        flows = []
        for number, traffic in enumerate(rates.traffic):
            hosts, factor, swing = rates.hosts[number], rates.factor[number], rates.swing[number]
            fan_out = [(head, len(hosts)), *((Budget(edge), len(there)) for edge, there in hosts.items())]
            key = ClassKey(traffic.key)
            for source in traffic.sources:
                mean = source.events_s * factor
                limit = rates.limits.get(source.name)
                flows.append(
                    Offered(
                        key=FlowKey(source.name),
                        traffic_class=key,
                        offered_msgs_s=mean * self._swing[number],
                        accepted_msgs_s=mean * swing if limit is None else min(mean * swing, limit),
                        costs=tuple([(budget, float(source.event_bytes * count)) for budget, count in fan_out]),
                    )
                )
        return View(
            flows=tuple(flows),
            subscribers={ClassKey(one.key): float(len(one.subscribers)) for one in rates.traffic},
            capacities={Budget(name): machine.output_bytes_s for name, machine in rates.machines.items()},
            used={Budget(name): total[1] for name, total in rates.totals().items()},
            is_short=is_short,
        )
