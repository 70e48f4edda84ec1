"""Connections to neighbours: two lanes each, dialled again when they are lost, and the role that follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Effect, MakeLink, Note
from tidewire.model.chance import Chance
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import VERSION, Bye, Lane, Link, Neighbourhood, Pong, Role, Use, Welcome
from tidewire.routing.roles import hosts, role_of
from tidewire.wire.connections import Close, Dial, Send, SetClock
from tidewire.wire.frames import FRAME_BYTES_MAX
from tidewire.wire.liveness import Liveness

HANDSHAKE_NS: Final = 5_000_000_000
"""How long a connection may take to say who it is, and a neighbour to open its second lane."""


FRAME_BYTES_LIMIT: Final = 1 << 30
"""What no neighbour's frame is beyond, whatever it says."""


def _link_frame_bytes_max(told: int) -> int:
    """The longest frame that a broker takes from a neighbour: what brokers tell each other is made for the default."""
    return min(FRAME_BYTES_LIMIT, max(told, FRAME_BYTES_MAX))


class Neighbour:
    """A broker next to us, as far as it is connected."""

    def __init__(self, broker: BrokerId, incarnation: int, address: str, *, now_ns: Nanoseconds) -> None:
        self.broker = broker
        self.incarnation = incarnation
        self.address = address
        self.frame_bytes_max = FRAME_BYTES_MAX
        """It takes no longer frame from us."""
        self.lanes: dict[Lane, Conn] = {}
        self.is_dialled_by_us: dict[Lane, bool] = {}
        self.about: Neighbourhood | None = None
        self.liveness: Liveness | None = None
        self.since_ns = now_ns

    @property
    def is_up(self) -> bool:
        """Do events flow?"""
        return "data" in self.lanes


class _Target(msgspec.Struct):
    """An address that we keep connected."""

    address: str
    attempts: int = 0
    retry_ns: int | None = 0
    """When to try again; None while it is tried or connected."""

    orders: dict[int, Lane] = {}
    broker: BrokerId | None = None
    """Who was there last."""


class LinkChange(msgspec.Struct, frozen=True):
    """A neighbour's data lane has come up, or gone down."""

    conn: Conn
    is_up: bool


class Links:
    """All neighbours of a broker."""

    def __init__(self, config: BrokerConfig, *, incarnation: int, chance: Chance) -> None:
        self._config = config
        self._incarnation = incarnation
        self._chance = chance
        self._neighbours: dict[BrokerId, Neighbour] = {}
        self._by_conn: dict[Conn, tuple[Neighbour, Lane]] = {}
        self._targets: dict[str, _Target] = {}
        self._dialled: dict[Conn, tuple[str, Lane]] = {}
        """Connections that we opened and that are not welcomed yet."""
        self._assigned: list[str] = []
        self._orders = 0
        self._told = Neighbourhood(0, config.role, role_of(config.role, []))
        self.is_full = False
        self.is_leaving = False
        self.stuck = 0
        """How many links have ended because nothing moved on them?"""
        for address in config.neighbours:
            self.want(address)

    # -- what is known -------------------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """What this broker is now."""
        return role_of(self._config.role, [neighbour.about for neighbour in self.up()])

    @property
    def frame_bytes_max(self) -> int:
        """We take no longer frame from a neighbour."""
        return _link_frame_bytes_max(self._config.frame_bytes_max)

    def up(self) -> list[Neighbour]:
        """The neighbours that events can flow to."""
        return [neighbour for neighbour in self._neighbours.values() if neighbour.is_up]

    def unreached(self) -> list[str]:
        """The addresses that should be connected and are not."""
        connected = self._connected()
        return [t.address for t in self._targets.values() if t.address not in connected and t.broker not in connected]

    def _connected(self) -> dict[str, None]:
        """Neighbours that are up, by address and by name: who has dialled us may be known by either."""
        return dict.fromkeys(known for neighbour in self.up() for known in (neighbour.address, neighbour.broker))

    def is_link(self, conn: Conn) -> bool:
        """Is this a lane to a neighbour, or going to be one?"""
        return conn in self._by_conn or conn in self._dialled

    def lane_of(self, conn: Conn) -> tuple[Neighbour, Lane] | None:
        """The neighbour and the lane of a connection."""
        return self._by_conn.get(conn)

    def hosts(self, use: Use) -> list[Neighbour]:
        """Where a client should go for this; none: it is served here."""
        known = {neighbour.broker: neighbour.about for neighbour in self.up()}
        return [self._neighbours[broker] for broker in hosts(self.role, use, known, chance=self._chance)]

    def refuges(self) -> list[Neighbour]:
        """While this broker is leaving: the neighbours that its clients can go to. They know better places."""
        if not self.is_leaving:
            return []
        return [n for n in self.up() if n.about is not None and not n.about.is_leaving]

    def hosting(self) -> object:
        """All that decides where clients belong; when it changes, some may have to move."""
        return self.role, self.is_leaving, tuple((n.broker, n.about) for n in self.up())

    # -- dialling ------------------------------------------------------------------------------------------------------

    def want(self, address: str) -> None:
        """Keep a connection to the broker at this address."""
        if address != self._config.address:
            self._targets.setdefault(address, _Target(address))

    def assign(self, addresses: list[str]) -> None:
        """The coordinator names these; those that it named before and does not now are no longer dialled."""
        for address in self._assigned:
            if address not in addresses and address not in self._config.neighbours:
                self._targets.pop(address, None)
        self._assigned = addresses
        for address in addresses:
            self.want(address)

    def dial_due(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """Dial those that are lost and whose time has come."""
        connected = self._connected()
        for target in self._targets.values():
            if target.retry_ns is None or now_ns < target.retry_ns:
                continue
            if target.address in connected or target.broker in connected:  # they have dialled us
                target.retry_ns = now_ns + int(self._config.reconnect_s_max * 1e9)
                continue
            target.retry_ns = None
            lanes: tuple[Lane, ...] = ("control", "data")
            for lane in lanes:
                self._orders += 1
                target.orders[self._orders] = lane
                yield Dial(self._orders, target.address)

    def opened(self, conn: Conn, order: int) -> Iterator[Effect]:
        """We have reached a neighbour: say who we are."""
        for target in self._targets.values():
            lane = target.orders.pop(order, None)
            if lane is not None:
                self._dialled[conn] = target.address, lane
                config = self._config
                hello = Link(
                    version=VERSION,
                    broker=config.broker,
                    incarnation=self._incarnation,
                    address=config.address,
                    lane=lane,
                    frame_bytes_max=config.frame_bytes_max,
                )
                yield Send(conn, hello, "control")
                return
        yield Close(conn)

    def dial_failed(self, order: int, now_ns: Nanoseconds) -> None:
        """Nobody there: try again later."""
        for target in self._targets.values():
            if target.orders.pop(order, None) is not None and not target.orders:
                self._try_later(target, now_ns)

    def _try_later(self, target: _Target, now_ns: Nanoseconds) -> None:
        pause_s = min(self._config.reconnect_s * 2**target.attempts, self._config.reconnect_s_max)
        target.attempts = min(target.attempts + 1, 16)
        target.retry_ns = now_ns + int(pause_s * (0.5 + self._chance.random()) * 1e9)

    # -- handshakes ----------------------------------------------------------------------------------------------------

    def called(self, conn: Conn, link: Link, now_ns: Nanoseconds) -> tuple[list[Effect], LinkChange | None]:
        """A broker has dialled us."""
        refusal = self._refusal(link)
        if refusal is not None:
            return [Send(conn, refusal, "control"), Close(conn)], None
        effects = list(self._make_room(link.broker, link.incarnation, link.lane))
        effects.append(Send(conn, self.welcome([]), "control"))
        neighbour = self._neighbour(link.broker, link.incarnation, link.address, now_ns)
        neighbour.frame_bytes_max = _link_frame_bytes_max(link.frame_bytes_max)
        made, change = self._lane_up(conn, neighbour, link.lane, is_ours=False, now_ns=now_ns)
        return effects + made, change

    def welcome(self, uses: list[Use]) -> Welcome:
        """The answer to a greeting: who we are, and where to go for these uses if not here."""
        config = self._config
        return Welcome(
            version=VERSION,
            broker=config.broker,
            incarnation=self._incarnation,
            address=config.address,
            heartbeat_s=config.heartbeat_s,
            frame_bytes_max=config.frame_bytes_max,
            subscriptions_max=config.subscriptions_max,
            publish_at=[host.address for host in self.hosts("publish")] if "publish" in uses else [],
            subscribe_at=[host.address for host in self.hosts("subscribe")] if "subscribe" in uses else [],
        )

    def _refusal(self, link: Link) -> Bye | None:
        if link.version != VERSION:
            return Bye("version", f"this broker speaks version {VERSION}, you speak {link.version}", -1.0)
        if link.broker == self._config.broker:
            return Bye("same-name", f"this broker is called {link.broker!r} too: names must differ", -1.0)
        known = self._neighbours.get(link.broker)
        if known is None or known.incarnation != link.incarnation or link.lane not in known.lanes:
            return None
        # Both have dialled: the connection that the one with the smaller name dialled is kept.
        if known.is_dialled_by_us[link.lane] and link.broker < self._config.broker:
            return None
        return Bye("already-linked", "we are connected already", self._config.reconnect_s_max)

    def welcomed(self, conn: Conn, welcome: Welcome, now_ns: Nanoseconds) -> tuple[list[Effect], LinkChange | None]:
        """A broker that we dialled has answered."""
        address, lane = self._dialled.pop(conn)
        if welcome.broker == self._config.broker:
            self._targets.pop(address, None)
            return [Close(conn), Note("a neighbour has our own name", {"address": address})], None
        known = self._neighbours.get(welcome.broker)
        if known is not None and known.incarnation == welcome.incarnation and lane in known.lanes:
            return [Close(conn)], None
        effects = list(self._make_room(welcome.broker, welcome.incarnation, lane))
        neighbour = self._neighbour(welcome.broker, welcome.incarnation, welcome.address or address, now_ns)
        neighbour.frame_bytes_max = _link_frame_bytes_max(welcome.frame_bytes_max)
        if target := self._targets.get(address):
            target.attempts = 0
            target.broker = welcome.broker
        made, change = self._lane_up(conn, neighbour, lane, is_ours=True, now_ns=now_ns)
        return effects + made, change

    def _make_room(self, broker: BrokerId, incarnation: int, lane: Lane) -> Iterator[Effect]:
        """End what an earlier life of the neighbour, or the losing side of two dials, has left."""
        known = self._neighbours.get(broker)
        if known is None:
            return
        if known.incarnation != incarnation:
            yield from (Close(conn) for conn in known.lanes.values())
        elif lane in known.lanes:
            yield Close(known.lanes[lane])

    def _neighbour(self, broker: BrokerId, incarnation: int, address: str, now_ns: Nanoseconds) -> Neighbour:
        known = self._neighbours.get(broker)
        if known is None or known.incarnation != incarnation:
            known = self._neighbours[broker] = Neighbour(broker, incarnation, address, now_ns=now_ns)
        return known

    def _lane_up(
        self, conn: Conn, neighbour: Neighbour, lane: Lane, *, is_ours: bool, now_ns: Nanoseconds
    ) -> tuple[list[Effect], LinkChange | None]:
        neighbour.lanes[lane] = conn
        neighbour.is_dialled_by_us[lane] = is_ours
        self._by_conn[conn] = neighbour, lane
        effects: list[Effect] = [MakeLink(conn, neighbour.frame_bytes_max)]
        if lane == "control":
            neighbour.liveness = Liveness(self._config.heartbeat_s, now_ns=now_ns)
            effects.append(Send(conn, self._told, "control"))
            return effects, None
        effects.append(Note("neighbour up", {"broker": neighbour.broker, "address": neighbour.address}))
        if neighbour.frame_bytes_max != self.frame_bytes_max:
            bounds = {"ours": self.frame_bytes_max, "theirs": neighbour.frame_bytes_max}
            effects.append(Note("frame_bytes_max differs", {"broker": neighbour.broker, **bounds}))
        return effects, LinkChange(conn, is_up=True)

    # -- the end -------------------------------------------------------------------------------------------------------

    def closed(self, conn: Conn, now_ns: Nanoseconds) -> tuple[list[Effect], LinkChange | None]:
        """A lane, or one that was being opened, has ended. The other lane goes with it."""
        if conn in self._dialled:
            address, _ = self._dialled.pop(conn)
            if address in self._targets:
                self._try_later(self._targets[address], now_ns)
            return [], None
        neighbour, lane = self._by_conn.pop(conn)
        if neighbour.lanes.get(lane) == conn:
            del neighbour.lanes[lane]
        effects: list[Effect] = [Close(other) for other in neighbour.lanes.values()]
        if not neighbour.lanes and self._neighbours.get(neighbour.broker) is neighbour:
            del self._neighbours[neighbour.broker]
        for target in self._targets.values():
            is_theirs = target.address == neighbour.address or target.broker == neighbour.broker
            if is_theirs and target.retry_ns is None and not target.orders:
                self._try_later(target, now_ns)
        if lane != "data":
            return effects, None
        effects.append(Note("neighbour down", {"broker": neighbour.broker}))
        return effects, LinkChange(conn, is_up=False)

    def stalled(self, conn: Conn, seconds: float) -> list[Effect]:
        """Nothing moves on this lane, and somebody waits for it: it ends if that lasts for too long.

        The brokers of a circle see this at the same time, and one link less is enough: each waits a little longer, by
        chance.
        """
        if conn not in self._by_conn or seconds < self._config.link_patience_s or self._chance.random() < 0.5:
            return []
        self.stuck += 1
        neighbour, _ = self._by_conn[conn]
        return [Note("link stuck", {"broker": neighbour.broker, "seconds": round(seconds, 1)}), Close(conn)]

    # -- what neighbours know of each other ----------------------------------------------------------------------------

    def about(self, conn: Conn, neighbourhood: Neighbourhood) -> None:
        """A neighbour has said how it is."""
        self._by_conn[conn][0].about = neighbourhood

    def news(self) -> list[Effect]:
        """Tell all neighbours if something about us has changed."""
        now = Neighbourhood(len(self.up()), self._config.role, self.role, self.is_full, self.is_leaving)
        if now == self._told:
            return []
        self._told = now
        return [
            Send(neighbour.lanes["control"], now, "control")
            for neighbour in self._neighbours.values()
            if "control" in neighbour.lanes
        ]

    # -- time ----------------------------------------------------------------------------------------------------------

    def heard(self, conn: Conn, now_ns: Nanoseconds) -> None:
        """Something has come on a lane."""
        neighbour, lane = self._by_conn[conn]
        if lane == "control" and neighbour.liveness is not None:
            neighbour.liveness.heard(now_ns)

    def pong(self, conn: Conn, pong: Pong, now_ns: Nanoseconds) -> list[Effect]:
        """An answer to our ping: it tells the other clock, for both lanes."""
        neighbour, _ = self._by_conn[conn]
        clock = None if neighbour.liveness is None else neighbour.liveness.clock_of(pong, now_ns=now_ns)
        if clock is None or "data" not in neighbour.lanes:
            return []
        return [SetClock(neighbour.lanes["data"], clock.offset_ns, clock.error_us)]

    def tick(self, now_ns: Nanoseconds) -> list[Effect]:
        """What is due: pings, ends of those who are silent, dialling."""
        effects: list[Effect] = []
        for neighbour in list(self._neighbours.values()):
            control = neighbour.lanes.get("control")
            if len(neighbour.lanes) == 1 and now_ns >= neighbour.since_ns + HANDSHAKE_NS:
                effects += [Close(conn) for conn in neighbour.lanes.values()]
            if neighbour.liveness is None or control is None:
                continue
            if neighbour.liveness.is_dead(now_ns):
                effects.append(Note("neighbour silent", {"broker": neighbour.broker}))
                effects += [Close(conn) for conn in neighbour.lanes.values()]
            elif ping := neighbour.liveness.ping(now_ns):
                effects.append(Send(control, ping, "control"))
        effects += self.dial_due(now_ns)
        return effects

    def deadline_ns(self) -> int | None:
        """When something is due next."""
        times = [target.retry_ns for target in self._targets.values() if target.retry_ns is not None]
        times += [
            neighbour.liveness.deadline_ns()
            for neighbour in self._neighbours.values()
            if neighbour.liveness is not None and "control" in neighbour.lanes
        ]
        times += [
            neighbour.since_ns + HANDSHAKE_NS for neighbour in self._neighbours.values() if len(neighbour.lanes) == 1
        ]
        return min(times, default=None)
