"""gryphon/E2: one narrow link that changes. How much of it is used, by PDCC and by what goes beyond it?"""

from __future__ import annotations

import msgspec

from tidewire.benchmarks.progress import Tell
from tidewire.papers.gryphon.measure import (
    delivered_s,
    fairness,
    line,
    progress,
    queue_kb,
    rate_line,
    rates_figure,
    within,
)
from tidewire.papers.gryphon.scene import KB, Scene
from tidewire.papers.gryphon.topologies import CONTROLLED, notes, simple
from tidewire.papers.report import Claim, Figure, Options, Report, Series

POLICIES = ("pdcc", "pdcc-settled", "pdcc-direct")
SKIPPED = "pdcc-settled"
"""By a quick run."""

PHASES_KB_S = (60.0, 150.0, 60.0)
START_S = 30


def changes(options: Options, tell: Tell) -> Report:
    """E2: IB–SB1 carries 60, then 150, then 60 KB/s, for two minutes each."""
    phase_s = 45 if options.is_quick else 120
    scenes = {
        policy: _run(policy, phase_s, options, tell)
        for policy in POLICIES
        if not (options.is_quick and policy == SKIPPED)
    }
    used = {policy: _used(scene, phase_s) for policy, scene in scenes.items()}
    plain = scenes["pdcc"]
    claims = [
        *_claims_of_the_paper(plain, phase_s, used["pdcc"], options),
        *_claims_of_ours(scenes, used, goal=0.85 if options.is_quick else 0.9),
    ]
    figures = [
        rates_figure("e2-pdcc", "E2: IB–SB1 60, 150, 60 KB/s, PDCC", plain.moments, ["SB1", "SB2"]),
        Figure(
            name="e2-policies",
            title="E2: what SB1 gets, by policy",
            x_label="s",
            y_label="events/s",
            series=[_rate(policy, scene) for policy, scene in scenes.items()],
        ),
        Figure(
            name="e2-queue",
            title="E2: what waits at IB for SB1",
            x_label="s",
            y_label="KB",
            series=[
                line(policy, scene.moments, lambda one: one.queues.get(("IB", "SB1"), 0) / KB)
                for policy, scene in scenes.items()
            ],
        ),
        Figure(
            name="e2-progress",
            title="E2: the progress of SB1, PDCC",
            x_label="s",
            y_label="s of stream per s",
            series=[line("slowest pubend", plain.moments, lambda one: progress(one, "SB1"))],
        ),
    ]
    measured = {f"used_{policy}_{i + 1}": share for policy, shares in used.items() for i, share in enumerate(shares)}
    measured |= {f"jain_{policy}": fairness(scene.moments[START_S:]) for policy, scene in scenes.items()}
    return Report(id="gryphon/E2", claims=claims, notes=notes(options), measured=measured, figures=figures)


def _rate(policy: str, scene: Scene) -> Series:
    return rate_line(policy, scene.moments, lambda one: one.delivered["SB1"])


def _run(policy: str, phase_s: int, options: Options, tell: Tell) -> Scene:
    config = msgspec.structs.replace(CONTROLLED, rate_policy=policy, progress_first=0.0)
    end_s = START_S + len(PHASES_KB_S) * phase_s

    def told(now_s: int) -> None:
        tell(f"E2 {policy}", now_s, end_s)

    with simple(config, options) as scene:
        scene.run(START_S, told)
        for kb_s in PHASES_KB_S:
            scene.shape("IB", "SB1", kb_s)
            scene.run(phase_s, told)
    return scene


def _used(scene: Scene, phase_s: int) -> list[float]:
    """Which share of the link carried events to SB1, in each phase?"""
    shares = []
    for i, kb_s in enumerate(PHASES_KB_S):
        moments = within(scene.moments, START_S + i * phase_s, START_S + (i + 1) * phase_s)
        shares.append(delivered_s(moments, "SB1") / scene.capacity_msgs_s(kb_s))
    return shares


def _claims_of_the_paper(scene: Scene, phase_s: int, used: list[float], options: Options) -> list[Claim]:
    first = within(scene.moments, START_S, START_S + 20)
    dip = min(progress(one, "SB1") for one in first)
    early = within(scene.moments, 10, START_S)
    unasked = early[-1].alerts[0] - early[0].alerts[0]
    at_first = within(scene.moments, 0, 10)[-1].alerts[0]
    wide = within(scene.moments, START_S + phase_s, START_S + 2 * phase_s)
    goal = 0.8 * scene.capacity_msgs_s(PHASES_KB_S[1])
    rates = rate_line("", wide, lambda one: one.delivered["SB1"])
    reached = next((at - wide[0].at_s for at, rate in zip(rates.x, rates.y, strict=True) if rate >= goal), None)
    return [
        Claim(
            claim="the queue of IB for SB1 stays below 1 MB, and nothing is lost",
            paper="below 1 MB always",
            measured=f"at most {queue_kb(scene.moments, ('IB', 'SB1')):.0f} KB,"
            f" {scene.moments[-1].dropped} thrown away, {scene.disorders()} in disorder",
            tolerance="1 MB, none",
            holds=queue_kb(scene.moments) < KB and scene.moments[-1].dropped == 0 and scene.disorders() == 0,
        ),
        Claim(
            claim="the rate oscillates round what the link carries",
            paper="round the sustainable rate",
            measured=", ".join(f"{share:.0%}" for share in used) + " of the link",
            tolerance="70 % in each phase",
            holds=min(used) >= 0.7,
        ),
        Claim(
            claim="it adapts to a wider link",
            paper="fast",
            measured="not" if reached is None else f"80 % of it after {reached:.0f} s",
            tolerance=f"half of the phase, {phase_s / 2:.0f} s",
            holds=reached is not None and reached <= phase_s / 2,
        ),
        Claim(
            claim="the progress of SB1 falls to half at the first limit",
            paper="halves",
            measured=f"{dip:.2f} s of stream a second",
            tolerance="below 0.75",
            holds=dip < 0.75,
        ),
        Claim(
            claim="before that there are alerts at the start, and no others",
            paper="none but at start-up",
            measured=f"{at_first} in the first 10 s, {unasked} later",
            tolerance="none later" if options.is_live else "some, then none",
            holds=(at_first > 0 or options.is_live) and unasked == 0,
        ),
    ]


def _claims_of_ours(scenes: dict[str, Scene], used: dict[str, list[float]], *, goal: float) -> list[Claim]:
    means = {policy: sum(shares) / len(shares) for policy, shares in used.items()}
    jains = {policy: fairness(scene.moments[START_S:]) for policy, scene in scenes.items()}
    best = max(means, key=lambda policy: means[policy])
    return [
        Claim(
            claim=f"(ours) {goal:.0%} of the bottleneck is used",  # in a quick run silence takes a larger share of it
            paper="oscillates, well below",
            measured=", ".join(f"{policy} {share:.0%}" for policy, share in means.items()),
            tolerance=f"the best policy {goal:.0%}",
            holds=means[best] >= goal,
        ),
        Claim(
            claim="(ours) pubends share the bottleneck",
            paper="several pubends: independent, not measured",
            measured="Jain index " + ", ".join(f"{policy} {share:.3f}" for policy, share in jains.items()),
            tolerance="0.9 for each",
            holds=min(jains.values()) >= 0.9,
        ),
    ]
