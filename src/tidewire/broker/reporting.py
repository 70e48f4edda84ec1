"""What does a broker tell its coordinator of its load, and how does it send clients where that wants them? (bad §4.5)

Every so often some events are kept, and the share of them that each filter matches gives its rate. Identical filters
are one: what they match comes in once. Of channels it is counted what has come from the data cluster, for each
subscription there. Clients that are to go are moved by the one way in which clients move.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import msgspec

from tidewire._kernel._native import Index
from tidewire.broker.channels import Channels
from tidewire.broker.clients import Clients
from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import DropSamples, Effect, KeepSamples, Note
from tidewire.broker.events import Measured, Sampled
from tidewire.broker.links import Links
from tidewire.broker.registration import Registration
from tidewire.channels.messages import Want
from tidewire.model.balance_messages import SessionId
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.message_fields import SECONDS_MIN
from tidewire.model.placement_messages import KEY_BYTES, Migrate, Migrated, ReportedClient, ReportLoad, WantReports
from tidewire.routing.router import Router


class _Plan:
    """Clients that were to go, and how many have."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.waits_for: dict[Conn, None] = {}
        self.moved = self.stayed = 0


class Reporting:
    """A broker's part in what the coordinator balances; none, as long as that does not ask."""

    def __init__(
        self,
        config: BrokerConfig,
        router: Router,
        links: Links,
        clients: Clients,
        channels: Channels,
        registration: Registration,
        *,
        incarnation: int,
    ) -> None:
        self._config = config
        self._router = router
        self._links = links
        self._clients = clients
        self._channels = channels
        self._registration = registration
        self._life = incarnation
        self._wanted: WantReports | None = None
        self._measured: Measured | None = None
        self._next_ns = 0
        self._began_ns = 0
        self._counts_ns = 0
        """Since when it is counted what comes of channels."""
        self._session: SessionId | None = None
        self._sessions = 0
        self._plan: _Plan | None = None
        self.reports = 0
        self.moved_away = 0

    @property
    def is_on(self) -> bool:
        """Does the coordinator want to know?"""
        return self._wanted is not None

    def asked(self, want: WantReports, now_ns: Nanoseconds) -> Iterator[Effect]:
        """The coordinator wants reports."""
        if self._config.balancing != "never":
            why = f'balancing = "{self._config.balancing}" here: brokers and their coordinator do not both decide'
            yield Note("does not report its load", {"why": why})
            return
        self._wanted = want
        self._next_ns = self._counts_ns = now_ns
        self._channels.frontends.take_come()

    def lost(self) -> Iterator[Effect]:
        """The coordinator is gone; clients that are on their way go on."""
        if self._session is not None:
            yield DropSamples()
        self._wanted = self._session = self._plan = None

    def measured(self, measured: Measured) -> None:
        """How loaded this broker is."""
        self._measured = measured

    def tick(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """Begin a report, if it is time and there is something to tell."""
        want = self._wanted
        if want is None or self._session is not None or self._measured is None or now_ns < self._next_ns:
            return
        self._sessions += 1
        self._session = SessionId(self._config.broker, self._life, self._sessions)
        self._began_ns = now_ns
        self._next_ns = now_ns + int(want.every_s * 1e9)
        yield KeepSamples(self._session, want.samples, Nanoseconds(self._next_ns))

    def sampled(self, sampled: Sampled, now_ns: Nanoseconds) -> Iterator[Effect]:
        """The events have come, or time is up: report."""
        if sampled.session != self._session or self._measured is None:
            return
        self._session = None
        self.reports += 1
        seconds = max(SECONDS_MIN, (now_ns - self._began_ns) / 1e9)
        yield from self._registration.send(self._report(sampled.samples.events, seconds, now_ns))

    def _report(self, events: Sequence[bytes], seconds: float, now_ns: Nanoseconds) -> ReportLoad:
        assert self._measured is not None
        wanted = self._channels.frontends.wanted()
        there = dict.fromkeys([*self._clients.using("subscribe"), *(conn for conn in wanted if conn in self._clients)])
        clients = [conn for conn in there if self._clients.may_move(conn)]
        filters: dict[bytes, int] = {}
        wants: dict[Want, int] = {}
        by_filter = {
            conn: [
                filters.setdefault(one, len(filters))
                for one in dict.fromkeys(self._router.subscriptions(conn).values())
            ]
            for conn in clients
        }
        by_want = {conn: [wants.setdefault(one, len(wants)) for one in wanted.get(conn, ())] for conn in clients}
        each = self._measured.load.input_bytes_s * seconds / len(events) if events else 0.0
        return ReportLoad(
            seconds=seconds,
            is_open=not self._links.is_leaving and not self._links.hosts("subscribe"),
            keys=[*map(_key, filters), *map(_key_of_want, wants)],
            sizes=[*(count * each for count in matches_of(events, list(filters))), *self._come(wants, seconds, now_ns)],
            clients=[
                ReportedClient(
                    conn, self._clients.name_of(conn), by_filter[conn] + [len(filters) + at for at in by_want[conn]]
                )
                for conn in clients
            ],
        )

    def _come(self, wants: Iterable[Want], seconds: float, now_ns: Nanoseconds) -> Iterator[float]:
        """What came for these from the data cluster in so many seconds, on the mean since the last report."""
        counted_s = max(SECONDS_MIN, (now_ns - self._counts_ns) / 1e9)
        self._counts_ns = now_ns
        come = self._channels.frontends.take_come()
        return (come.get(want, 0) * seconds / counted_s for want in wants)

    # -- moves ---------------------------------------------------------------------------------------------------------

    def migrate(self, order: Migrate, now_ns: Nanoseconds) -> Iterator[Effect]:
        """Send these elsewhere. Who is not the one that was reported, or is on its way, stays."""
        plan = self._plan = _Plan(order.plan)
        for move in order.moves:
            conn = Conn(move.conn)
            is_the_same = conn in self._clients and self._clients.name_of(conn) == move.name
            effects = (
                self._clients.move(conn, "subscribe", broker=move.broker, address=move.address, now_ns=now_ns)
                if is_the_same and self._clients.may_move(conn)
                else []
            )
            if effects:
                plan.waits_for[conn] = None
            else:
                plan.stayed += 1
            yield from effects
        yield from self._ended()

    def moves_ended(self, ended: Iterable[tuple[Conn, bool]]) -> Iterator[Effect]:
        """Clients have gone where they were sent, or stay."""
        plan = self._plan
        if plan is None:
            return
        for conn, went in ended:
            if conn in plan.waits_for:
                del plan.waits_for[conn]
                plan.moved += went
                plan.stayed += not went
        yield from self._ended()

    def _ended(self) -> Iterator[Effect]:
        plan = self._plan
        if plan is not None and not plan.waits_for:
            self._plan = None
            self.moved_away += plan.moved
            yield from self._registration.send(Migrated(plan.number, plan.moved, plan.stayed))
            yield Note("moved clients for the coordinator", {"moved": plan.moved, "stayed": plan.stayed})


def _key(wanted: bytes) -> bytes:
    return blake2b(wanted, digest_size=KEY_BYTES).digest()


def _key_of_want(want: Want) -> bytes:
    """The same at every broker."""
    return _key(b"channel" + msgspec.msgpack.encode(want))


def matches_of(events: Sequence[bytes], filters: Sequence[bytes]) -> list[int]:
    """How many of these events each filter matches."""
    index = Index(0, "")
    index.insert(array("I", range(len(filters))), array("I", [0] * len(filters)), list(filters))
    batch = b"".join(len(event).to_bytes(4, "little") + event for event in events)
    found = [0] * len(filters)
    for place in index.match(batch, limit=1).destination:
        found[place] += 1
    return found
