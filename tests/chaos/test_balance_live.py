"""Balancing between real broker processes, of unequal capacities that are enforced; subscribers check what they get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from tidewire.benchmarks.balance_live import losses
from tidewire.benchmarks.balance_scene import BALANCE, Edge, Plan, Scene
from tidewire.benchmarks.progress import tell_nobody

DEADLINE_S = 300.0
"""On an idle machine it takes some seconds."""

PLAN = Plan(
    edges=(Edge("B1", 1.0, 450e3), Edge("B2", 1.0, 2e6), Edge("B3", 1.0, 2e6)),
    subscribers=200,
    streams=10,
    burst=20,
    join_s=2.0,
    seconds_max=DEADLINE_S,
    balance=msgspec.structs.replace(
        BALANCE, load_window_s=3.0, stabilise_s=4.0, stable_window_s=2.0, delay_norm_s=10.0
    ),
)
"""What all of them want is three quarters of what the weakest edge may send, and a sixth of what the others may: output
alone counts here, which does not depend on the machine."""


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.1)


def at(scene: Scene, *brokers: str) -> int:
    """How many of the crowd these brokers serve."""
    return sum(one.served_by in brokers for one in scene.crowd)


def is_in_session(scene: Scene, broker: str) -> bool:
    """By what it said: has it begun more sessions than it has ended?"""
    told = [one for one in scene.decisions[broker] if "acceptor" in one.facts]
    times = {what: sum(one.times for one in told if one.what == what) for what in ("session began", "session ended")}
    return times["session began"] > times["session ended"]


async def _balance_and_kill(scene: Scene) -> None:
    async with scene.running():
        killing = asyncio.create_task(scene.kill_in_a_session())
        await scene.join()
        await killing
        assert scene.killed is not None
        served_again = await scene.recover()
        survivors = [edge.name for edge in scene.living]
        await until(lambda: at(scene, *survivors) == PLAN.subscribers and at(scene, survivors[-1]) > 0)
        await until(lambda: not is_in_session(scene, "B1"))
        await scene.finish()
        lost, _ = losses(scene.crowd, served_again)
        assert lost == 0
        assert sum(one.repeated for one in scene.crowd) == 0
        assert sum(one.received for one in scene.crowd) > 0
        assert sum(one.moves for one in scene.crowd) > 0


def test_clients_move_to_where_there_is_room_and_a_death_takes_only_its_own() -> None:
    """peer §6.2, M3 to M8: an edge that takes clients over is killed in the middle of it.

    Nobody loses or gets twice anything, but those it served, until they are served again; the session ends; the other
    edge gets some of them.
    """
    scene = Scene(PLAN, tell_nobody)
    try:
        scene.launch()
        asyncio.run(_balance_and_kill(scene))
    finally:
        scene.close()
