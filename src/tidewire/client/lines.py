"""Which connections are there, which are being made, when is another one tried, and what does each serve?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidewire.client.config import ClientConfig
from tidewire.client.events import Abort, Tell
from tidewire.model.chance import Chance
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import Ping, Pong, Use, Welcome
from tidewire.wire.connections import Close, Dial, Send
from tidewire.wire.liveness import Clock, Liveness

REDIRECTS_MAX: Final = 8


class Line:
    """One connection, from the moment it is dialled."""

    def __init__(self, address: str, *, use: Use | None, redirects: int = 0, is_move: bool = False) -> None:
        self.address = address
        self.use: Use | None = use
        """What it was dialled for; None: whatever comes."""
        self.redirects = redirects
        self.is_move = is_move
        """Is it the new place of something that moves, and not yet in use?"""
        self.is_left = False
        """Have we asked to end it? Then nothing begins there any more."""
        self.is_given_up = False
        """Is it to end at once? Then nothing is asked of it any more."""
        self.why_left = ""
        """What made us leave; empty if it was only no longer needed."""
        self.welcome_due_ns = 0
        """When the broker must have answered our greeting."""
        self.welcome: Welcome | None = None
        self.liveness: Liveness | None = None
        self._pinged: dict[int, int] = {}
        """The number of the next event that was to be published, by the time of a ping."""

    def serves(self, use: Use) -> bool:
        """Is this use hosted there, and may it begin there?"""
        return self.welcome is not None and not self._hosts(use) and not self.is_move and not self.is_left

    def elsewhere(self, use: Use) -> str | None:
        """Where to go for this use, if the broker sends us on, and we have not been sent on too often."""
        hosts = self._hosts(use)
        return hosts[0] if hosts and self.redirects < REDIRECTS_MAX else None

    def _hosts(self, use: Use) -> list[str]:
        if self.welcome is None:
            return []
        return self.welcome.publish_at if use == "publish" else self.welcome.subscribe_at

    def is_coming(self) -> bool:
        """May it serve any use, once it is welcomed?"""
        return self.welcome is None and not self.is_move

    def heard(self, now_ns: Nanoseconds) -> None:
        """Something has come."""
        if self.liveness is not None:
            self.liveness.heard(now_ns)

    def silence(self, now_ns: Nanoseconds) -> str:
        """What can be said of a broker that has been silent for too long; else nothing."""
        if self.welcome is None or self.liveness is None:
            return "" if now_ns < self.welcome_due_ns else f"{self.address} does not answer, though it can be reached"
        return f"the broker {self.welcome.broker} has been silent for too long" if self.liveness.is_dead(now_ns) else ""

    def deadline_ns(self) -> int | None:
        """When to look again."""
        if self.is_given_up:
            return None
        return self.welcome_due_ns if self.liveness is None else self.liveness.deadline_ns()

    def pinged(self, ping: Ping, *, next_sequence: int) -> None:
        """A ping goes behind all events before this one."""
        self._pinged[ping.sent_ns] = next_sequence

    def read_before(self, pong: Pong) -> int:
        """The broker has answered: it has read all events before this one."""
        for ping_ns in [ping_ns for ping_ns in self._pinged if ping_ns < pong.ping_ns]:
            del self._pinged[ping_ns]
        return self._pinged.pop(pong.ping_ns, 0)

    def clock_of(self, pong: Pong, *, now_ns: Nanoseconds) -> Clock | None:
        """What is known of the broker's clock."""
        return None if self.liveness is None else self.liveness.clock_of(pong, now_ns=now_ns)


class Lines:
    """All connections of a session. Which of them serves a use is said by ``serve``."""

    def __init__(self, config: ClientConfig, *, chance: Chance) -> None:
        self._config = config
        self._chance = chance
        self._coordinator = config.coordinator
        """Who says which broker to use; also one that was taken for a broker, once it has said so."""
        self._is_missed = False
        self._addresses = config.began_with()
        """Those that we began with, the coordinator first, and those that we have heard of."""
        self._wanted: dict[Use, None] = {}
        self._lines: dict[Conn, Line] = {}
        self._dials: dict[int, Line] = {}
        self._orders = 0
        self._serving: dict[Use, Conn] = {}
        self._retries: dict[Use, int] = {}
        """When to dial again, after a pause."""
        self._attempts: dict[Use, int] = {}
        """How often in a row it came to nothing: pauses grow, and another address has its turn."""
        self._begin_ns: int | None = None
        """When to look again for any broker at all."""
        self._begins = 0
        """How often we have looked: every address has its turn."""
        self.why = ""
        """What stood in the way last."""
        self.pinned: tuple[BrokerId, str] | None = None
        """The only broker that will do to publish at, and its address: something is in doubt there."""

    def __contains__(self, conn: Conn) -> bool:
        return conn in self._lines

    def __getitem__(self, conn: Conn) -> Line:
        return self._lines[conn]

    def get(self, conn: Conn) -> Line | None:
        """This connection, if it is still there."""
        return self._lines.get(conn)

    def conns(self) -> list[Conn]:
        """Those that stand."""
        return list(self._lines)

    def is_any(self) -> bool:
        """Is there one, or is one being made?"""
        return bool(self._lines or self._dials)

    def unreached(self, only: tuple[BrokerId, str] | None = None) -> str:
        """What to say to those who have waited too long for a broker, or for the only one that will do."""
        whom = "no broker could be reached" if only is None else f"{only[0]} could not be reached again"
        where = self._began_with() if only is None else f"at {only[1]}"
        reason = f"{whom} {where} for {self._config.give_up_s:g} s"
        return f"{reason}: {self.why}" if self.why else reason

    def _began_with(self) -> str:
        """Where a broker was looked for."""
        brokers = ", ".join(one for one in self._config.addresses if one != self._coordinator)
        if self._coordinator is None:
            return f"at {brokers}"
        return f"through the coordinator at {self._coordinator}" + (f", nor at {brokers}" if brokers else "")

    # -- what they serve -----------------------------------------------------------------------------------------------

    def want(self, use: Use) -> None:
        """From now on there should be a connection for this use."""
        self._wanted[use] = None

    def wanted(self) -> list[Use]:
        """The uses that the application has."""
        return list(self._wanted)

    def not_silent(self, conn: Conn, *, now_ns: Nanoseconds) -> None:
        """This broker may well have said something. One that we leave is not read, and has to end all the same."""
        if conn in self._lines and not self._lines[conn].is_left:
            self._lines[conn].heard(now_ns)

    def serving(self, use: Use) -> Conn | None:
        """The connection that serves this use now."""
        return self._serving.get(use)

    def broker(self, use: Use) -> BrokerId | None:
        """The broker that serves this use now."""
        conn = self._serving.get(use)
        welcome = None if conn is None else self._lines[conn].welcome
        return None if welcome is None else welcome.broker

    def is_serving(self, conn: Conn) -> bool:
        """Does this connection serve a use?"""
        return conn in self._serving.values()

    def is_any_serving(self) -> bool:
        """Is some use served?"""
        return bool(self._serving)

    def is_idle(self, conn: Conn) -> bool:
        """Is it welcomed, and serves nothing, nor is it about to?"""
        line = self._lines.get(conn)
        if line is None or line.welcome is None:
            return False
        return not line.is_move and not line.is_left and not self.is_serving(conn)

    def able(self, use: Use) -> Conn | None:
        """A connection that could serve this use; one that serves the other use first."""
        found = [conn for conn, line in self._lines.items() if line.serves(use) and self.may_serve(line, use)]
        return min(found, key=lambda conn: not self.is_serving(conn), default=None)

    def may_serve(self, line: Line, use: Use) -> bool:
        """Would this broker do?"""
        if use != "publish" or self.pinned is None:
            return True
        return line.welcome is not None and line.welcome.broker == self.pinned[0]

    def serve(self, use: Use, conn: Conn) -> None:
        """From now on this connection serves this use."""
        self._lines[conn].is_move = False
        self._serving[use] = conn
        for other, line in self._lines.items():
            if line.liveness is not None:
                line.liveness.calm(is_calm=other != self._serving.get("publish"))
        self._retries.pop(use, None)
        self._attempts.pop(use, None)

    def no_longer_moves(self, use: Use) -> None:
        """The connection to the new place, when it stands, is one like any other."""
        for line in self._all():
            line.is_move &= line.use != use

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def is_under_way(self, use: Use) -> bool:
        """Is this use served, or may it be by a connection that is being made, now or after a pause?"""
        if use in self._serving or use in self._retries:
            return True
        return any(line.is_coming() or (line.is_move and line.use == use) for line in self._all())

    def _all(self) -> list[Line]:
        return [*self._dials.values(), *self._lines.values()]

    def dial(self, use: Use | None) -> Dial:
        """A connection for this use, to where a broker that we know says it is hosted; None: for whatever comes.

        Who serves a subscriber is for the coordinator to say, as long as it is there.
        """
        if use == "publish" and self.pinned is not None:
            return self.dial_at(self.pinned[1], use)
        is_placed = use == "subscribe" and self._coordinator is not None and not self._is_missed
        for line in self._lines.values():
            elsewhere = None if use is None or is_placed else line.elsewhere(use)
            if elsewhere is not None:
                return self.dial_at(elsewhere, use, redirects=line.redirects + 1)
        if use is not None:
            return self.dial_at(self._addresses[0], use)
        self._begins += 1
        return self.dial_at(self._addresses[(self._begins - 1) % len(self._addresses)], None)

    def dial_at(self, address: str, use: Use | None, *, redirects: int = 0, is_move: bool = False) -> Dial:
        """A connection to this broker."""
        self._orders += 1
        self._dials[self._orders] = Line(address, use=use, redirects=redirects, is_move=is_move)
        return Dial(self._orders, address)

    def found(self, line: Line, address: str) -> Dial:
        """The coordinator is there, and sends us to this broker. It is asked first from now on.

        The broker is remembered for when the coordinator is not there: brokers go on without it, and so do we.
        """
        self._coordinator, self._is_missed = line.address, False
        self.prefer(line.address)
        self.heard_of(address)
        return self.dial_further(line, line.use, address)

    def dial_further(self, line: Line, use: Use | None, address: str) -> Dial:
        """A connection to where this one sends us; what moves, moves there."""
        is_move, line.is_move = line.is_move, False
        return self.dial_at(address, use, redirects=line.redirects + 1, is_move=is_move)

    def opened(self, conn: Conn, order: int, *, now_ns: Nanoseconds) -> None:
        """A connection stands."""
        line = self._lines[conn] = self._dials.pop(order)
        line.welcome_due_ns = now_ns + int(self._config.welcome_s * 1e9)

    def welcomed(self, conn: Conn, welcome: Welcome, *, now_ns: Nanoseconds) -> Line:
        """The broker has said who it is, and what it hosts."""
        line = self._lines[conn]
        line.welcome = welcome
        line.liveness = Liveness(welcome.heartbeat_s, now_ns=now_ns)
        return line

    def is_news(self, conn: Conn, reason: str) -> bool:
        """Is a goodbye worth telling? Not again and again, and of the coordinator it is told by ``lost``."""
        return self._lines[conn].address != self._coordinator and reason != self.why

    def leave(self, conn: Conn, why: str = "") -> Close:
        """It is to end, behind what was said there; until it has, it serves what it serves."""
        line = self._lines[conn]
        line.is_left, line.why_left = True, line.why_left or why
        return Close(conn)

    def give_up(self, conn: Conn, why: str) -> Abort:
        """It is to end at once."""
        line = self._lines[conn]
        line.is_left, line.is_given_up, line.why_left = True, True, line.why_left or why
        self.why = line.why_left
        return Abort(conn)

    def not_opened(self, order: int) -> Line:
        """A connection could not be made; ``lost`` has to be told, too."""
        return self._dials.pop(order)

    def closed(self, conn: Conn) -> tuple[Line, list[Use]] | None:
        """A connection has ended: what did it serve? ``lost`` has to be told, too. None: it is no longer known."""
        line = self._lines.pop(conn, None)
        if line is None:
            return None
        served: list[Use] = [use for use, serving in self._serving.items() if serving == conn]
        for use in served:
            del self._serving[use]
        return line, served

    def lost(self, line: Line, reason: str, *, now_ns: Nanoseconds) -> list[Tell]:
        """A connection has come to nothing, or to its end: what is wanted and not on its way is tried again later.

        A coordinator that is not there, or knows no broker, is told of once, until it names one again.
        """
        missed: list[Tell] = []
        if line.why_left or not line.is_left:
            self.why = reason
            if line.address == self._coordinator and not self._is_missed:
                self._is_missed = True
                missed = [Tell("the coordinator names no broker", {"address": line.address, "reason": reason})]
        if line.use is None:
            self._begin_ns = now_ns + int(self._config.reconnect_s * 1e9)
        for use in self._wanted:
            if not self.is_under_way(use):
                self._try_later(use, now_ns)
        return missed

    def not_the_one(self, use: Use, *, now_ns: Nanoseconds) -> None:
        """A broker that will not do has answered: the right one is tried again later."""
        if not self.is_under_way(use):
            self._try_later(use, now_ns)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _try_later(self, use: Use, now_ns: Nanoseconds) -> None:
        attempts = self._attempts.get(use, 0)
        pause_s = min(self._config.reconnect_s * 2 ** min(attempts, 16), self._config.reconnect_s_max)
        self._attempts[use] = attempts + 1
        self._retries[use] = now_ns + int(pause_s * (0.5 + self._chance.random()) * 1e9)

    def deadline_ns(self) -> int | None:
        """When to look again."""
        times: list[int] = list(self._retries.values())
        times += [] if self._begin_ns is None else [self._begin_ns]
        times += [time for line in self._lines.values() if (time := line.deadline_ns()) is not None]
        return min(times, default=None)

    def heartbeats(self, now_ns: Nanoseconds, *, next_sequence: int) -> Iterator[Send | Abort]:
        """Pings that are due; whoever has been silent for too long is given up."""
        for conn, line in self._lines.items():
            if line.is_given_up:
                continue
            if why := line.silence(now_ns):
                yield self.give_up(conn, why)
            elif line.liveness is not None and (ping := line.liveness.ping(now_ns)):
                line.pinged(ping, next_sequence=next_sequence)
                yield Send(conn, ping, "control")

    def is_time_to_begin(self, now_ns: Nanoseconds) -> bool:
        """Is it time to look again for any broker at all? Said once."""
        if self._begin_ns is None or now_ns < self._begin_ns:
            return False
        self._begin_ns = None
        return True

    def dial_due(self, now_ns: Nanoseconds) -> list[Dial]:
        """The connections whose pause is over."""
        due: list[Use] = [use for use, retry_ns in self._retries.items() if now_ns >= retry_ns]
        dials: list[Dial] = []
        for use in due:
            del self._retries[use]
            if use not in self._serving:
                turn = self._attempts[use] - (self._coordinator is not None)  # it has the first one
                address = self._addresses[turn % len(self._addresses)]
                is_pinned = use == "publish" and self.pinned is not None
                dials.append(self.dial(use) if is_pinned else self.dial_at(address, use))
        return dials

    # -- addresses -----------------------------------------------------------------------------------------------------

    def heard_of(self, address: str) -> None:
        """There is a broker at this address."""
        if address not in self._addresses:
            self._addresses.append(address)

    def prefer(self, address: str) -> None:
        """Begin there the next time, if no coordinator says where."""
        self._addresses.sort(key=lambda other: (other != self._coordinator, other != address))
