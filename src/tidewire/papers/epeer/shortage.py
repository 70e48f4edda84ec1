"""epeer/B10 to B15: resources short. What traffic that gives way does to load, and to those who subscribe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidewire.benchmarks.progress import Tell
from tidewire.papers.epeer.damage import ANSWERED_S, CALM_LAST_S, PERIOD_S, Outcome, Run, play
from tidewire.papers.epeer.many import mean, of_damage, phases, runs
from tidewire.papers.epeer.quality import Experience
from tidewire.papers.epeer.statistics import signed_rank
from tidewire.papers.epeer.surplus import tested_claim
from tidewire.papers.report import Claim, Figure, Options, Report, Series

LEVELS: Final = (0.6, 0.3)
"""Both settings of the sheet: the mean output of the edges before the damage."""

HIGH: Final = 0.95
NEAR: Final = 0.005
"""By so much a mean may be above: what publishers publish is not known to the event."""


def single(options: Options, tell: Tell) -> Report:
    """B10."""
    found = {}
    for number, (name, kind) in enumerate(_SINGLE.items()):
        tell("epeer/B10", number, len(_SINGLE))
        found[name] = play(Run(seed=options.seed, phases=phases(options), is_traced=True, **kind))  # type: ignore[arg-type]
    seen, without = found["selection"], found["without"]
    return Report(
        id="epeer/B10",
        claims=[
            Claim(
                claim="after the damage every broker is overloaded",
                paper="all",
                measured=f"mean output {without.output.offered:.2f} of what the edges can send",
                tolerance="above 0.95",
                holds=without.output.offered > HIGH,
            ),
            Claim(
                claim="when traffic gives way no edge is",
                paper="load cut by 17.5 % (out), 13.3 % (in), 16.2 % (matching)",
                measured=f"{seen.highest:.4f} at the edge that has most to send; cut by {_cuts(seen)}",
                tolerance="mean output of each edge at most 0.95",
                holds=seen.highest <= HIGH + NEAR,
            ),
            Claim(
                claim="the feedback for it is little",
                paper="435/26015 = 1.67 % of what an edge can match",
                measured=f"{seen.feedback:.2%}",
                tolerance="at most 2.5 %",
                holds=seen.feedback <= 0.025,
            ),
            Claim(
                claim="every limit is lifted when the cables are repaired",
                paper="limits lifted",
                measured=f"{seen.lifted_s} s after it",
                tolerance="within 10 s",
                holds=0 <= seen.lifted_s <= 10,
            ),
        ],
        notes=[
            f"seed {options.seed}; limits hold {seen.trigger_s} s after the damage, decided anew every {PERIOD_S} s",
            f"highest mean of ten seconds {seen.highest_10s:.3f}",
            f"events too late, or none: {without.late:.0%} of subscribers without it, {seen.late:.0%} with it",
            f"with tiers cut by {_cuts(found['tiers'])}, {found['tiers'].late:.0%} too late or none",
        ],
        measured={f"{name} {key}": value for name, one in found.items() for key, value in _figures_of(one).items()},
        figures=[
            _outputs("b10-without", "B10: output of the brokers, nobody gives way (Fig. 5-3)", without),
            _outputs("b10-selection", "B10: output of the brokers, the least important give way (Fig. 5-3)", seen),
        ],
    )


_SINGLE: Final[dict[str, dict[str, object]]] = {
    "without": {"is_limiting": False},
    "selection": {},
    "tiers": {"tiers": True},
}


def less(options: Options, tell: Tell) -> Report:
    """B11."""
    found = _kinds(options, tell)
    claims = []
    for level in LEVELS:
        some = found[f"level {level}"]
        shares = [mean(some, of) for of in _SHARES]
        claims.append(
            Claim(
                claim=f"the load of the brokers falls, mean output {level} before the damage",
                paper="by 19.2 % (out), 15.7 % (in), 16.1 % (matching)",
                measured=f"by {shares[0]:.1%}, {shares[1]:.1%}, {shares[2]:.1%}; in points of output"
                f" {mean(some, lambda one: one.output.points):.2f}; of what fits"
                f" {mean(some, lambda one: one.output.capped_share):.1%}",
                tolerance="all three above 10 %",
                holds=min(shares) > 0.1,
            )
        )
    return Report(id="epeer/B11", claims=claims, notes=_how(options), measured=_means(found))


def significant_load(options: Options, tell: Tell) -> Report:
    """B12."""
    found = _kinds(options, tell)
    claims: list[Claim] = []
    measured: dict[str, float] = {}
    for level in LEVELS:
        tested = signed_rank([one.output.admitted - one.output.offered for one in found[f"level {level}"]], side="less")
        claims.append(tested_claim(f"H2: output is lower, mean output {level} before", tested, asked=_asked(options)))
        measured |= {f"level {level} W": tested.sum_above, f"level {level} z": tested.z, f"level {level} p": tested.p}
    return Report(id="epeer/B12", claims=claims, notes=_how(options), measured=measured)


def over_time(options: Options, tell: Tell) -> Report:
    """B13."""
    tell("epeer/B13", 0, 1)
    when = phases(options)
    seen = play(Run(seed=options.seed, phases=when, is_traced=True))
    trace = seen.trace
    assert trace is not None
    heard = dict(zip(trace.at_s, (one.heard for one in trace.experience), strict=True))

    def span(first: int, last: int) -> tuple[float, float]:
        values = [heard[float(at)] for at in range(first, last + 1)]
        return min(values), max(values)

    joining, calm, short = (
        span(5, 100),
        span(101, when.trouble_s - 1),
        span(when.trouble_s + ANSWERED_S, when.calm_s - 1),
    )
    return Report(
        id="epeer/B13",
        claims=[
            Claim(
                claim="the quality of experience is unsteady while classes come, and steady then",
                paper="unsteady until 100 s, then stable",
                measured=f"from {joining[0]:.3f} to {joining[1]:.3f}, then from {calm[0]:.3f} to {calm[1]:.3f}",
                tolerance="at least ten times as far apart",
                holds=joining[1] - joining[0] >= 10 * (calm[1] - calm[0]),
            ),
            Claim(
                claim="it is higher as long as traffic gives way",
                paper="higher",
                measured=f"from {short[0]:.3f} to {short[1]:.3f}",
                tolerance="always above what it was",
                holds=short[0] > calm[1],
            ),
        ],
        notes=[
            f"seed {options.seed}, one look each second; the damage lasts from {when.trouble_s} to {when.calm_s - 1} s"
        ],
        measured=_figures_of(seen),
        figures=[
            _experiences("b13-experience", "B13: quality of experience (Fig. 5-6)", seen),
        ],
    )


def better(options: Options, tell: Tell) -> Report:
    """B14."""
    found = _kinds(options, tell)
    ours = found["level 0.3 by publisher"]
    first = found["level 0.6"]
    shares = [mean(ours, of) for of in _SHARES]
    claims = [
        Claim(
            claim="those who are heard are worth more, mean output 0.6 before the damage",
            paper="0.2671 to 0.3348: +25.4 %",
            measured=_gains(first),
            tolerance="+15 % to +40 %",
            holds=0.15 <= _gain(first) <= 0.4,
        ),
        Claim(
            claim="both at once, when each publisher counts by itself (ours): better for little less, for everybody",
            paper="+25.4 % for 19.2 % less output",
            measured=f"{_gains(ours)} for {shares[0]:.1%} less output; with who hears nothing as 0"
            f" {mean(ours, lambda one: one.before.everybody):.3f} to {mean(ours, lambda one: one.after.everybody):.3f}",
            tolerance="+15 % to +40 %, each load cut by 10 % to 40 %, and more also with those who hear nothing",
            holds=0.15 <= _gain(ours) <= 0.4
            and all(0.1 < share < 0.4 for share in shares)
            and mean(ours, lambda one: one.after.everybody) > mean(ours, lambda one: one.before.everybody),
        ),
    ]
    gaps = [f"{name}: {_gap(some)}" for name, some in found.items()]
    return Report(
        id="epeer/B14",
        claims=claims,
        notes=[*_how(options), *gaps],
        measured=_means(found),
        figures=[_sorted_gains(found)],
    )


def significant_quality(options: Options, tell: Tell) -> Report:
    """B15."""
    found = _kinds(options, tell)
    claims: list[Claim] = []
    measured: dict[str, float] = {}
    for level in LEVELS:
        some = found[f"level {level}"]
        tested = signed_rank([one.after.heard - one.before.heard for one in some], side="greater")
        claims.append(
            tested_claim(
                f"H3: the quality of experience is higher, mean output {level} before", tested, asked=_asked(options)
            )
        )
        measured |= {f"level {level} W": tested.sum_above, f"level {level} z": tested.z, f"level {level} p": tested.p}
    return Report(id="epeer/B15", claims=claims, notes=_how(options), measured=measured)


_SHARES: Final[tuple[Callable[[Outcome], float], ...]] = (
    lambda one: one.output.share,
    lambda one: one.input.share,
    lambda one: one.matching.share,
)

_KINDS: Final[dict[str, dict[str, object]]] = {
    "level 0.6": {"level": 0.6, "tiers": False},
    "level 0.6 with tiers": {"level": 0.6, "tiers": True},
    "level 0.3": {"level": 0.3, "tiers": False},
    "level 0.3 with tiers": {"level": 0.3, "tiers": True},
    "level 0.6 by publisher": {"level": 0.6, "order": "publisher"},
    "level 0.3 by publisher": {"level": 0.3, "order": "publisher"},
}


def _kinds(options: Options, tell: Tell) -> dict[str, list[Outcome]]:
    return {name: of_damage(options, tell, **kind) for name, kind in _KINDS.items()}


def _asked(options: Options) -> float:
    return 1e-6 if runs(options) >= 100 else 0.01


def _how(options: Options) -> list[str]:
    return [
        f"{runs(options)} runs of each kind, seeds from {options.seed} on",
        "balancing is drd, which rests while limits hold; budget 0.95 of the output of every broker, the head too",
        f"before: the last {CALM_LAST_S} s of the calm; after: the damage, without its first {ANSWERED_S} s",
        "load: what is offered beside what is admitted, at the edges",
    ]


def _cuts(seen: Outcome) -> str:
    return f"{seen.output.share:.1%} (out), {seen.input.share:.1%} (in), {seen.matching.share:.1%} (matching)"


def _gain(some: list[Outcome]) -> float:
    return mean(some, lambda one: one.after.heard) / mean(some, lambda one: one.before.heard) - 1


def _gains(some: list[Outcome]) -> str:
    before, after = mean(some, lambda one: one.before.heard), mean(some, lambda one: one.after.heard)
    return f"{before:.4f} to {after:.4f}: {_gain(some):+.1%}"


def _gap(some: list[Outcome]) -> str:
    """In all the ways of epeer E12."""
    before, after = mean(some, lambda one: one.before.by_events), mean(some, lambda one: one.after.by_events)
    parts = [
        _gains(some),
        f"with who hears nothing as 0 {mean(some, lambda one: one.after.everybody):.3f}",
        f"by events {before:.3f} to {after:.3f}",
        f"utility delivered {mean(some, lambda one: one.after.utility_s / one.before.utility_s):.0%} of before",
        f"output {-mean(some, lambda one: one.output.share):.0%}",
        f"worse in {sum(one.gain < 0 for one in some)} runs",
    ]
    return "; ".join(parts)


def _of_experience(seen: Experience) -> dict[str, float]:
    return {
        "QoE": seen.heard,
        "QoE of all": seen.everybody,
        "QoE by events": seen.by_events,
        "utility, per s": seen.utility_s,
        "starved": float(seen.starved),
    }


def _figures_of(seen: Outcome) -> dict[str, float]:
    return {
        **{f"before {name}": value for name, value in _of_experience(seen.before).items()},
        **{f"after {name}": value for name, value in _of_experience(seen.after).items()},
        "output offered": seen.output.offered,
        "output admitted": seen.output.admitted,
        "output cut": seen.output.share,
        "output cut, capped": seen.output.capped_share,
        "input cut": seen.input.share,
        "matching cut": seen.matching.share,
        "highest output": seen.highest,
        "late or none": seen.late,
        "limits told, per s": seen.updates_s,
        "feedback": seen.feedback,
        "offloads": float(seen.offloads),
    }


def _means(found: dict[str, list[Outcome]]) -> dict[str, float]:
    return {
        f"{name} {key}": mean(some, lambda one, key=key: _figures_of(one)[key])  # type: ignore[misc]
        for name, some in found.items()
        for key in _figures_of(some[0])
    }


def _outputs(name: str, title: str, seen: Outcome) -> Figure:
    assert seen.trace is not None
    series = [Series(name=broker, x=seen.trace.at_s, y=values) for broker, values in seen.trace.output.items()]
    return Figure(name=name, title=title, x_label="s", y_label="", series=series)


def _experiences(name: str, title: str, seen: Outcome) -> Figure:
    assert seen.trace is not None
    lines: dict[str, Callable[[Experience], float]] = {
        "heard": lambda one: one.heard,
        "everybody": lambda one: one.everybody,
        "by events": lambda one: one.by_events,
    }
    series = [
        Series(name=label, x=seen.trace.at_s, y=[of(one) for one in seen.trace.experience])
        for label, of in lines.items()
    ]
    return Figure(name=name, title=title, x_label="s", y_label="", series=series)


def _sorted_gains(found: dict[str, list[Outcome]]) -> Figure:
    names = ("level 0.6", "level 0.3", "level 0.3 by publisher")
    series = [
        Series(
            name=name.removeprefix("level "),
            x=[float(at) for at in range(1, len(found[name]) + 1)],
            y=sorted(100 * one.gain for one in found[name]),
        )
        for name in names
    ]
    return Figure(
        name="b14-gains",
        title="B14: what the quality of experience gains (Fig. 5-9)",
        x_label="run, sorted",
        y_label="%",
        series=series,
    )
