"""What the environment says, read here and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

DATA_VARIABLE: Final = "TIDEWIRE_DATA"

DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder with real records; else [bold]$TIDEWIRE_DATA[/bold], else data/. Generated if there are none.",
    ),
]


def data_folder(given: Path | None) -> Path | None:
    """The folder that was asked for; None for the default."""
    if given is not None:
        return given
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named else None


def is_ci() -> bool:
    """Does this run where nobody looks, and nothing may be left out?"""
    return os.environ.get("CI", "").lower() == "true"
