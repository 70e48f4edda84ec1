"""The command line: what did the person at the keyboard ask for? The only reader of the environment."""

from __future__ import annotations

import sys


def main() -> None:
    """The program `tidewire`."""
    try:
        from tidewire.cli.app import app
    except KeyboardInterrupt:  # loading takes a moment, in which people may change their mind
        sys.exit(130)
    app(prog_name="tidewire")
