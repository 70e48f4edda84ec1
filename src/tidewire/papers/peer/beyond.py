"""What the thesis does not ask: does it rest (E12), is a new broker found (E13), do swings upset it (E14)?

All go on from E1's cluster when it has converged.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Final

from tidewire.benchmarks.progress import Tell
from tidewire.papers.peer.local import Plan, begun
from tidewire.papers.peer.measure import by_edge, converged_s, over_time, spread, within
from tidewire.papers.peer.once import violations
from tidewire.papers.peer.scene import Machine, Scene, parameters
from tidewire.papers.report import Claim, Figure, Options, Report

HOUR_S: Final = 3600.0
NEW: Final = "B5"
NEW_MHZ: Final = 500.0
SWINGS_S: Final = 1800.0
FINISH_S: Final = 60.0


def _converged(mark: str, options: Options, tell: Tell, *, end_s: float) -> tuple[Scene, Callable[[float], None]]:
    """E1's cluster when it has converged, and how to go on."""
    scene = begun(Plan(options), options, balance=parameters(), is_balanced=True)

    def run(until_s: float) -> None:
        scene.run(until_s, lambda now_s: tell(f"peer/{mark}", now_s, round(end_s)))

    run(Plan(options).times.converged_s)
    return scene, run


def _notes(scene: Scene, options: Options) -> list[str]:
    origin = "real quotes" if scene.work.has_real_quotes else "generated quotes"
    return [f"{len(scene.listeners)} subscribers, {scene.work.rate:.0f} events/s, {origin}, seed {options.seed}"]


def _all_came(scene: Scene) -> Claim:
    scene.finish(FINISH_S)
    wrong = violations(scene)
    return Claim(
        claim="every subscriber gets all that it wants, once and in order",
        paper="not asked",
        measured=f"{len(wrong)} did not: {wrong[0]}" if wrong else f"{len(scene.listeners)} subscribers did",
        tolerance="all",
        holds=not wrong,
    )


def _figures(mark: str, scene: Scene) -> list[Figure]:
    looks, name = scene.looks, mark.lower()
    return [
        by_edge(f"{name}-input", f"{mark}: input utilisation", "I_r", looks, lambda one: one.input),
        by_edge(f"{name}-subscribers", f"{mark}: subscribers", "", looks, lambda one: one.subscribers),
        over_time(
            f"{name}-spread",
            f"{mark}: standard deviation over the edges",
            "",
            looks,
            input=lambda look: spread(look, lambda one: one.input),
            output=lambda look: spread(look, lambda one: one.output),
        ),
    ]


def rest(options: Options, tell: Tell) -> Report:
    """E12: an hour of the same load."""
    begin_s = Plan(options).times.converged_s
    end_s = begin_s + (HOUR_S / 4 if options.is_quick else HOUR_S)
    scene, run = _converged("E12", options, tell, end_s=end_s)
    before = [one.moves for one in scene.listeners]
    run(end_s)
    moves = [one.moves - then for one, then in zip(scene.listeners, before, strict=True)]
    moved, most = sum(1 for one in moves if one), max(moves)
    figures = _figures("E12", scene)
    claims = [
        Claim(
            claim=f"E12: hardly a subscriber is moved in {(end_s - begin_s) / 60:.0f} minutes of steady load",
            paper="not asked",
            measured=f"{moved} of {len(moves)}",
            tolerance="at most 1 %",
            holds=moved <= 0.01 * len(moves),
        ),
        Claim(
            claim="E12: nobody is moved twice",
            paper="not asked",
            measured=f"{most} times at most",
            tolerance="at most once",
            holds=most <= 1,
        ),
        _all_came(scene),
    ]
    return Report(id="peer/E12", claims=claims, notes=_notes(scene, options), figures=figures)


def newcomer(options: Options, tell: Tell) -> Report:
    """E13: an empty broker joins the cluster."""
    begin_s = Plan(options).times.converged_s
    end_s = begin_s + 1000
    scene, run = _converged("E13", options, tell, end_s=end_s)
    scale = Plan(options).scale
    scene.add_edge(NEW, Machine(NEW_MHZ / scale, 32, 2.5), "B0")
    run(end_s)
    share = NEW_MHZ / scale / sum(one.mhz for one in scene.edges.values())
    got = scene.looks[-1].edges[NEW].subscribers / len(scene.listeners)
    since_s = converged_s(scene.looks, parameters(), begin_s=begin_s + 10, end_s=end_s)
    peak = max(
        max(seen.input, seen.output) for look in within(scene.looks, begin_s, end_s) for seen in look.edges.values()
    )
    figures = _figures("E13", scene)
    claims = [
        Claim(
            claim="E13: a new, empty broker gets its share of the subscribers",
            paper="not asked",
            measured=f"{got:.1%}, with {share:.1%} of the CPU",
            tolerance="from 0.7 to 1.3 of its share",
            holds=0.7 <= got / share <= 1.3,
        ),
        Claim(
            claim="E13: all indices are within the thresholds again",
            paper="not asked",
            measured="not to the end" if since_s is None else f"{since_s - begin_s:,.0f} s later",
            tolerance="within 800 s, as long as E1 takes when all have joined",
            holds=since_s is not None and since_s <= begin_s + 800,
        ),
        Claim(
            claim="E13: nobody is overloaded by it",
            paper="not asked",
            measured=f"{peak:.2f} at most",
            tolerance="below 1",
            holds=peak < 1,
        ),
        _all_came(scene),
    ]
    return Report(id="peer/E13", claims=claims, notes=_notes(scene, options), figures=figures)


def swings(options: Options, tell: Tell) -> Report:
    """E14: half of the publishers double their rates and halve them again, about as often as brokers look."""
    begin_s = Plan(options).times.converged_s
    end_s = begin_s + (SWINGS_S / 2 if options.is_quick else SWINGS_S)
    balance = parameters()
    period_s = balance.local_detect_s_min + balance.local_detect_s_max
    scene, run = _converged("E14", options, tell, end_s=end_s)
    before = [one.moves for one in scene.listeners]
    scene.swing(0.5, period_s=period_s)
    run(end_s)
    moves = [one.moves - then for one, then in zip(scene.listeners, before, strict=True)]
    sessions = [one for one in scene.sessions() if one.moved and one.began_s > begin_s]
    late = [one for one in sessions if one.began_s > (begin_s + end_s) / 2]
    gaps = fmean([spread(look, lambda one: one.input) for look in within(scene.looks, begin_s + 400, end_s)])
    figures = _figures("E14", scene)
    claims = [
        Claim(
            claim=f"E14: rates that swing every {period_s / 2:.0f} s do not make subscribers swing",
            paper="not asked",
            measured=f"{max(moves)} moves of one at most, {sum(moves)} of all, in {len(sessions)} sessions",
            tolerance="at most 2 of one, and less than one in ten subscribers",
            holds=max(moves) <= 2 and sum(moves) < 0.1 * len(moves),
        ),
        Claim(
            claim="E14: it comes to rest while they go on",
            paper="not asked",
            measured=f"{len(late)} sessions in the second half",
            tolerance="at most 3",
            holds=len(late) <= 3,
        ),
        Claim(
            claim="E14: input utilisations stay close together",
            paper="not asked",
            measured=f"{gaps:.3f} (standard deviation)",
            tolerance="below 0.05",
            holds=gaps < 0.05,
        ),
        _all_came(scene),
    ]
    return Report(id="peer/E14", claims=claims, notes=_notes(scene, options), figures=figures)
