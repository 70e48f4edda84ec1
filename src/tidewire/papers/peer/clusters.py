"""Several clusters: the thesis's tables of them, and what is seen of each as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.papers.peer.measure import within
from tidewire.papers.peer.scene import Cluster, Look, Machine, Scene, Seen
from tidewire.papers.report import Figure, Series

Value = Callable[[Seen], float]
Table = Mapping[str, Mapping[str, tuple[float, float, float]]]

AGREED_S: Final = 1.0
"""Two heads hear of an agreement within so long."""

HEAD: Final = (3000, 128, 10)
WORLDWIDE: Final[Table] = {
    "B10": {"B11": (300, 128, 1), "B12": (200, 128, 0.5)},
    "B20": {"B21": (350, 64, 1), "B22": (400, 64, 1.5)},
    "B30": {"B31": (266, 64, 1), "B32": (700, 64, 2)},
    "B40": {"B41": (166, 64, 0.5), "B42": (233, 128, 0.5)},
}
"""Table 5.4: MHz, MB, Mbps."""

STAR: Final[Table] = {
    "B10": {"B11": (266, 64, 1), "B12": (700, 64, 2)},
    "B20": {"B21": (300, 128, 1), "B22": (200, 128, 0.5)},
    "B30": {"B31": (350, 64, 1), "B32": (400, 64, 1.5)},
    "B40": {"B41": (166, 64, 0.5), "B42": (233, 128, 0.5)},
}
"""Table 5.5."""


def clusters(table: Table, *, head: tuple[float, float, float] = HEAD, scale: float = 1.0) -> list[Cluster]:
    """These, their edges so many times weaker."""
    return [
        Cluster(name, Machine(*head), {edge: Machine(c / scale, m, b / scale) for edge, (c, m, b) in edges.items()})
        for name, edges in table.items()
    ]


def chain(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each linked with the next one."""
    return list(pairwise(names))


def star(names: Sequence[str]) -> list[tuple[str, str]]:
    """The first linked with all others."""
    return [(names[0], other) for other in names[1:]]


class Meeting(msgspec.Struct, frozen=True):
    """Two clusters balance with each other, as the head that asked noted it."""

    began_s: float
    ended_s: float | None
    """None: it has not."""

    head: str
    partner: str
    why: str
    """Why it ended."""


def meetings(scene: Scene) -> list[Meeting]:
    """All of them, by their beginnings."""
    found: list[Meeting] = []
    for cluster in scene.clusters:
        asked, began_s = "", None
        for at_ns, note in scene.world.brokers[cluster.head].notes:
            at_s = at_ns / 1e9
            if note.what == "asks another cluster":
                asked = str(note.facts["cluster"])
            elif note.what == "clusters balance" and note.facts["with"] == asked:
                began_s = at_s
            elif note.what == "clusters no longer balance" and began_s is not None:
                found.append(Meeting(began_s, at_s, cluster.head, asked, str(note.facts["why"])))
                asked, began_s = "", None
        if began_s is not None:
            found.append(Meeting(began_s, None, cluster.head, asked, ""))
    return _once(sorted(found, key=lambda one: one.began_s))


def _once(found: list[Meeting]) -> list[Meeting]:
    """Two heads that asked each other at the same time (peer S2) have both noted their session."""
    kept: list[Meeting] = []
    for one in found:
        both = [other for other in kept if (other.head, other.partner) == (one.partner, one.head)]
        if not any(one.began_s - other.began_s < AGREED_S for other in both):
            kept.append(one)
    return kept


def of_cluster(cluster: Cluster, look: Look, value: Value) -> float:
    """The mean of its edges: what its head tells of it (peer §3.2)."""
    return fmean([value(look.edges[edge]) for edge in cluster.edges])


def means(scene: Scene, looks: Sequence[Look], value: Value) -> dict[str, float]:
    """Of each cluster, over all these looks."""
    return {one.head: fmean([of_cluster(one, look, value) for look in looks]) for one in scene.clusters}


def subscribers(scene: Scene, looks: Sequence[Look]) -> dict[str, float]:
    """How many each cluster has, on average."""
    return {
        one.head: fmean([sum(look.edges[edge].subscribers for edge in one.edges) for look in looks])
        for one in scene.clusters
    }


def widest(by_cluster: Mapping[str, float]) -> float:
    """The largest less the smallest."""
    return max(by_cluster.values()) - min(by_cluster.values())


def clusters_converged_s(
    scene: Scene,
    links: Sequence[tuple[str, str]],
    config: BalancingConfig,
    *,
    begin_s: float,
    end_s: float,
    over: int = 6,
) -> float | None:
    """From when on no client moves and neighbouring clusters stay within the global thresholds; None: not at all.

    Outputs do not count: they are balanced as far as that goes (peer O9). Averages are over a minute.
    """
    moves = [one.ended_s for one in scene.sessions() if one.moved and begin_s <= one.ended_s <= end_s]
    part = within(scene.looks, begin_s, end_s)
    by_name = {one.head: one for one in scene.clusters}
    limits: list[tuple[Value, float]] = [
        (lambda seen: seen.input, config.global_ratio),
        (lambda seen: seen.delay_s, config.global_delay * config.delay_norm_s),
    ]
    since: float | None = None
    for at, look in enumerate(part):
        recent = part[max(0, at - over + 1) : at + 1]
        is_even = all(
            abs(fmean([of_cluster(by_name[near], one, value) - of_cluster(by_name[far], one, value) for one in recent]))
            <= limit
            for value, limit in limits
            for near, far in links
        )
        if not is_even:
            since = None
        elif since is None:
            since = look.at_s
    return None if since is None else max([since, *moves])


def by_cluster(name: str, title: str, unit: str, scene: Scene, value: Value) -> Figure:
    """One line for each cluster."""
    x = [look.at_s for look in scene.looks]
    series = [
        Series(name=one.head, x=x, y=[of_cluster(one, look, value) for look in scene.looks]) for one in scene.clusters
    ]
    return Figure(name=name, title=title, x_label="s", y_label=unit, series=series)


def counted(name: str, title: str, scene: Scene) -> Figure:
    """How many subscribers each cluster has."""
    x = [look.at_s for look in scene.looks]
    by_look = [subscribers(scene, [look]) for look in scene.looks]
    series = [Series(name=one.head, x=x, y=[counts[one.head] for counts in by_look]) for one in scene.clusters]
    return Figure(name=name, title=title, x_label="s", y_label="", series=series)
