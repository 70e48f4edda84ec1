"""What is loaded only when it is needed."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "pyspark",
    "pyarrow",
    "deltalake",
    "pandas",
    "cryptography",
    "jwt",
    "starlette",
    "uvicorn",
    "prometheus_client",
    "tidewire.broker",
)


def test_a_client_in_clear_loads_nothing_of_the_front_door() -> None:
    """Nor of a broker: `docs/decisions/0011` says so."""
    asked = "import sys, tidewire, tidewire.sync; tidewire.connect; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert "tidewire.live.connect" in loaded
    assert [name for name in loaded if name.startswith(HEAVY)] == []
