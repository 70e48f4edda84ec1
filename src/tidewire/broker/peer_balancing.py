"""What does a broker do about its load? PEER in the machine: its balancer, as edge or head, and the rest of the broker.

The balancer says whom to ask and who moves; here that becomes messages to neighbours and moves of clients, by the one
way in which clients move. Who is to move is decided by the offload algorithm of the session's action.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tidewire._kernel._native import Index
from tidewire.balancing.answers import Answer, BeginSampling, EndSampling, MoveClients, Rehearsed
from tidewire.balancing.bulletins import Pass
from tidewire.balancing.clientele import Clientele
from tidewire.balancing.edge_balancer import EdgeBalancer
from tidewire.balancing.head_balancer import HeadBalancer
from tidewire.balancing.load import CHANGED_SHARE, Capacity
from tidewire.balancing.mediator import Ourselves
from tidewire.balancing.offload import OFFLOADS
from tidewire.balancing.plans import OffloadSnapshot, Plan
from tidewire.balancing.press import Press, Profile
from tidewire.balancing.record import Record
from tidewire.balancing.reports import info_of, report_of
from tidewire.broker.balance_documents import (
    NAMES_MAX,
    BalanceStatus,
    NextStep,
    WouldMove,
    figures_of,
)
from tidewire.broker.balancing_parts import Parts
from tidewire.broker.effects import DropSamples, Effect, KeepSamples, Note
from tidewire.broker.events import Counted, Measured, Sampled
from tidewire.dataplane.protocol import Samples
from tidewire.model.balance_messages import Bulletin, LoadReport, SessionId
from tidewire.model.errors import BadConfiguration, Unavailable
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import Status
from tidewire.placement.choices import Location
from tidewire.wire.connections import Send


class PeerBalancing:
    """A broker's part in balancing where the edges decide; none, as long as it is neither head nor edge."""

    def __init__(self, parts: Parts) -> None:
        self._config = parts.config
        self._router = parts.router
        self._links = parts.links
        self._clients = parts.clients
        self._life = parts.life
        self._chance = parts.chance
        self.edge: EdgeBalancer | None = None
        self.head: HeadBalancer | None = None
        self._measured: Measured | None = None
        self._sampling: BeginSampling | None = None
        self._record = Record()
        self._clientele = Clientele()
        self._waiting: list[tuple[Conn, int]] = []
        """Operators who want to know what a session would do."""
        self._is_apart = False
        """Does it keep away from other clusters, because the thresholds do not allow them?"""

    def deadline_ns(self) -> int | None:
        """When something is due next."""
        parts = [part.next_deadline_ns() for part in (self.edge, self.head) if part is not None]
        return min((part for part in parts if part is not None), default=None)

    # -- what happens --------------------------------------------------------------------------------------------------

    def handle(self, event: Measured | Sampled | Counted, *, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What the node has measured, or kept."""
        if isinstance(event, Measured):
            self._measured = event
            if self.edge is not None:
                self.edge.measured(event.load, let_go_ns=self._clients.let_go_ns)
                self._look_at_clients()
                self._clientele.settle()
            return
        if isinstance(event, Counted):
            return
        sampling, self._sampling = self._sampling, None
        if self.edge is None or sampling is None or sampling.session != event.session:
            return
        if self._is_too_early(now_ns):
            self._sampling = sampling
            yield KeepSamples(event.session, self._config.balance.press_samples, sampling.until_ns)
            return
        plan = self._plan(self.edge, sampling, event.samples, now_ns)
        yield from self._done(self.edge.planned(event.session, plan, now_ns=now_ns), now_ns)

    def heard(self, conn: Conn, bulletin: Bulletin, *, now_ns: Nanoseconds) -> Iterator[Effect]:
        """A neighbour has said something about load. An edge that has measured nothing yet has nothing to say."""
        lane = self._links.lane_of(conn)
        part = self.head or (None if self._measured is None else self.edge)
        if lane is not None and part is not None:
            _count(self._record.bulletins_heard, bulletin)
            answers = part.heard(bulletin, came_from=lane[0].broker, now_ns=now_ns)
            yield from self._done(answers, now_ns)

    def neighbours_changed(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """Neighbours, or what they and we are, may have changed."""
        role = self._links.role
        if self.edge is not None and role != "edge":
            yield from self._done(self.edge.give_up("it is no edge any more", now_ns=now_ns), now_ns)
            self.edge = None
            yield from self._rehearsed(Rehearsed("it is no edge any more", {}, None, None), now_ns)
        if self.head is not None and role != "head":
            yield from self._done(self.head.give_up("it is no head any more", now_ns=now_ns), now_ns)
            self.head = None
        heads = sorted(self._neighbours("head"))
        if role == "edge":
            self.edge = self.edge or self._made_edge(now_ns)
            yield from self._done(self.edge.connected(heads[0] if heads else None, now_ns=now_ns), now_ns)
        elif role == "head":
            self.head = self.head or self._made_head(now_ns)
            edges = sorted(self._neighbours("edge"))
            yield from self._keep_apart(is_among_others=bool(heads))
            near = [] if self._is_apart else heads
            yield from self._done(self.head.connected(edges=edges, heads=near, now_ns=now_ns), now_ns)

    def _keep_apart(self, *, is_among_others: bool) -> Iterator[Effect]:
        """Thresholds with which clusters never come to rest are refused as soon as there is another one (peer D7)."""
        before = self._is_apart
        try:
            self._config.balance.warnings(clusters=2 if is_among_others else 1)
            self._is_apart = False
        except BadConfiguration as error:
            self._is_apart = True
            if not before:
                yield Note("does not balance with other clusters", {"why": error.message})

    def warnings(self) -> list[Note]:
        """What is unwise about the settings: to be told at the start (peer D7)."""
        found = self._config.balance.warnings(clusters=1)
        return [Note("settings are unwise", {"why": one}) for one in found]

    def _neighbours(self, role: str) -> list[BrokerId]:
        return [one.broker for one in self._links.up() if one.about is not None and one.about.role == role]

    def _made_edge(self, now_ns: Nanoseconds) -> EdgeBalancer:
        config = self._config
        ourselves = Ourselves(
            broker=config.broker,
            life=self._life,
            address=config.address,
            migration_timeout_s=config.migration_timeout_s,
        )
        edge = EdgeBalancer(
            ourselves,
            config.balance,
            chance=self._chance,
            report=self.report,
            record=self._record,
            now_ns=now_ns,
        )
        if self._measured is not None:
            edge.measured(self._measured.load)
        return edge

    def _made_head(self, now_ns: Nanoseconds) -> HeadBalancer:
        config = self._config
        return HeadBalancer(config.broker, config.balance, life=self._life, chance=self._chance, now_ns=now_ns)

    @property
    def changed_ns(self) -> Nanoseconds | None:
        """When clients last came or went for the sake of the load."""
        return None if self.edge is None else self.edge.changed_ns

    @property
    def session(self) -> SessionId | None:
        """The one that this broker is in."""
        return None if self.edge is None else self.edge.session

    @property
    def partner(self) -> BrokerId | None:
        """With whom."""
        return None if self.edge is None else self.edge.partner

    @property
    def is_donor(self) -> bool:
        """Is it the one that gives clients away?"""
        return self.edge is not None and self.edge.is_donor

    def on_their_way(self, now_ns: Nanoseconds) -> list[Conn]:
        """Clients that were sent away and are not there yet."""
        return [] if self.edge is None else self.edge.on_their_way(now_ns=now_ns)

    def placed(self, wanted: Sequence[bytes], location: Location | None, now_ns: Nanoseconds) -> str | None:  # noqa: ARG002
        """Where a newcomer is sent: anywhere (peer A4)."""
        return None

    def report(self) -> LoadReport:
        """How loaded this broker is, in full: what an acceptor tells its donor. It must have been measured."""
        assert self._measured is not None
        capacity = Capacity(self._config.output_bytes_s, self._config.memory_bytes, self._config.cpu_share)
        return report_of(self._measured.settled, self._measured.sample, capacity, self._router.told_upstream())

    def tick(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What is due."""
        for part in (self.edge, self.head):
            if part is not None:
                yield from self._done(part.tick(now_ns), now_ns)
        if self.edge is not None:
            self._links.is_full = self.edge.is_full

    def moves_ended(self, ended: Sequence[tuple[Conn, bool]], now_ns: Nanoseconds) -> list[Effect]:
        """Clients have gone where they were sent, or stay."""
        if self.edge is None:
            return []
        answers = [one for conn, went in ended for one in self.edge.moved(conn, is_moved=went, now_ns=now_ns)]
        return list(self._done(answers, now_ns))

    # -- people --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Can it be steered here? Unavailable if not."""
        if self.edge is None and self.head is None:
            raise Unavailable(f"{self._config.broker} is neither head nor edge: it has nobody to balance with")

    def rebalance(self, conn: Conn, request: int, *, is_dry_run: bool, now_ns: Nanoseconds) -> Iterator[Effect]:
        """An operator, who may, wants a look now; or to know what would follow from one. See ``check``."""
        if is_dry_run and self.edge is not None:
            self._waiting.append((conn, request))
            yield from self._done(self.edge.rehearse(now_ns), now_ns)
            return
        yield self._told(conn, request, self._next_step(now_ns))
        part = self.edge or self.head
        if not is_dry_run and part is not None:
            yield from self._done(part.look_now(now_ns), now_ns)

    def gone(self, conn: Conn) -> None:
        """This operator waits no longer."""
        if self._waiting:
            self._waiting = [one for one in self._waiting if one[0] != conn]

    def _told(self, conn: Conn, request: int, step: NextStep) -> Effect:
        return Send(conn, Status(request, msgspec.json.encode(step)), "control")

    def _rehearsed(self, rehearsed: Rehearsed, now_ns: Nanoseconds) -> Iterator[Effect]:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        step = msgspec.structs.replace(
            self._next_step(now_ns),
            declined={str(broker): condition for broker, condition in rehearsed.declined.items()},
            would_move=self._would_move(rehearsed),
            why=rehearsed.why,
        )
        yield from (self._told(conn, request, step) for conn, request in waiting)

    def _next_step(self, now_ns: Nanoseconds) -> NextStep:
        name, automatic = self._config.broker, self._config.balance.automatic
        if self.edge is not None:
            found = self.edge.preview(now_ns)
            return NextStep(
                broker=name,
                role="edge",
                is_automatic=automatic,
                condition=found.condition,
                verdict=found.verdict,
                smoothed=found.reading,
                known=list(found.known),
                partner=found.partner,
                candidates=list(found.candidates),
            )
        head = self.head
        seen = None if head is None else head.preview(now_ns)
        return NextStep(
            broker=name,
            role=self._links.role,
            is_automatic=automatic,
            condition="N/A" if head is None else head.condition,
            verdict="waits" if seen is None else seen.verdict,
            smoothed=None,
            known=[] if head is None else list(head.known(now_ns=now_ns)),
            partner=None if head is None else head.partner,
            candidates=[] if seen is None else list(seen.candidates),
        )

    def _would_move(self, rehearsed: Rehearsed) -> WouldMove | None:
        plan, candidate = rehearsed.plan, rehearsed.candidate
        if plan is None or candidate is None or not plan.moves:
            return None
        clients = [move.client for move in plan.moves]
        return WouldMove(
            acceptor=candidate.broker,
            action=candidate.action,
            clients=len(clients),
            names=[self._clients.name_of(conn) for conn in clients[:NAMES_MAX] if conn in self._clients],
            why=plan.reason,
            donor_before=figures_of(plan.before.donor),
            donor_after=figures_of(plan.predicted.donor),
            acceptor_before=figures_of(plan.before.acceptor),
            acceptor_after=figures_of(plan.predicted.acceptor),
        )

    def status(self, *, now_ns: Nanoseconds) -> BalanceStatus:
        """How it goes."""
        part = self.edge or self.head
        record = self._record
        return BalanceStatus(
            policy=self._config.balancing,
            is_automatic=self._config.balance.automatic,
            condition=None if part is None else part.condition,
            partner=None if part is None else part.partner,
            is_donor=self.edge is not None and self.edge.is_donor,
            smoothed=None if self.edge is None else self.edge.reading,
            known=[] if part is None else list(part.known(now_ns=now_ns)),
            sessions={str(outcome): count for outcome, count in record.sessions.items()},
            sessions_accepted=record.sessions_accepted,
            declined=record.declined,
            moved_away=record.moved_away,
            moved_here=record.moved_here,
            stayed=record.stayed,
            calls_for_help=record.calls_for_help,
            errors=record.errors(),
            bulletins_sent=dict(record.bulletins_sent),
            bulletins_heard=dict(record.bulletins_heard),
        )

    # -- what is to be done --------------------------------------------------------------------------------------------

    def _done(self, answers: Iterable[Answer], now_ns: Nanoseconds) -> Iterator[Effect]:
        for answer in answers:
            match answer:
                case Pass(neighbour, bulletin):
                    yield from self._send(neighbour, bulletin)
                case BeginSampling(session=session, until_ns=until_ns):
                    self._sampling = answer
                    yield KeepSamples(session, self._config.balance.press_samples, until_ns)
                case EndSampling():
                    self._sampling = None
                    yield DropSamples()
                case MoveClients():
                    yield from self._move(answer, now_ns)
                case Rehearsed():
                    yield from self._rehearsed(answer, now_ns)
                case _:
                    yield answer

    def _send(self, neighbour: BrokerId, bulletin: Bulletin) -> Iterator[Effect]:
        for one in self._links.up():
            if one.broker == neighbour and "control" in one.lanes:
                _count(self._record.bulletins_sent, bulletin)
                yield Send(one.lanes["control"], bulletin, "control")

    def _move(self, move: MoveClients, now_ns: Nanoseconds) -> Iterator[Effect]:
        for conn in move.clients:
            if conn in self._clients:
                yield from self._clients.move(conn, "subscribe", broker=move.to, address=move.address, now_ns=now_ns)
            else:
                self._clients.moves_ended.append((conn, False))

    def _plan(self, edge: EdgeBalancer, sampling: BeginSampling, samples: Samples, now_ns: Nanoseconds) -> Plan:
        donor = self.report()
        profile = self._profile(edge, sampling, samples, donor, now_ns)
        snapshot = OffloadSnapshot(
            is_overloaded=sampling.is_overloaded,
            to=sampling.acceptor,
            donor=info_of(donor).after(profile.leaving),
            acceptor=info_of(sampling.report),
            acceptor_filters=tuple(sampling.report.covering_set),
            profile=profile,
        )
        return OFFLOADS[sampling.action](self._config.balance).plan(snapshot, now_ns=now_ns)

    def _is_too_early(self, now_ns: Nanoseconds) -> bool:
        """Have clients just gone, who are still in what was measured, and of whom nothing is known any more?"""
        let_go_ns = self._clients.let_go_ns
        least_ns = int(self._config.balance.load_window_s * CHANGED_SHARE * 1e9)
        return let_go_ns is not None and now_ns < let_go_ns + least_ns

    def _profile(
        self, edge: EdgeBalancer, sampling: BeginSampling, samples: Samples, donor: LoadReport, now_ns: Nanoseconds
    ) -> Profile:
        press = Press(samples_max=max(1, len(samples.events)), until_ns=now_ns)
        acceptor_bits = wanted_bits(samples.events, sampling.report.covering_set)
        press.fill(len(samples.events), samples.wanted, acceptor_bits=acceptor_bits)
        self._look_at_clients()
        leaving = dict.fromkeys(self._clients.leaving())
        return press.profile(
            self._clientele,
            staying=[one for one in edge.on_their_way(now_ns=now_ns) if one not in leaving],
            leaving=leaving,
            input_rate=donor.input_rate,
            event_bytes=donor.event_bytes,
        )

    def _look_at_clients(self) -> None:
        """What those want whose subscriptions have changed."""
        for conn in self._router.changed_subscribers():
            wanted = self._router.subscriptions(conn).values() if conn in self._clients else ()
            self._clientele.wants(conn, tuple(sorted(wanted)))


def _count(counts: dict[str, int], bulletin: Bulletin) -> None:
    counts[bulletin.traffic_class] = counts.get(bulletin.traffic_class, 0) + 1


def wanted_bits(events: Sequence[bytes], filters: Sequence[bytes]) -> int:
    """Which of these events does one of the filters match? One bit for each, the lowest for the first."""
    index = Index(0, "")
    index.insert(array("I", [0] * len(filters)), array("I", range(len(filters))), list(filters))
    batch = b"".join(len(event).to_bytes(4, "little") + event for event in events)
    found = index.match(batch, limit=1).event_first
    return sum(1 << i for i in range(len(events)) if found[i + 1] > found[i])
