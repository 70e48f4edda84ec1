"""`tidewire bench filters`: one live broker with many filters, beside the peers that can filter."""

from __future__ import annotations

import contextlib
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from tidewire._kernel._native import Index, encode_event, join_events
from tidewire.benchmarks.dialects import Step, play
from tidewire.benchmarks.filter_dialects import DIALECTS, FilterDialect, Ours, Wanted, subscribe_messages, symbol_of
from tidewire.benchmarks.load import Load, Loaded, Traffic, connected, connection_lines, plan_head
from tidewire.benchmarks.measure import PAIRS_MIN, Ratio, machine, median_interval
from tidewire.benchmarks.peers import CACHE, PEERS, Broker, Server
from tidewire.benchmarks.processes import free_port
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.benchmarks.workloads import Attributes, Workload, make_workload
from tidewire.model.errors import Unavailable
from tidewire.model.messages import Done
from tidewire.wire.frames import message_frame

SUBSCRIBERS: Final = 100
SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
FINISHES: Final = {"rabbitmq": 10_000, "activemq": 100_000}
"""With more filters a peer takes minutes for a turn: their work is linear in the number of filters."""

_EVENTS: Final = 4_000
_FIRST_EVENTS: Final = 20
_WARM_UPS: Final = 2
_MATCHED_AT_ONCE: Final = 50
_SETUP_S: Final = 240.0
_TURN_EVENTS_MAX: Final = 1_000_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured, beside whom."""

    workload: str = "selective"
    sizes: Sequence[int] = SIZES
    peers: Sequence[str] = tuple(FINISHES)
    rounds: int = 11
    turn_s: float = 1.0
    seed: int = 1
    folder: Path | None = None
    cache: Path = CACHE
    needs_all_peers: bool = False

    def shortened(self) -> Plan:
        """The same with as few and as short turns as make any sense."""
        return msgspec.structs.replace(self, rounds=PAIRS_MIN, turn_s=0.2)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One server with so many filters: medians over the rounds."""

    cpu_us_per_event: float
    events_per_s: float
    deliveries_per_event: float
    rss_mb: float
    lost: int


class Subscribing(msgspec.Struct, frozen=True, kw_only=True):
    """Filters taken over one connection, a thousand in a message."""

    filters: int
    filters_per_s: float
    cpu_us_per_filter: float


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody with so many filters."""

    filters: int
    subscriptions_matched_per_event: float
    subscribing: Subscribing
    servers: dict[str, Figures]
    cpu_ratios: dict[str, Ratio]
    """How many times less CPU per event ours takes."""

    missing: dict[str, str]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    benchmark: str
    workload: str
    data: str
    machine: str
    seed: int
    rounds: int
    subscribers: int
    sizes: list[Size]


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """Size by size: start everybody anew, subscribe, and let them take turns."""
    sizes, origin = [], ""
    for filters in plan.sizes:
        tell(f"making the workload {plan.workload}: {filters:,} filters")
        work = make_workload(plan.workload, filters=filters, events=_EVENTS, seed=plan.seed, folder=plan.folder)
        sizes.append(Bench(plan, work, tell).report())
        origin = work.origin
    return Report(
        benchmark="filters",
        workload=plan.workload,
        data=origin,
        machine=machine(),
        seed=plan.seed,
        rounds=plan.rounds,
        subscribers=SUBSCRIBERS,
        sizes=sizes,
    )


class Turn(NamedTuple):
    """So many events were published, and that came of it."""

    events: int
    loaded: Loaded

    @property
    def cpu_us_per_event(self) -> float:
        """Of the server."""
        return self.loaded.server_cpu_s * 1e6 / self.events


class Contender:
    """A server with its filters, and what it did so far."""

    def __init__(self, server: Server, load: Load, expected: Sequence[int], turn_s: float) -> None:
        self.name, self._server, self._load, self._turn_s = server.name, server, load, turn_s
        self._expected = expected
        self._at = 0
        self._events = _FIRST_EVENTS
        self.turns: list[Turn] = []

    def take_turn(self, *, counts: bool = True) -> None:
        """As many events as make a turn, the last of which somebody wants: by its delivery the end is seen."""
        count, expect, places = 0, 0, len(self._expected)
        while count < self._events or not self._expected[(self._at + count - 1) % places]:
            expect += self._expected[(self._at + count) % places]
            count += 1
        loaded = self._load.go(events=count, expect=expect)
        self._at = (self._at + count) % places
        if not loaded.deliveries or loaded.errors:
            raise Unavailable("; ".join(loaded.errors) or "nothing was delivered")
        self._events = min(_TURN_EVENTS_MAX, max(_FIRST_EVENTS, round(count / loaded.seconds * self._turn_s)))
        if counts:
            self.turns.append(Turn(count, loaded))

    def cpu(self) -> list[float]:
        """Microseconds per event, turn by turn."""
        return [turn.cpu_us_per_event for turn in self.turns]

    def figures(self) -> Figures:
        """The medians."""
        return Figures(
            cpu_us_per_event=statistics.median(self.cpu()),
            events_per_s=statistics.median(events / loaded.seconds for events, loaded in self.turns),
            deliveries_per_event=sum(one.deliveries for _, one in self.turns) / sum(n for n, _ in self.turns),
            rss_mb=self._server.rss_bytes() / 2**20,
            lost=sum(loaded.lost for _, loaded in self.turns),
        )


class Bench:
    """One size."""

    def __init__(self, plan: Plan, work: Workload, tell: Tell = tell_nobody) -> None:
        self._plan, self._work, self._tell = plan, work, tell
        index = Index(plan.seed)
        rows = np.arange(len(work))
        index.insert(*work.owners(rows), work.filters())
        self._destinations: list[int] = []
        self._matches: list[int] = []
        for at in range(0, len(work.events), _MATCHED_AT_ONCE):
            events = [encode_event(event) for event in work.events[at : at + _MATCHED_AT_ONCE]]
            found = index.match(join_events(events), limit=0)
            first, numbers = np.asarray(found.event_first), np.asarray(found.number_first)
            self._destinations += np.diff(first.astype(np.int64)).tolist()
            self._matches += np.diff(numbers[first].astype(np.int64)).tolist()

    def report(self) -> Size:
        contenders, missing = [], {}
        with contextlib.ExitStack() as stack:
            for name in ("tidewire", *self._plan.peers):
                if len(self._work) > FINISHES.get(name, len(self._work)):
                    missing[name] = "not with so many filters"
                    continue
                self._tell(f"{len(self._work):,} filters: subscribing at {name}")
                try:
                    server = Broker() if name == Broker.name else PEERS[name](self._plan.cache)
                    contenders.append(stack.enter_context(self.contender(server, DIALECTS[name]())))
                except Unavailable as problem:
                    if self._plan.needs_all_peers or name == Broker.name:
                        raise
                    missing[name] = problem.message
            for number in range(self._plan.rounds):
                self._tell(f"{len(self._work):,} filters", number + 1, self._plan.rounds)
                for contender in contenders if number % 2 == 0 else contenders[::-1]:
                    contender.take_turn()
            servers = {one.name: one.figures() for one in contenders}
        ours, *peers = contenders
        return Size(
            filters=len(self._work),
            subscriptions_matched_per_event=sum(self._matches) / len(self._matches),
            subscribing=self._subscribing(),
            servers=servers,
            cpu_ratios={
                peer.name: median_interval([a / b for a, b in zip(peer.cpu(), ours.cpu(), strict=True)])
                for peer in peers
            },
            missing=missing,
        )

    @contextlib.contextmanager
    def contender(self, server: Server, dialect: FilterDialect) -> Iterator[Contender]:
        """This server, started, with its filters, and warm."""
        server.fetch()
        port = free_port()
        server.start(port)
        try:
            head = plan_head(dialect.dialect, Traffic(events=1, idle_s=5.0), authority=server.authority)
            messages = [dialect.message(event) for event in self._work.events]
            publish = head + connection_lines("publish", port, dialect.publisher(), messages)
            subscribe = list(head)
            for who in range(SUBSCRIBERS):
                subscribe += connection_lines("subscribe", port, dialect.subscriber(self._wanted(who)))
            with connected(
                publish="\n".join(publish) + "\n",
                subscribe="\n".join(subscribe) + "\n",
                server_cpu_s=server.cpu_s,
                setup_s=_SETUP_S,
            ) as load:
                contender = Contender(server, load, self._expected(server.name), self._plan.turn_s)
                for _ in range(_WARM_UPS):
                    contender.take_turn(counts=False)
                yield contender
        finally:
            server.stop()

    def _wanted(self, who: int) -> list[Wanted]:
        made = self._work.subscriptions
        return [Wanted(made.distinct[i], made.text_of(i)) for i in made.chosen[who::SUBSCRIBERS].tolist()]

    def _expected(self, name: str) -> list[int]:
        """Deliveries of each event: one per connection, ActiveMQ's one per subscription. The peers go by symbol."""
        if name == Broker.name:
            return self._destinations
        found: dict[str, list[int]] = {}
        for who in range(SUBSCRIBERS):
            for one in self._wanted(who):
                found.setdefault(symbol_of(one.text), []).append(who)
        everywhere = found.get("", [])
        if name == "activemq":
            return [len(found.get(_symbol(event), [])) + len(everywhere) for event in self._work.events]
        return [len({*found.get(_symbol(event), []), *everywhere}) for event in self._work.events]

    def _subscribing(self) -> Subscribing:
        """The filters of this size, over one connection to a fresh broker."""
        server, port = Broker(), free_port()
        server.start(port)
        try:
            filters = self._work.filters()
            messages = subscribe_messages(filters)
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.settimeout(_SETUP_S)
                play(connection, Ours.dialect.hello("subscribe"))
                before, start = server.cpu_s(), time.perf_counter()
                connection.sendall(b"".join(messages))
                play(connection, [Step("await", message_frame(Done(len(messages))))])
                seconds, cpu = time.perf_counter() - start, server.cpu_s() - before
        finally:
            server.stop()
        return Subscribing(
            filters=len(filters), filters_per_s=len(filters) / seconds, cpu_us_per_filter=cpu * 1e6 / len(filters)
        )


def _symbol(event: Attributes) -> str:
    return str(event["symbol"])
