"""What does a broker do about its load where the head decides? Its agent, as edge or head, and the rest of the broker.

The agent says whom to tell what and who moves; here that becomes bulletins and moves of clients, by the one way in
which clients move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import dist, inf
from typing import Final

import msgspec

from tidewire.balancing.bulletins import Pass
from tidewire.balancing.drd.answers import (
    Answer,
    Compared,
    MoveClients,
    NothingFound,
    Say,
    SessionEnded,
    Tell,
    WantProfile,
)
from tidewire.balancing.drd.edge_agent import EdgeAgent
from tidewire.balancing.drd.head_agent import HeadAgent
from tidewire.balancing.drd.loads import Load
from tidewire.balancing.drd.policies import policy
from tidewire.balancing.load import Sample
from tidewire.balancing.record import Record
from tidewire.broker.balance_documents import BalanceStatus
from tidewire.broker.balancing_parts import Parts
from tidewire.broker.bundling import Bundling, InputRates, Turns
from tidewire.broker.driven_documents import indices_of, next_step, reading_of, status_of
from tidewire.broker.effects import CountInput, Effect, KeepSamples, Note
from tidewire.broker.events import Counted, Measured, Sampled
from tidewire.broker.post import Post
from tidewire.model.balance_messages import Bulletin, SessionId
from tidewire.model.errors import Unavailable
from tidewire.model.geography import unit_vector
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import Status, Use
from tidewire.model.offload_messages import Amounts, Busy, Metric, OffloadDone, OffloadPayload
from tidewire.placement.choices import Location
from tidewire.wire.connections import Send

WARM: Final = 0.1
"""From so little below the lower threshold on it is looked who is here, every so often: then it is known at once."""
DONE_MIN: Final = 20
"""Fewer events in a period say nothing about how long one takes."""


class DrivenBalancing:
    """A broker's part; none, as long as it is neither head nor edge."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._config = parts.config
        self._links = parts.links
        self._clients = parts.clients
        self._policy = policy(parts.config.balancing, parts.config.drd, chance=parts.chance)
        self.edge: EdgeAgent | None = None
        self.head: HeadAgent | None = None
        self._post = Post(parts.config.broker, life=parts.life)
        self._bundling = Bundling(parts)
        self._rates = InputRates()
        self._record = Record()
        self._last: Sample | None = None
        self._turns = Turns(parts.config.drd)
        self._sampling: SessionId | None = None
        self._samplings = 0
        self._wanted: SessionId | None = None
        """The session that waits for a profile."""
        self._changed_ns: Nanoseconds | None = None
        self.nothing_found: dict[tuple[BrokerId, Metric], None] = {}
        """For whom there was no room anywhere, of what, since somebody last asked."""

    def deadline_ns(self) -> int | None:
        """When something is due next."""
        return min((d for one in (self.edge, self.head) if one and (d := one.deadline_ns()) is not None), default=None)

    def has_found_nobody(self) -> bool:
        """Since this was last asked: was there an overload that nobody at all could take (epeer §2.10)?"""
        found, self.nothing_found = self.nothing_found, {}
        return bool(found)

    # -- what is measured ----------------------------------------------------------------------------------------------

    def handle(self, event: Measured | Sampled | Counted, *, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What the node has measured, kept or counted."""
        match event:
            case Measured():
                yield from self._measured(event, now_ns)
            case Sampled(session, samples):
                if session == self._sampling:
                    self._sampling = None
                    self._turns.add(samples, now_ns)
                    yield from self._profiled(now_ns)
            case Counted(bytes_in):
                self._rates.counted(bytes_in, now_ns)
                yield from self._profiled(now_ns)

    def _measured(self, event: Measured, now_ns: Nanoseconds) -> Iterator[Effect]:
        last, sample = self._last, event.sample
        period_ns = int(self._config.drd.period_s * 1e9)
        if last is not None and sample.at_ns - last.at_ns < 0.9 * period_ns:
            return
        self._last = sample
        if last is None:
            return
        load, since_ns = self._load(last, sample, event), Nanoseconds(last.at_ns)
        if self.edge is not None:
            self._bundling.look()
            told = self.edge.measured(load, classes=self._bundling.here(), since_ns=since_ns)
            yield from self._done(told, now_ns)
            self._links.is_full = self.edge.state in ("HIGH", "OVERLOAD")
            if load.highest >= self._config.drd.low - WARM and self._sampling is None:
                yield self._sample(now_ns)
        elif self.head is not None:
            told = self.head.measured(load, since_ns=since_ns, now_ns=now_ns)
            yield from self._done(told, now_ns)
            if load.highest >= self._config.drd.low - WARM:
                yield CountInput(self._clients.using("publish"))
            else:
                self._rates.forget()

    def _load(self, last: Sample, sample: Sample, event: Measured) -> Load:
        """Of the last period alone: the agent smooths."""
        seconds = (sample.at_ns - last.at_ns) / 1e9
        used = Amounts(
            (sample.bytes_in - last.bytes_in) / seconds,
            (sample.bytes_out - last.bytes_out) / seconds,
            max(0, sample.events_in - last.events_in) / seconds,
        )
        config = self._config
        matching = inf if self.head is not None else config.matching_events_s or self._matched(last, sample, event)
        return Load(used, Amounts(config.input_bytes_s, config.output_bytes_s, matching))

    def _matched(self, last: Sample, sample: Sample, event: Measured) -> float:
        """Events per second that it could match, by how long one takes."""
        done = sample.events_done - last.events_done
        delay_s = event.load.matching_delay_s
        if done >= DONE_MIN:
            delay_s = (sample.busy_ns - last.busy_ns) / 1e9 / self._config.cpu_share / done
        return 1 / delay_s if delay_s > 0 else inf

    # -- who is here ---------------------------------------------------------------------------------------------------

    def _sample(self, now_ns: Nanoseconds) -> Effect:
        self._samplings += 1
        self._sampling = SessionId(self._config.broker, self._parts.life, self._samplings)
        drd = self._config.drd
        return KeepSamples(self._sampling, drd.profile_samples, Nanoseconds(now_ns + int(drd.profile_s * 1e9)))

    def _want_profile(self, session: SessionId, now_ns: Nanoseconds) -> Iterator[Effect]:
        self._wanted = session
        yield from self._profiled(now_ns)
        if not self._is_waiting():
            return
        if self.edge is not None and self._sampling is None:
            yield self._sample(now_ns)
        elif self.head is not None:
            yield CountInput(self._clients.using("publish"))

    def _is_waiting(self) -> bool:
        return self._wanted is not None

    def _profiled(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """If somebody waits to know who is here, and it is known."""
        session = self._wanted
        if session is None:
            return
        if self.edge is not None and self.edge.load is not None:
            samples = self._turns.together(now_ns)
            if samples is not None:
                self._wanted = None
                bundles = self._bundling.subscribers(
                    samples, self.edge.load.used, staying=self._staying(), head=self.edge.head
                )
                yield from self._done(self.edge.profiled(session, bundles, now_ns=now_ns), now_ns)
        elif self.head is not None and self._rates.rates:
            self._wanted = None
            bundles = self._bundling.publishers(self._rates.rates, staying=self._staying())
            yield from self._done(self.head.profiled(session, bundles, now_ns=now_ns), now_ns)

    def _staying(self) -> dict[Conn, None]:
        """Those that are on their way, or served elsewhere already."""
        leaving = dict.fromkeys(self._clients.leaving())
        return leaving | dict.fromkeys(self._clients.moving())

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def heard(self, conn: Conn, bulletin: Bulletin, *, now_ns: Nanoseconds) -> Iterator[Effect]:
        """A neighbour has said something about load."""
        lane, agent = self._links.lane_of(conn), self.edge or self.head
        if lane is None or agent is None:
            return
        _count(self._record.bulletins_heard, bulletin)
        letter, passes = self._post.heard(bulletin, came_from=lane[0].broker)
        for one in passes:
            yield from self._send(one)
        if letter is not None:
            self._count_guests(letter.payload)
            yield from self._done(agent.heard(letter.payload, letter.sender, now_ns=now_ns), now_ns)

    def _count_guests(self, payload: OffloadPayload) -> None:
        """Clients that come to us."""
        if isinstance(payload, Busy):
            self._record.sessions_accepted += 1
        elif isinstance(payload, OffloadDone) and not self.is_donor:
            self._record.moved_here += dict(payload.arrived).get(self._config.broker, 0)

    def neighbours_changed(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """Neighbours, or what they and we are, may have changed."""
        role, life = self._links.role, self._parts.life
        if self.edge is not None and role != "edge":
            yield from self._done(self.edge.connected(None, now_ns=now_ns), now_ns)
            self.edge = None
        if self.head is not None and role != "head":
            yield from self._done(self.head.give_up("it is no head any more"), now_ns)
            self.head = None
        heads = sorted(self._neighbours("head"))
        if role == "edge":
            self.edge = self.edge or EdgeAgent(self._config.broker, self._policy, place=self._place())
            head = BrokerId(heads[0]) if heads else None
            self._post.as_edge(head)
            yield from self._done(self.edge.connected(head, now_ns=now_ns), now_ns)
        elif role == "head":
            edges = self._neighbours("edge")
            if self.head is None:
                automatic = self._config.balance.automatic
                self.head = HeadAgent(
                    self._config.broker, self._policy, address=self._config.address, life=life, is_automatic=automatic
                )
            self._post.as_head(edges, heads)
            yield from self._done(self.head.connected(edges, heads, now_ns=now_ns), now_ns)

    def _neighbours(self, role: str) -> dict[BrokerId, str]:
        """Those that stay, and where clients reach them."""
        return {
            one.broker: one.address
            for one in self._links.up()
            if one.about is not None and one.about.role == role and not one.about.is_leaving
        }

    def _place(self) -> tuple[float, float] | None:
        location = self._config.location
        return None if location is None else (location.lat, location.lon)

    def tick(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What is due."""
        for agent in (self.edge, self.head):
            if agent is not None:
                yield from self._done(agent.tick(now_ns), now_ns)

    def moves_ended(self, ended: Sequence[tuple[Conn, bool]], now_ns: Nanoseconds) -> list[Effect]:
        """Clients have gone where they were sent, or stay."""
        agent = self.edge or self.head
        if agent is None:
            return []
        answers = [one for conn, went in ended for one in agent.moved(conn, is_moved=went, now_ns=now_ns)]
        return list(self._done(answers, now_ns))

    def warnings(self) -> list[Note]:
        """Nothing is unwise that is allowed."""
        return []

    # -- newcomers -----------------------------------------------------------------------------------------------------

    def placed(self, wanted: Sequence[bytes], location: Location | None, now_ns: Nanoseconds) -> str | None:
        """Which edge does a newcomer get? Only a head knows."""
        if self.head is None:
            return None
        keys = list(dict.fromkeys(self._bundling.classes.of_filter(one) for one in wanted))
        edge = self.head.place(keys, self._distances(location), now_ns=now_ns)
        return None if edge is None else self.head.cluster.addresses.get(edge)

    def _distances(self, location: Location | None) -> dict[BrokerId, float]:
        """As the crow flies: what it takes to get there grows with it."""
        if location is None or self.head is None:
            return {}
        here = unit_vector(location.lat, location.lon)
        places = self.head.cluster.places()
        return {edge: dist(here, unit_vector(*place)) for edge, place in places.items()}

    # -- what is to be done --------------------------------------------------------------------------------------------

    def _done(self, answers: Iterable[Answer], now_ns: Nanoseconds) -> Iterator[Effect]:
        for answer in answers:
            match answer:
                case Say(to, cluster, payload):
                    for one in self._post.say(payload, to=to, cluster=cluster):
                        yield from self._send(one)
                case Tell(payload):
                    for one in self._post.say(payload):
                        yield from self._send(one)
                case WantProfile(session):
                    yield from self._want_profile(session, now_ns)
                case MoveClients():
                    yield from self._move(answer, now_ns)
                case NothingFound(broker, metric):
                    self._record.calls_for_help += 1
                    self.nothing_found[broker, metric] = None
                case SessionEnded(_, moved, stayed):
                    self._changed_ns = now_ns
                    self._turns.forget()
                    self._record.gave("moved" if moved else "failed", moved=moved, stayed=stayed)
                case Compared(predicted, measured):
                    self._record.compared(indices_of(predicted), reading_of(measured))
                case Note():
                    yield answer

    def _send(self, passed: Pass) -> Iterator[Effect]:
        for one in self._links.up():
            if one.broker == passed.neighbour and "control" in one.lanes:
                _count(self._record.bulletins_sent, passed.bulletin)
                yield Send(one.lanes["control"], passed.bulletin, "control")

    def _move(self, move: MoveClients, now_ns: Nanoseconds) -> Iterator[Effect]:
        use: Use = "subscribe" if move.side == "subscribers" else "publish"
        for number in move.clients:
            conn = Conn(number)
            effects = (
                self._clients.move(conn, use, broker=move.to, address=move.address, now_ns=now_ns)
                if conn in self._clients
                else []
            )
            yield from effects
            if not effects:
                self._clients.moves_ended.append((conn, False))

    # -- people --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Can it be steered here? Unavailable if not."""
        if self.edge is None and self.head is None:
            raise Unavailable(f"{self._config.broker} is neither head nor edge: it has nobody to balance with")

    def rebalance(self, conn: Conn, request: int, *, is_dry_run: bool, now_ns: Nanoseconds) -> Iterator[Effect]:
        """An operator wants a look now; or to know what would follow from one."""
        samples, bundles = self._turns.together(now_ns), None
        if self.edge is not None and self.edge.load is not None and samples is not None:
            bundles = self._bundling.subscribers(samples, self.edge.load.used, staying=self._staying(), head=None)
        step = next_step(
            self._config,
            self.edge,
            self.head,
            bundles=bundles,
            names=lambda one: self._clients.name_of(Conn(one)) if Conn(one) in self._clients else "",
            now_ns=now_ns,
        )
        yield Send(conn, Status(request, msgspec.json.encode(step)), "control")
        if not is_dry_run and self.head is not None:
            yield from self._done(self.head.look_now(now_ns), now_ns)

    def gone(self, conn: Conn) -> None:
        """Nobody waits here for an answer."""

    def status(self, *, now_ns: Nanoseconds) -> BalanceStatus:
        """How it goes."""
        return status_of(self._config, self.edge, self.head, self._record, now_ns=now_ns)

    @property
    def changed_ns(self) -> Nanoseconds | None:
        """When clients last went for the sake of the load."""
        return self._changed_ns

    @property
    def session(self) -> SessionId | None:
        """The one that this broker is in."""
        if self.edge is not None:
            return self.edge.session
        return None if self.head is None else self.head.session

    @property
    def partner(self) -> BrokerId | None:
        """With whom: the first, if they are several."""
        agent = self.edge or self.head
        return None if agent is None else next(iter(agent.partners), None)

    @property
    def is_donor(self) -> bool:
        """Is it the one that gives clients away?"""
        agent = self.edge or self.head
        return agent is not None and agent.is_donor

    def on_their_way(self, now_ns: Nanoseconds) -> list[Conn]:  # noqa: ARG002 - others need it
        """Clients that were sent away and are not there yet."""
        agent = self.edge or self.head
        return [] if agent is None else [Conn(one) for one in agent.on_their_way]


def _count(counts: dict[str, int], bulletin: Bulletin) -> None:
    counts[bulletin.traffic_class] = counts.get(bulletin.traffic_class, 0) + 1
