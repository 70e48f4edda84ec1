"""The query that stores what the feeds are sent: one for all of them, started again when it fails."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidewire.model.errors import Unavailable
from tidewire.spark import sink, source
from tidewire.spark.datasets import Warehouse

FAILED: Final = (PySparkException, Py4JError, OSError)


class IngestConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the query runs."""

    address: str
    """Of the feeds' server."""

    secret: str
    batch_events: int = source.BATCH_EVENTS_MAX
    period_s: float = 0.5
    """A micro-batch begins so often, if there is anything for it."""


class Ingest:
    """The query, while it runs."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, config: IngestConfig) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._config = config
        self._query: StreamingQuery | None = None
        spark.dataSource.register(source.FeedsSource)
        spark.dataSource.register(sink.DatasetsSink)

    def start(self) -> None:
        """Begin where the last one ended."""
        where = self._warehouse.options()
        reading = self._spark.readStream.format(source.NAME).options(**where)
        reading = reading.option("address", self._config.address).option("secret", self._config.secret)
        rows = reading.option("batch_events", str(self._config.batch_events)).load()
        writing = rows.writeStream.format(sink.NAME).options(**where).queryName("feeds")
        writing = writing.option("checkpointLocation", str(self._warehouse.checkpoint.resolve()))
        period = f"{int(self._config.period_s * 1000)} milliseconds"
        try:
            self._query = writing.trigger(processingTime=period).start()
        except FAILED as error:
            raise self._died(error) from None

    def failure(self) -> str | None:
        """Why it has ended, if it has; Unavailable if Spark itself has."""
        assert self._query is not None, "it was never started"
        try:
            if self._query.isActive:
                return None
            why = self._query.exception()
        except FAILED as error:
            raise self._died(error) from None
        return "it was stopped" if why is None else essence(str(why))

    def _died(self, error: Exception) -> Unavailable:
        reason = essence(str(error)) or type(error).__name__
        return Unavailable(f"Spark does not answer any more: {reason}; what it said is in {self._warehouse.log}")

    def stop(self) -> None:
        """End it; what is under way, or takes too long to end, is done again by the next one."""
        with suppress(*FAILED):
            if self._query is not None:
                self._query.stop()


def essence(text: str) -> str:
    """Of what Spark says, the line that says it: the last of a Python traceback, if there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("tidewire.", "deltalake.", "_internal.", "pyarrow."))]
    return (ours or lines or ["it does not say why"])[-1 if ours else 0][:1000]
