"""The channels of a data cluster, without Spark: what is stored once, told, kept, and found again after a death."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.channels.emergencies import columns
from tests.spark.bench import STREAM
from tidewire.channels.cluster_events import Send
from tidewire.channels.commands import (
    CreateChannel,
    DropChannel,
    ExplainChannel,
    ListChannels,
    ListNames,
    PauseChannel,
    ResumeChannel,
)
from tidewire.channels.messages import Began, Channels, Granted, Hold, Pull, Release, Results, Told, Want
from tidewire.channels.results import BEGINNING, SubscriptionId
from tidewire.channels.schemas import Row
from tidewire.model.errors import SameName, StoreFailed, Unavailable, UnknownName
from tidewire.model.ids import BrokerId, Tick
from tidewire.spark.channel_host import ChannelHost
from tidewire.spark.datasets import Feed, Warehouse, declare
from tidewire.spark.jobs import Job
from tidewire.spark.loading import load
from tidewire.spark.places import Place
from tidewire.spark.result_tables import ResultTable
from tidewire.spark.rows import fed_rows
from tidewire.spark.sink import Part, commit_part, create_tables
from tidewire.spark.tables import write_files
from tidewire.spark.tasks import Answer, in_order
from tidewire.spark.worker import work

BROKER = BrokerId("b")
OF_TYPE = "create channel of_type(type string) continuous as select r.id from Reports r where r.type = :type"
NEAR_ME = (
    "create channel near_me(me string) continuous on new Reports as select r.id, u.user from Reports r"
    " join Users u on u.user = :me where within(r.lat, r.lon, u.lat, u.lon, 2000)"
)


class InProcess:
    """Does what Spark's tasks do."""

    def __init__(self) -> None:
        self.fails: Callable[[], None] = lambda: None

    def run(self, jobs: Sequence[Job], group: str) -> list[Answer]:
        self.fails()
        return [in_order(list(work(job, job.pieces))) for job in jobs]

    def call_off(self, group: str) -> None:
        """Not needed."""


class Lives(Warehouse):
    """Each process that begins there has the next number, as leases have them."""

    life = 0


class Cluster:
    """A host with datasets, whose feeds a test fills."""

    def __init__(self, where: Path | Place) -> None:
        self.warehouse = Lives(where)
        if not self.warehouse.all():
            self._declare("Reports", "id bigint, type string, lat double, lon double", feed="class = 'R'")
            self._declare("Users", "user string, lat double, lon double", feed="class = 'U'", key=("user",))
        self.engine = InProcess()
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.posted: list[Send] = []
        self.life = 0
        self.begin()

    def begin(self) -> None:
        """A process begins."""
        self.warehouse.life += 1
        self.host = ChannelHost(
            self.warehouse,
            self.engine,
            say=lambda what, facts: self.said.append((what, facts)),
            post=self.posted.extend,
            run_s_max=10.0 if self.warehouse.root.is_remote else 0.2,
        )

    def _declare(self, name: str, text: str, *, feed: str, key: tuple[str, ...] = ()) -> None:
        made = declare(name, list(columns(text)), feed=Feed(wanted=feed, takes_others=True), key=key)
        create_tables(self.warehouse, made)
        self.warehouse.add(made)

    def feed(self, name: str, rows: list[Row], *, first: int) -> None:
        """As the sink stores a batch, whose first event has this tick."""
        declared = self.warehouse.get(name)
        columns = {one.name: [row.get(one.name) for row in rows] for one in declared.columns}
        table = fed_rows(declared, columns, stream=STREAM, first=first)
        part = "changes" if declared.key else "rows"
        files = write_files(self.warehouse.table(declared, part), table)
        commit_part(self.warehouse, declared, Part(rows=files, ends={STREAM: first + len(rows)}))

    async def run(self) -> list[Send]:
        """All that is due runs to its end; what brokers are told."""
        self.posted.clear()
        self.host._looks.ask(self.host._kinds.values())
        self.host.start_due()
        await asyncio.gather(*self.host._running.values())
        return self.posted

    async def hold(self, *wants: Want) -> list[SubscriptionId]:
        """A broker comes (again), and wants just these."""
        self.life += 1
        holds = tuple(Hold(broker=BROKER, life=self.life, request=n, want=want) for n, want in enumerate(wants))
        sends = await self.host.told(Began(broker=BROKER, life=self.life, holds=holds))
        return [one.message.id for one in sends if isinstance(one.message, Granted)]

    async def pull(self, channel: str, *places: tuple[SubscriptionId, int]) -> list[list[tuple[Any, ...]]]:
        """The rows of each."""
        asked = tuple((one, Tick(after)) for one, after in places)
        sends = await self.host.told(Pull(broker=BROKER, life=self.life, channel=channel, places=asked))
        found = [one for send in sends if isinstance(send.message, Results) for one in send.message.found]
        assert all(one.lost_upto == BEGINNING for one in found)
        return [[row.cells for _, packed in one.runs for row in packed.rows()] for one in found]


def told(sends: Iterable[Send]) -> dict[str, tuple[SubscriptionId, ...]]:
    return {one.message.channel: one.message.ids for one in sends if isinstance(one.message, Told)}


def report(number: int, kind: str = "fire", lat: float = 60.0) -> Row:
    return {"id": number, "type": kind, "lat": lat, "lon": 25.0}


def test_what_is_new_is_told_and_found_once(place: Place) -> None:
    """bad §1.1: a run stores its results by subscription, tells the brokers that hold them, and they pull."""

    async def act() -> None:
        cluster = Cluster(place)
        cluster.feed("Reports", [report(0)], first=1)
        answer, _ = await cluster.host.asked(CreateChannel(OF_TYPE))
        assert answer.channels[0].channel == "of_type"
        fire, flood = await cluster.hold(Want("of_type", ("fire",)), Want("of_type", ("flood",)))
        assert await cluster.run() == [], "what was there before the channel is not new"
        cluster.feed("Reports", [report(1), report(2, "storm"), report(3)], first=2)
        assert told(await cluster.run()) == {"of_type": (fire,)}
        assert await cluster.run() == []
        assert await cluster.pull("of_type", (fire, 0), (flood, 0)) == [[(1,), (3,)], []]
        cluster.feed("Reports", [report(4, "flood")], first=5)
        assert told(await cluster.run()) == {"of_type": (flood,)}
        assert await cluster.pull("of_type", (fire, 0), (flood, 0)) == [[(1,), (3,)], [(4,)]]
        await cluster.host.close()

    asyncio.run(act())


def test_subscriptions_come_and_go_between_runs(place: Place) -> None:
    """From the next run on they count, and no longer; nothing is started again for that."""

    async def act() -> None:
        cluster = Cluster(place)
        await cluster.host.asked(CreateChannel(OF_TYPE))
        [fire] = await cluster.hold(Want("of_type", ("fire",)))
        cluster.feed("Reports", [report(1), report(2, "flood")], first=1)
        assert told(await cluster.run()) == {"of_type": (fire,)}
        fire, flood = await cluster.hold(Want("of_type", ("fire",)), Want("of_type", ("flood",)))
        cluster.feed("Reports", [report(3), report(4, "flood")], first=3)
        assert set(told(await cluster.run())["of_type"]) == {fire, flood}
        await cluster.host.told(Release(broker=BROKER, life=cluster.life, want=Want("of_type", ("fire",))))
        cluster.feed("Reports", [report(5), report(6, "flood")], first=5)
        assert told(await cluster.run()) == {"of_type": (flood,)}
        assert await cluster.pull("of_type", (flood, 0)) == [[(4,), (6,)]]
        await cluster.host.close()

    asyncio.run(act())


def test_users_move_and_the_circles_with_them(place: Place) -> None:
    """bad §1.3: other datasets are joined as they stand when the channel runs; of a keyed one, the current row."""

    async def act() -> None:
        cluster = Cluster(place)
        cluster.feed("Users", [{"user": "ann", "lat": 60.0, "lon": 25.0}], first=1)
        await cluster.host.asked(CreateChannel(NEAR_ME))
        ann, bob = await cluster.hold(Want("near_me", ("ann",)), Want("near_me", ("bob",)))
        cluster.feed("Reports", [report(1)], first=1)
        assert told(await cluster.run()) == {"near_me": (ann,)}
        moved: list[Row] = [{"user": "ann", "lat": 10.0, "lon": 25.0}, {"user": "bob", "lat": 60.0, "lon": 25.0}]
        cluster.feed("Users", moved, first=2)
        cluster.feed("Reports", [report(2)], first=2)
        assert told(await cluster.run()) == {"near_me": (bob,)}
        assert await cluster.pull("near_me", (ann, 0), (bob, 0)) == [[(1, "ann")], [(2, "bob")]]
        await cluster.host.close()

    asyncio.run(act())


def test_reference_data_with_a_key_is_joined_as_it_was_loaded_last(tmp_path: Path) -> None:
    """It has no feed, and so no table of changes: a row that is loaded again takes the place of the last."""

    async def act() -> None:
        cluster = Cluster(tmp_path / "data")
        users = declare("Homes", list(columns("user string, lat double, lon double")), key=("user",))
        create_tables(cluster.warehouse, users)
        cluster.warehouse.add(users)
        file = tmp_path / "homes.csv"
        file.write_text("user,lat,lon\nann,60.0,25.0\nbob,61.0,25.0\n")
        load(cluster.warehouse, users, file, replace=False)
        await cluster.host.asked(CreateChannel(NEAR_ME.replace("Users", "Homes")))
        [ann] = await cluster.hold(Want("near_me", ("ann",)))
        cluster.feed("Reports", [report(1), report(2, lat=61.0)], first=1)
        assert told(await cluster.run()) == {"near_me": (ann,)}
        file.write_text("user,lat,lon\nann,61.0,25.0\n")
        load(cluster.warehouse, users, file, replace=False)
        cluster.feed("Reports", [report(3), report(4, lat=61.0)], first=3)
        assert told(await cluster.run()) == {"near_me": (ann,)}
        assert await cluster.pull("near_me", (ann, 0)) == [[(1, "ann"), (4, "ann")]]
        await cluster.host.close()

    asyncio.run(act())


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_run_is_stored_once_whenever_the_process_dies(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, is_stored: bool
) -> None:
    """Before its results are committed, it is done again; after, it is not. Subscriptions and channels are there."""

    async def act() -> None:
        cluster = Cluster(place)
        await cluster.host.asked(CreateChannel(OF_TYPE))
        [fire] = await cluster.hold(Want("of_type", ("fire",)))
        cluster.feed("Reports", [report(1)], first=1)
        assert told(await cluster.run()) == {"of_type": (fire,)}
        cluster.feed("Reports", [report(2)], first=2)
        store = ResultTable.store

        def dies(self: ResultTable, number: int, rows: pa.Table, looked_at: dict[str, int]) -> None:
            if is_stored:
                store(self, number, rows, looked_at)
            raise StoreFailed("the process is dead")

        with monkeypatch.context() as patched:
            patched.setattr(ResultTable, "store", dies)
            assert await cluster.run() == []
        cluster.begin()
        assert list(cluster.host.brokers()) == [BROKER]
        assert await cluster.hold(Want("of_type", ("fire",))) == [fire]
        assert told(await cluster.run()) == ({} if is_stored else {"of_type": (fire,)})
        assert await cluster.pull("of_type", (fire, 0)) == [[(1,), (2,)]]
        await cluster.host.close()

    asyncio.run(act())


def test_what_fails_is_done_again_and_what_never_ends_is_paused(tmp_path: Path) -> None:
    """The others go on meanwhile, and nothing that came is lost."""

    async def act() -> None:
        cluster = Cluster(tmp_path)
        await cluster.host.asked(CreateChannel(OF_TYPE))
        [fire] = await cluster.hold(Want("of_type", ("fire",)))
        cluster.feed("Reports", [report(1)], first=1)
        one = cluster.host._open["of_type"]

        def fails() -> None:
            raise Unavailable("Spark is busy")

        cluster.engine.fails = fails
        assert await cluster.run() == []
        assert cluster.said[-1][0] == "channels have failed, and run again"
        assert cluster.said[-1][1]["reason"] == "Spark is busy"
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def never_ends() -> None:
            asyncio.run_coroutine_threadsafe(ended.wait(), loop).result()
            raise Unavailable("it was called off")

        cluster.engine.fails = never_ends
        cluster.engine.call_off = lambda group: ended.set()  # type: ignore[method-assign]
        while not one.is_paused:
            ended.clear()
            one.not_before_s = 0.0
            assert await cluster.run() == []
        assert cluster.said[-1][0] == "channels are paused"
        assert "did not finish in 0.2 s" in cluster.said[-1][1]["reason"]
        cluster.engine.fails = lambda: None
        await cluster.host.asked(ResumeChannel("of_type"))
        assert told(await cluster.run()) == {"of_type": (fire,)}
        await cluster.host.close()

    asyncio.run(act())


def test_what_is_too_much_for_one_run_is_done_in_parts(tmp_path: Path) -> None:
    """After an outage there may be more than can be done in time: nobody is paused for it, and nothing comes twice."""

    async def act() -> None:
        cluster = Cluster(tmp_path)
        await cluster.host.asked(CreateChannel(OF_TYPE))
        [fire] = await cluster.hold(Want("of_type", ("fire",)))
        for first in range(1, 20, 2):
            cluster.feed("Reports", [report(first), report(first + 1)], first=first)
        was_called_off, works, runs = threading.Event(), cluster.engine.run, list[int]()

        def run(jobs: Sequence[Job], group: str) -> list[Answer]:
            runs.append(sum(piece.count for job in jobs for piece in job.pieces))
            if runs[-1] > 6:
                was_called_off.wait()
                was_called_off.clear()
                raise Unavailable("it was called off")
            return works(jobs, group)

        cluster.engine.run = run  # type: ignore[method-assign]
        cluster.engine.call_off = lambda group: was_called_off.set()  # type: ignore[method-assign]
        one, found = cluster.host._open["of_type"], list[Any]()
        while len(found) < 20:
            for channel, ids in told(await cluster.run()).items():
                assert (channel, ids) == ("of_type", (fire,))
            found = [row[0] for row in (await cluster.pull("of_type", (fire, 0)))[0]]
        assert (found, runs) == (list(range(1, 21)), [20, 10, 6, 10, 6, 8, 4, 4])
        assert [what for what, _ in cluster.said] == ["channels have much to catch up with, and do it in parts"] * 4
        assert (one.is_paused, one.failures) == (False, 0)
        await cluster.host.close()

    asyncio.run(act())


def test_a_channel_whose_dataset_has_changed_does_not_stop_the_others(tmp_path: Path) -> None:
    """After a restart the column that it asks for is gone: it says so; the other one goes on, and it can be dropped."""

    async def act() -> None:
        cluster = Cluster(tmp_path)
        await cluster.host.asked(CreateChannel(OF_TYPE))
        await cluster.host.asked(CreateChannel(NEAR_ME))
        await cluster.hold(Want("of_type", ("fire",)), Want("near_me", ("ann",)))
        await cluster.host.close()
        file = cluster.warehouse.folder("Users") / "dataset.json"
        file.write(file.read().replace(b'"lat"', b'"latitude"'))
        cluster.begin()
        what, facts = cluster.said[-1]
        assert (what, facts["channel"]) == ("channel cannot run", "near_me")
        assert "lat" in facts["reason"]
        [fire] = await cluster.hold(Want("of_type", ("fire",)))
        cluster.feed("Reports", [report(1)], first=1)
        assert told(await cluster.run()) == {"of_type": (fire,)}
        other = NEAR_ME.replace("u.lat,", "u.latitude,")
        with pytest.raises(SameName):
            await cluster.host.asked(CreateChannel(other))
        await cluster.host.asked(DropChannel("near_me"))
        await cluster.host.asked(CreateChannel(other))
        await cluster.host.close()

    asyncio.run(act())


@pytest.mark.parametrize("is_shut", [False, True])
def test_names_are_known_and_remembered_when_a_channel_is_made_anew(tmp_path: Path, *, is_shut: bool) -> None:
    """Also over restarts, and if it could not run when it was dropped: who was away is owed to hear of it."""

    async def follow(cluster: Cluster) -> tuple[Tick, Tick]:
        cluster.life += 1
        hold = Hold(
            broker=BROKER, life=cluster.life, request=1, want=Want("of_type", ("fire",)), name="a\0ann", claim=1
        )
        sends = await cluster.host.told(Began(broker=BROKER, life=cluster.life, holds=(hold,)))
        [opened] = [one for send in sends if isinstance(send.message, Channels) for one in send.message.opened]
        [granted] = [send.message for send in sends if isinstance(send.message, Granted)]
        assert granted.place is not None
        return granted.place, opened.since

    async def act() -> None:
        cluster = Cluster(tmp_path)
        await cluster.host.asked(CreateChannel(OF_TYPE))
        place, since = await follow(cluster)
        assert place == since
        [name] = (await cluster.host.asked(ListNames()))[0].names
        assert (name.owner, name.name, name.behind_s) == ("a", "ann", 0.0)
        cluster.feed("Reports", [report(1)], first=1)
        await cluster.run()
        [name] = (await cluster.host.asked(ListNames()))[0].names
        assert name.parameters == {"type": "fire"}
        file = cluster.warehouse.folder("Reports") / "dataset.json"
        known = file.read()
        if is_shut:
            file.write(known.replace(b'"name":"type"', b'"name":"sort"'))
            await cluster.host.close()
            cluster.begin()
        await cluster.host.asked(DropChannel("of_type"))
        file.write(known)
        await cluster.host.close()
        cluster.begin()
        await cluster.host.asked(CreateChannel(OF_TYPE))
        await cluster.host.close()
        cluster.begin()
        again, later = await follow(cluster)
        assert again == place < later
        await cluster.host.close()

    asyncio.run(act())


def test_operators_create_list_pause_and_drop(tmp_path: Path) -> None:
    """A channel that is dropped leaves nothing to one of the same name."""

    async def act() -> None:
        cluster = Cluster(tmp_path)
        host = cluster.host
        with pytest.raises(UnknownName):
            await host.asked(CreateChannel(OF_TYPE.replace("Reports", "Nothing")))
        await host.asked(CreateChannel(OF_TYPE))
        with pytest.raises(SameName):
            await host.asked(CreateChannel(OF_TYPE))
        explained, _ = await host.asked(ExplainChannel("of_type"))
        assert "matched by the index" in explained.explanation
        [fire] = await cluster.hold(Want("of_type", ("fire",)))
        listed, _ = await host.asked(ListChannels())
        assert [(one.channel, one.subscriptions, one.is_paused) for one in listed.channels] == [("of_type", 1, False)]
        await host.asked(PauseChannel("of_type"))
        cluster.feed("Reports", [report(1)], first=1)
        assert await cluster.run() == []
        await host.asked(ResumeChannel("of_type"))
        assert told(await cluster.run()) == {"of_type": (fire,)}
        await host.asked(DropChannel("of_type"))
        with pytest.raises(UnknownName):
            await host.asked(ExplainChannel("of_type"))
        await host.asked(CreateChannel(OF_TYPE))
        assert await cluster.hold(Want("of_type", ("fire",))) == [fire]
        assert await cluster.pull("of_type", (fire, 0)) == [[]]
        await host.close()

    asyncio.run(act())
