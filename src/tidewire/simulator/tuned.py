"""What a simulated application hears of channels, and what it must have heard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from tidewire.channels.messages import Want
from tidewire.channels.packing import pack_given
from tidewire.channels.results import Packed, Rows
from tidewire.client.events import ClientEvent, CloseChannelFor, Notify, OpenChannelFor, Took
from tidewire.model.errors import TidewireError, Unavailable
from tidewire.model.ids import Tick
from tidewire.model.values import Value
from tidewire.simulator.agenda import SECOND_NS, Agenda

if TYPE_CHECKING:
    from tidewire.simulator.world import World

AGAIN_NS: Final = SECOND_NS


class Asker(Protocol):
    """The client that an application has its session by."""

    name: str
    agenda: Agenda

    def ask(self, make: Callable[[int], ClientEvent], done: Callable[[TidewireError | None], object]) -> None:
        """Ask the machine for something."""

    def tell(self, event: ClientEvent) -> None:
        """Something has happened."""


class TunedRecord:
    """A subscription to a channel; one with a name goes on when it is opened again."""

    def __init__(self, want: Want, given: Mapping[str, Value], name: str) -> None:
        self.want = want
        self.given = given
        self.name = name
        self.began: Tick | None = None
        """Everything behind it must have come; None: it was never confirmed."""
        self.is_open = False
        self.received: list[tuple[Tick, Rows]] = []
        self.error: TidewireError | None = None


class Tuned:
    """All of one application."""

    def __init__(self, client: Asker, begin_of: Callable[[int], Tick | None]) -> None:
        """``begin_of``: where a subscription began, by its number, as the session knows it."""
        self._client = client
        self._begin_of = begin_of
        self.records: dict[int, TunedRecord] = {}

    def open(self, number: int, channel: str, given: Mapping[str, Value], name: str = "") -> None:
        """Hear of this channel; who cannot be served now tries again."""
        record = self.records.get(number)
        if record is None:
            record = self.records[number] = TunedRecord(Want(channel, tuple(given.values())), given, name)
        self._open(number, record)

    def _open(self, number: int, record: TunedRecord) -> None:
        def done(error: TidewireError | None) -> None:
            if error is None:
                record.is_open = True
                if record.began is None:
                    record.began = self._begin_of(number)
            elif isinstance(error, Unavailable):
                self._client.agenda.after(AGAIN_NS, lambda: self._open(number, record))
            else:
                record.error = error

        packed = pack_given(record.given)
        self._client.ask(lambda token: OpenChannelFor(token, number, record.want.channel, packed, record.name), done)

    def leave(self, number: int, *, seconds: float) -> None:
        """One with a name leaves, and comes back after a while."""
        record = self.records[number]
        if not (record.name and record.is_open):
            return
        record.is_open = False

        def done(error: TidewireError | None) -> None:
            if error is None:
                self._client.agenda.after(int(seconds * SECOND_NS), lambda: self._open(number, record))
            else:  # it stands
                record.is_open = True

        self._client.ask(lambda token: CloseChannelFor(token, number, is_final=False), done)

    def notified(self, notify: Notify) -> None:
        """Something has come; the application deals with it at once."""
        rows = Packed(notify.rows, notify.data).rows()
        self.records[notify.number].received.append((notify.tick, rows))
        self._client.agenda.at(
            self._client.agenda.now_ns, lambda: self._client.tell(Took({notify.number: notify.tick}))
        )

    def ended(self, number: int, error: TidewireError) -> None:
        """Nothing more comes."""
        if number in self.records:
            self.records[number].error = error


def channels_are_exact(world: World) -> list[str]:
    """Every result came once and in order to everyone who was owed it; to one without a name, while no broker died."""
    found: list[str] = []
    if world.data_cluster is None:
        return found
    has_died = any(host.incarnation > 1 or host.is_down for host in world.brokers.values())
    by_want: dict[Want, list[tuple[Tick, Rows]]] = {}
    for one in world.data_cluster.cluster.found:
        by_want.setdefault(one.want, []).append((one.tick, one.rows))
    for client in world.clients.values():
        for number, record in client.tuned.records.items():
            who = f"{client.name}'s subscription {number} to {record.want.channel}{record.want.values}"
            if record.error is not None or record.began is None:
                why = "it was never confirmed" if record.error is None else record.error.message
                found.append(f"{who} is not served: {why}")
                continue
            owed = [one for one in by_want.get(record.want, ()) if one[0] > record.began]
            found += [f"{who}: {flaw}" for flaw in _flaws(record, owed, is_complete=bool(record.name) or not has_died)]
    return found


def _flaws(record: TunedRecord, owed: list[tuple[Tick, Rows]], *, is_complete: bool) -> list[str]:
    ticks = [tick for tick, _ in record.received]
    flaws = []
    if len(set(ticks)) != len(ticks):
        flaws.append("something came twice")
    elif ticks != sorted(ticks):
        flaws.append("something came out of order")
    expected = dict(owed)
    wrong = [tick for tick, rows in record.received if expected.get(tick) != rows]
    if wrong:
        flaws.append(f"{len(wrong)} results were not what the channel had found, the first at {wrong[0]}")
    missing = [tick for tick in expected if tick not in ticks]
    if missing and is_complete:
        flaws.append(f"{len(missing)} of {len(owed)} results are missing, the first at {missing[0]}")
    return flaws
