"""What else a random run goes through: drains, slow readers, small queues, clients that end, a coordinator that does.

Nothing of it is an excuse to lose more than its part: a drained broker's clients lose nothing, a slow reader what it
was told or its session, a client that ends what it had not sent and what came while it was away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

from tidewire.model.values import Value
from tidewire.simulator import faults
from tidewire.simulator.world import World

Deeds = tuple[Callable[[], object], Callable[[], object]]
"""What begins, and what ends it."""

COORDINATOR: Final = "coordinator"
_LASTING_S: Final = (0.05, 0.5, 2.0, 5.0)
_QUEUES: Final = (4096, 4096, 16 << 10, 8 << 20)
_LINK_QUEUES: Final = (16 << 10, 64 << 10, 32 << 20)
_WINDOWS: Final = (2048, 4096, 16 << 10, 64 << 10)
_SLOW_MBPS: Final = (0.005, 0.02, 0.1)
_BURST: Final = 200


class Trouble:
    """Of one run. It draws from its own chance."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = Random(f"{seed}/trouble")
        self._heartbeat_s = 1.0

    def begin(self, *, heartbeat_s: float) -> bool:
        """Before there are brokers. Is there a coordinator, which says who is next to whom?"""
        self._heartbeat_s = heartbeat_s
        self._world.network.window_bytes = self._chance.choice(_WINDOWS)
        if self._chance.random() < 0.3:
            self._world.add_coordinator(COORDINATOR, heartbeat_s=heartbeat_s)
        return self._world.coordinator is not None

    def broker_options(self) -> dict[str, Any]:
        """Of the next broker: how long its queues are, and what happens to those who do not read."""
        chance = self._chance
        return {
            "slow_subscriber": chance.choice(("wait", "drop", "end")),
            "queue_bytes_max": chance.choice(_QUEUES),
            "link_queue_bytes_max": chance.choice(_LINK_QUEUES),
            "link_patience_s": chance.choice((2.0, 30.0)),
            "coordinator": None if self._world.coordinator is None else COORDINATOR,
        }

    def episodes(
        self, publishers: Mapping[str, str | None], subscribers: Sequence[str], *, within_s: float
    ) -> Iterator[tuple[float, float, Deeds]]:
        """What happens from when to when."""
        chance, start_s = self._chance, self._world.agenda.now_s
        kinds = [self._drain, lambda: self._slow_reader(publishers, subscribers), self._client_ends]
        kinds += [lambda: self._unadvertise(publishers)] if publishers else []
        kinds += [] if self._world.coordinator is None else [self._coordinator_ends, self._broker_joins]
        for kind in kinds:
            for _ in range(chance.choice((0, 0, 1, 2))):
                begin_s = start_s + chance.random() * within_s
                yield begin_s, begin_s + chance.choice(_LASTING_S), kind()

    # -- what may happen -----------------------------------------------------------------------------------------------

    def _drain(self) -> Deeds:
        world, broker = self._world, self._chance.choice(list(self._world.brokers))

        def end() -> None:
            faults.stop(world, broker)  # the operator has waited for long enough
            faults.restart(world, broker)

        return lambda: faults.drain(world, broker), end

    def _slow_reader(self, publishers: Mapping[str, str | None], subscribers: Sequence[str]) -> Deeds:
        """It reads slowly, and somebody has much to say at once."""
        world, chance = self._world, self._chance
        client, mbps = chance.choice(subscribers), chance.choice(_SLOW_MBPS)
        publisher = world.clients[chance.choice(list(publishers))] if publishers else None
        burst: list[dict[str, Value]] = [
            {"symbol": chance.choice("ABCD"), "price": chance.randrange(100)} for _ in range(_BURST)
        ]

        def begin() -> None:
            faults.slow_reader(world, client, mbps=mbps)
            if publisher is not None:
                for event in burst:
                    publisher.publish(event)

        return begin, lambda: faults.slow_reader(world, client, mbps=None)

    def _unadvertise(self, publishers: Mapping[str, str | None]) -> Deeds:
        name = self._chance.choice(list(publishers))
        client, offered = self._world.clients[name], publishers[name]
        return lambda: client.unadvertise(1), lambda: client.advertise(1, offered)

    def _client_ends(self) -> Deeds:
        world, client = self._world, self._chance.choice(list(self._world.clients))
        return lambda: faults.crash(world, client), lambda: faults.restart(world, client)

    def _coordinator_ends(self) -> Deeds:
        world = self._world
        if self._chance.random() < 0.5:
            return lambda: faults.stop_coordinator(world), lambda: faults.restart_coordinator(world)
        broker, is_silent = self._chance.choice(list(world.brokers)), self._chance.random() < 0.5
        return (
            lambda: faults.cut(world, broker, COORDINATOR, is_silent=is_silent),
            lambda: faults.mend(world, broker, COORDINATOR),
        )

    def _broker_joins(self) -> Deeds:
        world, options = self._world, self.broker_options()
        options |= {"heartbeat_s": self._heartbeat_s, "tree_memory_s": 20.0}

        def begin() -> None:
            world.add_broker(f"N{len(world.brokers)}", **options)

        return begin, lambda: None
