"""How long work says where it is; who shows it, and how, is the caller's business."""

from __future__ import annotations

from typing import Protocol


class Tell(Protocol):
    """Something that hears where the work is."""

    def __call__(self, stage: str, step: int = 0, steps: int = 0) -> None:
        """Now at this stage; at this step of so many, if they can be counted."""


def tell_nobody(stage: str, step: int = 0, steps: int = 0) -> None:
    """For those who do not want to know."""
