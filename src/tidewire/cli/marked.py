"""Text of others among markup of ours: it can neither style nor steer the terminal."""

from __future__ import annotations

from rich.markup import escape as unmarked

from tidewire.model.text import visible


def escape(text: object, *, lines: bool = False) -> str:
    """As it is to be printed: no markup in it counts, and control characters are seen; with ``lines``, line breaks do.

    What others wrote goes to a terminal or a log by way of this, and no other way.
    """
    return unmarked(visible(str(text), keep="\n" if lines else ""))
