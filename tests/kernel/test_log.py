"""The log keeps what is durable, whatever happens to the power (gryphon §1: logged, then sent)."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.kernel.log_model import FOREVER, PUBENDS, SEGMENT_BYTES, Twins
from tidewire._kernel._native import crc32c

pubends = st.sampled_from(PUBENDS)
seeds = st.integers(min_value=0, max_value=2**64 - 1)
keys = st.sampled_from([b"a", b"ab", b"abc", b"b", b"c" * 40])
ROOM = 4 * SEGMENT_BYTES


class LogMachine(RuleBasedStateMachine):
    """Any sequence of what a broker does and what happens to it."""

    @initialize(cache_bytes=st.sampled_from([0, 4096, 1 << 20]))
    def begin(self, cache_bytes: int) -> None:
        self.twins = Twins(cache_bytes=cache_bytes)

    @rule(
        pubend=pubends,
        step=st.integers(1, 1 << 22),
        publisher=st.integers(0, 3),
        size=st.integers(0, 900),
        count=st.integers(1, 8),
    )
    def append(self, pubend: int, step: int, publisher: int, size: int, count: int) -> None:
        for i in range(count):
            self.twins.append(pubend, step=step, publisher=publisher, event=bytes([i]) * size)

    @rule(key=keys, value=st.binary(max_size=300))
    def put(self, key: bytes, value: bytes) -> None:
        self.twins.put(key, value)

    @rule(key=keys)
    def erase(self, key: bytes) -> None:
        self.twins.erase(key)

    @rule(pubend=pubends, step=st.integers(1, 1000))
    def advance(self, pubend: int, step: int) -> None:
        self.twins.advance(pubend, step)

    @rule(pubend=pubends, share=st.floats(0, 1))
    def release(self, pubend: int, share: float) -> None:
        last = self.twins.log.durable_tick(pubend)
        low = self.twins.log.released_tick(pubend)
        if low < last:
            self.twins.release(pubend, low + 1 + int(share * (last - low)))

    @rule()
    def seal(self) -> None:
        self.twins.log.seal()

    @rule()
    def write(self) -> None:
        self.twins.log.write()

    @rule()
    def sync(self) -> None:
        self.twins.log.sync()

    @rule()
    def commit(self) -> None:
        self.twins.commit()

    @rule()
    def take(self) -> None:
        self.twins.take()

    @rule(has_room=st.booleans())
    def room(self, has_room: bool) -> None:
        self.twins.files.set_capacity(FOREVER if has_room else ROOM)

    @rule(seed=seeds)
    def crash(self, seed: int) -> None:
        self.twins.files.set_capacity(FOREVER)
        self.twins.crash(seed)

    @rule()
    def end(self) -> None:
        self.twins.files.set_capacity(FOREVER)
        self.twins.end()

    @rule()
    def close(self) -> None:
        self.twins.files.set_capacity(FOREVER)
        self.twins.close()

    @rule(pubend=pubends, low=st.floats(0, 1), high=st.floats(0, 1.1), bytes_max=st.sampled_from([1, 1000, 10_000]))
    def read(self, pubend: int, low: float, high: float, bytes_max: int) -> None:
        last = self.twins.log.last_tick(pubend)
        self.twins.check_reading(pubend, int(low * last), int(high * last), bytes_max=bytes_max)

    @rule()
    def everything(self) -> None:
        self.twins.check()

    @invariant()
    def memory_is_bounded(self) -> None:
        if hasattr(self, "twins"):
            assert self.twins.log.trouble in {"none", "behind", "full"}


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=settings().max_examples, stateful_step_count=40)


def live(twins: Twins, chance: random.Random, steps: int) -> None:
    """A life at random, with crashes; some lives sync often, some rarely."""
    weights = {
        "append": chance.choice([10, 30, 100]),
        "put": chance.choice([0, 5]),
        "release": chance.choice([0, 1, 5]),
        "seal": chance.choice([1, 10]),
        "write": chance.choice([1, 5]),
        "sync": chance.choice([0, 5]),
        "commit": chance.choice([0, 1, 5]),
        "take": 1,
        "crash": chance.choice([1, 3]),
    }
    size_max = chance.choice([30, 300, 900])
    for action in chance.choices(list(weights), list(weights.values()), k=steps):
        pubend = chance.choice(PUBENDS)
        if action == "append":
            event = chance.randbytes(chance.randrange(size_max))
            twins.append(pubend, step=3, publisher=chance.randrange(3), event=event)
        elif action == "put":
            twins.put(chance.choice([b"k", b"l"]), chance.randbytes(20))
        elif action == "release":
            low, high = twins.log.released_tick(pubend), twins.log.durable_tick(pubend)
            if low < high:
                twins.release(pubend, chance.randrange(low, high) + 1)
        elif action == "crash":
            twins.crash(chance.getrandbits(64))
        elif action == "take":
            twins.take()
        elif action == "commit":
            twins.commit()
        elif action == "seal":
            twins.log.seal()
        elif action == "write":
            twins.log.write()
        else:
            twins.log.sync()
    twins.check()


def test_a_life_at_random_loses_nothing() -> None:
    """With an honest disk."""
    for seed in range(settings().max_examples):
        live(Twins(cache_bytes=seed % 2 * 10_000), random.Random(seed), 200)


def test_to_acknowledge_before_the_sync_is_caught() -> None:
    """A sync that lies is what a log would be that acknowledges too early: the same lives show it."""
    caught = 0
    for seed in range(20):
        twins = Twins()
        twins.files.lie(True)
        try:
            live(twins, random.Random(seed), 200)
        except AssertionError:
            caught += 1
    assert caught >= 15


@pytest.mark.parametrize("size", [*range(70), 255, 256, 1000, 4097])
def test_the_crc_is_the_same_with_and_without_the_instruction(size: int) -> None:
    """At every length and from every start."""
    data = random.Random(size).randbytes(size)
    assert crc32c(data) == crc32c(data, portable=True)
    for cut in {0, 1, size // 2, size}:
        assert crc32c(data[cut:], crc32c(data[:cut])) == crc32c(data, portable=True)


def test_the_crc_is_castagnolis() -> None:
    """The check value of the standard."""
    assert crc32c(b"123456789") == crc32c(b"123456789", portable=True) == 0xE3069283
