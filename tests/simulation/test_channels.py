"""Channels in virtual time: brokers, the data cluster and ways between them die, clients move, leave and come back."""

import pytest

from tidewire.channels.frontends import Frontends
from tidewire.client.tunings import Tuning
from tidewire.simulator import faults
from tidewire.simulator.channel_runs import DATA, ChannelRun, run_channel_seed, run_channel_seeds
from tidewire.simulator.tuned import channels_are_exact

SEEDS = (0, 19)


def test_a_few_seeds_without_a_violation() -> None:
    """bad §4.5: every result comes once and in order to those with a name; to others, while no broker dies."""
    summary = run_channel_seeds(*SEEDS)
    assert summary.violations == []
    assert summary.notifications > 500
    assert summary.faults > 20
    assert summary.moves > 5


def test_a_run_is_repeated_by_its_seed() -> None:
    """To the last byte."""
    assert run_channel_seed(3).digest == run_channel_seed(3).digest != run_channel_seed(4).digest


def test_somebody_who_begins_anew_at_each_broker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker sees what is missing: a session that forgets where it was loses results, or gets them twice."""
    plain = Tuning.message

    def forgetful(self: Tuning, request: int) -> object:
        self.place = None
        return plain(self, request)

    monkeypatch.setattr(Tuning, "message", forgetful)
    assert run_channel_seeds(*SEEDS).violations


@pytest.mark.parametrize(("waits_s", "missing"), [(30, False), (0, True)])
def test_a_broker_waits_for_those_who_are_cut_off(waits_s: int, missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a while. The checker sees the loss if it does not."""
    monkeypatch.setattr("tidewire.broker.channels.LINGER_NS", waits_s * 10**9)
    run = ChannelRun(0, is_calm=True)
    run._build()
    run.world.run(2.0)
    client = run.world.add_client("ann", "B0")
    client.tuned.open(1, "in_zone", {"zone": "north"})
    client.tuned.open(2, "in_zone", {"zone": "north"}, "ann")
    run.world.run(1.0)
    other = run.world.add_client("bob", "B0")
    other.tuned.open(1, "in_zone", {"zone": "south"})
    run.world.run(1.0)
    faults.cut(run.world, "bob", "B0")
    run.world.run(1.0)
    for zone in ("north", "south"):
        run._report(zone, 1.0)()
    run.world.run(1.0)
    faults.mend(run.world, "bob", "B0")
    run.world.run(10.0)
    assert [len(record.received) for record in client.tuned.records.values()] == [1, 1]
    assert len(other.tuned.records[1].received) == (0 if missing else 1)


def test_a_cluster_that_is_away_is_found_again() -> None:
    """What was found meanwhile, and what is found then, comes once."""
    run = ChannelRun(0, is_calm=True)
    run._build()
    run.world.run(2.0)
    client = run.world.add_client("ann", "B0")
    client.tuned.open(1, "in_zone", {"zone": "north"}, "ann")
    client.tuned.open(2, "in_zone", {"zone": "north"})
    run.world.run(1.0)
    for _ in range(3):
        run._report("north", 1.0)()
        faults.stop_data_cluster(run.world)
        run.world.run(2.0)
        run._report("north", 2.0)()
        faults.restart_data_cluster(run.world)
        run.world.run(5.0)
        faults.cut(run.world, "B0", DATA, is_silent=True)
        run._report("north", 3.0)()
        run.world.run(3.0)
        faults.mend(run.world, "B0", DATA)
        run.world.run(5.0)
    assert [len(record.received) for record in client.tuned.records.values()] == [9, 9]
    assert channels_are_exact(run.world) == []
    node = run.world.brokers["B0"].node
    assert node is not None
    assert isinstance(node.core.channels.frontends, Frontends)
    assert sum(node.core.channels.frontends.fan_out().values()) == 2
