"""`tidewire datacluster`: the node that stores events as tables, on Spark."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from msgspec import structs

from tidewire.cli.channels_served import ServedChannels
from tidewire.cli.credentials import STATE, TokenFile, access, known_profile
from tidewire.cli.environment import store_options
from tidewire.cli.serve import Speaker
from tidewire.cli.shell import AsJson
from tidewire.model.errors import BadConfiguration, TidewireError, Unavailable
from tidewire.model.ids import PubendId, Tick

if TYPE_CHECKING:
    from tidewire.cli.credentials import Access
    from tidewire.live.feed_server import FeedServer
    from tidewire.spark.datasets import Declared, Warehouse
    from tidewire.spark.ingest import Ingest
    from tidewire.spark.places import Place
    from tidewire.spark.reports import AsideWatch
    from tidewire.spark.session import SparkConfig

DATA: Final = STATE / "data"
LISTEN: Final = "127.0.0.1:0"
_Result = TypeVar("_Result")
LOOK_S: Final = 0.5
"""So often it looks for new datasets, and whether all is well."""
FAR_LOOKS: Final = 4
"""Every so many looks it looks into a store that is far."""
ASIDE_LOOKS: Final = 10
"""Every so many looks it says what was set aside since."""
AGAIN_S_MAX: Final = 30.0

Folder = Annotated[
    str | None,
    typer.Option(
        "--folder",
        metavar="DIR|URL",
        help="The tables, and what must survive a restart: a folder, or a place in a store, such as"
        " [bold]s3://bucket/path[/bold], reached as AWS_... in the environment says.",
        show_default=str(DATA),
    ),
]

State = Annotated[
    Path,
    typer.Option("--state", metavar="DIR", help="With tables in a store: what stays on this machine all the same."),
]

Listen = Annotated[
    str,
    typer.Option("--listen", metavar="HOST:PORT", help="Where brokers reach its channels; port 0 takes a free one."),
]


def datacluster(
    at: Annotated[
        list[str] | None, typer.Option("--at", metavar="HOST:PORT", help="A broker; may be repeated. Others are found.")
    ] = None,
    folder: Folder = None,
    state: State = DATA,
    listen: Listen = LISTEN,
    security: Annotated[
        Path | None,
        typer.Option("--security", metavar="DIR", help="Only TLS, and only those who show who they are; so does it."),
    ] = None,
    master: Annotated[str, typer.Option(help="Where Spark runs: local[*,4], or spark://HOST:PORT.")] = "local[*,4]",
    host: Annotated[str, typer.Option(help="This machine's address, as Spark's executors reach it.")] = "127.0.0.1",
    memory: Annotated[str, typer.Option(help="For Spark's driver and each executor.")] = "1g",
    insecure: Annotated[bool, typer.Option("--insecure", help="Let other machines connect, in clear.")] = False,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Run the data cluster until Ctrl-C: guaranteed events become rows of datasets, and channels tell what is new.

    What is a dataset, and which events it wants, is said with [bold]tidewire dataset create[/bold], before or while it
    runs. Brokers offer its channels that were given its address. It needs Java 17 or 21.

    [bold]Examples[/bold]

      tidewire datacluster

      tidewire datacluster --at 127.0.0.1:7600 --folder tables --listen 127.0.0.1:7690

      tidewire datacluster --master spark://10.0.0.5:7077 --host 10.0.0.7 --insecure --folder s3://tables/quakes
    """
    refuse_missing()
    from tidewire.live.process import until_told
    from tidewire.live.security import refuse_exposure
    from tidewire.live.sockets import is_loopback
    from tidewire.spark.datasets import Warehouse
    from tidewire.spark.session import SparkConfig

    if not is_loopback(host) and not insecure:
        raise BadConfiguration(
            f"--host {host}: executors on other machines would read events in clear. If that network is yours alone, "
            "say so with --insecure"
        )
    refuse_exposure(listen, insecure=insecure, security=None if security is None else str(security))
    found = [_access(one, token_file, security) for one in at or ()] or [_access(None, token_file, security)]
    warehouse = Warehouse(opened_place(folder), state=state.resolve())
    config = SparkConfig(
        master=master, host=host, memory=memory, log=warehouse.log, java_home=os.environ.get("JAVA_HOME")
    )
    speaker = Speaker(as_json=as_json)
    node = _Node(warehouse, config, found, speaker, channels=(listen, security))

    async def run() -> None:
        await until_told(node.start, node.stop, node.run)

    with warehouse.locked(tell=lambda what: speaker.say(what, {})):
        asyncio.run(run())
        if node.is_spark_starting:
            # It was told to end before Spark was there, and a start cannot be called off. Spark ends with this process.
            os._exit(0)


def _access(at: str | None, token_file: Path | None, security: Path | None) -> Access:
    """How it reaches a broker. One that is secured shows its own certificate, as brokers do to each other."""
    found = access(at, token_file)
    if security is None:
        return found
    from tidewire.live.channel_server import CERTIFICATE
    from tidewire.live.security import Security

    own = Security(security, name=CERTIFICATE, of="datacluster").credentials()
    token = None if token_file is None else found.credentials.token
    where = found.at if "://" in found.at else f"tidewires://{found.at}"
    return structs.replace(found, at=where, credentials=structs.replace(own, token=token))


def opened_place(folder: str | None) -> Place:
    """Where the tables are: as it is said, or as `up` left it. One that is far is asked whether it is there."""
    from tidewire.spark.places import Folder, place_of

    profile = known_profile() if folder is None else None
    known = None if profile is None else profile.tables
    place = place_of(folder or known or str(DATA), store_options())
    if isinstance(place, Folder):
        return Folder(place.path.resolve())
    place.names()
    return place


def why_it_cannot_run() -> str | None:
    """What is missing on this machine; None: nothing."""
    from tidewire.spark.java import java_version

    try:
        refuse_missing()
        java_version(os.environ.get("JAVA_HOME"))
    except TidewireError as error:
        return error.message
    return None


def refuse_missing() -> None:
    """BadConfiguration if what the data cluster needs is not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("pyspark", "pyarrow", "deltalake", "pandas") if find_spec(name) is None]
    if missing:
        raise BadConfiguration(f"the data cluster needs {', '.join(missing)}: pip install 'tidewire[data]'")


class _Node:
    """Spark, the feeds, the query between them, and the channels."""

    def __init__(
        self,
        warehouse: Warehouse,
        config: SparkConfig,
        at: list[Access],
        speaker: Speaker,
        *,
        channels: tuple[str, Path | None],
    ) -> None:
        self._warehouse = warehouse
        self._config = config
        self._at = at
        self._speaker = speaker
        self._secret = secrets.token_hex(32)
        self._following: dict[str, asyncio.Task[None]] = {}
        self._server: FeedServer | None = None
        self._address = ""
        self._ingest: Ingest | None = None
        self._listen, self._security = channels
        self._channels: ServedChannels | None = None
        self.is_spark_starting = False
        self._spark: Any = None
        self._ending = asyncio.Event()
        self._turn = asyncio.Lock()
        """It does not end in the middle of its beginning."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark")
        """Spark knows a session by the thread that opened it."""

    async def start(self) -> None:
        """Feeds follow from now on."""
        from tidewire.live.feed_server import FeedServer

        self._server = FeedServer(secret=self._secret)
        self._address = await self._server.start(self._config.host)
        await self._look_for_datasets()

    async def run(self) -> None:
        """Spark takes some seconds; then see to it that all goes on; Unavailable if Spark has died."""
        loop = asyncio.get_running_loop()
        opening, told = loop.create_task(self._open_spark()), loop.create_task(self._ending.wait())
        self.is_spark_starting = True
        await asyncio.wait([opening, told], return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        async with self._turn:
            if self._ending.is_set():
                return
            self.is_spark_starting = False
            self._spark = opening.result()
            await self._begin()
        await self._watch()

    async def _open_spark(self) -> Any:
        from tidewire.spark.session import open_session

        loop = asyncio.get_running_loop()

        def tell(what: str) -> None:
            loop.call_soon_threadsafe(self._speaker.say, what, {})

        return await self._in_spark(partial(open_session, self._config, tell=tell))

    async def _begin(self) -> None:
        """Store what comes, and serve channels."""
        from tidewire.spark.ingest import Ingest, IngestConfig

        config = IngestConfig(address=self._address, secret=self._secret)
        self._ingest = ingest = await self._in_spark(partial(Ingest, self._spark, self._warehouse, config))
        await self._in_spark(ingest.start)
        self._channels = ServedChannels(
            self._warehouse, self._spark, self._listen, security=self._security, say=self._speaker.say
        )
        await self._channels.start()
        facts = {
            "folder": str(self._warehouse.root),
            "master": self._config.master,
            "brokers": [a.at for a in self._at],
            "channels": self._channels.address,
        }
        self._speaker.say("datacluster", {**facts, "datasets": len(self._warehouse.all())})

    async def _watch(self) -> None:
        from tidewire.spark.reports import AsideWatch

        assert self._ingest is not None
        assert self._channels is not None
        again_s = 1.0
        watch = await asyncio.to_thread(AsideWatch, self._warehouse)
        looks = 0
        while not await self._is_told_to_end(LOOK_S):
            self._warehouse.check()
            self._channels.check()
            await self._look(watch, looks)
            looks += 1
            failure = await self._in_spark(self._ingest.failure)
            if failure is None:
                again_s = 1.0
                continue
            self._speaker.say("storing has stopped, and begins again", {"reason": failure, "in_s": again_s})
            if await self._is_told_to_end(again_s):
                return
            again_s = min(AGAIN_S_MAX, 2 * again_s)
            await self._in_spark(self._ingest.start)

    async def _look(self, watch: AsideWatch, looks: int) -> None:
        """At what is new in the tables. A store that does not answer for a moment is asked again."""
        is_far = self._warehouse.root.is_remote
        try:
            if not is_far or looks % FAR_LOOKS == 0:
                await self._look_for_datasets()
            for news in await asyncio.to_thread(watch.news) if looks % ASIDE_LOOKS == 0 else ():
                self._speaker.say("events are set aside", news)
        except Unavailable as error:
            if not is_far:
                raise
            self._speaker.say("the store does not answer, and is asked again", {"reason": error.message})

    async def _is_told_to_end(self, seconds: float) -> bool:
        """Within so many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), seconds)
        return self._ending.is_set()

    async def stop(self) -> None:
        """What is under way is stored by the next one."""
        self._ending.set()
        async with self._turn:
            await self._end()
        self._speaker.say("stopped", {})

    async def _end(self) -> None:
        from tidewire.spark.session import close_session

        if self._channels is not None:
            await self._channels.stop()
        if self._ingest is not None:
            await self._in_spark(self._ingest.stop)
        for task in self._following.values():
            task.cancel()
        await asyncio.gather(*self._following.values(), return_exceptions=True)
        if self._server is not None:
            await self._server.stop()
        if self._spark is not None:
            await self._in_spark(partial(close_session, self._spark))

    async def _in_spark(self, act: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    async def _look_for_datasets(self) -> None:
        """Datasets may come while it runs; each that is fed is followed from where it is stored."""
        from tidewire.spark.sink import stored_of

        assert self._server is not None
        for declared in await asyncio.to_thread(self._warehouse.all):
            if declared.feed is not None and declared.id not in self._server.feeds:
                self._follow(declared, await asyncio.to_thread(stored_of, self._warehouse, declared))

    def _follow(self, declared: Declared, stored: dict[str, int]) -> None:
        from tidewire.live.feeds import Feed, FeedConfig

        assert declared.feed is not None
        assert self._server is not None
        config = FeedConfig(name=declared.holder, wanted=declared.feed.wanted, since_ms=declared.feed.since_ms)
        settled = {PubendId(int(stream, 16)): Tick(tick) for stream, tick in stored.items()}
        feed = Feed(
            config,
            [one.at for one in self._at],
            settled=settled,
            say=self._speaker.say,
            credentials=self._at[0].credentials,
        )
        self._server.feeds[declared.id] = feed
        self._following[declared.id] = asyncio.get_running_loop().create_task(feed.run())
