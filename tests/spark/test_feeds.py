"""Feeds with a real broker, read as Spark's tasks read them: every event once, within a bound, after any restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import tidewire
from tests.integration.network import brokers, until
from tidewire.live.feed_server import FeedServer
from tidewire.live.feeds import Feed, FeedConfig
from tidewire.model.errors import NotAuthenticated, Unavailable, UnknownName
from tidewire.model.ids import PubendId, Tick
from tidewire.spark.datasets import Feed as Fed
from tidewire.spark.datasets import columns_of, declare
from tidewire.spark.reader import FeedReader
from tidewire.spark.rows import Block, rows_of
from tidewire.spark.source import FeedsReader
from tidewire.wire.feeds import Offsets, Read

SECRET = "s"
DECLARED = declare("d", columns_of("n bigint"), feed=Fed(wanted="class = 'R'", takes_others=True))


@asynccontextmanager
async def fed(at: str, settled: Offsets, *, held_bytes_max: int = 1 << 20) -> AsyncIterator[tuple[Feed, str]]:
    """A feed that follows, and where it is served."""
    places = {PubendId(int(stream, 16)): Tick(tick) for stream, tick in settled.get("f", {}).items()}
    feed = Feed(
        FeedConfig(name="dataset/d", wanted="class = 'R'"),
        [at],
        settled=places,
        say=lambda *_: None,
        held_bytes_max=held_bytes_max,
    )
    server = FeedServer(secret=SECRET)
    server.feeds["f"] = feed
    address = await server.start("127.0.0.1")
    running = asyncio.create_task(feed.run())
    try:
        yield feed, address
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await server.stop()


class Spark:
    """Asks as Spark's driver does, and reads as its tasks do."""

    def __init__(self, address: str) -> None:
        self._reader = FeedsReader({"address": address, "secret": SECRET, "root": ""})

    def batch(self, start: Offsets, limit: Any) -> tuple[Offsets, list[int]]:
        """The end of the next one, and what is in it."""
        end = self._reader.latestOffset(start, limit)
        return end, self.rows(start, end)

    def rows(self, start: Offsets, end: Offsets) -> list[int]:
        found: list[int] = []
        for partition in self._reader.partitions(start, end):
            for one in [row for batch in self._reader.read(partition) for row in batch.to_pylist()]:
                block = Block(one["stream"], one["first"], one["end"], one["batch"])
                found += rows_of(DECLARED, block)[0]["n"].to_pylist()
        return found

    def stop(self) -> None:
        self._reader.stop()


async def publish(at: str, numbers: range) -> None:
    async with tidewire.connect(at, guaranteed=True) as wire:
        await wire.publish_many({"class": "R", "n": n, "pad": "x" * 100} for n in numbers)


def test_more_than_there_is_room_for_comes_in_batches(tmp_path: Path) -> None:
    """What is not stored has a bound; as batches are stored the feed goes on, and the broker lets go of them."""

    async def act() -> None:
        async with brokers({"store": str(tmp_path)}) as [broker]:
            await publish(broker.address, range(4000))
            async with fed(broker.address, {}, held_bytes_max=50_000) as (feed, address):
                spark, got, start, most = Spark(address), list[int](), Offsets(), 0
                async with asyncio.timeout(60):
                    while len(got) < 4000:
                        most = max(most, feed.intake.held_bytes)
                        start, rows = await asyncio.to_thread(spark.batch, start, ReadMaxRows(500))
                        got += rows
                        await asyncio.sleep(0.01)
                assert got == list(range(4000))
                assert most < 50_000 + (512 << 10), "the bound, and what was read when it was met"
                await asyncio.to_thread(spark.batch, start, ReadAllAvailable())
                assert feed.intake.held_bytes == 0
                spark.stop()

    asyncio.run(act())


def test_a_stream_that_is_behind_what_is_stored_of_it_stops_the_feed(tmp_path: Path) -> None:
    """The broker's log is another one: rows that come now would be taken for some that are stored."""

    async def act() -> None:
        async with brokers({"store": str(tmp_path)}) as [broker]:
            await publish(broker.address, range(10))
            async with fed(broker.address, {}) as (feed, _):
                await until(lambda: feed.intake.events == 10)
                ((pubend, tick),) = feed.intake.reached().items()
            async with fed(broker.address, {"f": {f"{pubend:016x}": tick + 2**50}}) as (feed, _):
                await until(lambda: feed.error is not None)
                assert feed.error is not None
                assert f"the stream {pubend:016x} has gone back" in feed.error.message
                assert feed.intake.events == 0

    asyncio.run(act())


def test_a_batch_of_an_earlier_life_is_read_again_the_same(tmp_path: Path) -> None:
    """The process was killed before it was stored. Its events come again; later ones do not slip in."""

    async def act() -> None:
        async with brokers({"store": str(tmp_path)}) as [broker]:
            await publish(broker.address, range(1000))
            async with fed(broker.address, {}) as (feed, address):
                await until(lambda: feed.intake.events == 1000)
                spark = Spark(address)
                first, rows = await asyncio.to_thread(spark.batch, {}, ReadMaxRows(1))
                second, more = await asyncio.to_thread(spark.batch, first, ReadAllAvailable())
                assert rows + more == list(range(1000))
                spark.stop()
            await publish(broker.address, range(1000, 1500))
            async with fed(broker.address, first) as (feed, address):
                spark = Spark(address)
                assert await asyncio.to_thread(spark.rows, first, second) == more
                assert await asyncio.to_thread(spark.rows, {}, first) == [], "it is stored already"
                await until(lambda: feed.intake.events == 1500 - len(rows))
                _, last = await asyncio.to_thread(spark.batch, second, ReadAllAvailable())
                assert last == list(range(1000, 1500))
                spark.stop()

    asyncio.run(act())


def test_only_those_who_know_the_secret_read(tmp_path: Path) -> None:
    """And what is asked for must be there."""

    async def act() -> None:
        async with brokers({"store": str(tmp_path)}) as [broker], fed(broker.address, {}) as (_, address):

            def ask() -> None:
                with FeedReader(address, secret="t") as stranger, pytest.raises(NotAuthenticated):
                    stranger.latest({}, events_max=1)
                with FeedReader(address, secret=SECRET) as reader, pytest.raises(UnknownName):
                    reader.read(Read("g", "1", 0, 1))
                with pytest.raises(Unavailable):
                    FeedReader("127.0.0.1:1", secret=SECRET)

            await asyncio.to_thread(ask)

    asyncio.run(act())
