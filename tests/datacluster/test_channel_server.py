"""The data cluster's server on real sockets: brokers and operators speak to the reference cluster behind it."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.channels.emergencies import SEVEN, emergencies
from tests.datacluster.hosting import DataCluster
from tidewire.channels.commands import ChannelAnswer, ChannelCommand, CreateChannel, DropChannel, ListChannels
from tidewire.channels.evaluator import FedRow
from tidewire.channels.messages import (
    Began,
    Channels,
    Closed,
    Granted,
    Hold,
    Pull,
    Results,
    ToBroker,
    ToCluster,
    Told,
    Want,
)
from tidewire.channels.reference_cluster import Fed
from tidewire.channels.talk import listening_to_cluster, talk_of
from tidewire.live.certificates import make_certificate
from tidewire.live.credentials import ANONYMOUS, Credentials
from tidewire.live.operate import ask
from tidewire.live.security import init_security
from tidewire.model.channel_messages import TALK_BYTES, Attach, Command, Talk
from tidewire.model.errors import NotAuthenticated, NotPermitted, UnknownName, error_of
from tidewire.model.ids import BrokerId, PubendId, Tick
from tidewire.model.messages import VERSION, Bye, Message, Ping, Refused, Status
from tidewire.wire.frames import FrameReader, decode_message, message_frame

CONTINUOUS = SEVEN[0].replace("period 10s", "continuous")
SECONDS = 30.0


class Broker:
    """A broker, word by word."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._listening = listening_to_cluster()
        self._heard: list[Message] = []

    @classmethod
    async def connect(cls, address: str) -> "Broker":
        """A connection on which nothing was said."""
        host, port = address.rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, message: Message) -> None:
        """Say this, whatever it is."""
        self._writer.write(message_frame(message))

    def say(self, message: ToCluster) -> None:
        """Say this about channels."""
        for talk in talk_of(message):
            self.send(talk)

    async def next_message(self) -> Message:
        """What comes next, without what keeps the connection alive."""
        while True:
            while not self._heard:
                data = await asyncio.wait_for(self._reader.read(65_536), SECONDS)
                assert data, "the connection has ended"
                self._heard += [decode_message(payload) for _, payload in self._frames.feed(data)]
            message = self._heard.pop(0)
            if not isinstance(message, Ping):
                return message

    async def next(self) -> ToBroker:
        """What the data cluster says next."""
        while True:
            message = await self.next_message()
            assert isinstance(message, Talk), message
            said = self._listening.heard(message)
            if said is not None:
                return said

    def close(self) -> None:
        """The connection ends."""
        self._writer.close()


async def command(address: str, wanted: ChannelCommand, credentials: Credentials = ANONYMOUS) -> ChannelAnswer:
    """What an operator is answered."""
    question = Command(1, msgspec.json.encode(wanted), credentials.token)
    answer = await ask(address, question, seconds=SECONDS, credentials=credentials)
    if isinstance(answer, Refused):
        raise error_of(answer.code, answer.reason)
    assert isinstance(answer, Status)
    return msgspec.json.decode(answer.document, type=ChannelAnswer)


def fire(number: int) -> Fed:
    """A report comes in."""
    return Fed("EmergencyReports", (FedRow({"id": number, "type": "fire"}, (PubendId(3), Tick(number))),))


B1 = BrokerId("b1")
WANT = Want("of_type", ("fire",))


def began(life: int, *holds: Hold) -> Began:
    """A life of a broker begins."""
    return Began(broker=B1, life=life, holds=holds)


def hold(life: int, request: int = 1) -> Hold:
    """It wants to hear of fires."""
    return Hold(broker=B1, life=life, request=request, want=WANT)


def test_from_a_channel_to_its_results_over_sockets() -> None:
    """An operator creates it, a broker holds a subscription, is told of a run, pulls, and hears when it is dropped."""

    async def story() -> None:
        async with DataCluster(emergencies()) as cluster:
            [made] = (await command(cluster.address, CreateChannel(CONTINUOUS))).channels
            assert (made.channel, made.period_ms, made.subscriptions) == ("of_type", None, 0)
            broker = await Broker.connect(cluster.address)
            broker.send(Attach(VERSION, B1))
            broker.say(began(1))
            channels = await broker.next()
            assert isinstance(channels, Channels)
            assert [one.channel for one in channels.opened] == ["of_type"]
            broker.say(hold(1))
            granted = await broker.next()
            assert isinstance(granted, Granted)
            cluster.fed(fire(7))
            told = await broker.next()
            assert isinstance(told, Told)
            assert told.ids == (granted.id,)
            broker.say(Pull(broker=B1, life=1, channel="of_type", places=((granted.id, granted.tick),)))
            results = await broker.next()
            assert isinstance(results, Results)
            [(_, packed)] = results.found[0].runs
            [row] = packed.rows()
            assert (row.cells[0], row.origins) == (7, ((PubendId(3), Tick(7)),))
            [listed] = (await command(cluster.address, ListChannels())).channels
            assert listed.subscriptions == 1
            await command(cluster.address, DropChannel("of_type"))
            assert await broker.next() == Closed(channel="of_type")
            broker.close()

    asyncio.run(story())


def test_what_is_long_comes_in_pieces() -> None:
    """More than one frame can hold, both ways."""

    async def story() -> None:
        async with DataCluster(emergencies()) as cluster:
            await command(cluster.address, CreateChannel(CONTINUOUS))
            broker = await Broker.connect(cluster.address)
            broker.send(Attach(VERSION, B1))
            wants = [Want("of_type", (f"{number}" + "x" * 60_000,)) for number in range(40)]
            holds = [Hold(broker=B1, life=1, request=one, want=want) for one, want in enumerate(wants, start=1)]
            assert len(talk_of(began(1, *holds))) > 4
            broker.say(began(1, *holds))
            answers = [await broker.next() for _ in range(41)]
            assert [one.want for one in answers if isinstance(one, Granted)] == wants
            broker.close()

    asyncio.run(story())


def test_a_later_connection_of_a_broker_takes_the_place_of_the_first() -> None:
    """What the first one still says counts no more; a broker speaks only for itself; the rest is refused by name."""

    async def story() -> None:
        async with DataCluster(emergencies()) as cluster:
            first, second, third = [await Broker.connect(cluster.address) for _ in range(3)]
            first.send(Attach(VERSION, B1))
            first.say(began(1))
            assert isinstance(await first.next(), Channels)
            second.send(Attach(VERSION, B1))
            second.say(began(2))
            bye = await first.next_message()
            assert isinstance(bye, Bye)
            assert bye.code == "same-name"
            assert isinstance(await second.next(), Channels)
            assert cluster.server.core.connected() == [B1]
            second.say(Began(broker=BrokerId("b2"), life=1, holds=()))
            bye = await second.next_message()
            assert isinstance(bye, Bye)
            assert "speaks for 'b2'" in bye.reason
            third.send(Attach(VERSION + 1, B1))
            bye = await third.next_message()
            assert isinstance(bye, Bye)
            assert "version" in bye.reason
            for broker in (first, second, third):
                broker.close()

    asyncio.run(story())


@pytest.mark.parametrize("piece", [b"\xc1", b"x" * TALK_BYTES])
def test_what_cannot_be_read_ends_the_connection(piece: bytes) -> None:
    """And nobody else's."""

    async def story() -> None:
        async with DataCluster(emergencies()) as cluster:
            broker = await Broker.connect(cluster.address)
            broker.send(Attach(VERSION, B1))
            broker.send(Talk(piece, is_last=True))
            bye = await broker.next_message()
            assert isinstance(bye, Bye)
            assert bye.code == "frame-damaged"
            broker.close()
            assert (await command(cluster.address, ListChannels())).channels == []

    asyncio.run(story())


def test_operators_hear_what_is_wrong() -> None:
    """Errors keep their codes across the connection."""

    async def story() -> None:
        async with DataCluster(emergencies()) as cluster:
            with pytest.raises(UnknownName, match="no channel named 'none'"):
                await command(cluster.address, DropChannel("none"))
            with pytest.raises(UnknownName, match="Nothing"):
                await command(cluster.address, CreateChannel("create channel c() continuous as select * from Nothing"))
            answer = await ask(cluster.address, Command(1, b"{}", None), seconds=SECONDS)
            assert isinstance(answer, Refused)
            assert answer.code == "frame-damaged"

    asyncio.run(story())


def test_a_secured_data_cluster_knows_who_is_there(tmp_path: Path) -> None:
    """Brokers by their certificates, operators by a token or a certificate; all others are refused."""
    init_security(tmp_path)
    hosts = ["127.0.0.1"]
    make_certificate(tmp_path, "datacluster", of="datacluster", hosts=hosts)
    make_certificate(tmp_path, "b1", of="broker", hosts=hosts)

    async def story() -> None:
        async with DataCluster(emergencies(), security=tmp_path) as cluster:
            address = f"tidewires://{cluster.address}"
            stranger = Credentials(authority=tmp_path / "authority.pem")
            with pytest.raises(NotAuthenticated):
                await command(address, ListChannels(), stranger)
            with pytest.raises(NotPermitted, match="only a broker"):
                await ask(address, Attach(VERSION, B1), seconds=SECONDS, credentials=stranger)
            shown = Credentials(
                authority=tmp_path / "authority.pem", certificate=tmp_path / "b1.pem", key=tmp_path / "b1.key"
            )
            with pytest.raises(NotPermitted, match="not b2"):
                await ask(address, Attach(VERSION, BrokerId("b2")), seconds=SECONDS, credentials=shown)

    asyncio.run(story())
