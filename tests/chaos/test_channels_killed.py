"""Every result of a channel comes once, whatever is killed in the middle of a batch: the driver of Spark, executors of
a standalone cluster, brokers. With `make chaos`; what is short is in tests/spark."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import tidewire
from tests.chaos.emergency_city import CHANNELS, COLUMNS, City, Told
from tests.chaos.network import EDGES, HEADS, Brokers
from tests.chaos.standalone import Standalone
from tests.spark.s3 import S3
from tests.spark.test_datacluster import START_S, Node, run
from tidewire.benchmarks.processes import free_port

SECONDS = float(os.environ.get("TIDEWIRE_CHAOS_S", "30"))
SEED = int(os.environ.get("TIDEWIRE_CHAOS_SEED", "1"))
TABLES = os.environ.get("TIDEWIRE_CHAOS_TABLES", "folder")
"""Or s3: a store that the workers' machines know nothing of, but what the node tells their executors."""
PEOPLE = 30
BATCH, PAUSE_S = 40, 0.2
AGAIN_S = (3.0, 8.0)
"""Between two deaths: long enough that most of what was killed is at work again."""
VICTIMS = ("executor", "executor", "broker", "broker", "driver", "node")


class Person:
    """One session with all channels; every third is there by a name."""

    def __init__(self, city: City, number: int, brokers: Brokers) -> None:
        self._city = city
        self._number = number
        edges = EDGES if number % 2 else EDGES[::-1]
        self._at = [brokers.addresses[name] for name in edges]
        self.told: dict[str, Told] = {channel: Counter() for channel in CHANNELS}
        self.lost = 0
        self.hears = asyncio.Event()

    async def listen(self, ready: asyncio.Barrier, over: asyncio.Event) -> None:
        """Until it is over."""
        async with tidewire.connect(self._at, timeout=120) as wire, AsyncExitStack() as stack:
            for channel, given in self._city.wanted(self._number).items():
                name = f"p{self._number}" if self._number % 3 == 0 else None
                subscription = wire.channel(channel, given, name=name, callback=self._heard)
                await stack.enter_async_context(subscription)
            await ready.wait()
            await over.wait()
            self.lost = sum(notice.what == "results lost" for notice in wire.notices)

    def _heard(self, found: Any) -> None:
        self.hears.set()
        columns = COLUMNS[found.channel]
        self.told[found.channel].update(tuple(row[name] for name in columns) for row in found.rows)

    def lacks(self, owed: dict[str, Told]) -> int:
        """So many results have not come."""
        return sum((owed[channel] - self.told[channel]).total() for channel in CHANNELS)


async def declared(city: City, folder: Path, tell: Callable[..., Any], tables: str) -> None:
    """The datasets, with what is loaded into them."""
    where = ("--folder", tables)
    place = "lat double, lon double"
    feed = ("--feed", "class = 'REPORT'", "--others")
    await tell("dataset", "create", "EmergencyReports", f"id bigint, type string, {place}", *feed, *where)
    for name, columns, rows in (
        ("UserLocations", f"user string, street string, {place}", city.people),
        ("Shelters", f"name string, {place}", city.shelters),
    ):
        await tell("dataset", "create", name, columns, *where)
        file = folder / f"{name}.json"
        file.write_text("\n".join(map(json.dumps, rows)))
        await tell("dataset", "load", name, str(file), *where)


async def publish(city: City, brokers: Brokers, over: asyncio.Event) -> None:
    """Guaranteed reports, some every moment."""
    async with tidewire.connect([brokers.addresses[one] for one in HEADS], guaranteed=True, timeout=120) as wire:
        while not over.is_set():
            await wire.publish_many(city.report(BATCH))
            await asyncio.sleep(PAUSE_S)


async def suffer(
    chance: Random, spark: Standalone, node: Node, brokers: Brokers, people: list[Person], *, seconds: float
) -> Counter[str]:
    """One after the other is killed at its work, and starts again."""
    clock, deaths = asyncio.get_running_loop(), Counter[str]()
    end, order = clock.time() + seconds, list[str]()
    while clock.time() < end or set(VICTIMS) - set(deaths):
        order = order or chance.sample(VICTIMS, len(VICTIMS))
        victim = order.pop()
        match victim:
            case "executor":
                await spark.kill_an_executor(within_s=20.0)
            case "driver":
                node.kill_java()
                assert await node.ended() == 2
                await node.start()
            case "node":
                await node.end(signal.SIGKILL, group=True)
                if TABLES != "folder":
                    node.flags[-1] += "-elsewhere"  # its --state: on another machine, which waits for the lease
                await node.start()
            case "broker":
                await kill_broker(chance, brokers, people)
        deaths[victim] += 1
        await asyncio.sleep(chance.uniform(*AGAIN_S))
    return deaths


async def kill_broker(chance: Random, brokers: Brokers, people: list[Person]) -> None:
    """While results of a run go out: somebody has just heard, others have not."""
    person = chance.choice(people)
    person.hears.clear()
    try:
        async with asyncio.timeout(60):
            await person.hears.wait()
    finally:
        name = chance.choice([*EDGES, *HEADS])
        brokers.kill(name)
        await asyncio.sleep(chance.choice((0.0, 0.5, 2.0)))
        brokers.start(name)


def test_every_result_comes_once_whatever_is_killed(tmp_path: Path) -> None:
    """bad §1.1, §4.5: publish, feed, join, notify on a standalone cluster; driver, executors and brokers are killed at
    their work, and everybody is told exactly what plain loops over the same data find."""
    chance, cluster = Random(SEED), f"127.0.0.1:{free_port()}"
    city, brokers = City(Random(SEED), people=PEOPLE), Brokers(tmp_path, data_cluster=cluster)
    people = [Person(city, number, brokers) for number in range(PEOPLE)]
    owed: list[dict[str, Told]] = []

    async def act() -> None:
        async with AsyncExitStack() as stack:
            env, tables = None, str(tmp_path / "data")
            if TABLES == "s3":
                store = S3(tmp_path)
                stack.callback(store.stop)
                env, tables = store.environment(), store.url()
            await declared(city, tmp_path, partial(run, env=env), tables)
            spark, node = Standalone(tmp_path), Node(tables, brokers.addresses["head1"])
            node.env = env
            stack.callback(spark.stop)
            await spark.start()
            stack.push_async_callback(node.gone)
            node.flags += ["--at", brokers.addresses["head2"], "--master", spark.address, "--listen", cluster]
            node.flags += ["--state", str(tmp_path / "data")]
            await node.start()
            for text in CHANNELS.values():
                await run("channel", "create", text, "--data-cluster", cluster)
            for broker in EDGES:
                await node.until_said("broker attached", broker=broker)
            await story(spark, node)

    async def story(spark: Standalone, node: Node) -> None:
        ready, over, enough = asyncio.Barrier(PEOPLE + 1), asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for person in people:
                tasks.create_task(person.listen(ready, over))
            async with asyncio.timeout(START_S):
                await ready.wait()
            writing = tasks.create_task(publish(city, brokers, enough))
            deaths = await suffer(chance, spark, node, brokers, people, seconds=SECONDS)
            enough.set()
            await writing
            owed.extend(city.owed(number) for number in range(PEOPLE))
            async with asyncio.timeout(START_S):
                while any(person.lacks(one) for person, one in zip(people, owed, strict=True)):
                    await asyncio.sleep(0.5)
            await asyncio.sleep(5)  # what came twice would be here by now
            over.set()
        told = sum(one.total() for person in people for one in person.told.values())
        at_work = f"{spark.kills_at_work} executors at work"
        print(f"killed: {dict(deaths)}, {at_work}; {len(city.reports)} reports, {told} results told")
        assert spark.kills_at_work > 0

    brokers.start_all()
    try:
        asyncio.run(act())
    finally:
        brokers.stop_all()
    assert [person.told for person in people] == owed
    assert [person.lost for person in people] == [0] * PEOPLE
    assert all(person.told[channel] for person in people for channel in ("of_type", "near_me", "shelter"))
