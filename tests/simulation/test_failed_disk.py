"""A disk fails for good: guaranteed events are refused, all else goes on, and a new life finds what was kept."""

from __future__ import annotations

import errno

import pytest

from tests.simulation.test_guarantees import ENGINES, got, guarantee, two_brokers
from tidewire.simulator import faults


@pytest.mark.parametrize("engine", ENGINES)
def test_a_failed_disk_takes_nothing_and_stops_nobody(engine: str) -> None:
    world, ann, bob = two_brokers(engine)
    guarantee(world, bob, range(5))
    disk = world.brokers["A"].disk
    assert disk is not None
    disk.files.fail("sync", errno.EIO)
    guarantee(world, bob, range(5, 20))
    world.run(3)
    assert sum(one.is_receipted for one in bob.promised.values()) == 5
    assert got(ann) == list(range(5))
    assert {error.code for _, error in bob.failures} == {"store-failed"}
    assert "log failed" in [note.what for _, note in world.brokers["A"].notes]
    ann.subscribe(2, "n = 100")
    world.run(1)
    bob.publish({"n": 100})
    world.run(1)
    assert [one.attributes["n"] for one in ann.receipts][-1] == 100
    disk.files.fail("sync", 0)
    faults.lose_power(world, "A")
    faults.restart(world, "A")
    world.run(3)
    guarantee(world, bob, range(20, 25))
    world.run(5)
    assert sum(one.is_receipted for one in bob.promised.values()) >= 10
    assert got(ann)[-5:] == list(range(20, 25))
