"""Running ``tidewire-load``: one native client for every server, so that the client's side costs everyone the same."""

from __future__ import annotations

import contextlib
import select
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

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


class Side(msgspec.Struct, frozen=True):
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


def median_delays(runs: Sequence[Loaded]) -> Delays:
    """Of several runs; of the longest delays, the longest."""

    def median(of: Callable[[Delays], float]) -> float:
        return statistics.median(of(one.delay_us) for one in runs)

    return Delays(
        p50=median(lambda one: one.p50),
        p99=median(lambda one: one.p99),
        p999=median(lambda one: one.p999),
        max=max(one.delay_us.max for one in runs),
    )


def executable() -> Path:
    """The load generator; Unavailable if it has not been built."""
    place = Path(next(iter(_kernel.__path__))) / "tidewire-load.bin"
    if not place.exists():
        raise Unavailable(f"{place.name} has not been built: make setup")
    return place


def plan_text(
    dialect: Dialect,
    traffic: Traffic,
    *,
    port: int,
    subject: str,
    publishes: bool,
    subscribes: bool,
    authority: Path | None = None,
) -> str:
    """The plan of one process, as native/plan.hpp describes it."""
    lines = plan_head(dialect, traffic, authority=authority)
    for _ in range(traffic.publishers if publishes else 0):
        lines += connection_lines("publish", port, dialect.publisher(subject), [dialect.message(subject)])
    for _ in range(traffic.subscribers if subscribes else 0):
        lines += connection_lines("subscribe", port, dialect.subscriber(subject))
    return "\n".join(lines) + "\n"


def plan_head(
    dialect: Dialect, traffic: Traffic, *, authority: Path | None = None, together: int = 1, keepalive_s: float = 1.0
) -> list[str]:
    """The lines of a plan that come before its connections; with an authority they use TLS, and trust only that."""
    lines = [
        f"protocol {dialect.name}",
        f"events {traffic.events}",
        f"rate {traffic.rate}",
        f"expect {traffic.deliveries}",
        f"publishers {traffic.publishers}",
        f"idle_s {traffic.idle_s}",
        f"stamp {STAMP_BYTES + dialect.trailer_bytes}",
        f"payload_stamp {STAMP_BYTES}",
        f"born {dialect.born_at}",
        f"together {together}",
    ]
    if dialect.keepalive:
        lines.append(f"keepalive {dialect.keepalive.hex()} {keepalive_s}")
    if authority is not None:
        lines.append(f"authority {authority}")
    return lines


def connection_lines(
    role: Literal["publish", "subscribe"], port: int, steps: Iterable[Step], messages: Iterable[bytes] = ()
) -> list[str]:
    """The lines of one connection; messages are published in turn."""
    lines = [f"address 127.0.0.1 {port}", f"connection {role}"]
    lines += [f"{step.verb} {step.data.hex()}" for step in steps]
    return lines + [f"message {message.hex()}" for message in messages]


class Load:
    """Publishers in one process, subscribers in another, all connected; they can be told to go again and again."""

    def __init__(self, publishers: Generator, subscribers: Generator, server_cpu_s: Callable[[], float]) -> None:
        self._publishers, self._subscribers, self._server_cpu_s = publishers, subscribers, server_cpu_s

    def go(self, *, events: int, expect: int, limit_s: float = _LIMIT_S) -> Loaded:
        """So many events of each publisher, so many deliveries; the server's CPU time is read before and after."""
        before = self._server_cpu_s()
        self._subscribers.go(events, expect)
        self._publishers.go(events, expect)
        received = self._subscribers.result(limit_s)
        spent = self._server_cpu_s() - before
        self._publishers.stop()
        return _joined(self._publishers.result(limit_s), received, spent)


@contextlib.contextmanager
def connected(
    *, publish: str, subscribe: str, server_cpu_s: Callable[[], float] = lambda: 0.0, setup_s: float = _SETUP_S
) -> Iterator[Load]:
    """Both processes have made their connections by these plans; subscribers first."""
    with generating(subscribe, setup_s=setup_s) as subscribers, generating(publish, setup_s=setup_s) as publishers:
        yield Load(publishers, subscribers, server_cpu_s)


@contextlib.contextmanager
def generating(plan: str, *, setup_s: float = _SETUP_S, gives_way: bool = False) -> Iterator[Generator]:
    """A process that has made its connections by this plan; Unavailable if it cannot, or not in time.

    ``gives_way``: it gets the CPU that no other process wants.
    """
    pipe = subprocess.PIPE
    with TemporaryDirectory(prefix="tidewire-load-") as folder:
        file = Path(folder) / "plan"
        file.write_text(plan, encoding="ascii")
        command = [*(["chrt", "--idle", "0"] if gives_way else []), str(executable()), str(file)]
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
            try:
                yield Generator(process, setup_s)
            finally:
                if process.poll() is None:
                    process.kill()


def run_load(
    dialect: Dialect,
    traffic: Traffic,
    *,
    port: int,
    subject: str,
    publish_port: int | None = None,
    authority: Path | None = None,
    server_cpu_s: Callable[[], float] = lambda: 0.0,
) -> Loaded:
    """One turn with connections of its own, by TLS if an authority is given; publishers may go to another port."""

    def plan(port: int, *, publishes: bool) -> str:
        return plan_text(
            dialect, traffic, port=port, subject=subject, publishes=publishes, subscribes=not publishes,
            authority=authority,
        )  # fmt: skip

    publish, subscribe = plan(publish_port or port, publishes=True), plan(port, publishes=False)
    with connected(publish=publish, subscribe=subscribe, server_cpu_s=server_cpu_s) as load:
        return load.go(events=traffic.events, expect=traffic.deliveries)


def _joined(sent: Side, received: Side, server_cpu_s: float) -> Loaded:
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


class Generator:
    """One tidewire-load whose connections are made, told by its standard input when to go and when to end."""

    def __init__(self, process: subprocess.Popen[bytes], setup_s: float) -> None:
        self._process = process
        word, _, seconds = self._line(setup_s).partition(b" ")
        if word != b"ready":
            raise Unavailable(self._complaint())
        self.setup_s = float(seconds)
        """What it took to make the connections."""

    def go(self, events: int, expect: int) -> None:
        """Publish so many events each; until so many deliveries have come."""
        self._say(f"go {events} {expect}")

    def stop(self) -> None:
        """End this turn."""
        self._say("stop")

    def result(self, timeout_s: float) -> Side:
        """Of the turn, when it is over."""
        line = self._line(timeout_s)
        if not line:
            raise Unavailable(self._complaint())
        return msgspec.json.decode(line, type=Side)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # why it ended is told when its result is asked for
            self._process.stdin.write(line.encode() + b"\n")

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
