"""What a broker tells its clients of channels: all that is new to one of them at once."""

from random import Random

from tidewire.broker.channels import NEWS_MAX, Channels
from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Effect
from tidewire.channels.messages import Channels as AllChannels
from tidewire.channels.messages import Granted, Opened, Results, ToBroker
from tidewire.channels.packing import pack_given
from tidewire.channels.results import Found, Packed, ResultRow, SubscriptionId
from tidewire.channels.schemas import Column, ColumnType
from tidewire.channels.talk import talk_of
from tidewire.identity.guard import Guard
from tidewire.model.channel_messages import TALK_BYTES, Notified, NotifiedTaken, OpenChannel
from tidewire.model.ids import BrokerId, Conn, Nanoseconds, Tick
from tidewire.wire.connections import Send

NOW = Nanoseconds(0)
CLIENTS = 2


class Scene:
    """Clients of one broker, each with so many subscriptions, all of them granted."""

    def __init__(self, each: int) -> None:
        config = BrokerConfig(broker=BrokerId("b"), address="127.0.0.1:1", data_cluster="127.0.0.1:2")
        self.channels = Channels(config, incarnation=1, chance=Random(1))
        self.channels.opened(Conn(99), NOW)
        parameters = (Column("n", ColumnType.BIGINT),)
        self.hear(AllChannels(opened=(Opened(channel="c", parameters=parameters, columns=("x",)),)))
        self.count = CLIENTS * each
        guard = Guard(is_secured=False)
        for number in range(self.count):
            conn = Conn(number % CLIENTS)
            guard.opened(conn, None, place="")
            self.identity = guard.identify(conn, None, now_ns=NOW)
            wanted = OpenChannel(number, number, "c", pack_given({"n": number}))
            self.channels.asked(conn, wanted, self.identity, now_ns=NOW)
        for number, (want, group) in enumerate(list(self.channels.frontends._groups.items())):
            self.hear(Granted(request=group.born, want=want, id=SubscriptionId(number), tick=Tick(0)))

    def hear(self, message: ToBroker) -> list[Effect]:
        """The data cluster says this."""
        return [effect for talk in talk_of(message) for effect in self.channels.heard(talk, NOW)]

    def told(self, tick: int, packed: Packed) -> dict[Conn, list[Notified]]:
        """A run has this for everyone: what does each client get?"""
        found = (
            Found(
                subscription=SubscriptionId(number),
                after=Tick(tick - 1),
                upto=Tick(tick),
                runs=((Tick(tick), packed),),
            )
            for number in range(self.count)
        )
        got: dict[Conn, list[Notified]] = {}
        for effect in self.hear(Results(channel="c", found=tuple(found))):
            if isinstance(effect, Send) and isinstance(effect.message, Notified):
                got.setdefault(effect.conn, []).append(effect.message)
        return got


def test_what_is_new_to_a_client_comes_in_one_message() -> None:
    """And what the client has dealt with is said in one: no work for each subscription but what must be."""
    scene, packed = Scene(each=50), Packed.of((ResultRow((7,)),))
    got = scene.told(1, packed)
    assert {conn: len(messages) for conn, messages in got.items()} == {Conn(0): 1, Conn(1): 1}
    [message] = got[Conn(1)]
    assert [(one.number, one.tick, one.rows, one.is_last) for one in message.news] == [
        (number, 1, 1, True) for number in range(1, 100, 2)
    ]
    assert [one.piece for one in message.news] == [packed.data] * 50
    taken = NotifiedTaken([(one.number, one.tick) for one in message.news])
    scene.channels.asked(Conn(1), taken, scene.identity, now_ns=NOW)
    groups = scene.channels.frontends._groups.values()
    assert [len(next(iter(group.unsettled.values()))) for group in groups] == [1, 0] * 50


def test_more_than_fits_into_a_message_comes_in_several() -> None:
    """By number, and by bytes: nothing is missing, and no message is longer than a frame may be."""
    got = Scene(each=NEWS_MAX + 1).told(1, Packed.of((ResultRow((7,)),)))
    assert [len(message.news) for message in got[Conn(0)]] == [NEWS_MAX, 1]
    long = Packed.of((ResultRow(("x" * (TALK_BYTES // 3),)),))
    messages = Scene(each=7).told(1, long)[Conn(0)]
    assert [len(message.news) for message in messages] == [2, 2, 2, 1]
    assert all(sum(len(one.piece) for one in message.news) <= TALK_BYTES for message in messages)
