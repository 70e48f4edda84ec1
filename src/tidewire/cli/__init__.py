"""The command line: what did the person at the keyboard ask for? The only reader of the environment."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def main() -> None:
    """The program `tidewire`."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        from tidewire.cli.app import app
    except KeyboardInterrupt:  # loading takes a moment, in which people may change their mind
        sys.exit(130)
    app(prog_name="tidewire")


def _terminated(number: int, _frame: FrameType | None) -> None:
    """An end in order: what a command has begun it ends too, such as the brokers of a benchmark."""
    sys.exit(128 + number)
