"""What is withdrawn while brokers run: certificates of brokers, permissions, keys."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.network import HEAD_AND_TWO_EDGES, until
from tests.integration.secured import Installation
from tests.integration.test_secure import Raw
from tidewire.broker.effects import Note
from tidewire.broker.links import Neighbour
from tidewire.live.broker import LiveBroker
from tidewire.live.certificates import fingerprint_of
from tidewire.live.coordinator import LiveCoordinator
from tidewire.live.credentials import Credentials
from tidewire.live.journal import Journal
from tidewire.live.operate import members_of, status_of
from tidewire.live.security import revoke
from tidewire.model.errors import NotAuthenticated, NotPermitted, TidewireError
from tidewire.model.ids import BrokerId
from tidewire.model.messages import VERSION, Bye, Link, Message, Welcome
from tidewire.wire.frames import message_frame


@pytest.fixture
def here(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "keys")


def as_broker(here: Installation, name: str) -> Credentials:
    pem = here.folder / f"{name}.pem"
    return Credentials(authority=here.folder / "authority.pem", certificate=pem, key=pem.with_suffix(".key"))


def link(node: LiveBroker, shown: Credentials, name: str) -> list[Message]:
    raw = Raw(node, shown)
    said = Link(version=VERSION, broker=BrokerId(name), incarnation=1, address="127.0.0.1:1", lane="data")
    raw.say(message_frame(said))
    heard = raw.hear()
    raw.close()
    return heard


def test_a_revoked_broker_opens_no_link_and_gets_nothing(here: Installation) -> None:
    """However often it comes; the others are served on."""

    async def run() -> None:
        async with here.brokers(*HEAD_AND_TWO_EDGES) as (head, _, other):
            revoke(here.folder, [fingerprint_of(here.folder / "B1.pem")])
            await until(lambda: [one.broker for one in head.node.core.links.up()] == ["B2"])
            shown = as_broker(here, "B1")
            for _ in range(3):
                heard = await asyncio.to_thread(link, head, shown, "B1")
                assert not any(isinstance(one, Welcome) for one in heard)
                assert [one.code for one in heard if isinstance(one, Bye)] in ([], ["not-authenticated"])
            assert [one.broker for one in head.node.core.links.up()] == ["B2"]
            async with here.connect(other, here.token()) as wire, wire.subscribe("n = 1") as events:
                await wire.publish({"n": 1})
                assert (await events.get(10))["n"] == 1

    asyncio.run(run())


def test_the_coordinator_forgets_a_revoked_broker(here: Installation) -> None:
    async def run() -> None:
        notes: list[Note] = []
        office = LiveCoordinator("127.0.0.1:0", security=here.folder, on_note=notes.append)
        await office.start()
        try:
            registered = {"coordinator": office.address, "reconnect_s": 0.05, "reconnect_s_max": 0.1}
            async with here.brokers({**registered, "role": "head"}, {**registered, "role": "edge"}) as (_, edge):
                await until(lambda: len(edge.node.core.links.up()) == 1)
                revoke(here.folder, [fingerprint_of(here.folder / "B0.pem")])
                await until(lambda: [one.broker for one in office.core.members()] == ["B1"])
                await until(lambda: any(note.facts.get("act") == "register" for note in notes))
                assert office.core.neighbours() == {"B1": []}
                assert not edge.node.core.links.up()
                with pytest.raises(TidewireError):
                    await members_of(f"tidewires://{office.address}", credentials=here.show("garbage"))
                await until(lambda: any(note.facts.get("act") == "observe" for note in notes))
                observers = await members_of(f"tidewires://{office.address}", credentials=here.token())
                assert [one.broker for one in observers] == ["B1"]
            assert {note.what for note in notes} == {"refused", "forgotten"}
            refusals = [note for note in notes if note.facts.get("act") == "register"]
            assert len(refusals) == 1, "it comes again and again, and the log is told once"
        finally:
            await office.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    "now", ["", '[sensor7]\npublish = "*"\n', "[sensor7]\nsubscribe = \"n = 1 and region = 'north'\"\n"]
)
def test_a_permission_that_is_withdrawn_ends_what_was_begun_with_it(here: Installation, now: str) -> None:
    async def run() -> None:
        permissions = here.folder / "permissions.toml"
        permissions.write_text('[sensor7]\nsubscribe = "n = 1"\n')
        sensor = here.certificate("sensor7")
        async with here.brokers({}) as (node,):
            async with here.connect(node, sensor) as wire, here.connect(node, here.token()) as other:
                events, staying = await wire.subscribe("n = 1"), await other.subscribe("n = 1")
                permissions.write_text('[sensor7]\nsubscribe = "n >= 1"\npublish = "*"\n[other]\nsubscribe = "*"\n')
                await until(lambda: "other" in node._security.authority.certificates)  # type: ignore[union-attr]
                await other.publish({"n": 1})
                assert (await events.get(10))["n"] == 1, "who has more than it had goes on"
                permissions.write_text(now)
                with pytest.raises(NotAuthenticated, match="permissions have changed"):
                    await events.get(timeout=10)
                await other.publish({"n": 1})
                await staying.get(timeout=10)
                assert (await staying.get(timeout=10))["n"] == 1

    asyncio.run(run())


def test_other_keys_end_what_was_begun_with_the_old_ones(here: Installation, tmp_path: Path) -> None:
    async def run() -> None:
        another = Installation(tmp_path / "another")
        async with here.brokers({}) as (node,):
            async with here.connect(node, here.token()) as wire:
                events = await wire.subscribe("n = 1")
                (here.folder / "tokens.pub").write_bytes((another.folder / "tokens.pub").read_bytes())
                with pytest.raises(NotAuthenticated, match="keys of this installation have changed"):
                    await events.get(timeout=10)

    asyncio.run(run())


def test_nodes_trust_another_authority_without_a_restart(here: Installation, tmp_path: Path) -> None:
    """Broker and coordinator: those who come from now on are known by it, and know it."""

    async def run() -> None:
        office = LiveCoordinator("127.0.0.1:0", security=here.folder)
        await office.start()
        try:
            async with here.brokers({}) as (node,):
                old = here.token()
                here.folder.rename(tmp_path / "old")
                fresh = Installation(here.folder)
                shown = fresh.token()
                await until(lambda: node._security.authority.domain == _domain(fresh))  # type: ignore[union-attr]
                await until(lambda: office._security.authority.domain == _domain(fresh))  # type: ignore[union-attr]
                for address in (node.address, office.address):
                    ask = status_of if address == node.address else members_of
                    assert await ask(f"tidewires://{address}", credentials=shown) is not None
                    with pytest.raises(TidewireError):
                        await ask(f"tidewires://{address}", credentials=old)
        finally:
            await office.stop()

    asyncio.run(run())


def _links(node: LiveBroker) -> list[Neighbour]:
    """Other objects when they have been lost and found again."""
    return node.node.core.links.up()


def test_another_authority_ends_what_the_old_one_vouched_for(here: Installation, tmp_path: Path) -> None:
    """Links, registrations and clients with certificates; nodes that have new ones are connected again."""

    async def run() -> None:
        office = LiveCoordinator("127.0.0.1:0", security=here.folder)
        await office.start()
        try:
            registered = {"coordinator": office.address, "reconnect_s": 0.05, "reconnect_s_max": 0.1}
            roles: list[dict[str, Any]] = [{"role": "head"}, {"role": "edge", "neighbours": [0]}]
            async with here.brokers(*({**registered, **role} for role in roles)) as (head, edge):
                (here.folder / "permissions.toml").write_text("[ann]\nsubscribe = '*'\n")
                for node in (head, edge):
                    await until(lambda one=node: one._security and "ann" in one._security.authority.certificates)
                await until(lambda: len(office.core.neighbours()) == 2)
                async with here.connect(edge, here.certificate("ann")) as wire, asyncio.timeout(20):
                    events = await wire.subscribe("n = 1")
                    before, lines = _links(head), list(office._doorway._lines)
                    here.folder.rename(tmp_path / "old")
                    Installation(tmp_path / "new")
                    shutil.copy(tmp_path / "old" / "permissions.toml", tmp_path / "new")
                    (tmp_path / "new").rename(here.folder)
                    with pytest.raises(NotAuthenticated, match="another authority now"):
                        await events.get()
                await until(lambda: _links(head) and not any(one in before for one in _links(head)))
                await until(
                    lambda: (
                        len(office.core.neighbours()) == 2 and not any(one in lines for one in office._doorway._lines)
                    )
                )
        finally:
            await office.stop()

    asyncio.run(run())


def test_while_both_authorities_are_trusted_nothing_ends(here: Installation, tmp_path: Path) -> None:
    async def run() -> None:
        another = Installation(tmp_path / "another")
        async with here.brokers(*HEAD_AND_TWO_EDGES[:2]) as (head, edge):
            before = _links(head)
            with (here.folder / "authority.pem").open("ab") as file:
                file.write((another.folder / "authority.pem").read_bytes())
            for node in (head, edge):
                await until(lambda: node._security is not None and len(node._security.signers.keys) == 2)  # noqa: B023
            assert _links(head) == before

    asyncio.run(run())


def _domain(installation: Installation) -> str:
    return (installation.folder / "domain").read_text()


def test_who_asks_without_a_right_is_in_the_brokers_log(here: Installation) -> None:
    async def run() -> None:
        notes: list[Note] = []
        async with here.brokers({}) as (node,):
            node._journal = Journal(notes.append)
            address = f"tidewires://{node.address}"
            for _ in range(3):
                with pytest.raises(NotAuthenticated):
                    await status_of(address, credentials=here.show(None))
                with pytest.raises(NotPermitted):
                    await status_of(address, credentials=_publisher(here))
        refused = [note.facts for note in notes if note.what == "refused"]
        assert [(one["act"], one["from"]) for one in refused] == [("observe", "127.0.0.1")] * 2
        assert any("ann lacks the permission to observe" in str(one["why"]) for one in refused)

    asyncio.run(run())


def _publisher(here: Installation) -> Credentials:
    from tidewire.identity.grants import Grant

    return here.token(Grant(publish="*"))
