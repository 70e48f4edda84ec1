"""Runs of channels, side by side: those that belong together as one job, each with an end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tidewire.model.errors import TidewireError, Unavailable
from tidewire.spark.channel_kinds import ChannelKind
from tidewire.spark.engine import Engine
from tidewire.spark.jobs import Job
from tidewire.spark.subscription_files import Waiting
from tidewire.spark.tasks import Answer

RUNS_AT_ONCE: Final = 4
RUN_S_MAX: Final = 60.0


class TookTooLong(Unavailable):
    """A run was called off."""


class Run:
    """Some channels of a kind, over what is new up to a version of their feed."""

    def __init__(self, kind: ChannelKind, names: list[str], upto: int) -> None:
        self.kind = kind
        self.names = names
        self.upto = upto
        self.version = upto
        """How far the feed had come."""
        self.job: Job | None = None

    def prepare(self, seen: dict[str, int], changed: Waiting) -> None:
        """The job: over all that is new, or as much of it as can be done."""
        self.upto = self.kind.reach(min(seen.values()), self.version)
        self.job = self.kind.job(seen, changed, upto=self.upto)

    def succeeded(self) -> bool:
        """Is that all? If not, there is more to do at once, and the next run may do more."""
        self.kind.rows_most = math.inf if self.upto == self.version else 2 * self.kind.rows_most
        return self.upto == self.version

    def can_be_less(self) -> bool:
        """It took too long: can it be done in smaller parts? Then the next run does half as much."""
        pieces = () if self.job is None else self.job.pieces
        if len({piece.version for piece in pieces}) < 2:
            return False
        self.kind.rows_most = max(1, sum(piece.count for piece in pieces) // 2)
        return True


class Runner:
    """Has them carried out."""

    def __init__(self, engine: Engine, *, run_s_max: float) -> None:
        self._engine = engine
        self._run_s_max = run_s_max
        self._threads = ThreadPoolExecutor(RUNS_AT_ONCE, thread_name_prefix="runs")

    def close(self) -> None:
        """When what is under way has ended."""
        self._threads.shutdown()

    async def answers(self, runs: Sequence[Run]) -> list[Answer]:
        """Within the time that they have; without subscriptions there is nothing to do."""
        jobs = [run.job for run in runs if run.job is not None and run.kind.files.rows]
        if not any(job.pieces for job in jobs):
            return [None] * len(runs)
        try:
            answers = dict(zip([job.kind for job in jobs], await self._in_time(jobs), strict=True))
        except TidewireError as error:
            return [error] * len(runs)
        return [answers.get(run.kind.id) for run in runs]

    async def _in_time(self, jobs: Sequence[Job]) -> list[Answer]:
        group = "+".join(job.kind for job in jobs)
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._engine.run, jobs, group)
        try:
            return await asyncio.wait_for(asyncio.shield(running), self._run_s_max)
        except TimeoutError:
            self._engine.call_off(group)
            await asyncio.gather(running, return_exceptions=True)
            raise TookTooLong(
                f"a run did not finish in {self._run_s_max:g} s: narrow the query, or make it run less often"
            ) from None
        except asyncio.CancelledError:
            running.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody asks any more
            self._engine.call_off(group)
            raise
