"""What a coordinator decides beyond who is next to whom. Frozen, and checked once."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tidewire.model.errors import BadConfiguration
from tidewire.placement.choices import Location
from tidewire.placement.config import StageConfig

SAMPLES_MAX: Final = 4096


class Decides(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where newcomers go, and whether subscribers are moved."""

    balancing: Literal["never", "ldm", "sdm", "gsh", "ldm-gsh", "sdm-gsh", "sticky"] = "never"
    """Who moves when load is uneven: nobody; a few, by load or by similarity; all; as few as give an even load."""
    placement: Literal["nearest", "round-robin", "random", "least-loaded"] = "round-robin"
    """Which broker a newcomer gets."""
    placement_seed: int | None = None
    """With one, ``random`` gives a session the same broker whenever one of the same name asks; else any."""
    balance: StageConfig = StageConfig()
    report_samples: int = 256
    """Events from which a broker tells what its subscribers get, in each report."""
    always_reports: bool = False
    """Do brokers report also when nothing is decided on it? Then it can be seen how load is spread."""
    locations: dict[str, Location] = {}
    """Where brokers are, by name, for the placement ``nearest``; of others it counts what they say themselves."""

    def __post_init__(self) -> None:
        if not 1 <= self.report_samples <= SAMPLES_MAX:
            raise BadConfiguration(f"report_samples = {self.report_samples}: it must be from 1 to {SAMPLES_MAX}")
