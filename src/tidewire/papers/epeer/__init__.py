"""The experiments of epeer §4.3 over rates, with the agents and controllers that brokers run: B1 to B15.

``agreement.py`` shows, with brokers themselves, that rates say the same.
"""

from __future__ import annotations

from typing import Final

from tidewire.papers.epeer import shortage, surplus
from tidewire.papers.report import Experiment

_BURSTS: Final = {"edges": "4", "classes": "100", "bursts": "2 of 10–15 classes, ×1.5"}
_DAMAGE: Final = {
    "edges": "4",
    "classes": "100",
    "damage": "0.1–0.4 of the bandwidth left",
    "output before": "0.6, 0.3",
}
_MANY: Final = {"runs": "500"}

EXPERIMENTS: Final = (
    Experiment(
        id="epeer/B1",
        shows="two bursts: who can wait is moved, nobody else, and seldom",
        parameters=_BURSTS,
        run=surplus.single,
    ),
    Experiment(
        id="epeer/B2",
        shows="on average who is moved is hardly held up",
        parameters=_BURSTS | _MANY,
        is_repeated=True,
        run=surplus.mean_delay,
    ),
    Experiment(
        id="epeer/B3",
        shows="the baseline minds balance, and moves many for it",
        parameters=_BURSTS | {"policies": "peer-lb, peer"},
        run=surplus.baseline,
    ),
    Experiment(
        id="epeer/B4",
        shows="on average the baseline holds up many times more",
        parameters=_BURSTS | _MANY,
        is_repeated=True,
        run=surplus.baseline_mean,
    ),
    Experiment(
        id="epeer/B5",
        shows="run by run drd moves less often",
        parameters=_BURSTS | _MANY,
        is_repeated=True,
        run=surplus.fewer,
    ),
    Experiment(
        id="epeer/B6",
        shows="run by run drd holds up less",
        parameters=_BURSTS | _MANY,
        is_repeated=True,
        run=surplus.shorter,
    ),
    Experiment(
        id="epeer/B7",
        shows="drd is lower on both, on average",
        parameters=_BURSTS | _MANY,
        is_repeated=True,
        run=surplus.lower,
    ),
    Experiment(
        id="epeer/B8",
        shows="which is no chance (H1)",
        parameters=_BURSTS | _MANY,
        is_repeated=True,
        run=surplus.significant,
    ),
    Experiment(
        id="epeer/B9",
        shows="the order of drd alone helps the baseline",
        parameters=_BURSTS | _MANY | {"policies": "peer-lb, peer-drd"},
        is_repeated=True,
        run=surplus.ordered,
    ),
    Experiment(
        id="epeer/B10",
        shows="broken cables: the least important give way, and nobody is overloaded",
        parameters=_DAMAGE,
        run=shortage.single,
    ),
    Experiment(
        id="epeer/B11",
        shows="on average the load falls on every metric",
        parameters=_DAMAGE | _MANY,
        is_repeated=True,
        run=shortage.less,
    ),
    Experiment(
        id="epeer/B12",
        shows="which is no chance (H2)",
        parameters=_DAMAGE | _MANY,
        is_repeated=True,
        run=shortage.significant_load,
    ),
    Experiment(
        id="epeer/B13",
        shows="the quality of experience over time",
        parameters=_DAMAGE,
        run=shortage.over_time,
    ),
    Experiment(
        id="epeer/B14",
        shows="on average those who are heard are worth more",
        parameters=_DAMAGE | _MANY,
        is_repeated=True,
        run=shortage.better,
    ),
    Experiment(
        id="epeer/B15",
        shows="which is no chance (H3)",
        parameters=_DAMAGE | _MANY,
        is_repeated=True,
        run=shortage.significant_quality,
    ),
)
