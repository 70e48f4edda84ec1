"""Guaranteed delivery, broken on purpose, one promise at a time: the checkers see it, within a few seeds."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import pytest

from tidewire.broker.streams import Streams
from tidewire.dataplane.log import Log, Record
from tidewire.dataplane.reference_replay import StreamingReference
from tidewire.dataplane.reference_streams import ReferenceStreams
from tidewire.delivery.nacks import Nacks
from tidewire.model.ids import Conn, Nanoseconds, PubendId
from tidewire.simulator import faults
from tidewire.simulator.checkers import check
from tidewire.simulator.costs import Measured
from tidewire.simulator.world import World

SEEDS = range(3)
COSTS = Measured(call_ns=3_000, event_ns=400, doubling_ns=0, copy_ns=150, write_ns=0, message_ns=40_000)
SETTINGS: Final[dict[str, Any]] = {
    "link_queue_bytes_max": 32 << 10,
    "frame_bytes_max": 16 << 10,
    "stream_cache_bytes": 64 << 10,
    "heartbeat_s": 0.5,
}
"""Small queues and caches: much is thrown away, and asked for again."""
EVENT_BYTES = 1_000


def violations(seed: int) -> list[str]:
    """Of a run with bursts, power losses and a cut link: a chain, a publisher at its head, followers beyond."""
    world = World(seed, costs=COSTS, wrong_clocks=True)
    chance = Random(f"{seed}/planted")
    for name in "ABC":
        world.add_broker(name, role="both", store="disk", **SETTINGS)
    world.link("A", "B", latency_ms=5, mbps=10)
    world.link("B", "C", latency_ms=5, mbps=10)
    world.run(1)
    bob = world.add_client("bob", "A")
    bob.advertise(1)
    for name, broker in (("ann", "C"), ("eve", "B")):
        world.add_client(name, broker).follow(1, "n >= 0", f"{name}'s")
    world.run(2)
    for round_ in range(3):
        for n in range(100):
            bob.guarantee({"n": n, "text": "x" * EVENT_BYTES})
        world.run(chance.choice((0.001, 0.003, 0.02)))
        _trouble(world, chance, round_)
    world.run(5)
    world.settle()
    world.run(20)
    return check(world)


def _trouble(world: World, chance: Random, round_: int) -> None:
    if round_ == 1:
        faults.cut(world, "B", "C", is_silent=False)
        world.run(0.5)
        faults.mend(world, "B", "C")
    else:
        faults.lose_power(world, "A")
        world.run(0.3)
        faults.restart(world, "A")
    world.run(chance.choice((0.2, 1.0)))


def found() -> str:
    """What the checkers say of the first seed that they say something of."""
    return next(("\n".join(said) for seed in SEEDS if (said := violations(seed))), "")


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_said_of_sound_machines(seed: int) -> None:
    assert violations(seed) == []


def test_a_receipt_before_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is in the log's memory, and the power fails."""

    def hasty(self: StreamingReference, conn: Conn, payload: bytes, now_ns: Nanoseconds) -> None:
        sound(self, conn, payload, now_ns)
        log, publisher = self._log, self._connections[conn].publisher
        assert log is not None
        assert publisher is not None
        pubend = self._pubends[publisher % len(self._pubends)]
        self._receipt(conn, log.last_sequence(pubend, publisher), log.last_tick(pubend))

    sound = StreamingReference._guarantee
    monkeypatch.setattr(StreamingReference, "_guarantee", hasty)
    assert "receipts are true: bob's event" in found()


def test_a_nack_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lacking counts as asked for, and nobody was asked."""
    monkeypatch.setattr(Streams, "_nack", lambda *_arguments: iter(()))
    assert "followers are served: ann" in found()


def test_a_nack_that_is_asked_once_and_never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer was thrown away on the way."""
    sound = Nacks.ask

    def patient(self: Nacks, ranges: Any, *, retry_ns: int, now_ns: Nanoseconds) -> Any:
        return sound(self, ranges, retry_ns=1 << 60, now_ns=now_ns)

    monkeypatch.setattr(Nacks, "ask", patient)
    assert "followers are served: ann" in found()


def test_an_answer_that_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker between forgets who had asked."""
    sound = StreamingReference.answer

    def forgetful(self: StreamingReference, conn: Conn, tree: Any, pubend: PubendId, ranges: Sequence[Any]) -> Any:
        rest = sound(self, conn, tree, pubend, ranges)
        self._stream(pubend).children[conn].curious.remove(0, 1 << 62)
        return rest

    monkeypatch.setattr(StreamingReference, "answer", forgetful)
    assert "followers are served: ann" in found()


def test_a_window_that_never_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes is kept."""
    sound = ReferenceStreams.__init__

    def boundless(self: ReferenceStreams, **options: Any) -> None:
        sound(self, **options | {"cache_bytes_max": 1 << 40, "window_ticks_max": 1 << 62})

    monkeypatch.setattr(ReferenceStreams, "__init__", boundless)
    assert "queues bounded: " in found()


def test_a_duplicate_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has the event, and not whose it is: who repeats it then gets another tick."""
    sound = StreamingReference.host

    def host(self: StreamingReference, log: Log, *arguments: Any, **more: Any) -> None:
        sound(self, _Nameless(log), *arguments, **more)

    monkeypatch.setattr(StreamingReference, "host", host)
    assert "is in the logs twice" in found()


class _Nameless:
    """A log that knows publishers for one life only."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._names: dict[int, tuple[int, int]] = {}
        self._ticks: dict[tuple[int, int], int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(
        self, pubend: int, tick: int, publisher: int, sequence: int, born_ns: int, error_us: int, event: bytes
    ) -> int:
        """As nobody's."""
        group = self._log.append(pubend, tick, 0, 0, born_ns, error_us, event)
        if group:
            self._names[tick] = publisher, sequence
            self._ticks[publisher, sequence] = tick
        return group

    def take(self) -> list[tuple[int, list[Record]]]:
        """With the names that are remembered."""
        groups = self._log.take()
        return [(group, [(*one[:2], *self._names[one[1]], *one[4:]) for one in records]) for group, records in groups]

    def last_sequence(self, _pubend: int, publisher: int) -> int:
        """In this life."""
        return max((sequence for who, sequence in self._ticks if who == publisher), default=0)

    def tick_of(self, _pubend: int, publisher: int, sequence: int) -> int:
        """In this life."""
        return self._ticks.get((publisher, sequence), 0)
