"""gryphon/E3: a larger tree. The worst place at the time sets the rate, and an edge recovers beside four others."""

from __future__ import annotations

import msgspec

from tidewire.benchmarks.progress import Tell
from tidewire.papers.gryphon.measure import (
    edge_line,
    is_recovered,
    line,
    progress,
    published_s,
    queue_kb,
    rate_line,
    within,
)
from tidewire.papers.gryphon.scene import KB, Moment, Scene
from tidewire.papers.gryphon.topologies import CONTROLLED, complex_tree, notes
from tidewire.papers.report import Claim, Figure, Options, Report

EDGES = ("SB1", "SB2", "SB3", "SB4", "SB5")
LIMIT_KB_S = 150.0


def worst_place(options: Options, tell: Tell) -> Report:
    """E3: PB–IB1 goes down to 150 KB/s; later IB3–SB5 fails for two minutes."""
    free_s, limited_s, down_s, patience_s = (15, 40, 30, 120) if options.is_quick else (60, 120, 120, 360)
    end_s = free_s + limited_s + down_s + patience_s

    def told(now_s: int) -> None:
        tell("E3", now_s, end_s)

    with complex_tree(msgspec.structs.replace(CONTROLLED, recovery=0.5), options) as scene:
        scene.shape("IB1", "SB1", 250)
        scene.run(free_s, told)
        scene.shape("PB", "IB1", LIMIT_KB_S)
        scene.run(limited_s, told)
        scene.cut("IB3", "SB5")
        scene.run(down_s, told)
        scene.mend("IB3", "SB5")
        back_s = scene.now_s
        scene.run(2, told)
        has = scene.run(patience_s, told, until=is_recovered("SB5"))
    took_s = scene.now_s - back_s
    free = within(scene.moments, 5, free_s)
    limited = within(scene.moments, free_s + limited_s / 3, free_s + limited_s)
    recovering = within(scene.moments, back_s + 5, back_s + took_s)
    claims = [*_rates(scene, free, limited, recovering), *_recovery(recovering, took_s if has else None), *_rest(scene)]
    measured = {"recovery_s": took_s if has else -1.0}
    return Report(id="gryphon/E3", claims=claims, notes=notes(options), measured=measured, figures=_figures(scene))


def _rates(scene: Scene, free: list[Moment], limited: list[Moment], recovering: list[Moment]) -> list[Claim]:
    rates = [published_s(one) for one in (free, limited, recovering)]
    capacity = scene.capacity_msgs_s(LIMIT_KB_S)
    return [
        Claim(
            claim="the limit at PB–IB1 slows publication for all",
            paper="from 500 events/s to what 150 KB/s carry",
            measured=f"{rates[0]:.0f}, then {rates[1]:.0f} events/s; the link carries {capacity:.0f}",
            tolerance="all of what is offered, then 60 to 100 % of the link",
            holds=rates[0] > 0.97 * scene.msgs_s and 0.6 * capacity <= rates[1] <= 1.02 * capacity,
        ),
        Claim(
            claim="it is lower again while SB5 recovers",
            paper="lower again",
            measured=f"{rates[2]:.0f} against {rates[1]:.0f} events/s",
            tolerance="lower",
            holds=rates[2] < rates[1],
        ),
    ]


def _recovery(recovering: list[Moment], took_s: float | None) -> list[Claim]:
    others = min(
        sum(progress(moment, edge) for moment in recovering) / len(recovering) for edge in EDGES if edge != "SB5"
    )
    peak = max(one.progress for moment in recovering for one in moment.coming["SB5"])
    held = sum(progress(moment, "SB5") for moment in recovering) / len(recovering)
    return [
        Claim(
            claim="the other edges stay near 1 s of stream a second",
            paper="near 1",
            measured=f"{others:.2f} on the mean, for the slowest of them",
            tolerance="0.95",
            holds=others >= 0.95,
        ),
        Claim(
            claim="SB5 recovers, fastest at the end",
            paper="a peak of about 5 s of stream a second",
            measured=f"{'not' if took_s is None else f'in {took_s:.0f} s'}, peak {peak:.1f} s of stream a second",
            tolerance="recovered, a peak of 2 or more",
            holds=took_s is not None and peak >= 2,
        ),
        Claim(
            claim="on the way SB5 is held above its threshold",
            paper="above 1.5 s of stream a second",
            measured=f"{held:.2f} on the mean, for its slowest pubend",
            tolerance="1.5",
            holds=held >= 1.5,
        ),
    ]


def _rest(scene: Scene) -> list[Claim]:
    alerts = scene.moments[-1].alerts
    return [
        Claim(
            claim="alerts of both classes come to the pubends",
            paper="both classes",
            measured=f"{alerts[0]} of edges that do not recover, {alerts[1]} of SB5",
            tolerance="some of each",
            holds=min(alerts) > 0,
        ),
        Claim(
            claim="queues stay low; nothing is lost or out of order",
            paper="low",
            measured=f"at most {queue_kb(scene.moments):.0f} KB, {scene.moments[-1].dropped} thrown away,"
            f" {scene.disorders()} in disorder",
            tolerance="1 MB, none, none",
            holds=queue_kb(scene.moments) < KB and scene.moments[-1].dropped == 0 and scene.disorders() == 0,
        ),
    ]


def _figures(scene: Scene) -> list[Figure]:
    lines = [rate_line("published", scene.moments, lambda one: one.published)]
    lines += [edge_line(edge, scene.moments) for edge in ("SB1", "SB5")]
    return [
        Figure(name="e3-rates", title="E3: a larger tree", x_label="s", y_label="events/s", series=lines),
        Figure(
            name="e3-progress",
            title="E3: progress of the horizon",
            x_label="s",
            y_label="s of stream per s",
            series=[
                line("SB1", scene.moments, lambda one: min(8.0, progress(one, "SB1"))),
                line("SB5", scene.moments, lambda one: min(8.0, progress(one, "SB5"))),
            ],
        ),
    ]
