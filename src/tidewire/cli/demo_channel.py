"""The demo's channel: a real data cluster, people who are somewhere, and earthquakes that each is told of, once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tidewire.benchmarks.data import Quakes
from tidewire.benchmarks.progress import Tell
from tidewire.benchmarks.whereabouts import (
    CHANNEL,
    FEED,
    QUAKES,
    REFERENCE,
    Dweller,
    due,
    dwellers,
    numbered_event,
    reference_rows,
    strong,
)
from tidewire.channels.commands import CreateChannel
from tidewire.cli.demo_network import Network
from tidewire.live.channels import ChannelNotification, FoundRow
from tidewire.live.connect import Wire, connect
from tidewire.live.operate import command_channels
from tidewire.model.errors import TidewireError, Unavailable

SPARK_S: Final = 120.0
"""So long it may take until Spark is there."""
ATTACHED_S: Final = 30.0
LAST_S: Final = 30.0
"""So long after the last earthquake the last notification may come."""
_SHOWN: Final = 6


class ChannelOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the demo showed of channels."""

    quakes: int
    """Published, and stored as rows."""

    people: int
    notifications: int
    results: int
    """Earthquakes that somebody was told of: those of all notifications."""

    lost: int
    unasked: int
    """Told to somebody who is elsewhere, or wants stronger ones."""

    twice: int
    p50_s: float
    """From publishing an earthquake to hearing of it: half of them within this."""


class Listener:
    """Somebody who is told of what is near, and what has come."""

    def __init__(self, dweller: Dweller) -> None:
        self.dweller = dweller
        self.wire: Wire | None = None
        self.notifications = 0
        self.got: dict[int, float] = {}
        """The earthquakes by their numbers, and when each came."""
        self.twice = 0
        self.last: FoundRow | None = None

    def take(self, notification: ChannelNotification) -> None:
        """A run of the channel has found something."""
        self.notifications += 1
        for row in notification:
            self.twice += row["number"] in self.got
            self.got.setdefault(row["number"], monotonic())
            self.last = row


class ChannelScene:
    """People, earthquakes, and the channel between them."""

    def __init__(self, quakes: Quakes, *, people: int, seconds: float) -> None:
        self.quakes = strong(quakes)
        self.listeners = [Listener(one) for one in dwellers(people)]
        self.published: list[float] = []
        """When each earthquake was published."""
        self._seconds = seconds

    @property
    def results(self) -> int:
        """All that has come."""
        return sum(len(one.got) for one in self.listeners)

    async def prepare(self, network: Network, tell: Tell) -> None:
        """Datasets, the channel, and everyone's subscription; Unavailable if there is no data cluster."""
        tell("datasets: earthquakes from events; people, places and stations loaded")
        await asyncio.to_thread(self._declare, network.data_folder)
        await network.until_data(tell, seconds=SPARK_S)
        tell("the channel is created, and people subscribe")
        await command_channels(network.data_cluster, CreateChannel(CHANNEL))
        await self._until_attached(network)
        for one in self.listeners:
            one.wire = connect(network.addresses[0], name=one.dweller.person)
            await one.wire.__aenter__()
            await one.wire.channel("near_me", me=one.dweller.person, least=one.dweller.least, callback=one.take)

    def _declare(self, folder: Path) -> None:
        """Off the loop: it writes tables."""
        from tidewire.spark.datasets import Feed, Warehouse, columns_of, declare
        from tidewire.spark.loading import load
        from tidewire.spark.sink import create_tables

        warehouse = Warehouse(folder)
        feed = Feed(wanted=FEED, since_ms=0, takes_others=True)
        made = [declare("quakes", columns_of(QUAKES), feed=feed)]
        made += [declare(name, columns_of(columns), key=(key,)) for name, (columns, key) in REFERENCE.items()]
        rows = reference_rows([one.dweller for one in self.listeners])
        for one in made:
            create_tables(warehouse, one)
            warehouse.add(one)
            if one.name in rows:
                file = folder / f"{one.name}.json"
                file.write_bytes(b"\n".join(map(msgspec.json.encode, rows[one.name])))
                load(warehouse, one, file, replace=False)

    async def _until_attached(self, network: Network) -> None:
        """Brokers look for the data cluster now and then."""
        end = monotonic() + ATTACHED_S
        while monotonic() < end:
            known = [one.channels for one in await network.statuses()]
            if all(one is not None and one.is_connected and one.channels for one in known):
                return
            await asyncio.sleep(0.1)
        raise Unavailable(f"the brokers did not reach the data cluster within {ATTACHED_S:.0f} s")

    async def flow(self, network: Network) -> ChannelOutcome:
        """A month of earthquakes in some seconds, and what has to come of it."""
        async with connect(network.addresses[0], name="demo seismograph", guaranteed=True) as publisher:
            began = monotonic()
            while len(self.published) < len(self.quakes):
                at, share = len(self.published), min(1.0, (monotonic() - began) / self._seconds)
                upto = min(len(self.quakes), max(at + 1, int(share * len(self.quakes))))
                await publisher.publish_many(numbered_event(n, self.quakes[n]) for n in range(at, upto))
                self.published += [monotonic()] * (upto - at)
                await asyncio.sleep(0.05)
        wanted = due(self.quakes, [one.dweller for one in self.listeners])
        end = monotonic() + LAST_S
        while monotonic() < end and self.results < sum(map(len, wanted.values())):
            await asyncio.sleep(0.05)
        return self._outcome(wanted)

    async def close(self) -> None:
        """Everyone leaves."""
        for one in self.listeners:
            with suppress(TidewireError):
                if one.wire is not None:
                    await one.wire.close()

    def _outcome(self, wanted: dict[str, set[int]]) -> ChannelOutcome:
        pairs = [(number, came) for one in self.listeners for number, came in one.got.items()]
        delays = sorted(came - self.published[number] for number, came in pairs) or [0.0]
        return ChannelOutcome(
            quakes=len(self.quakes),
            people=len(self.listeners),
            notifications=sum(one.notifications for one in self.listeners),
            results=self.results,
            lost=sum(len(wanted[one.dweller.person] - set(one.got)) for one in self.listeners),
            unasked=sum(len(set(one.got) - wanted[one.dweller.person]) for one in self.listeners),
            twice=sum(one.twice for one in self.listeners),
            p50_s=delays[len(delays) // 2],
        )

    def picture(self) -> Group:
        """Who has been told what."""
        people = Table.grid(padding=(0, 2, 0, 0))
        people.add_column(no_wrap=True)
        people.add_column()  # the one that gives way
        for one in sorted((one for one in self.listeners if one.last), key=lambda one: -len(one.got))[:_SHOWN]:
            who = f"  [cyan]{escape(one.dweller.person)}[/cyan] {len(one.got):,} in {escape(one.dweller.place)}"
            people.add_row(who, Text(_headline(one.last), no_wrap=True, overflow="ellipsis"))
        told = f"  {len(self.published):,} of {len(self.quakes):,} earthquakes published, {self.results:,} heard of"
        return Group("", people, "", told) if people.row_count else Group("", told)


def _headline(row: FoundRow | None) -> str:
    if row is None:
        return ""
    station = f", {row['station']}" if row["station"] else ""
    return f"M{row['magnitude']:.1f} {row['away_m'] / 1000:,.0f} km away{station}: {row['place']}"
