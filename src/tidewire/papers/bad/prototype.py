"""bad/X1 to X6: the emergencies of the prototype, with five brokers and 400 subscribers (Figs. 5 to 12).

The paper's test-bed is simulated, or live (``live.py``): its reports, channels and subscribers as bad §6.1 has them,
the coordinator's decisions by the code that serves users. Simulated runs with different seeds are averaged, as few
migrations leave much to chance; live there is one of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tidewire.benchmarks.progress import Tell
from tidewire.papers.bad import emergencies, live
from tidewire.papers.bad.measure import Run, by_broker, cov, lines, mean, moves, peak, total
from tidewire.papers.bad.scene import Run as Simulated
from tidewire.papers.bad.scene import Work
from tidewire.papers.report import Claim, Figure, Options, Report
from tidewire.placement.config import StageConfig

RUNS: Final = 20
QUICK_RUNS: Final = 6
SINCE_S: Final = emergencies.SUBSCRIBED_BY_S
"""From when on it is looked at: all subscriptions are made."""
NAMES: Final = {"random": "RND", "round-robin": "RR", "nearest": "NR", "least-loaded": "LL"}


class Scenes:
    """The same workloads under each placement and policy."""

    def __init__(self, experiment: str, options: Options, tell: Tell) -> None:
        self._experiment = experiment
        self._options = options
        self._tell = tell
        count = 1 if options.is_live else QUICK_RUNS if options.is_quick else RUNS
        self._seeds = range(options.seed, options.seed + count)
        self._works: list[Work] = [] if options.is_live else [emergencies.workload(seed=seed) for seed in self._seeds]
        self._played: dict[str, live.LiveRun] = {}
        self.config = StageConfig()

    @property
    def is_live(self) -> bool:
        """With processes, or simulated?"""
        return self._options.is_live

    @property
    def end_s(self) -> float:
        """When the last sixth of it begins."""
        is_short = self.is_live and self._options.is_quick
        return (live.QUICK_SECONDS if is_short else emergencies.SECONDS) * 5 / 6

    def run(self, place: str, policy: str, config: StageConfig | None = None) -> Sequence[Run]:
        """With every seed."""
        name = f"{self._experiment} {NAMES[place]} {policy}"
        if self.is_live:
            seed, is_quick = self._options.seed, self._options.is_quick
            run = live.played(
                place, policy, seed=seed, is_quick=is_quick, tell=lambda what: self._tell(f"{name}: {what}")
            )
            self._played[f"{NAMES[place]} + {policy}"] = run
            return [run]
        found = []
        for done, (seed, work) in enumerate(zip(self._seeds, self._works, strict=True)):
            self._tell(name, done, len(self._works))
            found.append(Simulated(work, place=place, policy=policy, config=config or self.config, seed=seed))
        return found

    def report(
        self,
        claims: list[Claim],
        *,
        notes: Sequence[str] = (),
        measured: Mapping[str, float],
        figures: list[Figure] | None = None,
        first: Run,
    ) -> Report:
        """All of it; live, with what was delivered and how."""
        return Report(
            id=self._experiment,
            claims=[*claims, *(_exact(name, run) for name, run in self._played.items())],
            notes=[*self._notes(first), *notes],
            measured={
                **measured,
                **{
                    f"{name} {what}": value
                    for name, run in self._played.items()
                    for what, value in run.measured.items()
                },
            },
            figures=figures or [],
        )

    def _notes(self, run: Run) -> list[str]:
        """How it was done."""
        back, front = run.subscriptions
        config = self.config
        if self.is_live:
            how = [
                *live.notes(run.looks[-1], is_quick=self._options.is_quick),
                *(f"{name}: {one.told()}" for name, one in self._played.items()),
            ]
            counted = f"one run of each, seed {self._seeds[0]}, over the time from {SINCE_S:.0f} s of the paper on"
        else:
            how = [f"simulated; 5 brokers, {len(self._works[0].people)} subscribers, {emergencies.REPORTS:,} reports"]
            counted = (
                f"means of {len(self._works)} runs from seed {self._seeds[0]} on, over the time from {SINCE_S:.0f} s on"
            )
        return [
            *how,
            f"{back} back-end and {front:,} front-end subscriptions in the first run",
            counted,
            f"alpha {config.migrate_above}, beta {config.migrate_load_min / 1000:g} KB/s",
            f"gamma {config.shuffle_above}, theta {config.shuffle_load_min / 1000:g} KB/s",
        ]


def _exact(name: str, run: live.LiveRun) -> Claim:
    """bad §4.5: also while subscribers are moved."""
    verdict = run.verdict
    return Claim(
        claim=f"{name}: every result comes to each subscriber exactly once",
        paper="(bad §4.5, ours) exactly once",
        measured=f"{verdict.results:,} results in {verdict.notifications:,} notifications; {verdict.missing} missing,"
        f" {verdict.twice} twice, {verdict.wrong + verdict.unknown} not due"
        + "".join(f"; {one}" for one in verdict.examples),
        tolerance="all that a second computation of the same joins gives, and nothing else",
        holds=verdict.is_exact,
    )


def _evened(runs: Mapping[str, Sequence[Run]], *, policy: str, place: str, paper: str) -> list[Claim]:
    """Less uneven, and a lower maximum, than without."""
    before, after = runs["never"], runs[policy]
    covs = [mean(some, cov, since_s=SINCE_S) for some in (before, after)]
    peaks = [mean(some, peak, since_s=SINCE_S) / 1000 for some in (before, after)]
    name = f"{NAMES[place]} + {policy.upper()}"
    return [
        Claim(
            claim=f"{name}: load is spread more evenly than without balancing",
            paper=paper,
            measured=f"cov {covs[1]:.3f}, without {covs[0]:.3f}",
            tolerance="a lower cov",
            holds=covs[1] < covs[0],
        ),
        Claim(
            claim=f"{name}: the most loaded broker has less to do",
            paper=paper,
            measured=f"{peaks[1]:.1f} KB/s, without {peaks[0]:.1f} KB/s",
            tolerance="less",
            holds=peaks[1] < peaks[0],
        ),
    ]


def _few(runs: Sequence[Run], *, policy: str, place: str) -> Claim:
    people = runs[0].looks[-1].subscribers
    count = moves(runs)
    return Claim(
        claim=f"{NAMES[place]} + {policy.upper()}: few subscribers are moved",
        paper="a few",
        measured=f"{count:.1f} of {sum(people)}",
        tolerance="at most 5 %",
        holds=count <= 0.05 * sum(people),
    )


def _mild(mark: str, place: str, options: Options, tell: Tell) -> Report:
    scenes = Scenes(f"bad/{mark}", options, tell)
    runs = {policy: scenes.run(place, policy) for policy in ("never", "ldm", "sdm")}
    claims: list[Claim] = []
    for policy in ("ldm", "sdm"):
        claims += _evened(runs, policy=policy, place=place, paper="lower, also under a slight imbalance")
        claims.append(_few(runs[policy], policy=policy, place=place))
    figures = _figures(mark, place, {policy: some[0] for policy, some in runs.items()})
    return scenes.report(claims, measured=_measured(runs), figures=figures, first=runs["never"][0])


def random(options: Options, tell: Tell) -> Report:
    """X1."""
    return _mild("X1", "random", options, tell)


def round_robin(options: Options, tell: Tell) -> Report:
    """X2."""
    return _mild("X2", "round-robin", options, tell)


def nearest(options: Options, tell: Tell) -> Report:
    """X3: an extreme imbalance is repaired by migration."""
    scenes = Scenes("bad/X3", options, tell)
    runs = {policy: scenes.run("nearest", policy) for policy in ("never", "ldm", "sdm")}
    alpha = scenes.config.migrate_above
    claims: list[Claim] = []
    for policy in ("ldm", "sdm"):
        claims += _evened(runs, policy=policy, place="nearest", paper="an extreme imbalance is repaired")
        before, after = (mean(runs[name], cov, since_s=scenes.end_s) for name in ("never", policy))
        claims.append(
            Claim(
                claim=f"NR + {policy.upper()}: what was extreme is about alpha in the end",
                paper="repaired",
                measured=f"cov {after:.3f}, without {before:.3f}",
                tolerance=f"at most alpha = {alpha}, and five times less than without",
                holds=after <= alpha and after < before / 5,
            )
        )
    figures = _figures("X3", "nearest", {policy: some[0] for policy, some in runs.items()})
    return scenes.report(claims, measured=_measured(runs), figures=figures, first=runs["never"][0])


def shuffled(options: Options, tell: Tell) -> Report:
    """X4: a shuffle that comes early saves migrations later."""
    scenes = Scenes("bad/X4", options, tell)
    runs = {policy: scenes.run("nearest", policy) for policy in ("ldm", "ldm-gsh", "sdm", "sdm-gsh")}
    notes = [] if scenes.is_live else [_by_the_letter(scenes)]
    claims = []
    for policy in ("ldm", "sdm"):
        without, later = moves(runs[policy]), moves(runs[f"{policy}-gsh"], without="gsh")
        covs = [mean(runs[name], cov, since_s=SINCE_S) for name in (policy, f"{policy}-gsh")]
        claims += [
            Claim(
                claim=f"NR + {policy.upper()} + GSH: an early shuffle saves migrations later",
                paper="fewer than with migration alone",
                measured=f"{later:.1f} after the shuffle, {without:.1f} without it",
                tolerance="fewer",
                holds=later < without,
            ),
            Claim(
                claim=f"NR + {policy.upper()} + GSH: at this scale little is gained beyond that",
                paper="not much",
                measured=f"cov {covs[1]:.3f}, without the shuffle {covs[0]:.3f}",
                tolerance="both at most alpha, and with the shuffle no more than without",
                holds=covs[1] <= covs[0] <= scenes.config.migrate_above,
            ),
        ]
    notes = ["our GSH gives those who get nothing yet to the broker with the fewest subscribers", *notes]
    figures = _figures("X4", "nearest", {policy: some[0] for policy, some in runs.items()})
    return scenes.report(claims, notes=notes, measured=_measured(runs), figures=figures, first=runs["ldm"][0])


def _by_the_letter(scenes: Scenes) -> str:
    printed = moves(scenes.run("nearest", "ldm-gsh", replace(scenes.config, spreads_idle=False)), without="gsh")
    return f"by the letter of the paper all go to one broker, and LDM moves {printed:.1f} after the shuffle"


def costs(options: Options, tell: Tell) -> Report:
    """X5: what the placement costs in migrations; and the placement that the paper rejects."""
    scenes = Scenes("bad/X5", options, tell)
    places = [place for place in NAMES if place != "least-loaded" or not scenes.is_live]
    runs = {(place, policy): scenes.run(place, policy) for place in places for policy in ("ldm", "sdm")}
    found = {both: moves(some) for both, some in runs.items()}
    claims = []
    for policy in ("ldm", "sdm"):
        others = max(found["random", policy], found["round-robin", policy])
        claims.append(
            Claim(
                claim=f"{policy.upper()}: NR needs many more migrations than RND and RR",
                paper="much higher",
                measured=", ".join(f"{NAMES[place]} {found[place, policy]:.1f}" for place in NAMES if place[0] != "l"),
                tolerance="more than five times as many",
                holds=found["nearest", policy] > 5 * others,
            )
        )
    if not scenes.is_live:
        claims.append(_crowded(scenes, found))
    measured = {f"migrations {NAMES[place]} + {policy.upper()}": count for (place, policy), count in found.items()}
    return scenes.report(claims, measured=measured, first=runs["random", "ldm"][0])


def _crowded(scenes: Scenes, found: Mapping[tuple[str, str], float]) -> Claim:
    crowd = scenes.run("least-loaded", "never")
    share = mean(crowd, lambda look: max(look.subscribers) / sum(look.subscribers), since_s=SINCE_S)
    return Claim(
        claim="LL: a crowd without subscriptions overloads the broker that had least to do",
        paper="does not perform well",
        measured=f"one of five has {share:.0%} of them; LDM then moves {found['least-loaded', 'ldm']:.0f}",
        tolerance="more than half of them, and more migrations than with NR",
        holds=share > 0.5 and found["least-loaded", "ldm"] > found["nearest", "ldm"],
    )


def similarity(options: Options, tell: Tell) -> Report:
    """X6: LDM beside SDM."""
    scenes = Scenes("bad/X6", options, tell)
    claims = []
    measured: dict[str, float] = {}
    found = {(place, policy): scenes.run(place, policy) for place in ("random", "nearest") for policy in ("ldm", "sdm")}
    for place in ("random", "nearest"):
        runs = {policy: found[place, policy] for policy in ("ldm", "sdm")}
        peaks = {policy: mean(some, peak, since_s=SINCE_S) / 1000 for policy, some in runs.items()}
        totals = {policy: mean(some, total, since_s=SINCE_S) / 1000 for policy, some in runs.items()}
        claims += [
            Claim(
                claim=f"{NAMES[place]}: LDM and SDM perform alike",
                paper="similar",
                measured=f"highest loads of {peaks['ldm']:.1f} and {peaks['sdm']:.1f} KB/s",
                tolerance="within 6 %",
                holds=abs(peaks["sdm"] / peaks["ldm"] - 1) <= 0.06,
            ),
            Claim(
                claim=f"{NAMES[place]}: SDM needs no more load in all, as it uses what is shared",
                paper="not given",
                measured=f"{totals['ldm']:.1f} (LDM) and {totals['sdm']:.1f} KB/s (SDM)",
                tolerance="SDM at most LDM, and 0.5 %",
                holds=totals["sdm"] <= 1.005 * totals["ldm"],
            ),
        ]
        measured |= {f"{NAMES[place]} {name}": value for name, value in _measured(runs).items()}
    return scenes.report(claims, measured=measured, first=found["random", "ldm"][0])


def _measured(runs: Mapping[str, Sequence[Run]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for policy, some in runs.items():
        found[f"{policy} cov"] = mean(some, cov, since_s=SINCE_S)
        found[f"{policy} max, KB/s"] = mean(some, peak, since_s=SINCE_S) / 1000
        found[f"{policy} migrations"] = moves(some)
    return found


def _figures(mark: str, place: str, runs: Mapping[str, Run]) -> list[Figure]:
    title = f"{mark}: {NAMES[place]}"
    shown = {
        "X1": "Figs. 5, 6",
        "X2": "Fig. 7",
        "X3": "Figs. 8, 10",
        "X4": "Figs. 9, 11",
    }[mark]
    by_name = mark.lower()
    return [
        lines(f"{by_name}-cov", f"{title}, cov ({shown})", "", runs, cov),
        lines(f"{by_name}-max", f"{title}, highest load ({shown})", "KB/s", runs, lambda look: peak(look) / 1000),
        *(
            by_broker(
                f"{by_name}-loads-{policy}",
                f"{title} + {policy}: load of each broker ({shown})",
                "KB/s",
                run,
                lambda look, j: look.after.loads[j] / 1000,
            )
            for policy, run in runs.items()
        ),
    ]
