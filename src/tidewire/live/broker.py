"""A broker on real sockets. One kernel call per read; Python runs only when there is something to decide."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from resource import RLIMIT_NOFILE, getrlimit
from time import time_ns
from typing import Final

from msgspec.structs import replace

import tidewire
from tidewire._kernel._native import Log
from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import BrokerCore
from tidewire.broker.effects import Note
from tidewire.broker.events import BrokerEvent, NoRoom, Started, Stopping
from tidewire.broker.node import BrokerNode, DriverEffect
from tidewire.broker.node_streams import NodeStreams
from tidewire.broker.status import Host
from tidewire.dataplane.kernel import IDLE, KernelEngine
from tidewire.dataplane.protocol import Received, State
from tidewire.identity.guard import Trust
from tidewire.live.clock import now
from tidewire.live.entrance import Entrance, place_of
from tidewire.live.journal import Journal, Listener
from tidewire.live.security import LOOKS_EVERY_S, Security
from tidewire.live.selector import PlaneSelector
from tidewire.live.settings import check_addresses
from tidewire.live.sockets import dial, hang_up, keep_queue_here, let_connect, parse_address, reserve, tune
from tidewire.live.store import open_log
from tidewire.live.tls import Handshake, Securing
from tidewire.model.errors import BadConfiguration, LimitReached, StoreFailed, TidewireError
from tidewire.model.ids import Conn
from tidewire.model.messages import Bye
from tidewire.observe.findings import SPARE_FILES
from tidewire.wire.connections import Close, Closed, Dial, DialFailed, Opened, TimePassed
from tidewire.wire.frames import message_frame

_KEPT_S: Final = 0.005
_LINGER_S: Final = 1.0
"""How long a connection that we end may take to read what we last said."""
_NO_ROOM: Final = message_frame(
    Bye(LimitReached.code, "this broker has no more open files: try another, or later", 5.0)
)


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
        listener = reserve(host, port)  # it can be reached when it can serve: a long log takes a while to read
        if port == 0:
            config = replace(config, address=f"{host}:{listener.getsockname()[1]}")
        self.config = config
        self.engine = KernelEngine(
            seed=int.from_bytes(os.urandom(8), "little"),
            frame_bytes_max=config.frame_bytes_max,
            cache_bytes_max=config.stream_cache_bytes,
            is_fair=config.fair_streams,
        )
        if config.enforce_capacity:
            self.engine.limit_to(cpu_share=config.cpu_share, output_bytes_s=config.output_bytes_s)
        core = BrokerCore(config, incarnation=time_ns(), chance=Random())
        self._log: Log | None = None
        self._found: list[Note] = []
        if config.store is not None:
            self._log, self._found = open_log(Path(config.store))
        self.node = BrokerNode(core, self.engine, streams=NodeStreams(core, self.engine, self._log))
        files_max = getrlimit(RLIMIT_NOFILE)[0]
        self.node.host = Host(version=tidewire.__version__, pid=os.getpid(), files_max=files_max)
        self._room = files_max - min(SPARE_FILES, files_max // 4)
        """For connections. The rest is for neighbours and files."""
        self._journal = Journal(on_note or (lambda _: None))
        self._listener = listener
        self._entrance = Entrance(listener, let_in=self._let_in, say=self._say)
        self._selector = selector
        self._sockets: dict[Conn, socket.socket] = {}
        self._securing = Securing(self._was_secured, self._was_not_secured)
        self._conns = 0
        self._free: list[Conn] = []
        self._lingering: dict[Conn, asyncio.TimerHandle] = {}
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns: int | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._stopped: asyncio.Event | None = None
        self._log_fd: int | None = None
        self._is_settling = self._is_to_serve = False
        self._failure: StoreFailed | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.config.address

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and look for the neighbours. Unavailable if somebody else listens there."""
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        if self._selector is not None:
            self._selector.serve(self.engine, self._told)
        self._look_at_calendar()
        if self._security is not None:
            self._look(self._security, is_first=True)
        for note in self._found:
            self._say(note)
        try:
            self._tell(Started())
            let_connect(self._listener)
        except TidewireError:  # it cannot serve what it was given, or not there
            await self.stop()
            raise
        self._entrance.open()
        if self._log is not None:
            self._log_fd = self.engine.start_log()
            self._loop.add_reader(self._log_fd, self._log_is_ready)

    async def stop(self) -> None:
        """Say goodbye to everyone, and end."""
        if self._stopped is None or self._stopped.is_set():
            return
        self._stopped.set()
        self._entrance.close()
        for task in self._dials.values():
            task.cancel()
        self._tell(Stopping())
        for conn in list(self._sockets):
            self._end(conn, "stopped")
        self._securing.stop()
        if self._log_fd is not None:
            self._loop.remove_reader(self._log_fd)
        if self._log is not None:
            self._log.close()
        for timer in (self._timer, self._next_look, self._rest):
            if timer is not None:
                timer.cancel()

    async def run(self) -> None:
        """Until it is stopped. StoreFailed if its disk has failed: then it ends by itself.

        Nothing tells what is on such a disk. Whoever starts the broker again finds out, and publishers say again what
        has no receipt.
        """
        assert self._stopped is not None
        await self._stopped.wait()
        if self._failure is not None:
            raise self._failure

    # -- connections ---------------------------------------------------------------------------------------------------

    def _let_in(self, connection: socket.socket, place: str) -> None:
        if len(self._sockets) >= self._room:
            self._tell(NoRoom())
        if len(self._sockets) >= self._room:
            self._say(Note("no room", {"connections": len(self._sockets)}))
            with suppress(OSError):
                connection.send(b"" if self._security is not None else _NO_ROOM)
            connection.close()
            return
        tune(connection)
        if self._security is None:
            self._open(connection, None, place=place)
        else:
            self._securing.begin(Handshake(connection, self._security.server, self._security.signers))

    def _say(self, note: Note) -> None:
        self.node.decisions.add(note, now_ns=now())
        self._journal.add(note, now_ns=now())

    def _was_secured(self, handshake: Handshake) -> None:
        place = place_of(handshake.address.rpartition(":")[0])
        self._open(handshake.connection, handshake.order, handshake, place=place)

    def _was_not_secured(self, handshake: Handshake, reason: str) -> None:
        self._say(Note("not secured", {"with": handshake.address, "why": reason}))
        if handshake.order is not None:
            self._tell(DialFailed(handshake.order, reason))

    def _open(
        self, connection: socket.socket, order: int | None, handshake: Handshake | None = None, *, place: str = ""
    ) -> None:
        if self._free:
            conn = self._free.pop()
        else:
            self._conns += 1
            conn = Conn(self._conns)
        self._sockets[conn] = connection
        if self.node.core.shortage.is_on:
            keep_queue_here(connection)
        self._loop.add_reader(
            connection.fileno(), self._readable, conn
        )  # a number: the loop describes objects at length
        peer = None if handshake is None else handshake.peer()
        effects = self.node.handle(Opened(conn, order, peer, place), now_ns=now())
        self.engine.attach(conn, connection.fileno(), None if handshake is None else handshake.line)
        self._act(effects)

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
        hang_up(connection)
        self._free.append(conn)

    def _close(self, conn: Conn) -> None:
        """End a connection when it has taken what we last said, or soon."""
        if conn not in self._sockets or conn in self._lingering:
            return
        stuck = self.engine.flush(conn)
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
            name, signers = parse_address(address)[0], self._security.signers
            self._securing.begin(Handshake(connection, self._security.client, signers, server_name=name, order=order))

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def _readable(self, conn: Conn) -> None:
        received = self.engine.pump(conn, now_ns=now())
        if received is not None:
            self._took(conn, received)

    def _told(self, conn: Conn | None, received: Received) -> None:
        """The loop is waiting, and must survive whatever goes wrong here."""
        try:
            if conn is None:
                self._act(self.node.heard_of(received, now_ns=now()))
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
            self._loop.call_soon(self._go_on, conn)
        elif conn in self.node.blocked and conn in self._sockets:  # it may have gone on since
            self._loop.remove_reader(self._sockets[conn].fileno())

    def _writable(self, conn: Conn) -> None:
        stuck = self.engine.flush(conn)
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
        rest_ns = self.engine.rest_ns() if self.node.blocked and self._rest is None else None
        if rest_ns is not None and not self._is_over:
            self._rest = self._loop.call_later(rest_ns / 1e9, self._rested)

    def _rested(self) -> None:
        """There is capacity again for those who bring events."""
        self._rest = None
        self._act([])

    # -- the machine ---------------------------------------------------------------------------------------------------

    def _tell(self, event: BrokerEvent) -> None:
        self._act(self.node.handle(event, now_ns=now()))

    def _act(self, effects: Iterable[DriverEffect]) -> None:
        ready, self.node.ready = self.node.ready, {}
        for conn in ready:
            if conn in self._sockets and (stuck := self.engine.flush(conn)) is not None:
                self._note(stuck)
        for effect in effects:
            match effect:
                case Close(conn):
                    self._close(conn)
                case Dial(order, address):
                    self._dials[order] = self._loop.create_task(self._dial(order, address))
                case Note():
                    self._journal.add(effect, now_ns=now())
        self._see_to_sockets()
        self._settle()
        self._arm()

    def _settle(self) -> None:
        """What is to be durable soon becomes so; what is told again goes on, unless the kernel does both by itself.

        At the end closing the log does the first.
        """
        assert self.node.streams is not None
        if self._is_over:
            return
        is_appended = self._selector is None and self.engine.has_appended
        if self._log is not None and not self._is_settling and (is_appended or self.node.streams.is_unsubmitted):
            self._is_settling = True
            self._loop.call_soon(self._submit)
        if self._selector is None and not self._is_to_serve and self.engine.is_serving:
            self._is_to_serve = True
            self._loop.call_soon(self._serve)

    @property
    def _is_over(self) -> bool:
        return self._stopped is not None and self._stopped.is_set()

    def _submit(self) -> None:
        assert self.node.streams is not None
        if self._is_over:
            return
        self.node.streams.is_unsubmitted = self._is_settling = False
        self._act(self.node.heard_of(self.engine.submit(now_ns=now()), now_ns=now()))
        self._look_at_kept()

    def _look_at_kept(self) -> None:
        """Somebody waits for what is to be kept; the kernel hears first that it is durable, and says nothing."""
        assert self.node.streams is not None
        if self.node.streams.is_keeping and not self._is_over:
            self._act(self.node.heard_of(IDLE, now_ns=now()))
            self._loop.call_later(_KEPT_S, self._look_at_kept)

    def _serve(self) -> None:
        self._is_to_serve = False
        if self._is_over:
            return
        self._act(self.node.serve(now_ns=now()))

    def _log_is_ready(self) -> None:
        self._act(self.node.committed(now_ns=now()))

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
        self._journal.look(now())
        self._look_at_calendar()
        self._tell(TimePassed())
        if self._log is not None and self._failure is None and self._log.trouble == "failed":
            self._failure = StoreFailed(f"the log in {self.config.store} has failed: {self._log.trouble_text}")
            self._loop.create_task(self.stop())

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
