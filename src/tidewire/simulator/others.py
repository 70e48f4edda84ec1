"""The other nodes in virtual time: a coordinator that comes and goes, and an operator who asks brokers for things."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from random import Random

from tidewire.coordinator.config import Decides
from tidewire.coordinator.core import CoordinatorCore, CoordinatorEffect, CoordinatorEvent, Save
from tidewire.model.ids import Conn
from tidewire.model.messages import Bye, Done, Drain, Message, Refused
from tidewire.model.notes import Note
from tidewire.simulator.agenda import Agenda
from tidewire.simulator.hosts import Host, LocalClock
from tidewire.simulator.network import End, Network
from tidewire.wire.connections import Close, Closed, Heard, Opened, Send, TimePassed
from tidewire.wire.frames import MESSAGE, FrameReader, decode_message, message_frame


class Talker(Host):
    """A node that only says and hears messages."""

    def __init__(self, agenda: Agenda, network: Network, name: str, clock: LocalClock) -> None:
        super().__init__(agenda, network, name, clock)
        self._lines: dict[Conn, tuple[FrameReader, list[bytes]]] = {}

    def opened(self, end: End) -> Conn:
        """A connection stands."""
        conn = self.register(end)
        self._lines[conn] = FrameReader(), []
        return conn

    def say(self, conn: Conn, message: Message) -> None:
        """Send it, if the connection is still there."""
        if conn in self.ends:
            self._lines[conn][1].append(message_frame(message))
            self.ends[conn].poke()

    def hang_up(self, conn: Conn) -> None:
        """End a connection, behind what was said."""
        end = self.ends[conn]
        rest = self.output(conn, 0)
        self.forget(conn)
        del self._lines[conn]
        end.close("closed here", rest=[rest])

    @abstractmethod
    def heard(self, conn: Conn, message: Message) -> None:
        """Somebody has said something."""

    @abstractmethod
    def left(self, conn: Conn) -> None:
        """A connection is over, not by us."""

    def output(self, conn: Conn, bytes_max: int) -> bytes:  # noqa: ARG002
        """All that waits: it is never much."""
        if conn not in self._lines:
            return b""
        queue = self._lines[conn][1]
        data = b"".join(queue)
        queue.clear()
        return data

    def ended(self, end: End, reason: str) -> None:  # noqa: ARG002
        """A connection has ended."""
        if self.ends.get(end.conn) is end:
            self.forget(end.conn)
            del self._lines[end.conn]
            self.left(end.conn)

    def take(self, end: End, data: bytes) -> int:
        """Frames with messages; they cost nothing here."""
        for kind, payload in self._lines[end.conn][0].feed(data):
            if end.is_closed:
                break
            if kind == MESSAGE:
                self.heard(end.conn, decode_message(payload))
        return 0

    def drop_everything(self) -> None:
        """The process is gone."""
        self._lines.clear()
        super().drop_everything()


class CoordinatorHost(Talker):
    """The coordinator through all its lives; what it saved is kept, as by a file. ``core`` is None while it is down."""

    def __init__(
        self,
        agenda: Agenda,
        network: Network,
        name: str,
        *,
        clock: LocalClock,
        chance: Random,
        heartbeat_s: float = 2.0,
        decides: Decides | None = None,
    ) -> None:
        super().__init__(agenda, network, name, clock)
        self.core: CoordinatorCore | None = None
        self._heartbeat_s = heartbeat_s
        self._chance = chance
        self._decides = decides
        self._saved: bytes | None = None
        self.notes: list[Note] = []
        self.start()

    def start(self) -> None:
        """Begin, or begin again with what is remembered."""
        self.core = CoordinatorCore(
            self._saved, chance=self._chance, heartbeat_s=self._heartbeat_s, decides=self._decides
        )

    def crash(self) -> None:
        """End without a word."""
        self.core = None
        self.drop_everything()

    def links(self) -> list[tuple[str, str]]:
        """Who should be connected to whom, as it sees it now."""
        told = {} if self.core is None else self.core.neighbours()
        return [(one, other) if one < other else (other, one) for one, others in told.items() for other in others]

    def is_listening(self) -> bool:
        """While it lives."""
        return self.core is not None

    def accept(self, end: End) -> None:
        """A broker has called."""
        self._handle(Opened(self.opened(end)))

    def heard(self, conn: Conn, message: Message) -> None:
        """A broker has said something."""
        self._handle(Heard(conn, message))

    def left(self, conn: Conn) -> None:
        """A broker has gone."""
        self._handle(Closed(conn))

    def tick(self) -> None:
        """The machine's deadline has come."""
        self._handle(TimePassed())

    def _handle(self, event: CoordinatorEvent) -> None:
        if self.core is not None:
            for effect in self.core.handle(event, now_ns=self.now_ns):
                self._perform(effect)
            self.set_alarm(self.core.deadline_ns())

    def _perform(self, effect: CoordinatorEffect) -> None:
        match effect:
            case Send(conn, message):
                self.say(conn, message)
            case Close(conn):
                if conn in self.ends:
                    self.hang_up(conn)
                    self._handle(Closed(conn))
            case Save(document):
                self._saved = document
            case Note():
                self.notes.append(effect)


class Operator(Talker):
    """Somebody who runs the network: drains brokers (``live/operate.py``)."""

    def __init__(self, agenda: Agenda, network: Network, name: str) -> None:
        super().__init__(agenda, network, name, LocalClock())
        self._answered: dict[Conn, Callable[[bool], object]] = {}

    def drain(self, broker: str, answered: Callable[[bool], object]) -> None:
        """Ask a broker to send all its clients away: have they gone? No if it cannot be reached."""

        def opened(end: End) -> None:
            conn = self.opened(end)
            self._answered[conn] = answered
            self.say(conn, Drain(1))

        self.network.dial(self, broker, opened=opened, failed=lambda _reason: answered(False))

    def heard(self, conn: Conn, message: Message) -> None:
        """The answer, or a goodbye."""
        if isinstance(message, Done | Refused | Bye):
            self.hang_up(conn)
            self._answered.pop(conn)(isinstance(message, Done))

    def left(self, conn: Conn) -> None:
        """It has gone before it was done."""
        self._answered.pop(conn)(False)

    def is_listening(self) -> bool:
        """Nobody dials an operator."""
        return False

    def accept(self, end: End) -> None:
        """Nobody dials an operator."""

    def tick(self) -> None:
        """An operator waits for nothing but answers."""
