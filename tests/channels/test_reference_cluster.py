"""The data cluster without Spark: from a row that comes in to the notification of each subscriber, in virtual time."""

import pytest

from tests.channels.emergencies import SEVEN, emergencies
from tidewire.channels.commands import (
    ChannelAnswer,
    ChannelCommand,
    CreateChannel,
    DropChannel,
    ExplainChannel,
    ListChannels,
    PauseChannel,
    ResumeChannel,
)
from tidewire.channels.creation import create_channel
from tidewire.channels.evaluator import FedRow
from tidewire.channels.frontend_events import Connected, FrontendEvent, Notify, Say, Subscribe
from tidewire.channels.frontends import Frontends
from tidewire.channels.reference_cluster import Fed, ReferenceCluster, ReferenceEvent, TimePassed
from tidewire.channels.schedules import Schedule
from tidewire.model.errors import ChannelTooCostly, SameName, UnknownName
from tidewire.model.ids import BrokerId, Conn, Nanoseconds, PubendId, Tick
from tidewire.model.ticks import ms_of

HELSINKI = {"lat": 60.17, "lon": 24.94}
ESPOO = {"lat": 60.2, "lon": 24.66}
FIRES = "create channel fires() continuous as select id from EmergencyReports where type = 'fire'"
START = Nanoseconds(1_700_000_000_000_000_000)


class City:
    """A reference cluster and two brokers, whose messages arrive at once."""

    def __init__(self) -> None:
        self.cluster = ReferenceCluster(emergencies())
        self.now_ns = START
        self.brokers = {BrokerId(name): Frontends(BrokerId(name)) for name in ("b1", "b2")}
        self.told: dict[Conn, list[Notify]] = {}
        for life, broker in enumerate(self.brokers, start=1):
            self.tell(broker, Connected(life))

    def feed(self, event: ReferenceEvent) -> None:
        """Something happens to the cluster."""
        for send in self.cluster.handle(event, now_ns=self.now_ns):
            self.tell(send.broker, send.message)

    def command(self, command: ChannelCommand) -> ChannelAnswer:
        """An operator wants something."""
        answer, sends = self.cluster.asked(command, now_ns=self.now_ns)
        for send in sends:
            self.tell(send.broker, send.message)
        return answer

    def tell(self, broker: BrokerId, event: FrontendEvent) -> None:
        """Something happens to a broker."""
        for effect in self.brokers[broker].handle(event):
            if isinstance(effect, Say):
                self.feed(effect.message)
            elif isinstance(effect, Notify):
                self.told.setdefault(effect.subscriber[0], []).append(effect)

    def report(self, number: int, **more: object) -> None:
        """A report comes in."""
        row = FedRow({"id": number, **more}, (PubendId(3), Tick(number)))  # type: ignore[dict-item]
        self.feed(Fed("EmergencyReports", (row,)))

    def wait_s(self, seconds: int) -> None:
        """Time passes, deadline by deadline."""
        end = Nanoseconds(self.now_ns + seconds * 1_000_000_000)
        while (due := self.cluster.next_deadline()) is not None and due <= end:
            self.now_ns = due
            self.feed(TimePassed())
        self.now_ns = end

    def ids(self, conn: int) -> list[object]:
        """Which reports a client was told of."""
        return [row.cells[0] for one in self.told.get(Conn(conn), ()) for row in one.rows]


def subscribe(city: City, broker: str, conn: int, channel: str, **given: object) -> None:
    """A client subscribes."""
    event = Subscribe(subscriber=(Conn(conn), 1), channel=channel, given=given)
    city.tell(BrokerId(broker), event)


def test_the_emergency_city() -> None:
    """bad §1.1 and §6.1: seven channels with their periods, from feeds to notifications."""
    city = City()
    for text in SEVEN:
        city.command(CreateChannel(text))
    city.feed(Fed("Shelters", ({"name": "north", **HELSINKI}, {"name": "west", **ESPOO})))
    city.feed(Fed("UserLocations", ({"user": "ann", **HELSINKI}, {"user": "bob", **ESPOO})))
    subscribe(city, "b1", 1, "of_type", type="fire")
    subscribe(city, "b2", 2, "of_type", type="fire")
    subscribe(city, "b1", 3, "in_area", **HELSINKI, km=5)
    subscribe(city, "b1", 4, "near_me", me="ann")
    subscribe(city, "b2", 5, "near_me_with_shelter", me="bob")
    subscribe(city, "b2", 6, "in_area_with_shelters", **ESPOO, km=1)
    city.report(1, type="fire", **HELSINKI)
    city.report(2, type="flood", **ESPOO)
    assert city.told == {}
    city.wait_s(10)
    assert [city.ids(conn) for conn in range(1, 7)] == [[1], [1], [], [1], [], []]
    city.feed(Fed("UserLocations", ({"user": "ann", **ESPOO},)))
    city.report(3, type="flood", **ESPOO)
    city.wait_s(20)
    assert [city.ids(conn) for conn in range(1, 7)] == [[1], [1], [1], [1, 3], [2, 3], [2, 3]]
    assert [row.cells for row in city.told[Conn(5)][0].rows] == [(2, "flood", "west"), (3, "flood", "west")]
    (notification,) = city.told[Conn(2)]
    assert ms_of(notification.tick) == START // 1_000_000 + 10_000
    assert notification.rows[0].origins == ((3, 1),)


def test_a_continuous_channel_runs_when_something_comes() -> None:
    """It does not wait for a period, and has no deadline."""
    city = City()
    city.command(
        CreateChannel("create channel fires() continuous as select id from EmergencyReports where type = 'fire'")
    )
    assert city.cluster.next_deadline() is None
    subscribe(city, "b1", 1, "fires")
    city.report(1, type="fire")
    city.report(2, type="flood")
    city.report(3, type="fire")
    assert city.ids(1) == [1, 3]


def test_a_restart_loses_nothing() -> None:
    """The ledger begins anew from what was kept, brokers connect again, and everyone is told the rest, once."""
    city = City()
    city.command(CreateChannel(SEVEN[0]))
    subscribe(city, "b1", 1, "of_type", type="fire")
    city.report(1, type="fire")
    city.wait_s(10)
    city.report(2, type="fire")
    assert city.cluster.restart() == []
    city.wait_s(10)
    assert city.ids(1) == [1], "its broker has not come back yet"
    city.tell(BrokerId("b1"), Connected(3))
    assert city.ids(1) == [1, 2]
    city.report(3, type="fire")
    city.wait_s(10)
    assert city.ids(1) == [1, 2, 3]


def test_a_channel_is_checked_when_it_is_created() -> None:
    """Two of one name, one that would never finish, and one that is not there are refused, and leave nothing behind."""
    city = City()
    city.command(CreateChannel(SEVEN[0]))
    with pytest.raises(SameName, match="there is a channel 'of_type' already"):
        city.command(CreateChannel(SEVEN[0]))
    pairs = (
        "create channel pairs() period 1s on new EmergencyReports as select r.id from EmergencyReports r"
        " cross join UserLocations u cross join UserLocations v where u.lat + v.lat > r.lat"
    )
    with pytest.raises(ChannelTooCostly):
        city.command(CreateChannel(pairs))
    with pytest.raises(UnknownName):
        city.command(DropChannel("pairs"))
    assert list(city.cluster.channels) == ["of_type"]
    city.command(DropChannel("of_type"))
    assert city.cluster.next_deadline() is None
    city.command(CreateChannel(SEVEN[0]))


def test_a_late_channel_runs_once() -> None:
    """One that is late by several periods runs once, and then in its old rhythm."""
    schedule = Schedule()
    for text in (SEVEN[0], SEVEN[1]):
        schedule.add(create_channel(text, emergencies()).declaration, now_ns=Nanoseconds(0))
    second = 1_000_000_000
    assert schedule.next_deadline() == 10 * second
    assert schedule.take_due(now_ns=Nanoseconds(9 * second)) == []
    assert schedule.take_due(now_ns=Nanoseconds(35 * second)) == ["of_type", "in_area"]
    assert schedule.take_due(now_ns=Nanoseconds(35 * second)) == []
    assert schedule.next_deadline() == 40 * second
    assert schedule.take_due(now_ns=Nanoseconds(40 * second)) == ["in_area", "of_type"]
    schedule.remove("of_type")
    assert schedule.next_deadline() == 60 * second


def test_a_paused_channel_waits_and_tells_everything_when_it_is_resumed() -> None:
    """Nothing that comes meanwhile is skipped; a channel that is dropped while it is paused is gone."""
    city = City()
    city.command(CreateChannel(SEVEN[0]))
    city.command(CreateChannel(FIRES))
    subscribe(city, "b1", 1, "of_type", type="fire")
    subscribe(city, "b2", 2, "fires")
    for name in ("of_type", "fires"):
        [paused] = city.command(PauseChannel(name)).channels
        assert (paused.is_paused, paused.subscriptions) == (True, 1)
    city.report(1, type="fire")
    city.wait_s(30)
    city.report(2, type="fire")
    assert city.ids(1) == city.ids(2) == []
    for name in ("of_type", "fires"):
        [resumed] = city.command(ResumeChannel(name)).channels
        assert not resumed.is_paused
    city.wait_s(10)
    assert city.ids(1) == city.ids(2) == [1, 2]
    city.command(PauseChannel("fires"))
    city.command(DropChannel("fires"))
    assert [one.channel for one in city.command(ListChannels()).channels] == ["of_type"]
    with pytest.raises(UnknownName):
        city.command(ResumeChannel("fires"))


def test_a_channel_is_explained_before_and_after_it_is_created() -> None:
    """By its text, or by its name."""
    city = City()
    before = city.command(ExplainChannel(text=SEVEN[0])).explanation
    assert "matched by the index" in before
    assert city.command(ListChannels()).channels == []
    city.command(CreateChannel(SEVEN[0]))
    assert city.command(ExplainChannel("of_type")).explanation == before
