"""A node as a process: runs until it is told to end, and ends cleanly."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Any


def allow_many_files() -> int:
    """This process and those that it starts from now on may open as many files as the machine allows: how many?"""
    _, hard = getrlimit(RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system may allow less than it says
        setrlimit(RLIMIT_NOFILE, (hard, hard))
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return soft


async def until_told(
    start: Callable[[], Awaitable[None]],
    stop: Callable[[], Awaitable[None]],
    run: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Start, wait for SIGINT or SIGTERM, stop. ``run``: what may end by itself, with an error that is raised then."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, told.set)
    await start()
    gc.collect()
    gc.freeze()  # what stands now stays: the collector need not look at it again
    signalled = loop.create_task(told.wait())
    running = None if run is None else loop.create_task(run())
    try:
        await asyncio.wait(
            [signalled] if running is None else [signalled, running], return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        gc.unfreeze()
        await stop()
        signalled.cancel()
    if running is not None:
        await running
