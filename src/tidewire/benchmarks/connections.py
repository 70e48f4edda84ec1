"""`tidewire bench connections`: one broker with very many connections that say little, and with some that mean harm."""

from __future__ import annotations

import contextlib
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from tidewire.benchmarks.beside import SUBJECT, Flow, Node, flow_of, more, running
from tidewire.benchmarks.dialects import Step, Tidewire, play
from tidewire.benchmarks.load import Generator, Loaded, Traffic, connection_lines, generating, plan_head
from tidewire.benchmarks.measure import PAIRS_MIN, Ratio, machine
from tidewire.benchmarks.peers import Broker
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.live.process import allow_many_files
from tidewire.model.errors import Unavailable, UsageError
from tidewire.wire.liveness import CALM_PING_PACES

IDLE_CPU_MAX: Final = 0.03
"""Of a core, for all who say nothing: the target with 10,000 of them."""

_TOGETHER: Final = 64
_SPARE: Final = 500
_SETUP_S: Final = 240.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How many connections, what flows beside them, and who attacks."""

    connections: int = 10_000
    attackers: int = 2_000
    newcomers: int = 200
    newcomers_per_s: float = 20.0
    """So that an attack lasts longer than the broker's patience."""

    rounds: int = 11
    turn_s: float = 1.0
    idle_s: float = 10.0
    heartbeat_s: float = 2.0
    """As by default: what idle connections cost is mostly that."""

    rate: float = 20_000.0
    subscribers: int = 10

    def __post_init__(self) -> None:
        if self.connections < 1 or self.rounds < PAIRS_MIN:
            raise UsageError(f"at least one connection and {PAIRS_MIN} rounds")

    def shortened(self) -> Plan:
        """The same with short turns."""
        return msgspec.structs.replace(self, rounds=PAIRS_MIN, turn_s=0.3, idle_s=4.0, newcomers=50)


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """Connections that are greeted, have one subscription each, and say nothing but that they live."""

    connections: int
    connects_per_s: float
    """Greeted and subscribed; 64 are on their way at a time."""

    connect_cpu_us: float
    """Of the broker, for each."""

    memory_bytes: float
    """Of the broker, for each; what the system keeps for a socket is not in it."""

    idle_cpu: float
    """Of a core, for all of them, beside what an empty broker takes."""

    idle_cpu_max: float
    ended: int
    """Connections that the broker ended during all this: there should be none."""


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """How long newcomers wait: from the first packet until they are subscribed and have got an event."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu: float
    """Of a core, taken by the broker meanwhile."""


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """Newcomers while others send a byte of a frame every second, never greet, and come back when they are ended."""

    attackers: int
    ended: int
    """How often one of them was ended."""

    newcomers: int
    before: Serving
    during: Serving


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it; the ratios say how many times more it is beside the crowd."""

    benchmark: str
    machine: str
    rounds: int
    rate: float
    subscribers: int
    crowd: Crowd
    alone: Flow
    beside_crowd: Flow
    cpu: Ratio
    delay_p50: Ratio
    delay_p99: Ratio
    attack: Attack


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """Two brokers take turns with the same flow; one has the crowd, and is attacked at the end."""
    needed, allowed = plan.connections + plan.attackers + _SPARE, allow_many_files()
    if needed > allowed:
        raise Unavailable(
            f"{needed} connections need as many open files, and {allowed} are allowed: ulimit -n {needed}"
        )
    with contextlib.ExitStack() as stack:
        alone, beside = (
            stack.enter_context(running(Broker(heartbeat_s=plan.heartbeat_s, connections_max=needed))) for _ in range(2)
        )
        tell(f"{plan.connections:,} connections")
        crowd, figures = stack.enter_context(_crowded(plan, alone, beside, tell))
        turns = _flows(plan, alone, beside, tell)
        attack = _attack(plan, beside, tell)
        crowd.stop()
        ended = len(crowd.result(_SETUP_S).errors)

    flows = [a for a, _ in turns], [b for _, b in turns]
    ratios = more(*flows)
    return Report(
        benchmark="connections",
        machine=machine(),
        rounds=plan.rounds,
        rate=plan.rate,
        subscribers=plan.subscribers,
        crowd=msgspec.structs.replace(figures, ended=ended),
        alone=flow_of(flows[0], subscribers=plan.subscribers),
        beside_crowd=flow_of(flows[1], subscribers=plan.subscribers),
        cpu=ratios.cpu,
        delay_p50=ratios.delay_p50,
        delay_p99=ratios.delay_p99,
        attack=attack,
    )


def _flow(node: Node, plan: Plan, seconds: float) -> Loaded:
    return node.flow(rate=plan.rate, seconds=seconds, subscribers=plan.subscribers)


# -- the crowd ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _crowded(plan: Plan, alone: Node, beside: Node, tell: Tell) -> Iterator[tuple[Generator, Crowd]]:
    for node in (alone, beside):
        _flow(node, plan, 0.5)  # what is loaded and allocated once is not the crowd's
    dialect, count = Tidewire(), plan.connections
    pings_s = CALM_PING_PACES * plan.heartbeat_s  # as of every client that only listens
    text = plan_head(dialect, Traffic(events=0, idle_s=86_400.0), together=_TOGETHER, keepalive_s=pings_s)
    for who in range(count):
        text += connection_lines("subscribe", beside.port, dialect.subscriber(f"idle.{who}"))
    memory, cpu_s = beside.server.rss_bytes(), beside.server.cpu_s()
    with generating("\n".join(text) + "\n", setup_s=_SETUP_S) as crowd:
        connect_cpu_s = beside.server.cpu_s() - cpu_s
        crowd.go(0, 1)
        tell(f"{count:,} connections say nothing")
        time.sleep(pings_s)
        before = alone.server.cpu_s(), beside.server.cpu_s()
        time.sleep(plan.idle_s)
        empty_s, full_s = alone.server.cpu_s() - before[0], beside.server.cpu_s() - before[1]
        yield (
            crowd,
            Crowd(
                connections=count,
                connects_per_s=count / crowd.setup_s,
                connect_cpu_us=connect_cpu_s * 1e6 / count,
                memory_bytes=(beside.server.rss_bytes() - memory) / count,
                idle_cpu=(full_s - empty_s) / plan.idle_s,
                idle_cpu_max=IDLE_CPU_MAX,
                ended=0,
            ),
        )


# -- the others --------------------------------------------------------------------------------------------------------


def _flows(plan: Plan, alone: Node, beside: Node, tell: Tell) -> list[tuple[Loaded, Loaded]]:
    turns = []
    for turn in range(plan.rounds):
        tell("a flow between others", turn + 1, plan.rounds)
        if turn % 2 == 0:
            first = _flow(alone, plan, plan.turn_s)
            turns.append((first, _flow(beside, plan, plan.turn_s)))
        else:
            second = _flow(beside, plan, plan.turn_s)
            turns.append((_flow(alone, plan, plan.turn_s), second))
    return turns


# -- those who mean harm -----------------------------------------------------------------------------------------------


def _attack(plan: Plan, node: Node, tell: Tell) -> Attack:
    with socket.create_connection(("127.0.0.1", node.port)) as publisher:
        play(publisher, Tidewire().publisher(SUBJECT))
        tell("newcomers, undisturbed")
        before = _newcomers(plan, node, publisher)
        tell(f"newcomers, beside {plan.attackers:,} attackers")
        command = [sys.executable, "-m", "tidewire.benchmarks.loris", str(node.port), str(plan.attackers), "1"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attack:
            assert attack.stdin is not None and attack.stdout is not None  # noqa: PT018
            attack.stdout.readline()
            during = _newcomers(plan, node, publisher)
            attack.stdin.close()
            ended = int(attack.stdout.readline())
    return Attack(attackers=plan.attackers, ended=ended, newcomers=plan.newcomers, before=before, during=during)


def _newcomers(plan: Plan, node: Node, publisher: socket.socket) -> Serving:
    """One after the other, at their pace."""
    dialect, times = Tidewire(), []
    started, cpu_s = time.perf_counter(), node.server.cpu_s()
    for number in range(plan.newcomers):
        time.sleep(max(0.0, started + number / plan.newcomers_per_s - time.perf_counter()))
        subject = f"newcomer.{number:06}."
        start = time.perf_counter()
        with socket.create_connection(("127.0.0.1", node.port), timeout=_SETUP_S) as newcomer:
            play(newcomer, dialect.subscriber(subject))
            publisher.sendall(dialect.message(subject))
            play(newcomer, [Step("await", subject.encode())])
            times.append((time.perf_counter() - start) * 1e3)
    spent = (node.server.cpu_s() - cpu_s) / (time.perf_counter() - started)
    times.sort()
    return Serving(
        p50_ms=statistics.median(times), p99_ms=times[int(plan.newcomers * 0.99)], max_ms=times[-1], cpu=spent
    )
