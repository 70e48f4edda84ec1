"""One seed, one random network with a data cluster: did every result come, once and in order?

Those who hear of channels move, are cut off, leave and come back; brokers and the data cluster die meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import msgspec

from tidewire.channels.commands import CreateChannel
from tidewire.channels.evaluator import FedRow
from tidewire.channels.schemas import Catalog, Column, ColumnType, Dataset
from tidewire.model.ids import PubendId, Tick
from tidewire.simulator import faults
from tidewire.simulator.checkers import check
from tidewire.simulator.trouble import Deeds
from tidewire.simulator.tuned import channels_are_exact
from tidewire.simulator.world import World

ACTIVE_S: Final = 12.0
SETTLE_S: Final = 40.0
"""Within so long after the last fault everything has come."""
DATA: Final = "data"
ZONES: Final = ("north", "south", "west")
_LASTING_S: Final = (0.05, 0.5, 2.0, 6.0)

CATALOG: Final = (
    Dataset(
        name="Reports",
        columns=(
            Column("id", ColumnType.BIGINT),
            Column("zone", ColumnType.STRING),
            Column("severity", ColumnType.DOUBLE),
        ),
        is_feed=True,
    ),
)
CHANNELS: Final = (
    """create channel in_zone(zone string) continuous as
    select r.id, r.severity from Reports r where r.zone = :zone""",
    """create channel severe(zone string, least double) period 1s as
    select r.id from Reports r where r.zone = :zone and r.severity >= :least""",
    """create channel counted(least double) period 2s as
    select r.zone, count(*) as reports from Reports r where r.severity >= :least group by r.zone""",
)


class ChannelOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one seed."""

    seed: int
    results: int
    """That the data cluster found."""

    notifications: int
    faults: int
    moves: int
    digest: str
    violations: list[str] = []


class ChannelSummary(msgspec.Struct, kw_only=True):
    """What came of many."""

    runs: int = 0
    results: int = 0
    notifications: int = 0
    faults: int = 0
    moves: int = 0
    violations: list[dict[str, str | int]] = []


def run_channel_seeds(
    first: int, last: int, *, on_progress: Callable[[ChannelOutcome], object] | None = None
) -> ChannelSummary:
    """Run all seeds from first to last; ``violations`` says of each one what is wrong and how to see it again."""
    summary = ChannelSummary()
    for seed in range(first, last + 1):
        outcome = run_channel_seed(seed)
        summary.runs += 1
        summary.results += outcome.results
        summary.notifications += outcome.notifications
        summary.faults += outcome.faults
        summary.moves += outcome.moves
        replay = f"tidewire sim --channels --seeds {seed}..{seed}"
        summary.violations += [{"seed": seed, "what": what, "replay": replay} for what in outcome.violations]
        if on_progress is not None:
            on_progress(outcome)
    return summary


def run_channel_seed(seed: int) -> ChannelOutcome:
    """One run."""
    run = ChannelRun(seed)
    violations = run.play()
    world = run.world
    assert world.data_cluster is not None
    records = [record for client in world.clients.values() for record in client.tuned.records.values()]
    return ChannelOutcome(
        seed=seed,
        results=len(world.data_cluster.cluster.found),
        notifications=sum(len(record.received) for record in records),
        faults=run.faults,
        moves=sum(told.what == "moved" for client in world.clients.values() for _, told in client.told),
        digest=world.network.digest(),
        violations=violations,
    )


class ChannelRun:
    """A world with a data cluster that a seed has made."""

    def __init__(self, seed: int, *, is_calm: bool = False) -> None:
        """``is_calm``: nothing dies."""
        self.chance = Random(f"{seed}/channels")
        self.world = World(f"{seed}/channels", wrong_clocks=True)
        self._is_calm = is_calm
        self.faults = 0
        self._broken_until = 0.0
        self._reports = 0

    def play(self) -> list[str]:
        """Let it happen; what went wrong?"""
        self._build()
        self.world.run(2.0)
        self._populate()
        self.world.run(2.0)
        for at_s, action in sorted(self._script(), key=lambda item: item[0]):
            self.world.at(at_s, action)
        self.world.run(ACTIVE_S)
        self.world.run(max(0.0, self._broken_until - self.world.agenda.now_s))
        self.world.run(SETTLE_S)
        return [*check(self.world), *channels_are_exact(self.world)]

    def _build(self) -> None:
        chance, world = self.chance, self.world
        cluster = world.add_data_cluster(DATA, Catalog(CATALOG))
        for text in CHANNELS:
            cluster.command(CreateChannel(text))
        names = [f"B{i}" for i in range(chance.choice((1, 2, 2, 3, 4)))]
        for name in names:
            world.add_broker(name, role="both", data_cluster=DATA, heartbeat_s=0.5, reconnect_s_max=1.0)
            world.network.path(name, DATA).set(chance.choice((0.1, 1, 5, 20, 80)))
        for i in range(1, len(names)):
            world.link(names[chance.randrange(i)], names[i])

    def _populate(self) -> None:
        chance, world = self.chance, self.world
        for i in range(chance.randrange(2, 7)):
            known = chance.sample(list(world.brokers), min(len(world.brokers), chance.choice((1, 2, 3))))
            client = world.add_client(f"c{i}", *known, latency_ms=chance.choice((0.1, 1, 5, 20, 80)))
            for number in range(chance.randrange(1, 4)):
                name = f"n{i}-{number}" if chance.random() < 0.6 else ""
                zone, least = chance.choice(ZONES), float(chance.choice((1, 5)))
                kind = chance.randrange(3)
                if kind == 0:
                    client.tuned.open(number, "in_zone", {"zone": zone}, name)
                elif kind == 1:
                    client.tuned.open(number, "severe", {"zone": zone, "least": least}, name)
                else:
                    client.tuned.open(number, "counted", {"least": least}, name)

    # -- what happens --------------------------------------------------------------------------------------------------

    def _script(self) -> Iterator[tuple[float, Callable[[], object]]]:
        chance, start_s = self.chance, self.world.agenda.now_s
        at_s = start_s
        while at_s < start_s + ACTIVE_S:
            at_s += chance.expovariate(4.0)
            yield at_s, self._report(chance.choice(ZONES), float(chance.randrange(10)))
        for _ in range(chance.choice((0, 1, 3, 6))):
            yield start_s + chance.random() * ACTIVE_S, self._move()
        for _ in range(chance.choice((0, 1, 3))):
            yield start_s + chance.random() * ACTIVE_S, self._leave()
        for _ in range(chance.choice((0, 1, 2, 4, 6))):
            begin_s = start_s + chance.random() * ACTIVE_S
            end_s = begin_s + chance.choice(_LASTING_S)
            begin, end = self._fault()
            self.faults += 1
            self._broken_until = max(self._broken_until, end_s)
            yield begin_s, begin
            yield end_s, end

    def _report(self, zone: str, severity: float) -> Callable[[], object]:
        self._reports += 1
        number = self._reports
        row = FedRow({"id": number, "zone": zone, "severity": severity}, (PubendId(1), Tick(number)))

        def feed() -> None:
            assert self.world.data_cluster is not None
            self.world.data_cluster.feed("Reports", [row])

        return feed

    def _move(self) -> Callable[[], object]:
        client = self.chance.choice(list(self.world.clients))
        broker = self.chance.choice(list(self.world.brokers))
        return lambda: faults.migrate(self.world, client, broker)

    def _leave(self) -> Callable[[], object]:
        client = self.world.clients[self.chance.choice(list(self.world.clients))]
        number = self.chance.choice(list(client.tuned.records))
        seconds = self.chance.choice(_LASTING_S)
        return lambda: client.tuned.leave(number, seconds=seconds)

    def _fault(self) -> Deeds:
        chance, world = self.chance, self.world
        broker, client = chance.choice(list(world.brokers)), chance.choice(list(world.clients))
        kinds = ("cluster-cut", "cluster-cut", "client-cut") + (
            () if self._is_calm else ("broker", "broker", "cluster")
        )
        kind, is_silent = chance.choice(kinds), chance.random() < 0.5
        if kind == "broker":
            return lambda: faults.crash(world, broker), lambda: faults.restart(world, broker)
        if kind == "cluster":
            return lambda: faults.stop_data_cluster(world), lambda: faults.restart_data_cluster(world)
        other = DATA if kind == "cluster-cut" else client
        return (
            lambda: faults.cut(world, broker, other, is_silent=is_silent),
            lambda: faults.mend(world, broker, other),
        )
