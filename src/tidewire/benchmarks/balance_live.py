"""Does balancing work with real brokers? A head and edges as processes, of unequal capacity, a crowd at the weakest.

What edges need differs from machine to machine, and with what else runs there; the matching delay is not proportional
to the subscriptions either. So it is measured first, without limits, with subscribers as the weights share them out:
what an event costs if nobody wants it, and for each subscriber. Capacities follow from that.
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
    """By all edges together, without limits: CPU as a share of a core, what of it an edge uses whoever wants the events
    and what for each subscriber, and output; empty if capacities were given."""
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
        plan = msgspec.structs.replace(plan, edges=edges_for(plan, needed))
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
    """What all edges use together, with as many subscribers each as their weights say."""
    weights = {edge.name: weight for edge, weight in zip(scene.plan.edges, scene.plan.weights, strict=True)}
    async with scene.running():
        await scene.join([name for name, weight in weights.items() for _ in range(weight)])
        await scene.settle()
    means = [mean_of(scene.series[name]) for name in weights]
    idle, each = line_through([(mean["subscribers"], mean["input"]) for mean in means])
    return {
        "cpu_share": sum(mean["input"] for mean in means),
        "cpu_share_of_none": idle,
        "cpu_share_of_subscriber": each,
        "output_bytes_s": sum(mean["output"] for mean in means) * UNLIMITED_BYTES_S,
    }


def line_through(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """By least squares: where it begins, and how it grows; neither is below 0."""
    count = len(points)
    middle_x, middle_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    width = sum((x - middle_x) ** 2 for x, _ in points)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in points) / width if width else 0.0
    slope = min(max(0.0, slope), middle_y / middle_x if middle_x else 0.0)
    return middle_y - slope * middle_x, slope


def edges_for(plan: Plan, needed: dict[str, float]) -> tuple[Edge, ...]:
    """In proportion to the weights, and so much together that the planned share of it is needed, or less if events cost
    much whoever wants them."""
    share = max(
        needed["cpu_share"] / plan.cpu_used / sum(plan.weights),
        needed["cpu_share_of_none"] / plan.idle_used / min(plan.weights),
    )
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
