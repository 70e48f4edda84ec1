"""Who is connected to a data cluster, and what they say: brokers about subscriptions, operators about channels.

A broker has one connection: a new one takes the place of the old one. One that has been away for long is dead to those
who hold subscriptions for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tidewire.channels.cluster_events import BrokerGone
from tidewire.channels.cluster_events import Send as Post
from tidewire.channels.commands import (
    ChannelAnswer,
    ChannelCommand,
    ExplainChannel,
    ListChannels,
    ListNames,
    read_command,
)
from tidewire.channels.messages import Forget, Progress, ToCluster
from tidewire.channels.talk import Listening, listening_to_broker, talk_of
from tidewire.datacluster.host import HostEvent
from tidewire.identity.guard import Guard, Trust
from tidewire.model.channel_messages import Attach, Command, Talk
from tidewire.model.errors import NotAuthenticated, NotPermitted, PeerError, TidewireError
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import VERSION, Bye, Message, Ping, Pong, Refused, Status
from tidewire.model.notes import Note
from tidewire.wire.connections import Close, Closed, Heard, Opened, Send, TimePassed
from tidewire.wire.liveness import Liveness, answer

GONE_AFTER_S: Final = 60.0
"""A broker that has not been connected for so long is taken for dead: what it held is let go."""


class Posted(msgspec.Struct, frozen=True):
    """The host has something to say to brokers."""

    sends: tuple[Post, ...]


class Answered(msgspec.Struct, frozen=True):
    """The host has carried out a command, or says why it cannot be."""

    token: int
    answer: ChannelAnswer | TidewireError


class TellHost(msgspec.Struct, frozen=True):
    """Tell the host, behind what it was told before; what it has to say to that is Posted."""

    event: HostEvent


class AskHost(msgspec.Struct, frozen=True):
    """Let the host carry out a command; Answered with this token."""

    token: int
    command: ChannelCommand


DataClusterEvent = Opened | Closed | Heard | TimePassed | Trust | Posted | Answered
DataClusterEffect = Send | Close | Note | TellHost | AskHost


class DataClusterCore:
    """All connections of one data cluster."""

    def __init__(self, brokers: Iterable[BrokerId] = (), *, heartbeat_s: float = 2.0, is_secured: bool = False) -> None:
        """``brokers``: those that hold something from before this start."""
        self._heartbeat_s = heartbeat_s
        self._guard = Guard(is_secured=is_secured)
        self._conns: dict[Conn, Liveness] = {}
        self._brokers: dict[Conn, tuple[BrokerId, Listening[ToCluster]]] = {}
        self._of_broker: dict[BrokerId, Conn] = {}
        self._asked: dict[int, tuple[Conn, int]] = {}
        self._tokens = 0
        self._expected = list(brokers)
        self._gone_ns: dict[BrokerId, int] = {}

    def connected(self) -> list[BrokerId]:
        """The brokers that are there."""
        return list(self._of_broker)

    def handle(self, event: DataClusterEvent, *, now_ns: Nanoseconds) -> list[DataClusterEffect]:
        """Something has happened: what is to be done?"""
        expected, self._expected = self._expected, []
        self._gone_ns |= dict.fromkeys(expected, now_ns)
        return list(self._handle(event, now_ns))

    def deadline_ns(self) -> int | None:
        """When the machine wants to hear TimePassed."""
        times: list[int] = [liveness.deadline_ns() for liveness in self._conns.values()]
        times += [gone_ns + int(GONE_AFTER_S * 1e9) for gone_ns in self._gone_ns.values()]
        return min(times, default=None)

    def _handle(self, event: DataClusterEvent, now_ns: Nanoseconds) -> Iterator[DataClusterEffect]:
        match event:
            case Opened(conn, _, peer, place):
                self._guard.opened(conn, peer, place=place)
                self._conns[conn] = Liveness(self._heartbeat_s, now_ns=now_ns)
            case Closed(conn):
                yield from self._closed(conn, now_ns)
            case Heard(conn, message) if conn in self._conns:
                self._conns[conn].heard(now_ns)
                yield from self._heard(conn, message, now_ns)
            case TimePassed():
                yield from self._tick(now_ns)
            case Trust():
                self._guard.trust(event, now_ns=now_ns)
                for conn, flaw in self._guard.flawed():
                    yield from self._end(conn, NotAuthenticated.code, flaw)
            case Posted(sends):
                for send in sends:
                    if send.broker in self._of_broker:  # what it misses while it is away it asks for when it is back
                        to = self._of_broker[send.broker]
                        yield from (Send(to, talk) for talk in talk_of(send.message))
            case Answered(token, found):
                yield from self._answered(token, found)

    def _heard(self, conn: Conn, message: Message, now_ns: Nanoseconds) -> Iterator[DataClusterEffect]:
        match message:
            case Attach():
                yield from self._attach(conn, message, now_ns)
            case Talk() if conn in self._brokers:
                yield from self._said(conn, message)
            case Command():
                yield from self._commanded(conn, message, now_ns)
            case Ping():
                yield Send(conn, answer(message, now_ns=now_ns))
            case Pong() | Talk():  # the second from one whose place another has taken
                return
            case Bye():
                yield Close(conn)
            case _:
                reason = f"this is a data cluster: {type(message).__name__} is for a broker"
                yield from self._end(conn, "protocol", reason)

    def _end(self, conn: Conn, code: str, reason: str, *, retry_after_s: float = -1.0) -> Iterator[DataClusterEffect]:
        yield Send(conn, Bye(code, reason, retry_after_s))
        yield Close(conn)

    # -- brokers -------------------------------------------------------------------------------------------------------

    def _attach(self, conn: Conn, attach: Attach, now_ns: Nanoseconds) -> Iterator[DataClusterEffect]:
        if attach.version != VERSION:
            reason = f"the data cluster speaks version {VERSION}, the broker {attach.version}: both must be the same"
            yield from self._end(conn, "protocol", reason)
            return
        try:
            self._guard.check_broker(conn, attach.broker)
        except (NotAuthenticated, NotPermitted) as error:
            yield from self._end(conn, error.code, error.message)
            yield from self._noted("attach", conn, error, now_ns)
            return
        older = self._of_broker.get(attach.broker)
        if older is not None and older != conn:
            del self._brokers[older]
            yield from self._end(older, "same-name", f"a later connection of {attach.broker!r} is there")
        self._brokers[conn] = attach.broker, listening_to_broker()
        self._of_broker[attach.broker] = conn
        self._gone_ns.pop(attach.broker, None)
        yield Note("broker attached", {"broker": attach.broker})

    def _said(self, conn: Conn, talk: Talk) -> Iterator[DataClusterEffect]:
        broker, listening = self._brokers[conn]
        try:
            said = listening.heard(talk)
        except PeerError as error:
            yield from self._end(conn, error.code, error.message, retry_after_s=1.0)
            return
        if said is None:
            return
        if not isinstance(said, Progress | Forget) and said.broker != broker:
            yield from self._end(conn, "protocol", f"{broker!r} speaks for {said.broker!r}")
            return
        yield TellHost(said)

    def _closed(self, conn: Conn, now_ns: Nanoseconds) -> Iterator[DataClusterEffect]:
        self._guard.closed(conn)
        self._conns.pop(conn, None)
        found = self._brokers.pop(conn, None)
        if found is not None:
            broker, _ = found
            del self._of_broker[broker]
            self._gone_ns[broker] = now_ns
            yield Note("broker detached", {"broker": broker})

    # -- operators -----------------------------------------------------------------------------------------------------

    def _commanded(self, conn: Conn, asked: Command, now_ns: Nanoseconds) -> Iterator[DataClusterEffect]:
        try:
            command = read_command(asked.command)
            looks = isinstance(command, ListChannels | ListNames | ExplainChannel)
            self._guard.check(conn, asked.identity, "observe" if looks else "operate", now_ns=now_ns)
        except TidewireError as error:
            yield Send(conn, Refused(asked.request, error.code, error.message))
            if isinstance(error, NotAuthenticated | NotPermitted):
                yield from self._noted("command", conn, error, now_ns)
            return
        self._tokens += 1
        self._asked[self._tokens] = conn, asked.request
        yield AskHost(self._tokens, command)

    def _answered(self, token: int, found: ChannelAnswer | TidewireError) -> Iterator[DataClusterEffect]:
        conn, request = self._asked.pop(token)
        if conn not in self._conns:
            return
        if isinstance(found, TidewireError):
            yield Send(conn, Refused(request, found.code, found.message))
        else:
            yield Send(conn, Status(request, msgspec.json.encode(found)))

    def _noted(self, act: str, conn: Conn, error: TidewireError, now_ns: Nanoseconds) -> Iterator[Note]:
        """For the log, once in a while."""
        news = self._guard.news(conn, error.message, now_ns=now_ns)
        if news is not None:
            yield Note("refused", {"act": act, **news})

    # -- time ----------------------------------------------------------------------------------------------------------

    def _tick(self, now_ns: Nanoseconds) -> Iterator[DataClusterEffect]:
        for conn, liveness in self._conns.items():
            if liveness.is_dead(now_ns):
                yield Close(conn)
            elif ping := liveness.ping(now_ns):
                yield Send(conn, ping)
        gone = [broker for broker, since_ns in self._gone_ns.items() if now_ns >= since_ns + int(GONE_AFTER_S * 1e9)]
        for broker in gone:
            del self._gone_ns[broker]
            yield Note("broker given up", {"broker": broker})
            yield TellHost(BrokerGone(broker))
