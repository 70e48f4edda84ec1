"""Membership: brokers register, a newcomer is told its neighbours, and whoever has lost its head gets another one.

The overlay is a tree of heads, each with its edges: a head joins the head with the fewest neighbours, an edge too. A
broker whose role is ``auto`` or ``both`` joins the first such broker there is, which so becomes a head by itself
(peer A1). What the coordinator has said is remembered (``Save``), so that it says the same after a restart.

Users register too, and are told which broker serves them; brokers report their load, and are told who is to move
(``balancing.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tidewire.coordinator.balancing import Balancing, together
from tidewire.coordinator.config import Decides
from tidewire.coordinator.foreign import Foreign, ForeignBroker
from tidewire.coordinator.users import Users, chosen
from tidewire.identity.guard import Guard, Trust
from tidewire.model.chance import Chance
from tidewire.model.errors import (
    NotAuthenticated,
    NotPermitted,
    PeerError,
    SameName,
    TidewireError,
    Unavailable,
    UsageError,
)
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import (
    AskMembers,
    Assigned,
    Bye,
    DeclaredRole,
    Done,
    Hello,
    Member,
    Members,
    Message,
    Ping,
    Pong,
    Refused,
    Register,
    Status,
)
from tidewire.model.notes import Note
from tidewire.model.placement_messages import (
    AskBalance,
    BrokerFound,
    Migrated,
    RegisterBroker,
    RegisterUser,
    ReportFor,
    ReportLoad,
    RequestBroker,
    WantReports,
)
from tidewire.placement.choices import Candidate, Location, placement
from tidewire.wire.connections import Close, Closed, Heard, Opened, Send, TimePassed
from tidewire.wire.liveness import Liveness, answer

GONE_AFTER_S: Final = 10.0
"""A broker that has not been connected for so long is not waited for: its edges get another head."""


CoordinatorEvent = Opened | Closed | Heard | TimePassed | Trust


class Saved(msgspec.Struct, forbid_unknown_fields=True):
    """What is remembered."""

    brokers: list[Known]
    users: list[str] = []
    foreign: list[ForeignBroker] = []


class Save(msgspec.Struct, frozen=True):
    """Make this durable: it is handed back at the next start."""

    document: bytes


CoordinatorEffect = Send | Close | Save | Note


class Known(msgspec.Struct):
    """A broker as it is remembered."""

    broker: BrokerId
    address: str
    declared: DeclaredRole
    incarnation: int
    neighbours: list[BrokerId] = []
    """Those that it was told to connect to."""

    certificate: str | None = None
    """The fingerprint of what it showed when it last registered."""

    location: Location | None = None
    """Where it says it is."""


Question = AskMembers | AskBalance | RegisterUser | RequestBroker | RegisterBroker | ReportFor

ACTS: Final[dict[type[Question], str]] = {
    AskMembers: "observe",
    AskBalance: "observe",
    RegisterUser: "register",
    RequestBroker: "request",
    RegisterBroker: "register a broker",
    ReportFor: "report for a broker",
}


def read_saved(document: bytes | None) -> Saved:
    """What was remembered; ValueError if it cannot be read. Before there were users it was a list of brokers."""
    if document is None:
        return Saved([])
    found: Saved | list[Known] = msgspec.json.decode(document, type=Saved | list[Known])
    return found if isinstance(found, Saved) else Saved(found)


def _location(place: tuple[float, float] | None) -> Location | None:
    """UsageError if it is none."""
    return None if place is None else Location(lat=place[0], lon=place[1])


class CoordinatorCore:
    """All brokers of one network."""

    def __init__(
        self,
        saved: bytes | None = None,
        *,
        chance: Chance,
        heartbeat_s: float = 2.0,
        is_secured: bool = False,
        decides: Decides | None = None,
    ) -> None:
        known = read_saved(saved)
        decides = decides or Decides()
        self._known = {one.broker: one for one in known.brokers}
        self._decides = decides
        self.balancing = Balancing(decides)
        self.foreign = Foreign(known.foreign, decides)
        choices = [placement(decides.placement, chance=chance, seed=decides.placement_seed) for _ in range(2)]
        self.users = Users(known.users, choice=choices[0])
        self._choice = choices[1]
        """Of brokers for sessions, which cannot go where the wire is not spoken."""
        self._heartbeat_s = heartbeat_s
        self._guard = Guard(is_secured=is_secured)
        self._conns: dict[Conn, Liveness] = {}
        self._brokers: dict[Conn, BrokerId] = {}
        self._gone_ns: dict[BrokerId, int] = {}
        self._is_fresh = True

    def handle(self, event: CoordinatorEvent, *, now_ns: Nanoseconds) -> list[CoordinatorEffect]:
        """Something has happened: what is to be done?"""
        if self._is_fresh:  # those who are remembered get as long to come back as those who have just gone
            self._is_fresh = False
            self._gone_ns = dict.fromkeys(self._known, now_ns)
            self.foreign.begin(now_ns)
        return list(self._handle(event, now_ns))

    def deadline_ns(self) -> int | None:
        """When the machine wants to hear TimePassed."""
        times: list[int] = [liveness.deadline_ns() for liveness in self._conns.values()]
        times += [gone_ns + int(GONE_AFTER_S * 1e9) for gone_ns in self._gone_ns.values()]
        foreign_ns = self.foreign.deadline_ns()
        return min([*times, *([] if foreign_ns is None else [foreign_ns])], default=None)

    def members(self) -> list[Member]:
        """Everyone who is known."""
        connected = set(self._brokers.values())
        return [Member(one.broker, one.address, one.declared, one.broker in connected) for one in self._known.values()]

    def neighbours(self) -> dict[BrokerId, list[BrokerId]]:
        """Whom everyone who is connected was told to connect to."""
        return {broker: self._known[broker].neighbours for broker in self._brokers.values()}

    def _handle(self, event: CoordinatorEvent, now_ns: Nanoseconds) -> Iterator[CoordinatorEffect]:
        match event:
            case Opened(conn, _, peer, place):
                self._guard.opened(conn, peer, place=place)
                self._conns[conn] = Liveness(self._heartbeat_s, now_ns=now_ns)
            case Closed(conn):
                self._guard.closed(conn)
                self._conns.pop(conn, None)
                broker = self._brokers.pop(conn, None)
                if broker is not None and broker not in self._brokers.values():
                    self._gone_ns[broker] = now_ns
                    self.balancing.gone(broker)
            case Heard(conn, message) if conn in self._conns:
                self._conns[conn].heard(now_ns)
                yield from self._heard(conn, message, now_ns)
            case TimePassed():
                yield from self._tick(now_ns)
            case Trust():
                self._guard.trust(event, now_ns=now_ns)
                yield from self._see_off()

    def _heard(self, conn: Conn, message: Message, now_ns: Nanoseconds) -> Iterator[CoordinatorEffect]:
        match message:
            case Register():
                yield from self._may_register(conn, message, now_ns)
            case AskMembers() | AskBalance() | RegisterUser() | RequestBroker() | RegisterBroker() | ReportFor():
                yield from self._asked(conn, message, now_ns)
            case Hello():
                yield from self._greeted(conn, message, now_ns)
            case ReportLoad() | Migrated() if conn in self._brokers:
                yield from self._reported(conn, message, now_ns)
            case Ping():
                yield Send(conn, answer(message, now_ns=now_ns))
            case Pong():
                return
            case Bye():
                yield Close(conn)
            case _:
                reason = f"this is a coordinator: {type(message).__name__} is for a broker"
                yield Send(conn, Bye("protocol", reason, -1.0))
                yield Close(conn)

    def _asked(self, conn: Conn, question: Question, now_ns: Nanoseconds) -> Iterator[CoordinatorEffect]:
        try:
            if isinstance(question, AskMembers | AskBalance):
                self._guard.check(conn, question.identity, "observe", now_ns=now_ns)
            elif isinstance(question, RegisterBroker | ReportFor):
                self._guard.check(conn, question.identity, "operate", now_ns=now_ns)
            else:
                self._guard.identify(conn, question.identity, now_ns=now_ns)
            answers = self._answers(conn, question, now_ns)
        except TidewireError as error:
            yield Send(conn, Refused(question.request, error.code, error.message))
            if isinstance(error, NotAuthenticated | NotPermitted):
                yield from self._noted(ACTS[type(question)], conn, error, now_ns)
        else:
            yield from answers

    def _answers(self, conn: Conn, question: Question, now_ns: Nanoseconds) -> list[CoordinatorEffect]:
        match question:
            case AskMembers(request):
                return [Send(conn, Members(request, self.members()))]
            case AskBalance(request):
                view = together(self.balancing.view(), self.foreign.view())
                return [Send(conn, Status(request, msgspec.json.encode(view)))]
            case RegisterUser(request, user):
                save = [self._save()] if self.users.register(user) else []
                return [*save, Send(conn, Done(request))]
            case RequestBroker(request, user, place):
                candidates = [*self._candidates(), *self.foreign.candidates()]
                broker = self.users.choose(user, candidates, _location(place))
                address = self.foreign.address_of(broker) if broker in self.foreign else self._known[broker].address
                return [Send(conn, BrokerFound(request, broker, address))]
            case RegisterBroker(request, broker, _, place):
                self._refuse_ours(broker)
                save = [self._save()] if self.foreign.register(question, _location(place), now_ns=now_ns) else []
                return [*save, Send(conn, Status(request, msgspec.json.encode(self.foreign.answer())))]
            case ReportFor(request, broker, report):
                self._refuse_ours(broker)
                told, notes = self.foreign.reported(broker, report, now_ns=now_ns)
                return [Send(conn, Status(request, msgspec.json.encode(told))), *notes]

    def _refuse_ours(self, broker: BrokerId) -> None:
        """SameName if it is one that speaks the wire: it registers and reports by itself."""
        if any(one.broker == broker for one in self._present()):
            raise SameName(
                f"a broker called {broker!r}, at {self._known[broker].address}, speaks the wire, and registers and"
                " reports by itself: names must differ"
            )

    def _greeted(self, conn: Conn, hello: Hello, now_ns: Nanoseconds) -> Iterator[CoordinatorEffect]:
        """A session asks whom to go to. It need not have registered: who it is, its broker asks again."""
        try:
            self._guard.identify(conn, hello.identity, now_ns=now_ns)
            broker = chosen(self._choice, self._candidates(), _location(hello.location), who=hello.name)
            yield Send(conn, BrokerFound(0, broker, self._known[broker].address))
        except TidewireError as error:
            yield Send(conn, Bye(error.code, error.message, 1.0 if isinstance(error, Unavailable) else -1.0))
            if isinstance(error, NotAuthenticated):
                yield from self._noted("connect", conn, error, now_ns)
        yield Close(conn)

    def _candidates(self) -> list[Candidate]:
        """Brokers that take subscribers: edges; where there is none, all."""
        connected = set(self._brokers.values())
        there = [one for one in self._known.values() if one.broker in connected]
        edges = [one for one in there if one.declared == "edge"] or there
        loads = self.balancing.loads() if self._decides.placement == "least-loaded" else {}
        return [
            Candidate(
                broker=one.broker,
                location=self._decides.locations.get(one.broker, one.location),
                load=loads.get(one.broker, 0.0),
            )
            for one in edges
        ]

    def _reported(self, conn: Conn, message: ReportLoad | Migrated, now_ns: Nanoseconds) -> Iterator[CoordinatorEffect]:
        broker = self._brokers[conn]
        if isinstance(message, Migrated):
            self.balancing.migrated(broker, message)
            return
        try:
            self.balancing.check(message)
        except PeerError as error:
            yield Send(conn, Bye(error.code, error.message, 1.0))
            yield Close(conn)
            return
        addresses = {one.broker: one.address for one in self._known.values()}
        found = self.balancing.reported(broker, message, addresses, now_ns=now_ns)
        conns = {name: conn for conn, name in self._brokers.items()}
        for name, order in found.orders.items():
            yield Send(conns[name], order)
        yield from found.notes

    def _may_register(self, conn: Conn, register: Register, now_ns: Nanoseconds) -> Iterator[CoordinatorEffect]:
        try:
            self._guard.check_broker(conn, register.broker)
            place = _location(register.location)
        except UsageError as error:
            yield Send(conn, Bye(error.code, error.message, -1.0))
            yield Close(conn)
            yield from self._noted("register", conn, error, now_ns)
        else:
            yield from self._registered(conn, register, place)

    def _noted(self, act: str, conn: Conn, error: TidewireError, now_ns: Nanoseconds) -> Iterator[Note]:
        """For the log, once in a while."""
        news = self._guard.news(conn, error.message, now_ns=now_ns)
        if news is not None:
            yield Note("refused", {"act": act, **news})

    def _see_off(self) -> Iterator[CoordinatorEffect]:
        """Those whose certificates are no longer good have to go; no broker that is one of them is a neighbour."""
        for conn, flaw in self._guard.flawed():
            self._brokers.pop(conn, None)
            yield Send(conn, Bye(NotAuthenticated.code, flaw, -1.0))
            yield Close(conn)
        connected = self._brokers.values()
        gone = [
            one.broker
            for one in self._known.values()
            if one.certificate is not None and self._guard.has_revoked(one.certificate) and one.broker not in connected
        ]
        for broker in gone:
            del self._known[broker]
            self._gone_ns.pop(broker, None)
            yield Note("forgotten", {"broker": broker, "why": "its certificate has been revoked"})
        if gone:
            yield from self._arrange()

    def _registered(self, conn: Conn, register: Register, place: Location | None) -> Iterator[CoordinatorEffect]:
        if register.broker in self.foreign:
            where = self.foreign.address_of(register.broker)
            reason = f"a broker called {register.broker!r} has registered by a call, at {where}: names must differ"
            yield Send(conn, Bye(SameName.code, reason, 5.0))
            yield Close(conn)
            return
        known = self._known.get(register.broker)
        other = next((c for c, name in self._brokers.items() if name == register.broker and c != conn), None)
        if other is not None and known is not None and known.incarnation != register.incarnation:
            reason = f"a broker called {register.broker!r} is running at {known.address}: names must differ"
            yield Send(conn, Bye(SameName.code, reason, 5.0))
            yield Close(conn)
            return
        self._brokers[conn] = register.broker
        self._gone_ns.pop(register.broker, None)
        neighbours = known.neighbours if known is not None else []
        self._known[register.broker] = Known(
            register.broker,
            register.address,
            register.declared,
            register.incarnation,
            neighbours,
            self._guard.certificate_of(conn),
            place,
        )
        yield from self._arrange()
        if self.balancing.wants_reports:
            yield Send(conn, WantReports(self._decides.balance.cycle_s, self._decides.report_samples))

    def _tick(self, now_ns: Nanoseconds) -> Iterator[CoordinatorEffect]:
        for conn, liveness in self._conns.items():
            if liveness.is_dead(now_ns):
                yield Close(conn)
            elif ping := liveness.ping(now_ns):
                yield Send(conn, ping)
        forgotten = self.foreign.gone(now_ns)
        yield from (Note("forgotten", {"broker": broker, "why": "it has not called"}) for broker in forgotten)
        if forgotten:
            yield self._save()
        gone = [broker for broker, since_ns in self._gone_ns.items() if now_ns >= since_ns + int(GONE_AFTER_S * 1e9)]
        for broker in gone:
            del self._gone_ns[broker]
        if gone:
            yield from self._arrange()

    # -- who should be connected to whom -------------------------------------------------------------------------------

    def _present(self) -> list[Known]:
        """Those who are connected, or have been a moment ago."""
        connected = set(self._brokers.values())
        return [one for one in self._known.values() if one.broker in connected or one.broker in self._gone_ns]

    def _arrange(self) -> Iterator[CoordinatorEffect]:
        """Give everyone who has no neighbour to connect to one, if there is one; tell all who are connected."""
        present = {one.broker: one for one in self._present()}
        placed: list[Known] = []
        changed = False
        for one in present.values():
            wanted = [name for name in one.neighbours if name in present]
            if not wanted:
                found = self._neighbour_for(one, placed)
                wanted = [] if found is None else [found.broker]
            changed |= wanted != one.neighbours
            one.neighbours = wanted
            if one.declared != "edge":
                placed.append(one)
        for conn, broker in self._brokers.items():
            addresses = [present[name].address for name in present[broker].neighbours]
            yield Send(conn, Assigned(addresses))
        if changed or present:
            yield self._save()

    def _save(self) -> Save:
        saved = Saved(list(self._known.values()), self.users.names(), self.foreign.all())
        return Save(msgspec.json.encode(saved))

    def _neighbour_for(self, one: Known, placed: list[Known]) -> Known | None:
        """The head to join: of those that are part of the tree already, the one with the fewest neighbours."""
        heads = [other for other in placed if other.declared == "head"] or placed[:1]
        if one.declared == "edge" and not heads:
            heads = [other for other in self._present() if other.declared != "edge"]
        heads = [other for other in heads if other is not one]

        def degree(head: Known) -> int:
            return sum(head.broker in other.neighbours for other in self._known.values()) + len(head.neighbours)

        return min(heads, key=degree, default=None)
