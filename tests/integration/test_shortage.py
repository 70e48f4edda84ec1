"""Live: what a publisher hears of limits and silence, what subscribers say, and that an identity has one voice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tidewire
from tests.integration.network import brokers, until
from tests.integration.secured import Installation
from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.identity.grants import EVERYTHING
from tidewire.live.broker import LiveBroker
from tidewire.live.connect import Wire
from tidewire.model.errors import Overloaded, UsageError

QUICK: dict[str, Any] = {
    "fdcc": FdccConfig(policy="fdcc", feedback_s=0.1, utility_window_s=0.1, tiers=False),
    "load_every_s": 0.1,
    "role": "both",
}


async def _talk(wire: Wire, kind: str, keywords: str, stop: asyncio.Event, refused: list[Overloaded]) -> None:
    """Fifty events a second, whatever is said to it, and however late it is called."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while not stop.is_set():
        try:
            await wire.publish({"class": kind, "keywords": keywords, "padding": "x" * 300})
        except Overloaded as error:
            refused.append(error)
        due += 0.02
        await asyncio.sleep(max(0.0, due - loop.time()))


def _utilities(node: LiveBroker) -> list[float]:
    return sorted(node.node.core.shortage.utilities().values())


def test_the_least_valuable_is_told_how_much_it_may_publish() -> None:
    """epeer §2.10: by what subscribers think (Eq 8); ``publish`` raises Overloaded, with limit, reason and when."""

    async def run() -> None:
        heard: list[Overloaded] = []
        refused: list[Overloaded] = []
        stop = asyncio.Event()
        async with (
            brokers({**QUICK, "load_every_s": 0.5, "output_bytes_s": 36_000.0}) as [node],
            tidewire.connect(node.address) as good,
            tidewire.connect(node.address) as bad,
            tidewire.connect(node.address) as ann,
            tidewire.connect(node.address) as bob,
        ):
            await ann.subscribe("class = 'GOOD'", lambda _: None, keywords=["tsunami", "wave"])
            await bob.subscribe("class = 'BAD'", lambda _: None, utility="0.1")
            talks = [
                asyncio.ensure_future(_talk(good, "GOOD", "Tsunami, wave!", stop, heard)),
                asyncio.ensure_future(_talk(bad, "BAD", "football", stop, refused)),
            ]
            try:
                only_bad = {"=BAD": (0.0, "selection")}  # a busy machine publishes in bursts, which may not fit
                await until(lambda: bad.limits == only_bad and not good.limits and len(refused) > 10)
                assert any(notice.what == "limit" for notice in bad.notices)
                status = node.node.core.shortage.status()
                assert status is not None
                assert "=BAD" in [flow.traffic_class for flow in status.limited]
            finally:
                stop.set()
            await asyncio.gather(*talks)
            assert len(heard) < len(refused)
            assert (refused[0].limit_msgs_s, refused[0].reason, refused[0].code) == (0.0, "selection", "overloaded")
            assert 0 < refused[0].retry_after_s <= 1

    asyncio.run(run())


def test_nobody_wants_it_and_then_somebody_does() -> None:
    """epeer §2.11, QUENCH: no message is made; from the moment a subscription is confirmed nothing is missed."""

    async def run() -> None:
        async with brokers(QUICK) as [node], tidewire.connect(node.address) as wire, wire.advertise("n >= 0"):
            await until(lambda: any(notice.what == "unwanted" for notice in wire.notices))
            taken = node.engine.work().events
            await wire.publish({"n": 1})
            await wire.flush()
            assert (wire.unwanted, node.engine.work().events) == (1, taken)
            async with tidewire.connect(node.address) as ann, ann.subscribe("n > 5") as found:
                await wire.publish({"n": 6})
                assert (await found.get(10))["n"] == 6
            assert wire.unwanted == 1

    asyncio.run(run())


def test_who_does_not_ask_pays_nothing() -> None:
    """Without the policy no client is asked, and nothing of it is there."""

    async def run() -> None:
        async with brokers({"role": "both"}) as [node], tidewire.connect(node.address) as wire:
            await wire.publish({"n": 1})
            await wire.flush()
            assert wire._session.core.valuing.restraint is None
            assert not wire._session.core.valuing.is_asked
            assert node.node.core.shortage.status() is None

    asyncio.run(run())


def test_an_identity_has_one_voice_and_its_weight(tmp_path: Path) -> None:
    """Ten connections of one who always says 0 beside one honest subscriber: half a voice would be theirs, and its
    weight is a quarter. Nobody speaks for another: who it is follows from what it showed."""

    async def run() -> None:
        installation = Installation(tmp_path)
        stop = asyncio.Event()
        async with installation.brokers(QUICK) as [node]:
            lesser = msgspec.structs.replace(EVERYTHING, weight=0.25)
            ann, eve = installation.token(name="ann"), installation.token(lesser, name="eve")
            async with (
                installation.connect(node, installation.token(name="publisher")) as wire,
                installation.connect(node, ann) as honest,
            ):
                await honest.subscribe("class = 'GOOD'", lambda _: None, utility=lambda _: 0.8)
                talk = asyncio.ensure_future(_talk(wire, "GOOD", "", stop, []))
                try:
                    await until(lambda: _utilities(node) == [pytest.approx(0.8)])
                    liars = [installation.connect(node, eve) for _ in range(10)]
                    for liar in liars:
                        await liar.__aenter__()
                        await liar.subscribe("class = 'GOOD'", lambda _: None, utility=lambda _: 1.0)
                    await until(lambda: _utilities(node) == [pytest.approx((0.8 + 0.25) / 2)])
                    for liar in liars:
                        await liar.close()
                finally:
                    stop.set()
                    await talk

    asyncio.run(run())


def test_how_a_subscription_judges() -> None:
    """By keywords, or by utility, and an expression must be one."""

    async def run() -> None:
        async with brokers({"role": "both"}) as [node], tidewire.connect(node.address) as wire:
            with pytest.raises(UsageError):
                wire.subscribe("n = 1", keywords=["a"], utility="n")
            with pytest.raises(UsageError):
                wire.subscribe("n = 1", utility="import os")
            with pytest.raises(UsageError):
                wire.subscribe("n = 1", keywords="tsunami")

    asyncio.run(run())
