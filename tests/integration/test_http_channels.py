"""Channels over HTTP, by the names of the paper (bad §1.2): the reference cluster stands for the one on Spark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.console.serving import WAIT_S, door
from tests.integration.network import until
from tests.integration.test_channels import city, report
from tidewire.broker.events import MoveClient
from tidewire.channels.commands import ListChannels
from tidewire.console import tuning
from tidewire.console.network import Network
from tidewire.live.clock import now

QUERY = "select r.id, r.zone from EmergencyReports r where r.type = :type"


@asynccontextmanager
async def asked(*settings: dict[str, Any]) -> AsyncIterator[tuple[Any, Any, Any]]:
    """A door in front of brokers with a data cluster: how it is called, the cluster, and the brokers."""
    async with city(*settings) as (cluster, nodes), door(Network(brokers=(nodes[0].address,))) as live:
        async with httpx.AsyncClient(base_url=live.url, timeout=WAIT_S, trust_env=False) as client:

            async def call(path: str, /, **body: Any) -> dict[str, Any]:
                answer = await client.post(f"/v1/{path}", json=body)
                found: dict[str, Any] = answer.json()
                assert ("error" in found) is (answer.status_code != 200)
                return {**found, "status": answer.status_code} if "error" in found else found

            yield call, cluster, nodes


def test_a_subscriber_logs_in_and_is_told_what_is_new() -> None:
    """bad §1.1, §1.2: login, subscribe, notify (which carries no results), getresults, unsubscribe, logout."""

    async def run() -> None:
        async with asked() as (call, cluster, _):
            session = (await call("login", user="ann"))["session"]
            made = await call("subscribe", session=session, channel="of_type", parameters={"type": "fire"})
            number = made["subscription"]
            assert (await call("notify", session=session))["subscriptions"] == []
            waiting = asyncio.create_task(call("notify", session=session, waitS=WAIT_S))
            report(cluster, 1, 2)
            assert await waiting == {"session": session, "subscriptions": [number]}
            runs: list[dict[str, Any]] = []
            while len(runs) < 2:
                runs += (await call("getresults", session=session, subscription=number))["runs"]
            assert [one["rows"] for one in runs] == [[{"id": 1, "zone": "north"}], [{"id": 2, "zone": "north"}]]
            assert runs[0]["tick"] < runs[1]["tick"]
            assert runs[0]["origins"] == [[["0000000000000003", 1]]]
            assert (await call("getresults", session=session, subscription=number))["runs"] == []
            await call("unsubscribe", session=session, subscription=number)
            gone = await call("getresults", session=session, subscription=number)
            assert gone["error"]["code"] == "subscription-unknown"
            assert (await call("logout", session=session))["session"] == session
            assert (await call("notify", session=session))["error"]["code"] == "user-unknown"

    asyncio.run(run())


def test_a_broker_that_does_not_speak_the_wire_shares_subscriptions() -> None:
    """bad §1.2, G5: createbroker, subscribe; the same want of two brokers is one in the data cluster."""

    async def run() -> None:
        async with asked() as (call, cluster, _):
            sessions = [(await call("createbroker", broker=f"b{at}"))["session"] for at in range(2)]
            for session in sessions:
                await call("subscribe", session=session, channel="of_type", parameters={"type": "fire"})
            listed, _ = cluster.host.cluster.asked(ListChannels(), now_ns=now())
            assert [one.subscriptions for one in listed.channels] == [1]
            report(cluster, 7)
            for session in sessions:
                [number] = (await call("notify", session=session, waitS=WAIT_S))["subscriptions"]
                [one] = (await call("getresults", session=session, subscription=number))["runs"]
                assert one["rows"] == [{"id": 7, "zone": "north"}]

    asyncio.run(run())


def test_a_channel_is_created_by_a_call() -> None:
    """bad §1.2: createchannel with a name, parameters, a period and a query; what cannot be is said."""

    async def run() -> None:
        async with asked() as (call, _, _):
            made = await call("createchannel", name="of_kind", parameters={"type": "string"}, periodS=10, query=QUERY)
            assert made == {"name": "of_kind", "columns": ["id", "zone"]}
            again = await call("createchannel", name="of_kind", parameters={"type": "string"}, query=QUERY)
            assert again["error"]["code"] == "same-name"
            assert again["status"] == 409
            assert "already" in again["error"]["message"]
            nothing = await call("createchannel", name="odd", parameters={"type": "text"}, query=QUERY)
            assert nothing["status"] == 400
            wrong = await call("createchannel", name="other", query="select x from Nowhere")
            assert "Nowhere" in wrong["error"]["message"]
            session = (await call("login", user="ann"))["session"]
            unknown = await call("subscribe", session=session, channel="nothing")
            assert unknown["error"]["code"] == "unknown-name"

    asyncio.run(run())


def test_a_timestamp_is_given_as_text() -> None:
    """JSON has no timestamps: RFC 3339 does, for who says which moment it wants to hear of."""

    async def run() -> None:
        async with asked() as (call, cluster, _):
            query = QUERY + " and :since < timestamp '2026-11-15T12:00:01Z'"
            parameters = {"type": "string", "since": "timestamp"}
            await call("createchannel", name="later", parameters=parameters, query=query)
            session = (await call("login", user="ann"))["session"]
            numbers = []
            for since in ("2026-11-15T12:00:00Z", "2026-11-15T13:00:00+01:00", "2026-11-15T12:00:02Z"):
                given = {"type": "fire", "since": since}
                made = await call("subscribe", session=session, channel="later", parameters=given)
                numbers.append(made["subscription"])
            listed, _ = cluster.host.cluster.asked(ListChannels(), now_ns=now())
            assert [one.subscriptions for one in listed.channels if one.channel == "later"] == [2], "two say the same"
            report(cluster, 7)
            told: list[int] = []
            while len(told) < 2:
                told = (await call("notify", session=session, waitS=WAIT_S))["subscriptions"]
            assert told == numbers[:2]
            for wrong in ("yesterday", 7, True):
                mistaken = {"type": "fire", "since": wrong}
                refused = await call("subscribe", session=session, channel="later", parameters=mistaken)
                assert (refused["error"]["code"], refused["status"]) == ("channel-parameters", 400)
                assert "since is a timestamp" in refused["error"]["message"]

    asyncio.run(run())


def test_a_session_that_is_moved_gets_everything_once() -> None:
    """bad §4.5: as any other session."""

    async def run() -> None:
        edges = ({"role": "edge", "neighbours": [0]} for _ in range(2))
        async with asked({"role": "head"}, *edges) as (call, cluster, [_, *nodes]):
            session = (await call("login", user="ann"))["session"]
            made = await call("subscribe", session=session, channel="of_type", parameters={"type": "fire"})
            report(cluster, 1)
            first, second = sorted(nodes, key=lambda one: not one.node.core.channels.frontends.wanted())
            [conn] = first.node.core.channels.frontends.wanted()
            first._tell(MoveClient(conn, "subscribe", second.address))
            await until(lambda: bool(second.node.core.channels.frontends.wanted()))
            report(cluster, 2)
            found: list[int] = []
            async with asyncio.timeout(WAIT_S):
                while len(found) < 2:
                    await call("notify", session=session, waitS=1)
                    told = await call("getresults", session=session, subscription=made["subscription"])
                    found += [row["id"] for one in told["runs"] for row in one["rows"]]
            assert found == [1, 2]

    asyncio.run(run())


def test_a_session_that_does_not_call_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """So are too many."""
    monkeypatch.setattr(tuning, "GONE_AFTER_S", 0.2)
    monkeypatch.setattr(tuning, "SESSIONS_MAX", 1)

    async def run() -> None:
        async with asked() as (call, _, nodes):
            session = (await call("login", user="ann"))["session"]
            assert (await call("login", user="bob"))["error"]["code"] == "limit"
            await until(lambda: not len(nodes[0].node.core.clients))
            assert (await call("notify", session=session))["error"]["code"] == "user-unknown"

    asyncio.run(run())
