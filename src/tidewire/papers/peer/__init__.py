"""The experiments of peer §10, on the brokers that serve users: E1 to E11, and what goes beyond (E12 to E14)."""

from __future__ import annotations

from typing import Final

from tidewire.papers.peer import beyond, local, micro, worldwide
from tidewire.papers.report import Experiment

_SHOWS: Final = {
    "peer/E3": "more subscribers take longer, and are shared as evenly",
    "peer/E4": "subscribers whom nothing interests are shared too",
    "peer/E5": "with more edges delivery is faster",
    "peer/E6": "few samples suffice to predict what a move brings",
    "peer/E7": "the threshold inside a cluster says how even it becomes, and for how many moves",
    "peer/E8": "the rarer edges tell their load, the later they are even",
    "peer/E9": "load spreads over a chain of clusters as far as it must, and no further",
    "peer/E10": "the threshold between clusters says how often they balance with each other",
    "peer/E11": "how often clusters tell their load matters little",
}

EXPERIMENTS: Final = (
    Experiment(
        id="peer/E1",
        shows="all load enters at the weakest of four edges, and is shared by their CPUs",
        parameters={"edges": "100/200/400/1000 MHz", "subscribers": "2,000 at B1", "publishers": "40, half double"},
        run=local.macro,
    ),
    Experiment(
        id="peer/E2",
        shows="all load enters at one edge of four clusters in a chain, and spreads over them",
        parameters={
            "clusters": "B10 – B20 – B30 – B40",
            "subscribers": "2,000 at B11",
            "publishers": "40, half double",
        },
        run=worldwide.macro,
    ),
    *(
        Experiment(
            id=sweep.id,
            shows=_SHOWS[sweep.id],
            parameters={sweep.axis: ", ".join(f"{value:g}" for value in sweep.values)},
            is_scalable=True,
            run=sweep,
        )
        for sweep in micro.SWEEPS
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
