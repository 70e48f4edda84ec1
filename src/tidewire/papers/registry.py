"""Which experiments are there? One open table of sheets; each names the module whose ``EXPERIMENTS`` are its own."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tidewire.model.errors import UnknownName
from tidewire.papers.report import Experiment

SHEETS: Final[dict[str, str]] = {
    "gryphon": "tidewire.papers.gryphon",
    "peer": "tidewire.papers.peer",
    "bad": "tidewire.papers.bad",
    "epeer": "tidewire.papers.epeer",
}
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
