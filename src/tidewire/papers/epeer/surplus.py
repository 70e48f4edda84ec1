"""epeer/B1 to B9: resources to spare. Delay-driven balancing beside the thesis's baseline, and beside PEER itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidewire.benchmarks.progress import Tell
from tidewire.papers.epeer import agreement
from tidewire.papers.epeer.bursts import PRESS_SAMPLES, Outcome, Run, play
from tidewire.papers.epeer.many import mean, of_bursts, phases, runs
from tidewire.papers.epeer.statistics import Ranked, signed_rank
from tidewire.papers.report import Claim, Figure, Options, Report, Series

CURED_S: Final = 10
"""A few seconds: so soon after a burst no edge may be overloaded any more, by mean rates."""

BASELINES: Final = ("peer-lb", "peer")


def single(options: Options, tell: Tell) -> Report:
    """B1."""
    tell("epeer/B1", 0, 1)
    seen = play(Run(policy="drd", seed=options.seed, phases=phases(options), is_traced=True))
    calm, bursts = seen.sessions[0] + seen.sessions[1], seen.sessions[2]
    tell("epeer/B1 with brokers", 0, 1)
    work = agreement.work_of(agreement.SEED)
    rates, brokers = agreement.by_rates(work), agreement.by_brokers(work)
    return Report(
        id="epeer/B1",
        claims=[
            Claim(
                claim="nobody is moved before the bursts",
                paper="2 offloads, both after the second burst",
                measured=f"{calm:.0f} before, {bursts:.0f} in the bursts, {seen.sessions[3]:.0f} after",
                tolerance="none before",
                holds=calm == 0,
            ),
            Claim(
                claim="soon after each burst no edge is overloaded",
                paper="all below 0.95",
                measured=f"{seen.cured_s} s; {seen.overloaded_s} single seconds above 0.95, with noise",
                tolerance=f"mean rates within {CURED_S} s",
                holds=seen.cured_s <= CURED_S,
            ),
            Claim(
                claim="who is moved is hardly held up",
                paper="Od 3.92 %",
                measured=f"Od {seen.delay_ratio_in_all:.2%}",
                tolerance="below 10 %",
                holds=seen.delay_ratio_in_all < 0.1,
            ),
            _agreed(rates, brokers),
        ],
        notes=[f"seed {options.seed}; detection takes {seen.detection:.3e} of the first edge's matching"],
        measured=_figures_of(seen),
        figures=[
            _loads("b1-loads", "B1: matching utilisation of the edges, drd (Fig. 4-17)", seen),
            _lines("b1-rates", "The small run over rates: matching utilisation", rates.lines),
            _lines("b1-brokers", "The small run with brokers: matching utilisation", brokers.lines),
        ],
    )


def _agreed(rates: agreement.Seen, brokers: agreement.Seen) -> Claim:
    found = agreement.apart(rates, brokers)
    moved = ", ".join(f"{name} from {donor} to {to}" for donor, name, to in brokers.offloads)
    return Claim(
        claim="rates say what brokers do, event by event, in a run of a hundredth of the size",
        paper="not compared",
        measured=f"moved by brokers: {moved}; utilisations differ by {found.matching:.4f}, deliveries by"
        f" {found.deliveries:.2%}, bytes by {found.output_bytes:.2%}, times by {found.moves_s:.1f} s",
        tolerance="the same moves, utilisations within 0.01, deliveries and bytes within 1 %, times within 2 s",
        holds=found.matching <= 0.01 and max(found.deliveries, found.output_bytes) <= 0.01 and found.moves_s <= 2,
    )


def baseline(options: Options, tell: Tell) -> Report:
    """B3."""
    found = {}
    for number, policy in enumerate(BASELINES):
        tell("epeer/B3", number, len(BASELINES))
        found[policy] = play(Run(policy=policy, seed=options.seed, phases=phases(options), is_traced=True))
    seen, ours = found["peer-lb"], found["peer"]
    return Report(
        id="epeer/B3",
        claims=[
            Claim(
                claim="the baseline moves many, most of them while classes come",
                paper="220 offloads, 18 without those while classes come; Od 2319 % and 122 %",
                measured=_both(seen),
                tolerance="three times as many, and as much",
                holds=sum(seen.sessions) >= 3 * max(1.0, seen.offloads)
                and seen.delay_ratio_in_all >= 3 * seen.delay_ratio,
            ),
        ],
        notes=[
            f"with peer: {_both(ours)}",
            f"seed {options.seed}; detection takes {seen.detection:.3e} of the first edge's matching",
        ],
        measured={
            f"{policy} {name}": value for policy, one in found.items() for name, value in _figures_of(one).items()
        },
        figures=[
            _loads("b3-loads", "B3: matching utilisation of the edges, peer-lb (Fig. 4-18)", seen),
            _loads("b3-loads-peer", "B3: matching utilisation of the edges, peer", ours),
        ],
    )


def mean_delay(options: Options, tell: Tell) -> Report:
    """B2."""
    found = of_bursts("drd", options, tell)
    ratio = mean(found, lambda one: one.delay_ratio_in_all)
    calm = sum(one.sessions[0] + one.sessions[1] + one.sessions[3] > 0 for one in found)
    return Report(
        id="epeer/B2",
        claims=[
            Claim(
                claim="on average who is moved is hardly held up",
                paper="Od 4.98 %",
                measured=f"Od {ratio:.2%}",
                tolerance="below 10 %",
                holds=ratio < 0.1,
            ),
        ],
        notes=[*_how(options), f"runs that moved anybody before the bursts or after them: {calm}"],
        measured=_means({"drd": found}),
    )


def baseline_mean(options: Options, tell: Tell) -> Report:
    """B4."""
    found = {policy: of_bursts(policy, options, tell) for policy in ("drd", *BASELINES)}
    drd = mean(found["drd"], lambda one: one.delay_ratio)
    thesis = mean(found["peer-lb"], lambda one: one.delay_ratio)
    in_all = mean(found["peer-lb"], lambda one: one.delay_ratio_in_all)
    ours = mean(found["peer"], lambda one: one.delay_ratio)
    return Report(
        id="epeer/B4",
        claims=[
            Claim(
                claim="the baseline holds up those whom it moves, many times more than drd",
                paper="Od 274 % beside 4.98 %: 55 times",
                measured=f"Od {thesis:.0%} beside {drd:.2%}: {thesis / max(drd, 1e-9):.0f} times",
                tolerance="at least 10 times",
                holds=thesis >= 10 * drd,
            ),
            Claim(
                claim="most of it while classes come",
                paper="1894 % in all: 6.9 times",
                measured=f"{in_all:.0%} in all: {in_all / max(thesis, 1e-9):.1f} times",
                tolerance="at least 3 times",
                holds=in_all >= 3 * thesis,
            ),
            Claim(
                claim="so does peer, many times more than drd",
                paper="not run",
                measured=f"Od {ours:.0%}: {ours / max(drd, 1e-9):.0f} times",
                tolerance="at least 10 times",
                holds=ours >= 10 * drd,
            ),
        ],
        notes=_how(options),
        measured=_means(found),
    )


def fewer(options: Options, tell: Tell) -> Report:
    """B5."""
    found = {policy: of_bursts(policy, options, tell) for policy in ("drd", *BASELINES)}
    claims, figures = [], []
    for policy in BASELINES:
        differences = [theirs.offloads - ours.offloads for ours, theirs in _pairs(found, policy)]
        more, equal, less = _signs(differences)
        claims.append(
            Claim(
                claim=f"drd moves less often than {policy}, run by run",
                paper="more often in 1.4 %, equal in 1 %, less often in 97.6 %",
                measured=f"more often in {more:.1%}, equal in {equal:.1%}, less often in {less:.1%}",
                tolerance="less often in at least 85 %",
                holds=less >= 0.85,
            )
        )
        figures.append(
            _sorted(f"b5-offloads-{policy}", f"B5: offloads, {policy} less drd (Fig. 4-19)", "", differences)
        )
    single = [of_bursts(policy, options, tell, is_smoothed=False) for policy in ("drd", "peer-lb")]
    more, equal, less = _signs([theirs.offloads - ours.offloads for ours, theirs in zip(*single, strict=True)])
    claims.append(
        Claim(
            claim="the same beside peer-lb, when the load of single seconds decides",
            paper="less often in 97.6 %",
            measured=f"more often in {more:.1%}, equal in {equal:.1%}, less often in {less:.1%}",
            tolerance="less often in at least 85 %",
            holds=less >= 0.85,
        )
    )
    measured = _means(found | {"drd unsmoothed": single[0], "peer-lb unsmoothed": single[1]})
    return Report(id="epeer/B5", claims=claims, notes=_how(options), measured=measured, figures=figures)


def shorter(options: Options, tell: Tell) -> Report:
    """B6."""
    found = {policy: of_bursts(policy, options, tell) for policy in ("drd", *BASELINES)}
    claims, figures = [], []
    for policy in BASELINES:
        differences = [theirs.delay_ratio - ours.delay_ratio for ours, theirs in _pairs(found, policy)]
        more, equal, _ = _signs(differences)
        claims.append(
            Claim(
                claim=f"drd holds up those whom it moves less than {policy}, run by run",
                paper="worse in 0.6 %",
                measured=f"worse in {more:.1%}, equal in {equal:.1%}",
                tolerance="worse in at most 5 %",
                holds=more <= 0.05,
            )
        )
        title = f"B6: Od, {policy} less drd (Fig. 4-20)"
        figures.append(_sorted(f"b6-delays-{policy}", title, "%", [100 * one for one in differences]))
    return Report(id="epeer/B6", claims=claims, notes=_how(options), measured=_means(found), figures=figures)


def lower(options: Options, tell: Tell) -> Report:
    """B7."""
    found = {policy: of_bursts(policy, options, tell) for policy in ("drd", *BASELINES)}
    drd = found["drd"]
    claims = []
    for policy in BASELINES:
        theirs = found[policy]
        counts = mean(drd, lambda one: one.offloads), mean(theirs, lambda one: one.offloads)
        delays = mean(drd, lambda one: one.delay_ratio), mean(theirs, lambda one: one.delay_ratio)
        claims.append(
            Claim(
                claim=f"drd is lower than {policy} on both, on average",
                paper="lower on both",
                measured=f"offloads {counts[0]:.2f} and {counts[1]:.2f}; Od {delays[0]:.2%} and {delays[1]:.0%}",
                tolerance="lower",
                holds=counts[0] < counts[1] and delays[0] < delays[1],
            )
        )
    return Report(id="epeer/B7", claims=claims, notes=_how(options), measured=_means(found))


def significant(options: Options, tell: Tell) -> Report:
    """B8."""
    found = {policy: of_bursts(policy, options, tell) for policy in ("drd", *BASELINES)}
    claims: list[Claim] = []
    measured: dict[str, float] = {}
    for policy in BASELINES:
        tested = signed_rank(
            [ours.delay_ratio - theirs.delay_ratio for ours, theirs in _pairs(found, policy)], side="less"
        )
        claims.append(tested_claim(f"H1: Od of drd is below that of {policy}", tested, asked=_asked(options)))
        measured |= {f"{policy} W": tested.sum_above, f"{policy} z": tested.z, f"{policy} p": tested.p}
    return Report(id="epeer/B8", claims=claims, notes=_how(options), measured=measured)


def ordered(options: Options, tell: Tell) -> Report:
    """B9."""
    found = {policy: of_bursts(policy, options, tell) for policy in ("peer-lb", "peer-drd", "peer")}
    before, after = found["peer-lb"], found["peer-drd"]
    in_all = [mean(some, lambda one: one.delay_ratio_in_all) for some in (before, after)]
    later = [mean(some, lambda one: one.delay_ratio) for some in (before, after)]
    counts = [mean(some, lambda one: sum(one.sessions)) for some in (before, after)]
    peer_in_all = mean(found["peer"], lambda one: one.delay_ratio_in_all)
    peer_later = mean(found["peer"], lambda one: one.delay_ratio)
    cut = [1 - values[1] / values[0] if values[0] else 0.0 for values in (in_all, later)]
    return Report(
        id="epeer/B9",
        claims=[
            Claim(
                claim="the baseline with drd's order holds up those whom it moves less",
                paper="Od -46 % in all, -50 % without the time when classes come",
                measured=f"-{cut[0]:.0%} in all ({in_all[0]:.0%} to {in_all[1]:.0%}), -{cut[1]:.0%} ({later[0]:.0%} to"
                f" {later[1]:.0%})",
                tolerance="at least -30 %, both",
                holds=min(cut) >= 0.3,
            ),
            Claim(
                claim="it does not move less often",
                paper="not improved",
                measured=f"{counts[0]:.1f} and {counts[1]:.1f} offloads in all",
                tolerance="not fewer",
                holds=counts[1] >= counts[0],
            ),
        ],
        notes=[
            *_how(options),
            f"peer beside them: Od {peer_in_all:.0%} in all, {peer_later:.0%} later",
        ],
        measured=_means(found),
    )


def _both(seen: Outcome) -> str:
    """In all, and without the time when classes come."""
    ratios = f"Od {seen.delay_ratio_in_all:.0%} and {seen.delay_ratio:.0%}"
    return f"{sum(seen.sessions):.0f} and {seen.offloads:.0f}; {ratios}"


def tested_claim(claim: str, tested: Ranked, *, asked: float) -> Claim:
    """As the thesis tests it."""
    return Claim(
        claim=claim,
        paper="p < 2.2e-16",
        measured=f"p = {tested.p:.2g}, W {tested.sum_above:.1f} of {tested.pairs} pairs, z {tested.z:.2f}",
        tolerance=f"one-sided Wilcoxon, p < {asked:g}",
        holds=tested.p < asked,
    )


def _asked(options: Options) -> float:
    """With few runs chance cannot be excluded so far."""
    return 1e-6 if runs(options) >= 100 else 0.01


def _how(options: Options) -> list[str]:
    return [
        f"{runs(options)} runs of each policy, seeds from {options.seed} on; the same load and noise for one seed",
        "without the time when classes come, unless it is said",
        f"peer-lb is the thesis's baseline; peer is PEER as brokers run it, with {PRESS_SAMPLES} samples",
    ]


def _pairs(found: dict[str, list[Outcome]], policy: str) -> list[tuple[Outcome, Outcome]]:
    return list(zip(found["drd"], found[policy], strict=True))


def _signs(differences: Sequence[float]) -> tuple[float, float, float]:
    """The shares of runs in which drd is worse, equal, better."""
    worse, equal = sum(one < 0 for one in differences), sum(one == 0 for one in differences)
    return worse / len(differences), equal / len(differences), 1 - (worse + equal) / len(differences)


def _figures_of(seen: Outcome) -> dict[str, float]:
    return {
        "offloads in all": sum(seen.sessions),
        "offloads": seen.offloads,
        "Od in all": seen.delay_ratio_in_all,
        "Od": seen.delay_ratio,
        "moved": float(seen.moved),
        "overloaded, s": float(seen.overloaded_s),
        "cured, s": float(seen.cured_s),
        "detection": seen.detection,
    }


def _means(found: dict[str, list[Outcome]]) -> dict[str, float]:
    measured = {}
    for policy, some in found.items():
        for name in _figures_of(some[0]):
            measured[f"{policy} {name}"] = mean(some, lambda one, name=name: _figures_of(one)[name])  # type: ignore[misc]
        measured[f"{policy} share without offloads"] = mean(some, lambda one: float(one.offloads == 0))
        measured[f"{policy} most offloads"] = max(one.offloads for one in some)
    return measured


def _loads(name: str, title: str, seen: Outcome) -> Figure:
    assert seen.trace is not None
    return _lines(name, title, seen.trace.matching)


def _lines(name: str, title: str, lines: Mapping[str, list[float]]) -> Figure:
    series = [
        Series(name=edge, x=[float(at) for at in range(1, len(values) + 1)], y=values) for edge, values in lines.items()
    ]
    return Figure(name=name, title=title, x_label="s", y_label="", series=series)


def _sorted(name: str, title: str, unit: str, values: Sequence[float]) -> Figure:
    ranked = Series(name="runs, sorted", x=[float(at) for at in range(1, len(values) + 1)], y=sorted(values))
    return Figure(name=name, title=title, x_label="run", y_label=unit, series=[ranked])
