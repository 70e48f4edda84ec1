"""The streams of a node: what the machine wants done with them, and what it is told of them (``node.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidewire.broker.core import BrokerCore
from tidewire.broker.events import LogOpened
from tidewire.broker.pubends import begun_key, pubend_of
from tidewire.broker.stream_events import (
    AnswerNack,
    CatchUp,
    Doubted,
    EndReplay,
    FollowersTook,
    Keep,
    Kept,
    Lacking,
    LimitPubend,
    LogLoss,
    LogSeen,
    MakeFollower,
    Owe,
    RelayReplay,
    ReleaseTicks,
    StartReplay,
    StopReplay,
    StreamEffect,
    StreamEvent,
    StreamsSeen,
    StreamsTold,
    Unwanted,
)
from tidewire.dataplane.log import Log
from tidewire.dataplane.stream_news import StreamNews
from tidewire.dataplane.streams import StreamEngine
from tidewire.model.errors import BadConfiguration
from tidewire.model.ids import Nanoseconds, PubendId, Tick

LOOK_NS: Final = 100_000_000
"""How often the streams are looked at (gryphon §2.4: the pace of samples)."""

OWNER_KEY: Final = b"owner"
"""In the log: how many pubends, and which broker's."""

TAKEN_NS: Final = 1_000_000_000
"""How often is told what followers have taken."""


class NodeStreams:
    """One node's streams, their engine, and their log, if it hosts some."""

    def __init__(self, core: BrokerCore, engine: StreamEngine, log: Log | None) -> None:
        self._core = core
        self.engine = engine
        self.log = log
        self._keeps: list[tuple[int, int]] = []
        """What is to be kept: its number, and the group that it is durable with."""
        self.is_unsubmitted = False
        """Is something in the log's open group that the log has not been told to commit?"""
        self._unkept: list[Keep] = []
        """What found no room."""
        self._look_ns = self._taken_ns = 0
        self._firsts: dict[PubendId, tuple[Tick, int]] = {}
        """The first event of each stream as it was found, and what was durable at that time."""

    @property
    def is_keeping(self) -> bool:
        """Is something to become durable that somebody waits for?"""
        return bool(self._keeps or self._unkept)

    def begin(self, *, unix_offset_ns: int, now_ns: Nanoseconds) -> LogOpened | None:
        """What the machine is to know of the log; None: there is none. BadConfiguration if it is not ours."""
        if self.log is None:
            return None
        config = self._core.config
        self._own(self.log)
        pubends = [pubend_of(config.broker, number) for number in range(config.pubends)]
        self.engine.host(self.log, pubends, unix_offset_ns=unix_offset_ns, now_ns=now_ns)
        self._begin_new(self.log)
        kept = self.log.items(b"")
        states = {state.pubend: state for state in self.engine.streams()}
        return LogOpened([states[pubend] for pubend in pubends], kept, unix_offset_ns)

    def _own(self, log: Log) -> None:
        """What is in a log is told by the pubends that it was taken by: with others it would be there for nobody."""
        config = self._core.config
        known, ours = log.get(OWNER_KEY), f"{config.pubends} {config.broker}".encode()
        if known is None and log.trouble != "failed":
            self.is_unsubmitted = log.put(OWNER_KEY, ours) > 0
        elif known is not None and known != ours:
            count, _, broker = known.decode().partition(" ")
            raise BadConfiguration(
                f"the store {config.store} is of the broker {broker} with pubends = {count}, and this is"
                f" {config.broker} with pubends = {config.pubends}: what was published would not be told any more."
                f" Keep name and pubends, or take a new folder for the store"
            )

    def _begin_new(self, log: Log) -> None:
        """A stream begins where the clock is. Whoever has seen what was before, of a store that is gone, lacks it."""
        for pubend, head in self.engine.heads():
            if not log.last_tick(pubend) and not log.get(begun_key(pubend)) and log.trouble != "failed":
                log.release(pubend, head)
                log.put(begun_key(pubend), head.to_bytes(8, "little"))
                self.is_unsubmitted = True

    def deadline_ns(self) -> int | None:
        """When to look again; None: there is nothing to look at."""
        return min((time for time in (self._look_ns, self._taken_ns) if time), default=None)

    # -- what is to be done --------------------------------------------------------------------------------------------

    def took(self) -> list[StreamEvent]:
        """What followers have taken since this was last told."""
        taken = self.engine.taken()
        return [FollowersTook(taken)] if taken else []

    def attended(self, *, now_ns: Nanoseconds) -> None:
        """A stream is attended: it is looked at from now on."""
        self._look_ns = now_ns

    def perform(self, effect: StreamEffect, *, now_ns: Nanoseconds) -> Iterator[StreamEvent]:
        """Do it; what follows is for the machine."""
        engine = self.engine
        match effect:
            case AnswerNack(conn, tree, pubend, ranges):
                rest = engine.answer(conn, tree, pubend, ranges)
                if rest:
                    yield Lacking(tree, pubend, rest)
            case StartReplay(replay, conn, number, pubend, place, wanted, bytes_max):
                engine.replay(replay, conn, number, pubend, place, wanted=wanted, bytes_max=bytes_max)
            case CatchUp(replay, conn, number, pubend):
                engine.catch_up(replay, conn, number, pubend)
            case RelayReplay(link, replay, conn, number, pubend):
                engine.relay(link, replay, conn, number, pubend)
            case EndReplay(replay):
                engine.end_replay(replay)
            case StopReplay(conn, number, tree):
                found = engine.stop_replay(conn, number)
                if found is not None:
                    yield Unwanted(tree, found[1])
            case MakeFollower(conn, number):
                engine.follow(conn, number)
                self._taken_ns = self._taken_ns or now_ns + TAKEN_NS
            case Owe(conn, number, pubend, place, sound, settled):
                engine.owe(conn, number, pubend, place, sound=sound, settled=settled)
            case Keep():
                self._unkept.append(effect)
                self._keep()
                yield from self._kept()  # with nothing in it, it may be durable at once, and the log has nothing to do
            case _:
                self._host(effect, now_ns)

    def _host(self, effect: StreamEffect, now_ns: Nanoseconds) -> None:
        assert self.log is not None
        match effect:
            case LimitPubend(pubend, events_s):
                self.engine.limit(pubend, events_s, now_ns=now_ns)
            case ReleaseTicks(pubend, tick):
                if self.log.trouble != "failed":
                    # No further than its events: who is behind the last of them would hear of a gap in silence.
                    self.log.release(pubend, min(tick, self.log.last_tick(pubend) + 1))
                    self.is_unsubmitted = True  # its room is free when that is durable

    def _keep(self) -> None:
        assert self.log is not None
        while self._unkept and self.log.trouble != "failed":
            keep = self._unkept[0]
            group = self._keeps[-1][1] if self._keeps else self.log.durable  # not ahead of what is before it
            for key, value in keep.items:
                group = self.log.erase(key) if value is None else self.log.put(key, value)
                if not group:
                    return
            del self._unkept[0]
            self.is_unsubmitted = True
            self._keeps.append((keep.number, group))

    # -- what is to be told --------------------------------------------------------------------------------------------

    def news(self, news: StreamNews) -> Iterator[StreamEvent]:
        """What the engine had to tell."""
        if news.replayed or news.fallen or news.lacks:
            yield StreamsTold(news)
        if news.doubtful:
            yield from self._seen(news.doubtful)

    def _seen(self, doubtful: list[PubendId]) -> Iterator[StreamEvent]:
        states = self.engine.streams()
        if states:
            yield StreamsSeen(states)
        attending = self._core.streams.attending
        for pubend in doubtful:
            end = attending.window_end(pubend)
            ranges = [] if end is None else self.engine.doubts(pubend, end=end)
            if ranges:
                yield Doubted(pubend, ranges)

    def now(self) -> Iterator[StreamEvent]:
        """How the streams that are hosted here stand."""
        if self.log is not None:
            yield StreamsSeen(self.engine.streams())

    def committed(self) -> Iterator[StreamEvent]:
        """The log has become durable further."""
        self._keep()
        yield from self._kept()

    def _kept(self) -> Iterator[StreamEvent]:
        assert self.log is not None
        durable = self.log.durable
        done = [number for number, group in self._keeps if group <= durable]
        if done:
            self._keeps = [keep for keep in self._keeps if keep[0] not in done]
            yield Kept(max(done))

    def _first(self, log: Log, pubend: PubendId) -> Tick:
        """The first event that is kept; 0: none. To find it takes long if much before it is damaged."""
        durable = log.durable
        first, durable_then = self._firsts.get(pubend, (Tick(0), -1))
        if first < log.released_tick(pubend) if first else durable != durable_then:
            first = Tick(log.first_tick(pubend))
            self._firsts[pubend] = first, durable
        return first

    def _log_seen(self, log: Log) -> LogSeen:
        firsts = [(pubend, self._first(log, pubend)) for pubend, _ in self.engine.heads()]
        losses = [
            LogLoss(pubend, Tick(first), Tick(last), found_ns)
            for pubend, _ in firsts
            for first, last, found_ns in log.losses(pubend)
        ]
        return LogSeen(log.trouble, log.trouble_text, log.disk_bytes, firsts, losses)

    def look(self, *, now_ns: Nanoseconds) -> Iterator[StreamEvent]:
        """Time has passed."""
        if self.log is not None and not self._look_ns:
            self._look_ns = now_ns
        if self._look_ns and now_ns >= self._look_ns:
            self._look_ns = now_ns + LOOK_NS
            yield from self._seen(self._core.streams.attending.attended())
            if self.log is not None:
                yield self._log_seen(self.log)
        if self._taken_ns and now_ns >= self._taken_ns:
            self._taken_ns = now_ns + TAKEN_NS
            yield from self.took()
