"""BAD's prototype for real: what was due is known by a second computation, and with real processes all of it comes."""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from tests.spark.test_datacluster import has_java
from tidewire.benchmarks.progress import tell_nobody
from tidewire.channels.creation import create_channel
from tidewire.channels.schemas import Catalog
from tidewire.coordinator.core import CoordinatorCore, CoordinatorEffect
from tidewire.live.settings import coordinator_config
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import VERSION, Hello, Message, Register
from tidewire.model.placement_messages import BrokerFound
from tidewire.papers.bad import EXPERIMENTS, emergencies, live
from tidewire.papers.bad.declarations import (
    COLUMNS_OF,
    STREET,
    Shelter,
    Told,
    Walker,
    declarations,
    parameters,
    told,
    wardens,
)
from tidewire.papers.bad.due import Heard, Reckoning, Row, Seen, Verdict, judge, whole
from tidewire.papers.bad.emergencies import CHANNELS, DISTRICTS, City
from tidewire.papers.bad.live import LiveRun
from tidewire.papers.bad.nodes import SPEED, compressed, decides
from tidewire.papers.bad.scene import Look, Run, name_of
from tidewire.papers.report import Experiment, Options
from tidewire.placement.config import StageConfig
from tidewire.placement.loads import Balance
from tidewire.spark.datasets import Feed, columns_of, declare
from tidewire.wire.connections import Heard as Said
from tidewire.wire.connections import Opened, Send

NORTH = Told(0, "fire", 60.20, 24.90, "a")
SOUTH = Told(1, "fire", 60.16, 24.90, "b")
FLOOD = Told(2, "flood", 60.20, 24.90, "c")


def test_the_seven_channels_can_be_created() -> None:
    """bad §6.1: seven channels over three datasets, with periods of 10, 20 and 30 s, here so much shorter."""
    datasets = [
        declare(
            name,
            columns_of(columns),
            key=("user",) if name == "UserLocations" else (),
            feed=None if name == "Shelters" else Feed(wanted="lat > 0"),
        ).dataset
        for name, columns in COLUMNS_OF.items()
    ]
    made = [create_channel(text, Catalog(datasets)) for text in declarations(speed=SPEED)]
    assert len({one.member.kind.id for one in made}) == len(CHANNELS) == 7
    assert [one.declaration.period_ms for one in made] == [1000, 2000, 3000, 1000, 2000, 3000, 3000]
    people = [f"p{number}" for number in range(DISTRICTS)]
    for channel, one in zip(CHANNELS, made, strict=True):
        assert set(parameters((channel, 1, 1), people)) == {column.name for column in one.declaration.parameters}


def test_decisions_are_the_same_in_shorter_time() -> None:
    """Loads are larger by as much as time is shorter."""
    config = compressed(StageConfig())
    assert config.cycle_s * SPEED == 10
    assert config.migrate_load_min == SPEED * StageConfig().migrate_load_min
    assert config.migrate_above == StageConfig().migrate_above


def test_a_report_is_as_large_as_the_sheet_says() -> None:
    """bad §6.1: 200 to 700 bytes."""
    city = emergencies.city(seed=1, scale=40)
    for number, report in enumerate(city.reports[:200]):
        one = told(number, report)
        assert sum(len(part) if isinstance(part, str) else 8 for part in one.event().values()) == report.size


def test_every_district_has_somebody_who_stays_in_it() -> None:
    people = emergencies.city(seed=1).people
    chosen = wardens(people)
    assert len(set(chosen)) == DISTRICTS
    (south, west), (north, east) = emergencies.SOUTH_WEST, emergencies.NORTH_EAST
    for near in (0, 7, 24):
        left, low = 0.2 * (near % 5), 0.2 * (near // 5)
        walker = Walker(Random(near), 0.5, 0.5, within=near)
        places = [walker.go() for _ in range(300)]
        xs, ys = (
            [(at[name] - first) / (last - first) for at in places]
            for name, first, last in (("lon", west, east), ("lat", south, north))
        )
        for shares, least in ((xs, left), (ys, low)):
            assert least - STREET / 2 <= min(shares) < max(shares) <= least + 0.2 + STREET / 2


def reckoning() -> Reckoning:
    """Two reports with the first version of a table, one with the third; ann goes from the north to the south."""
    return Reckoning(
        [NORTH, SOUTH, FLOOD],
        [Shelter("far", 60.0, 24.0), Shelter("here", 60.2001, 24.9)],
        arrived=[(1, [0, 1]), (3, [2])],
        moved=[(1, [("ann", (60.2001, 24.9))]), (2, [("ann", (60.1601, 24.9))])],
    )


RUNS = [Seen(tick=10, after=0, upto=2, positions=1), Seen(tick=20, after=2, upto=3, positions=2)]


@pytest.mark.parametrize(
    ("channel", "given", "due"),
    [
        ("of a type", {"type": "fire"}, {10: [(0, "fire", "a"), (1, "fire", "b")]}),
        (
            "in an area",
            {"south": 60.19, "west": 24.8, "north": 60.21, "east": 25.0},
            {10: [(0, "fire", "a")], 20: [(2, "flood", "c")]},
        ),
        ("near me", {"me": "ann"}, {10: [(0, "fire", "a")]}),
        ("of a type near me", {"me": "ann", "type": "flood"}, {}),
        ("near me", {"me": "bob"}, {}),
        ("near me with the nearest shelter", {"me": "ann"}, {10: [(0, "fire", "a", "here")]}),
        (
            "in an area with its shelters",
            {"south": 60.15, "west": 24.8, "north": 60.21, "east": 25.0},
            {10: [(0, "fire", "here"), (1, "fire", None)], 20: [(2, "flood", "here")]},
        ),
    ],
)
def test_what_is_due_is_what_the_channels_say(channel: str, given: dict[str, Any], due: dict[int, list[Row]]) -> None:
    """bad §1.3: new rows by their run; positions as they stood for it."""
    [found] = reckoning().due(channel, RUNS, [given])
    assert found == {tick: Counter(rows) for tick, rows in due.items()}


def test_a_run_that_found_nothing_must_have_had_nothing_to_find() -> None:
    """It is not in the tables; what it looked at is known by its neighbours."""
    runs = whole([Seen(tick=30, after=3, upto=4, positions=2), Seen(tick=10, after=0, upto=1, positions=1)])
    assert [(run.tick, run.after, run.upto) for run in runs] == [(10, 0, 1), (11, 1, 3), (30, 3, 4)]
    [found] = reckoning().due("of a type", runs, [{"type": "flood"}])
    assert list(found) == [11]


def verdict_of(due: dict[int, str], came: list[tuple[int, str]], *, asked: int = 0, confirmed: int = 5) -> Verdict:
    """Of one subscription; the letters are rows."""
    heard = Heard(
        who="ann",
        channel="of a type",
        given={},
        asked=asked,
        confirmed=confirmed,
        ticks=[tick for tick, _ in came],
        rows={tick: Counter((one,) for one in rows) for tick, rows in came},
    )
    found = Verdict()
    judge(heard, {tick: Counter((one,) for one in rows) for tick, rows in due.items()}, sorted(due), found)
    return found


DUE = {10: "a", 20: "bc", 30: "d"}


def test_all_once_and_in_order_is_exact() -> None:
    found = verdict_of(DUE, [(10, "a"), (20, "bc"), (30, "d")])
    assert found.is_exact
    assert (found.results, found.notifications) == (4, 3)
    assert verdict_of(DUE, [(20, "bc"), (30, "d")]).is_exact, "the first run had begun before it was confirmed"
    assert verdict_of({4: "x", **DUE}, [(20, "bc"), (30, "d")], asked=4).is_exact, "what was before it is not due"


@pytest.mark.parametrize(
    "came",
    [
        [],
        [(10, "a"), (20, "b"), (30, "d")],
        [(10, "a"), (30, "d")],
        [(10, "a"), (20, "bc")],
        [(10, "a"), (20, "bc"), (20, "bc"), (30, "d")],
        [(10, "a"), (30, "d"), (20, "bc")],
        [(10, "a"), (20, "bcc"), (30, "d")],
        [(10, "a"), (20, "bc"), (25, "e"), (30, "d")],
    ],
)
def test_whatever_is_missing_or_too_much_is_found(came: list[tuple[int, str]]) -> None:
    assert not verdict_of(DUE, came).is_exact


def test_a_random_placement_is_that_of_the_simulation() -> None:
    """bad X1: the coordinator gives each session, by its name, the broker that the simulated one gives it."""
    simulated = Run(emergencies.workload(seed=3, scale=8), place="random", policy="never", config=StageConfig(), seed=3)
    settings = {"address": "127.0.0.1:0", **decides(place="random", policy="never", config=StageConfig(), seed=3)}
    office = CoordinatorCore(chance=Random(), decides=coordinator_config(msgspec.to_builtins(settings), source="test"))

    def say(conn: int, message: Message) -> list[CoordinatorEffect]:
        office.handle(Opened(Conn(conn)), now_ns=Nanoseconds(1))
        return office.handle(Said(Conn(conn), message), now_ns=Nanoseconds(1))

    for conn, name in enumerate(reversed(emergencies.brokers())):
        say(conn, Register(name, 1, f"{name}:1", "edge"))
    for number in reversed(range(50)):
        hello = Hello(version=VERSION, name=name_of(number), uses=["publish", "subscribe"])
        found = [one.message for one in say(100 + number, hello) if isinstance(one, Send)]
        assert found == [BrokerFound(0, simulated.broker_of(number), f"{simulated.broker_of(number)}:1")]


class Seeming:
    """A run that was not: its loads and moves are made up."""

    subscriptions = (3, 9)
    told = LiveRun.told

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.measured = dict.fromkeys(("delay p50, s", "delay p99, s", "CPU, cores", "load reported / delivered"), 1.0)
        even = Balance((1e3, 2e3, 3e3, 1e3, 1e3))
        self.looks = [
            Look(at_s=10.0 * n, before=even, after=even, subscribers=(80,) * 5, moves=n == 50, stages=("gsh", "ldm"))
            for n in range(1, 181)
        ]

    def since(self, at_s: float) -> list[Look]:
        return [look for look in self.looks if look.at_s >= at_s]


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("experiment", EXPERIMENTS[:6], ids=lambda one: one.id)
def test_a_live_report_has_the_claims_of_the_simulated_one_and_whether_all_was_told(
    experiment: Experiment, is_exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bad §4.5, §6.3: of each run it is said whether every result came once."""
    asked: dict[tuple[str, str], None] = {}

    def played(place: str, policy: str, **_: Any) -> Seeming:
        asked[place, policy] = None
        return Seeming(Verdict(results=5, missing=not is_exact))

    monkeypatch.setattr(live, "played", played)
    report = experiment.run(Options(is_live=True), tell_nobody)
    exact = [claim for claim in report.claims if "exactly once" in claim.claim]
    assert len(exact) == len(asked)
    assert [claim.holds for claim in exact] == [is_exact] * len(asked)
    assert len(report.claims) > len(exact)
    assert sum("cores used" in note for note in report.notes) == len(asked)


def hurried(city: City) -> City:
    """The same people, who come at once and subscribe soon after."""
    return msgspec.structs.replace(
        city,
        people=[
            msgspec.structs.replace(
                one, login_s=one.login_s / 12, wants=tuple((20 + at_s / 12, key) for at_s, key in one.wants)
            )
            for one in city.people
        ],
    )


@pytest.mark.slow
@pytest.mark.skipif(not has_java() and os.environ.get("CI") != "true", reason="there is no Java: make setup")
def test_a_small_city_is_balanced_and_everybody_told_everything_once() -> None:
    """bad X3, §4.5: real processes and Spark; subscribers near one broker are moved while results come."""
    city = hurried(emergencies.city(seed=1, scale=16))
    run = LiveRun(city, place="nearest", policy="ldm", tell=lambda _: None, seconds=160.0)
    assert run.verdict.is_exact, run.verdict
    assert run.verdict.results > 500
    assert run.end is not None
    assert run.end.moved > 0
    assert sum(one.subscribers for one in run.end.brokers) == len(city.people)
