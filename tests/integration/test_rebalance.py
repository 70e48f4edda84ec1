"""Operators see what balancing would do, and make it happen (peer §5, §6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tidewire
from tests.integration.network import HEAD_AND_TWO_EDGES, brokers, until
from tests.integration.secured import Installation
from tests.integration.test_operators import _command
from tidewire.balancing.config import BalancingConfig
from tidewire.identity.grants import Grant
from tidewire.live.broker import LiveBroker
from tidewire.live.clock import now
from tidewire.live.operate import rebalance_broker
from tidewire.model.errors import BadConfiguration, NotPermitted, Unavailable

BALANCE = BalancingConfig(
    automatic=False,
    load_window_s=5.0,
    local_pie_s=0.5,
    local_detect_s_min=0.5,
    local_detect_s_max=1.0,
    stabilise_s=0.5,
    stable_window_s=1.0,
    press_s=3.0,
    press_samples=20,
    local_ratio=0.03,
    delay_norm_s=1000.0,
)
"""Fast. What is balanced is output: how long the machine takes to match must not matter."""
PEER: dict[str, Any] = {"balancing": "peer", "balance": BALANCE, "output_bytes_s": 200_000.0, "load_every_s": 0.25}
CLIENTS = 12
PATIENCE_S = 120.0


@asynccontextmanager
async def crowded(nodes: list[LiveBroker]) -> AsyncIterator[list[list[int]]]:
    """All subscribers at the first edge, and fifty events a second; what each has got."""
    got: list[list[int]] = [[] for _ in range(CLIENTS)]
    async with AsyncExitStack() as stack:
        for mine in got:
            wire = await stack.enter_async_context(tidewire.connect(nodes[1].address))

            def take(event: Any, mine: list[int] = mine) -> None:
                mine.append(event["n"])

            await wire.subscribe("n >= 0", take)
        writer = await stack.enter_async_context(tidewire.connect(nodes[0].address))
        sent = 0
        is_over = asyncio.Event()

        async def publish() -> None:
            nonlocal sent
            while not is_over.is_set():
                await writer.publish({"n": sent, "text": "x" * 40})
                sent += 1
                await asyncio.sleep(0.02)

        publishing = asyncio.create_task(publish())
        try:
            yield got
        finally:
            is_over.set()
            await publishing
        await writer.flush()
        await until(lambda: all(len(mine) >= sent for mine in got))
        assert all(mine == list(range(sent)) for mine in got)


def subscribers(node: LiveBroker) -> int:
    return len(node.node.core.clients.using("subscribe"))


def test_what_would_move_is_shown_nothing_changes_and_then_it_does() -> None:
    """peer §6.2, M3 to M5a: the dry run names clients and loads; told to, the broker moves them, without any loss."""

    async def play() -> None:
        async with brokers(*({**one, **PEER} for one in HEAD_AND_TWO_EDGES)) as nodes, crowded(nodes):
            async with asyncio.timeout(PATIENCE_S):
                steps = await would_move(nodes)
            would = steps["B1"]["would_move"]
            assert (would["acceptor"], would["action"]) == ("B2", "output")
            assert 0 < would["clients"] < CLIENTS
            assert len(would["names"]) == would["clients"]
            assert would["donor_after"]["output_utilisation"] < would["donor_before"]["output_utilisation"]
            assert would["acceptor_after"]["output_utilisation"] > would["acceptor_before"]["output_utilisation"]
            assert [subscribers(node) for node in nodes] == [0, CLIENTS, 0]
            for node in nodes:
                balance = node.node.core.balancing.status(now_ns=now())
                assert balance is not None
                assert (balance.partner, balance.sessions_accepted, sum(balance.sessions.values())) == (None, 0, 0)

            async with asyncio.timeout(PATIENCE_S):
                while not subscribers(nodes[2]):
                    await _command("rebalance", "--at", nodes[0].address)
            seen = (await _command("top", "--once", "--at", nodes[1].address))["brokers"][1]["status"]["balance"]
            assert seen["is_automatic"] is False
            assert seen["bulletins_sent"]["LOCAL_PIE"] > 0

    asyncio.run(play())


async def would_move(nodes: list[LiveBroker]) -> dict[str, Any]:
    """What brokers would do, by name, once the first edge would move somebody."""
    while True:
        shown = await _command("rebalance", "--dry-run", "--at", nodes[0].address)
        steps = {step["broker"]: step for step in shown["brokers"]}
        assert set(steps) == {"B0", "B1", "B2"}
        if steps["B1"]["would_move"] is not None:
            return steps


def test_a_network_that_does_not_balance_says_how_to_turn_it_on() -> None:
    async def play() -> None:
        async with brokers({}) as (node,):
            refused = await _command("rebalance", "--dry-run", "--at", node.address, code=2)
            assert refused["error"]["code"] == "configuration"
            assert 'balancing = "peer"' in refused["error"]["message"]
            with pytest.raises(BadConfiguration, match='set balancing = "peer"'):
                await rebalance_broker(node.address, is_dry_run=True, seconds=5)
        async with brokers(PEER) as (node,):
            with pytest.raises(Unavailable, match="neither head nor edge"):
                await rebalance_broker(node.address, is_dry_run=True, seconds=5)

    asyncio.run(play())


def test_to_look_is_for_observers_and_to_move_for_operators(tmp_path: Path) -> None:
    async def play() -> None:
        here = Installation(tmp_path / "keys")
        stranger, observer, operator = (
            here.token(grant)
            for grant in (Grant(subscribe="n >= 0"), Grant(observe=True), Grant(operate=True, observe=True))
        )
        async with here.brokers(*({**one, **PEER} for one in HEAD_AND_TWO_EDGES)) as nodes:
            for node in nodes:
                at = f"tidewires://{node.address}"
                with pytest.raises(NotPermitted, match="lacks the permission to observe"):
                    await rebalance_broker(at, is_dry_run=True, seconds=5, credentials=stranger)
                step = await rebalance_broker(at, is_dry_run=True, seconds=30, credentials=observer)
                assert step.broker == node.config.broker
                with pytest.raises(NotPermitted, match="lacks the permission to operate"):
                    await rebalance_broker(at, is_dry_run=False, seconds=5, credentials=observer)
                assert (
                    await rebalance_broker(at, is_dry_run=False, seconds=5, credentials=operator)
                ).would_move is None
                told = [one for one in node.node.status(now_ns=now()).decisions if one.what == "asked to rebalance"]
                assert [one.times for one in told] == [1]

    asyncio.run(play())
