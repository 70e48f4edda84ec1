"""peer/E1: one cluster whose edges differ ten times, all load at the weakest of them (Table 5.3, Figs. 5.2 to 5.15)."""

from __future__ import annotations

from typing import Final

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.progress import Tell
from tidewire.papers.peer.local_claims import Seeing, Times
from tidewire.papers.peer.measure import by_edge, errors, estimates_figure, fluctuation, over_time, spread, within
from tidewire.papers.peer.once import violations
from tidewire.papers.peer.predictions import predicted, prediction_figures
from tidewire.papers.peer.scene import Cluster, Machine, Scene, parameters
from tidewire.papers.peer.workload import workload
from tidewire.papers.report import Claim, Figure, Options, Report

SUBSCRIBERS: Final = 2000
IDLE_SHARE: Final = 0.25
QUICK: Final = 4
"""So many times fewer subscribers, at CPUs so much slower. Bandwidths stay: else one subscriber who wants all would
take a third of B1's. With ten times fewer, one that B1 gets or gives changes its input by 0.03 to 0.3: what the
threshold of 0.1 asks for need not exist."""
FINISH_S: Final = 60.0
"""For what is under way when the publishers end."""
WITHOUT_S: Final = 1500.0
"""So long the run without balancing takes."""


def cluster(scale: float = 1.0, *, bandwidth_scale: float | None = None) -> Cluster:
    """Table 5.3; with weaker brokers, for fewer subscribers. Bandwidths are scaled as CPUs are, if nothing is said."""
    narrow = scale if bandwidth_scale is None else bandwidth_scale
    edges = {"B1": (100, 16, 0.5), "B2": (200, 16, 1), "B3": (400, 32, 2), "B4": (1000, 32, 5)}
    machines = {name: Machine(mhz / scale, mb, mbps / narrow) for name, (mhz, mb, mbps) in edges.items()}
    return Cluster("B0", Machine(2000, 32, 10), machines)


FULL: Final = Times(joined_s=1010.0, converged_s=1800.0, steady_s=2000.0, step_s=3000.0, end_s=5000.0, rest_s=1200.0)
SHORT: Final = Times(joined_s=510.0, converged_s=1500.0, steady_s=1600.0, step_s=1800.0, end_s=2600.0, rest_s=400.0)
"""From the last join on it has 200 s more than in the thesis: with few subscribers every move is a large one."""


class Plan:
    """When what happens, to how many."""

    def __init__(self, options: Options) -> None:
        self.scale = QUICK if options.is_quick else 1
        self.subscribers = SUBSCRIBERS // self.scale
        self.times = SHORT if options.is_quick else FULL


def run_scene(options: Options, tell: Tell, *, balance: BalancingConfig, is_balanced: bool = True) -> Scene:
    """All of E1: joins, rest, the step, rest."""
    plan = Plan(options)
    scene = begun(plan, options, balance=balance, is_balanced=is_balanced)
    name = "peer/E1" if is_balanced else "peer/E1 without balancing"
    scene.run(plan.times.step_s, lambda now_s: tell(name, now_s, round(plan.times.end_s)))
    scene.double(0.5)
    scene.run(plan.times.end_s, lambda now_s: tell(name, now_s, round(plan.times.end_s)))
    return scene


def begun(plan: Plan, options: Options, *, balance: BalancingConfig, is_balanced: bool) -> Scene:
    """The cluster, with all that comes to it up to the step."""
    work = workload(seed=options.seed, subscribers=plan.subscribers, idle_share=IDLE_SHARE, data=options.data)
    scene = Scene(
        [cluster(plan.scale, bandwidth_scale=1)], [], work, balance=balance, is_balanced=is_balanced, seed=options.seed
    )
    scene.publish_from(5.0, "B0")
    scene.join("B1", 10.0, plan.times.joined_s)
    return scene


def macro(options: Options, tell: Tell) -> Report:
    """E1 whole."""
    balance = parameters(settles_anew=not options.is_quick)  # few subscribers settle sooner in the thesis's way
    scene = run_scene(options, tell, balance=balance)
    plan = Plan(options)
    seeing = Seeing(scene, plan.times, balance)
    found = errors(scene, joining="B1", until_s=plan.times.joined_s, step_s=plan.times.step_s)
    measured = _measured(seeing) | prediction_figures(found)
    figures = [*_figures(scene), estimates_figure(found)]
    scene.finish(FINISH_S)
    claims = [*seeing.claims(), seeing.match_sessions(), _delivered(scene), _without(plan, options, tell)]
    if not options.is_quick:
        claims += [*predicted(found), seeing.overhead()]
    origin = "real quotes" if scene.work.has_real_quotes else "generated quotes"
    notes = [
        f"{plan.subscribers} subscribers, {scene.work.rate:.0f} events/s, {origin}, seed {options.seed}",
        "deviations are means over the steady time; convergence is from when on the gaps stay within the thresholds",
    ]
    if options.is_quick:
        notes.append(
            f"{QUICK} times fewer subscribers, at CPUs as much slower; bandwidths as they are: outputs hardly count;"
            " settles_anew is off"
        )
    return Report(id="peer/E1", claims=claims, notes=notes, measured=measured, figures=figures)


def _measured(seeing: Seeing) -> dict[str, float]:
    scene, times = seeing.scene, seeing.times
    sessions = [one for one in seeing.sessions if one.moved]
    before = [one for one in sessions if one.ended_s <= times.joined_s + 55]
    rests = [(seeing.first_s, times.step_s), (seeing.second_s, times.end_s)]
    late = [one for one in sessions if any(since_s and since_s <= one.began_s < end_s for since_s, end_s in rests)]
    last = scene.looks[-1]
    at_rest = within(scene.looks, max(seeing.first_s or 0.0, times.steady_s), times.step_s)
    return {
        **{
            f"{edge}'s output at rest differs from a minute before by, standard deviation": fluctuation(
                at_rest, edge, lambda one: one.output
            )
            for edge in last.edges
        },
        "sessions": len(sessions),
        "sessions while they join": len(before),
        "sessions while they join without B1": len([one for one in before if "B1" not in (one.donor, one.acceptor)]),
        "sessions after the step": len([one for one in sessions if one.began_s > times.step_s]),
        "sessions once converged": len(late),
        "moved": sum(one.moved for one in sessions),
        "moved once converged": sum(one.moved for one in late),
        "most moves of one subscriber": max(one.moves for one in scene.listeners),
        "B1 at most": max(look.edges["B1"].subscribers for look in scene.looks),
        "B1's input queue at most, s": max(look.edges["B1"].input_wait_s for look in scene.looks),
        **{f"subscribers of {edge}": seen.subscribers for edge, seen in last.edges.items()},
    }


def _delivered(scene: Scene) -> Claim:
    """What the thesis does not ask for (peer M4, M5, M5a)."""
    wrong = violations(scene)
    events = sum(one.got for one in scene.listeners)
    return Claim(
        claim="every subscriber gets all that it wants, once and in order, also while it moves",
        paper="best effort",
        measured=f"{events:,} events; {len(wrong)} subscribers did not: {wrong[0]}" if wrong else f"{events:,} events",
        tolerance="none lost, none twice, none out of order",
        holds=not wrong,
    )


def _without(plan: Plan, options: Options, tell: Tell) -> Claim:
    """The baseline (peer §10): the same load, and nobody balances."""
    scene = begun(plan, options, balance=parameters(), is_balanced=False)
    scene.run(WITHOUT_S, lambda now_s: tell("peer/E1 without balancing", now_s, round(WITHOUT_S)))
    waits = [look.edges["B1"].input_wait_s for look in within(scene.looks, plan.times.joined_s, WITHOUT_S)]
    return Claim(
        claim="without balancing B1 never recovers",
        paper="not shown",
        measured=f"a backlog of {waits[0]:,.0f} s when all have joined, {waits[-1]:,.0f} s at {WITHOUT_S:,.0f} s",
        tolerance="it grows",
        holds=waits[-1] > waits[0] > 1,
    )


def _figures(scene: Scene) -> list[Figure]:
    looks = scene.looks
    return [
        by_edge("e1a-input", "E1: input utilisation (Fig. 5.3)", "I_r", looks, lambda one: one.input),
        by_edge("e1c-input-wait", "E1: delay of the input queue (Fig. 5.6)", "s", looks, lambda one: one.input_wait_s),
        by_edge("e1d-output", "E1: output utilisation (Fig. 5.7)", "O_r", looks, lambda one: one.output),
        by_edge("e1c-output-wait", "E1: delay of the output queue (5.8)", "s", looks, lambda one: one.output_wait_s),
        by_edge("e1e-delay", "E1: matching delay (Fig. 5.9)", "s", looks, lambda one: one.delay_s),
        over_time("e1f-delivery", "E1: delivery delay (Fig. 5.10)", "s", looks, delay=lambda one: one.delivery_s),
        by_edge("e1g-subscribers", "E1: subscribers (Fig. 5.11)", "", looks, lambda one: one.subscribers),
        over_time(
            "e1h-spread",
            "E1: standard deviation over the edges (Figs. 5.12, 5.13)",
            "",
            looks,
            input=lambda look: spread(look, lambda one: one.input),
            output=lambda look: spread(look, lambda one: one.output),
        ),
        over_time("e1j-overhead", "E1: messages of all (Fig. 5.15)", "%", looks, share=lambda one: 100 * one.overhead),
    ]
