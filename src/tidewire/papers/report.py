"""What is an experiment, and what does it give? Claims of the paper, each with our figure, and series to plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tidewire.benchmarks.progress import Tell


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the paper says, and what came out here."""

    claim: str
    paper: str
    """The paper's figure, or what it says where it has none."""

    measured: str
    tolerance: str
    """What is asked of our figure for the claim to hold."""

    holds: bool

    @property
    def verdict(self) -> str:
        """In a few words."""
        return "holds" if self.holds else f"differs: measured {self.measured} against {self.paper}"


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a figure."""

    name: str
    x: list[float]
    y: list[float]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines over one axis."""

    name: str
    """Of the file, without its ending."""

    title: str
    x_label: str
    y_label: str
    series: list[Series]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an experiment came to no end."""

    code: str
    message: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of an experiment. ``figures`` are for drawing, not for the JSON document."""

    id: str
    claims: list[Claim]
    notes: list[str] = []
    """What was scaled, and what else is worth knowing of how it was done."""

    measured: Mapping[str, float] = {}
    """Figures by name, beyond those in the claims."""

    figures: list[Figure] = []
    failure: Failure | None = None
    """None: it was run to its end."""

    @property
    def holds(self) -> bool:
        """Was it run to its end, and does every claim hold?"""
        return self.failure is None and all(claim.holds for claim in self.claims)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How an experiment is to be run."""

    is_quick: bool = False
    """Shorter, and less of it: the direction of the claims shows, their figures are rougher."""

    seed: int = 1
    data: Path | None = None
    """Where real records are; None: the default folder, or generated ones."""

    scale: int = 1
    """So many times fewer subscribers, at brokers so much weaker: for experiments that are scalable."""

    runs: int | None = None
    """Of each point of a sweep, or of what is a mean of runs, with seeds from ``seed`` on; None: as in the paper."""

    is_live: bool = False
    """With processes on this machine, in real time, in place of the simulator."""


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment of one sheet."""

    id: str
    """``sheet/mark``, as in ``gryphon/E1``."""

    shows: str
    """In one line."""

    parameters: Mapping[str, str]
    """What it is run with, for people."""

    is_live_too: bool = False
    """Can it be run on broker processes as well?"""

    is_scalable: bool = False
    """Can it be run smaller, with the same load on each broker?"""

    is_repeated: bool = False
    """Is it the mean of many runs, of which there may be fewer?"""

    run: Callable[[Options, Tell], Report]
