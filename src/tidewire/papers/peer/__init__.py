"""The experiments of peer §10, on the brokers that serve users: E1 and its parts so far."""

from __future__ import annotations

from typing import Final

from tidewire.papers.peer import local
from tidewire.papers.report import Experiment

EXPERIMENTS: Final = (
    Experiment(
        id="peer/E1",
        shows="all load enters at the weakest of four edges, and is shared by their CPUs",
        parameters={"edges": "100/200/400/1000 MHz", "subscribers": "2,000 at B1", "publishers": "40, half double"},
        run=local.macro,
    ),
)
