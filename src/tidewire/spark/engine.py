"""Who carries out runs of channels? Spark; several kinds at once, each in a group of its own that can be called off."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from tidewire.model.errors import Unavailable
from tidewire.spark.ingest import FAILED, essence
from tidewire.spark.jobs import Job
from tidewire.spark.tasks import run_job


class Engine(Protocol):
    """What carries out runs."""

    def run(self, job: Job) -> pa.Table | None:
        """All results, by channel and subscription; None if there are none. Unavailable says why it failed."""

    def call_off(self, kind: str) -> None:
        """The run of this kind takes too long."""


class SparkEngine:
    """On Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(self, job: Job) -> pa.Table | None:
        """In a thread of its own."""
        self._spark.sparkContext.setJobGroup(job.kind, f"channels of kind {job.kind}", interruptOnCancel=True)
        try:
            return run_job(self._spark, job)
        except FAILED as error:
            raise Unavailable(f"a run of kind {job.kind} has failed: {essence(str(error))}") from None

    def call_off(self, kind: str) -> None:
        """Its tasks end; the processes that they ran in, too."""
        with suppress(*FAILED):
            self._spark.sparkContext.cancelJobGroup(kind)
