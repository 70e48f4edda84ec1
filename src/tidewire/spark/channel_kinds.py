"""A kind of channel in the data cluster: its plan, its subscriptions, its runs and their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidewire.channels.creation import Channel
from tidewire.channels.results import SubscriptionId
from tidewire.model.errors import TidewireError
from tidewire.model.ids import Tick
from tidewire.spark.channel_book import Noted, Progress
from tidewire.spark.datasets import Warehouse
from tidewire.spark.jobs import Job
from tidewire.spark.result_tables import ResultTable
from tidewire.spark.subscription_files import SubscriptionFiles, Waiting
from tidewire.spark.versions import Present, TableLog, driving_table, pieces_of
from tidewire.spark.worker import columns_needed

LOOK_S: Final = 0.05
"""So often it looks whether a channel is due, or something has come for a continuous one."""
LOOK_FAR_S: Final = 0.25
"""The same, where each look is a question to a store."""


class ChannelKind:
    """What all channels of a kind share."""

    def __init__(self, warehouse: Warehouse, channel: Channel, *, life: str) -> None:
        kind = channel.member.kind
        self.id = kind.id
        self.plan = channel.plan
        self.feed = channel.declaration.feed
        folder = warehouse.root / "channels" / kind.id
        self._store = warehouse.root
        self.files = SubscriptionFiles(folder / "subscriptions", kind, life=life)
        self.results = ResultTable(folder / "results", kind.query)
        self.last_s = math.inf
        """How long its last run took: of the first one, and of one that failed, nobody knows."""
        self.rows_most = math.inf
        """New rows in one run, about: fewer if a run of all that there was has taken too long."""
        self._log = TableLog(driving_table(warehouse, warehouse.get(self.feed)))
        self._seen = self._log.last()
        needed = columns_needed(self.plan)
        self._needed = {number: names for number, names in needed.items() if number}
        self._presents = {
            number: Present(warehouse, warehouse.get(self.plan.query.sources[number].dataset))
            for number in self._needed
        }

    def version(self) -> int:
        """How far its feed has come."""
        return self._log.last()

    def look(self) -> None:
        """Learn how far it has come, where asking takes time."""
        self._seen = self._log.last()

    def known_version(self) -> int:
        """How far it had come when somebody last looked; where that costs nothing, now."""
        return self._seen if self._store.is_remote else self._log.last()

    def reach(self, after: int, upto: int) -> int:
        """How far a run goes that begins behind one version of the feed, and is to come up to another."""
        if math.isinf(self.rows_most):
            return upto
        rows = 0
        for version in self._log.between(after, upto):
            rows += sum(count for _, count in version.added)
            if rows >= self.rows_most:
                return version.number
        return upto

    def job(self, seen: dict[str, int], changed: Waiting, *, upto: int) -> Job:
        """A run of these channels, each over what it has not seen; subscriptions have changed in this way."""
        subscriptions = self.files.present(changed)
        return Job(
            kind=self.id,
            plan=self.plan,
            pieces=pieces_of(self._log, after=min(seen.values()), upto=upto),
            seen={self.files.number_of(name): version for name, version in seen.items()},
            subscriptions=subscriptions,
            upto=upto,
            store=self._store,
            datasets={number: one.standing(self._needed[number]) for number, one in self._presents.items()},
        )

    def drop(self) -> None:
        """No channel of this kind is left."""
        self.files.clear()
        self.results.drop()


class Looks:
    """At how far feeds have come: far away they take time, are fewer, and may fail."""

    def __init__(self, warehouse: Warehouse, say: Callable[[str, dict[str, Any]], None]) -> None:
        self.take_time = warehouse.root.is_remote
        self.every_s = LOOK_FAR_S if self.take_time else LOOK_S
        self._say = say
        self._is_told = False

    def ask(self, kinds: Iterable[ChannelKind]) -> None:
        """Not where somebody waits. What fails is told once, and done again."""
        try:
            for kind in kinds:
                kind.look()
        except TidewireError as error:
            if not self._is_told:
                self._say(
                    "the store does not answer, and is asked again", {"code": error.code, "reason": error.message}
                )
            self._is_told = True
        else:
            self._is_told = False


class OpenChannel:
    """A channel that can run."""

    def __init__(self, channel: Channel, kind: ChannelKind, noted: Noted, place: Progress) -> None:
        self.channel = channel
        self.kind = kind
        self.noted = noted
        self.place = place
        self.is_paused = noted.is_paused
        self.failures = 0
        self.not_before_s = 0.0


class Ran:
    """What a run of a kind has found, by channel."""

    def __init__(self, kind: ChannelKind, names: Iterable[str], found: pa.Table | None) -> None:
        self._found = found
        self._spans: dict[str, tuple[int, int]] = {}
        if found is not None:
            channels = found["tw_channel"].to_numpy()
            for name in names:
                number = kind.files.number_of(name)
                first, last = np.searchsorted(channels, [number, number + 1]).tolist()
                self._spans[name] = (first, last)

    def subscriptions(self, name: str) -> list[SubscriptionId]:
        """Those that a channel has something for."""
        first, last = self._spans.get(name, (0, 0))
        if self._found is None or first == last:
            return []
        ids = self._found["tw_subscription"].to_numpy()[first:last]
        distinct: list[SubscriptionId] = ids[np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))].tolist()
        return distinct

    def stored(self, ticks: dict[str, Tick]) -> pa.Table | None:
        """The rows of these channels, each with the tick of its run; None if there are none."""
        parts = []
        for name, tick in ticks.items():
            first, last = self._spans.get(name, (0, 0))
            if self._found is not None and last > first:
                rows = self._found.slice(first, last - first).drop_columns(["tw_channel"])
                rows = rows.append_column("tw_channel", pa.repeat(pa.scalar(name), len(rows)))
                parts.append(rows.append_column("tw_run_tick", pa.repeat(pa.scalar(tick, pa.int64()), len(rows))))
        return pa.concat_tables(parts) if parts else None


def clear_subscriptions(warehouse: Warehouse) -> None:
    """What an earlier process has left of files that are made anew."""
    channels = warehouse.root / "channels"
    for kind in channels.names():
        (channels / kind / "subscriptions").delete_all()
