"""`python -m tidewire` is `tidewire`."""

from __future__ import annotations

from tidewire.cli import main

main()
