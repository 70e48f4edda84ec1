"""Does balancing work with real brokers? A head and edges as processes, of unequal capacity, a crowd at the weakest.

What edges need differs from machine to machine, and with what else runs there; the matching delay is not linear in the
subscriptions either. So it is measured first, with as many subscribers at each edge and no limits; capacities follow
from that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

from tidewire.benchmarks.balance_scene import Edge, Plan, Sample, Scene, mean_of
from tidewire.benchmarks.crowd import Subscriber
from tidewire.benchmarks.progress import Tell, tell_nobody

_Done = TypeVar("_Done")

UNLIMITED_BYTES_S: Final = 1e9
QUICK_JOIN_S: Final = 20.0
"""In which those join by whom it is measured what edges need."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came out."""

    subscribers: int
    needed: dict[str, float]
    """By all edges together, without limits and with as many subscribers each: CPU as a share of a core, and output;
    empty if capacities were given."""
    capacities: dict[str, dict[str, float]]
    edges: dict[str, dict[str, float]]
    """At the end: the loads, by the mean of the last seconds, and the subscribers."""
    balanced_after_s: float | None
    """From when the last subscriber was served, or, if an edge was killed, those whom it served were again; None: not
    in time."""
    joined_s: float
    """When the last subscriber was served, from when the first came."""
    spread: dict[str, float]
    """The greatest difference of two edges at the end, by index; of delays in units of ``delay_norm_s``."""
    sessions: int
    moves: int
    published: int
    received: int
    lost: int
    """That should have come: of those who lost no connection, or after they were served again."""
    repeated: int
    lost_by_death: int
    hit: int
    """Subscribers that lost a connection when an edge was killed."""
    killed: str | None
    unserved: int
    seconds: float
    series: dict[str, list[Sample]]


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Result:
    """The whole of it."""
    needed: dict[str, float] = {}
    if not plan.edges:
        needed = _in_scene(_unlimited(plan), tell, _needed)
        plan = msgspec.structs.replace(plan, edges=_edges(plan, needed))
    return _in_scene(plan, tell, lambda scene: _run(scene, needed))


def _in_scene(plan: Plan, tell: Tell, done: Callable[[Scene], Awaitable[_Done]]) -> _Done:
    scene = Scene(plan, tell)
    try:
        scene.launch()
        return asyncio.run(_awaited(done(scene)))
    finally:
        scene.close()


async def _awaited(one: Awaitable[_Done]) -> _Done:
    return await one


def _unlimited(plan: Plan) -> Plan:
    """As many edges, that may use what they need and move nobody."""
    edges = tuple(Edge(f"B{number}", 1.0, UNLIMITED_BYTES_S) for number in range(1, len(plan.weights) + 1))
    balance = msgspec.structs.replace(plan.balance, automatic=False)
    return msgspec.structs.replace(plan, edges=edges, balance=balance, join_s=min(plan.join_s, QUICK_JOIN_S))


async def _needed(scene: Scene) -> dict[str, float]:
    """What all edges use together, with as many subscribers each."""
    names = [edge.name for edge in scene.plan.edges]
    async with scene.running():
        await scene.join(names)
        await scene.settle()
    means = [mean_of(scene.series[name]) for name in names]
    output = sum(mean["output"] for mean in means) * UNLIMITED_BYTES_S
    return {"cpu_share": sum(mean["input"] for mean in means), "output_bytes_s": output}


def _edges(plan: Plan, needed: dict[str, float]) -> tuple[Edge, ...]:
    """In proportion to the weights, and so much together that the planned share of it is needed."""
    share = needed["cpu_share"] / plan.cpu_used / sum(plan.weights)
    output = needed["output_bytes_s"] / plan.output_used / sum(plan.weights)
    return tuple(
        Edge(f"B{number}", min(1.0, share * weight), output * weight)
        for number, weight in enumerate(plan.weights, start=1)
    )


async def _run(scene: Scene, needed: dict[str, float]) -> Result:
    served_again: list[int] | None = None
    async with scene.running():
        death = asyncio.create_task(scene.kill_in_a_session()) if scene.plan.kills else None
        began_s = scene.now_s
        await scene.join()
        joined_s = scene.now_s - began_s
        if death is not None:
            await death
            served_again = await scene.recover()
        balanced_after_s = await scene.until_balanced()
        await scene.finish()
        seconds = scene.now_s
        unserved = sum(one.served_by in (None, scene.killed) for one in scene.crowd)
        served = [one.served_by for one in scene.crowd]
        edges = {
            edge.name: {**mean_of(scene.series[edge.name]), "subscribers": float(served.count(edge.name))}
            for edge in scene.living
        }
    lost, by_death = losses(scene.crowd, served_again)
    return Result(
        subscribers=len(scene.crowd),
        needed=needed,
        capacities={
            edge.name: {"cpu_share": edge.cpu_share, "output_bytes_s": edge.output_bytes_s} for edge in scene.plan.edges
        },
        edges=edges,
        joined_s=joined_s,
        balanced_after_s=balanced_after_s,
        spread=scene.spread(),
        sessions=scene.sessions(),
        moves=sum(one.moves for one in scene.crowd),
        published=sum(scene.published),
        received=sum(one.received for one in scene.crowd),
        lost=lost,
        repeated=sum(one.repeated for one in scene.crowd),
        lost_by_death=by_death,
        hit=sum(one.is_hit for one in scene.crowd),
        killed=scene.killed,
        unserved=unserved,
        seconds=seconds,
        series=scene.series,
    )


def losses(crowd: Sequence[Subscriber], served_again: Sequence[int] | None) -> tuple[int, int]:
    """What was lost, and what a death took at most: of those it hit, before they were served again."""
    lost = by_death = 0
    for one in crowd:
        by_death += one.given_up
        for gap in [*one.gaps, *one.lacks()]:
            excused = served_again[gap.stream] if one.is_hit and served_again is not None else 0
            beyond = one.events_in(gap, beyond=excused)
            lost += beyond
            by_death += one.events_in(gap) - beyond
    return lost, by_death
