"""Who carries out runs of channels? Spark: those that belong together as one job, which can be called off."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from pyspark.sql import SparkSession

from tidewire.model.errors import Unavailable
from tidewire.spark.ingest import FAILED, essence
from tidewire.spark.jobs import Job
from tidewire.spark.tasks import Answer, run_jobs


class Engine(Protocol):
    """What carries out runs."""

    def run(self, jobs: Sequence[Job], group: str) -> list[Answer]:
        """An answer to each; Unavailable says why there is none to any of them."""

    def call_off(self, group: str) -> None:
        """These runs take too long."""


class SparkEngine:
    """On Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(self, jobs: Sequence[Job], group: str) -> list[Answer]:
        """Of the thread that calls it, until they are done."""
        try:
            self._spark.sparkContext.setJobGroup(group, f"{len(jobs)} kinds of channels", interruptOnCancel=True)
            return run_jobs(self._spark, jobs)
        except FAILED as error:
            raise Unavailable(f"channels cannot run: {essence(str(error))}") from None

    def call_off(self, group: str) -> None:
        """Their tasks end; the processes that they ran in, too."""
        with suppress(*FAILED):
            self._spark.sparkContext.cancelJobGroup(group)
