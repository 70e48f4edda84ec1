"""What both kinds of nodes share: a clock of their own, connections, an inbox with control first, and a busy CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

import msgspec

from tidewire.dataplane.flows import size_of
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.simulator.agenda import Agenda
from tidewire.simulator.network import End, Network

EPOCH_NS: Final = 1_700_000_000_000_000_000
"""What a clock without an offset shows at the beginning."""

_RINGS_MAX: Final = 100


class LocalClock(msgspec.Struct, frozen=True):
    """A node's own clock: it is wrong by an offset, and runs too fast or too slow."""

    offset_ns: int = 0
    drift: float = 0.0

    def shows(self, time_ns: int) -> Nanoseconds:
        """What it shows at a time of the agenda."""
        return Nanoseconds(EPOCH_NS + self.offset_ns + time_ns + int(time_ns * self.drift))

    def when(self, shown_ns: int) -> int:
        """The first time of the agenda at which it shows this."""
        passed_ns = shown_ns - EPOCH_NS - self.offset_ns
        return int(passed_ns / (1 + self.drift)) + 1 if self.drift else passed_ns


class Host(ABC):
    """A node's part that knows the network. ``take`` and ``tick`` are the nodes' own."""

    far_end: type[End] = End
    says_little = False
    """Does it send nothing but messages? A broker reads them in turn with the rest, not behind all of it."""

    def __init__(self, agenda: Agenda, network: Network, name: str, clock: LocalClock) -> None:
        self.agenda = agenda
        self.network = network
        self.name = name
        self.clock = clock
        self.ends: dict[Conn, End] = {}
        self.read_ns_per_byte = 0.0
        self.busy_ns = 0
        """All that its CPU has done."""
        self._free_conns: list[int] = []
        self._conns = 0
        self._urgent: deque[tuple[End, bytes]] = deque()
        self._inbox: deque[tuple[End, bytes]] = deque()
        self._stopped: dict[Conn, deque[bytes]] = {}
        """What has come on connections that are not read at present."""
        self._chores: deque[Callable[[], int]] = deque()
        self._last_chore: Callable[[], int] | None = None
        """What is to be done when the CPU is free: before what has come is read, and behind it."""
        self._is_busy = False
        self._free_ns = 0
        """When the CPU will be through with what it does."""
        self._life = 0
        self._alarm_ns: int | None = None
        self._rung_ns = -1
        self._rings = 0
        network.places[name] = self

    @property
    def now_ns(self) -> Nanoseconds:
        """The time on its own clock."""
        return self.clock.shows(self.agenda.now_ns)

    # -- connections ---------------------------------------------------------------------------------------------------

    def register(self, end: End) -> Conn:
        """A connection gets the smallest number that is free, as a file descriptor does."""
        if self._free_conns:
            number = heappop(self._free_conns)
        else:
            self._conns += 1
            number = self._conns
        end.conn = Conn(number)
        self.ends[end.conn] = end
        return end.conn

    def forget(self, conn: Conn) -> None:
        """A number is free again."""
        del self.ends[conn]
        self._stopped.pop(conn, None)
        heappush(self._free_conns, conn)

    @abstractmethod
    def is_listening(self) -> bool:
        """Can it be dialled?"""

    @abstractmethod
    def accept(self, end: End) -> None:
        """Somebody has dialled it."""

    @abstractmethod
    def output(self, conn: Conn, bytes_max: int) -> bytes:
        """What it has to send on this connection."""

    @abstractmethod
    def ended(self, end: End, reason: str) -> None:
        """A connection is over, by the other side or the network."""

    def drop_everything(self) -> None:
        """The process is gone: its connections end, what it had not read is lost."""
        self._life += 1
        self._is_busy = False
        self._free_ns = 0
        self._alarm_ns = None
        self._urgent.clear()
        self._inbox.clear()
        self._chores.clear()
        self._last_chore = None
        self._stopped.clear()
        self._free_conns.clear()
        self._conns = 0
        ends, self.ends = list(self.ends.values()), {}
        for end in ends:
            end.close("the other side is gone")

    # -- input ---------------------------------------------------------------------------------------------------------

    def is_behind(self) -> bool:
        """Has it not yet read all that has come?"""
        return bool(self._stopped or self._inbox)

    def is_urgent(self, end: End) -> bool:  # noqa: ARG002
        """Does what comes here go ahead of the rest?"""
        return False

    def is_read(self, end: End) -> bool:  # noqa: ARG002
        """May what comes here be taken now? If not, ``read_again`` says when it may."""
        return True

    @abstractmethod
    def take(self, end: End, data: bytes) -> int:
        """Handle these bytes, and say how many nanoseconds it took."""

    @abstractmethod
    def tick(self) -> None:
        """The alarm that was set has come."""

    def arrived(self, end: End, data: bytes) -> None:
        """Bytes have come. Also of one who is not read: some that came before may wait to be looked at."""
        (self._urgent if self.is_urgent(end) else self._inbox).append((end, data))
        self._work()

    def read_again(self, conn: Conn) -> None:
        """What waited on this connection may be taken."""
        waiting = self._stopped.pop(conn, None)
        end = self.ends.get(conn)
        if waiting and end is not None:
            self._inbox.extendleft((end, data) for data in reversed(waiting))
            self.work_soon()

    def work_soon(self) -> None:
        """Go on with the inbox, but not inside of what is done now."""
        life = self._life
        self.agenda.at(self.agenda.now_ns, lambda: self._work() if life == self._life else None)

    def when_free(self, chore: Callable[[], int], *, is_last: bool = False) -> None:
        """Do this as soon as the CPU is free; with ``is_last``, when nothing waits to be read either."""
        if is_last:
            self._last_chore = chore
        else:
            self._chores.append(chore)
        self._work()

    def occupy(self, cost_ns: int) -> None:
        """The CPU has something to do for so long, behind what it is at."""
        if cost_ns > 0:
            self.busy_ns += cost_ns
            self._is_busy = True
            self._free_ns = max(self._free_ns, self.agenda.now_ns) + cost_ns
            life = self._life
            self.agenda.at(self._free_ns, lambda: self._rested(life))

    def _rested(self, life: int) -> None:
        if life == self._life and self.agenda.now_ns >= self._free_ns:
            self._is_busy = False
            self._work()

    def _do_chore(self) -> None:
        if self._chores:
            chore = self._chores.popleft()
        else:
            assert self._last_chore is not None
            chore, self._last_chore = self._last_chore, None
        life = self._life
        cost_ns = chore()
        if life == self._life:
            self.occupy(cost_ns)

    def _work(self) -> None:
        while not self._is_busy and (self._urgent or self._inbox or self._chores or self._last_chore):
            if not self._urgent and (self._chores or not self._inbox):
                self._do_chore()
                continue
            end, data = self._urgent.popleft() if self._urgent else self._inbox.popleft()
            if end.is_closed:
                continue
            if end.conn in self._stopped or not self.is_read(end):
                self._stopped.setdefault(end.conn, deque()).append(data)
                continue
            life = self._life
            cost_ns = self.take(end, data)
            if not end.is_closed:
                end.taken(size_of(data))
            if life == self._life:
                self.occupy(cost_ns)

    # -- time ----------------------------------------------------------------------------------------------------------

    def set_alarm(self, shown_ns: int | None) -> None:
        """Call ``tick`` when the own clock shows this; only the earliest alarm counts."""
        if shown_ns is None:
            return
        time_ns = max(self.clock.when(shown_ns), self.agenda.now_ns)
        if self._alarm_ns is not None and self._alarm_ns <= time_ns:
            return
        self._alarm_ns = time_ns
        life = self._life
        self.agenda.at(time_ns, lambda: self._ring(life, time_ns))

    def _ring(self, life: int, time_ns: int) -> None:
        if life == self._life and self._alarm_ns == time_ns:
            self._alarm_ns = None
            self._rings = self._rings + 1 if time_ns == self._rung_ns else 0
            self._rung_ns = time_ns
            assert self._rings < _RINGS_MAX, f"{self.name} wants to be woken again and again at {self.agenda.now_s} s"
            self.tick()
