"""The kernel's data plane as an engine, and with sockets: read, match and write inside one call.

Without sockets it is what the contract says (``protocol.py``). A connection with a socket (``attach``) is read by
``pump`` and written whenever something comes for it; the driver acts only on what a call reports, mostly nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, cast

from tidewire._kernel._native import Plane, TlsLine
from tidewire.dataplane.protocol import QUEUE_BYTES_MAX, Received, Refusal, State, Traffic, WhenFull, Work
from tidewire.matching.protocol import NUMBER_LIMIT
from tidewire.model.errors import ValueOutOfRange
from tidewire.model.filters import Filter, decode_filter, encode_filter
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.model.messages import Lane
from tidewire.wire.frames import FRAME_BYTES_MAX

BUDGET_NS: Final = 1_000_000
IDLE: Final = Received("idle")

_Refusals = list[tuple[list[int], int, str, str]]
_Outcome = tuple[str, bytes | None, str, _Refusals, list[int], list[int], list[int], list[tuple[int, int]]]


Told = tuple[Conn | None, Received]


class KernelEngine:
    """An engine (``protocol.py``) in C++. ``budget_ns`` bounds the time of a call; with 0 it depends on no clock."""

    def __init__(
        self, *, seed: int = 0, simd: str = "", frame_bytes_max: int = FRAME_BYTES_MAX, budget_ns: int = BUDGET_NS
    ) -> None:
        self._plane = Plane(seed, simd, frame_bytes_max, budget_ns)

    def open(self, conn: Conn, *, is_link: bool, when_full: WhenFull, queue_bytes_max: int = QUEUE_BYTES_MAX) -> None:
        """A connection begins."""
        self._plane.open(conn, is_link, when_full, queue_bytes_max)

    def close(self, conn: Conn) -> None:
        """It ends."""
        self._plane.close(conn)

    def make_link(self, conn: Conn, *, queue_bytes_max: int) -> None:
        """It leads to a neighbour."""
        self._plane.make_link(conn, queue_bytes_max)

    def may_publish(self, conn: Conn, *, publisher: int, next_sequence: int) -> None:
        """From now on PUBLISH is taken from this client."""
        self._plane.may_publish(conn, publisher, next_sequence)

    def permit(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher's identity may publish."""
        self._plane.permit(conn, None if filters is None else list(filters))

    def allow(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher advertised."""
        self._plane.allow(conn, None if filters is None else single_conjunctions(filters))

    def set_clock(self, conn: Conn, *, offset_ns: int, error_us: int) -> None:
        """To be added to times that come from there."""
        self._plane.set_clock(conn, offset_ns, error_us)

    def own_tree(self, tree: TreeId) -> None:
        """The tree of events that are published here."""
        self._plane.own_tree(tree)

    def set_parent(self, tree: TreeId, parent: Conn | None) -> None:
        """Events of this tree come from there."""
        self._plane.set_parent(tree, parent)

    def forget_tree(self, tree: TreeId) -> None:
        """The tree is gone."""
        self._plane.forget_tree(tree)

    def add_routes(self, conn: Conn, numbers: Sequence[int], filters: Sequence[bytes], tree: TreeId | None) -> None:
        """Send there what matches."""
        self._plane.add_routes(conn, _numbers(numbers), list(filters), tree)

    def remove_routes(self, conn: Conn, numbers: Sequence[int], tree: TreeId | None) -> None:
        """No longer."""
        self._plane.remove_routes(conn, _numbers(numbers), tree)

    def receive(self, conn: Conn, data: bytes, *, now_ns: Nanoseconds) -> Received:
        """Bytes have come."""
        return _received(self._plane.receive(conn, data, now_ns))

    def resume(self, conn: Conn, *, now_ns: Nanoseconds) -> Received:
        """Go on with what has come before."""
        return _received(self._plane.resume(conn, now_ns))

    def send(self, conn: Conn, frame: bytes, lane: Lane) -> bool:
        """Queue a frame of the node itself. With a socket: it is written by the next ``flush``, at the latest."""
        return self._plane.send(conn, frame, lane == "control")

    def output(self, conn: Conn, *, bytes_max: int) -> bytes:
        """Take what is to be sent next."""
        return self._plane.output(conn, bytes_max)

    def unblocked(self) -> list[Conn]:
        """The connections that were blocked and need no longer be."""
        return cast(list[Conn], self._plane.unblocked())

    def traffic(self, conn: Conn) -> Traffic:
        """What has passed on this connection."""
        return Traffic(*self._plane.traffic(conn))

    def totals(self) -> Traffic:
        """Of all connections together."""
        return Traffic(*self._plane.totals())

    def lossy(self) -> list[Conn]:
        """The connections that have lost events since this was last asked."""
        return cast(list[Conn], self._plane.lossy())

    def work(self) -> Work:
        """What has been done."""
        return Work(*self._plane.work())

    # -- sockets -------------------------------------------------------------------------------------------------------

    def attach(self, conn: Conn, fd: int, tls: TlsLine | None = None) -> None:
        """This connection is that socket, which stays the caller's to close, behind ``close``. It never blocks.

        With ``tls``, whose handshake is done, what comes is opened and what leaves is sealed inside the same calls.
        """
        self._plane.attach(conn, fd, tls)

    def pump(self, conn: Conn, *, now_ns: Nanoseconds) -> Received | None:
        """The socket can be read: read once, handle it, write to every socket that something came for.

        A Ping is answered, and not told: the machine would do no more, and those who say nothing else may be many.

        None if there is nothing to know: it is idle, nothing was refused, no queue needs help. From a connection that
        is busy or blocked nothing is read; a driver stops asking until it has resumed.
        """
        outcome = self._plane.pump(conn, now_ns)
        return None if outcome is None else _received(outcome)

    def wait(self, epoll: int, *, timeout_ms: int) -> tuple[list[tuple[int, int]], Told | None]:
        """Wait on this epoll, and pump whatever socket of ours can be read, until there is something to know.

        Whoever is busy goes on by itself. As long as more is coming, a little is not sent alone, but waits some
        milliseconds for what else comes.

        Sockets that are not ours or want more than to be read, with what epoll says of them; and what is to be told of
        a connection, or of sockets that were written (None). Both are empty when the time is over (-1: never).
        """
        others, conn, outcome = self._plane.wait(epoll, timeout_ms)
        return others, None if outcome is None else (None if conn is None else Conn(conn), _received(outcome))

    def ignore(self, conn: Conn) -> None:
        """Nothing that comes from there is handled any more."""
        self._plane.ignore(conn)

    def flush(self, conn: Conn) -> Received | None:
        """Write what waits for this socket; None if all is written, else it is still stalled, or has ended."""
        outcome = self._plane.flush(conn)
        return None if outcome is None else _received(outcome)


def single_conjunctions(filters: Sequence[bytes]) -> list[bytes]:
    """Each conjunction as a filter of its own: what it allows depends on the attributes that it alone names."""
    return [encode_filter(Filter((one,))) for given in filters for one in decode_filter(given).conjunctions]


def _numbers(numbers: Sequence[int]) -> array[int]:
    try:
        return array("I", numbers)
    except OverflowError:
        raise ValueOutOfRange(f"a subscription's number is not from 0 to {NUMBER_LIMIT - 1}") from None


def _received(outcome: _Outcome | None) -> Received:
    if outcome is None:
        return IDLE
    state, message, reason, refusals, ready, overrun, stalled, ended = outcome
    return Received(
        cast(State, state),
        message,
        reason,
        [Refusal(*refusal) for refusal in refusals],
        cast(list[Conn], ready),
        cast(list[Conn], overrun),
        cast(list[Conn], stalled),
        cast(list[tuple[Conn, int]], ended),
    )
