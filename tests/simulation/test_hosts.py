"""A host reads each connection in order, whatever keeps it from reading."""

from tidewire.model.ids import Conn
from tidewire.simulator.agenda import Agenda, in_ns
from tidewire.simulator.hosts import Host, LocalClock
from tidewire.simulator.network import End, Network

MS = in_ns(0.001)


class Reader(Host):
    """Takes a millisecond for each chunk, and reads no connection that it is told not to."""

    def __init__(self, agenda: Agenda, network: Network) -> None:
        super().__init__(agenda, network, "reader", LocalClock())
        self.got: list[bytes] = []
        self.unread: Conn | None = None

    def open(self) -> End:
        end = End(self.network, self.network.path("reader", "other"), self, reader=self)
        end.conn = self.register(end)
        return end

    def is_read(self, end: End) -> bool:
        return end.conn != self.unread

    def take(self, end: End, data: bytes) -> int:
        self.got.append(data)
        return MS

    def is_listening(self) -> bool:
        return True

    def accept(self, end: End) -> None: ...

    def output(self, conn: Conn, bytes_max: int) -> bytes:
        return b""

    def ended(self, end: End, reason: str) -> None: ...

    def tick(self) -> None: ...


def test_what_comes_while_a_connection_is_not_read_stays_behind_what_came_before() -> None:
    """Some of that may not even have been looked at, for the CPU was busy with others."""
    agenda = Agenda()
    reader = Reader(agenda, Network(agenda))
    one, other = reader.open(), reader.open()
    for end, data in ((one, b"a"), (one, b"b"), (other, b"x"), (one, b"c")):
        reader.arrived(end, data)
    reader.unread = one.conn  # while it is at a
    agenda.run(until_ns=MS + MS // 2)  # b waits, x is being read, c has not been looked at
    assert reader.got == [b"a", b"x"]
    reader.arrived(one, b"d")
    agenda.run(until_ns=5 * MS)
    reader.unread = None
    reader.read_again(one.conn)
    agenda.run(until_ns=20 * MS)
    assert reader.got == [b"a", b"x", b"b", b"c", b"d"]
