"""Many runs of an experiment, as many at once as there are cores, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from os import cpu_count
from typing import TypeVar

from tidewire.benchmarks.progress import Tell

Given = TypeVar("Given")
Found = TypeVar("Found")


def run_all(
    work: Callable[[Given], Found], runs: Sequence[Given], tell: Tell, *, stage: str, at_once: int | None = None
) -> list[Found]:
    """What came of each, in their order. ``work`` is a function of a module, so that another process can find it."""
    workers = min(len(runs), at_once or cpu_count() or 1)
    if workers <= 1:
        found = []
        for number, run in enumerate(runs):
            tell(stage, number, len(runs))
            found.append(work(run))
        return found
    # Nothing is inherited, so that a run is the same wherever it is done.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(work, run) for run in runs]
        for done, _ in enumerate(as_completed(futures), 1):
            tell(stage, done, len(runs))
        return [future.result() for future in futures]
