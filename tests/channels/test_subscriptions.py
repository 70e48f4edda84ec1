"""Subscriptions: identical ones are one, held as long as somebody wants it; results come once, whatever breaks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.channels.cluster import CHANNEL, DECLARATION, Broker, Cluster, Session, has_news, origin_of
from tests.channels.emergencies import emergencies
from tidewire.channels.cluster_events import Created, Dropped, Follower, Send
from tidewire.channels.declaration import declare
from tidewire.channels.frontend_events import Settled, Subscribe, Unsubscribe
from tidewire.channels.messages import Began, Denied, Forget, Hold, Progress, Pull, Release, ToCluster, Want
from tidewire.channels.queries import Declaration
from tidewire.channels.results import ResultRow
from tidewire.channels.subscriptions import Ledger
from tidewire.model.errors import (
    BadParameters,
    DuplicateSubscription,
    SameName,
    Unavailable,
    UnknownName,
    UnknownSubscription,
)
from tidewire.model.ids import BrokerId, Conn, Tick
from tidewire.model.ticks import ms_of, tick_at


def subscribe(
    cluster: Cluster, broker: Broker, conn: int, kind: str, *, name: str = "", after: Tick | None = None
) -> Session:
    """A client subscribes, under the number 1."""
    session = broker.sessions[Conn(conn), 1] = Session(Want(CHANNEL, (kind,)), name)
    cluster.claims += 1
    try:
        event = Subscribe(
            subscriber=(Conn(conn), 1),
            channel=CHANNEL,
            given={"type": kind},
            name=name,
            claim=cluster.claims,
            after=after,
        )
        cluster.tell(broker, event)
    except Unavailable:
        del broker.sessions[Conn(conn), 1]
    return session


def batches(session: Session) -> list[object]:
    """Which runs a subscriber was told of."""
    return [row.cells[0] for notification in session.told for row in notification.rows]


def test_identical_subscriptions_are_one() -> None:
    """bad G5: 3 subscribers on b1 and 2 on b2 with one want: 5 front-end, 1 back-end, 2 told, 2 pulls, 5 pushes."""
    cluster = Cluster(brokers=2)
    cluster.settle()
    sessions = [subscribe(cluster, cluster.brokers[conn // 3], conn, "fire") for conn in range(5)]
    cluster.settle()
    assert len(cluster.rows) == len(cluster.ledger.records()) == 1
    assert [sum(broker.frontends.fan_out().values()) for broker in cluster.brokers] == [3, 2]
    cluster.run()
    assert [[type(message).__name__ for message in broker.down] for broker in cluster.brokers] == [["Told"], ["Told"]]
    cluster.settle()
    assert [broker.pulls for broker in cluster.brokers] == [1, 1]
    assert [batches(session) for session in sessions] == [[1]] * 5


def test_the_load_of_a_shared_subscription() -> None:
    """bad G5: with 100 bytes a second, the brokers carry 400 and 300: once in, and once out for each subscriber."""
    cluster = Cluster(brokers=2)
    cluster.settle()
    for conn in range(5):
        subscribe(cluster, cluster.brokers[conn // 3], conn, "fire")
    cluster.settle()
    loads = [sum((1 + count) * 100 for count in broker.frontends.fan_out().values()) for broker in cluster.brokers]
    assert loads == [400, 300]


def test_what_has_come_is_counted_once_for_all_who_share_it() -> None:
    """bad §2.3: the bytes of results are what lambda is measured by; who comes later makes nothing come twice."""
    cluster = Cluster(brokers=1)
    cluster.settle()
    [broker] = cluster.brokers
    want = Want(CHANNEL, ("fire",))
    sessions = [subscribe(cluster, broker, conn, "fire") for conn in range(2)]
    cluster.settle()
    cluster.run()
    cluster.settle()
    size = len(sessions[0].told[0].packed.data)
    assert broker.frontends.take_come() == {want: size}
    assert broker.frontends.take_come() == {want: 0}, "it was told"
    subscribe(cluster, broker, 3, "fire", after=Tick(0))
    cluster.settle()
    assert broker.frontends.take_come() == {want: 0}
    assert broker.frontends.wanted() == {Conn(conn): [want] for conn in (0, 1, 3)}


def test_the_last_one_to_leave_ends_the_subscription() -> None:
    """bad §1.1: the cluster is told to unsubscribe only when the last of a broker's identical subscriptions goes."""
    cluster = Cluster(brokers=2)
    cluster.settle()
    for conn in range(4):
        subscribe(cluster, cluster.brokers[conn // 2], conn, "fire")
    cluster.settle()
    held: list[int] = []
    for conn in range(4):
        cluster.tell(cluster.brokers[conn // 2], Unsubscribe((Conn(conn), 1)))
        cluster.settle()
        held.append(sum(len(record.brokers) for record in cluster.ledger.records()))
    assert held == [2, 1, 1, 0]
    assert not cluster.rows
    assert not cluster.kept


def test_a_whole_number_and_a_double_are_the_same_want() -> None:
    """Aggregation goes by values, not by spelling."""
    cluster = Cluster(brokers=1)
    text = "create channel strong(least double) period 10s as select id from EmergencyReports where severity >= :least"
    cluster.tell_cluster(Created(declare(text, emergencies())))
    cluster.settle()
    for number, least in enumerate((5, 5.0, -0.0, 0)):
        given = {"least": least}
        cluster.tell(cluster.brokers[0], Subscribe(subscriber=(Conn(1), number), channel="strong", given=given))
    assert list(cluster.brokers[0].frontends.fan_out()) == [Want("strong", (5.0,)), Want("strong", (0.0,))]


def test_a_notification_says_when_it_was_and_where_it_came_from() -> None:
    """The run and its time, and the events behind each row; its client knows what it asked for."""
    cluster = Cluster(brokers=1)
    cluster.settle()
    session = subscribe(cluster, cluster.brokers[0], 1, "fire")
    cluster.settle()
    cluster.run()
    cluster.settle()
    (notification,) = session.told
    assert ms_of(notification.tick) == cluster.batch // 3
    assert notification.rows == (ResultRow((1,), (origin_of(1),)),)


def test_one_who_was_away_gets_what_it_missed() -> None:
    """A durable subscriber goes on behind what it has dealt with, also at another broker, and nobody lacks anything."""
    cluster = Cluster(brokers=2)
    cluster.settle()
    first = subscribe(cluster, cluster.brokers[0], 1, "fire", name="ann")
    cluster.settle()
    for _ in range(4):
        cluster.run()
    cluster.settle()
    assert batches(first) == [1, 3, 4]
    cluster.tell(cluster.brokers[0], Settled((Conn(1), 1), first.told[1].tick))
    cluster.settle()
    cluster.leave(cluster.brokers[0], 1)
    cluster.settle()
    assert len(cluster.rows) == 1, "the name holds it"
    for _ in range(3):
        cluster.run()
    second = subscribe(cluster, cluster.brokers[1], 2, "fire", name="ann")
    cluster.settle()
    assert batches(second) == [4, 6, 7]
    cluster.tell(cluster.brokers[1], Unsubscribe((Conn(2), 1)))
    cluster.settle()
    assert not cluster.rows
    assert not cluster.kept


def test_a_client_that_moves_takes_its_place_along() -> None:
    """bad §4.5: each result is delivered once to a subscriber that changes its broker between two runs."""
    cluster = Cluster(brokers=2)
    cluster.settle()
    first = subscribe(cluster, cluster.brokers[0], 1, "fire")
    cluster.settle()
    for _ in range(3):
        cluster.run()
    cluster.settle()
    second = subscribe(cluster, cluster.brokers[1], 1, "fire", after=first.told[0].tick)
    cluster.leave(cluster.brokers[0], 1)
    cluster.run()
    cluster.settle()
    assert batches(first)[:1] + batches(second) == [1, 3, 4]


def test_what_is_in_the_cache_is_not_pulled_again() -> None:
    """One who comes back soon is served by its broker alone."""
    cluster = Cluster(brokers=1, rows_max=10)
    cluster.settle()
    broker = cluster.brokers[0]
    first = subscribe(cluster, broker, 1, "fire")
    cluster.settle()
    for _ in range(3):
        cluster.run()
        cluster.settle()
    before = broker.pulls
    second = subscribe(cluster, broker, 2, "fire", after=first.began)
    assert batches(second) == [1, 3]
    cluster.settle()
    assert broker.pulls == before


def test_what_is_no_longer_kept_is_told_as_missed() -> None:
    """Nothing is lost silently."""
    cluster = Cluster(brokers=1)
    cluster.settle()
    session = subscribe(cluster, cluster.brokers[0], 1, "fire")
    cluster.settle()
    cluster.cut(cluster.brokers[0])
    for _ in range(120):
        cluster.run()
    cluster.settle()
    last_lost = [outcome for outcome in cluster.history[:20] if outcome.results][-1]
    assert session.missed == [(session.began, last_lost.tick)]
    assert batches(session) == [batch for batch in range(last_lost.batch + 1, 121) if has_news("fire", batch)]


def test_runs_are_kept_for_a_durable_subscriber() -> None:
    """One who is away for 120 runs lacks nothing."""
    cluster = Cluster(brokers=1)
    cluster.settle()
    subscribe(cluster, cluster.brokers[0], 1, "fire", name="ann")
    cluster.settle()
    cluster.leave(cluster.brokers[0], 1)
    for _ in range(120):
        cluster.run()
    session = subscribe(cluster, cluster.brokers[0], 2, "fire", name="ann")
    cluster.settle()
    assert session.missed == []
    assert batches(session) == [batch for batch in range(1, 121) if has_news("fire", batch)]


def test_a_run_is_stored_once() -> None:
    """A batch that is done again after a crash changes nothing."""
    cluster = Cluster(brokers=1)
    cluster.settle()
    session = subscribe(cluster, cluster.brokers[0], 1, "fire")
    cluster.settle()
    cluster.run()
    cluster.restart()
    cluster.run(again=True)
    cluster.settle()
    cluster.run(again=True)
    cluster.settle()
    assert batches(session) == [1]
    assert len(cluster.history) == 1


def test_one_who_is_behind_may_come_while_others_are_served() -> None:
    """An answer that begins behind its place is not for it: it lacks nothing."""
    cluster = Cluster(brokers=1)
    broker = cluster.brokers[0]
    cluster.settle()
    subscribe(cluster, broker, 1, "fire", name="ann")
    subscribe(cluster, broker, 2, "fire")
    cluster.settle()
    cluster.leave(broker, 1)
    for _ in range(9):  # more than the cache holds
        cluster.run()
        cluster.settle()
    session = subscribe(cluster, broker, 3, "fire", name="ann")
    cluster.run()
    cluster.step(broker, is_up=False)
    assert [type(message).__name__ for message in broker.up] == ["Hold", "Pull"]
    cluster.settle()
    assert batches(session) == [batch for batch in range(1, 11) if has_news("fire", batch)]


def test_an_answer_to_those_who_left_confirms_nothing() -> None:
    """The cluster lets go before it takes hold again: a run between the two tells nothing, and nothing is promised."""
    cluster = Cluster(brokers=1)
    broker = cluster.brokers[0]
    cluster.settle()
    subscribe(cluster, broker, 1, "fire")
    cluster.step(broker, is_up=True)
    cluster.leave(broker, 1)
    session = subscribe(cluster, broker, 2, "fire")
    cluster.step(broker, is_up=False)
    assert session.began is None
    cluster.step(broker, is_up=True)
    cluster.run()
    cluster.settle()
    assert session.began == cluster.history[0].tick


def test_what_an_earlier_life_says_counts_no_more() -> None:
    """A connection that was thought dead may still bring something: it neither takes hold nor lets go."""
    ledger = Ledger()
    ledger.handle(Created(DECLARATION))
    broker, want, other = BrokerId("b1"), Want(CHANNEL, ("fire",)), Want(CHANNEL, ("flood",))
    hold = Hold(broker=broker, life=2, request=1, want=want)
    ledger.handle(Began(broker=broker, life=2, holds=(hold,)))
    late: list[ToCluster] = [
        Began(broker=broker, life=1, holds=()),
        Hold(broker=broker, life=1, request=1, want=other),
        Release(broker=broker, life=1, want=want),
        Pull(broker=broker, life=1, channel=CHANNEL, places=()),
        Forget(name="ann", claim=1, want=want),
        Progress(name="ann", claim=1, want=want, tick=Tick(5)),
    ]
    assert [ledger.handle(message) for message in late] == [[]] * len(late)
    assert [(record.want, record.brokers) for record in ledger.records()] == [(want, {broker: 2})]


def test_whoever_claims_a_name_last_has_it() -> None:
    """What an earlier session says of it, late, neither ends nor moves it."""
    ledger = Ledger()
    ledger.handle(Created(DECLARATION))
    broker, want = BrokerId("b1"), Want(CHANNEL, ("fire",))
    ledger.handle(Began(broker=broker, life=1, holds=()))
    for claim in (1, 2):
        ledger.handle(Hold(broker=broker, life=1, request=claim, want=want, name="ann", claim=claim))
    assert ledger.handle(Forget(name="ann", claim=1, want=want)) == []
    assert ledger.handle(Progress(name="ann", claim=1, want=want, tick=Tick(9))) == []
    ledger.handle(Progress(name="ann", claim=2, want=want, tick=Tick(5)))
    assert ledger.handle(Progress(name="ann", claim=2, want=want, tick=Tick(4))) == []
    (record,) = ledger.records()
    assert record.names == {"ann": Follower(claim=2, place=Tick(5))}


def test_the_cluster_checks_what_a_broker_asks_for() -> None:
    """Channels and values that a broker has made up are denied with a reason."""
    ledger = Ledger()
    ledger.handle(Created(DECLARATION))
    broker = BrokerId("b1")
    wants = (Want("of_typ", ("fire",)), Want(CHANNEL, ()), Want(CHANNEL, (5,)), Want(CHANNEL, ("fire", 5)))
    holds = tuple(Hold(broker=broker, life=1, request=number, want=want) for number, want in enumerate(wants))
    effects = ledger.handle(Began(broker=broker, life=1, holds=holds))
    denied = [one.message for one in effects if isinstance(one, Send) and isinstance(one.message, Denied)]
    assert [one.code for one in denied] == ["unknown-name", *["channel-parameters"] * 3]
    assert ledger.records() == []


def test_what_a_name_says_while_nobody_hears_is_said_later() -> None:
    """Progress, and the end of it, wait for the connection."""
    cluster = Cluster(brokers=1)
    broker = cluster.brokers[0]
    cluster.settle()
    sessions = [subscribe(cluster, broker, conn, "fire", name=name) for conn, name in ((1, "ann"), (2, "bob"))]
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.cut(broker)
    cluster.tell(broker, Settled((Conn(1), 1), sessions[0].told[0].tick))
    cluster.tell(broker, Unsubscribe((Conn(2), 1)))
    cluster.settle()
    (record,) = cluster.ledger.records()
    assert {name: follower.place for name, follower in record.names.items()} == {"ann": cluster.history[0].tick}


def test_refusals() -> None:
    """Each says what is wrong."""
    cluster = Cluster(brokers=1)
    broker = cluster.brokers[0]

    def ask(number: int, channel: str, **given: object) -> None:
        cluster.tell(broker, Subscribe(subscriber=(Conn(1), number), channel=channel, given=given))

    with pytest.raises(Unavailable, match="cannot be reached"):
        ask(1, CHANNEL, type="fire")
    cluster.settle()
    with pytest.raises(UnknownName, match="no channel named 'of_typ'; known: of_type"):
        ask(1, "of_typ", type="fire")
    with pytest.raises(BadParameters, match="has no parameter 'typ'; did you mean type"):
        ask(1, CHANNEL, typ="fire")
    with pytest.raises(BadParameters, match="needs a value for type"):
        ask(1, CHANNEL)
    with pytest.raises(BadParameters, match="type is a string: 5 does not fit"):
        ask(1, CHANNEL, type=5)
    with pytest.raises(UnknownSubscription):
        cluster.tell(broker, Unsubscribe((Conn(1), 1)))
    subscribe(cluster, broker, 1, "fire")
    with pytest.raises(DuplicateSubscription):
        ask(1, CHANNEL, type="flood")
    with pytest.raises(SameName, match="there is a channel 'of_type' already"):
        cluster.tell_cluster(Created(DECLARATION))
    with pytest.raises(UnknownName):
        cluster.tell_cluster(Dropped("of_typ"))


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_channel_that_is_dropped_ends_its_subscriptions(*, is_connected: bool) -> None:
    """Subscribers hear of it, at once or when their broker is connected again; nothing of it is left."""
    cluster = Cluster(brokers=1)
    cluster.settle()
    session = subscribe(cluster, cluster.brokers[0], 1, "fire", name="ann")
    cluster.settle()
    if not is_connected:
        cluster.cut(cluster.brokers[0])
    cluster.tell_cluster(Dropped(CHANNEL))
    cluster.settle()
    assert session.refused == "unknown-name"
    assert not (cluster.rows)
    assert not (cluster.kept)
    assert not (cluster.brokers[0].frontends.fan_out())


def made_anew(cluster: Cluster, declaration: Declaration = DECLARATION) -> Tick:
    """The channel is dropped and created again, at a later moment: which?"""
    cluster.tell_cluster(Dropped(CHANNEL))
    cluster.store.drop(CHANNEL)
    cluster.batch += 9
    since = tick_at(cluster.batch // 3)
    cluster.tell_cluster(Created(declaration, cluster.batch, since, since))
    return since


@pytest.mark.parametrize("restarts", [False, True])
def test_a_name_that_was_away_hears_that_its_channel_was_made_anew(*, restarts: bool) -> None:
    """What the first one had found is lost, and said to be; what the other one finds from its beginning on, comes."""
    cluster = Cluster(brokers=2)
    cluster.settle()
    first = subscribe(cluster, cluster.brokers[0], 1, "fire", name="ann")
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.tell(cluster.brokers[0], Settled((Conn(1), 1), first.told[0].tick))
    cluster.settle()
    cluster.leave(cluster.brokers[0], 1)
    cluster.settle()
    for _ in range(3):
        cluster.run()
    if restarts:
        cluster.tell_cluster(Dropped(CHANNEL))
        cluster.ledger = Ledger(cluster.kept.values())
        cluster.tell_cluster(Created(DECLARATION))
        for broker in cluster.brokers:
            cluster.cut(broker)
    since = made_anew(cluster)
    cluster.run()
    cluster.settle()
    second = subscribe(cluster, cluster.brokers[1], 2, "fire", name="ann")
    cluster.settle()
    assert second.missed == [(first.told[0].tick, since)]
    cluster.run()
    cluster.run()
    cluster.settle()
    assert batches(second) == [batch for batch in range(14, 17) if has_news("fire", batch)]
    cluster.tell(cluster.brokers[1], Settled((Conn(2), 1), second.told[-1].tick))
    cluster.settle()
    cluster.leave(cluster.brokers[1], 2)
    third = subscribe(cluster, cluster.brokers[0], 3, "fire", name="ann")
    cluster.settle()
    assert third.missed == [], "once"


def test_who_is_there_hears_that_the_channel_was_made_anew_while_its_broker_was_cut_off() -> None:
    """With other columns it is another channel, and ends the subscription; else the loss is told, and it goes on."""
    cluster = Cluster(brokers=1)
    cluster.settle()
    session = subscribe(cluster, cluster.brokers[0], 1, "fire")
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.cut(cluster.brokers[0])
    since = made_anew(cluster)
    cluster.settle()
    assert session.missed == [(session.told[0].tick, since)]
    for _ in range(3):
        cluster.run()
    cluster.settle()
    assert batches(session) == [1, *(batch for batch in range(11, 14) if has_news("fire", batch))]
    cluster.cut(cluster.brokers[0])
    other = f"create channel {CHANNEL}(type string) period 10s as select r.id, r.lat from EmergencyReports r"
    made_anew(cluster, declare(f"{other} where r.type = :type", emergencies()))
    cluster.settle()
    assert session.refused == "unknown-name"
    assert not cluster.rows, "nobody wants anything of it"
    assert not cluster.kept


def test_a_name_is_remembered_no_longer_than_it_is_owed_something() -> None:
    """Who is there hears that the channel is no more. One that takes other parameters owes those of before nothing."""
    cluster = Cluster(brokers=1)
    cluster.settle()
    for conn, name in ((1, "ann"), (2, "bob")):
        subscribe(cluster, cluster.brokers[0], conn, "fire", name=name)
    cluster.settle()
    cluster.leave(cluster.brokers[0], 2)
    cluster.tell_cluster(Dropped(CHANNEL))
    cluster.settle()
    assert [list(one.names) for one in cluster.kept.values()] == [["bob"]]
    other = f"create channel {CHANNEL}(id bigint) period 10s as select r.id from EmergencyReports r where r.id = :id"
    cluster.tell_cluster(Created(declare(other, emergencies())))
    assert not cluster.kept
    assert not cluster.rows


# -- whatever happens --------------------------------------------------------------------------------------------------

# Few brokers, clients and wants, so that things happen to each other; most often a message arrives, or a run is done.
numbers = st.integers(0, 1)
clients = st.integers(1, 2)
kinds = st.sampled_from(("a", "a", "a", "bb"))
actions = st.one_of(
    st.tuples(st.just("subscribe"), numbers, clients, kinds, st.sampled_from(("", "", "ann"))),
    st.tuples(st.just("subscribe"), numbers, clients, kinds, st.sampled_from(("", "ann"))),
    st.tuples(st.just("leave"), numbers, clients),
    st.tuples(st.just("unsubscribe"), numbers, clients, st.booleans()),
    st.tuples(st.just("settled"), numbers, clients),
    *(st.tuples(st.just("step"), numbers, st.booleans()) for _ in range(5)),
    st.tuples(st.just("connect"), numbers),
    st.tuples(st.just("cut"), numbers),
    st.tuples(st.sampled_from(("kill", "cut", "connect")), numbers),
    *(st.tuples(st.just("run")) for _ in range(3)),
    st.tuples(st.sampled_from(("restart", "again", "settle"))),
    st.tuples(st.just("settle")),
)


class Story:
    """Carries out what hypothesis thinks of, and remembers what durable subscribers have dealt with."""

    def __init__(self) -> None:
        self.cluster = Cluster(brokers=2)
        self.cluster.settle()
        self.last: dict[tuple[str, Want], Session] = {}
        """Of durable subscribers, the session before this one."""
        self.settled: dict[Session, Tick] = {}
        self.followed: list[tuple[Session, Tick]] = []
        """A session of one who was away, and what it had dealt with before."""

    def act(self, what: str, *rest: object) -> None:
        cluster = self.cluster
        if what in ("run", "restart", "settle"):
            getattr(cluster, what)()
        elif what == "again":
            cluster.run(again=True)
        elif what == "kill":
            cluster.kill(int(rest[0]))  # type: ignore[call-overload]
        else:
            broker = cluster.brokers[int(rest[0])]  # type: ignore[call-overload]
            getattr(self, f"_{what}")(broker, *rest[1:])

    def _step(self, broker: Broker, is_up: bool) -> None:
        self.cluster.step(broker, is_up=is_up)

    def _connect(self, broker: Broker) -> None:
        self.cluster.connect(broker)

    def _cut(self, broker: Broker) -> None:
        self.cluster.cut(broker)

    def _subscribe(self, broker: Broker, conn: int, kind: str, name: str) -> None:
        taken = [one for other in self.cluster.brokers for one in other.sessions.values()]
        is_there = any(one.name == name and one.want.values == (kind,) for one in taken)
        if (Conn(conn), 1) not in broker.sessions and not (name and is_there):
            session = subscribe(self.cluster, broker, conn, kind, name=name)
            before = self.last.get((name, session.want))
            if name and before is not None and before.began is not None:
                self.followed.append((session, self.settled.get(before, before.began)))
            if name:
                self.last[name, session.want] = session

    def _leave(self, broker: Broker, conn: int) -> None:
        self.cluster.leave(broker, conn)

    def _unsubscribe(self, broker: Broker, conn: int, is_final: bool) -> None:
        session = broker.sessions.get((Conn(conn), 1))
        if session is not None:
            self.cluster.tell(broker, Unsubscribe((Conn(conn), 1), is_final))
            self.cluster.ended.append(broker.sessions.pop((Conn(conn), 1)))
            if is_final:
                self.last.pop((session.name, session.want), None)

    def _settled(self, broker: Broker, conn: int) -> None:
        session = broker.sessions.get((Conn(conn), 1))
        if session is not None and session.told:
            self.cluster.tell(broker, Settled((Conn(conn), 1), session.told[-1].tick))
            self.settled[session] = session.told[-1].tick


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(actions, min_size=20, max_size=80))
def test_results_come_once_and_in_order_whatever_breaks(story: list[tuple[object, ...]]) -> None:
    """Connections, brokers and the cluster break at any moment; the model is: every run, for everyone who was there."""
    world = Story()
    cluster = world.cluster
    for what, *rest in story:
        world.act(str(what), *rest)
    cluster.settle()
    cluster.run()
    cluster.run()
    cluster.settle()
    live = [session for broker in cluster.brokers for session in broker.sessions.values()]
    for session in [*live, *cluster.ended]:
        kind = str(session.want.values[0])
        owed = [
            outcome.batch
            for outcome in cluster.history
            if session.began is not None and outcome.tick > session.began and has_news(kind, outcome.batch)
        ]
        told = batches(session)
        assert told == (owed if session in live else owed[: len(told)])
        assert session.missed == []
    assert all(session.began is not None for session in live)
    assert all(session.began is None or session.began <= place for session, place in world.followed)
    wanted = {session.want for session in live} | {want for record in cluster.kept.values() for want in [record.want]}
    assert {record.want for record in cluster.ledger.records()} == wanted
    for record in cluster.ledger.records():
        holders = {broker.id for broker in cluster.brokers if record.want in {s.want for s in broker.sessions.values()}}
        assert set(record.brokers) == holders
        assert record.names or holders
        assert cluster.kept[record.id] == record
    assert set(cluster.rows) == set(cluster.kept)
