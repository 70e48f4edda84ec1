"""A figure as a small SVG: lines over two axes, readable on light and dark, the same bytes for the same figure."""

from __future__ import annotations

from html import escape
from math import ceil, floor, log10
from typing import Final

from tidewire.papers.report import Figure, Series

WIDTH: Final = 640
HEIGHT: Final = 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 40
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9")
"""Told apart also by those who see few colours."""

POINTS_MAX: Final = 400
_INK: Final = "#6b7280"
_STYLE: Final = 'font-family="sans-serif" font-size="11" role="img"'


def svg(figure: Figure) -> str:
    """The whole file."""
    x_ticks = _ticks(min(_all(figure, "x"), default=0.0), max(_all(figure, "x"), default=1.0))
    y_ticks = _ticks(min(0.0, *_all(figure, "y"), 0.0), max(0.0, *_all(figure, "y"), 0.0))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {_STYLE}>',
        f"<title>{escape(figure.title)}</title>",
        f'<text x="{LEFT}" y="14" font-size="13" font-weight="bold" fill="{_INK}">{escape(figure.title)}</text>',
    ]
    for value in y_ticks:
        y = _place(value, y_ticks, HEIGHT - BOTTOM, TOP)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{_INK}" stroke-opacity=".25"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{_INK}">{value:g}</text>')
    for value in x_ticks:
        x = _place(value, x_ticks, LEFT, WIDTH - RIGHT)
        at = HEIGHT - BOTTOM + 15
        parts.append(f'<text x="{x:.1f}" y="{at}" text-anchor="middle" fill="{_INK}">{value:g}</text>')
    parts.append(
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end" fill="{_INK}">{escape(figure.x_label)}</text>'
    )
    parts.append(f'<text x="6" y="{TOP - 8}" fill="{_INK}">{escape(figure.y_label)}</text>')
    for number, series in enumerate(figure.series):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{_place(x, x_ticks, LEFT, WIDTH - RIGHT):.1f},{_place(y, y_ticks, HEIGHT - BOTTOM, TOP):.1f}"
            for x, y in _thinned(series)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        at = LEFT + number * 110
        parts.append(f'<text x="{at}" y="{HEIGHT - 8}" fill="{colour}">— {escape(series.name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _all(figure: Figure, axis: str) -> list[float]:
    return [value for series in figure.series for value in (series.x if axis == "x" else series.y)]


def _thinned(series: Series) -> list[tuple[float, float]]:
    """Not more points than can be seen: of each stretch its mean."""
    step = ceil(len(series.x) / POINTS_MAX) or 1
    chunks = [range(at, min(at + step, len(series.x))) for at in range(0, len(series.x), step)]
    return [(series.x[one[0]], sum(series.y[i] for i in one) / len(one)) for one in chunks]


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from below the lowest to above the highest, about five."""
    span = (high - low) or 1.0
    unit = 10 ** floor(log10(span / 4))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if span / (unit * times) <= 5)
    return [round(step * i, 10) for i in range(floor(low / step), ceil(high / step - 1e-9) + 1)]


def _place(value: float, ticks: list[float], start: float, end: float) -> float:
    span = (ticks[-1] - ticks[0]) or 1.0
    return start + (value - ticks[0]) / span * (end - start)
