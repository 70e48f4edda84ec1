"""The feeds as a streaming source of Spark: one for all of them, because every query costs, whatever it does.

A row is a part of a stream, with its events still encoded: the kernel decodes them where they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from tidewire.spark.datasets import Warehouse
from tidewire.spark.reader import FeedReader
from tidewire.spark.sink import SCHEMA, stored
from tidewire.wire.feeds import Offsets, Read

NAME: Final = "tidewire_feeds"
BATCH_EVENTS_MAX: Final = 500_000
"""Of each feed in a micro-batch."""
PIECE_EVENTS_MAX: Final = 100_000
"""In a task."""


class FeedsSource(DataSource):
    """Options: ``address`` and ``secret`` of the feeds' server, ``root`` and ``root_secret`` of the tables,
    ``batch_events``."""

    @classmethod
    def name(cls) -> str:
        """What to ask Spark for."""
        return NAME

    def schema(self) -> str:
        """Parts of streams."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        """One for all feeds."""
        return FeedsReader(dict(self.options))


class _Piece(InputPartition):
    """What one task reads."""

    def __init__(self, value: tuple[str, str, int, int]) -> None:
        super().__init__(value)


class FeedsReader(DataSourceStreamReader):
    """Offsets are ticks, by feed and stream."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._batch_events_max = int(options.get("batch_events", BATCH_EVENTS_MAX))
        self._asked: FeedReader | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_asked": None}

    @property
    def _feeds(self) -> FeedReader:
        if self._asked is None:
            self._asked = FeedReader(self._options["address"], secret=self._options["secret"])
        return self._asked

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Without a checkpoint: the tables know how far each stream is stored."""
        return stored(Warehouse.of(self._options))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """So many events of each feed in a micro-batch."""
        return ReadMaxRows(self._batch_events_max)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """As far as events have come, within the limit.

        Who asks has committed all below ``start``: brokers need hold it no longer, and there is room for more. Spark
        says so by ``commit`` too, but only when there is another batch, and without room there is none.
        """
        self._feeds.settle(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else 2**62
        return self._feeds.latest(start, events_max=most)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """What tasks read."""
        pieces = self._feeds.divide(start, end, events_max=PIECE_EVENTS_MAX)
        return [_Piece((piece.feed, piece.stream, piece.first, piece.end)) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One part of a stream, fetched where the task runs."""
        feed, stream, first, end = partition.value
        with FeedReader(self._options["address"], secret=self._options["secret"]) as feeds:
            batch, gaps = feeds.read(Read(feed, stream, first, end))
        flat = [tick for gap in gaps for tick in gap]
        yield pa.RecordBatch.from_pydict(
            {"feed": [feed], "stream": [stream], "first": [first], "end": [end], "gaps": [flat], "batch": [batch]},
            schema=ARROW_SCHEMA,
        )

    def stop(self) -> None:
        """No more questions."""
        if self._asked is not None:
            self._asked.close()


ARROW_SCHEMA: Final = pa.schema(
    [
        pa.field("feed", pa.string()),
        pa.field("stream", pa.string()),
        pa.field("first", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("gaps", pa.list_(pa.int64())),
        pa.field("batch", pa.binary()),
    ]
)
