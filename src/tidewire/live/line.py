"""One connection of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from tidewire.model.ids import Conn
from tidewire.wire.frames import FrameReader

FRAME_BYTES_MAX: Final = 64 << 20
"""What a client takes from its broker: the broker has its own bound."""


class Owner(Protocol):
    """Whose connection it is."""

    def came(self, line: Line, data: bytes) -> None:
        """Bytes have come."""

    def lost(self, line: Line, reason: str) -> None:
        """It has ended."""

    def hint(self, line: Line) -> str:
        """What may be the matter with a broker that ends a connection without a word."""

    def wake_publishers(self) -> None:
        """There is room again."""


class Line(asyncio.Protocol):
    """One connection."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.conn = Conn(0)
        self.transport: asyncio.Transport | None = None
        self.frames = FrameReader(frame_bytes_max=FRAME_BYTES_MAX)
        self.offset_ns = 0
        self.error_us = 0
        self.is_full = False
        self.is_unread = False
        """Is it not read, because the application is behind?"""
        self.why_lost: str | None = None
        self.has_spoken = False
        """Has the broker said anything?"""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self.has_spoken = True
        self._owner.came(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        behind = "; it was not read at the time, because events waited here" if self.is_unread else ""
        self.why_lost = (str(exc) if exc else "closed by the broker") + behind + self._owner.hint(self)
        self._owner.lost(self, self.why_lost)

    def pause_writing(self) -> None:
        """It has no room."""
        self.is_full = True

    def resume_writing(self) -> None:
        """It has room again."""
        self.is_full = False
        self._owner.wake_publishers()


async def end_lines(lines: Mapping[Conn, Line], all_ended: asyncio.Event, *, seconds: float) -> None:
    """End these; those that take longer are cut off. ``all_ended`` is set when none is left."""
    for line in lines.values():
        if line.transport is not None:
            line.transport.close()
    try:
        async with asyncio.timeout(seconds):
            while lines:
                await all_ended.wait()
    except TimeoutError:
        pass
    finally:
        for line in lines.values():
            if line.transport is not None:
                line.transport.abort()
    await asyncio.sleep(0)
