"""A broker on real sockets. One kernel call per read; Python runs only when there is something to decide."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from resource import RLIMIT_NOFILE, getrlimit
from time import time_ns
from typing import Final

from msgspec.structs import replace

import tidewire
from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import BrokerCore
from tidewire.broker.effects import Note
from tidewire.broker.events import BrokerEvent, Started, Stopping
from tidewire.broker.node import BrokerNode, DriverEffect
from tidewire.broker.status import Host
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.protocol import Received, State
from tidewire.identity.guard import Trust
from tidewire.live.clock import now
from tidewire.live.security import LOOKS_EVERY_S, Security
from tidewire.live.selector import PlaneSelector
from tidewire.live.settings import check_addresses
from tidewire.live.sockets import dial, listen, parse_address, tune
from tidewire.live.tls import Handshake, SecuredLine, Securing
from tidewire.model.errors import BadConfiguration, TidewireError
from tidewire.model.ids import Conn
from tidewire.wire.connections import Close, Closed, Dial, DialFailed, Opened, TimePassed

_ACCEPTS_AT_ONCE: Final = 64
_LINGER_S: Final = 1.0
"""How long a connection that we end may take to read what we last said."""

Listener = Callable[[Note], None]


class LiveBroker:
    """One broker in this process. ``start`` it, then run the loop; ``stop`` ends it cleanly."""

    def __init__(
        self, config: BrokerConfig, *, on_note: Listener | None = None, selector: PlaneSelector | None = None
    ) -> None:
        """With the selector of the loop it will run in, events take no step in Python."""
        folder = config.security
        self._security = None if folder is None else Security(Path(folder), name=config.broker)
        host, port = parse_address(config.address)
        check_addresses(config)
        self._listener = listen(host, port)
        if port == 0:
            config = replace(config, address=f"{host}:{self._listener.getsockname()[1]}")
        self.config = config
        self.engine = KernelEngine(seed=int.from_bytes(os.urandom(8), "little"), frame_bytes_max=config.frame_bytes_max)
        core = BrokerCore(config, incarnation=time_ns(), chance=Random())
        self.node = BrokerNode(core, self.engine)
        self.node.host = Host(version=tidewire.__version__, pid=os.getpid(), files_max=getrlimit(RLIMIT_NOFILE)[0])
        self._on_note = on_note or (lambda _: None)
        self._selector = selector
        self._sockets: dict[Conn, socket.socket] = {}
        self._secured: dict[Conn, SecuredLine] = {}
        self._securing = Securing(self._was_secured, self._was_not_secured)
        self._conns = 0
        self._free: list[Conn] = []
        self._lingering: dict[Conn, asyncio.TimerHandle] = {}
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns: int | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._stopped: asyncio.Event | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.config.address

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and look for the neighbours."""
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._loop.add_reader(self._listener, self._accept)
        if self._selector is not None:
            self._selector.serve(self.engine, self._told)
        self._look_at_calendar()
        if self._security is not None:
            self._look(self._security, is_first=True)
        self._tell(Started())

    async def stop(self) -> None:
        """Say goodbye to everyone, and end."""
        if self._stopped is None or self._stopped.is_set():
            return
        self._stopped.set()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for task in self._dials.values():
            task.cancel()
        self._tell(Stopping())
        for conn in list(self._sockets):
            self._end(conn, "stopped")
        self._securing.stop()
        for timer in (self._timer, self._next_look):
            if timer is not None:
                timer.cancel()

    async def run(self) -> None:
        """Until it is stopped."""
        assert self._stopped is not None
        await self._stopped.wait()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                connection, _address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._say(Note("cannot accept", {"reason": error.strerror or str(error)}))
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    self._loop.remove_reader(self._listener)
                    self._loop.call_later(0.2, lambda: self._loop.add_reader(self._listener, self._accept))
                return
            tune(connection)
            if self._security is None:
                self._open(connection, None)
            else:
                self._securing.begin(Handshake(connection, self._security.server))

    def _say(self, note: Note) -> None:
        self.node.decisions.add(note, now_ns=now())
        self._on_note(note)

    def _was_secured(self, handshake: Handshake) -> None:
        conn = self._open(handshake.connection, handshake.order, handshake)
        received = self._secured[conn].opened(self.engine, conn, b"", now_ns=now())
        if received is not None:
            self._took(conn, received)

    def _was_not_secured(self, handshake: Handshake, reason: str) -> None:
        self._say(Note("not secured", {"with": handshake.address, "why": reason}))
        if handshake.order is not None:
            self._tell(DialFailed(handshake.order, reason))

    def _open(self, connection: socket.socket, order: int | None, handshake: Handshake | None = None) -> Conn:
        if self._free:
            conn = self._free.pop()
        else:
            self._conns += 1
            conn = Conn(self._conns)
        self._sockets[conn] = connection
        self._loop.add_reader(
            connection.fileno(), self._readable, conn
        )  # a number: the loop describes objects at length
        peer = None if handshake is None else handshake.peer()
        place = "" if handshake is None else handshake.address.rpartition(":")[0]
        effects = self.node.handle(Opened(conn, order, peer, place), now_ns=now())
        if handshake is None:
            self.engine.attach(conn, connection.fileno())
        else:
            self._secured[conn] = handshake.line()
        self._act(effects)
        return conn

    def _end(self, conn: Conn, reason: str) -> None:
        """The connection is over: forget it, and tell the machine."""
        connection = self._sockets.pop(conn, None)
        if connection is None:
            return
        timer = self._lingering.pop(conn, None)
        if timer is not None:
            timer.cancel()
        self._loop.remove_reader(connection.fileno())
        self._loop.remove_writer(connection.fileno())
        self._tell(Closed(conn, reason))
        self._secured.pop(conn, None)
        connection.close()
        self._free.append(conn)

    def _close(self, conn: Conn) -> None:
        """End a connection when it has taken what we last said, or soon."""
        if conn not in self._sockets or conn in self._lingering:
            return
        stuck = self._flush(conn)
        if stuck is None or stuck.ended:
            self._end(conn, "closed")
            return
        self._loop.remove_reader(self._sockets[conn].fileno())
        self.engine.ignore(conn)
        self._lingering[conn] = self._loop.call_later(_LINGER_S, self._end, conn, "closed")
        self._loop.add_writer(self._sockets[conn].fileno(), self._writable, conn)

    async def _dial(self, order: int, address: str) -> None:
        try:
            connection = await dial(address)
        except TidewireError as error:  # a coordinator may name what is no address
            self._dials.pop(order, None)
            self._tell(DialFailed(order, error.message))
            return
        self._dials.pop(order, None)
        if self._security is None:
            self._open(connection, order)
        else:
            name = parse_address(address)[0]
            self._securing.begin(Handshake(connection, self._security.client, server_name=name, order=order))

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def _readable(self, conn: Conn) -> None:
        received = self._pump(conn)
        if received is not None:
            self._took(conn, received)

    def _pump(self, conn: Conn) -> Received | None:
        line = self._secured.get(conn)
        if line is None:
            return self.engine.pump(conn, now_ns=now())
        return line.pump(self.engine, conn, now_ns=now())

    def _flush(self, conn: Conn) -> Received | None:
        line = self._secured.get(conn)
        return self.engine.flush(conn) if line is None else line.flush(self.engine, conn)

    def _told(self, conn: Conn | None, received: Received) -> None:
        """The loop is waiting, and must survive whatever goes wrong here."""
        try:
            if conn is None:
                self._note(received)
                self._act([])
            else:
                self._took(conn, received)
        except Exception as error:  # noqa: BLE001
            self._loop.call_exception_handler({"message": "a connection was not served", "exception": error})
            if conn is not None:  # nobody is left waiting on it
                self._loop.call_soon(self._end, conn, "an error here")

    def _took(self, conn: Conn, received: Received) -> None:
        effects, state = self.node.took(conn, received, now_ns=now())
        self._act(effects)
        self._next(conn, state)

    def _go_on(self, conn: Conn) -> None:
        if conn not in self._sockets or conn in self._lingering:
            return
        effects, state = self.node.go_on(conn, now_ns=now())
        self._act(effects)
        if conn in self._sockets and conn not in self._lingering:
            self._loop.add_reader(self._sockets[conn].fileno(), self._readable, conn)
            self._next(conn, state)

    def _next(self, conn: Conn, state: State) -> None:
        if state == "busy":
            if conn in self._secured and conn in self._sockets:  # from a plain one the engine reads nothing more
                self._loop.remove_reader(self._sockets[conn].fileno())
            self._loop.call_soon(self._go_on, conn)
        elif state == "blocked" and conn in self._sockets:
            self._loop.remove_reader(self._sockets[conn].fileno())

    def _writable(self, conn: Conn) -> None:
        stuck = self._flush(conn)
        if stuck is None:
            self._loop.remove_writer(self._sockets[conn].fileno())
            if conn in self._lingering:
                self._end(conn, "closed")
        else:
            self._note(stuck)
        self._act([])

    def _note(self, stuck: Received) -> None:
        """A flush has not written everything."""
        self.node.stalled.update(dict.fromkeys(stuck.stalled))
        self.node.ended += stuck.ended

    def _see_to_sockets(self) -> None:
        """The full ones are written when they can be, those that have ended end here, and who waited goes on."""
        stalled, self.node.stalled = self.node.stalled, {}
        for conn in stalled:
            if conn in self._sockets:
                self._loop.add_writer(self._sockets[conn].fileno(), self._writable, conn)
        ended, self.node.ended = self.node.ended, []
        for conn, number in ended:
            self._end(conn, os.strerror(number) if number else "closed by the other side")
        for conn in self.engine.unblocked() if self.node.blocked else []:
            self._go_on(conn)

    # -- the machine ---------------------------------------------------------------------------------------------------

    def _tell(self, event: BrokerEvent) -> None:
        self._act(self.node.handle(event, now_ns=now()))

    def _act(self, effects: Iterable[DriverEffect]) -> None:
        ready, self.node.ready = self.node.ready, {}
        for conn in ready:
            if conn in self._sockets and (stuck := self._flush(conn)) is not None:
                self._note(stuck)
        for effect in effects:
            match effect:
                case Close(conn):
                    self._close(conn)
                case Dial(order, address):
                    self._dials[order] = self._loop.create_task(self._dial(order, address))
                case Note():
                    self._on_note(effect)
        self._see_to_sockets()
        self._arm()

    def _look_at_calendar(self) -> None:
        """It may be set while we run: the node is told anew with every measurement of its load."""
        self.node.unix_offset_ns = time_ns() - now()

    def _arm(self) -> None:
        """Wake up when the machine wants to."""
        deadline_ns = self.node.deadline_ns()
        if deadline_ns == self._timer_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = deadline_ns
        self._timer = None
        if deadline_ns is not None:
            self._timer = self._loop.call_later(max(0, deadline_ns - now()) / 1e9, self._time_passed)

    def _time_passed(self) -> None:
        self._timer_ns = None
        self._look_at_calendar()
        self._tell(TimePassed())

    def _look(self, security: Security, *, is_first: bool = False) -> None:
        """The machine hears at once of what has changed, and now and then what time it is."""
        try:
            changed = security.look()
        except BadConfiguration as error:  # what was good goes on being good
            changed = False
            self._say(Note("security is not understood", {"why": error.message}))
        if changed or is_first:
            self._tell(Trust(security.authority, time_ns()))
        self._next_look = self._loop.call_later(LOOKS_EVERY_S, self._look, security)
