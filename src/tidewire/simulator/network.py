"""How long do bytes take from one node to another? Connections over paths that have a latency, a bandwidth, and faults.

Bytes are taken from a node's queue only when the connection can carry them, so queues grow where they do in reality. A
receiver that does not read stops the sender after a window's worth. A path that is cut in silence holds everything
back, as TCP does, until it is mended or somebody gives up; one that is cut with a reset ends its connections at once.

What is carried is charged by its virtual bytes (``dataplane/flows.py``): a flow weighs what its events weigh.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final, Protocol

from tidewire.dataplane.flows import size_of
from tidewire.model.ids import Conn
from tidewire.simulator.agenda import MILLISECOND_NS, SECOND_NS, Agenda

CHUNK_BYTES: Final = 16 << 10
WINDOW_CHUNKS: Final = 4
SLICE_NS: Final = 20 * MILLISECOND_NS
"""Chunks may be larger, for flows, but not so large that they occupy a way, or a reader, for longer than this."""
DIAL_TIMEOUT_NS: Final = SECOND_NS
LINGER_NS: Final = 2 * SECOND_NS
LATE_NS: Final = SECOND_NS // 4
"""What a way takes longer for counts as waiting."""


class Place(Protocol):
    """A node, as the network knows it."""

    name: str
    read_ns_per_byte: float
    """How long it takes to read what comes, beside what it does about it."""

    says_little: bool
    far_end: type[End]
    """How others send to it, if it has dialled them."""

    def is_urgent(self, end: End) -> bool:
        """Does what goes over this connection go ahead of the rest?"""

    def is_listening(self) -> bool:
        """Can it be dialled?"""

    def accept(self, end: End) -> None:
        """Somebody has dialled it."""

    def output(self, conn: Conn, bytes_max: int) -> bytes:
        """What it has to send on this connection."""

    def arrived(self, end: End, data: bytes) -> None:
        """Bytes have come; ``end.taken`` when they are read."""

    def ended(self, end: End, reason: str) -> None:
        """The connection is over."""


class Path:
    """The way between two nodes."""

    def __init__(self, network: Network, names: tuple[str, str]) -> None:
        self.names = names
        self.latency_ns = network.latency_ns
        self.bytes_per_s: float | None = None
        """None: as fast as one likes."""
        self.slowdown = 1.0
        self.busy_until_ns = 0
        """When what it has taken will have left."""
        self.is_cut = False
        self.ends: dict[End, None] = {}

    def set(self, latency_ms: float | None = None, *, mbps: float | None = None) -> None:
        """How long it takes, and how much it carries; None: as before."""
        if latency_ms is not None:
            self.latency_ns = int(latency_ms * MILLISECOND_NS)
        if mbps is not None:
            self.bytes_per_s = mbps * 1e6 / 8

    def cut(self, *, is_silent: bool) -> None:
        """Nothing passes any more."""
        self.is_cut = True
        if not is_silent:
            for end in list(self.ends):
                end.break_off("the connection was reset")

    def mend(self) -> None:
        """All passes again, first what was held back."""
        self.is_cut = False
        for end in list(self.ends):
            end.poke()

    def carry_ns(self, size: int) -> int:
        """How long do so many bytes occupy it?"""
        return 0 if self.bytes_per_s is None else int(size * SECOND_NS * self.slowdown / self.bytes_per_s)


class Uplink:
    """What all connections of a node share: its output bandwidth (peer §9.2)."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._free_ns = 0
        self.busy_ns = 0

    def reserve(self, size: int, now_ns: int, *, is_urgent: bool = False) -> int:
        """When will so many bytes have left? What is urgent goes ahead of what waits (peer M2)."""
        takes_ns = int(size * SECOND_NS / self.bytes_per_s)
        self.busy_ns += takes_ns
        self._free_ns = max(self._free_ns, now_ns) + takes_ns
        return now_ns + takes_ns if is_urgent else self._free_ns

    def delay_ns(self, now_ns: int) -> int:
        """How long does what is to leave now wait?"""
        return max(0, self._free_ns - now_ns)


class End:
    """One side of a connection."""

    def __init__(self, network: Network, path: Path, place: Place, *, reader: Place) -> None:
        self.place = place
        self.path = path
        self.conn = Conn(-1)
        """The number that its node gave it."""
        self.other: End = self
        self.is_dialling = False
        """Is the answer to the call still under way?"""
        self.is_closed = False
        """Is it over for this side?"""
        self._network = network
        self._uplink = network.uplinks.get(place.name)
        self._is_over = False
        self._unread = 0
        """Bytes that this side sent and the other has not read."""
        self._free_ns = 0
        self._is_waking = False
        self._arrival_ns = 0
        self._chunk_bytes = network.chunk_bytes(path, self._uplink, reader)
        self._window_bytes = WINDOW_CHUNKS * self._chunk_bytes
        self._rest: deque[bytes] = deque()
        self._goodbye: str | None = None
        path.ends[self] = None

    # -- this side -----------------------------------------------------------------------------------------------------

    def poke(self) -> None:
        """There may be something to send, or room for it."""
        agenda = self._network.agenda
        while not (self._is_over or self.path.is_cut or self._is_full()):
            if agenda.now_ns < self._free_ns:
                self._wake()
                return
            data = self._next()
            size = size_of(data)
            if data:
                self._send(data, size)
            elif self._goodbye is not None:
                self._part(self._goodbye)
                return
            if size < self._at_once() and self._goodbye is None:
                return

    def _at_once(self) -> int:
        packet_bytes = self._network.packet_bytes
        return self._chunk_bytes if packet_bytes is None or self.path.bytes_per_s is None else packet_bytes

    def _is_full(self) -> bool:
        return self._unread >= (self._network.window_bytes or self._window_bytes)

    def taken(self, size: int) -> None:
        """So many virtual bytes from the other side have been read."""
        sender = self.other
        was_full = sender._is_full()
        sender._unread -= size
        if was_full:
            sender.poke()

    def close(self, reason: str, *, rest: Iterable[bytes] = ()) -> None:
        """End it, behind what is under way and these last chunks. The other side hears of it then."""
        if self.is_closed:
            return
        self.is_closed = True
        self._rest = deque(rest)
        self._goodbye = reason
        self._network.agenda.after(LINGER_NS, self._linger_over)
        self.poke()

    def break_off(self, reason: str) -> None:
        """It is over at once, for this side, and what was under way is lost."""
        was_closed = self.is_closed
        self._is_over = self.is_closed = True
        self.path.ends.pop(self, None)
        if not (was_closed or self.is_dialling):
            self.place.ended(self, reason)

    def _next(self) -> bytes:
        if self._goodbye is None:
            return self.place.output(self.conn, self._at_once())
        return self._rest.popleft() if self._rest else b""

    def _wake(self) -> None:
        if not self._is_waking:
            self._is_waking = True
            self._network.agenda.at(self._free_ns, self._woken)

    def _woken(self) -> None:
        self._is_waking = False
        self.poke()

    def _send(self, data: bytes, size: int) -> None:
        agenda, path = self._network.agenda, self.path
        now_ns = agenda.now_ns
        sent_ns = now_ns + path.carry_ns(size)
        if self._uplink is not None:
            sent_ns = max(sent_ns, self._uplink.reserve(size, now_ns, is_urgent=self.place.is_urgent(self)))
        self._free_ns = sent_ns
        path.busy_until_ns = max(path.busy_until_ns, sent_ns)
        self._unread += size
        self._arrival_ns = max(self._arrival_ns, sent_ns + path.latency_ns)
        agenda.at(self._arrival_ns, lambda: self.other._arrive(data, size))

    def _part(self, reason: str) -> None:
        self._is_over = True
        self.path.ends.pop(self, None)
        self._arrival_ns = max(self._arrival_ns, self._network.agenda.now_ns + self.path.latency_ns)
        self._network.agenda.at(self._arrival_ns, lambda: self.other.break_off(reason))

    def _linger_over(self) -> None:
        self._rest.clear()
        self._unread = 0
        self.poke()

    # -- from the other side -------------------------------------------------------------------------------------------

    def _arrive(self, data: bytes, size: int) -> None:
        if self.is_closed:
            return
        self._network.note(self, data, size)
        self.place.arrived(self, data)


class Network:
    """All nodes and the ways between them. Nobody sends larger chunks than ``chunk_bytes_max``."""

    def __init__(self, agenda: Agenda, *, chunk_bytes_max: int = CHUNK_BYTES) -> None:
        self.agenda = agenda
        self._chunk_bytes_max = chunk_bytes_max
        self.latency_ns = MILLISECOND_NS
        """Of a path that nobody has said anything about."""
        self.window_bytes: int | None = None
        """What a connection carries that is not read, in each direction; None: some chunks."""
        self.packet_bytes: int | None = None
        """What a path of limited bandwidth carries at once; None: a chunk, whatever time it takes."""
        self.places: dict[str, Place] = {}
        self.uplinks: dict[str, Uplink] = {}
        self.bytes_carried = 0
        self._paths: dict[tuple[str, str], Path] = {}
        self._digest = blake2b(digest_size=16)

    def path(self, a: str, b: str) -> Path:
        """The way between two nodes."""
        key = (a, b) if a < b else (b, a)
        if key not in self._paths:
            self._paths[key] = Path(self, key)
        return self._paths[key]

    def chunk_bytes(self, path: Path, uplink: Uplink | None, reader: Place) -> int:
        """How much is carried at once?"""
        rates = [path.bytes_per_s, None if uplink is None else uplink.bytes_per_s]
        rates += [SECOND_NS / reader.read_ns_per_byte] if reader.read_ns_per_byte else []
        slices = [int(rate * SLICE_NS / SECOND_NS) for rate in rates if rate is not None]
        return max(CHUNK_BYTES, min([self._chunk_bytes_max, *slices]))

    def is_any_slow(self) -> bool:
        """Is some way slower than it should be, or has it still to do with what it took while it was?"""
        late_ns = self.agenda.now_ns + LATE_NS
        return any(path.slowdown > 1.0 or path.busy_until_ns > late_ns for path in self._paths.values())

    def paths_of(self, name: str) -> list[Path]:
        """All ways from a node that have been used so far."""
        return [path for key, path in self._paths.items() if name in key]

    def dial(
        self, caller: Place, address: str, *, opened: Callable[[End], object], failed: Callable[[str], object]
    ) -> None:
        """Try to connect: there and back it takes two latencies, or a timeout."""
        path = self.path(caller.name, address)
        if path.is_cut:
            self.agenda.after(DIAL_TIMEOUT_NS, lambda: failed("no answer"))
            return
        self.agenda.after(path.latency_ns, lambda: self._called(caller, address, opened, failed))

    def _called(
        self, caller: Place, address: str, opened: Callable[[End], object], failed: Callable[[str], object]
    ) -> None:
        path, there = self.path(caller.name, address), self.places.get(address)
        if path.is_cut:
            self.agenda.after(DIAL_TIMEOUT_NS, lambda: failed("no answer"))
            return
        if there is None or not there.is_listening():
            self.agenda.after(path.latency_ns, lambda: failed("nobody listens there"))
            return
        near = End(self, path, caller, reader=there)
        far = caller.far_end(self, path, there, reader=caller)
        near.other, far.other = far, near
        near.is_dialling = True
        self.agenda.after(path.latency_ns, lambda: self._answered(near, opened, failed))
        there.accept(far)

    def _answered(self, near: End, opened: Callable[[End], object], failed: Callable[[str], object]) -> None:
        near.is_dialling = False
        if near.is_closed:
            failed("the connection was reset")
        else:
            opened(near)

    def note(self, end: End, data: bytes, size: int) -> None:
        """Bytes have arrived: part of the run's digest."""
        self.bytes_carried += size
        self._digest.update(f"{self.agenda.now_ns} {end.place.name} {end.conn} {len(data)} ".encode())
        self._digest.update(data)

    def digest(self) -> str:
        """What has arrived where and when, in a few characters: equal for equal runs."""
        return self._digest.hexdigest()
