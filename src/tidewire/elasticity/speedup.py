"""How well do more slices pay? Figures of esilbops §7."""

from __future__ import annotations


def slices_counted(*, matchers: int, exits: int) -> int:
    """What counts as processors: 1-1-1 has one, 1-3-1 and 1-2-2 have three (esilbops §7, our reading of p)."""
    return matchers + exits - 1


def efficiency(speedup: float, slices: int) -> float:
    """The share of a slice that pays: E = S / p."""
    return speedup / slices


def serial_fraction(speedup: float, slices: int) -> float:
    """Karp and Flatt: the share of the work that more slices do not make faster."""
    if slices < 2:
        raise ValueError("with one slice nothing is shared: there is no serial fraction")
    return (1 / speedup - 1 / slices) / (1 - 1 / slices)


def held_batches(*, events_s: float, switch_s: float) -> float:
    """How many events wait while exit points are told of a new number of matchers."""
    return events_s * switch_s


def drain_rate(*, events_s: float, switch_s: float, flush_s: float) -> float:
    """How fast what was held must go to be gone in that time."""
    return held_batches(events_s=events_s, switch_s=switch_s) / flush_s
