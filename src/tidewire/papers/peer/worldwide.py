"""peer/E2: four clusters in a chain, all load at one edge of the first of them (Table 5.4, Figs. 5.16 to 5.22)."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from tidewire.benchmarks.progress import Tell
from tidewire.papers.peer.clusters import (
    WORLDWIDE,
    by_cluster,
    chain,
    clusters,
    clusters_converged_s,
    counted,
    means,
    meetings,
    subscribers,
    widest,
)
from tidewire.papers.peer.measure import over_time, within
from tidewire.papers.peer.scene import Look, Scene, parameters
from tidewire.papers.peer.workload import workload
from tidewire.papers.report import Claim, Figure, Options, Report

SUBSCRIBERS: Final = 2000
IDLE_SHARE: Final = 0.2
JOINED_S: Final = 1010.0
QUICK: Final = 20
"""So many times fewer subscribers, at edges so much weaker."""

LINKS: Final = chain(list(WORLDWIDE))


class Plan:
    """When what happens, and when it is looked at."""

    def __init__(self, options: Options) -> None:
        self.scale = QUICK if options.is_quick else 1
        self.subscribers = SUBSCRIBERS // self.scale
        self.step_s, self.end_s = (2000.0, 2600.0) if options.is_quick else (8000.0, 12_000.0)
        self.settled_s = (self.step_s * 5 / 8, self.step_s)
        """5,000 s to 8,000 s, in full."""

        self.again_s = (self.end_s - (self.end_s - self.step_s) * 3 / 8, self.end_s)
        """From 10,500 s on, in full."""


def run_scene(options: Options, tell: Tell) -> Scene:
    """All of E2: joins, rest, the step, rest."""
    plan = Plan(options)
    work = workload(seed=options.seed, subscribers=plan.subscribers, idle_share=IDLE_SHARE, data=options.data)
    scene = Scene(
        clusters(WORLDWIDE, scale=plan.scale),
        LINKS,
        work,
        balance=parameters(),
        is_balanced=True,
        seed=options.seed,
    )
    scene.publish_from(5.0, "B10")
    scene.join("B11", 10.0, JOINED_S)
    scene.run(plan.step_s, lambda now_s: tell("peer/E2", now_s, round(plan.end_s)))
    scene.double(0.5)
    scene.run(plan.end_s, lambda now_s: tell("peer/E2", now_s, round(plan.end_s)))
    return scene


def macro(options: Options, tell: Tell) -> Report:
    """E2 whole."""
    scene, plan = run_scene(options, tell), Plan(options)
    origin = "real quotes" if scene.work.has_real_quotes else "generated quotes"
    notes = [
        f"{plan.subscribers} subscribers, {scene.work.rate:.0f} events/s, {origin}, seed {options.seed}",
        "converged: nobody moves, and neighbouring clusters are within the thresholds, but for their outputs",
    ]
    if options.is_quick:
        notes.append(
            f"edges {QUICK} times weaker, for {QUICK} times fewer subscribers; the step at {plan.step_s:,.0f} s"
        )
    return Report(
        id="peer/E2",
        claims=[*_spread_out(scene), *_settled(scene, plan), *_even(scene, plan), *_cheap(scene, plan)],
        notes=notes,
        measured=_measured(scene, plan),
        figures=_figures(scene),
    )


def _measured(scene: Scene, plan: Plan) -> dict[str, float]:
    sessions, met = scene.sessions(), meetings(scene)
    last = subscribers(scene, scene.looks[-1:])
    return {
        "sessions": len(sessions),
        "sessions between clusters": len(met),
        "sessions between clusters after the step": len([one for one in met if one.began_s > plan.step_s]),
        "moved": sum(one.moved for one in sessions),
        "most moves of one subscriber": max(one.moves for one in scene.listeners),
        **{f"subscribers of {head}": count for head, count in last.items()},
    }


def _spread_out(scene: Scene) -> list[Claim]:
    met = meetings(scene)
    pairs = {frozenset((one.head, one.partner)): one for one in reversed(met)}
    first, beyond = pairs.get(frozenset(("B10", "B20"))), pairs.get(frozenset(("B10", "B30")))
    reached = next((look.at_s for look in scene.looks if _count(scene, look, "B30")), None)
    return [
        Claim(
            claim="E2: the first two clusters balance with each other while subscribers still join",
            paper="in the first 1,000 s",
            measured="never" if first is None else f"from {first.began_s:,.0f} s on",
            tolerance="in the first 1,010 s",
            holds=first is not None and first.began_s <= JOINED_S,
        ),
        Claim(
            claim="E2: load goes on beyond the second cluster",
            paper="B10 with B30 from 1,200 s or 1,600 s on, B20 being N/A",
            measured=("B30 has none" if reached is None else f"B30 has the first at {reached:,.0f} s")
            + (", through B20" if beyond is None else f", B10 with B30 from {beyond.began_s:,.0f} s on"),
            tolerance="by 1,600 s",
            holds=reached is not None and reached <= 1600,
        ),
    ]


def _count(scene: Scene, look: Look, head: str) -> float:
    return subscribers(scene, [look])[head]


def _settled(scene: Scene, plan: Plan) -> list[Claim]:
    config = parameters()
    first = clusters_converged_s(scene, LINKS, config, begin_s=JOINED_S, end_s=plan.step_s)
    second = clusters_converged_s(scene, LINKS, config, begin_s=plan.step_s + 10, end_s=plan.end_s)
    return [
        Claim(
            claim="E2: the chain converges",
            paper="by 4,700 s",
            measured="not before the step" if first is None else f"from {first:,.0f} s on",
            tolerance="by 4,700 s",
            holds=first is not None and first <= 4700,
        ),
        Claim(
            claim="E2: when half of the publishers double their rates, it converges again",
            paper="2,500 s later",
            measured="not to the end" if second is None else f"{second - plan.step_s:,.0f} s later",
            tolerance="within 2,500 s",
            holds=second is not None and second - plan.step_s <= 2500,
        ),
    ]


def _even(scene: Scene, plan: Plan) -> list[Claim]:
    rest, again = within(scene.looks, *plan.settled_s), within(scene.looks, *plan.again_s)
    inputs, outputs = means(scene, rest, lambda one: one.input), means(scene, rest, lambda one: one.output)
    delays = means(scene, rest, lambda one: one.delay_s)
    counts, later = subscribers(scene, rest), subscribers(scene, again)
    return [
        Claim(
            claim="E2a: input utilisation falls with the distance, by less than the thresholds allow",
            paper="B10 and B40 are 0.2 apart, 0.45 would be allowed",
            measured=", ".join(f"{head} {value:.2f}" for head, value in inputs.items()),
            tolerance="at most 0.45 apart, B40 lowest",
            holds=abs(inputs["B10"] - inputs["B40"]) <= 0.45 and min(inputs, key=inputs.__getitem__) == "B40",
        ),
        Claim(
            claim="E2b: output utilisations are close together",
            paper="less than 0.15 apart",
            measured=f"{widest(outputs):.2f} apart",
            tolerance="less than 0.15",
            holds=widest(outputs) < 0.15,
        ),
        Claim(
            claim="E2c: matching delays are close together",
            paper="B10 and B40 less than 0.1 s apart",
            measured=f"{abs(delays['B10'] - delays['B40']):.3f} s",
            tolerance="less than 0.1 s",
            holds=abs(delays["B10"] - delays["B40"]) < 0.1,
        ),
        Claim(
            claim="E2e: the last cluster of the chain has fewest subscribers, one in the middle most",
            paper="B20 most before the step, B30 after it; B40 least",
            measured=f"{_whole(counts)} before, {_whole(later)} after",
            tolerance="B40 least, B20 or B30 most, both times",
            holds=all(
                min(one, key=one.__getitem__) == "B40" and max(one, key=one.__getitem__) in ("B20", "B30")
                for one in (counts, later)
            ),
        ),
    ]


def _whole(counts: dict[str, float]) -> str:
    return "/".join(f"{count:.0f}" for count in counts.values())


def _cheap(scene: Scene, plan: Plan) -> list[Claim]:
    early, rest = within(scene.looks, 500, JOINED_S), within(scene.looks, *plan.settled_s)
    again = within(scene.looks, *plan.again_s)
    delays = [fmean([one.delivery_s for one in part]) for part in (early, rest, again)]
    steady = [*rest, *again]
    share = sum(look.overhead * look.delivered for look in steady) / max(1, sum(look.delivered for look in steady))
    return [
        Claim(
            claim="E2d: delivery takes long at first, and little once it has converged",
            paper="high, then 0.06 s; 0.09 s after the step",
            measured=f"{delays[0]:.2f} s from 500 to 1,010 s, then {delays[1]:.3f} s; {delays[2]:.3f} s in the end",
            tolerance="below 0.2 s both times, and less than at first",
            holds=max(delays[1:]) < 0.2 and delays[1] < delays[0],
        ),
        Claim(
            claim="E2f: messages are a small share of all that is sent in steady state",
            paper="low, at most 0.7 % at the step",
            measured=f"{share:.2%} on average",
            tolerance="at most 0.7 %",
            holds=share <= 0.007,
        ),
    ]


def _figures(scene: Scene) -> list[Figure]:
    looks = scene.looks
    return [
        by_cluster("e2a-input", "E2: input utilisation (Fig. 5.17)", "I_r", scene, lambda one: one.input),
        by_cluster("e2b-output", "E2: output utilisation (Fig. 5.18)", "O_r", scene, lambda one: one.output),
        by_cluster("e2c-delay", "E2: matching delay (Fig. 5.19)", "s", scene, lambda one: one.delay_s),
        over_time("e2d-delivery", "E2: delivery delay (Fig. 5.20)", "s", looks, delay=lambda one: one.delivery_s),
        counted("e2e-subscribers", "E2: subscribers (Fig. 5.21)", scene),
        over_time("e2f-overhead", "E2: messages of all (Fig. 5.22)", "%", looks, share=lambda one: 100 * one.overhead),
    ]
