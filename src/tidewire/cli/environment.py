"""What the environment says, read here and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

DATA_VARIABLE: Final = "TIDEWIRE_DATA"
STORE_VARIABLES: Final = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ALLOW_HTTP",
    "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
)  # fmt: skip
"""What reaches a store; executors are told too."""

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


def store_options() -> dict[str, str]:
    """How stores that are not folders are reached, and by whom: what their own tools know by these variables."""
    found = {name: value for name in STORE_VARIABLES if (value := os.environ.get(name))}
    if endpoint := found.pop("AWS_ENDPOINT_URL_S3", None):
        found["AWS_ENDPOINT_URL"] = endpoint
    return found


def is_ci() -> bool:
    """Does this run where nobody looks, and nothing may be left out?"""
    return os.environ.get("CI", "").lower() == "true"
