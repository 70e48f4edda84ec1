"""What random runs go through with guaranteed events: who publishes and follows them, and what becomes of the disks.

It is drawn apart, as ``trouble.py`` is. A run has disks or has none: without a store nothing can be guaranteed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

from tidewire.model.values import Value
from tidewire.simulator import faults
from tidewire.simulator.checkers import RECOVERY_NS, no_loss
from tidewire.simulator.disks import SEGMENT_BYTES
from tidewire.simulator.guarantees import followers_are_served
from tidewire.simulator.trouble import Deeds
from tidewire.simulator.world import World

_LASTING_S: Final = (0.05, 0.5, 2.0, 5.0)
_SHARES: Final = (0.2, 0.8, 1.0)
_SYNCS_S: Final = (0.05, 0.3, 2.0)
_FOLLOW: Final = 10
"""The number of a client's first subscription by name."""

CAUGHT_UP_S: Final = 60.0
"""After all is in order, everybody has what they are owed within so long."""


class Durability:
    """Of one run."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = Random(f"{seed}/durability")
        self._names = Random(f"{seed}/names")
        self.is_on = not world.has_flows and self._chance.random() < 0.6
        self._share = self._chance.choice(_SHARES) if self.is_on else 0.0

    def broker_options(self) -> dict[str, Any]:
        """Of the next broker: its store."""
        if not self.is_on:
            return {}
        return {"store": "disk", "pubends": self._chance.choice((1, 1, 2, 3))}

    def populate(self, subscribers: Sequence[str], make_filter: Callable[[Random], str]) -> None:
        """Some of those who subscribe follow, too."""
        for name in subscribers if self.is_on else ():
            for i in range(self._chance.choice((0, 1, 1, 2))):
                text = make_filter(self._chance)
                self._world.clients[name].follow(_FOLLOW + i, text, f"{name}/{i}")

    def is_next_guaranteed(self) -> bool:
        """Is the event that is published next a guaranteed one?"""
        return self.is_on and self._chance.random() < self._share

    def episodes(
        self, publishers: Mapping[str, str | None], *, within_s: float
    ) -> Iterator[tuple[float, float, Deeds]]:
        """What happens from when to when."""
        chance, start_s = self._chance, self._world.agenda.now_s
        if not self.is_on:
            return
        kinds = [self._power_fails, self._disk_is_slow, self._disk_is_full, self._follower_goes]
        kinds += [lambda: self._burst(publishers)] if publishers else []
        for kind in kinds:
            for _ in range(chance.choice((0, 0, 1, 2))):
                begin_s = start_s + chance.random() * within_s
                yield begin_s, begin_s + chance.choice(_LASTING_S), kind()
        for _ in range(self._names.choice((0, 0, 1, 2))):
            begin_s = start_s + self._names.random() * within_s
            yield begin_s, begin_s + self._names.choice(_LASTING_S), self._name_ends()

    def wait_for_followers(self) -> None:
        """Let time pass until they have what they are owed, or should have; and others what is on its way."""
        end_s = self._world.agenda.now_s + CAUGHT_UP_S
        if self.is_on:
            self._world.run(RECOVERY_NS / 1e9)
        while self.is_on and self._world.agenda.now_s < end_s and self._is_lacking():
            self._world.run(1.0)

    def _is_lacking(self) -> bool:
        """Does somebody still lack something? On slow links a recovery takes its time."""
        return bool(followers_are_served(self._world) or no_loss(self._world))

    # -- what may happen -----------------------------------------------------------------------------------------------

    def _broker(self) -> str:
        return self._chance.choice(list(self._world.brokers))

    def _power_fails(self) -> Deeds:
        world, broker = self._world, self._broker()
        return lambda: faults.lose_power(world, broker), lambda: faults.restart(world, broker)

    def _disk_is_slow(self) -> Deeds:
        world, broker, sync_s = self._world, self._broker(), self._chance.choice(_SYNCS_S)
        return lambda: faults.slow_disk(world, broker, sync_s=sync_s), lambda: faults.slow_disk(world, broker)

    def _disk_is_full(self) -> Deeds:
        world, broker = self._world, self._broker()
        more = self._chance.choice((0, SEGMENT_BYTES))
        return lambda: faults.fill_disk(world, broker, bytes_left=more), lambda: faults.empty_disk(world, broker)

    def _follower_goes(self) -> Deeds:
        world = self._world
        names = [name for name, client in world.clients.items() if client.followed] or list(world.clients)
        client = self._chance.choice(names)
        return lambda: faults.crash(world, client), lambda: faults.restart(world, client)

    def _name_ends(self) -> Deeds:
        """A name is forgotten, and begins anew."""
        followers = [client for client in self._world.clients.values() if client.followed]
        if not followers:
            return lambda: None, lambda: None
        client = self._names.choice(followers)
        number = self._names.choice(list(client.follows()))
        return lambda: client.end_name(number), lambda: None

    def _burst(self, publishers: Mapping[str, str | None]) -> Deeds:
        """Much at once: queues of streams overflow, and what is thrown away is asked for again."""
        world, chance = self._world, self._chance
        publisher = world.clients[chance.choice(list(publishers))]
        events: list[dict[str, Value]] = [
            {"symbol": chance.choice("ABCD"), "price": chance.randrange(100), "text": "x" * chance.choice((0, 500))}
            for _ in range(chance.choice((100, 400)))
        ]

        def begin() -> None:
            for event in events:
                publisher.guarantee(event)

        return begin, lambda: None
