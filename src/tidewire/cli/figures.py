"""Numbers as people read them in narrow columns: short, and as bars."""

from __future__ import annotations

from typing import Final

from rich.text import Text

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
WARM: Final = 0.6
HOT: Final = 0.9


def short(number: float) -> str:
    """At most five characters: 7, 0.3, 870, 3.4k, 120k, 1.2M."""
    if number < 10:
        return f"{number:.1f}".removesuffix(".0")
    for unit in ("", "k", "M", "G"):
        if number < 9.95 and unit:
            return f"{number:.1f}{unit}"
        if number < 999.5:
            return f"{number:.0f}{unit}"
        number /= 1000
    return f"{number:.0f}T"


def size(count: float) -> str:
    """Bytes: at most six characters."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f}{unit}" if unit == "B" or count >= 9.95 else f"{count:.1f}{unit}"
        count /= 1000
    return f"{count:.1f}TB"


def ago(seconds: float) -> str:
    """An age: at most four characters."""
    for unit, length in (("s", 60), ("m", 60), ("h", 24)):
        if seconds < length:
            return f"{seconds:.0f}{unit}"
        seconds /= length
    return f"{seconds:.0f}d"


def colour(share: float) -> str:
    """Of something that should not reach 1."""
    return "red" if share >= HOT else "yellow" if share >= WARM else "green"


def bar(share: float, width: int, *, plain: bool = False) -> Text:
    """A bar of this width; ``plain`` for terminals that know only ASCII."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if share > 0.001 and eighths == 0:
        eighths = 1
    if plain:
        return Text(("#" * round(eighths / 8)).ljust(width, "."), style=colour(share))
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return Text(drawn.ljust(width), style=f"{colour(share)} on grey15")
