"""Chance is handed in: the driver seeds it, the machines use it."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, Protocol


class Chance(Protocol):
    """The part of ``random.Random`` that machines use."""

    def random(self) -> float:
        """From 0 up to, but not, 1."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Put a list into any order."""
