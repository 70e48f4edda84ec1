"""What does a broker do when there is not enough of everything? The least valuable gives way: epeer §2.10.

Every broker sums up what its subscribers think, and sends it up the trees that the events came by. The head that hosts
a publisher knows from that what it is worth, and tells all who get something of it. Each head decides for the brokers
of its own cluster, about all that comes there, and lets the heads of remote publishers know; a publisher keeps to the
least of all limits that are set for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from tidewire.broker.clients import Clients
from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Note, Step
from tidewire.broker.events import Weighed
from tidewire.broker.flows import Flow, OwnFlows, flow_key
from tidewire.broker.links import Links
from tidewire.broker.quench import Quenches
from tidewire.broker.rooms import OwnRoom, Rooms
from tidewire.broker.shortage_head import HeadShortage
from tidewire.broker.shortage_status import ShortageStatus
from tidewire.broker.streams import Streams
from tidewire.broker.trains import Trains
from tidewire.broker.voices import EdgeVoices, HeadVoices
from tidewire.broker.wanted_classes import ClassOverlap, WantedClasses
from tidewire.broker.ways import Ways
from tidewire.congestion.fdcc.intake import Intake, Voice
from tidewire.congestion.fdcc.selection import FlowKey
from tidewire.congestion.fdcc.utility import Judgement
from tidewire.congestion.fdcc.watch import Balanced, Unbalanced
from tidewire.identity.authority import EVERYONE
from tidewire.model.filters import encode_filter
from tidewire.model.ids import Conn, Nanoseconds, PubendId, TreeId
from tidewire.model.messages import Bye, Subscribe
from tidewire.model.routing_messages import Routes
from tidewire.model.shortage_messages import (
    FLOWS_MAX,
    AskOpinions,
    BudgetRoom,
    Carried,
    ClassWanted,
    FlowJudged,
    FlowsTold,
    FlowTold,
    Judged,
    LimitFlows,
    Offering,
    Opinion,
    Opinions,
    QuenchHeard,
    Room,
    SharedVoices,
    Train,
)
from tidewire.model.stream_messages import Follow
from tidewire.model.traffic import ClassKey
from tidewire.routing.router import Router
from tidewire.traffic.classes import Classes
from tidewire.wire.connections import Close, Send

FromClient = Opinions | Offering | QuenchHeard
FromNeighbour = Judged | FlowsTold | LimitFlows | Room | SharedVoices | Train | Carried
TOLD_AGAIN = 5
"""Flows of another broker that have not been told for so many periods are no more."""


def watch_for(config: BrokerConfig) -> Unbalanced:
    """When nobody can take a load over: at once where nobody balances, else when whoever does has had its time.

    Where heads balance, they say so earlier (``Shortage.nobody_helps``).
    """
    fdcc = config.fdcc
    if config.balancing == "never":
        return Unbalanced(threshold=fdcc.threshold_high, periods=fdcc.overloaded_periods)
    slow = round(config.balance.inert_s / config.load_every_s) if config.balancing == "peer" else 0
    patience = max(fdcc.balancing_periods, slow)
    return Balanced(threshold=fdcc.threshold_high, periods=patience, link_periods=fdcc.overloaded_periods)


class Shortage:
    """A broker's part; none, if it is not wanted. Methods return effects, and what the router says."""

    def __init__(
        self, config: BrokerConfig, router: Router, links: Links, clients: Clients, streams: Streams, own_tree: TreeId
    ) -> None:
        self.is_on = config.fdcc.policy == "fdcc"
        self._config = config
        self._router = router
        self._links = links
        self._clients = clients
        self._streams = streams
        self._own = own_tree
        self._ways = Ways(router, links, own_tree)
        classes = Classes(config.traffic)
        self._asks = AskOpinions(
            config.fdcc.feedback_s,
            config.traffic.attribute,
            [(key, encode_filter(wanted)) for key, wanted, _ in classes.configured()],
            config.fdcc.utility,
        )
        self._classes = classes
        overlap = ClassOverlap(classes, config.traffic.attribute)
        self._wanted = WantedClasses(overlap)
        self._intake = Intake(period_ns=int(config.fdcc.feedback_s * 1e9))
        self._room = OwnRoom(config)
        self._rooms = Rooms()
        self._watch = watch_for(config)
        self._flows = OwnFlows(own_tree)
        self._told: dict[TreeId, tuple[int, int, dict[int, list[FlowTold]]]] = {}
        """What other heads have said of what is published there: when, the number of the report, and by publisher."""
        self._period = 0
        self._voices, self._all_voices = EdgeVoices(), HeadVoices()
        self._trains = Trains(train_bytes=config.fdcc.train_bytes)
        self._quenches = Quenches(router, own_tree, ack_s=config.fdcc.quench_ack_s)
        self._head = HeadShortage(config, router, links, overlap, self._room, self._rooms)
        self._sent: dict[str, int] = {}
        self._heard: dict[str, int] = {}

    def deadline_ns(self) -> int | None:
        """When something is due next; the rest comes with the measurements."""
        return self._quenches.deadline_ns()

    def nobody_helps(self) -> None:
        """Whoever balances has found nobody to take an overloaded broker's load."""
        if isinstance(self._watch, Balanced):
            self._watch.nobody_helps()

    # -- clients -------------------------------------------------------------------------------------------------------

    def greeted(self, conn: Conn) -> list[Send]:
        """A client has come: it is asked what events are worth to it."""
        return [Send(conn, self._asks, "control")] if self.is_on and conn in self._clients else []

    def gone(self, conn: Conn) -> Iterable[Step]:
        """A connection has ended."""
        if not self.is_on:
            return []
        self._intake.gone(conn)
        self._wanted.gone(conn)
        self._flows.gone(conn)
        self._trains.gone(conn)
        self._voices.gone(conn)
        return [*self._all_voices.gone(conn), *self._quenches.gone(conn)]

    def widened(self, message: object, *, now_ns: Nanoseconds) -> Iterable[Step]:
        """Somebody is about to want more: publishers that are silent must know before that is confirmed."""
        if not self.is_on:
            return []
        match message:
            case Subscribe(_, _, filters):
                return list(self._quenches.widened(filters, now_ns=now_ns))
            case Follow(_, _, wanted):
                return list(self._quenches.widened([wanted], now_ns=now_ns))
            case Routes(tree, _, filters) if tree == self._own:
                return list(self._quenches.widened(filters, now_ns=now_ns))
        return []

    def said(self, conn: Conn, message: FromClient, *, now_ns: Nanoseconds) -> Iterable[Step]:
        """A client tells something. Who was not asked is not heard."""
        if not self.is_on:
            return []
        self._count(self._heard, message)
        match message:
            case Opinions(about):
                self._intake.said(
                    conn,
                    about,
                    voice=self._voice(conn),
                    weight=self._weight(conn),
                    may_know=lambda one: self._may_know(conn, one),
                    now_ns=now_ns,
                )
            case Offering(offers):
                self._flows.said(conn, offers)
            case QuenchHeard(token):
                return list(self._quenches.heard(conn, token))
        return []

    def _voice(self, conn: Conn) -> Voice:
        """An identity has one, whatever it opens; where nobody has one, every connection speaks for itself."""
        return Voice(self._owner(conn) or f"-{conn}")

    def _weight(self, conn: Conn) -> float:
        """What its identity is given, and no more than it wants itself."""
        said = [one.weight for one in self._clients.terms.of(conn, "subscribe").values() if one.weight is not None]
        return min([self._clients.identity_of(conn).permissions.grant.weight, *said])

    def _owner(self, conn: Conn) -> str:
        """The same for all of one identity; empty where nobody has one."""
        identity = self._clients.identity_of(conn)
        if identity is EVERYONE:
            return ""
        return blake2b(identity.name.encode(), digest_size=8).hexdigest()

    def _may_know(self, conn: Conn, opinion: Opinion) -> bool:
        """Does this publisher publish, at present, something that this subscriber wants?"""
        tree, kind = self._tree_of(opinion.source), ClassKey(opinion.traffic_class)
        if tree is None or not self._is_published(tree, opinion.publisher, kind):
            return False
        return self._wanted.wants(conn, self._router.subscriptions(conn).values(), kind)

    def _tree_of(self, source: int) -> TreeId | None:
        if PubendId(source) in self._streams.pubends:
            return self._own
        by_stream = self._streams.attending.tree_of(PubendId(source))
        if by_stream is not None:
            return by_stream
        return TreeId(source) if source == self._own or self._router.branch(TreeId(source)) is not None else None

    def _is_published(self, tree: TreeId, publisher: int, kind: ClassKey) -> bool:
        if tree == self._own:
            return self._flows.has(publisher, kind)
        known = self._told.get(tree)
        flows = [] if known is None else known[2].get(publisher, [])
        return any(one.traffic_class == kind and one.accepted_msgs_s > 0 for one in flows)

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def heard(self, conn: Conn, message: FromNeighbour, *, now_ns: Nanoseconds) -> Iterable[Step]:
        """A neighbour tells something."""
        lane = self._links.lane_of(conn)
        if not self.is_on or lane is None:
            return []
        self._count(self._heard, message)
        neighbour = lane[0]
        data, control = neighbour.lanes.get("data"), neighbour.lanes.get("control")
        if data is None or control is None:
            return []
        match message:
            case Judged(tree, flows):
                return self._judged(tree, flows, message)
            case FlowsTold(tree, number, flows):
                return self._heard_flows(data, tree, number, flows, message)
            case LimitFlows(tree, by, limits):
                if tree != self._own:
                    return list(self._ways.up(tree, message))
                self._flows.limited_by(by, limits)
            case Room(voices_came=came, voices_gone=gone):
                self._rooms.said(neighbour.broker, message)
                return list(self._all_voices.said(control, came, gone))
            case SharedVoices():
                self._voices.heard(control, message)
            case Train():
                return list(self._trains.came(data, control, message, now_ns=now_ns))
            case Carried():
                self._trains.carried(data, message, self._room.links.get(data))
        return []

    def _judged(self, tree: TreeId, flows: list[FlowJudged], message: Judged) -> Iterable[Step]:
        if tree != self._own:
            return list(self._ways.up(tree, message))
        for one in flows:
            key = flow_key(tree, one.publisher, ClassKey(one.traffic_class))
            self._head.controller.hear(key, Judgement(min(one.weighted, one.count), one.count))
        return []

    def _heard_flows(
        self, data: Conn, tree: TreeId, number: int, flows: list[FlowTold], message: FlowsTold
    ) -> Iterable[Step]:
        """Only from the parent in that tree; and on to all behind us."""
        branch = self._router.branch(tree)
        if branch is None or branch.tree.parent != data:
            return []
        _, known, by_publisher = self._told.get(tree, (0, -1, {}))
        if known != number:
            by_publisher = {}
        for one in flows:
            by_publisher.setdefault(one.publisher, []).append(one)
        self._told[tree] = self._period, number, by_publisher
        return list(self._ways.down(tree, message))

    # -- time ----------------------------------------------------------------------------------------------------------

    def weighed(self, event: Weighed, *, now_ns: Nanoseconds) -> Iterator[Step]:
        """A period has passed, and this is what was measured."""
        for step in self._weighed(event, now_ns):
            if isinstance(step, Send):
                self._count(self._sent, step.message)
            yield step

    def _weighed(self, event: Weighed, now_ns: Nanoseconds) -> Iterator[Step]:
        self._period += 1
        self._rooms.passed()
        self._told = {tree: one for tree, one in self._told.items() if self._period - one[0] <= TOLD_AGAIN}
        elapsed_s = self._room.measured(event.sample, event.links)
        who = {conn: (self._clients.publisher_of(conn), self._owner(conn)) for conn, _, _ in event.publishers}
        self._flows.measured(event.publishers, who, elapsed_s=elapsed_s)
        yield from self._sum_up()
        own = self._flows.flows()
        keys = dict.fromkeys(flow.traffic_class for flow in own)
        keys |= dict.fromkeys(ClassKey(one.traffic_class) for _, one in self._remote())
        subscribers = ((conn, self._router.subscriptions(conn).values()) for conn in self._clients.using("subscribe"))
        wanted = self._wanted.counts(subscribers, keys, self._voice)
        names = {one.lanes["data"]: one.broker for one in self._links.up()}
        budgets = list(self._room.budgets(names))
        is_short = self._watch.look({self._head.name(what): used / capacity for what, capacity, used in budgets})
        if self._links.role == "edge":
            yield from self._tell_head(budgets, wanted, is_short=is_short)
        yield from self._decide(own, wanted, budgets, is_short=is_short, now_ns=now_ns)
        if self._config.fdcc.quench:
            yield from self._quenches.look(self._clients.using("publish"))

    def tick(self, now_ns: Nanoseconds) -> Iterable[Step]:
        """Publishers that do not answer in time."""
        return list(self._quenches.overdue(now_ns=now_ns)) if self.is_on else []

    def _sum_up(self) -> Iterator[Step]:
        """What our subscribers think goes up the trees that the events came by."""
        by_tree: dict[TreeId, list[FlowJudged]] = {}
        for (source, publisher, kind), judged in self._intake.taken(self._voices.share).items():
            tree = self._tree_of(source)
            if tree == self._own:
                self._head.controller.hear(flow_key(tree, publisher, kind), judged)
            elif tree is not None:
                by_tree.setdefault(tree, []).append(FlowJudged(publisher, kind, judged.weighted, judged.count))
        for tree, flows in by_tree.items():
            for at in range(0, len(flows), FLOWS_MAX):
                yield from self._ways.up(tree, Judged(tree, flows[at : at + FLOWS_MAX]))

    def _remote(self) -> Iterator[tuple[TreeId, FlowTold]]:
        for tree, (_, _, by_publisher) in self._told.items():
            for flows in by_publisher.values():
                yield from ((tree, one) for one in flows)

    def _tell_head(
        self,
        budgets: list[tuple[str, float, float]],
        wanted: dict[ClassKey, tuple[int, int]],
        *,
        is_short: bool,
    ) -> Iterator[Step]:
        rooms = [BudgetRoom(what, capacity, used) for what, capacity, used in budgets if not what.startswith(">")]
        counts = [ClassWanted(kind, *each) for kind, each in list(wanted.items())[:FLOWS_MAX]]
        voices = dict.fromkeys(
            Voice(owner) for conn in self._clients.using("subscribe") if (owner := self._owner(conn))
        )
        for neighbour in self._links.up():
            if neighbour.about is not None and neighbour.about.role == "head" and "control" in neighbour.lanes:
                control = neighbour.lanes["control"]
                yield Send(control, Room(rooms, counts, is_short, *self._voices.news(control, voices)), "control")

    def _decide(
        self,
        own: list[Flow],
        wanted: dict[ClassKey, tuple[int, int]],
        budgets: list[tuple[str, float, float]],
        *,
        is_short: bool,
        now_ns: Nanoseconds,
    ) -> Iterator[Step]:
        """As head of a cluster, about all that comes there; and as the source of our publishers' tree, for them."""
        head = self._head
        if self._links.role != "edge":
            remote = list(self._remote())
            yield from head.decide(self._own, own, remote, wanted, budgets, is_short=is_short, now_ns=now_ns)
            for tree, set_for in head.for_others(remote):
                yield from self._ways.up(tree, LimitFlows(tree, self._config.broker, set_for[:FLOWS_MAX]))
            if head.controller.mode != "normal":
                for conn, meter in self._room.links.items():
                    if meter.capacity_bytes_s is not None and not meter.is_standing:
                        yield from self._trains.send(conn, capacity_bytes_s=meter.capacity_bytes_s)
        if not len(self._flows):
            return
        limits = head.least(own, self._flows.by_others())
        for conn, news in self._flows.news(limits, head.shares(own, self._streams.pubends)):
            yield Send(conn, news, "control")
        for conn in self._flows.beyond():
            yield from self._ended(conn)
        told = self._flows.told_down(self.utilities())
        for at in range(0, len(told), FLOWS_MAX):
            yield from self._ways.down(self._own, FlowsTold(self._own, self._period, told[at : at + FLOWS_MAX]))

    def _ended(self, conn: Conn) -> Iterator[Step]:
        reason = "you publish more than you were told you may, while there is not enough for all"
        yield Send(conn, Bye("overloaded", reason, 5.0), "control")
        yield Close(conn)
        yield Note("publisher ended", {"client": self._clients.name_of(conn), "why": reason})

    # -- people --------------------------------------------------------------------------------------------------------

    def utilities(self) -> dict[FlowKey, float]:
        """Of what is published here."""
        return {flow.key: self._head.controller.utility(flow.key) for flow in self._flows.flows()}

    def status(self) -> ShortageStatus | None:
        """How it goes; None if it is not wanted."""
        if not self.is_on:
            return None
        intake, head = self._intake, self._head
        return ShortageStatus(
            policy=self._config.fdcc.policy,
            mode=None if self._links.role == "edge" else head.controller.mode,
            flows=len(self._flows.flows()) + sum(1 for _ in self._remote()),
            limited=head.limited(self._flows.flows()),
            demand=head.demand,
            predicted=head.predicted,
            measured=head.measured,
            opinions_heard=intake.heard,
            opinions_ignored=intake.ignored_often + intake.ignored_unknown,
            quenched=self._quenches.count,
            publishers_ended=self._flows.ended + self._quenches.ended,
            triggers=head.triggers,
            messages_sent=dict(self._sent),
            messages_heard=dict(self._heard),
        )

    def _count(self, counts: dict[str, int], message: object) -> None:
        name = type(message).__name__
        counts[name] = counts.get(name, 0) + 1
