"""Lines of standard input as they come: whoever waits for the next one does not keep the session from its work."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

CHUNK_BYTES: Final = 1 << 16
CHUNKS_MAX: Final = 16
"""What is read ahead of those who take it."""


async def typed_lines() -> AsyncIterator[str]:
    """Each line without its end, also a last one that has none."""
    loop, chunks = asyncio.get_running_loop(), asyncio.Queue[list[bytes] | OSError | None]()
    room = threading.Semaphore(CHUNKS_MAX)

    def say(chunk: list[bytes] | OSError | None) -> None:
        room.acquire()
        with suppress(RuntimeError):  # nobody waits for it any more
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)

    def read() -> None:
        rest = b""
        try:
            while got := os.read(sys.stdin.fileno(), CHUNK_BYTES):
                *lines, rest = (rest + got).split(b"\n")
                say(lines)
            say([rest] if rest else [])
            say(None)
        except OSError as error:
            say(error)

    # A daemon, because nothing ends a thread that waits for a keyboard.
    threading.Thread(target=read, name="standard input", daemon=True).start()
    while (chunk := await chunks.get()) is not None:
        if isinstance(chunk, OSError):
            raise chunk
        for line in chunk:
            yield line.decode("utf-8", "surrogateescape")
        room.release()
