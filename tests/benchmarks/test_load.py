"""The load generator counts what comes, in every protocol, and says what is lost, late or out of order."""

import asyncio
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks.servers import EchoBroker, Player, serving
from tidewire._kernel._native import decode_event
from tidewire.benchmarks import dialects
from tidewire.benchmarks.certificates import SERVER, certificates
from tidewire.benchmarks.dialects import PAYLOAD_BYTES, STAMP_BYTES, Dialect, quote_event
from tidewire.benchmarks.load import (
    Traffic,
    connection_lines,
    executable,
    generating,
    plan_head,
    plan_text,
    run_load,
)
from tidewire.live.certificates import make_certificate
from tidewire.model.errors import Unavailable

SUBJECT = "bench.000001"
SHORT = f"message {'00' * 16}"


def test_every_subscriber_gets_every_event_once_and_in_order() -> None:
    broker = EchoBroker()
    with serving(broker.serve) as port:
        traffic = Traffic(events=500, publishers=2, subscribers=3)
        loaded = run_load(dialects.Tidewire(), traffic, port=port, subject=SUBJECT)
    assert (loaded.deliveries, loaded.lost, loaded.out_of_order, loaded.errors) == (3_000, 0, 0, [])
    assert loaded.deliveries_per_s == pytest.approx(3_000 / loaded.seconds)
    assert 0 < loaded.delay_us.p50 <= loaded.delay_us.p99 <= loaded.delay_us.p999 <= loaded.delay_us.max
    assert loaded.delay_us.max <= loaded.seconds * 1e6
    assert loaded.bytes_out == 1_000 * (PAYLOAD_BYTES + 13)
    assert loaded.bytes_in >= 3_000 * PAYLOAD_BYTES


def test_by_tls_nothing_is_different() -> None:
    broker = EchoBroker()
    with certificates() as own, serving(broker.serve, certificates=own) as port:
        traffic = Traffic(events=2_000, publishers=2, subscribers=3)
        loaded = run_load(dialects.Tidewire(), traffic, port=port, subject=SUBJECT, authority=own.authority)
    assert (loaded.deliveries, loaded.lost, loaded.out_of_order, loaded.errors) == (12_000, 0, 0, [])
    assert loaded.bytes_out == 4_000 * (PAYLOAD_BYTES + 13)


def test_a_server_that_somebody_else_vouches_for_is_refused() -> None:
    with certificates() as own, certificates() as other, serving(EchoBroker().serve, certificates=own) as port:
        with pytest.raises(Unavailable, match=r"the TLS handshake: .*certificate"):
            run_load(dialects.Tidewire(), Traffic(events=1), port=port, subject=SUBJECT, authority=other.authority)


def test_a_server_with_the_certificate_of_another_place_is_refused() -> None:
    with certificates() as own:
        make_certificate(own.folder, SERVER, of="broker", hosts=["127.0.0.2"])
        with serving(EchoBroker().serve, certificates=own) as port, pytest.raises(Unavailable, match="IP address"):
            run_load(dialects.Tidewire(), Traffic(events=1), port=port, subject=SUBJECT, authority=own.authority)


def test_many_connections_are_set_up_together_and_stay_until_they_are_told_to_stop() -> None:
    broker = EchoBroker()
    dialect = dialects.Tidewire()
    plan = plan_head(dialect, Traffic(events=0, idle_s=60.0), together=8, keepalive_s=0.1)
    with serving(broker.serve) as port:
        for who in range(20):
            plan += connection_lines("subscribe", port, dialect.subscriber(f"idle.{who}"))
        with generating("\n".join(plan) + "\n") as crowd:
            assert 0 < crowd.setup_s < 20
            crowd.go(0, 1)
            while broker.pings < 40:  # two rounds
                time.sleep(0.01)
            crowd.stop()
            result = crowd.result(20)
    assert (result.deliveries, result.errors) == (0, [])
    assert len({pong.ping_ns for pong in broker.pongs}) == 1


def test_pings_are_answered_with_their_own_time() -> None:
    broker = EchoBroker()
    with serving(broker.serve) as port:
        run_load(dialects.Tidewire(), Traffic(events=120, rate=100), port=port, subject=SUBJECT)
    assert sorted(pong.ping_ns for pong in broker.pongs) == [70_000]  # those before Done belong to the beginning
    assert broker.pongs[0].sent_ns >= broker.pongs[0].received_ns > 0
    assert broker.pings >= 1, "a connection that only listens must be heard of"


def test_paced_events_are_spread_over_the_time() -> None:
    with serving(EchoBroker().serve) as port:
        loaded = run_load(dialects.Tidewire(), Traffic(events=200, rate=1_000), port=port, subject=SUBJECT)
    assert loaded.deliveries == 200
    assert loaded.seconds > 0.15
    assert loaded.late_us.p50 > 0


def test_what_does_not_come_is_lost() -> None:
    with serving(EchoBroker(loses_every=10).serve) as port:
        loaded = run_load(dialects.Tidewire(), Traffic(events=100, idle_s=0.2), port=port, subject=SUBJECT)
    assert (loaded.deliveries, loaded.lost, loaded.complaints) == (90, 10, 10)


def test_swapped_events_are_seen() -> None:
    with serving(EchoBroker(swaps=True).serve) as port:
        loaded = run_load(dialects.Tidewire(), Traffic(events=100), port=port, subject=SUBJECT)
    assert (loaded.deliveries, loaded.out_of_order) == (100, 50)


def test_a_server_that_says_goodbye_is_quoted() -> None:
    with serving(EchoBroker(ends_after=50).serve) as port:
        loaded = run_load(dialects.Tidewire(), Traffic(events=100, idle_s=0.2), port=port, subject=SUBJECT)
    assert (loaded.deliveries, loaded.lost) == (50, 50)
    assert "go away" in loaded.errors[0]


def _amqp_delivery(payload: bytes) -> bytes:
    def framed(kind: int, body: bytes) -> bytes:
        return struct.pack(">BHI", kind, 1, len(body)) + body + b"\xce"

    deliver = struct.pack(">HH", 60, 60) + b"\x01c" + bytes(9) + b"\x01x\x00"
    header = struct.pack(">HHQH", 60, 0, len(payload), 0)
    return framed(1, deliver) + framed(2, header) + framed(3, payload) + framed(8, b"")


PLAYED: list[tuple[Dialect, Callable[[bytes], bytes]]] = [
    (dialects.Nats(), lambda p: b"MSG s 1 200\r\n" + p + b"\r\nPING\r\n+OK\r\nMSG s 1 reply 3\r\nabc\r\n"),
    (dialects.Redis(), lambda p: b":1\r\n*3\r\n$7\r\nmessage\r\n$1\r\ns\r\n$200\r\n" + p + b"\r\n+PONG\r\n"),
    (dialects.Mqtt(), lambda p: b"\x30\xcb\x01\x00\x01s" + p + b"\xd0\x00"),
    (dialects.Amqp(), _amqp_delivery),
    (dialects.Stomp(), lambda p: b"MESSAGE\nsubscription:1\ncontent-length:200\n\n" + p + b"\0\nRECEIPT\n\n\0\n"),
]


@pytest.mark.parametrize(("dialect", "deliver"), PLAYED, ids=lambda value: getattr(value, "name", ""))
def test_messages_of_every_protocol_are_cut_wherever_they_break(
    dialect: Dialect, deliver: Callable[[bytes], bytes]
) -> None:
    player = Player(dialect, SUBJECT, deliver)
    with serving(player.serve) as port:
        loaded = run_load(dialect, Traffic(events=400, idle_s=1.0), port=port, subject=SUBJECT)
    assert (loaded.deliveries, loaded.lost, loaded.out_of_order, loaded.errors) == (400, 0, 0, [])
    assert player.answers.startswith(b"PONG\r\n" if dialect.name == "nats" else b"")


REFUSALS = [
    (dialects.Nats(), b"-ERR 'Slow Consumer'\r\n"),
    (dialects.Redis(), b"-ERR no\r\n"),
    (dialects.Mqtt(), b"\x30\xff\xff\xff\xff\x7f"),
    (dialects.Amqp(), b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x32\xce"),
    (dialects.Stomp(), b"ERROR\nmessage:no\n\n\0"),
]


@pytest.mark.parametrize(("dialect", "refusal"), REFUSALS, ids=lambda value: getattr(value, "name", ""))
def test_a_refusal_ends_the_connection(dialect: Dialect, refusal: bytes) -> None:
    with serving(Player(dialect, SUBJECT, lambda _: refusal).serve) as port:
        loaded = run_load(dialect, Traffic(events=1, idle_s=0.2), port=port, subject=SUBJECT)
    assert loaded.deliveries == 0
    assert loaded.errors[0].startswith("the server said: ")


def test_a_server_that_does_not_play_along_is_unavailable() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"-ERR not now\r\n")
        await reader.read(1 << 16)

    with serving(rude) as port, pytest.raises(Unavailable, match=r"the server closed before .* -ERR not now"):
        run_load(dialects.Redis(), Traffic(events=1), port=port, subject=SUBJECT)


def test_both_roles_fit_in_one_process(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    with serving(EchoBroker().serve) as port:
        traffic = Traffic(events=100)
        text = plan_text(
            dialects.Tidewire(), traffic, port=port, subject=SUBJECT, publishes=True, subscribes=True
        )  # fmt: skip
        plan.write_text(text, encoding="ascii")
        done = subprocess.run([executable(), plan], input=b"go\n", capture_output=True, check=True, timeout=20)
    assert b'"deliveries":100,"expected":100,"published":100' in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("protocol pigeon\n", "line 1, protocol: no protocol is called pigeon"),
        ("protocol nats\nevents many\n", "line 2, events"),
        ("send 00\n", "no connection yet"),
        ("fly 1\n", "not a word of a plan"),
        ("protocol nats\naddress 127.0.0.1 1\nconnection publish\nsend 0\n", "half a byte"),
        ("protocol nats\nauthority\n", "line 2, authority: a value is missing"),
        ("protocol nats\nagain 1 last 00 00\n", "line 2, again: no connection yet"),
        ("protocol nats\naddress 127.0.0.1 1\nconnection subscribe\nagain 1 last 00\n", "line 4, again: a value"),
        ("protocol nats\nwindow 1\nrate 1\npayload_stamp 16\nconnection publish\n", "do not go together"),
        ("protocol nats\nwindow 1\npayload_stamp 16\nconnection subscribe\n", "by different processes"),
        ("protocol nats\ntogether 0\naddress 127.0.0.1 1\nconnection subscribe\n", "no connection would be set up"),
        (
            "protocol nats\naddress 127.0.0.1 1\nauthority /nowhere at all\npayload_stamp 16\nconnection subscribe\n",
            "/nowhere at all: ",
        ),
        ("protocol nats\naddress 127.0.0.1 1\nconnection publish\nsend zz\n", "hexadecimal"),
        ("protocol nats\n", "a plan needs"),
        ("protocol nats\naddress 127.0.0.1 1\nconnection publish\n", "no room for time"),
        ("protocol nats\naddress 127.0.0.1 1\npayload_stamp 16\nconnection publish\n", "has no message"),
        (
            f"protocol nats\naddress 127.0.0.1 1\npayload_stamp 16\nstamp 9\nconnection publish\nmessage {'00' * 9}\n",
            "no room for its stamp",
        ),
        (
            f"protocol nats\nnumber 15\naddress 127.0.0.1 1\npayload_stamp 16\nstamp 16\nconnection publish\n{SHORT}\n",
            "no room for its stamp",
        ),
        ("protocol nats\naddress localhost 1\npayload_stamp 16\nconnection subscribe\n", "not a numeric"),
        ("protocol nats\naddress 127.0.0.1 1\npayload_stamp 16\nconnection subscribe\n", "refused"),
    ],
)
def test_a_bad_plan_is_refused_with_the_reason(text: str, said: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_text(text, encoding="ascii")
    done = subprocess.run([executable(), plan], capture_output=True, check=False, text=True, timeout=20)
    assert done.returncode == 1
    assert said in done.stderr


def test_the_event_has_200_bytes_and_its_stamp_at_the_end() -> None:
    event = quote_event(SUBJECT)
    attributes = decode_event(event)[0]
    assert len(event) == PAYLOAD_BYTES
    assert len(attributes["pad"]) >= STAMP_BYTES
    stamped = event[:-STAMP_BYTES] + b"s" * STAMP_BYTES
    assert decode_event(stamped)[0] == {**attributes, "pad": attributes["pad"][:-STAMP_BYTES] + b"s" * STAMP_BYTES}
