"""bad/X7 to X9: ten brokers, 10,000 subscribers, most of them near a few (Figs. 13, 14); beyond the paper, F1."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Final

from tidewire.benchmarks.progress import Tell
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.papers.bad import rates
from tidewire.papers.bad.measure import balanced_s, by_broker, cov, lines, mean, peak
from tidewire.papers.bad.scene import Run
from tidewire.papers.report import Claim, Figure, Options, Report, Series
from tidewire.placement.config import StageConfig
from tidewire.placement.loads import LoadSnapshot, Subscriber
from tidewire.placement.optimum import fewest_moves, smallest_max
from tidewire.placement.stages import Staged

BETA: Final = 300e6
ALPHAS: Final = (0.05, 0.1, 0.15, 0.2, 0.3)
QUICK: Final = 10
"""So many times fewer subscribers and subscriptions, for a tenth of the load."""
LATE_S: Final = 900.0
SMALL_WORLDS: Final = 200


class Scenes:
    """One workload; its runs."""

    def __init__(self, experiment: str, options: Options, tell: Tell) -> None:
        self._experiment = experiment
        self._seed = options.seed
        self._tell = tell
        self.scale = QUICK if options.is_quick else 1
        self._work = rates.workload(seed=options.seed, scale=self.scale)

    def run(self, policy: str, *, alpha: float = 0.15) -> Run:
        """With NR, and the paper's beta."""
        self._tell(f"{self._experiment} {policy} {alpha}", 0, 1)
        config = StageConfig(
            migrate_above=alpha, migrate_load_min=BETA / self.scale, shuffle_load_min=BETA / self.scale
        )
        return Run(self._work, place="nearest", policy=policy, config=config, seed=self._seed)

    def notes(self, run: Run) -> list[str]:
        """How it was done."""
        back, front = run.subscriptions
        sizes = run.looks[-1].subscribers
        found = [
            f"{len(sizes)} brokers, {sum(sizes):,} subscribers, seed {self._seed}",
            f"{back:,} back-end and {front:,} front-end subscriptions",
            "rates of Normal(20 KB/s, 5 KB/s), doubled while raised: bad §6.2, where the paper does not say",
            f"beta = theta = {BETA / self.scale / 1e6:g} MB/s, gamma 0.5",
        ]
        return [*found, f"{QUICK} times smaller in everything"] if self.scale > 1 else found


def balanced(options: Options, tell: Tell) -> Report:
    """X7."""
    scenes = Scenes("bad/X7", options, tell)
    runs = {policy: scenes.run(policy) for policy in ("never", "ldm", "gsh", "sticky")}
    sizes = [size * scenes.scale for size in runs["never"].looks[-1].subscribers]
    covs = {policy: mean([run], cov, since_s=LATE_S) for policy, run in runs.items()}
    first = min(look.at_s for look in runs["gsh"].looks if look.moves)
    ends = {policy: balanced_s(run) - first for policy, run in runs.items()}
    claims = [
        Claim(
            claim="NR skews: one broker has very many subscribers, some have few",
            paper="one above 2,000, some below 500",
            measured=f"{max(sizes):,}, and {sum(size < 500 for size in sizes)} below 500",
            tolerance="as in the paper",
            holds=max(sizes) > 2000 and sum(size < 500 for size in sizes) >= 2,
        ),
        Claim(
            claim="both schemes balance",
            paper="both",
            measured=f"cov {covs['ldm']:.3f} (LDM), {covs['gsh']:.4f} (GSH), without {covs['never']:.3f}",
            tolerance="at most alpha, where without it is more than three times as much",
            holds=max(covs["ldm"], covs["gsh"]) <= 0.15 < covs["never"] / 3,
        ),
        Claim(
            claim="GSH balances at once, and nobody has to move afterwards",
            paper="no further migration",
            measured=f"{sum(look.moves > 0 for look in runs['gsh'].looks)} plan, the last {ends['gsh']:.0f} s later",
            tolerance="one plan",
            holds=sum(look.moves > 0 for look in runs["gsh"].looks) == 1,
        ),
        Claim(
            claim="LDM takes longer",
            paper="longer",
            measured=f"{ends['ldm']:.0f} s until the last of {sum(look.moves > 0 for look in runs['ldm'].looks)} plans",
            tolerance="at least a minute more",
            holds=ends["ldm"] >= ends["gsh"] + 60,
        ),
    ]
    return Report(
        id="bad/X7",
        claims=claims,
        notes=scenes.notes(runs["never"]),
        measured=_measured(runs),
        figures=[
            lines("x7-cov", "X7: cov (Fig. 13)", "", runs, cov),
            lines("x7-max", "X7: highest load (Fig. 13)", "MB/s", runs, lambda look: peak(look) / 1e6),
            *(
                by_broker(
                    f"x7-subscribers-{policy}",
                    f"X7: subscribers, {policy}",
                    "",
                    run,
                    lambda look, j: look.subscribers[j],
                )
                for policy, run in runs.items()
                if policy != "sticky"
            ),
        ],
    )


def sensitive(options: Options, tell: Tell) -> Report:
    """X8."""
    scenes = Scenes("bad/X8", options, tell)
    runs = {f"ldm {alpha}": scenes.run("ldm", alpha=alpha) for alpha in (0.15, 0.05)} | {"gsh": scenes.run("gsh")}
    covs = {name: mean([run], cov, since_s=LATE_S) for name, run in runs.items()}
    peaks = {name: mean([run], peak, since_s=LATE_S) for name, run in runs.items()}
    claims = [
        Claim(
            claim="a smaller alpha gives a better balance",
            paper="alpha 0.05 below 0.15",
            measured=f"cov {covs['ldm 0.05']:.3f} and {covs['ldm 0.15']:.3f}",
            tolerance="less",
            holds=covs["ldm 0.05"] < covs["ldm 0.15"],
        ),
        Claim(
            claim="with alpha 0.05 LDM comes near GSH after a while",
            paper="reaches it",
            measured=f"cov {covs['ldm 0.05']:.3f} beside {covs['gsh']:.3f}, highest load"
            f" {peaks['ldm 0.05'] / peaks['gsh'] - 1:+.1%}",
            tolerance="cov within 0.05, highest load within 10 %",
            holds=covs["ldm 0.05"] - covs["gsh"] <= 0.05 and peaks["ldm 0.05"] <= 1.1 * peaks["gsh"],
        ),
    ]
    return Report(
        id="bad/X8",
        claims=claims,
        notes=scenes.notes(runs["gsh"]),
        measured=_measured(runs),
        figures=[lines("x8-cov", "X8: cov by alpha (Fig. 14)", "", runs, cov)],
    )


def cheaper(options: Options, tell: Tell) -> Report:
    """X9."""
    scenes = Scenes("bad/X9", options, tell)
    runs = {alpha: scenes.run("ldm", alpha=alpha) for alpha in ALPHAS}
    counts = [run.moves for run in runs.values()]
    claims = [
        Claim(
            claim="the smaller alpha is, the more subscribers are moved",
            paper="more migrations with a smaller alpha",
            measured=", ".join(f"{alpha}: {run.moves:,}" for alpha, run in runs.items()),
            tolerance="monotone",
            holds=all(one > other for one, other in pairwise(counts)),
        )
    ]
    moved = Series(name="ldm", x=list(ALPHAS), y=[float(count) for count in counts])
    return Report(
        id="bad/X9",
        claims=claims,
        notes=scenes.notes(runs[0.15]),
        measured=_measured({f"ldm {alpha}": run for alpha, run in runs.items()}),
        figures=[
            Figure(name="x9-moves", title="X9: migrations (Fig. 14)", x_label="alpha", y_label="", series=[moved])
        ],
    )


def frontier(options: Options, tell: Tell) -> Report:
    """F1: beyond the paper, what is gained for how many moves; and how far from the best that there is."""
    scenes = Scenes("bad/F1", options, tell)
    ldm = {alpha: scenes.run("ldm", alpha=alpha) for alpha in ALPHAS}
    others = {policy: scenes.run(policy) for policy in ("gsh", "sticky")}
    first = {policy: next(look for look in run.looks if look.moves) for policy, run in others.items()}
    share = first["sticky"].moves / first["gsh"].moves
    excess = first["sticky"].after.max / first["gsh"].after.max - 1
    tell("bad/F1 optimum", 0, 1)
    small = _small_worlds(options.seed)
    claims = [
        Claim(
            claim="the sticky shuffle is as even as GSH, with far fewer moves",
            paper="GSH moves nine in ten (bad §7)",
            measured=f"{first['sticky'].moves:,} moves beside {first['gsh'].moves:,} ({share:.0%}),"
            f" highest load {excess:+.2%}",
            tolerance="at most a third of the moves, at most 0.5 % more load",
            holds=share <= 1 / 3 and excess <= 0.005,
        ),
        Claim(
            claim="in small worlds it is near the optimum",
            paper="no comparison with the optimum",
            measured=f"highest load {small['sticky'] - 1:+.1%}; GSH {small['gsh'] - 1:+.1%},"
            f" LDM {small['ldm'] - 1:+.1%}, SDM {small['sdm'] - 1:+.1%}",
            tolerance="within 10 % on average",
            holds=small["sticky"] <= 1.1,
        ),
    ]
    frontier_of = [next(look for look in run.looks if look.moves) for run in ldm.values()]
    points = {
        "ldm": [(look.moves, look.after.max) for look in frontier_of],
        **{policy: [(0, look.after.max), (look.moves, look.after.max)] for policy, look in first.items()},
    }
    series = [
        Series(name=name, x=[float(moves) for moves, _ in some], y=[load / 1e6 for _, load in some])
        for name, some in points.items()
    ]
    return Report(
        id="bad/F1",
        claims=claims,
        notes=[
            *scenes.notes(others["gsh"]),
            f"small worlds: {SMALL_WORLDS} of 3 brokers and 10 subscribers, beside an exact search",
            "moves there: " + ", ".join(f"{name} {small[name]:.1f}" for name in small if name.endswith("moves")),
        ],
        measured=small | _measured(others),
        figures=[
            Figure(
                name="f1-frontier",
                title="F1: highest load after one plan, by its moves",
                x_label="moves",
                y_label="MB/s",
                series=series,
            )
        ],
    )


def _small_worlds(seed: int) -> dict[str, float]:
    """The highest load over the optimum's, on average; and how many move."""
    chance = Random(seed)
    config = StageConfig(migrate_above=0.0, migrate_load_min=0, shuffle_above=0.0, shuffle_load_min=0, sticky_cov=0.0)
    found: dict[str, list[float]] = {}
    for _ in range(SMALL_WORLDS):
        world = _small_world(chance)
        best = smallest_max(world)
        fewest = fewest_moves(world, max_load=best.max_load)
        assert fewest is not None
        found.setdefault("fewest moves", []).append(fewest.moves)
        for policy in ("ldm", "sdm", "gsh", "sticky"):
            plan = Staged(policy, config).plan(world, now_ns=Nanoseconds(0))
            found.setdefault(policy, []).append(plan.predicted.max / best.max_load)
            found.setdefault(f"{policy} moves", []).append(len(plan.moves))
    return {name: fmean(values) for name, values in found.items()}


def _small_world(chance: Random) -> LoadSnapshot:
    return LoadSnapshot(
        brokers=tuple(BrokerId(f"b{j}") for j in range(3)),
        rates=tuple(float(chance.randint(1, 40)) for _ in range(8)),
        subscribers=tuple(
            Subscriber(f"u{i}", int(3 * chance.random() ** 2), tuple(chance.sample(range(8), chance.randint(1, 4))))
            for i in range(10)
        ),
    )


def _measured(runs: dict[str, Run]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, run in runs.items():
        found[f"{name} cov"] = mean([run], cov, since_s=LATE_S)
        found[f"{name} max, MB/s"] = mean([run], peak, since_s=LATE_S) / 1e6
        found[f"{name} migrations"] = float(run.moves)
    return found
