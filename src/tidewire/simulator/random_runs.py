"""One seed, one random network: topology with cycles, workload, faults, moves. Then: was every promise kept?

What ``trouble.py``, ``durability.py`` and ``sharing.py`` add is drawn apart, and so are deadlines, so that a *calm*
run, without it, is what its seed has always meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

import msgspec

from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.model.events import Envelope, make_event
from tidewire.model.messages import DeclaredRole, Use
from tidewire.model.values import Value
from tidewire.simulator import faults
from tidewire.simulator.checkers import check
from tidewire.simulator.costs import Measured
from tidewire.simulator.durability import Durability
from tidewire.simulator.sharing import Sharing
from tidewire.simulator.trouble import Deeds, Trouble
from tidewire.simulator.world import World

ACTIVE_S: Final = 10.0
LATENCIES_MS: Final = (0.1, 1, 5, 20, 80)
LIVES_S: Final = (None, None, None, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 600.0)
"""How long events are of use, where they say so."""
SYMBOLS: Final = ("A", "B", "C", "D")
COSTS: Final = Measured(call_ns=3_000, event_ns=400, doubling_ns=0, copy_ns=150, write_ns=0, message_ns=40_000)
"""Said here: what a seed means must not follow what some machine was measured at."""
WORTH_SHARE: Final = 0.25
"""In so many worlds brokers ask what events are worth, tell publishers that nobody wants theirs, and limit them."""
ROLES: Final[tuple[DeclaredRole, ...]] = ("auto", "head", "edge", "both")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one seed."""

    seed: int
    brokers: int
    clients: int
    publications: int
    deliveries: int
    expired: int
    """Events that were thrown away because they were late, one for each connection."""

    repeats: int
    moves: int
    faults: int
    simulated_s: float
    receipts: int
    """Guaranteed events that were acknowledged."""

    followed: int
    """What came to followers."""

    balanced: int
    """Clients that balancing moved."""

    digest: str
    violations: list[str] = []


class Summary(msgspec.Struct, kw_only=True):
    """What came of many."""

    runs: int = 0
    deliveries: int = 0
    violations: list[dict[str, str | int]] = []
    publications: int = 0
    expired: int = 0
    moves: int = 0
    faults: int = 0
    receipts: int = 0
    followed: int = 0
    balanced: int = 0


def replay_command(
    seed: int, *, engine: str = "reference", is_calm: bool = False, is_balanced: bool = False, policy: str = "peer"
) -> str:
    """What repeats this run, and nothing else."""
    choice = "" if engine == "reference" else f" --engine {engine}"
    more = (" --calm" if is_calm else "") + (" --balance" if is_balanced else "")
    more += f" --policy {policy}" if is_balanced and policy != "peer" else ""
    return f"tidewire sim --seeds {seed}..{seed}{choice}{more}"


def run_seeds(
    first: int,
    last: int,
    *,
    engine: str = "reference",
    is_calm: bool = False,
    is_balanced: bool = False,
    policy: str = "peer",
    on_progress: Callable[[Outcome], object] | None = None,
) -> Summary:
    """Run all seeds from first to last; ``violations`` says of each one what is wrong and how to see it again."""
    summary = Summary()
    for seed in range(first, last + 1):
        outcome = run_seed(seed, engine=engine, is_calm=is_calm, is_balanced=is_balanced, policy=policy)
        summary.runs += 1
        summary.deliveries += outcome.deliveries
        summary.publications += outcome.publications
        summary.expired += outcome.expired
        summary.moves += outcome.moves
        summary.faults += outcome.faults
        summary.receipts += outcome.receipts
        summary.followed += outcome.followed
        summary.balanced += outcome.balanced
        replay = replay_command(seed, engine=engine, is_calm=is_calm, is_balanced=is_balanced, policy=policy)
        summary.violations += [{"seed": seed, "what": what, "replay": replay} for what in outcome.violations]
        if on_progress is not None:
            on_progress(outcome)
    return summary


def run_seed(
    seed: int, *, engine: str = "reference", is_calm: bool = False, is_balanced: bool = False, policy: str = "peer"
) -> Outcome:
    """One run; ``is_balanced``: in which brokers share their load, by this policy."""
    run = RandomRun(seed, engine=engine, is_calm=is_calm, is_balanced=is_balanced, policy=policy)
    violations = run.play()
    world = run.world
    return Outcome(
        seed=seed,
        brokers=len(world.brokers),
        clients=len(world.clients),
        publications=world.publications.events,
        deliveries=sum(one.count for client in world.clients.values() for one in client.receipts),
        expired=sum(host.expired for host in world.brokers.values()),
        repeats=sum(len(client.repeats) for client in world.clients.values()),
        moves=sum(told.what == "moved" for client in world.clients.values() for _, told in client.told),
        faults=run.faults,
        simulated_s=world.agenda.now_s,
        receipts=sum(one.is_receipted for client in world.clients.values() for one in client.promised.values()),
        followed=sum(len(one.received) for client in world.clients.values() for one in client.followed.values()),
        balanced=run.balanced,
        digest=world.network.digest(),
        violations=violations,
    )


class RandomRun:
    """A world that a seed has made."""

    def __init__(
        self,
        seed: int,
        *,
        engine: str = "reference",
        is_calm: bool = False,
        is_balanced: bool = False,
        policy: str = "peer",
    ) -> None:
        self.chance = Random(f"{seed}/run")
        self.world = World(seed, engine=engine, costs=COSTS, wrong_clocks=True)
        self._trouble = None if is_calm else Trouble(self.world, seed)
        self._durability = None if is_calm else Durability(self.world, seed)
        self._sharing = Sharing(self.world, seed, policy=policy) if is_balanced else None
        asks = Random(f"{seed}/worth").random() < WORTH_SHARE
        self._worth: dict[str, Any] = {"fdcc": FdccConfig(policy="fdcc")} if asks else {}
        self.faults = 0
        self._hurry = Random(f"{seed}/deadlines")
        self._has_deadlines = not is_calm and self._hurry.random() < 0.5
        self._flows = Random(f"{seed}/flows")
        self._broken_until = 0.0
        self._pairs: dict[tuple[str, str], None] = {}
        """Brokers between which something can go wrong."""
        self._publishers: dict[str, str | None] = {}
        """And what they advertise; None: anything."""
        self._subscribers: list[str] = []

    def play(self) -> list[str]:
        """Let it happen; what went wrong?"""
        self._build()
        self.world.keep_looking()
        self.world.run(1.0)
        self._populate()
        self.world.run(1.0)
        for at_s, action in sorted(self._script(), key=lambda item: item[0]):
            self.world.at(at_s, action)
        self.world.run(ACTIVE_S)
        self.world.run(max(0.0, self._broken_until - self.world.agenda.now_s))
        if not self.world.settle():
            return [f"it does not settle: {what}" for what in self.world.unsettled()]
        self.world.drain()
        self._publish_some(rounds=2)
        self.world.run(self.world.flight_ns / 1e9 + 0.5)
        if self._durability is not None:
            self._durability.wait_for_followers()
        still_busy = [] if self._sharing is None else self._sharing.still_busy()
        return still_busy + check(self.world)

    @property
    def balanced(self) -> int:
        """Clients that balancing has moved."""
        return 0 if self._sharing is None else self._sharing.moved()

    # -- what there is -------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        chance, world = self.chance, self.world
        count = chance.choice((1, 2, 2, 3, 3, 4, 5, 6, 7, 8))
        names = [f"B{i}" for i in range(count)]
        style = chance.choice(("auto", "auto", "both", "mixed"))
        heartbeat_s = chance.choice((0.3, 0.5, 1.0))
        is_arranged = self._trouble is not None and self._trouble.begin(heartbeat_s=heartbeat_s)
        declared, clusters = ({}, None) if self._sharing is None else self._sharing.clusters()
        names = list(declared) or names
        for name in names:
            role: DeclaredRole = declared.get(name, "both" if style == "both" else "auto")
            if style == "mixed" and not declared:
                role = chance.choice(ROLES)
            options: dict[str, Any] = {
                "heartbeat_s": heartbeat_s,
                "covering": chance.random() < 0.8,
                "tree_memory_s": 20.0,
            }
            options |= {} if self._trouble is None else self._trouble.broker_options()
            options |= {} if self._durability is None else self._durability.broker_options()
            options |= {} if self._sharing is None else self._sharing.broker_options()
            options |= self._worth
            world.add_broker(name, role=role, **options)
        pairs = clusters or [(names[chance.randrange(i)], names[i]) for i in range(1, len(names))]
        for _ in range(chance.choice((0, 0, 1, 2, 3))):
            if len(names) > 2:
                a, b = sorted(chance.sample(names, 2))
                pairs.append((a, b))
        for a, b in dict.fromkeys(pairs):
            one, other = (a, b) if chance.random() < 0.5 else (b, a)
            world.network.path(a, b).set(chance.choice(LATENCIES_MS), mbps=chance.choice((None, 0.2, 1, 10)))
            is_double = chance.random() < 0.2
            self._pairs[(a, b) if a < b else (b, a)] = None
            if not is_arranged:
                world.link(one, other)
                if is_double:
                    world.link(other, one)

    def _populate(self) -> None:
        chance, world = self.chance, self.world
        names = list(world.brokers)
        for i in range(chance.randrange(2, 9)):
            known = chance.sample(names, min(len(names), chance.choice((1, 2, 3))))
            client = world.add_client(f"c{i}", *known, latency_ms=chance.choice(LATENCIES_MS))
            kind = chance.choice(("publish", "subscribe", "subscribe", "both"))
            if kind != "publish" or i == 0:
                self._subscribers.append(client.name)
                for number in range(chance.randrange(1, 4)):
                    client.subscribe(number, _filter(chance))
            if kind != "subscribe" or i == 1:
                offered = None if chance.random() < 0.6 else "symbol like '%' and price >= 0 and price < 100"
                self._publishers[client.name] = offered
                client.advertise(1, offered)
        if self._sharing is not None:
            self._subscribers += self._sharing.populate(_filter)
        if self._durability is not None:
            self._durability.populate(self._subscribers, _filter)

    # -- what happens --------------------------------------------------------------------------------------------------

    def _script(self) -> Iterator[tuple[float, Callable[[], object]]]:
        chance = self.chance
        start_s = self.world.agenda.now_s
        for name in self._publishers:
            at_s, rate = start_s, chance.choice((2.0, 10.0, 40.0))
            while at_s < start_s + ACTIVE_S:
                at_s += chance.expovariate(rate)
                yield at_s, self._publisher(name)
        for _ in range(chance.randrange(12)):
            yield start_s + chance.random() * ACTIVE_S, self._change_of_mind()
        for _ in range(chance.choice((0, 1, 2, 4, 12))):
            yield start_s + chance.random() * ACTIVE_S, self._move()
        for _ in range(chance.choice((0, 0, 1, 2, 4, 8))):
            begin_s = start_s + chance.random() * ACTIVE_S
            end_s = begin_s + chance.choice((0.05, 0.5, 2.0, 5.0))
            yield from self._episode(begin_s, end_s, self._fault())
        if self._trouble is not None:
            for begin_s, end_s, deeds in self._trouble.episodes(self._publishers, self._subscribers, within_s=ACTIVE_S):
                yield from self._episode(begin_s, end_s, deeds)
        if self._durability is not None:
            for begin_s, end_s, deeds in self._durability.episodes(self._publishers, within_s=ACTIVE_S):
                yield from self._episode(begin_s, end_s, deeds)
        if self._sharing is not None:
            for begin_s, end_s, deeds in self._sharing.episodes(within_s=ACTIVE_S):
                yield from self._episode(begin_s, end_s, deeds)

    def _episode(self, begin_s: float, end_s: float, deeds: Deeds) -> Iterator[tuple[float, Callable[[], object]]]:
        self.faults += 1
        self._broken_until = max(self._broken_until, end_s)
        yield begin_s, deeds[0]
        yield end_s, deeds[1]

    def _publisher(self, name: str) -> Callable[[], object]:
        event: dict[str, Value] = {"symbol": self.chance.choice(SYMBOLS), "price": self.chance.randrange(100)}
        count = self._flows.choice((1, 2, 10)) if self.world.has_flows else 1
        if self._flows.randrange(count):
            return lambda: None  # several events at once, but no more of them
        ttl_s = self._hurry.choice(LIVES_S) if self._has_deadlines else None
        made = make_event(event, envelope=Envelope(ttl_ns=None if ttl_s is None else int(ttl_s * 1e9)))
        if self._durability is not None and self._durability.is_next_guaranteed():
            return lambda: self.world.clients[name].guarantee(made)
        return lambda: self.world.clients[name].publish(made, count=count, over_s=0.05 * (count - 1))

    def _publish_some(self, *, rounds: int) -> None:
        for _ in range(rounds):
            for name in self._publishers:
                self._publisher(name)()

    def _change_of_mind(self) -> Callable[[], object]:
        chance = self.chance
        client = self.world.clients[chance.choice(self._subscribers)]
        number, text = chance.randrange(4), _filter(chance)
        if chance.random() < 0.3:
            return lambda: client.unsubscribe(number)
        return lambda: client.subscribe(number, text)

    def _move(self) -> Callable[[], object]:
        chance = self.chance
        use: Use = chance.choice(("publish", "subscribe"))
        client = chance.choice(list(self._publishers) if use == "publish" else self._subscribers)
        broker = chance.choice(list(self.world.brokers))
        return lambda: faults.migrate(self.world, client, broker, use=use)

    def _fault(self) -> Deeds:
        chance, world = self.chance, self.world
        kind = chance.choice(("crash", "stop", "cut", "cut", "silence", "silence", "client", "slow"))
        broker = chance.choice(list(world.brokers))
        if kind in ("crash", "stop"):
            end = faults.crash if kind == "crash" else faults.stop
            return lambda: end(world, broker), lambda: faults.restart(world, broker)
        if kind == "client" or not self._pairs:
            client = chance.choice(list(world.clients))
            is_silent = chance.random() < 0.5
            return (
                lambda: faults.cut(world, client, broker, is_silent=is_silent),
                lambda: faults.mend(world, client, broker),
            )
        a, b = chance.choice(list(self._pairs))
        if kind == "slow":
            return lambda: faults.slow(world, a, b, factor=20.0), lambda: faults.slow(world, a, b, factor=1.0)
        return lambda: faults.cut(world, a, b, is_silent=kind == "silence"), lambda: faults.mend(world, a, b)


def _filter(chance: Random) -> str:
    parts = []
    if chance.random() < 0.6:
        parts.append(f"symbol = '{chance.choice(SYMBOLS)}'")
    if chance.random() < 0.6 or not parts:
        parts.append(f"price {chance.choice(('<', '>', '>='))} {chance.randrange(100)}")
    return " and ".join(parts)
