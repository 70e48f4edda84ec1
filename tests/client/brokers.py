"""A session machine among brokers that answer, hang or are not there, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Literal

from tidewire.client.config import ClientConfig
from tidewire.client.core import ClientCore
from tidewire.client.events import Abort, ClientEffect, ClientEvent, Finished, Tell
from tidewire.model.errors import TidewireError
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import Bye, Hello, Leave, Left, Message, Ping, Pong, Welcome
from tidewire.model.messages import Done as Confirmed
from tidewire.model.placement_messages import BrokerFound
from tidewire.wire.connections import Close, Closed, Dial, DialFailed, Heard, Opened, Send, TimePassed

Manner = Literal["well", "hung", "gone"] | Bye
"""How a broker is: it answers, it takes connections and says nothing, it is not there, or it says only this."""

HEARTBEAT_S = 1.0
SILENCE_S = 3 * HEARTBEAT_S
CALM_SILENCE_S = 5 * HEARTBEAT_S
"""For one who only listens."""
WELCOME_S = 2.0


class Session:
    """One machine; ``brokers`` says how each address is at present."""

    def __init__(
        self, *addresses: str, give_up_s: float = 20.0, coordinator: str | None = None, **brokers: Manner
    ) -> None:
        self.brokers: dict[str, Manner] = brokers
        config = ClientConfig(
            addresses=list(addresses), coordinator=coordinator, give_up_s=give_up_s, welcome_s=WELCOME_S
        )
        self.core = ClientCore(config, chance=Random(0))
        self.now_ns = Nanoseconds(0)
        self.dialled: list[str] = []
        self.ended: list[tuple[float, Close | Abort]] = []
        self.told: list[Tell] = []
        self.finished: dict[int, tuple[float, TidewireError | None]] = {}
        self.lines: dict[Conn, str] = {}
        self.publish_at: dict[str, str] = {}
        self.subscribe_at: dict[str, str] = {}
        """Where a broker sends publishers that it does not host."""
        self.sends_to: dict[str, list[str]] = {}
        """Of those that are coordinators: the broker of whoever asks next, and so on."""
        self.stay: tuple[type, ...] = ()
        """After which effects a connection stays for now, because what is to be sent there cannot leave."""
        self.while_time_passes: Callable[[], object] = lambda: None
        self._conns = 0
        self._said: list[ClientEvent] = []

    def happens(self, event: ClientEvent) -> None:
        """And what follows of it at once."""
        self._said.append(event)
        while self._said:
            for effect in self.core.handle(self._said.pop(0), now_ns=self.now_ns):
                self._act(effect)

    def runs(self, seconds: float) -> None:
        """Time passes, from one deadline of the machine to the next."""
        until_ns = Nanoseconds(self.now_ns + int(seconds * 1e9))
        turns = 0
        while (deadline_ns := self.core.deadline_ns()) is not None and deadline_ns <= until_ns:
            turns += 1
            assert turns < 1000, "it wants to hear of the time again and again"
            self.now_ns = Nanoseconds(max(self.now_ns, deadline_ns))
            self.while_time_passes()
            self.happens(TimePassed())
        self.now_ns = until_ns

    @property
    def now_s(self) -> float:
        """Since it began."""
        return self.now_ns / 1e9

    def _act(self, effect: ClientEffect) -> None:
        match effect:
            case Dial(order, address):
                self.dialled.append(address)
                self._said.append(self._answer(order, address))
            case Send(conn, message):
                answer = self._reply(conn, message)
                self._said += [] if answer is None else [Heard(conn, answer)]
            case Close(conn) | Abort(conn):
                self.ended.append((self.now_s, effect))
                if conn in self.lines and not isinstance(effect, self.stay):
                    del self.lines[conn]
                    self._said.append(Closed(conn, "closed by the broker"))
            case Tell():
                self.told.append(effect)
            case Finished(token, error):
                self.finished[token] = self.now_s, error

    def _answer(self, order: int, address: str) -> ClientEvent:
        if self.brokers[address] == "gone":
            return DialFailed(order, f"{address}: Connection refused")
        self._conns += 1
        self.lines[Conn(self._conns)] = address
        return Opened(Conn(self._conns), order)

    def _reply(self, conn: Conn, message: Any) -> Message | None:
        manner = self.brokers[self.lines[conn]] if conn in self.lines else "gone"
        if isinstance(manner, Bye):
            return manner
        if manner != "well":
            return None
        match message:
            case Hello() if brokers := self.sends_to.get(self.lines[conn]):
                brokers.append(brokers.pop(0))
                return BrokerFound(0, BrokerId(brokers[-1]), brokers[-1])
            case Hello():
                places = (known.get(self.lines[conn]) for known in (self.publish_at, self.subscribe_at))
                publish_at, subscribe_at = ([] if one is None else [one] for one in places)
                return welcome(self.lines[conn], publish_at=publish_at, subscribe_at=subscribe_at)
            case Ping(sent_ns):
                return Pong(sent_ns, sent_ns, sent_ns)
            case Leave(session):
                return Left(session)
            case _:
                return Confirmed(message.request)


def welcome(broker: str, *, publish_at: list[str] | None = None, subscribe_at: list[str] | None = None) -> Welcome:
    """From a broker that hosts everybody, or whose publishers or subscribers go elsewhere."""
    return Welcome(
        version=1,
        broker=BrokerId(broker),
        incarnation=1,
        address=broker,
        heartbeat_s=HEARTBEAT_S,
        frame_bytes_max=1 << 20,
        subscriptions_max=100,
        publish_at=publish_at or [],
        subscribe_at=subscribe_at or [],
    )
