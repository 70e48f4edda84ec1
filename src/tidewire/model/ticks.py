"""What is in a tick? 44 bits of milliseconds since 1970 on the pubend's clock, then 20 bits that count within one.

So a tick is unique, sorts by time, and tells the time at which its pubend gave it: lags and rates are in milliseconds
of stream, whatever is published.
"""

from __future__ import annotations

from typing import Final

from tidewire.model.ids import Tick

COUNTER_BITS: Final = 20
TICK_MIN: Final = Tick(1)
TICK_MAX: Final = Tick(2**63 - 1)
"""No pubend gives an earlier tick, nor a later one."""


def tick_at(unix_ms: int) -> Tick:
    """The first tick of a millisecond."""
    assert 0 <= unix_ms < 1 << (64 - COUNTER_BITS), f"{unix_ms} ms is no time that a tick can tell"
    return Tick(unix_ms << COUNTER_BITS)


def ms_of(tick: Tick) -> int:
    """The millisecond of a tick, on its pubend's clock."""
    return tick >> COUNTER_BITS


def ticks_of(ms: int) -> int:
    """How many ticks so many milliseconds of stream are: the width of a window, say."""
    return ms << COUNTER_BITS
