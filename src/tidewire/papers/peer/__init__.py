"""The experiments of peer §10, on the brokers that serve users: E1 and its parts, and what goes beyond (E12 to E14)."""

from __future__ import annotations

from typing import Final

from tidewire.papers.peer import beyond, local
from tidewire.papers.report import Experiment

EXPERIMENTS: Final = (
    Experiment(
        id="peer/E1",
        shows="all load enters at the weakest of four edges, and is shared by their CPUs",
        parameters={"edges": "100/200/400/1000 MHz", "subscribers": "2,000 at B1", "publishers": "40, half double"},
        run=local.macro,
    ),
    Experiment(
        id="peer/E12",
        shows="when it has converged it rests, for an hour of the same load",
        parameters={"as": "E1, without the step"},
        run=beyond.rest,
    ),
    Experiment(
        id="peer/E13",
        shows="a new, empty broker gets its share",
        parameters={"as": "E1, without the step", "new": "B5 with 500 MHz"},
        run=beyond.newcomer,
    ),
    Experiment(
        id="peer/E14",
        shows="rates that swing as often as brokers look do not make subscribers swing",
        parameters={"as": "E1, without the step", "swings": "half of the publishers double, every 30 s"},
        run=beyond.swings,
    ),
)
