"""What does a large network take to simulate? Heads in a random graph, edges around them, one subscriber per broker.

The machines are the ones that run live. Every promise is checked at the end, as in the random runs.
"""

from __future__ import annotations

import resource
from random import Random
from time import process_time
from typing import Final

import msgspec

from tidewire.benchmarks.measure import machine
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.simulator.checkers import check
from tidewire.simulator.workloads import Workload, clusters
from tidewire.simulator.world import World

SETTLED_S: Final = 20.0
"""All brokers and clients have come by then (``workloads.clusters``)."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How large, and for how long."""

    brokers: int = 1000
    seconds: float = 60.0
    seed: int = 0
    engine: str = "reference"
    """It takes a twentieth of the memory that the kernel's engine sets aside for each broker."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What it took, and what came of it."""

    brokers: int
    links: int
    clients: int
    trees: int
    simulated_s: float
    engine: str
    seed: int
    events: int
    deliveries: int
    steps: int
    """Things that happened in the simulation, one after the other."""
    bytes_carried: int
    cpu_s: float
    cpu_check_s: float
    peak_rss_mb: float
    machine: str
    violations: list[str]


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """Run it."""
    start_s = process_time()
    world = World(plan.seed, engine=plan.engine)
    lines = clusters(
        Random(f"{plan.seed}/large"),
        brokers=plan.brokers,
        extra_links=plan.brokers // 50,
        publishers=max(1, plan.brokers // 25),
        subscribers=plan.brokers,
    )
    Workload("\n".join(lines), world)
    passed_s, stage = 0.0, f"simulating {plan.brokers:,} brokers for {plan.seconds:g} s"
    while passed_s < plan.seconds:
        tell(stage, int(passed_s), int(plan.seconds))
        step_s = min(1.0, plan.seconds - passed_s)
        world.run(step_s)
        passed_s += step_s
    ran_s = process_time() - start_s
    tell("checking every delivery")
    violations = check(world)
    if plan.seconds >= SETTLED_S:
        violations += [f"it does not settle: {what}" for what in world.unsettled()]
    return Report(
        brokers=len(world.brokers),
        links=len(world.links),
        clients=len(world.clients),
        trees=sum(world.watch.is_source(host) for host in world.brokers.values()),
        simulated_s=world.agenda.now_s,
        engine=plan.engine,
        seed=plan.seed,
        events=len(world.publications),
        deliveries=sum(len(client.receipts) for client in world.clients.values()),
        steps=world.agenda.steps,
        bytes_carried=world.network.bytes_carried,
        cpu_s=ran_s,
        cpu_check_s=process_time() - start_s - ran_s,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        machine=machine(),
        violations=violations,
    )
