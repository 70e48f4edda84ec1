"""What do the moments of a scene say? Rates, queues, recovery, fairness; and the lines of a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from tidewire.papers.gryphon.scene import KB, Moment
from tidewire.papers.report import Figure, Options, Series


def within(moments: Sequence[Moment], start_s: float, end_s: float) -> list[Moment]:
    """Those from then to then, both ends among them."""
    return [one for one in moments if start_s - 1e-6 <= one.at_s <= end_s + 1e-6]


def published_s(moments: Sequence[Moment]) -> float:
    """Events a second into the log."""
    return (moments[-1].published - moments[0].published) / (moments[-1].at_s - moments[0].at_s)


def delivered_s(moments: Sequence[Moment], edge: str) -> float:
    """Events a second to the subscribers of an edge."""
    first, last = moments[0], moments[-1]
    return (last.delivered[edge] - first.delivered[edge]) / (last.at_s - first.at_s)


def queue_kb(moments: Sequence[Moment], link: tuple[str, str] | None = None) -> float:
    """The longest that a queue was, or any of them."""
    return (
        max((size for one in moments for key, size in one.queues.items() if link is None or key == link), default=0)
        / KB
    )


def jain(shares: Sequence[float]) -> float:
    """1: all have the same; 1 / n: one has it all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def fairness(moments: Sequence[Moment]) -> float:
    """Between the pubends, by what each could publish."""
    first, last = moments[0].published_by, moments[-1].published_by
    return jain([after - before for before, after in zip(first, last, strict=True)])


def is_recovered(edge: str, *, behind_ms_max: int = 2000) -> Callable[[Moment], bool]:
    """Has this edge all that there is, but for the last moments?"""

    def look(moment: Moment) -> bool:
        behind, coming = moment.behind_ms[edge], moment.coming[edge]
        return bool(behind) and max(behind) < behind_ms_max and not any(one.is_recovering for one in coming)

    return look


def progress(moment: Moment, edge: str) -> float:
    """Seconds of stream in a second, of the slowest pubend."""
    return min((one.progress for one in moment.coming[edge]), default=0.0)


def slowest(moments: Sequence[Moment], edge: str, options: Options) -> float:
    """The least progress of an edge. Live, over five seconds at a time: moments there are as the machine has time."""
    over = 5 if options.is_live else 1
    values = [progress(one, edge) for one in moments]
    return min(sum(values[i : i + over]) / over for i in range(max(1, len(values) - over + 1)))


def window_ms(moment: Moment, edge: str) -> float:
    """The NACK window, over all pubends."""
    windows = [one.window_ms for one in moment.coming[edge]]
    return sum(windows) / len(windows) if windows else 0.0


# -- lines -------------------------------------------------------------------------------------------------------------


def line(name: str, moments: Sequence[Moment], value: Callable[[Moment], float]) -> Series:
    """A value at each moment."""
    return Series(name=name, x=[one.at_s for one in moments], y=[value(one) for one in moments])


def rate_line(name: str, moments: Sequence[Moment], count: Callable[[Moment], int], *, over: int = 5) -> Series:
    """How fast a count grows, over so many moments at a time."""
    picked = [*moments[::over]]
    return Series(
        name=name,
        x=[after.at_s for _, after in pairwise(picked)],
        y=[(count(after) - count(before)) / (after.at_s - before.at_s) for before, after in pairwise(picked)],
    )


def edge_line(edge: str, moments: Sequence[Moment], *, over: int = 5) -> Series:
    """What arrives at an edge."""
    return rate_line(edge, moments, lambda one: one.delivered[edge], over=over)


def rates_figure(name: str, title: str, moments: Sequence[Moment], edges: Sequence[str], *, over: int = 5) -> Figure:
    """What is published, and what arrives at each edge."""
    lines = [rate_line("published", moments, lambda one: one.published, over=over)]
    lines += [edge_line(edge, moments, over=over) for edge in edges]
    return Figure(name=name, title=title, x_label="s", y_label="events/s", series=lines)
