"""Deadlines from a publisher to a subscriber, through a broker with traffic classes."""

from __future__ import annotations

import asyncio

import pytest

import tidewire
from tests.integration.network import brokers, until
from tidewire.model.errors import ValueOutOfRange
from tidewire.traffic.config import ClassConfig, TrafficConfig

TRAFFIC = TrafficConfig(
    classes=[ClassConfig(name="readings", filter="class = 'READING'", delay_s=30.0, value=0.25)],
)


def test_a_subscriber_knows_the_deadline_and_who_is_late_is_thrown_away() -> None:
    """What is late when it comes to the broker goes to nobody; a guaranteed one would. Classes give what is missing."""

    async def run() -> None:
        async with brokers({"role": "both", "traffic": TRAFFIC}) as (node,), tidewire.connect(node.address) as wire:
            got = await wire.subscribe("n >= 0")
            await wire.publish({"n": 1}, deadline_s=60, value=0.5)
            await wire.publish({"n": 2, "class": "READING"})
            await wire.publish_many([{"n": 3, "class": "READING"}], deadline_s=10)
            one, two, three = [await anext(got) for _ in range(3)]
            assert (one["n"], one.deadline, one.value, one.is_late) == (1, 60.0, 0.5, False)
            assert (two["n"], two.deadline, two.value, two.event.envelope.traffic_class) == (2, 30.0, 0.25, 1)
            assert (three["n"], three.deadline, three.value) == (3, 10.0, 0.25)
            await wire.publish({"n": 4}, deadline_s=1e-6)
            await wire.publish({"n": 5})
            assert (await anext(got))["n"] in {4, 5}, (
                "4 only if it took less than a microsecond, or its clock is unknown"
            )
            await until(lambda: wire.late + node.engine.totals().expired == 1)
            with pytest.raises(ValueOutOfRange, match="deadline_s = 0"):
                await wire.publish({"n": 6}, deadline_s=0)
            with pytest.raises(ValueOutOfRange, match="value = 2"):
                await wire.publish({"n": 6}, value=2)

    asyncio.run(run())
