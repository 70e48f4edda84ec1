"""Spark, started and ended: on this machine alone unless it is configured otherwise."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from py4j.protocol import Py4JError
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidewire.model.errors import BadConfiguration, Unavailable
from tidewire.spark.java import java_version

LOCAL: Final = "local[*,4]"
"""All cores of this machine, and four tries for each task: without a number of tries Spark makes one."""

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")


class SparkConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How Spark runs."""

    master: str = LOCAL
    """``local[*,4]``, or a standalone cluster: ``spark://host:port``."""

    host: str = "127.0.0.1"
    """What everything of this process is bound to; executors on other hosts must reach it."""

    memory: str = "1g"
    """Of the process that drives it, and of each executor."""

    log: Path
    """What Spark has to say goes there."""

    java_home: str | None = None


def open_session(config: SparkConfig, *, tell: Callable[[str], None]) -> SparkSession:
    """Start Spark; it takes some seconds. Unavailable says why it cannot be had."""
    if not config.master.startswith(("local", "spark://")):
        raise BadConfiguration(f"master {config.master!r}: it is local[*,4] or the like, or spark://host:port")
    version = java_version(config.java_home)
    config.log.parent.mkdir(parents=True, exist_ok=True)
    tell(f"Spark starts, on Java {version}: {config.master}")
    # Read by Spark's own scripts and by the processes that it starts, so there is no other way to say it.
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable, SPARK_LOCAL_IP=config.host)
    builder = SparkSession.Builder().master(config.master).appName("tidewire")
    for name, value in _settings(config).items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unavailable(f"Spark does not start: {reason}; what it said is in {config.log}") from None
    _keep_threads_quiet(config.log)
    tell(f"Spark {spark.version} is there")
    return spark


def _keep_threads_quiet(log: Path) -> None:
    """When Spark dies, each thread that talks to it has a traceback: they are for the log. Who notices says it once."""
    logging.basicConfig(filename=log, level=logging.WARNING)

    def noted(_server: object, _request: object, address: object) -> None:
        logging.getLogger(__name__).warning("the connection of %s for counters has ended", address)

    # As it stands it prints to standard error.
    AccumulatorTCPServer.handle_error = noted  # type: ignore[assignment,method-assign]


def close_session(spark: SparkSession) -> None:
    """End it; one that has died is ended already."""
    with suppress(PySparkException, Py4JError, OSError):
        spark.stop()


def _settings(config: SparkConfig) -> dict[str, str]:
    # Spark's own work is small here: what it would gain by compiling longer and collecting side by side costs more.
    java = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    logging = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} -Dtidewire.log={config.log}"
    return {
        "spark.driver.host": config.host,
        "spark.driver.bindAddress": config.host,
        "spark.driver.memory": config.memory,
        "spark.executor.memory": config.memory,
        "spark.driver.extraJavaOptions": f"{java} {logging}",
        "spark.executor.extraJavaOptions": java,
        # No kind of channel, nor the feeds, waits until another one is done.
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stopTimeout": "10s",
        # A batch without events tells nobody anything, and costs a checkpoint.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.pollingDelay": "10ms",
        "spark.python.worker.reuse": "true",
    }
