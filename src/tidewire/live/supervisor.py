"""Several nodes as processes of one parent: restarted with back-off when they die, ended together.

Each has a pipe from us as its standard input, which is at its end when we are, however we end: those that were told so
(``process.end_with_parent``) end by that.

One that fails again and again at its start has a reason that another start does not mend (a damaged file, a port that
is taken): it is given up, with what it said last. One that was killed is started again in any case.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

BACK_OFF_S_MAX: Final = 10.0
_STEADY_S: Final = 10.0
"""A process that has run so long has not failed at its start."""
FAILURES_MAX: Final = 5
"""In a row, each at its start: then it is given up."""
STOP_S: Final = 5.0
"""So long a process may take to end; then it is killed."""


class Child(msgspec.Struct):
    """A process that is kept running."""

    name: str
    command: list[str]
    stop_s: float = STOP_S
    restarts: int = 0
    pid: int | None = None
    last_said: str = ""
    is_given_up: bool = False


Say = Callable[[str, str], None]
"""The name of a child, and a line that it or we say of it."""


class Supervisor:
    """Keeps children running until ``stop``."""

    def __init__(self, *, say: Say) -> None:
        self._say = say
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self.children: dict[str, Child] = {}
        self._stopping = asyncio.Event()

    def start(self, child: Child) -> None:
        """Run it, from now on."""
        self.children[child.name] = child
        self._tasks[child.name] = asyncio.get_running_loop().create_task(self._keep(child))

    async def stop(self) -> None:
        """End all of them, the last one first; those that do not end are killed."""
        self._stopping.set()
        for name in reversed(self._tasks):
            process = self._processes.get(name)
            if process is not None and process.returncode is None:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
                try:
                    async with asyncio.timeout(self.children[name].stop_s):
                        await process.wait()
                except TimeoutError:
                    with suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
            self._tasks[name].cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _keep(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._stopping.is_set():
            began = loop.time()
            code = await self._run(child)
            if self._stopping.is_set():
                return
            failures = 0 if loop.time() - began >= _STEADY_S else failures + 1
            if code >= 0 and failures >= FAILURES_MAX:
                child.is_given_up = True
                self._say(child.name, f"failed {failures} times in a row, and is given up: {_reason(child, code)}")
                return
            pause_s = min(0.2 * 2**failures, BACK_OFF_S_MAX)
            self._say(child.name, f"ended ({_ending(code)}); starts again in {pause_s:.1f} s")
            await asyncio.sleep(pause_s)
            child.restarts += 1

    async def _run(self, child: Child) -> int:
        process = await asyncio.create_subprocess_exec(
            *child.command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            stdin=asyncio.subprocess.PIPE,
            process_group=0 if os.name == "posix" else None,  # a Ctrl-C in the terminal is for us, we pass it on
        )
        self._processes[child.name] = process
        child.pid, child.last_said = process.pid, ""
        assert process.stdout is not None
        async for line in process.stdout:
            said = line.decode(errors="replace").rstrip()
            child.last_said = said or child.last_said
            self._say(child.name, said)
        return await process.wait()


class _Error(msgspec.Struct):
    message: str


class _Refusal(msgspec.Struct):
    """How a command ends that cannot do what it should."""

    error: _Error


def _reason(child: Child, code: int) -> str:
    """What it said last; of an error document, what is for people."""
    try:
        return msgspec.json.decode(child.last_said, type=_Refusal).error.message
    except msgspec.MsgspecError:
        return child.last_said or _ending(code)


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit {code}"
