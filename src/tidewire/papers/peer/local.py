"""peer/E1: one cluster whose edges differ ten times, all load at the weakest of them (Table 5.3, Figs. 5.2 to 5.15)."""

from __future__ import annotations

from statistics import fmean, pstdev
from typing import Final

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.progress import Tell
from tidewire.papers.peer.measure import Error, by_edge, converged_s, errors, mean_spread, over_time, spread, within
from tidewire.papers.peer.scene import Cluster, Machine, Scene
from tidewire.papers.peer.workload import workload
from tidewire.papers.report import Claim, Figure, Options, Report

SUBSCRIBERS: Final = 2000
IDLE_SHARE: Final = 0.25
JOINED_S: Final = 1010.0
QUICK: Final = 10
"""So many times fewer subscribers, at brokers so much weaker."""


def cluster(scale: float = 1.0) -> Cluster:
    """Table 5.3."""
    edges = {"B1": (100, 16, 0.5), "B2": (200, 16, 1), "B3": (400, 32, 2), "B4": (1000, 32, 5)}
    return Cluster("B0", Machine(2000, 32, 10), {n: Machine(c / scale, m, b / scale) for n, (c, m, b) in edges.items()})


class Plan:
    """When what happens."""

    def __init__(self, options: Options) -> None:
        self.scale = QUICK if options.is_quick else 1
        self.subscribers = SUBSCRIBERS // self.scale
        self.step_s, self.end_s = (2000.0, 2700.0) if options.is_quick else (3000.0, 5000.0)


def run_scene(options: Options, tell: Tell, *, balance: BalancingConfig, is_balanced: bool = True) -> Scene:
    """All of E1: joins, rest, the step, rest."""
    plan = Plan(options)
    work = workload(seed=options.seed, subscribers=plan.subscribers, idle_share=IDLE_SHARE, data=options.data)
    scene = Scene([cluster(plan.scale)], [], work, balance=balance, is_balanced=is_balanced, seed=options.seed)
    scene.publish_from(5.0, "B0")
    scene.join("B1", 10.0, JOINED_S)
    name = "peer/E1" if is_balanced else "peer/E1 without balancing"
    scene.run(plan.step_s, lambda now_s: tell(name, now_s, round(plan.end_s)))
    scene.double(0.5)
    scene.run(plan.end_s, lambda now_s: tell(name, now_s, round(plan.end_s)))
    return scene


def macro(options: Options, tell: Tell) -> Report:
    """E1 whole."""
    balance = BalancingConfig()
    scene = run_scene(options, tell, balance=balance)
    plan = Plan(options)
    found = errors(scene, joining="B1", until_s=JOINED_S)
    origin = "real quotes" if scene.work.has_real_quotes else "generated quotes"
    notes = [
        f"{plan.subscribers} subscribers, {scene.work.rate:.0f} events/s, {origin}, seed {options.seed}",
        "deviations are means over the steady time; convergence is from when on the gaps stay within the thresholds",
    ]
    if options.is_quick:
        notes.append(f"brokers {QUICK} times weaker, for {QUICK} times fewer subscribers; the step comes at 2,000 s")
    claims = [*_even(scene, plan), *_settled(scene, plan, balance), *_cheap(scene, plan), *_predicted(found)]
    return Report(
        id="peer/E1",
        claims=claims,
        notes=notes,
        measured=_measured(scene, plan),
        figures=_figures(scene),
    )


def _measured(scene: Scene, plan: Plan) -> dict[str, float]:
    sessions = scene.sessions()
    before = [one for one in sessions if one.ended_s <= JOINED_S + 55]
    last = scene.looks[-1]
    return {
        "sessions": len(sessions),
        "sessions while they join": len(before),
        "sessions while they join without B1": len([one for one in before if "B1" not in (one.donor, one.acceptor)]),
        "sessions after the step": len([one for one in sessions if one.began_s > plan.step_s]),
        "moved": sum(one.moved for one in sessions),
        "most moves of one subscriber": max(one.moves for one in scene.listeners),
        "B1 at most": max(look.edges["B1"].subscribers for look in scene.looks),
        "B1's input queue at most, s": max(look.edges["B1"].input_wait_s for look in scene.looks),
        **{f"subscribers of {edge}": seen.subscribers for edge, seen in last.edges.items()},
    }


def _even(scene: Scene, plan: Plan) -> list[Claim]:
    machines, last = scene.edges, scene.looks[-1].edges
    total = sum(one.mhz for one in machines.values())
    shares = {edge: seen.subscribers / plan.subscribers / (machines[edge].mhz / total) for edge, seen in last.items()}
    steady = within(scene.looks, plan.step_s - 200, plan.step_s)
    # A client that moves is at two brokers; by then none should.
    counts = "/".join(str(seen.subscribers) for seen in last.values())
    inputs, outputs = mean_spread(steady, lambda one: one.input), mean_spread(steady, lambda one: one.output)
    return [
        Claim(
            claim="E1g: in the end each edge has subscribers in proportion to its CPU",
            paper="120/240/490/1220 of 100/200/400/1000 MHz",
            measured=f"{counts}, {min(shares.values()):.2f} to {max(shares.values()):.2f} of their shares",
            tolerance="each from 0.5 to 1.5 of its share",
            holds=all(0.5 <= share <= 1.5 for share in shares.values()),
        ),
        Claim(
            claim="E1h: input and output utilisations of the edges are close together in steady state",
            paper="standard deviations of 0.02 to 0.04",
            measured=f"{inputs:.3f} (input), {outputs:.3f} (output) before the step",
            tolerance="both below 0.05",
            holds=max(inputs, outputs) < 0.05,
        ),
    ]


def _settled(scene: Scene, plan: Plan, balance: BalancingConfig) -> list[Claim]:
    first = converged_s(scene.looks, balance, begin_s=JOINED_S, end_s=plan.step_s)
    second = converged_s(scene.looks, balance, begin_s=plan.step_s + 10, end_s=plan.end_s)
    rest = [one for one in within(scene.looks, 1800, plan.end_s) if not plan.step_s <= one.at_s <= plan.step_s + 400]
    peak = max(max(seen.input, seen.output) for look in rest for seen in look.edges.values())
    acceptors = max(
        look.edges[edge].input for look in scene.looks for edge in ("B2", "B3", "B4") if look.at_s <= plan.step_s
    )
    return [
        Claim(
            claim="E1a: all indices are within the thresholds",
            paper="by 1,800 s",
            measured="not before the step" if first is None else f"from {first:,.0f} s on",
            tolerance="by 1,800 s",
            holds=first is not None and first <= 1800,
        ),
        Claim(
            claim="E1a: when half of the publishers double their rates, balance is found again",
            paper="within 400 s",
            measured="not to the end" if second is None else f"{second - plan.step_s:,.0f} s later",
            tolerance="within 400 s",
            holds=second is not None and second <= plan.step_s + 400,
        ),
        Claim(
            claim="E1d: no edge is overloaded once it has converged",
            paper="none",
            measured=f"{peak:.2f} at most",
            tolerance="below 1",
            holds=peak < 1.0,
        ),
        Claim(
            claim="no session overloads an acceptor",
            paper="B2 to B4 never are",
            measured=f"input utilisation of {acceptors:.2f} at most before the step",
            tolerance="below 1",
            holds=acceptors < 1.0,
        ),
    ]


def _cheap(scene: Scene, plan: Plan) -> list[Claim]:
    late = within(scene.looks, min(2000.0, plan.step_s - 300), plan.end_s)
    share = sum(look.overhead * look.delivered for look in late) / max(1, sum(look.delivered for look in late))
    delays = [fmean([one.delivery_s for one in part]) for part in (within(scene.looks, 500, 1010), late)]
    return [
        Claim(
            claim="E1j: messages are a small share of all that is sent in steady state",
            paper="0.3 %, at most 0.55 % after the step",
            measured=f"{share:.2%} on average",
            tolerance="at most 0.7 %",
            holds=share <= 0.007,
        ),
        Claim(
            claim="E1f: delivery takes long while B1 is overloaded, and little afterwards",
            paper="high until 1,500 s, then low",
            measured=f"{delays[0]:.2f} s from 500 to 1,010 s, {delays[1]:.3f} s in the end",
            tolerance="below 0.2 s, and less than before",
            holds=delays[1] < 0.2 and delays[1] < delays[0],
        ),
    ]


def _predicted(found: list[Error]) -> list[Claim]:
    bounds = {(True, "input"): 0.033, (False, "input"): 0.016, (True, "output"): 0.0012, (False, "output"): 0.015}
    claims = []
    for (is_donor, index), paper in bounds.items():
        values = [getattr(one, index) for one in found if one.is_donor is is_donor]
        mean = fmean(values) if values else 0.0
        claims.append(
            Claim(
                claim=f"E1i: the {'donor' if is_donor else 'acceptor'}'s {index} utilisation is predicted well",
                paper=f"{paper:.1%} off on average",
                measured=f"{mean:+.1%} ± {pstdev(values) if values else 0:.1%} in {len(values)} sessions",
                tolerance=f"within {max(paper, 0.033):.1%}",
                holds=bool(values) and abs(mean) <= max(paper, 0.033),
            )
        )
    return claims


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
