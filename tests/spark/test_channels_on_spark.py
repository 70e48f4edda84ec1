"""Channels on a real Spark: its answers are the evaluator's, a run that never ends is called off, and results come once
though the process is killed."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from pyspark.sql import SparkSession

import tidewire
from tests.channels.emergencies import SEVEN, emergencies
from tests.channels.test_plans import conditions, joins, reports, values, zones
from tests.integration.test_commands import free_ports, process_with, type_all, typed_hints, until_gone
from tests.spark.bench import KindBench, counted, fed_rows
from tests.spark.s3 import S3
from tests.spark.test_datacluster import START_S, Node, has_java, run
from tests.spark.test_kinds import query, selections
from tidewire.benchmarks.processes import process_tree
from tidewire.channels.declaration import declare
from tidewire.channels.evaluator import evaluate
from tidewire.channels.kinds import member_of_kind
from tidewire.channels.plans import choose_plan
from tidewire.channels.schemas import Row
from tidewire.live.credentials import Credentials
from tidewire.model.errors import Unavailable
from tidewire.model.values import Value
from tidewire.spark.engine import SparkEngine
from tidewire.spark.jobs import Changes, Job
from tidewire.spark.session import SparkConfig, close_session, open_session

CATALOG = emergencies()
Asked = tuple[str, tuple[Value, ...]]
queries = st.tuples(st.builds(query, joins, conditions, selections), values)
OF = (
    "create channel of(who string) period 1s on new readings as select r.n, h.floor from readings r"
    " join homes h on h.who = r.who where r.who = :who"
)
needs_java = pytest.mark.skipif(
    not has_java() and os.environ.get("CI") != "true", reason="there is no Java: make setup"
)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One for all tests."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    session = open_session(SparkConfig(log=log, java_home=os.environ.get("JAVA_HOME")), tell=lambda _: None)
    yield session
    close_session(session)


def city(random: Random) -> dict[str, list[Row]]:
    """Reports, and what is joined with them."""

    def place() -> dict[str, Any]:
        return {"lat": random.uniform(60.0, 60.05), "lon": random.uniform(25.0, 25.1)}

    kinds = ("fire", "flood", "storm", None)
    return {
        "EmergencyReports": [{"id": n, "type": random.choice(kinds), "zone": "z", **place()} for n in range(60)],
        "UserLocations": [{"user": f"u{n}", **place()} for n in range(10)],
        "Shelters": [{"name": f"s{n}", **place()} for n in range(5)],
    }


def offered(random: Random, text: str) -> tuple[Value, ...]:
    """What a subscription to one of the seven channels gives."""
    names = {
        "type": random.choice(("fire", "flood")),
        "me": f"u{random.randrange(12)}",
        "km": random.choice((1.0, 3.0)),
    }
    names |= {"lat": random.uniform(60.0, 60.05), "lon": random.uniform(25.0, 25.1)}
    return tuple(names[one.name] for one in declare(text, CATALOG).parameters)


@pytest.mark.slow
@needs_java
def test_spark_answers_as_the_evaluator_does(spark: SparkSession, tmp_path: Path) -> None:
    """bad §6.1: the seven channels, all kinds in one job, with groups and joins; one that fails hurts no other."""
    random, rows = Random(7), city(Random(5))
    benches, expected = [], []
    for text in SEVEN:
        declaration = declare(text, CATALOG)
        member = member_of_kind(declaration)
        bench = KindBench(tmp_path, CATALOG, member, choose_plan(member.kind, CATALOG))
        others = [rows[source.dataset] for source in declaration.query.sources[1:]]
        wanted: dict[int, Counter[Any]] = {}
        for number in range(20):
            values_given = offered(random, text)
            bench.subscribe(number, member.row_values(values_given))
            found = evaluate(declaration.query, fed_rows(rows["EmergencyReports"]), others, values_given)
            if found:
                wanted[number] = Counter(row.cells for row in found)
        benches.append((bench, bench.job(rows["EmergencyReports"], others)))
        expected.append(wanted)
    jobs = [job for _, job in benches]
    broken = Job(**{**_fields(jobs[0]), "kind": "broken", "pieces": (_moved(jobs[0]),)})
    answers = SparkEngine(spark).run([*jobs, broken], "test")
    assert [counted(bench.plan, found) for (bench, _), found in zip(benches, answers, strict=False)] == expected
    assert all(expected)
    assert isinstance(answers[-1], Unavailable)
    assert "FileNotFoundError" in answers[-1].message


@pytest.mark.slow
@needs_java
@settings(max_examples=max(5, settings().max_examples // 10))
@given(asked=st.lists(queries, min_size=4, max_size=8), new=st.lists(reports, max_size=6), standing=st.lists(zones))
def test_spark_answers_random_queries_as_the_evaluator_does(
    spark: SparkSession, asked: list[Asked], new: list[Row], standing: list[Row]
) -> None:
    """Some kinds at a time, as one job: every one gets its own answer."""
    with TemporaryDirectory() as folder:
        benches, expected = [], []
        for text, offer in asked:
            declaration = declare(text, CATALOG)
            member = member_of_kind(declaration)
            bench = KindBench(Path(folder), CATALOG, member, choose_plan(member.kind, CATALOG))
            bench.subscribe(1, member.row_values(offer))
            found = evaluate(declaration.query, fed_rows(new), [standing], offer)
            expected.append({1: Counter(row.cells for row in found)} if found else {})
            benches.append((bench, bench.job(new, [standing])))
        answers = SparkEngine(spark).run([job for _, job in benches], "random")
        assert [counted(bench.plan, one) for (bench, _), one in zip(benches, answers, strict=True)] == expected


@pytest.mark.slow
@needs_java
def test_a_run_that_never_ends_is_called_off(spark: SparkSession, tmp_path: Path) -> None:
    """Its task waits for ever for a file; it ends with an error, and the next run has its answer."""
    declaration = declare(SEVEN[0], CATALOG)
    member = member_of_kind(declaration)
    bench = KindBench(tmp_path, CATALOG, member, choose_plan(member.kind, CATALOG))
    bench.subscribe(1, member.row_values(("fire",)))
    job, engine = bench.job(city(Random(5))["EmergencyReports"], []), SparkEngine(spark)
    os.mkfifo(tmp_path / "never")
    waits = structs.replace(job.subscriptions, changes=(Changes(str(tmp_path / "never"), 1, 1),))
    endless = structs.replace(job, kind="endless", subscriptions=waits)
    tracker = spark.sparkContext.statusTracker()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(engine.run, [endless], "endless")
        until_s = time.monotonic() + START_S
        while not _active_tasks(tracker):
            assert time.monotonic() < until_s
            time.sleep(0.05)
        engine.call_off("endless")
        with pytest.raises(Unavailable, match="channels cannot run"):
            running.result(START_S)
    [answer] = engine.run([job], "after it")
    assert counted(bench.plan, answer if isinstance(answer, pa.Table) else None)[1]


def _active_tasks(tracker: Any) -> int:
    """Of the job that never ends."""
    jobs = [tracker.getJobInfo(one) for one in tracker.getJobIdsForGroup("endless")]
    stages = [tracker.getStageInfo(one) for job in jobs for one in job.stageIds]
    return sum(one.numActiveTasks for one in stages if one is not None)


def _fields(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in job.__struct_fields__}


def _moved(job: Job) -> Any:
    return type(job.pieces[0])("/nowhere.parquet", 1, 0, 1)


class Up(Node):
    """`tidewire up --secure --data-cluster` with one edge, in a folder of its own."""

    command = "up"

    def __init__(self, folder: Path, *more: str) -> None:
        self.cwd = folder
        self.port = free_ports(4)
        super().__init__(folder, "")
        self.flags = ["--secure", "--data-cluster", "--no-console", "--edges", "1", "--port", str(self.port), "--json"]
        self.flags += more

    async def gone(self) -> None:
        """Its nodes end with it."""
        if self.process is not None and self.process.returncode is None:
            await self.end(signal.SIGINT)

    def connect(self, **options: Any) -> tidewire.Wire:
        """With what it left for those in its folder."""
        assert self.cwd is not None
        keys = self.cwd / ".tidewire" / "security"
        shown = Credentials(token=(keys / "first.token").read_text().strip(), authority=keys / "authority.pem")
        return tidewire.connect(f"tidewires://127.0.0.1:{self.port}", credentials=shown, **options)


@pytest.mark.slow
@needs_java
@pytest.mark.parametrize("where", ["folder", "s3"])
def test_each_result_comes_once_though_the_data_cluster_and_a_broker_are_killed(
    tmp_path: Path, request: pytest.FixtureRequest, where: str
) -> None:
    """bad §1.1: publish, feed, join, notification, in a network in one terminal, secured, with nothing more to set but
    where the tables are; kill -9 the data cluster in between, then the subscriber's broker, while it tells what was
    found: both are started again at the same address. `make chaos` kills executors too, and more often."""
    store: S3 | None = None if where == "folder" else request.getfixturevalue("s3")
    env = None if store is None else store.environment()
    tell = partial(run, cwd=tmp_path, env=env)

    async def act() -> None:
        async with AsyncExitStack() as stack:
            up = Up(tmp_path, *(() if store is None else ("--tables", store.url())))
            up.env = env
            stack.push_async_callback(up.gone)
            await up.start()
            await declared(tell, tmp_path)
            for broker in ("head", "edge1"):
                await up.until_said("broker attached", broker=broker)
            async with up.connect(guaranteed=True) as publisher, up.connect() as reader:
                async with reader.channel("of", who="w3") as mine:
                    assert Counter(await story(up, publisher, mine)) == Counter((n, 6) for n in range(3, 3000, 10))
            await until_shown(tell, "latest", {"rows": 10, "set_aside": {"malformed": 1}})
            shown = await tell("dataset", "show", "latest")
            assert sorted(row["n"] for row in shown["newest"]) == list(range(2990, 3000))
            if store is not None:
                assert not (tmp_path / ".tidewire" / "data" / "datasets").exists()
                refuse_shown(store.options["AWS_SECRET_ACCESS_KEY"], up, tmp_path)
            assert await up.end(signal.SIGINT) == 0

    async def story(up: Up, publisher: tidewire.Wire, mine: Any) -> list[tuple[int, int]]:
        await publisher.publish({"class": "R", "n": "many", "who": "w3"})
        await publisher.publish_many({"class": "R", "n": n, "who": f"w{n % 10}"} for n in range(1000))
        got = await told(mine, 50)
        health = await tell("doctor")
        [channels] = [one["message"] for one in health["findings"] if one["check"] == "channels"]
        assert channels == "2 brokers reach the data cluster: 1 channels, 1 subscriptions that share 1"
        up.said.clear()
        os.killpg(process_with(f"datacluster --json --at tidewires://127.0.0.1:{up.port}"), signal.SIGKILL)
        await publisher.publish_many({"class": "R", "n": n, "who": f"w{n % 10}"} for n in range(1000, 2000))
        await up.until_said("datacluster")
        got += await told(mine, 200 - len(got))
        publishing = asyncio.create_task(
            publisher.publish_many({"class": "R", "n": n, "who": f"w{n % 10}"} for n in range(2000, 3000))
        )
        got += await told(mine, 1)
        os.kill(process_with(f"--name edge1 --listen 127.0.0.1:{up.port + 1}"), signal.SIGKILL)
        await publishing
        return got + await told(mine, 300 - len(got))

    asyncio.run(act())


async def declared(tell: Callable[..., Any], folder: Path) -> None:
    """One dataset of all readings, one of the last of each, one that is loaded, and a channel over two of them."""
    feed = ("--feed", "class = 'R'", "--others")
    await tell("dataset", "create", "readings", "n bigint, who string", *feed)
    await tell("dataset", "create", "latest", "who string, n bigint", "--key", "who", *feed)
    await tell("dataset", "create", "homes", "who string, floor bigint")
    file = folder / "homes.csv"
    file.write_text("who,floor\n" + "".join(f"w{n},{2 * n}\n" for n in range(10)))
    assert (await tell("dataset", "load", "homes", str(file)))["loaded"] == 10
    await tell("channel", "create", OF)


async def until_shown(tell: Callable[..., Any], name: str, wanted: dict[str, Any]) -> None:
    """What comes last is stored a moment later."""
    async with asyncio.timeout(START_S):
        while not wanted.items() <= (await tell("dataset", "show", name, "--count", "1")).items():
            await asyncio.sleep(0.5)


def refuse_shown(secret: str, up: Up, folder: Path) -> None:
    """In a list of processes, in a file, in what was said."""
    assert up.process is not None
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in process_tree(up.process.pid)]
    assert any(b"org.apache.spark" in one for one in commands)
    files = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    assert not [one for one in (*commands, *files, str(up.said).encode()) if secret.encode() in one]


async def told(subscription: Any, least: int) -> list[tuple[int, int]]:
    """At least so many results."""
    got: list[tuple[int, int]] = []
    while len(got) < least:
        got += [(row["n"], row["floor"]) for row in (await subscription.get(START_S)).rows]
    return got


@pytest.mark.slow
@needs_java
def test_what_up_says_of_channels_can_be_typed_and_killed_it_leaves_no_spark_behind(tmp_path: Path) -> None:
    """With a state in another place. Java and its workers end with the data cluster, that with who started it."""
    flags = ["--data-cluster", "--no-console", "--edges", "0", "--state", "kept", "--port", str(free_ports(3))]
    with subprocess.Popen(
        [sys.executable, "-m", "tidewire", "up", *flags], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as up:
        first = typed_hints(up, "tidewire pub")
        lines = typed_hints(up, "--guaranteed")
        assert first[0] == lines[0] == "export TIDEWIRE_PROFILE=kept/client.toml"
        type_all([one + " --seconds 0.1" if "subscribe" in one else one for one in lines], folder=tmp_path)
        tree = process_tree(up.pid)
        assert any("java" in (Path("/proc") / str(one) / "cmdline").read_text() for one in tree)
        up.kill()
    until_gone(tree)
