"""Who belongs together at this broker, and what do they mean to it? From samples of events, and from what was counted.

Samples say who shares what: a class's own part of the input is what nobody else here wants (epeer §0). How much that is
in all, the load says exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from math import inf
from operator import or_

from tidewire.balancing.drd.bundles import Bundle, Locality, Member
from tidewire.balancing.drd.config import DrdConfig
from tidewire.broker.balancing_parts import Parts
from tidewire.dataplane.protocol import Samples
from tidewire.model.ids import BrokerId, Conn
from tidewire.model.messages import Use
from tidewire.model.offload_messages import Amounts
from tidewire.model.traffic import ClassKey
from tidewire.routing.upstream import Advertised
from tidewire.traffic.classes import Classes

Kinds = tuple[ClassKey, ...]
"""The classes of a client, in the order of their names."""


class Bundling:
    """The clients of one broker by their classes. Subscribers are kept up to date as they change."""

    def __init__(self, parts: Parts) -> None:
        self._router = parts.router
        self._links = parts.links
        self._clients = parts.clients
        self._broker = parts.config.broker
        self.classes = Classes(parts.config.traffic)
        self._kinds: dict[Conn, Kinds] = {}
        self._of_kind: dict[Kinds, dict[Conn, None]] = {}
        self._counts: dict[ClassKey, int] = {}

    def look(self) -> None:
        """At those whose subscriptions have changed."""
        for conn in self._router.changed_subscribers():
            wanted = self._router.subscriptions(conn).values() if conn in self._clients else ()
            self._put(conn, tuple(sorted({self.classes.of_filter(one) for one in wanted})))

    def _put(self, conn: Conn, kinds: Kinds) -> None:
        before = self._kinds.pop(conn, ())
        if before:
            del self._of_kind[before][conn]
            if not self._of_kind[before]:
                del self._of_kind[before]
        for one in before:
            self._counts[one] -= 1
            if not self._counts[one]:
                del self._counts[one]
        if kinds:
            self._kinds[conn] = kinds
            self._of_kind.setdefault(kinds, {})[conn] = None
        for one in kinds:
            self._counts[one] = self._counts.get(one, 0) + 1

    def here(self) -> list[ClassKey]:
        """The classes that somebody here has subscribed to."""
        return list(self._counts)

    # -- subscribers ---------------------------------------------------------------------------------------------------

    def subscribers(
        self, samples: Samples, used: Amounts, *, staying: Collection[Conn], head: BrokerId | None
    ) -> list[Bundle]:
        """By what they want. ``staying``: not to be moved; ``head``: where near publishers are, if that matters."""
        self.look()
        seen, sizes = samples.wanted, [len(event) for event in samples.events]
        if not sizes:
            return []
        kinds = list(self._of_kind)
        bits = [reduce(or_, (seen.get(conn, 0) for conn in self._of_kind[one]), 0) for one in kinds]
        alone = _alone(bits)
        sums = [_sum(one, sizes) for one in bits]
        delivered = {
            one: {conn: seen.get(conn, 0).bit_count() * _mean(total, of) for conn in self._of_kind[one]}
            for one, total, of in zip(kinds, sums, bits, strict=True)
        }
        all_delivered = sum(sum(each.values()) for each in delivered.values())
        per_byte = used.input_bytes_s / sum(sizes)
        per_event = used.matching_events_s / len(sizes)
        per_delivered = used.output_bytes_s / all_delivered if all_delivered else 0.0
        found = []
        for one, of, own, total in zip(kinds, bits, alone, sums, strict=True):
            sent = {conn: size * per_delivered for conn, size in delivered[one].items()}
            moving = {conn: size for conn, size in sent.items() if conn not in staying}
            if not moving:
                continue
            # those who stay go on wanting what comes for them
            left = own if len(moving) == len(sent) else own & ~_any(seen, [c for c in sent if c not in moving])
            found.append(
                Bundle(
                    key=ClassKey("+".join(one)),
                    classes=one,
                    delay_s=self._delay_s(moving, "subscribe"),
                    load=Amounts(total * per_byte, sum(moving.values()), of.bit_count() * per_event),
                    marginal=Amounts(_sum(left, sizes) * per_byte, sum(moving.values()), left.bit_count() * per_event),
                    members=tuple(Member(conn, size) for conn, size in moving.items()),
                    locality="local" if head is None else self._publishers_of(moving, head),
                )
            )
        return found

    def _delay_s(self, conns: Iterable[Conn], use: Use) -> float:
        """The shortest that is configured, or that one of them named."""
        shortest = inf
        for conn in conns:
            said = self._clients.terms.of(conn, use)
            for number, wanted in self._said(conn, use).items():
                terms = [said[number]] if number in said else []
                shortest = min(shortest, self.classes.delay_s(self.classes.of_filter(wanted), terms))
        return shortest

    def _said(self, conn: Conn, use: Use) -> Mapping[int, bytes]:
        return self._router.subscriptions(conn) if use == "subscribe" else self._router.advertisements(conn)

    def _publishers_of(self, conns: Iterable[Conn], head: BrokerId) -> Locality:
        """Where are those whose events these want: by whose trees they come (epeer §2.8)?"""
        filters = dict.fromkeys(one for conn in conns for one in self._router.subscriptions(conn).values())
        sources: dict[bool, None] = {}
        for wanted in filters:
            for tree in self._router.trees_for(wanted):
                branch = self._router.branch(tree)
                if branch is not None and branch.tree.path:
                    sources[branch.tree.path[0] in (head, self._broker)] = None
        return _locality(is_near=True in sources, is_far=False in sources)

    # -- publishers ----------------------------------------------------------------------------------------------------

    def publishers(self, rates: Mapping[Conn, float], *, staying: Collection[Conn]) -> list[Bundle]:
        """By what they advertise; ``rates``: the bytes per second that come from each."""
        of_kind: dict[Kinds, dict[Conn, None]] = {}
        for conn in rates:
            advertised = self._router.advertisements(conn)
            if advertised and conn in self._clients and conn not in staying:
                kinds = tuple(sorted({self.classes.of_filter(one) for one in advertised.values()}))
                of_kind.setdefault(kinds, {})[conn] = None
        return [self._publishing(kinds, {conn: rates[conn] for conn in conns}) for kinds, conns in of_kind.items()]

    def _publishing(self, kinds: Kinds, rates: Mapping[Conn, float]) -> Bundle:
        """What is heard here comes back from where they go: only what goes elsewhere, or nowhere, is gained."""
        near, far = self._listening(rates)
        total = sum(rates.values())
        return Bundle(
            key=ClassKey("+".join(kinds)),
            classes=kinds,
            delay_s=self._delay_s(rates, "publish"),
            load=Amounts(total, total * (near + far), 0.0),
            marginal=Amounts(0.0 if near else total, total * far, 0.0),
            members=tuple(Member(conn, rate) for conn, rate in rates.items()),
            locality=_locality(is_near=near > 0, is_far=far > 0),
        )

    def _listening(self, conns: Iterable[Conn]) -> tuple[int, int]:
        """To how many edges of ours, and to how many other heads, do the events of these go?"""
        advertised = Advertised()
        filters = dict.fromkeys(one for conn in conns for one in self._router.advertisements(conn).values())
        advertised.add(range(len(filters)), filters)
        near = far = 0
        own = next((branch for branch in self._router.branches() if branch.tree.is_own), None)
        for child, routes in {} if own is None else own.routes.items():
            lane = self._links.lane_of(child)
            if lane is None or not advertised.overlapping(list(routes.values())):
                continue
            about = lane[0].about
            is_head = about is not None and about.role == "head"
            near, far = near + (not is_head), far + is_head
        return near, far


def _locality(*, is_near: bool, is_far: bool) -> Locality:
    if is_near:
        return "both" if is_far else "local"
    return "remote" if is_far else "none"


def _alone(vectors: list[int]) -> list[int]:
    """Of each, what it has and no other one."""
    once = twice = 0
    for one in vectors:
        twice |= once & one
        once |= one
    return [one & ~twice for one in vectors]


def _any(seen: Mapping[Conn, int], conns: Iterable[Conn]) -> int:
    return reduce(or_, (seen.get(conn, 0) for conn in conns), 0)


def _sum(bits: int, sizes: list[int]) -> int:
    """The sizes of those events whose bits are there."""
    digits = bin(bits)[:1:-1]
    return sum(size for size, digit in zip(sizes, digits, strict=False) if digit == "1")


def _mean(total: int, bits: int) -> float:
    return total / bits.bit_count() if bits else 0.0


class InputRates:
    """How much comes from each connection, by two counts."""

    def __init__(self) -> None:
        self._last: tuple[int, Mapping[Conn, int]] | None = None
        self.rates: dict[Conn, float] = {}

    def counted(self, bytes_in: Mapping[Conn, int], now_ns: int) -> None:
        """One more count."""
        last, self._last = self._last, (now_ns, bytes_in)
        if last is not None and now_ns > last[0]:
            seconds = (now_ns - last[0]) / 1e9
            self.rates = {
                conn: max(0, come - last[1][conn]) / seconds for conn, come in bytes_in.items() if conn in last[1]
            }

    def forget(self) -> None:
        """It is long ago."""
        self._last, self.rates = None, {}


class Turns:
    """The samples of the last turns: one alone says little of a class that sends seldom."""

    def __init__(self, config: DrdConfig) -> None:
        self._config = config
        self._turns: deque[tuple[Samples, int]] = deque(maxlen=config.profile_turns)

    def add(self, samples: Samples, now_ns: int) -> None:
        """One more."""
        self._turns.append((samples, now_ns))

    def forget(self) -> None:
        """Clients have gone: what was wanted before is no measure of what is."""
        self._turns.clear()

    def together(self, now_ns: int) -> Samples | None:
        """All of them as one, as many as are looked at; None if there are none of late."""
        if not self._turns or now_ns > self._turns[-1][1] + int(3 * self._config.profile_s * 1e9):
            return None
        events: list[bytes] = []
        wanted: dict[Conn, int] = {}
        for samples, _ in reversed(self._turns):
            if events and len(events) + len(samples.events) > self._config.profile_samples:
                break
            for conn, bits in samples.wanted.items():
                wanted[conn] = wanted.get(conn, 0) | bits << len(events)
            events += samples.events
        return Samples(events, wanted)
