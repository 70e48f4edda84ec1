"""The channels of a data cluster: who wants what, which runs when, what came of it, and what must not be forgotten.

It hosts the ledger: what that says is carried out in its order, and is on the disk before anyone is told. Runs of
different kinds go on side by side; of one kind there is one at a time.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar
from uuid import uuid4

import msgspec

from tidewire.channels.cluster_events import (
    AddRow,
    Answer,
    ClusterEffect,
    Created,
    Dropped,
    Ran,
    RemoveRow,
    Send,
    Store,
    Stored,
    Trim,
    kept_of,
)
from tidewire.channels.commands import (
    ChannelAnswer,
    ChannelCommand,
    ChannelDocument,
    CreateChannel,
    DropChannel,
    ExplainChannel,
    ListChannels,
    ListNames,
    PauseChannel,
    ResumeChannel,
    document_of,
)
from tidewire.channels.creation import Channel, create_channel
from tidewire.channels.messages import Pull, Results
from tidewire.channels.results import Outcome, Result, ResultRow
from tidewire.channels.schedules import Schedule
from tidewire.channels.subscriptions import Ledger
from tidewire.datacluster.host import HostEvent
from tidewire.model.errors import SameName, TidewireError, UnknownName
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.ticks import tick_at
from tidewire.spark import channel_kinds
from tidewire.spark.channel_book import ChannelBook, Noted, Progress
from tidewire.spark.channel_kinds import ChannelKind, Looks, OpenChannel, clear_subscriptions
from tidewire.spark.channel_names import names_in
from tidewire.spark.channel_runs import RUN_S_MAX, Run, Runner, TookTooLong
from tidewire.spark.datasets import Warehouse
from tidewire.spark.engine import Engine
from tidewire.spark.reports import catalog_of

QUICK_S: Final = 1.0
"""Kinds that took no longer the last time run together, as one job: every job costs."""
OVERRUNS_MAX: Final = 3
"""A kind whose runs take too long so often in a row is paused."""
AGAIN_S_MAX: Final = 60.0
ROWS_AT_ONCE_MAX: Final = 10_000
"""So many rows of results are in one answer, for each subscription."""
FOUND_AT_ONCE_MAX: Final = 10_000
"""And results of so many subscriptions."""

_SOME: Final = (ResultRow(()),)
"""The ledger asks only whether there are rows: they stay in columns, in the table."""

_Result = TypeVar("_Result")
Say = Callable[[str, dict[str, Any]], None]


class ChannelHost:
    """Behind the server that brokers and operators talk to."""

    def __init__(
        self,
        warehouse: Warehouse,
        engine: Engine,
        *,
        say: Say,
        post: Callable[[Iterable[Send]], None] = lambda _sends: None,
        run_s_max: float = RUN_S_MAX,
    ) -> None:
        self._warehouse = warehouse
        self._say = say
        self.post = post
        """How brokers are told that a channel has run."""
        self._life = uuid4().hex[:12]
        self._book = ChannelBook(warehouse.root, life=warehouse.life)
        self._schedule = Schedule()
        self._open: dict[str, OpenChannel] = {}
        self._shut: dict[str, Noted] = {}
        """Channels that are no longer possible: their datasets have changed."""
        self._kinds: dict[str, ChannelKind] = {}
        self._due: dict[str, None] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="channels")
        self._runner = Runner(engine, run_s_max=run_s_max)
        self._looks = Looks(warehouse, say)
        clear_subscriptions(warehouse)
        found = self._reopened()
        kept = self._book.subscriptions()
        self._ledger = Ledger(one for one in kept if one.want.channel not in self._shut)
        self._waiting = [one for one in kept if one.want.channel in self._shut]
        """Subscriptions to channels that are shut: nothing is changed about them until those are dropped."""
        for one in found.values():
            self._enter(one)

    def _reopened(self) -> dict[str, OpenChannel]:
        """The channels that there were before this start, and still can run."""
        catalog, found = catalog_of(self._warehouse), dict[str, OpenChannel]()
        for noted in self._book.channels():
            try:
                channel = create_channel(noted.text, catalog)
            except TidewireError as error:
                self._shut[noted.name] = noted
                self._say("channel cannot run", {"channel": noted.name, "code": error.code, "reason": error.message})
                continue
            kind = self._kind(channel)
            found[noted.name] = OpenChannel(channel, kind, noted, noted.place_after(kind.results.last_run))
        return found

    def _enter(self, one: OpenChannel) -> list[ClusterEffect]:
        name = one.channel.declaration.name
        self._open[name] = one
        place, since = one.place, one.noted.floor
        effects = self._ledger.handle(Created(one.channel.declaration, place.batch, place.tick, since))
        self._change_rows(effects)
        if not one.is_paused:
            self._plan_runs(name)
        return effects

    def _plan_runs(self, name: str) -> None:
        """Channels with the same period run at the same time, so that those of one kind are one run."""
        declaration = self._open[name].channel.declaration
        period_ns = (declaration.period_ms or 1) * 1_000_000
        now_ns = time.monotonic_ns()
        self._schedule.add(declaration, now_ns=Nanoseconds(now_ns - now_ns % period_ns))

    def _kind(self, channel: Channel) -> ChannelKind:
        kind = self._kinds.get(channel.member.kind.id)
        if kind is None:
            kind = self._kinds[channel.member.kind.id] = ChannelKind(self._warehouse, channel, life=self._life)
        return kind

    async def close(self) -> None:
        """What is under way is done again by the next one."""
        running = list(dict.fromkeys(self._running.values()))
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.to_thread(self._runner.close)
        await asyncio.to_thread(self._disk.shutdown)
        self._book.close()

    # -- brokers -------------------------------------------------------------------------------------------------------

    def brokers(self) -> Iterable[BrokerId]:
        """Those that hold subscriptions from before this start."""
        return dict.fromkeys(broker for one in self._ledger.records() for broker in one.brokers)

    async def told(self, event: HostEvent) -> Iterable[Send]:
        """A broker has said something, or is dead."""
        async with self._turn:
            return await self._carry_out(self._ledger.handle(event))

    async def _carry_out(self, effects: list[ClusterEffect]) -> list[Send]:
        await self._keep(effects)
        self._change_rows(effects)
        sends: list[Send] = []
        for effect in effects:
            match effect:
                case Send():
                    sends.append(effect)
                case Answer(pull):
                    sends += await self._on_disk(partial(self._answers, pull))
                case Trim(channel, upto):
                    self._open[channel].kind.results.trim(channel, upto)
        return sends

    async def _keep(self, effects: Iterable[ClusterEffect]) -> None:
        if kept := kept_of(effects):
            await self._on_disk(partial(self._book.note, kept))

    def _change_rows(self, effects: Iterable[ClusterEffect]) -> None:
        for effect in effects:
            match effect:
                case AddRow(kind, row):
                    self._kinds[kind].files.add(row)
                case RemoveRow(kind, subscription):
                    self._kinds[kind].files.remove(subscription)

    def _answers(self, pull: Pull) -> list[Send]:
        one = self._open.get(pull.channel)
        if one is None:
            return []
        sends = []
        for first in range(0, len(pull.places), FOUND_AT_ONCE_MAX):
            places = pull.places[first : first + FOUND_AT_ONCE_MAX]
            found = one.kind.results.find(
                pull.channel, places, upto=one.place.tick, floor=one.noted.floor, rows_max=ROWS_AT_ONCE_MAX
            )
            sends.append(Send(pull.broker, Results(channel=pull.channel, found=tuple(found))))
        return sends

    # -- operators -----------------------------------------------------------------------------------------------------

    async def asked(self, command: ChannelCommand) -> tuple[ChannelAnswer, Iterable[Send]]:
        """An operator wants something; a TidewireError says why it cannot be."""
        match command:
            case CreateChannel(text):
                return await self._create(text)
            case DropChannel(name):
                return await self._drop(name)
            case ListChannels():
                return ChannelAnswer(channels=[self._document(name) for name in self._open]), []
            case ListNames():
                async with self._turn:
                    return await self._on_disk(partial(names_in, self._open, self._ledger)), []
            case PauseChannel(name):
                return await self._pause(name, is_paused=True), []
            case ResumeChannel(name):
                return await self._pause(name, is_paused=False), []
            case ExplainChannel(name, text):
                channel = await self._read(text) if text else self._known(name).channel
                return ChannelAnswer(explanation=channel.explain()), []

    async def _read(self, text: str) -> Channel:
        return await self._on_disk(lambda: create_channel(text, catalog_of(self._warehouse)))

    async def _create(self, text: str) -> tuple[ChannelAnswer, list[Send]]:
        channel = await self._read(text)
        name = channel.declaration.name
        async with self._turn:
            if name in self._open or name in self._shut:
                raise SameName(f"there is a channel {name!r} already; drop it first, or take another name")
            kind = self._kind(channel)
            place = Progress(kind.version(), tick_at(_unix_ms()))
            noted = Noted.new(name, text, run=kind.results.last_run, place=place)
            await self._on_disk(partial(self._book.note_channel, noted))
            channel = msgspec.structs.replace(channel, plan=kind.plan)
            effects = self._enter(OpenChannel(channel, kind, noted, place))
            await self._keep(effects)
            return self._about(name), [one for one in effects if isinstance(one, Send)]

    async def _drop(self, name: str) -> tuple[ChannelAnswer, list[Send]]:
        async with self._turn:
            if name in self._shut:
                gone = self._ledger.remember(one for one in self._waiting if one.want.channel == name)
                await self._on_disk(partial(self._book.forget_channel, name, gone))
                self._waiting = [one for one in self._waiting if one.want.channel != name]
                del self._shut[name]
                return ChannelAnswer(), []
            answer, kind = self._about(name), self._open[name].kind
            effects = self._ledger.handle(Dropped(name))
            await self._on_disk(partial(self._book.forget_channel, name, kept_of(effects)))
            if not self._open[name].is_paused:
                self._schedule.remove(name)
            del self._open[name]
            self._due.pop(name, None)
            self._change_rows(effects)
            if not any(one.kind is kind for one in self._open.values()):
                del self._kinds[kind.id]
                if (running := self._running.get(kind.id)) is None:
                    kind.drop()
                else:
                    running.add_done_callback(lambda _: kind.drop())
            return answer, [one for one in effects if isinstance(one, Send)]

    async def _pause(self, name: str, *, is_paused: bool) -> ChannelAnswer:
        async with self._turn:
            one = self._known(name)
            if one.is_paused is not is_paused:
                noted = msgspec.structs.replace(one.noted, is_paused=is_paused)
                await self._on_disk(partial(self._book.note_channel, noted))
                one.noted, one.is_paused, one.failures, one.not_before_s = noted, is_paused, 0, 0.0
                if is_paused:
                    self._schedule.remove(name)
                    self._due.pop(name, None)
                else:
                    self._plan_runs(name)
            return self._about(name)

    def _known(self, name: str) -> OpenChannel:
        if name not in self._open:
            raise UnknownName(name, what="channel", known=self._open)
        return self._open[name]

    def _about(self, name: str) -> ChannelAnswer:
        return ChannelAnswer(channels=[self._document(name)])

    def _document(self, name: str) -> ChannelDocument:
        one = self._known(name)
        held = self._ledger.subscriptions_of(name)
        kind = one.channel.member.kind.id
        return document_of(one.channel.declaration, kind=kind, is_paused=one.is_paused, subscriptions=held)

    # -- runs ----------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Channels run when they are due, until cancelled."""
        while True:
            await asyncio.sleep(self._looks.every_s)
            if self._looks.take_time:
                await self._on_disk(partial(self._looks.ask, list(self._kinds.values())))
            self.start_due()

    def start_due(self) -> None:
        """Begin what is due, of each kind that does not run already."""
        self._due |= dict.fromkeys(self._schedule.take_due(now_ns=Nanoseconds(time.monotonic_ns())))
        continuous = [name for name, one in self._open.items() if one.channel.declaration.period_ms is None]
        self._due |= dict.fromkeys(name for name in continuous if not self._open[name].is_paused)
        self._start_these()

    def start_all(self) -> None:
        """Begin all channels that have something new, due or not."""
        self._due |= dict.fromkeys(name for name, one in self._open.items() if not one.is_paused)
        self._start_these()

    async def settled(self) -> None:
        """When what runs now is done."""
        await asyncio.gather(*dict.fromkeys(self._running.values()))

    def _start_these(self) -> None:
        versions = {kind.id: kind.known_version() for kind in self._kinds.values()}
        by_kind: dict[str, list[str]] = {}
        for name in list(self._due):
            one = self._open[name]
            if one.kind.id in self._running:
                continue
            del self._due[name]
            if one.place.batch < versions[one.kind.id] and one.not_before_s <= time.monotonic():
                by_kind.setdefault(one.kind.id, []).append(name)
        quick = [kind for kind in by_kind if self._kinds[kind].last_s <= QUICK_S]
        alone = [[kind] for kind in by_kind if kind not in quick]
        for kinds in (quick, *alone):
            runs = [Run(self._kinds[kind], by_kind[kind], versions[kind]) for kind in kinds]
            if runs:
                self._start(runs)

    def _start(self, runs: list[Run]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(runs))
        self._running |= dict.fromkeys((run.kind.id for run in runs), task)

        def done(_: asyncio.Task[None]) -> None:
            for run in runs:
                del self._running[run.kind.id]

        task.add_done_callback(done)

    async def _run(self, runs: list[Run]) -> None:
        """These kinds together; what fails is done again, later each time."""
        for run in runs:
            try:
                await self._prepare(run)
            except TidewireError as error:
                await self._failed(run, error)
        ready = [run for run in runs if run.job is not None]
        began_s = time.monotonic()
        for run, answer in zip(ready, await self._runner.answers(ready), strict=True):
            if isinstance(answer, TidewireError):
                await self._failed(run, answer)
                continue
            try:
                async with self._turn:
                    sends = await self._store(run, channel_kinds.Ran(run.kind, run.names, answer))
            except TidewireError as error:
                await self._failed(run, error)
                continue
            there = [name for name in run.names if name in self._open]
            for name in there:
                self._open[name].failures = 0
            if not run.succeeded():
                self._due |= dict.fromkeys(name for name in there if not self._open[name].is_paused)
            self.post(sends)
        for run in ready:
            run.kind.last_s = time.monotonic() - began_s

    async def _prepare(self, run: Run) -> None:
        seen = {name: self._open[name].place.batch for name in run.names}
        changed = run.kind.files.take()
        try:
            await self._on_disk(partial(run.prepare, seen, changed))
        except TidewireError:
            run.kind.files.give_back(changed)
            raise

    async def _store(self, run: Run, ran: channel_kinds.Ran) -> list[Send]:
        kind = run.kind
        outcomes: list[Outcome] = []
        for name in run.names:
            results = tuple(Result(one, _SOME) for one in ran.subscriptions(name))
            event = Ran(channel=name, batch=run.upto, now_ms=_unix_ms(), results=results)
            outcomes += [one.outcome for one in self._ledger.handle(event) if isinstance(one, Store)]
        places = {one.channel: Progress(one.batch, one.tick) for one in outcomes}
        rows = ran.stored({one.channel: one.tick for one in outcomes})
        number = kind.results.last_run + (rows is not None)
        before = [(name, place, self._open[name].place) for name, place in places.items()]
        if self._looks.take_time:
            await self._on_disk(self._warehouse.look)
        await self._on_disk(partial(self._book.note_run, number, before))
        if rows is not None:
            looked_at = None if run.job is None else run.job.looked_at()
            await self._on_disk(partial(kind.results.store, number, rows, looked_at))
        for name, place in places.items():
            self._open[name].place = place
        sends = await self._carry_out([effect for one in outcomes for effect in self._ledger.handle(Stored(one))])
        await self._on_disk(partial(kind.results.remove_old, dict(self._open)))
        return sends

    async def _failed(self, run: Run, error: TidewireError) -> None:
        there = [name for name in run.names if name in self._open]
        run.kind.last_s = math.inf
        if isinstance(error, TookTooLong) and run.can_be_less():
            self._due |= dict.fromkeys(name for name in there if not self._open[name].is_paused)
            self._say("channels have much to catch up with, and do it in parts", {"channels": there[:20]})
            return
        again_s = AGAIN_S_MAX
        for name in there:
            one = self._open[name]
            one.failures += 1
            again_s = min(AGAIN_S_MAX, 2.0 ** (one.failures - 1))
            one.not_before_s = time.monotonic() + again_s
        is_paused = isinstance(error, TookTooLong) and any(self._open[name].failures >= OVERRUNS_MAX for name in there)
        facts = {"kind": run.kind.id, "channels": there[:20], "code": error.code, "reason": error.message}
        if not is_paused:
            self._say("channels have failed, and run again", {**facts, "in_s": again_s})
            return
        for name in there:
            await self._pause(name, is_paused=True)
        self._say("channels are paused", facts)

    async def _on_disk(self, act: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._disk, act)


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000
