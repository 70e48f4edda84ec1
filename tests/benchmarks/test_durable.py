"""What is acknowledged was stored, what was stored is read once and in order; a wrong count is an error."""

import asyncio
import contextlib
import os
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.benchmarks.servers import GUARANTEE, RECEIPT, Acknowledger, Fault, Keeper, play_server, serving
from tidewire.benchmarks import dialects
from tidewire.benchmarks.dialects import Step, amqp_method, quote_event
from tidewire.benchmarks.disk import DiskProbe, file_system_of
from tidewire.benchmarks.durable import CATCH_UP, SCENARIOS, Plan, Report, run
from tidewire.benchmarks.durable_dialects import (
    AT_ONCE,
    ConfirmedAmqp,
    DurableDialect,
    JetStream,
    PersistentMqtt,
    Publishing,
    Reading,
    RedisStream,
    TidewireStream,
)
from tidewire.benchmarks.durable_load import Place
from tidewire.benchmarks.durable_peers import DURABLE_PEERS, DurableBroker, DurableServer
from tidewire.benchmarks.load import Side, Traffic, connection_lines, generating, plan_head
from tidewire.benchmarks.peers import CACHE
from tidewire.benchmarks.processes import free_port
from tidewire.model.errors import PeerError, Unavailable, UnknownName, UsageError
from tidewire.model.messages import Ping, Subscribe
from tidewire.wire.frames import BORN, DELIVER, HEAD, HOP, PROMISE, frame, message_frame, taken_frame

ROOT = Path(__file__).resolve().parents[2]
SUBJECT = "bench.000001"
PINGS_EVERY = 7


class Keeping(dialects.Tidewire):
    """Publishes with a guarantee; a subscriber gets all that was kept."""

    is_read_once = False
    ways: Sequence[str] = ("all",)

    def prepare(self, subject: str, *, readers: int) -> list[Step]:
        del readers
        return self.publisher(subject)

    def publishing(self, subject: str, *, publisher: int) -> Publishing:
        del publisher
        return Publishing(self.publisher(subject), frame(GUARANTEE, BORN.pack(0) + quote_event(subject)))

    def reading(self, subject: str, *, reader: int, way: str) -> Reading:
        del reader, way
        everything, ping = message_frame(Subscribe(1, [1], [subject.encode()])), message_frame(Ping(0))
        return Reading(steps=self.publisher(subject), begin=everything, every=PINGS_EVERY, before=ping)


class Kept(DurableServer):
    """The tests' own server, in a thread."""

    name = "kept"
    dialect = dialects.Tidewire()
    durable: DurableDialect = Keeping()
    promise = "It is in memory."
    syncs = True
    version = "1.0"

    def __init__(self, cache: Path | None = None) -> None:
        del cache
        super().__init__()
        self._running = contextlib.ExitStack()

    def is_available(self) -> bool:
        return True

    def fetch(self) -> None:
        pass

    def _launch(self, port: int, folder: Path) -> None:
        raise AssertionError("it is no process")

    def start(self, port: int, *, within: Path | None = None) -> None:
        assert within is not None
        self._running.enter_context(serving(Keeper().serve, port=port))

    def stop(self) -> None:
        self._running.close()

    def cpu_s(self) -> float:
        return time.process_time()


class Ours(Kept):
    """The same again, in our place."""

    name = "tidewire"


class Unreachable(Kept):
    """Cannot be had."""

    name = "unreachable"

    def fetch(self) -> None:
        raise Unavailable("no network")


@pytest.fixture(autouse=True)
def _little_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.benchmarks.disk._SYNCS", 10)
    monkeypatch.setattr("tidewire.benchmarks.durable._WARM_UP_EVENTS", 100)
    for peer in (Kept, Unreachable):
        monkeypatch.setitem(DURABLE_PEERS, peer.name, peer)


def _few(folder: Path, **more: Any) -> Plan:
    small = {"peers": ("kept", "unreachable"), "scenarios": ("publishers_1", CATCH_UP), "rounds": 6, "turn_s": 0.01}
    return Plan(**{**small, "missed_events": 10_000, "cache": folder, "folder": folder / "disk", **more})


# -- a publisher's window ----------------------------------------------------------------------------------------------


def _published(publishing: Publishing, dialect: DurableDialect, port: int, *, events: int, window: int) -> Side:
    lines = plan_head(dialect, Traffic(events=events, idle_s=0.5))
    lines += [f"window {window}", f"number {publishing.number_at}", f"sequence {publishing.sequence_at}"]
    lines += connection_lines("publish", port, publishing.steps, [publishing.message])
    with generating("\n".join(lines) + "\n") as generator:
        generator.go(events, events)
        return generator.result(30)


def _confirm(tag: int, *, multiple: bool = False) -> bytes:
    return amqp_method(1, 60, 80, struct.pack(">QB", tag, multiple))


def _confirmed_out_of_order(done: int, come: int) -> bytes:
    """The last but one first, then the first, then all that are left."""
    if come - done < 3:
        return b"".join(map(_confirm, range(done + 1, come + 1)))
    return _confirm(come - 1) + _confirm(done + 1) + _confirm(come, multiple=True)


def _each(one: Callable[[int], bytes]) -> Callable[[int, int], bytes]:
    return lambda done, come: b"".join(map(one, range(done + 1, come + 1)))


def _told(seq: int) -> bytes:
    body = b'{"stream":"bench", "seq":%d}' % seq
    return b"MSG acks.x 1 %d\r\n%s\r\n" % (len(body), body)


def _receipt(sequence: int) -> bytes:
    return frame(RECEIPT, struct.pack("<QQ", sequence, 1))


ACKNOWLEDGED: list[tuple[DurableDialect, Callable[[int, int], bytes]]] = [
    (JetStream(), _each(_told)),
    (RedisStream(), _each(lambda number: b"$15\r\n1700000000000-%d\r\n" % (number % 10))),
    (PersistentMqtt(), _each(lambda number: b"\x40\x02" + struct.pack(">H", (number - 1) % 65_535 + 1))),
    (ConfirmedAmqp(), _confirmed_out_of_order),
    (TidewireStream(), lambda _, come: _receipt(come)),
]


@pytest.mark.parametrize(("dialect", "acknowledge"), ACKNOWLEDGED, ids=lambda value: getattr(value, "name", ""))
def test_no_more_events_than_the_window_wait_for_their_acknowledgement(
    dialect: DurableDialect, acknowledge: Callable[[int, int], bytes]
) -> None:
    publishing = dialect.publishing(SUBJECT, publisher=0)
    server = Acknowledger(publishing, acknowledge)
    with serving(server.serve) as port:
        side = _published(publishing, dialect, port, events=2_000, window=50)
    assert (side.deliveries, side.published, side.errors) == (2_000, 2_000, [])
    assert len(set(server.messages)) == len(server.messages) == 2_000
    assert 1 < server.at_once_max <= 50
    assert 0 < side.delay_us.p50 <= side.delay_us.max <= side.seconds * 1e6


def test_numbers_of_two_bytes_begin_again() -> None:
    dialect = PersistentMqtt()
    publishing = dialect.publishing(SUBJECT, publisher=0)
    server = Acknowledger(publishing, ACKNOWLEDGED[2][1])
    with serving(server.serve) as port:
        side = _published(publishing, dialect, port, events=66_000, window=1_000)
    assert (side.deliveries, side.errors) == (66_000, [])
    numbers = [message[publishing.number_at : publishing.number_at + 2] for message in server.messages]
    assert numbers[0] == numbers[65_535] == b"\0\1"
    assert len(set(numbers)) == 65_535


def test_sequences_of_eight_bytes_go_on() -> None:
    dialect = TidewireStream()
    publishing = dialect.publishing(SUBJECT, publisher=0)
    server = Acknowledger(publishing, ACKNOWLEDGED[-1][1])
    with serving(server.serve) as port:
        assert _published(publishing, dialect, port, events=70_000, window=1_000).errors == []
    sequences = [PROMISE.unpack_from(message, HEAD.size)[1] for message in server.messages]
    assert sequences == list(range(1, 70_001))


WRONG: list[tuple[str, DurableDialect, Callable[[int, int], bytes], str]] = [
    ("twice", ConfirmedAmqp(), lambda done, _: _confirm(done + 1) * 2, "acknowledged what was not waiting"),
    ("twice, ahead of others", ConfirmedAmqp(), lambda _, __: _confirm(2) * 2, "not waiting"),
    ("too many", RedisStream(), lambda done, come: b"$3\r\n1-0\r\n" * (come - done + 1), "not waiting"),
    ("never sent", Keeping(), lambda _, come: _receipt(come + 1), "not waiting"),
    ("none", Keeping(), lambda _, __: _receipt(0) * 0, ""),
    ("not confirmed", ConfirmedAmqp(), lambda done, _: amqp_method(1, 60, 120, struct.pack(">QB", done + 1, 0)), ":"),
    ("an error", RedisStream(), lambda _, __: b"-OOM command not allowed\r\n", "OOM"),
    ("not stored", JetStream(), lambda _, __: b'MSG acks.x 1 20\r\n{"error":{"code":5}}\r\n', "error"),
]


@pytest.mark.parametrize(("name", "dialect", "acknowledge", "said"), WRONG, ids=[one[0] for one in WRONG])
def test_what_is_not_acknowledged_once_is_not_counted(
    name: str, dialect: DurableDialect, acknowledge: Callable[[int, int], bytes], said: str
) -> None:
    publishing = dialect.publishing(SUBJECT, publisher=0)
    with serving(Acknowledger(publishing, acknowledge).serve) as port:
        side = _published(publishing, dialect, port, events=20, window=4)
    assert side.deliveries <= side.published, name
    assert said in " ".join(side.errors)
    assert side.errors or not side.deliveries


# -- stored, and read again --------------------------------------------------------------------------------------------


def test_all_that_was_stored_is_read_and_the_server_hears_of_it() -> None:
    keeper = Keeper()
    with serving(keeper.serve) as port:
        place = Place(Kept(), port, SUBJECT)
        stored = place.store(publishers=3, window=8, events=100)
        first, between, second = place.read(), time.perf_counter(), place.read()
        elapsed_s = time.perf_counter() - between
    assert len(set(keeper.kept)) == 300
    assert stored.events == 300
    assert stored.ack_us is not None
    assert [(turn.events, turn.ack_us) for turn in (first, second)] == [(300, None)] * 2
    assert all(turn.events_per_s == pytest.approx(300 / turn.seconds) for turn in (stored, first, second))
    assert second.seconds < elapsed_s, "counted from the coming back, not from the sending"
    assert keeper.pings == 2 * (300 // PINGS_EVERY)


def test_our_reader_says_up_to_which_tick_of_which_pubend_it_has_taken() -> None:
    """After so many deliveries; an event that was not guaranteed has no place in a stream."""
    dialect, every, said = TidewireStream(), 4, b""
    reading = msgspec.structs.replace(dialect.reading(SUBJECT, reader=7, way="follow"), every=every)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal said
        await play_server(reading.steps, reader, writer)
        assert await reader.readexactly(len(reading.begin)) == reading.begin
        for tick in range(1, 2 * every):
            writer.write(_delivered(_stamped(quote_event(SUBJECT), pubend=2**63, tick=tick)))
        writer.write(_delivered(quote_event(SUBJECT)))
        said = await reader.readexactly(2 * len(taken_frame(0, 0, 0)))

    lines = plan_head(dialect, Traffic(events=2 * every, idle_s=5.0))
    with serving(serve) as port:
        lines += connection_lines("subscribe", port, reading.steps) + reading.lines()
        with generating("\n".join(lines) + "\n") as generator:
            generator.go(0, 2 * every)
            assert generator.result(30).deliveries == 2 * every
    assert said == taken_frame(7, 2**63, every) + taken_frame(7, 2**63, 2 * every - 1)


def _delivered(event: bytes) -> bytes:
    return frame(DELIVER, HOP.pack(0, 0, 1) + b"\x01" + (7).to_bytes(4, "little") + event)


def _stamped(event: bytes, *, pubend: int, tick: int) -> bytes:
    """As the broker that hosts a pubend does: publisher, sequence, pubend and tick at the head of the envelope."""
    head = bytearray(event[:16])
    struct.pack_into("<H", head, 2, 0b1111)
    struct.pack_into("<I", head, 8, len(event) + 32)
    return bytes(head) + struct.pack("<QQQQ", 1, tick, pubend, tick) + event[16:]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("forgets", "kept: 1,399 of 1,400 read"),
        ("repeats", "1 out of order"),
        ("swaps", "1 out of order"),
        ("adds", "1 events more than were stored"),
    ],
)
def test_a_wrong_count_is_an_error(fault: Fault, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.benchmarks.durable_load._IDLE_S", 0.3)
    monkeypatch.setattr("tidewire.benchmarks.durable_load._SETTLE_S", 0.3)
    monkeypatch.setattr("tests.benchmarks.test_durable.PINGS_EVERY", 1_400)
    with serving(Keeper(fault).serve) as port:
        place = Place(Kept(), port, SUBJECT)
        place.store(publishers=1, window=8, events=1_400)
        with pytest.raises(PeerError, match=said):
            place.read()


def test_a_server_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def deaf(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    monkeypatch.setattr("tidewire.benchmarks.durable_load._IDLE_S", 0.1)
    with serving(deaf) as port, pytest.raises(Unavailable, match="kept does not make a place for events"):
        Place(Kept(), port, SUBJECT)


def test_an_acknowledgement_too_many_is_an_error() -> None:
    with serving(Keeper("acknowledges twice").serve) as port, pytest.raises(PeerError, match="not waiting"):
        Place(Kept(), port, SUBJECT).store(publishers=1, window=8, events=300)


def test_our_broker_stores_what_it_acknowledges_and_a_subscriber_that_was_away_reads_it(tmp_path: Path) -> None:
    """Several are away before anybody publishes, and each of them reads all."""
    ours, port = DurableBroker(), free_port()
    ours.start(port, within=tmp_path)
    try:
        [folder] = tmp_path.iterdir()
        place = Place(ours, port, SUBJECT, readers=2)
        assert list((folder / "store").iterdir()), "on the disk that was named"
        stored = place.store(publishers=3, window=16, events=AT_ONCE)
        assert stored.events == 3 * AT_ONCE
        assert [place.read(reader=reader).events for reader in range(2)] == [3 * AT_ONCE] * 2
        assert Place(ours, port, "bench.000002").store(publishers=1, window=1, events=10).events == 10
    finally:
        ours.stop()


SLOW = {"rabbitmq"}
REAL = ("nats", "redis", "mosquitto", "rabbitmq")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in REAL])
def test_a_peer_stores_what_it_acknowledges_and_a_subscriber_that_was_away_reads_it(name: str, tmp_path: Path) -> None:
    peer = DURABLE_PEERS[name](ROOT / CACHE)
    try:
        peer.fetch()
    except Unavailable as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(problem.message)
    port = free_port()
    peer.start(port, within=tmp_path)
    try:
        assert [folder.name.startswith(f"tidewire-{name}-") for folder in tmp_path.iterdir()] == [True]
        dialect = peer.durable
        place = Place(peer, port, SUBJECT, readers=1 if dialect.is_read_once else 2)
        stored = place.store(publishers=3, window=16, events=AT_ONCE)
        assert stored.events == 3 * AT_ONCE
        assert stored.cpu_us_per_event > 0
        for way in dialect.ways:
            for reader in range(1 if dialect.is_read_once else 2):
                assert place.read(reader=reader, way=way).events == 3 * AT_ONCE
        alone = Place(peer, port, "bench.000002")
        assert alone.store(publishers=1, window=1, events=50).events == 50
    finally:
        peer.stop()
    assert list(tmp_path.iterdir()) == []


# -- rounds and report -------------------------------------------------------------------------------------------------


def test_all_that_can_be_had_are_measured_and_compared(tmp_path: Path) -> None:
    told: list[str] = []
    report = run(_few(tmp_path), tell=lambda stage, step=0, steps=0: told.append(stage), ours=lambda: Ours(tmp_path))
    assert report.versions == {"tidewire": "1.0", "kept": "1.0"}
    assert report.missing == {"unreachable": "no network"}
    assert {"storing in kept", "catching up from tidewire"} <= set(told)
    for scenario, servers in report.scenarios.items():
        assert list(servers) == ["tidewire", "kept"], scenario
        for figures in servers.values():
            assert 0 < figures.cpu_us_per_event.low <= figures.cpu_us_per_event.median
            assert figures.events_per_s.low > 0
            assert 0 < figures.client_cpu_share < 1
            assert (figures.promise, figures.syncs) == ("It is in memory.", True)
            assert (figures.ack_p50_us is None) == (figures.ack_p99_us is None) == (scenario == CATCH_UP)
        ratios = report.ratios[scenario]["kept"]
        assert 0 < ratios.cpu.low <= ratios.cpu.high
        assert report.best_that_syncs[scenario].peer == "kept"
        assert report.best_that_syncs[scenario].events == ratios.events
    assert report.scenarios["publishers_1"]["kept"].events_per_round >= 2 * 256
    assert report.scenarios[CATCH_UP]["kept"].events_per_round == 10_000
    assert 0 < report.disk.overwrite_p50.median <= report.disk.overwrite_p99.high
    assert list((tmp_path / "disk").iterdir()) == []
    assert report.warnings == [], "Python takes more than the load generator"
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_without_ours_there_is_nothing_to_compare_and_a_client_that_takes_the_most_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Kept, "cpu_s", lambda _: 0.0)
    report = run(_few(tmp_path, scenarios=(CATCH_UP,)))
    assert list(report.scenarios[CATCH_UP]) == ["kept"]
    assert (report.ratios, report.best_that_syncs) == ({}, {})
    assert report.warnings == ["kept, catch_up: the load generator took 100% of the CPU, more than the server"]


def test_nobody_may_be_missing_when_all_are_needed(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no network"):
        run(_few(tmp_path, needs_all_peers=True))
    with pytest.raises(Unavailable, match="no network"):
        run(_few(tmp_path, peers=()), ours=lambda: Unreachable(tmp_path))


def test_a_plan_names_only_what_there_is() -> None:
    with pytest.raises(UnknownName, match="peer named 'kafka'"):
        Plan(peers=("kafka",))
    with pytest.raises(UnknownName, match="scenario named 'all'"):
        Plan(scenarios=("all",))
    with pytest.raises(UsageError, match="at least 6"):
        Plan(rounds=5)
    with pytest.raises(UsageError, match="multiple of 10000"):
        Plan(missed_events=1_500)
    assert Plan().shortened().rounds == 6
    assert [(one.publishers, one.window) for one in SCENARIOS.values()] == [(1, 256), (10, 256), (100, 256), (1, 1)]


# -- the disk ----------------------------------------------------------------------------------------------------------


def test_the_disk_is_asked_in_every_round(tmp_path: Path) -> None:
    probe = DiskProbe(tmp_path)
    for _ in range(6):
        probe.take_turn()
    disk = probe.found()
    assert 0 < disk.overwrite_p50.median <= disk.overwrite_p99.median
    assert 0 < disk.append_p50.median <= disk.append_p99.median
    assert list(tmp_path.iterdir()) == []


def test_memory_is_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/a / ext4 rw 0 0\nx {tmp_path}/with\\040space tmpfs rw 0 0\n/dev/b /mnt xfs rw 0 0\n", encoding="utf-8"
    )
    for folder, kind in ((tmp_path, "ext4"), (tmp_path / "with space" / "x", "tmpfs"), (Path("/mnt"), "xfs")):
        assert file_system_of(folder, mounts=mounts) == kind
    assert file_system_of(tmp_path, mounts=tmp_path / "none") == "unknown"
    monkeypatch.setattr("tidewire.benchmarks.disk.file_system_of", lambda _: "tmpfs")
    with pytest.raises(UsageError, match="in memory"):
        DiskProbe(tmp_path)
