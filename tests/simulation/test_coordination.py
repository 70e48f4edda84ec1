"""A coordinator that balances: brokers report, it decides, clients move exactly; in virtual time (bad §4)."""

from __future__ import annotations

import msgspec
import pytest

from tidewire.channels.commands import CreateChannel
from tidewire.channels.evaluator import FedRow
from tidewire.channels.results import Packed
from tidewire.channels.schemas import Catalog
from tidewire.coordinator.balancing import BalanceView
from tidewire.coordinator.config import Decides
from tidewire.model.ids import PubendId, Tick
from tidewire.model.notes import Note
from tidewire.placement.config import StageConfig
from tidewire.simulator import faults
from tidewire.simulator.channel_runs import CATALOG, CHANNELS, DATA, ZONES
from tidewire.simulator.checkers import check
from tidewire.simulator.tuned import channels_are_exact
from tidewire.simulator.world import World

CLIENTS = 12
STAGES = StageConfig(migrate_load_min=10, shuffle_load_min=10, cycle_s=2.0, average_s=6.0, shuffle_pause_s=10.0)


def crowded(
    policy: str,
    *,
    engine: str = "reference",
    broker_policy: str = "never",
    placement: str = "round-robin",
    seed: int = 0,
) -> World:
    """All subscribers come while there is one edge; then there are two more."""
    world = World(seed, engine=engine)
    wanted = {"balancing": policy, "placement": placement, "balance": STAGES}
    world.add_coordinator("office", decides=msgspec.convert(wanted, Decides))
    world.add_broker("head", role="head", coordinator="office", balancing=broker_policy)
    world.add_broker("first", role="edge", coordinator="office", balancing=broker_policy)
    world.run(3)
    for number in range(CLIENTS):
        world.add_client(f"client{number}", "head").subscribe(1, f"n >= {number % 4}")
    world.add_client("publisher", "head").advertise(1)
    world.run(2)
    for name in ("second", "third"):
        world.add_broker(name, role="edge", coordinator="office", balancing=broker_policy)
    world.run(3)
    return world


def publish(world: World, seconds: int) -> None:
    """Ten events a second."""
    for step in range(10 * seconds):
        world.clients["publisher"].publish({"n": step % 8, "step": step})
        world.run(0.1)


def served(world: World) -> dict[str, int]:
    """How many subscribers each edge has."""
    brokers = [world.clients[f"client{number}"].core.broker("subscribe") for number in range(CLIENTS)]
    return {name: brokers.count(name) for name in ("first", "second", "third")}


def view(world: World) -> BalanceView:
    assert world.coordinator is not None
    assert world.coordinator.core is not None
    return world.coordinator.core.balancing.view()


def decisions(world: World) -> list[Note]:
    assert world.coordinator is not None
    return [note for note in world.coordinator.notes if note.what == "subscribers are to move"]


@pytest.mark.parametrize("policy", ["ldm", "sdm", "gsh", "ldm-gsh", "sdm-gsh", "sticky"])
def test_load_becomes_even_and_no_event_is_lost(policy: str) -> None:
    """bad §4.2, §4.5: whoever decides, each event comes once and in order to everybody who wants it."""
    world = crowded(policy)
    assert served(world) == {"first": CLIENTS, "second": 0, "third": 0}
    publish(world, 40)
    seen = view(world)
    assert min(served(world).values()) >= 2
    assert seen.cov <= STAGES.migrate_above
    assert seen.moved >= 4
    assert seen.last_stages
    assert decisions(world)
    assert world.settle()
    world.drain()
    assert check(world) == []


def test_the_kernel_keeps_what_a_report_is_made_from() -> None:
    """The same with the engine that serves users."""
    world = crowded("ldm", engine="kernel")
    publish(world, 40)
    assert min(served(world).values()) >= 2
    assert world.settle()
    world.drain()
    assert check(world) == []


def test_nobody_reports_or_moves_unless_it_is_wanted() -> None:
    """The baseline."""
    world = crowded("never")
    publish(world, 20)
    assert served(world) == {"first": CLIENTS, "second": 0, "third": 0}
    assert view(world).brokers == []


def test_a_head_with_edges_takes_no_subscribers() -> None:
    """Only those that take subscribers count for the mean: a head that has edges does not."""
    world = crowded("ldm")
    publish(world, 10)
    assert {one.broker: one.is_open for one in view(world).brokers} == {
        "head": False,
        "first": True,
        "second": True,
        "third": True,
    }


def test_what_is_reported_is_the_load_of_the_formula() -> None:
    """bad eq. (1) to (5): four filters that three clients have each come in once, and go out three times."""
    world = crowded("never", placement="least-loaded")
    publish(world, 20)
    [first] = [one for one in view(world).brokers if one.broker == "first"]
    node = world.brokers["first"].node
    assert node is not None
    load = node.meter.load()
    assert load is not None
    shares = [1, 7 / 8, 6 / 8, 5 / 8]  # n >= 0 to n >= 3, where n is from 0 to 7
    assert first.load_bytes_s == pytest.approx(load.input_bytes_s * sum(shares) * (1 + CLIENTS / 4), rel=0.15)
    assert first.subscribers == CLIENTS


def test_brokers_that_balance_themselves_do_not_report() -> None:
    """One setting per cluster: brokers and their coordinator do not both decide."""
    world = crowded("ldm", broker_policy="peer")
    publish(world, 5)
    assert view(world).brokers == []
    notes = [note for _, note in world.brokers["first"].notes if note.what == "does not report its load"]
    assert notes
    assert 'balancing = "peer"' in str(notes[0].facts["why"])


@pytest.mark.parametrize("dead", ["coordinator", "first", "second"])
def test_a_death_in_the_middle_is_survived(dead: str) -> None:
    """bad §7 leaves failures out: whoever dies while clients move, the others go on and load becomes even again."""
    world = crowded("ldm", seed=2)
    for _ in range(300):
        publish(world, 1)
        if decisions(world):
            break
    if dead == "coordinator":
        faults.stop_coordinator(world)
    else:
        faults.crash(world, dead)
    publish(world, 5)
    if dead == "coordinator":
        faults.restart_coordinator(world)
    else:
        faults.restart(world, dead)
    publish(world, 40)
    for _ in range(40):  # a load that is measured moves a little
        publish(world, 1)
        if view(world).cov <= STAGES.migrate_above and not view(world).is_moving:
            break
    assert view(world).cov <= STAGES.migrate_above
    assert min(served(world).values()) >= 2
    assert not view(world).is_moving
    assert world.settle()
    world.drain()
    assert check(world) == []


@pytest.mark.parametrize("seed", range(8))
def test_sessions_that_ask_the_coordinator_find_another_broker(seed: int) -> None:
    """bad §1.1 step 3: placed in turn; when a broker dies they ask again; without the coordinator they go where they
    were before, and who has been nowhere else waits for it."""
    world = World(seed)
    world.add_coordinator("office", heartbeat_s=0.5)
    for name, role in (("head", "head"), ("first", "edge"), ("second", "edge")):
        world.add_broker(name, role=role, coordinator="office", heartbeat_s=0.5)
    assert world.settle()
    people = [world.add_client(f"client{number}", "office") for number in range(4)]
    for one in people:
        one.subscribe(1, "n >= 0")
    publisher = world.add_client("publisher", "office")
    publisher.advertise(1)
    world.run(2)
    began_at = [str(one.core.broker("subscribe")) for one in people]
    assert sorted(began_at) == ["first", "first", "second", "second"]
    assert publisher.core.broker("publish") == "head"
    faults.crash(world, "first")
    world.run(5)
    assert [one.core.broker("subscribe") for one in people] == ["second"] * 4
    faults.restart(world, "first")
    assert world.settle()
    faults.stop_coordinator(world)
    faults.crash(world, "second")
    world.run(20)
    expected = ["first" if began == "first" else None for began in began_at]
    assert [one.core.broker("subscribe") for one in people] == expected
    faults.restart(world, "second")
    faults.restart_coordinator(world)
    assert world.settle()
    world.run(10)
    publisher.publish({"n": 1})
    world.run(5)
    assert [len(one.receipts) for one in people] == [1] * 4
    assert check(world) == []


# -- channels ----------------------------------------------------------------------------------------------------------


def tuned(policy: str, **decides: object) -> World:
    """All subscribers to channels come while there is one edge; then there are two more."""
    world = World(0)
    cluster = world.add_data_cluster(DATA, Catalog(CATALOG))
    for text in CHANNELS:
        cluster.command(CreateChannel(text))
    wanted = {"balancing": policy, "balance": STAGES, **decides}
    world.add_coordinator("office", decides=msgspec.convert(wanted, Decides))
    world.add_broker("head", role="head", coordinator="office")
    world.add_broker("first", role="edge", coordinator="office", data_cluster=DATA)
    world.run(3)
    for number in range(CLIENTS):
        client = world.add_client(f"client{number}", "first")
        client.tuned.open(1, "in_zone", {"zone": ZONES[number % len(ZONES)]})
        if number % 2:
            client.tuned.open(2, "severe", {"zone": ZONES[number % len(ZONES)], "least": 1.0})
    world.run(2)
    for name in ("second", "third"):
        world.add_broker(name, role="edge", coordinator="office", data_cluster=DATA)
    world.run(3)
    return world


def feed(world: World, seconds: int) -> None:
    """Ten reports a second, from all zones."""
    assert world.data_cluster is not None
    for step in range(10 * seconds):
        number = int(world.agenda.now_s * 10)
        row = FedRow({"id": number, "zone": ZONES[step % len(ZONES)], "severity": 5.0}, (PubendId(1), Tick(number)))
        world.data_cluster.feed("Reports", [row])
        world.run(0.1)


@pytest.mark.parametrize("policy", ["ldm", "sdm", "gsh", "ldm-gsh", "sticky"])
def test_subscribers_to_channels_move_and_every_result_comes_once(policy: str) -> None:
    """bad §4.5: each (subscriber, run, result) once, also while the coordinator moves subscribers to channels."""
    world = tuned(policy)
    assert served(world) == {"first": CLIENTS, "second": 0, "third": 0}
    feed(world, 40)
    seen = view(world)
    assert min(served(world).values()) >= 2
    assert seen.cov <= STAGES.migrate_above
    assert sum(seen.moved_by.values()) == seen.moved >= 4
    world.run(10)
    assert check(world) == []
    assert channels_are_exact(world) == []
    assert all(record.received for client in world.clients.values() for record in client.tuned.records.values())


def test_the_load_of_channels_is_what_comes_in_and_what_goes_out() -> None:
    """bad eq. (1) to (5): of each back-end subscription its results' bytes, once in and once for each subscriber."""
    world = tuned("never", always_reports=True)
    feed(world, 20)
    assert world.data_cluster is not None
    node = world.brokers["first"].node
    assert node is not None
    fans = node.core.channels.frontends.fan_out()
    found = world.data_cluster.cluster.found
    expected = sum((1 + fans[one.want]) * len(Packed.of(one.rows).data) for one in found) / 20
    loads = {str(one.broker): one for one in view(world).brokers}
    assert loads["first"].load_bytes_s == pytest.approx(expected, rel=0.15)
    assert loads["first"].subscribers == CLIENTS
    assert loads["second"].load_bytes_s == 0
