"""Many runs, paired by their seeds: done once for all experiments of one command that ask for the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final, TypeVar

from tidewire.benchmarks.progress import Tell
from tidewire.papers.epeer import bursts, damage
from tidewire.papers.epeer.workload import SHORT, THESIS, Phases
from tidewire.papers.parallel import run_all
from tidewire.papers.report import Options

RUNS: Final = 500
QUICK: Final = 12

Found = TypeVar("Found")

_DONE: Final[dict[object, object]] = {}


def runs(options: Options) -> int:
    """How many of each kind."""
    return options.runs or (QUICK if options.is_quick else RUNS)


def phases(options: Options) -> Phases:
    """When what begins."""
    return SHORT if options.is_quick else THESIS


def of_bursts(policy: str, options: Options, tell: Tell, *, is_smoothed: bool = True) -> list[bursts.Outcome]:
    """With resources to spare, under one policy."""
    wanted = [
        bursts.Run(policy=policy, seed=seed, is_smoothed=is_smoothed, phases=phases(options))
        for seed in _seeds(options)
    ]
    return _done(bursts.play, wanted, tell, stage=f"epeer {policy}")


def of_damage(options: Options, tell: Tell, **kind: object) -> list[damage.Outcome]:
    """With resources short, of one kind."""
    wanted = [
        damage.Run(seed=seed, phases=phases(options), **kind)  # type: ignore[arg-type]
        for seed in _seeds(options)
    ]
    words = " ".join(f"{name} {value}" for name, value in kind.items())
    return _done(damage.play, wanted, tell, stage=f"epeer {words}")


def _seeds(options: Options) -> range:
    return range(options.seed, options.seed + runs(options))


Run = TypeVar("Run", bursts.Run, damage.Run)


def _done(work: Callable[[Run], Found], wanted: Sequence[Run], tell: Tell, *, stage: str) -> list[Found]:
    missing = [one for one in wanted if one not in _DONE]
    _DONE.update(zip(missing, run_all(work, missing, tell, stage=stage), strict=True))
    return [_DONE[one] for one in wanted]  # type: ignore[misc]


def mean(found: Sequence[Found], of: Callable[[Found], float]) -> float:
    """On average."""
    return fmean([of(one) for one in found])
