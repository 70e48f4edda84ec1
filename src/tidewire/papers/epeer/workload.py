"""What is published, by whom, for whom: the calibration of epeer §4.3, all of it from one seed.

What the thesis leaves open is drawn here once for each run, so that every policy meets the same.
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from tidewire.simulator.rates import Machine, Source, Traffic

CLASSES: Final = 100
EDGES: Final = ("B0", "B1", "B2", "B3")
HEAD: Final = "Bh"
MBPS: Final = 125_000.0
"""Bytes per second."""

JOIN_S: Final = 100
"""One class comes every second, until then."""
BURST: Final = 1.5
NOISE: Final = 0.12
"""How much the rate of one publisher varies from second to second: deviation over mean."""

WORDS: Final = 8
"""Of each class."""
WANTED: Final = (4, 8)
SAID: Final = (3, 7)
"""How many words a subscriber wants, and an event has."""


class Phases(msgspec.Struct, frozen=True):
    """When what begins (epeer §4.1), in seconds."""

    trouble_s: int = 301
    """From then on there is more to do, or less to do it with."""
    second_s: int = 100
    """So long after it, about, there is a second burst."""
    calm_s: int = 900
    """From then on all is as it was."""
    end_s: int = 1000


THESIS: Final = Phases()
SHORT: Final = Phases(trouble_s=141, second_s=40, calm_s=341, end_s=360)
"""To look at, and for tests."""


class Burst(msgspec.Struct, frozen=True):
    """From a second on these classes publish more."""

    at_s: int
    classes: tuple[int, ...]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One run's."""

    seed: int
    machines: dict[str, Machine]
    """The head's first."""

    traffic: tuple[Traffic, ...]
    bursts: tuple[Burst, ...] = ()
    left: dict[str, float] = {}
    """After the damage: which share of its bandwidth each broker still has."""

    fitting: dict[str, float] = {}
    """By publisher: the share of its words that are of its class."""

    wanted: dict[str, int] = {}
    """By subscriber: how many words of its class interest it."""

    @property
    def subscribers(self) -> int:
        """All of them."""
        return sum(len(one.subscribers) for one in self.traffic)


def surplus(
    seed: int, *, level: float = 0.78, classes: int = CLASSES, shrink: float = 1.0, phases: Phases = THESIS
) -> Workload:
    """Bursts, and brokers that can bear them. ``level``: the share of all matching that is used before.

    ``shrink``: so many times weaker brokers, and publishers that publish so much less.
    """
    chance = Random(f"epeer/surplus/{seed}")
    machines = {HEAD: Machine(1000 * MBPS / shrink, 1000 * MBPS / shrink, 1_000_000 / shrink)}
    for edge in EDGES:
        machines[edge] = Machine(1000 * MBPS / shrink, 1000 * MBPS / shrink, chance.randint(20_000, 30_000) / shrink)
    made = [_traffic(chance, number, publishers_max=5, size_max=1000) for number in range(classes)]
    wanted = level * sum(machines[edge].matches_s for edge in EDGES)
    made = _scaled(made, wanted / sum(one.events_s for one in made))
    drawn = list(range(classes))
    chance.shuffle(drawn)
    share = classes / CLASSES
    first, second = (max(1, round(chance.randint(10, 15) * share)) for _ in range(2))
    bursts = (
        Burst(phases.trouble_s, tuple(drawn[:first])),
        Burst(phases.trouble_s + phases.second_s + chance.randint(-10, 10), tuple(drawn[first : first + second])),
    )
    return Workload(seed=seed, machines=machines, traffic=tuple(made), bursts=bursts)


def limited(seed: int, *, level: float = 0.6, classes: int = CLASSES, shrink: float = 1.0) -> Workload:
    """Cables break. ``level``: the mean share of the edges' output that is used before."""
    chance = Random(f"epeer/limited/{seed}")
    machines = {HEAD: Machine(1000 * MBPS / shrink, 1000 * MBPS / shrink, 1_000_000 / shrink)}
    for edge in EDGES:
        wide = chance.uniform(300, 500) * MBPS / shrink
        machines[edge] = Machine(wide, wide, chance.randint(20_000, 30_000) / shrink)
    made = [_traffic(chance, number, publishers_max=9, size_max=2000) for number in range(classes)]
    wanted = level * sum(machines[edge].output_bytes_s for edge in EDGES)
    made = _scaled(made, wanted / sum(one.bytes_s * len(one.subscribers) for one in made))
    left = {name: chance.uniform(0.1, 0.4) for name in machines}
    fitting = {
        source.name: chance.choices((1.0, 0.5, 0.0), weights=(2, 1, 1))[0] for one in made for source in one.sources
    }
    words = {subscriber: chance.randint(*WANTED) for one in made for subscriber in one.subscribers}
    return Workload(seed=seed, machines=machines, traffic=tuple(made), left=left, fitting=fitting, wanted=words)


def _traffic(chance: Random, number: int, *, publishers_max: int, size_max: int) -> Traffic:
    name = f"c{number:03}"
    sources = tuple(
        Source(f"{name}.p{one}", chance.uniform(20, 400), chance.randint(200, size_max))
        for one in range(chance.randint(1, publishers_max))
    )
    subscribers = tuple(f"{name}.s{one}" for one in range(chance.randint(1, 8)))
    return Traffic(name, chance.uniform(1, 50), sources, subscribers)


def _scaled(traffic: list[Traffic], by: float) -> list[Traffic]:
    return [
        msgspec.structs.replace(
            one,
            sources=tuple(msgspec.structs.replace(source, events_s=source.events_s * by) for source in one.sources),
        )
        for one in traffic
    ]
