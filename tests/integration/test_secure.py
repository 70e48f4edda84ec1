"""Secured brokers, and those who would get around it."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidewire
from tests.integration.network import HEAD_AND_TWO_EDGES, until, with_broker
from tests.integration.secured import Installation
from tidewire._kernel.codec import encode
from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Note
from tidewire.broker.events import MoveClient
from tidewire.dataplane.kernel import KernelEngine
from tidewire.identity.grants import EVERYTHING, Grant
from tidewire.language import compile_filter
from tidewire.live.broker import LiveBroker
from tidewire.live.certificates import fingerprint_of, make_certificate
from tidewire.live.coordinator import LiveCoordinator
from tidewire.live.credentials import Credentials, client_context
from tidewire.live.journal import Journal
from tidewire.live.operate import ask, drain_broker, members_of, status_of
from tidewire.live.security import ensure_certificate, refuse_exposure, revoke
from tidewire.live.sockets import parse_address
from tidewire.live.tokens import issue, revoke_tokens
from tidewire.model.errors import (
    BadConfiguration,
    NotAuthenticated,
    NotPermitted,
    PeerError,
    Unavailable,
    UsageError,
)
from tidewire.model.events import make_event
from tidewire.model.filters import encode_filter
from tidewire.model.ids import BrokerId, TreeId
from tidewire.model.messages import (
    ANYTHING,
    VERSION,
    Advertise,
    AskMembers,
    AskStatus,
    Bye,
    Done,
    Drain,
    Hello,
    Link,
    Message,
    Refused,
    Register,
    Subscribe,
)
from tidewire.model.routing_messages import Routes
from tidewire.wire.connections import CertificateOf, Opened
from tidewire.wire.frames import (
    FORWARD,
    HOP,
    MESSAGE,
    FrameReader,
    decode_message,
    frame,
    message_frame,
    publish_frame,
)


@pytest.fixture
def here(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "keys")


class Raw:
    """A connection by hand: it may say what no client says."""

    def __init__(self, node: LiveBroker | LiveCoordinator, shown: Credentials) -> None:
        host, port = parse_address(node.address)
        plain = socket.create_connection((host, port), timeout=10)
        self._socket = client_context(shown).wrap_socket(plain, server_hostname=host)
        self._frames = FrameReader()

    def say(self, *frames: bytes) -> None:
        self._socket.sendall(b"".join(frames))

    def hear(self, kind: type[Message] | None = None) -> list[Message]:
        """All until this comes, or until the end."""
        heard: list[Message] = []
        while not heard or kind is None or not isinstance(heard[-1], kind):
            try:
                data = self._socket.recv(65_536)
            except (ssl.SSLError, ConnectionError):
                return heard
            if not data:
                return heard
            heard += [decode_message(payload) for of, payload in self._frames.feed(data) if of == MESSAGE]
        return heard

    def close(self) -> None:
        self._socket.close()


def hello(shown: Credentials, **more: Any) -> bytes:
    uses = ["publish", "subscribe"]
    return message_frame(Hello(version=VERSION, name="raw", uses=uses, identity=shown.token, **more))  # type: ignore[arg-type]


def test_events_flow_through_a_secured_network(here: Installation) -> None:
    async def run() -> None:
        shown = here.token()
        async with here.brokers(*HEAD_AND_TWO_EDGES) as nodes:
            async with here.connect(nodes[0], shown) as wire, wire.subscribe("n >= 0") as events:
                await wire.publish_many({"n": n, "text": "x" * (n % 700)} for n in range(3000))
                assert [(await events.get(10))["n"] for _ in range(3000)] == list(range(3000))
                assert wire.publishing_at == "B0"
                assert wire.subscribed_at in ("B1", "B2")
            large = {"n": 1, "text": "y" * 60_000}
            async with here.connect(nodes[1], shown) as wire, wire.subscribe("n = 1") as events:
                await wire.publish_many(large for _ in range(100))
                for _ in range(100):
                    assert len((await events.get(10))["text"]) == 60_000

    asyncio.run(run())


def test_a_secured_subscriber_moves_and_stays_narrow(here: Installation) -> None:
    async def run() -> None:
        async with here.brokers(*HEAD_AND_TWO_EDGES) as nodes:
            narrow = here.token(Grant(subscribe="region = 'north'"))
            async with here.connect(nodes[0], here.token()) as writer, here.connect(nodes[0], narrow) as reader:
                got: list[tuple[str, int]] = []
                await reader.subscribe("n >= 0", lambda event: got.append((event["region"], event["n"])))
                first = reader.subscribed_at
                at = next(node for node in nodes if node.config.broker == first)
                other = next(node for node in nodes[1:] if node is not at)
                for n in range(200):
                    await writer.publish({"n": n, "region": "north" if n % 2 else "south"})
                    if n == 50:
                        (conn,) = at.node.core.clients.using("subscribe")
                        at._act(at.node.handle(MoveClient(conn, "subscribe", other.address), now_ns=1))  # type: ignore[arg-type]
                    await asyncio.sleep(0)
                await until(lambda: len(got) >= 100 and reader.subscribed_at != first)
                assert got == [("north", n) for n in range(1, 200, 2)]

    asyncio.run(run())


@pytest.mark.parametrize("address", ["0.0.0.0:7600", "192.0.2.1:7600", "[::]:7600", "example.org:7600"])
def test_off_loopback_nothing_starts_without_authentication(address: str) -> None:
    with pytest.raises(BadConfiguration, match="anyone could publish and subscribe"):
        refuse_exposure(address, insecure=False, security=None)
    refuse_exposure(address, insecure=True, security=None)
    refuse_exposure(address, insecure=False, security="keys")


def test_a_folder_without_keys_is_not_taken_for_security(tmp_path: Path, here: Installation) -> None:
    with pytest.raises(BadConfiguration, match=r"there is no .*B9.pem: make it with tidewire certificate create B9"):
        LiveBroker(BrokerConfig(broker=BrokerId("B9"), address="127.0.0.1:0", security=str(tmp_path)))


def _anonymous(here: Installation) -> Credentials:
    return here.show(None)


def _expired(here: Installation) -> Credentials:
    return here.token(seconds=-1)


def _forged(here: Installation) -> Credentials:
    other = Installation(here.folder / "other")
    return here.show(other.token().token)


def _revoked(here: Installation) -> Credentials:
    shown = here.token(name="gone")
    revoke_tokens(here.folder, ["gone"])
    return shown


def _bound_to_another(here: Installation) -> Credentials:
    owner = here.certificate("owner")
    assert owner.certificate is not None
    token, _ = issue(here.folder, "owner", EVERYTHING, seconds=60, certificate=fingerprint_of(owner.certificate))
    thief = here.certificate("thief")
    return Credentials(token=token, authority=thief.authority, certificate=thief.certificate, key=thief.key)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_anonymous, "show a token"),
        (_expired, "expired"),
        (_forged, "not signed by this installation"),
        (_revoked, "revoked"),
        (_bound_to_another, "only with the certificate"),
    ],
)
def test_who_shows_nothing_good_is_turned_away_at_once(
    here: Installation, make: Callable[[Installation], Credentials], says: str
) -> None:
    async def run() -> None:
        shown = make(here)
        async with here.brokers({}) as (node,):
            async with asyncio.timeout(5):
                with pytest.raises(NotAuthenticated, match=says):
                    async with here.connect(node, shown):
                        pass
            assert len(node.node.core.clients) == 0
            for question in (AskStatus(1, shown.token), Drain(1, shown.token)):
                answer = await ask(f"tidewires://{node.address}", question, seconds=5, credentials=shown)
                assert isinstance(answer, Refused)
                assert answer.code == "not-authenticated"

    asyncio.run(run())


def test_a_broker_that_is_not_the_one_it_should_be_gets_no_token(here: Installation, tmp_path: Path) -> None:
    async def run() -> None:
        stranger = Installation(tmp_path / "stranger")
        async with stranger.brokers({}) as (node,):
            with pytest.raises(Unavailable, match=r"certificate that is not good.*name the authority\.pem"):
                async with here.connect(node, here.token(), timeout=0.5):
                    pass

    asyncio.run(run())


def test_a_token_is_not_sent_in_clear_to_other_machines(here: Installation) -> None:
    with pytest.raises(UsageError, match="would be sent in clear"):
        tidewire.connect("192.0.2.1:7600", credentials=here.token())


def test_in_clear_nobody_comes_in(here: Installation) -> None:
    async def run() -> None:
        async with here.brokers({}) as (node,):
            with pytest.raises(Unavailable):
                async with tidewire.connect(node.address, timeout=0.5):
                    pass
            async with here.connect(node, here.token()) as wire:
                await wire.publish({"n": 1})

    asyncio.run(run())


def test_who_does_not_speak_tls_is_ended_and_not_reset(here: Installation) -> None:
    """However much it has said: a reset would also take away the alert that others get."""

    async def run() -> None:
        notes: list[Note] = []
        async with here.brokers({}) as (node,):
            node._journal = Journal(notes.append)
            reader, writer = await asyncio.open_connection(*parse_address(node.address))
            writer.write(message_frame(AskStatus(1, "x" * 9000)))
            async with asyncio.timeout(10):
                assert await reader.read() == b""
            writer.close()
        (note,) = (note for note in notes if note.what == "not secured")
        assert note.facts["why"] == "it does not speak TLS as we do: wrong version number"

    asyncio.run(run())


def test_a_client_cannot_play_broker(here: Installation) -> None:
    def play(node: LiveBroker, shown: Credentials, name: str) -> list[Message]:
        link = Link(version=VERSION, broker=BrokerId(name), incarnation=1, address="127.0.0.1:1", lane="data")
        raw = Raw(node, shown)
        raw.say(message_frame(link))
        heard = raw.hear()
        raw.close()
        return heard

    async def run() -> None:
        async with here.brokers({}) as (node,):
            other = Credentials(
                authority=here.folder / "authority.pem",
                certificate=here.folder / "B1.pem",
                key=here.folder / "B1.key",
            )
            for shown, name, says in [
                (here.token(), "B1", "only a broker"),
                (here.certificate("B1x"), "B1x", "only a broker"),
                (other, "B2", "that of the broker B1, not B2"),
            ]:
                (bye,) = await asyncio.to_thread(play, node, shown, name)
                assert isinstance(bye, Bye)
                assert bye.code == "not-permitted"
                assert says in bye.reason
            assert node.node.core.links.up() == []

    asyncio.run(run())


@pytest.mark.parametrize(
    "said",
    [
        frame(FORWARD, HOP.pack(1, 1, 1) + encode(make_event({"n": 1}))),
        message_frame(Routes(TreeId(1), [1], [encode_filter(compile_filter("n > 0"))])),
    ],
)
def test_what_only_brokers_say_ends_a_client(here: Installation, said: bytes) -> None:
    def act(node: LiveBroker) -> list[Message]:
        raw = Raw(node, here.token())
        raw.say(hello(here.token()), said)
        heard = raw.hear()
        raw.close()
        return heard

    async def run() -> None:
        async with here.brokers({}) as (node,):
            heard = await asyncio.to_thread(act, node)
            assert isinstance(heard[-1], Bye)
            await until(lambda: len(node.node.core.clients) == 0)

    asyncio.run(run())


def test_the_coordinator_takes_only_brokers_and_tells_only_observers(here: Installation) -> None:
    async def run() -> None:
        node = LiveCoordinator("127.0.0.1:0", security=here.folder)
        await node.start()
        try:
            register = Register(BrokerId("B1"), 1, "127.0.0.1:1", "auto")
            address = f"tidewires://{node.address}"
            with pytest.raises(NotPermitted, match="only a broker"):
                await ask(address, register, seconds=5, credentials=here.token())
            assert node.core.members() == []
            for shown in (here.show(None), here.token(Grant(subscribe="*"))):
                answer = await ask(address, AskMembers(1, shown.token), seconds=5, credentials=shown)
                assert isinstance(answer, Refused)
            shown = here.token(Grant(observe=True))
            assert not isinstance(await ask(address, AskMembers(1, shown.token), seconds=5, credentials=shown), Refused)
            async with here.brokers({"coordinator": node.address}):
                await until(lambda: [one.broker for one in node.core.members()] == ["B0"])
        finally:
            await node.stop()

    asyncio.run(run())


@pytest.mark.parametrize(("of", "says"), [("broker", "the broker coordinator"), ("client", "purpose")])
def test_nobody_else_can_play_coordinator(here: Installation, tmp_path: Path, of: CertificateOf, says: str) -> None:
    """Who takes its place is found out by its certificate: no broker registers with it, and nobody believes it."""

    async def run() -> None:
        notes: list[Note] = []
        folder = tmp_path / "taken"
        shutil.copytree(here.folder, folder)
        make_certificate(folder, "coordinator", of=of, hosts=["127.0.0.1"])
        impostor = LiveCoordinator("127.0.0.1:0", security=folder)
        await impostor.start()
        try:
            with pytest.raises(PeerError if of == "broker" else Unavailable, match=f"{impostor.address}.*{says}"):
                await members_of(f"tidewires://{impostor.address}", credentials=here.token())
            keys, where = str(here.folder), impostor.address
            config = BrokerConfig(broker=BrokerId("B0"), address="127.0.0.1:0", security=keys, coordinator=where)
            node = LiveBroker(config, on_note=notes.append)
            await node.start()
            await until(lambda: any(says in str(note.facts.get("why")) for note in notes))
            assert not node.node.core.is_registered
            assert impostor.core.members() == []
            await node.stop()
        finally:
            await impostor.stop()

    asyncio.run(run())


def test_what_is_refused_names_the_permission_and_is_noted(here: Installation) -> None:
    async def run() -> None:
        notes: list[Note] = []
        async with here.brokers({}) as (node,):
            node._journal = Journal(notes.append)
            grant = Grant(publish="class = 'QUAKE'", subscribe="region = 'north'")
            async with here.connect(node, here.token(grant)) as wire:
                with pytest.raises(NotPermitted, match=r"ann may subscribe only .*: region = 'north'"):
                    await wire.subscribe("region = 'south'")
                with pytest.raises(NotPermitted, match=r"ann may advertise only .*: class = 'QUAKE'"):
                    await wire.advertise("class = 'FIRE'")
                async with asyncio.timeout(10):  # who publishes meanwhile does not wait for what is refused
                    refused, published = await asyncio.gather(
                        wire.advertise("class = 'FIRE'")._advertised(),
                        wire.publish({"class": "QUAKE"}),
                        return_exceptions=True,
                    )
                assert isinstance(refused, NotPermitted)
                assert published is None
                await wire.publish({"class": "FIRE"})
                await wire.flush()
                await until(lambda: any(notice.what == "events refused" for notice in wire.notices))
                told = next(notice for notice in wire.notices if notice.what == "events refused")
                assert told.facts["code"] == "not-permitted"
                assert "class = 'QUAKE'" in str(told.facts["reason"])
            address = f"tidewires://{node.address}"
            with pytest.raises(NotPermitted, match="lacks the permission to operate"):
                await drain_broker(address, seconds=5, credentials=here.token(grant))
            with pytest.raises(NotPermitted, match="lacks the permission to observe"):
                await status_of(address, credentials=here.token(grant))
            assert b"B0" in await status_of(address, credentials=here.token())
        assert {note.what for note in notes} >= {"refused"}
        assert any("region = 'north'" in str(note.facts["why"]) for note in notes if note.what == "refused")

    asyncio.run(run())


CLEVER = [
    "n >= 0",
    "not (region = 'north')  or n >= 0",
    "region <> 'north' or n >= 0",
    "region is null or n >= 0",
    "region like '%' or n >= 0",
    "not within(lat, lon, 0, 0, 1 km) or n >= 0",
    "not (secret is not null) or secret is not null",
]


def test_no_filter_gets_around_a_permission(here: Installation) -> None:
    """On entry, by a change in place, and after the connection was lost."""

    async def run() -> None:
        permission = Grant(subscribe="region = 'north' and secret is null")
        async with here.brokers({}) as (node,):
            async with here.connect(node, here.token()) as writer, here.connect(node, here.token(permission)) as spy:
                got: list[dict[str, Any]] = []
                for clever in CLEVER:
                    await spy.subscribe(clever, lambda event: got.append(dict(event.attributes)))
                changed = await spy.subscribe("region = 'north'", lambda event: got.append(dict(event.attributes)))
                await changed.change("region = 'south' or n >= 0")
                for events in (1, 2):
                    await writer.publish_many(
                        [
                            {"n": 1, "region": "south", "lat": 1.0, "lon": 1.0},
                            {"n": 2, "lat": 1.0, "lon": 1.0},
                            {"n": 3, "region": "north", "secret": 1},
                            {"n": 4, "secret": 1},
                            {"n": 5, "region": 7},
                            {"n": 6, "region": "north"},
                        ]
                    )
                    await until(lambda events=events: len(got) >= 8 * events)
                    if events == 1:
                        for conn in node.node.core.clients.using("subscribe"):
                            node._end(conn, "cut")
                        await until(lambda: any(notice.what == "connection lost" for notice in spy.notices))
                        await until(lambda: spy._session.core.is_confirmed("subscribe"))
                await writer.flush()
                assert {one["n"] for one in got} == {6}

    asyncio.run(run())


def test_an_advertisement_tells_nothing_of_others(here: Installation) -> None:
    """What a publisher hears does not depend on who subscribes to what."""

    def advertise(node: LiveBroker, shown: Credentials) -> list[Message]:
        raw = Raw(node, shown)
        offered = encode_filter(compile_filter("class = 'QUAKE'"))
        raw.say(hello(shown), message_frame(Advertise(1, [1], [offered])))
        raw.say(publish_frame(encode(make_event({"class": "QUAKE"})), born_ns=1))
        raw.say(message_frame(Advertise(2, [2], [encode_filter(compile_filter("class = 'QUAKE' and m > 5"))])))
        heard = raw.hear(Done)
        while not any(isinstance(message, Done) and message.request == 2 for message in heard):
            heard += raw.hear(Done)
        raw.close()
        return [message for message in heard if type(message).__name__ not in ("Welcome", "Ping")]

    async def run() -> None:
        shown = here.token(Grant(publish="class = 'QUAKE'"))
        async with here.brokers({}) as (node,):
            alone = await asyncio.to_thread(advertise, node, shown)
            async with here.connect(node, here.token()) as other:
                await other.subscribe("class = 'QUAKE' and secret = 'plan'")
                await other.subscribe("class = 'QUAKE'")
                assert await asyncio.to_thread(advertise, node, shown) == alone
            assert alone == [Done(1), Done(2)]

    asyncio.run(run())


def test_a_session_ends_with_its_token(here: Installation) -> None:
    async def run() -> None:
        async with here.brokers({"heartbeat_s": 0.1}) as (node,):
            async with here.connect(node, here.token(seconds=1.2)) as wire, here.connect(node, here.token()) as other:
                waiting = await wire.subscribe("n = 1")
                staying = await other.subscribe("n = 1")
                with pytest.raises(NotAuthenticated, match="expired"):
                    await waiting.get(timeout=10)
                with pytest.raises(NotAuthenticated, match="expired"):
                    await wire.publish({"n": 1})
                with pytest.raises(NotAuthenticated, match="expired"):
                    await wire.subscribe("n = 2")
                await other.publish({"n": 1})
                assert (await staying.get(timeout=10))["n"] == 1

    asyncio.run(run())


def test_what_is_revoked_ends_at_once(here: Installation) -> None:
    async def run() -> None:
        async with here.brokers({}) as (node,):
            (here.folder / "permissions.toml").write_text('[sensor7]\nsubscribe = "*"\n')
            sensor = here.certificate("sensor7")
            await until(lambda: "sensor7" in node._security.authority.certificates)  # type: ignore[union-attr]
            async with (
                here.connect(node, here.token(name="leaver")) as wire,
                here.connect(node, sensor) as by_certificate,
            ):
                events, others = await wire.subscribe("n = 1"), await by_certificate.subscribe("n = 1")
                revoke_tokens(here.folder, ["leaver"])
                with pytest.raises(NotAuthenticated, match="token has been revoked"):
                    await events.get(timeout=10)
                assert sensor.certificate is not None
                revoke(here.folder, [fingerprint_of(sensor.certificate)])
                with pytest.raises(NotAuthenticated, match="certificate has been revoked"):
                    await others.get(timeout=10)

    asyncio.run(run())


def test_security_that_cannot_be_read_any_more_goes_on_as_it_was(here: Installation) -> None:
    async def run() -> None:
        notes: list[Note] = []
        async with here.brokers({}) as (node,):
            node._journal = Journal(notes.append)
            file = here.folder / "revoked.json"
            before = file.read_bytes() if file.exists() else b"[]"
            shown = here.token()
            file.write_bytes(b"{")
            await until(lambda: any(note.what == "security is not understood" for note in notes))
            async with here.connect(node, shown) as wire:
                await wire.publish({"n": 1})
            file.write_bytes(before)

    asyncio.run(run())


def test_handshakes_that_never_end_keep_nobody_out(here: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.live.tls.GUESTS_MAX", 20)
    monkeypatch.setattr("tidewire.live.tls.HANDSHAKE_NS", 300_000_000)

    async def run() -> None:
        async with here.brokers({}) as (node,):
            where = parse_address(node.address)
            idle = [await asyncio.open_connection(*where) for _ in range(60)]
            for _, writer in idle:
                writer.write(b"\x16\x03\x01\x02")
            async with here.connect(node, here.token()) as wire, wire.subscribe("n = 1") as events:
                await wire.publish({"n": 1})
                assert (await events.get(5))["n"] == 1
            for reader, writer in idle:
                async with asyncio.timeout(5):
                    await reader.read()  # the broker ends it
                writer.close()
            assert node._securing._under_way == {}

    asyncio.run(run())


def test_a_secured_subscriber_that_does_not_read_has_a_bound(here: Installation) -> None:
    def subscribe(node: LiveBroker) -> Raw:
        raw = Raw(node, here.token())
        raw.say(hello(here.token()), message_frame(Subscribe(1, [1], [encode_filter(compile_filter("n >= 0"))])))
        raw.hear(Done)
        return raw

    async def run() -> None:
        async with here.brokers({"queue_bytes_max": 200_000}) as (node,):
            slow = await asyncio.to_thread(subscribe, node)
            async with here.connect(node, here.token()) as wire, wire.subscribe("n >= 0") as events:
                for n in range(300):
                    await wire.publish({"n": n, "text": "z" * 50_000})
                    assert (await events.get(10))["n"] == n
                assert node.engine.totals().queued_bytes <= 2 * 200_000
                assert node.engine.totals().dropped > 0
            slow.close()

    asyncio.run(run())


def test_a_secured_publisher_is_not_read_faster_than_it_is_served(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read and not yet handled stays small, however much comes."""
    monkeypatch.setattr("tidewire.live.broker.KernelEngine", lambda **given: KernelEngine(budget_ns=1, **given))
    events, size = 3000, 2000

    def publish(node: LiveBroker) -> None:
        raw = Raw(node, here.token())
        raw.say(hello(here.token()), message_frame(Advertise(1, [1], [ANYTHING])))
        raw.hear(Done)
        raw.say(publish_frame(encode(make_event({"text": "x" * size})), born_ns=1) * events)
        raw.close()

    async def act(node: LiveBroker) -> None:
        before, most = node.engine.work().memory_bytes, 0
        publishing = asyncio.create_task(asyncio.to_thread(publish, node))
        async with asyncio.timeout(30):
            while node.engine.work().events < events:
                most = max(most, node.engine.work().memory_bytes - before)
                await asyncio.sleep(0)
        await publishing
        assert 0 < most < events * size / 4

    ensure_certificate(here.folder, "B")
    with_broker(act, security=str(here.folder))  # it is the kernel that reads


def test_a_secured_guest_comes_from_somewhere_too(here: Installation) -> None:
    """By that, those who say nothing are told from the others."""

    async def run() -> None:
        async with here.brokers({}) as (node,):
            opened: list[Opened] = []
            handle = node.node.handle

            def seen(event: Any, *, now_ns: Any) -> Any:
                opened.extend([event] if isinstance(event, Opened) else [])
                return handle(event, now_ns=now_ns)

            node.node.handle = seen  # type: ignore[method-assign]
            async with here.connect(node, here.token()):
                assert {one.place for one in opened} == {"127.0.0.1"}

    asyncio.run(run())
