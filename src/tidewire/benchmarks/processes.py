"""A server as a process with its children: started, measured by /proc, and ended by its ids."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from tidewire.model.errors import Unavailable

_PROC: Final = Path("/proc")
_numbers = count(1)
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_POLL_S: Final = 0.05
_END_S: Final = 15.0
_SHOWN: Final = 500

# Places in /proc/PID/stat behind the name, which may contain anything.
_STATE, _PARENT, _UTIME, _STIME, _START = 0, 1, 11, 12, 19


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _stat(pid: int) -> list[str] | None:
    try:
        return (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def process_tree(pid: int) -> list[int]:
    """The process and all that descend from it, parents first."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        stat = _stat(int(entry.name)) if entry.name.isdigit() else None
        if stat is not None:
            children.setdefault(int(stat[_PARENT]), []).append(int(entry.name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


def cpu_s(pids: Sequence[int]) -> float:
    """User and system time of these processes so far."""
    return sum(max(_counted_s(pid), _scheduled_s(pid)) for pid in pids)


def _counted_s(pid: int) -> float:
    """With the threads that have ended, but in ticks of usually 10 ms."""
    stat = _stat(pid)
    return 0.0 if stat is None else (int(stat[_UTIME]) + int(stat[_STIME])) * _TICK_S


def _scheduled_s(pid: int) -> float:
    """To the nanosecond, but only of the threads that live."""
    total = 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total += int((task / "schedstat").read_text(encoding="utf-8").split()[0])
    return total / 1e9


def rss_bytes(pids: Sequence[int]) -> int:
    """Memory that these processes have in RAM."""
    total = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += int((_PROC / str(pid) / "statm").read_text(encoding="utf-8").split()[1]) * _PAGE_BYTES
    return total


@contextlib.contextmanager
def confined(cpus: Collection[int]) -> Iterator[None]:
    """Whatever this thread starts meanwhile, threads and processes, runs on these CPUs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def split_cpus() -> tuple[list[int], list[int]]:
    """One for a server, the others for who uses it; with a single one, all for both."""
    cpus = sorted(os.sched_getaffinity(0))
    return (cpus[:1], cpus[1:]) if len(cpus) > 1 else (cpus, cpus)


class ServerProcess:
    """One running server; what it says goes to a log in its folder."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], folder: Path) -> None:
        self._log = folder / f"{Path(argv[0]).name}-{next(_numbers)}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                argv, env=dict(env), cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        atexit.register(self.end)

    @property
    def pid(self) -> int:
        """Of the first process; the others descend from it."""
        return self._process.pid

    def wait_until_listening(self, port: int, *, timeout_s: float) -> None:
        """Unavailable, with what it said last, if it ends or does not listen in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"{self._log.stem} does not listen on port {port}: {self._said()}")
            time.sleep(_POLL_S)

    def wait_until_said(self, text: str, *, times: int = 1, timeout_s: float) -> None:
        """Unavailable, with what it said last, if it does not say this so often in time."""
        deadline = time.monotonic() + timeout_s
        while self._log.read_text(encoding="utf-8", errors="replace").count(text) < times:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"{self._log.stem} does not say {text!r}: {self._said()}")
            time.sleep(_POLL_S)

    def _said(self) -> str:
        return " ".join(self._log.read_text(encoding="utf-8", errors="replace").split())[-_SHOWN:] or "it said nothing"

    def end(self) -> None:
        """Ask it to end, then end what is left of it and its children."""
        atexit.unregister(self.end)
        if self._process.poll() is not None:
            return
        family = {pid: stat[_START] for pid in process_tree(self.pid) if (stat := _stat(pid))}
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        for pid, start in family.items():
            if _is_running(pid, start):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + _END_S
        while any(_is_running(pid, start) for pid, start in family.items()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def _is_running(pid: int, start: str) -> bool:
    """Not ended, and not another process that got the number since."""
    stat = _stat(pid)
    return stat is not None and stat[_START] == start and stat[_STATE] not in "ZX"
