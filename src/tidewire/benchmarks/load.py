"""Running ``tidewire-load``: one native client for every server, so that the client's side costs everyone the same."""

from __future__ import annotations

import contextlib
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

import msgspec

from tidewire import _kernel
from tidewire.benchmarks.dialects import STAMP_BYTES, Dialect, Step
from tidewire.model.errors import Unavailable

_SETUP_S: Final = 60.0
_LIMIT_S: Final = 300.0
_ERRORS_SHOWN: Final = 3


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """What is published to whom. ``rate`` is of each publisher, in events/s; 0: as fast as the server takes them."""

    events: int
    publishers: int = 1
    subscribers: int = 1
    rate: float = 0.0
    idle_s: float = 2.0
    """When nothing has come for so long, what is missing is lost."""

    @property
    def deliveries(self) -> int:
        """If nothing is lost: every subscriber wants everything."""
        return self.events * self.publishers * self.subscribers


class Delays(msgspec.Struct, frozen=True):
    """In µs, to 1.6 %."""

    p50: float
    p99: float
    p999: float
    max: float


class _Side(msgspec.Struct, frozen=True):
    """What one process of tidewire-load reports."""

    deliveries: int
    expected: int
    published: int
    seconds: float
    cpu_s: float
    publish_s: float
    bytes_in: int
    bytes_out: int
    out_of_order: int
    complaints: int
    delay_us: Delays
    late_us: Delays
    errors: list[str]


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run."""

    deliveries: int
    lost: int
    seconds: float
    """From the first sending to the last delivery."""

    deliveries_per_s: float
    delay_us: Delays
    late_us: Delays
    """How long after its time an event was sent: the client's own fault."""

    out_of_order: int
    complaints: int
    server_cpu_s: float
    client_cpu_s: float
    bytes_in: int
    bytes_out: int
    errors: list[str]

    @property
    def server_us_per_delivery(self) -> float:
        """CPU of the server."""
        return self.server_cpu_s * 1e6 / max(1, self.deliveries)


def executable() -> Path:
    """The load generator; Unavailable if it has not been built."""
    place = Path(next(iter(_kernel.__path__))) / "tidewire-load.bin"
    if not place.exists():
        raise Unavailable(f"{place.name} has not been built: make setup")
    return place


def plan_text(dialect: Dialect, traffic: Traffic, *, port: int, subject: str, publishes: bool, subscribes: bool) -> str:
    """The plan of one process, as native/plan.hpp describes it."""
    lines = [
        f"protocol {dialect.name}",
        f"address 127.0.0.1 {port}",
        f"events {traffic.events}",
        f"rate {traffic.rate}",
        f"expect {traffic.deliveries}",
        f"publishers {traffic.publishers}",
        f"idle_s {traffic.idle_s}",
        f"stamp {STAMP_BYTES + dialect.trailer_bytes}",
        f"payload_stamp {STAMP_BYTES}",
        f"born {dialect.born_at}",
    ]
    if dialect.keepalive:
        lines.append(f"keepalive {dialect.keepalive.hex()} 1")
    for _ in range(traffic.publishers if publishes else 0):
        lines += ["connection publish", *_steps(dialect.publisher(subject))]
        lines.append(f"message {dialect.message(subject).hex()}")
    for _ in range(traffic.subscribers if subscribes else 0):
        lines += ["connection subscribe", *_steps(dialect.subscriber(subject))]
    return "\n".join(lines) + "\n"


def _steps(steps: list[Step]) -> list[str]:
    return [f"{step.verb} {step.data.hex()}" for step in steps]


def run_load(
    dialect: Dialect, traffic: Traffic, *, port: int, subject: str, server_cpu_s: Callable[[], float] = lambda: 0.0
) -> Loaded:
    """Publishers in one process, subscribers in another; the server's CPU time is read before and after."""
    program = executable()
    with TemporaryDirectory(prefix="tidewire-load-") as folder, contextlib.ExitStack() as stack:
        sides: list[_Process] = []
        for role in ("subscribe", "publish"):
            plan = Path(folder) / role
            publishes = role == "publish"
            text = plan_text(
                dialect, traffic, port=port, subject=subject, publishes=publishes, subscribes=not publishes
            )
            plan.write_text(text, encoding="ascii")
            side = stack.enter_context(_started([str(program), str(plan)]))
            side.wait_until_ready()
            sides.append(side)
        subscribers, publishers = sides
        before = server_cpu_s()
        subscribers.go()
        publishers.go()
        received = subscribers.result()
        spent = server_cpu_s() - before
        publishers.finish()
        return _joined(publishers.result(), received, spent)


def _joined(sent: _Side, received: _Side, server_cpu_s: float) -> Loaded:
    return Loaded(
        deliveries=received.deliveries,
        lost=max(0, received.expected - received.deliveries),
        seconds=received.seconds,
        deliveries_per_s=received.deliveries / received.seconds if received.seconds > 0 else 0.0,
        delay_us=received.delay_us,
        late_us=sent.late_us,
        out_of_order=received.out_of_order,
        complaints=sent.complaints + received.complaints,
        server_cpu_s=server_cpu_s,
        client_cpu_s=sent.cpu_s + received.cpu_s,
        bytes_in=received.bytes_in,
        bytes_out=sent.bytes_out,
        errors=[*sent.errors, *received.errors][:_ERRORS_SHOWN],
    )


class _Process:
    """One tidewire-load, told by its standard input when to go and when to end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait_until_ready(self) -> None:
        if self._line(_SETUP_S) != b"ready\n":
            raise Unavailable(self._complaint())

    def go(self) -> None:
        self._stdin.write(b"go\n")
        self._stdin.flush()

    def finish(self) -> None:
        self._stdin.close()

    def result(self) -> _Side:
        line = self._line(_LIMIT_S)
        if not line:
            raise Unavailable(self._complaint())
        return msgspec.json.decode(line, type=_Side)

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _line(self, timeout_s: float) -> bytes:
        """The next line it says; empty if it ends or says nothing in time."""
        assert self._process.stdout is not None
        deadline, line = time.monotonic() + timeout_s, b""
        while not line.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                return b""
            byte = self._process.stdout.read(1)
            if not byte:
                return b""
            line += byte
        return line

    def _complaint(self) -> str:
        self._process.kill()
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode(errors="replace").strip()
        return said or "tidewire-load said nothing in time"


@contextlib.contextmanager
def _started(command: list[str]) -> Iterator[_Process]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        try:
            yield _Process(process)
        finally:
            if process.poll() is None:
                process.kill()
