"""Waiting for sockets: those of the data plane are read inside the kernel, without a step in Python for each."""

from __future__ import annotations

import asyncio
import math
import select
import selectors
from collections.abc import Callable
from typing import Final, Protocol

from tidewire.dataplane.protocol import Received
from tidewire.model.ids import Conn

_WAIT_MS_MAX: Final = 60_000
Told = Callable[[Conn | None, Received], None]


class Waiter(Protocol):
    """An engine that can wait on an epoll."""

    def wait(self, epoll: int, *, timeout_ms: int) -> tuple[list[tuple[int, int]], tuple[Conn | None, Received] | None]:
        """Pump what can be read, until there is something to know."""


class PlaneSelector(selectors.EpollSelector):
    """A selector that hands the waiting to an engine, once it has one. What that has to tell is told at once."""

    def __init__(self) -> None:
        super().__init__()
        self._engine: Waiter | None = None
        self._tell: Told = lambda _conn, _received: None

    def serve(self, engine: Waiter, tell: Told) -> None:
        """From now on, let this engine wait."""
        self._engine, self._tell = engine, tell

    def loop(self) -> asyncio.AbstractEventLoop:
        """An event loop that waits by this."""
        return asyncio.SelectorEventLoop(self)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As of any selector; what the engine has handled is not among it."""
        if self._engine is None:
            return super().select(timeout)
        timeout_ms = -1 if timeout is None else min(math.ceil(max(0.0, timeout) * 1e3), _WAIT_MS_MAX)
        others, told = self._engine.wait(self.fileno(), timeout_ms=timeout_ms)
        if told is not None:  # first: it may end connections that were ready
            self._tell(*told)
        known, ready = self.get_map(), []
        for fd, events in others:
            key = known.get(fd)
            if key is None:
                continue
            wanted = selectors.EVENT_WRITE if events & ~select.EPOLLIN else 0
            wanted |= selectors.EVENT_READ if events & ~select.EPOLLOUT else 0
            if wanted & key.events:
                ready.append((key, wanted & key.events))
        return ready
