"""A data cluster, its brokers and their clients, with the connections between them: everything in order, or cut."""

from collections import deque

from tests.channels.emergencies import emergencies
from tidewire.channels.cluster_events import (
    AddRow,
    Answer,
    BrokerGone,
    ClusterEffect,
    ClusterEvent,
    Created,
    Discard,
    Keep,
    Kept,
    Ran,
    RemoveRow,
    Send,
    Store,
    Stored,
    Trim,
)
from tidewire.channels.declaration import declare
from tidewire.channels.frontend_events import (
    ClientGone,
    Confirm,
    Connected,
    Disconnected,
    FrontendEvent,
    LetGo,
    Linger,
    Missed,
    Notify,
    Refuse,
    Say,
    Subscriber,
)
from tidewire.channels.frontends import Frontends
from tidewire.channels.messages import Pull, Results, ToBroker, ToCluster, Want
from tidewire.channels.results import (
    Origin,
    Outcome,
    Result,
    ResultRow,
    ResultStore,
    SubscriptionId,
    SubscriptionRow,
)
from tidewire.channels.subscriptions import Ledger
from tidewire.model.ids import BrokerId, Conn, PubendId, Tick

CHANNEL = "of_type"
DECLARATION = declare(
    f"create channel {CHANNEL}(type string) period 10s as select r.id from EmergencyReports r where r.type = :type",
    emergencies(),
)


class Session:
    """What one subscriber was told, from its confirmation on."""

    def __init__(self, want: Want, name: str) -> None:
        self.want = want
        self.name = name
        self.began: Tick | None = None
        self.told: list[Notify] = []
        self.missed: list[tuple[Tick, Tick]] = []
        self.refused = ""


class Broker:
    """A broker's frontends, and both ways of its connection to the cluster."""

    def __init__(self, name: str, life: int) -> None:
        self.id = BrokerId(name)
        self.frontends = Frontends(self.id, cached_rows_max=3)
        self.life = life
        self.is_connected = False
        self.up: deque[ToCluster] = deque()
        self.down: deque[ToBroker] = deque()
        self.sessions: dict[Subscriber, Session] = {}
        self.pulls = 0


class Cluster:
    """The ledger with its store and the table of subscriptions; a run tells each subscription what the test decides."""

    def __init__(self, brokers: int = 2, *, rows_max: int = 2) -> None:
        self.store = ResultStore()
        self.kept: dict[SubscriptionId, Kept] = {}
        self.rows: dict[SubscriptionId, SubscriptionRow] = {}
        self.ended: list[Session] = []
        self.history: list[Outcome] = []
        self.batch = 0
        self.rows_max = rows_max
        self.lives = 0
        self.claims = 0
        self.brokers = [Broker(f"b{number}", 0) for number in range(1, brokers + 1)]
        self.ledger = Ledger()
        self.tell_cluster(Created(DECLARATION))

    # -- the cluster ---------------------------------------------------------------------------------------------------

    def tell_cluster(self, event: ClusterEvent) -> None:
        """Something happens to the ledger, and its effects are carried out."""
        for effect in self.ledger.handle(event):
            self._carry_out(effect)

    def _carry_out(self, effect: ClusterEffect) -> None:
        match effect:
            case Keep():
                self.kept[effect.record.id] = effect.record
            case Discard():
                del self.kept[effect.id]
            case AddRow():
                self.rows[effect.row.id] = effect.row
            case RemoveRow():
                del self.rows[effect.id]
            case Store():
                assert self.store.store(effect.outcome)
                self.history.append(effect.outcome)
                self.tell_cluster(Stored(effect.outcome))
            case Trim():
                self.store.trim(effect.channel, effect.upto)
            case Answer():
                pull = effect.pull
                found = tuple(
                    self.store.find(pull.channel, one, after, rows_max=self.rows_max) for one, after in pull.places
                )
                self._send(pull.broker, Results(channel=pull.channel, found=found))
            case Send():
                self._send(effect.broker, effect.message)

    def _send(self, broker: BrokerId, message: ToBroker) -> None:
        for one in self.brokers:
            if one.id == broker and one.is_connected:
                one.down.append(message)

    def run(self, *, again: bool = False) -> None:
        """One more run of the channel, or the last one again, as after a crash."""
        self.batch += 0 if again else 1
        results = tuple(
            Result(row.id, (ResultRow((self.batch,), (origin_of(self.batch),)),))
            for row in self.rows.values()
            if has_news(str(row.values[0]), self.batch)
        )
        self.tell_cluster(Ran(channel=CHANNEL, batch=self.batch, now_ms=self.batch // 3, results=results))

    def restart(self) -> None:
        """The cluster's process dies; what was kept and stored is there again."""
        for broker in self.brokers:
            self.cut(broker)
        self.rows.clear()
        self.ledger = Ledger(self.kept.values())
        self.tell_cluster(Created(DECLARATION, *self.store.last(CHANNEL)))

    # -- brokers -------------------------------------------------------------------------------------------------------

    def tell(self, broker: Broker, event: FrontendEvent) -> None:
        """Something happens to a broker, and its effects are carried out."""
        for effect in broker.frontends.handle(event):
            match effect:
                case Say():
                    assert broker.is_connected
                    broker.up.append(effect.message)
                case Confirm():
                    assert broker.sessions[effect.subscriber].began is None
                    broker.sessions[effect.subscriber].began = effect.tick
                case Notify():
                    broker.sessions[effect.subscriber].told.append(effect)
                case Missed():
                    broker.sessions[effect.subscriber].missed.append((effect.after, effect.upto))
                case Refuse():
                    broker.sessions[effect.subscriber].refused = effect.code
                case Linger():
                    self.tell(broker, LetGo(effect.want))

    def connect(self, broker: Broker) -> None:
        """A broker reaches the cluster, in a life of its own."""
        if not broker.is_connected:
            self.lives += 1
            broker.is_connected, broker.life = True, self.lives
            self.tell(broker, Connected(self.lives))

    def cut(self, broker: Broker) -> None:
        """The connection breaks; what was under way is lost."""
        if broker.is_connected:
            broker.is_connected = False
            broker.up.clear()
            broker.down.clear()
            self.tell(broker, Disconnected())

    def kill(self, number: int) -> None:
        """A broker dies with its clients' connections, and another one takes its name."""
        old = self.brokers[number]
        old.is_connected = False
        self.ended += old.sessions.values()
        self.brokers[number] = Broker(old.id, old.life)
        self.tell_cluster(BrokerGone(old.id))

    def leave(self, broker: Broker, conn: int) -> None:
        """A client's connection ends."""
        self.tell(broker, ClientGone(Conn(conn)))
        for subscriber in [one for one in broker.sessions if one[0] == conn]:
            self.ended.append(broker.sessions.pop(subscriber))

    def step(self, broker: Broker, *, is_up: bool) -> None:
        """One message arrives."""
        if is_up and broker.up:
            message = broker.up.popleft()
            broker.pulls += len(message.places) if isinstance(message, Pull) else 0
            self.tell_cluster(message)
        elif not is_up and broker.down:
            self.tell(broker, broker.down.popleft())

    def settle(self) -> None:
        """Everybody is connected, and everything has arrived."""
        for broker in self.brokers:
            self.connect(broker)
        while any(broker.up or broker.down for broker in self.brokers):
            for broker in self.brokers:
                self.step(broker, is_up=True)
                self.step(broker, is_up=False)


def has_news(kind: str, batch: int) -> bool:
    """Does this run have something for those who want this type?"""
    return (batch + len(kind)) % 3 != 0


def origin_of(batch: int) -> Origin:
    """The event that a run looked at."""
    return PubendId(7), Tick(batch)
