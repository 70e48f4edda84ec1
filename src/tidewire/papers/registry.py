"""Which experiments are there? One open table of sheets; each names the module whose ``EXPERIMENTS`` are its own."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tidewire.benchmarks.progress import Tell
from tidewire.model.errors import UnknownName, UsageError
from tidewire.papers.report import Experiment, Options, Report

SHEETS: Final[dict[str, str]] = {"gryphon": "tidewire.papers.gryphon"}
"""In the order in which they are listed. A module is loaded when one of its experiments is asked for."""


def experiments(sheet: str | None = None) -> list[Experiment]:
    """All of them, or those of one sheet; UnknownName if there is none such."""
    if sheet is not None and sheet not in SHEETS:
        raise UnknownName(sheet, what="sheet", known=SHEETS)
    names = SHEETS if sheet is None else [sheet]
    return [one for name in names for one in import_module(SHEETS[name]).EXPERIMENTS]


def find(experiment: str) -> Experiment:
    """The one with this id, in whatever case; UnknownName with those that there are."""
    known = {one.id: one for one in experiments()}
    by_folded = {name.casefold(): one for name, one in known.items()}
    if experiment.casefold() not in by_folded:
        raise UnknownName(experiment, what="experiment", known=known)
    return by_folded[experiment.casefold()]


def run(experiment: Experiment, options: Options, tell: Tell) -> Report:
    """Run it, as asked; a UsageError if it cannot be run so."""
    if options.is_live and not experiment.can_be_live:
        live = ", ".join(one.id for one in experiments() if one.can_be_live)
        raise UsageError(f"{experiment.id} runs in the simulator only; live there are {live or 'none'}")
    return experiment.run(options, tell)
