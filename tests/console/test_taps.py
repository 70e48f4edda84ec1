"""How much a tap takes, and that it lets go: time is an argument, and the network is a real one where it must be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import tidewire
from tests.console.serving import WAIT_S
from tests.integration.network import brokers, until
from tests.integration.secured import Installation
from tidewire.console import taps
from tidewire.console.network import Network
from tidewire.console.taps import EVERYTHING, LOOKED_AT_EVERY, LOOKED_AT_FIRST, TAKEN_PER_S, TURN, WINDOW_S, Meter
from tidewire.language import compile_filter
from tidewire.live.credentials import ANONYMOUS
from tidewire.live.tokens import revoke_tokens
from tidewire.matching.covering import overlaps, relation
from tidewire.model.errors import NotAuthenticated


class Play:
    """A meter, and traffic of so many events a second that it listens to as a tap does."""

    def __init__(self) -> None:
        self.now_s = 1000.25
        self.meter = Meter(now_s=self.now_s)
        self.taken: list[float] = []
        self.looked_at: list[float] = []
        self.meter.begin(now_s=self.now_s)

    def run(self, events_per_s: float, *, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            if not self.meter.is_listening:
                self.now_s += self.meter.rest_s()
                self.meter.begin(now_s=self.now_s)
            self.now_s += 1 / events_per_s
            self.taken.append(self.now_s)
            if self.meter.passes(now_s=self.now_s):
                self.looked_at.append(self.now_s)


def test_a_little_is_taken_whole() -> None:
    """No rest, and of less than a hundred a second every one is looked at."""
    play = Play()
    play.run(90, seconds=60)
    assert play.looked_at == play.taken
    assert play.meter.events_per_s(now_s=play.now_s) == pytest.approx(90, rel=0.05)
    play.run(TAKEN_PER_S, seconds=20)
    assert len(play.taken) == pytest.approx(60 * 90 + 20 * TAKEN_PER_S, abs=5)


@pytest.mark.parametrize("events_per_s", [TAKEN_PER_S * 1.5, 7_000.0, 50_000.0, 1e6])
def test_much_is_taken_in_turns(events_per_s: float) -> None:
    """No more than is allowed, but for the first turn; and it is known how much passes."""
    play = Play()
    seconds = 4 * TURN / TAKEN_PER_S
    play.run(events_per_s, seconds=seconds)
    spent_s = play.taken[-1] - play.taken[0]
    assert len(play.taken) <= TURN + TAKEN_PER_S * spent_s + 1
    assert len(play.looked_at) <= LOOKED_AT_FIRST * (spent_s + 2) + len(play.taken) / LOOKED_AT_EVERY
    assert play.meter.events_per_s(now_s=play.now_s) == pytest.approx(events_per_s, rel=0.05)


def test_what_is_old_is_forgotten() -> None:
    play = Play()
    play.run(500, seconds=5)
    assert play.meter.events_per_s(now_s=play.now_s) == pytest.approx(500, rel=0.05)
    assert play.meter.events_per_s(now_s=play.now_s + WINDOW_S / 2) == pytest.approx(250, rel=0.1)
    assert play.meter.events_per_s(now_s=play.now_s + 3 * WINDOW_S) == 0.0


def test_everything_covers_nothing() -> None:
    """So no broker takes back what it has told of others; but each filter finds its events in it."""
    everything = compile_filter(EVERYTHING)
    for text in ("n > 5", "class = 'QUAKE' and magnitude >= 6", "n is null"):
        wanted = compile_filter(text)
        assert relation(everything, wanted).name == "INTERSECTS"
        assert overlaps(everything, wanted)


async def _publish(address: str, is_over: Callable[[], bool]) -> int:
    count = 0
    async with tidewire.connect(address) as wire:
        while not is_over():
            await wire.publish_many([{"n": count + at} for at in range(100)])
            await wire.flush()
            count += 100
    return count


def test_a_tap_listens_in_turns_and_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a live broker: no subscription when it has enough, another after a rest, none when nobody looks."""
    monkeypatch.setattr(taps, "TURN", 1000)
    monkeypatch.setattr(taps, "TAKEN_PER_S", 5000)
    monkeypatch.setattr(taps, "_LINGER_S", 0.0)

    async def run() -> None:
        async with brokers({}) as (node,), asyncio.timeout(WAIT_S):
            subscribers = node.node.core.router.subscribers
            ours = taps.Taps(Network(brokers=(node.address,)))
            async with ours.tapped(ANONYMOUS) as tap:
                assert len(subscribers()) == 1
                for _ in range(2):
                    before = tap.kept[-1][1] if tap.kept else 0
                    await _publish(node.address, lambda: not subscribers())
                    assert tap.kept[-1][1] > before
                    await until(lambda: bool(subscribers()))
            await until(lambda: not node.node.core.clients)

    asyncio.run(run())


def test_one_tap_for_all_pages_of_an_identity() -> None:
    async def run() -> None:
        async with brokers({}) as (node,), asyncio.timeout(WAIT_S):
            ours = taps.Taps(Network(brokers=(node.address,)))
            async with AsyncExitStack() as stack:
                found = [await stack.enter_async_context(ours.tapped(ANONYMOUS)) for _ in range(3)]
                assert found[0] is found[1] is found[2]
                assert len(node.node.core.router.subscribers()) == 1
            async with ours.tapped(ANONYMOUS) as again:
                assert again is found[0]  # it stays for a moment
            await ours.close()
            assert again.ended.done()

    asyncio.run(run())


def test_a_tap_that_has_ended_is_nobody_elses(tmp_path: Path) -> None:
    """Its identity was revoked; who shows the same again is asked who it is, and not told what became of another."""
    here = Installation(tmp_path)

    async def run() -> None:
        async with here.brokers({}) as (node,), asyncio.timeout(WAIT_S):
            network = Network(brokers=(f"tidewires://{node.address}",), authority=tmp_path / "authority.pem")
            ours, shown = taps.Taps(network), here.token(name="eve")
            async with ours.tapped(shown) as tap:
                revoke_tokens(tmp_path, ["eve"])
                with pytest.raises(NotAuthenticated):
                    await tap.ended
                assert ours._taps == {}
            with pytest.raises(NotAuthenticated):
                async with ours.tapped(shown):
                    pass
            await ours.close()

    asyncio.run(run())
