"""A node as a process: runs until it is told to end, and ends cleanly."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Any, Final

ENDS_WITHIN_S: Final = 60.0
"""So long a process may take to end whose parent is gone: nobody is there any more to kill it."""


def end_with_parent() -> None:
    """From now on this process is told to end when its standard input does: who started it is no more, even by kill -9.

    What it says while it ends, nobody reads.
    """

    def wait() -> None:
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for output in (1, 2):
            os.dup2(nowhere, output)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ENDS_WITHIN_S)
        os._exit(1)

    # A daemon, because the process may end before.
    threading.Thread(target=wait, name="parent", daemon=True).start()


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
