"""Figures of a run: spreads, convergence, what was predicted and what came, lines to draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from statistics import fmean, pstdev

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.papers.peer.scene import LOOK_S, Look, Scene, Seen, Session
from tidewire.papers.report import Figure, Series

SETTLE_S = 5.0
"""So long after a session, and the time that rates are measured over, the indices are taken for what came of it."""
WAIT_S = 1.0
"""Less than this is no backlog."""


class Error(msgspec.Struct, frozen=True):
    """What was predicted for a session, less what came, for one side of it."""

    session: Session
    is_donor: bool
    input: float
    output: float
    delay_s: float
    delay_share: float
    """In units of the norm, as delays are compared (Eq. 3.5)."""


def within(looks: Sequence[Look], begin_s: float, end_s: float) -> list[Look]:
    """The looks of this time."""
    return [look for look in looks if begin_s <= look.at_s <= end_s]


def smooth(looks: Sequence[Look], value: Callable[[Seen], float], edge: str, *, over: int = 6) -> list[float]:
    """Each look with those before it, on average."""
    values = [value(look.edges[edge]) for look in looks]
    return [fmean(values[max(0, at - over + 1) : at + 1]) for at in range(len(values))]


def spread(look: Look, value: Callable[[Seen], float]) -> float:
    """The standard deviation over the edges."""
    return pstdev([value(seen) for seen in look.edges.values()])


def mean_spread(looks: Sequence[Look], value: Callable[[Seen], float]) -> float:
    """The standard deviation over the edges, on average."""
    return fmean([spread(look, value) for look in looks]) if looks else 0.0


def gap(looks: Sequence[Look], value: Callable[[Seen], float]) -> float:
    """The largest less the smallest edge, of their averages over this time."""
    means = [fmean([value(look.edges[edge]) for look in looks]) for edge in looks[0].edges]
    return max(means) - min(means)


def converged_s(looks: Sequence[Look], config: BalancingConfig, *, begin_s: float, end_s: float) -> float | None:
    """From when on the gaps of all indices stay within the thresholds, averaged over a minute; None: not at all.

    The thesis has no definition; this is peer §10's.
    """
    part = within(looks, begin_s, end_s)
    limits: list[tuple[Callable[[Seen], float], float]] = [
        (lambda seen: seen.input, config.local_ratio),
        (lambda seen: seen.output, config.local_ratio),
        (lambda seen: seen.delay_s, config.local_delay * config.delay_norm_s),
    ]
    since: float | None = None
    lines = [({edge: smooth(part, value, edge) for edge in part[0].edges}, limit) for value, limit in limits]
    for at, look in enumerate(part):
        gaps = [
            (max(one[at] for one in by.values()) - min(one[at] for one in by.values()), limit) for by, limit in lines
        ]
        if any(apart > limit for apart, limit in gaps):
            since = None
        elif since is None:
            since = look.at_s
    return since


def errors(scene: Scene, *, joining: str, until_s: float, step_s: float = inf) -> list[Error]:
    """Of every session that moved somebody, and that no other one of the same edge followed too soon.

    Those of the edge that is joined are left out until all have joined (peer E1i). A donor is looked at when it has no
    backlog any more: until then those who have gone are still there (M7), and what waited goes out in addition. A
    session is left out as well if publishers change their rates, at the step, while what it was predicted from is
    measured or what came of it.
    """
    settle_s = scene.balance.load_window_s + SETTLE_S
    sessions = [one for one in scene.sessions() if one.moved and one.predicted]
    found = []
    for session in sessions:
        for is_donor, edge, ahead in ((True, session.donor, ""), (False, session.acceptor, "there_")):
            if edge == joining and session.ended_s < until_s:
                continue
            begin_s = settle_s + (_settled_s(scene, edge, session.ended_s) if is_donor else session.ended_s)
            end_s = begin_s + 2 * LOOK_S
            others = [one for one in sessions if one is not session and edge in (one.donor, one.acceptor)]
            looks = within(scene.looks, begin_s, end_s)
            if not looks or session.began_s - scene.balance.load_window_s < step_s < end_s:
                continue
            if any(session.began_s < one.ended_s and one.began_s < end_s for one in others):
                continue
            seen = [look.edges[edge] for look in looks]
            delay_error_s = session.predicted[f"{ahead}delay_s"] - fmean([one.delay_s for one in seen])
            found.append(
                Error(
                    session,
                    is_donor,
                    session.predicted[f"{ahead}input"] - fmean([one.input for one in seen]),
                    session.predicted[f"{ahead}output"] - fmean([one.output for one in seen]),
                    delay_error_s,
                    delay_error_s / scene.balance.delay_norm_s,
                )
            )
    return found


def fluctuation(looks: Sequence[Look], edge: str, value: Callable[[Seen], float]) -> float:
    """By how much does an index differ from what it was a minute before, while nobody moves? The standard deviation.

    Predictions are made from one look, and compared with the mean of three some time later: none can do better.
    """
    seen = [value(look.edges[edge]) for look in looks]
    later = [fmean(seen[at + 5 : at + 8]) - seen[at] for at in range(len(seen) - 7)]
    return pstdev(later) if later else 0.0


def _settled_s(scene: Scene, edge: str, begin_s: float) -> float:
    """From when on nothing waits there."""
    for look in within(scene.looks, begin_s, inf):
        if look.edges[edge].input_wait_s + look.edges[edge].output_wait_s < WAIT_S:
            return look.at_s
    return inf


def by_edge(name: str, title: str, unit: str, looks: Sequence[Look], value: Callable[[Seen], float]) -> Figure:
    """One line for each edge, from when on it is there."""
    series = []
    for edge in looks[-1].edges:
        seen = [(look.at_s, value(look.edges[edge])) for look in looks if edge in look.edges]
        series.append(Series(name=edge, x=[at_s for at_s, _ in seen], y=[figure for _, figure in seen]))
    return Figure(name=name, title=title, x_label="s", y_label=unit, series=series)


def over_time(name: str, title: str, unit: str, looks: Sequence[Look], **values: Callable[[Look], float]) -> Figure:
    """Lines of the whole network."""
    series = [
        Series(name=label, x=[look.at_s for look in looks], y=[value(look) for look in looks])
        for label, value in values.items()
    ]
    return Figure(name=name, title=title, x_label="s", y_label=unit, series=series)


def estimates_figure(found: Sequence[Error]) -> Figure:
    """What was predicted less what came, by the end of the session (Fig. 5.14)."""
    series = []
    for label, is_donor in (("donor", True), ("acceptor", False)):
        mine = sorted((one for one in found if one.is_donor is is_donor), key=lambda one: one.session.ended_s)
        at_s = [one.session.ended_s for one in mine]
        series += [
            Series(name=f"{label}'s input", x=at_s, y=[one.input for one in mine]),
            Series(name=f"{label}'s output", x=at_s, y=[one.output for one in mine]),
        ]
    return Figure(
        name="e1i-errors", title="E1: predicted less measured (Fig. 5.14)", x_label="s", y_label="", series=series
    )
