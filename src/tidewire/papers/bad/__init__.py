"""The experiments of bad §6, with the placement and the plans of the coordinator; and one beyond them."""

from __future__ import annotations

from typing import Final

from tidewire.papers.bad import prototype, simulation
from tidewire.papers.report import Experiment

_CITY: Final = {"brokers": "5", "subscribers": "400", "channels": "7 of emergencies"}
_CROWD: Final = {"brokers": "10", "subscribers": "10,000", "subscriptions": "1,000 back-end, 200,000 front-end"}

EXPERIMENTS: Final = (
    Experiment(
        id="bad/X1",
        shows="with random placement a few migrations even out what is slightly uneven",
        parameters={**_CITY, "placement": "random"},
        is_live_too=True,
        run=prototype.random,
    ),
    Experiment(
        id="bad/X2",
        shows="the same with round robin",
        parameters={**_CITY, "placement": "round robin"},
        is_live_too=True,
        run=prototype.round_robin,
    ),
    Experiment(
        id="bad/X3",
        shows="with the nearest broker the imbalance is extreme, and repaired by migration",
        parameters={**_CITY, "placement": "nearest"},
        is_live_too=True,
        run=prototype.nearest,
    ),
    Experiment(
        id="bad/X4",
        shows="an early shuffle saves migrations later",
        parameters={**_CITY, "placement": "nearest", "policies": "ldm, sdm, with and without gsh"},
        is_live_too=True,
        run=prototype.shuffled,
    ),
    Experiment(
        id="bad/X5",
        shows="what each placement costs in migrations",
        parameters={**_CITY, "placement": "nearest, round robin, random, least loaded"},
        is_live_too=True,
        run=prototype.costs,
    ),
    Experiment(
        id="bad/X6",
        shows="destinations by load and by similarity are about as good",
        parameters={**_CITY, "policies": "ldm, sdm"},
        is_live_too=True,
        run=prototype.similarity,
    ),
    Experiment(
        id="bad/X7",
        shows="of many who are near few brokers a shuffle makes an even load at once, migration step by step",
        parameters={**_CROWD, "alpha": "0.15", "beta": "300 MB/s"},
        run=simulation.balanced,
    ),
    Experiment(
        id="bad/X8",
        shows="with a smaller alpha migration comes near the shuffle",
        parameters={**_CROWD, "alpha": "0.15, 0.05"},
        run=simulation.sensitive,
    ),
    Experiment(
        id="bad/X9",
        shows="the smaller alpha is, the more migrations",
        parameters={**_CROWD, "alpha": "0.05 to 0.3"},
        run=simulation.cheaper,
    ),
    Experiment(
        id="bad/F1",
        shows="beyond the paper: a shuffle in which nearly everybody stays, beside GSH and the optimum",
        parameters={**_CROWD, "small worlds": "3 brokers, 10 subscribers"},
        run=simulation.frontier,
    ),
)
