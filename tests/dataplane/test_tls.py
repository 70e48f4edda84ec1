"""Secured sockets: opened and sealed by the kernel in the calls that read and write; Python's ssl is the other side."""

from __future__ import annotations

import errno
import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataplane.secured import HOST, Keys, Peer, secured
from tests.dataplane.test_live import numbers
from tests.dataplane.world import NOW, frames, publish
from tidewire._kernel._native import TlsContext, TlsLine
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.protocol import Received
from tidewire.live.certificates import peer_of
from tidewire.model.errors import BadConfiguration, PeerError, UsageError
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, TreeId
from tidewire.model.messages import Flush, Ping, Pong
from tidewire.wire.frames import MESSAGE, decode_message, message_frame

ANN, BOB = Conn(0), Conn(1)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the sockets."""
    with ExitStack() as opened:
        yield opened


class Secured:
    """An engine with two secured clients: Ann publishes, Bob wants everything."""

    def __init__(
        self, keys: Keys, stack: ExitStack, *, behind: bytes = b"", bound: int = 8 << 20, buffer: int = 1 << 16
    ):
        self.engine = KernelEngine(budget_ns=0)
        self.engine.own_tree(TreeId(1))
        self.ann, self.bob = (Peer(keys.python(), stack, buffer=buffer) for _ in range(2))
        context = keys.context()
        for conn, peer in ((ANN, self.ann), (BOB, self.bob)):
            line = TlsLine(context, peer.ours.fileno(), None)
            secured(line, peer, behind=behind if conn == ANN else b"")
            self.engine.open(conn, is_link=False, when_full="wait", queue_bytes_max=bound)
            self.engine.attach(conn, peer.ours.fileno(), line)
        self.engine.may_publish(ANN, publisher=1, next_sequence=1)
        self.engine.add_routes(BOB, [1], [encode_filter(ALL)], None)

    def pump(self) -> list[Received]:
        """As a loop does: as long as the socket can be read, and no longer. What there was to know."""
        told: list[Received] = []
        while select.select([self.ann.ours], [], [], 0)[0] and not any(one.ended for one in told):
            received = self.engine.pump(ANN, now_ns=NOW)
            told += [] if received is None else [received]
        return told

    @property
    def events(self) -> int:
        """Handled so far."""
        return self.engine.work().events

    def send_all(self, data: bytes) -> None:
        """From Ann, however much it is."""
        while data:
            try:
                data = data[self.ann.theirs.send(data) :]
            except BlockingIOError:
                self.pump()

    def bob_gets(self) -> bytes:
        """All of it."""
        got = b""
        while self.engine.traffic(BOB).queued_bytes:
            got += self.bob.opened()
            self.engine.flush(BOB)
        return got + self.bob.opened()


def test_events_go_in_and_out_and_nothing_is_said_of_it(keys: Keys, stack: ExitStack) -> None:
    live = Secured(keys, stack)
    live.send_all(live.ann.seal(b"".join(publish(n) for n in range(1000))))
    assert live.pump() == []
    assert numbers(live.bob_gets()) == list(range(1000))
    traffic = live.engine.traffic(ANN)
    assert traffic.bytes_in == sum(len(publish(n)) for n in range(1000)), "in clear"


@pytest.mark.parametrize("behind", [1, 300])
def test_what_comes_with_the_end_of_the_handshake_is_not_left_behind(keys: Keys, stack: ExitStack, behind: int) -> None:
    """Nobody else would ever say that it is there: the client may have nothing more to say."""
    hello = message_frame(Flush(1)) + b"".join(publish(n) for n in range(behind))
    live = Secured(keys, stack, behind=hello)
    (received,) = live.pump()
    assert received.message is not None
    assert decode_message(received.message) == Flush(1)
    assert live.engine.resume(ANN, now_ns=NOW).state == "idle"
    live.pump()
    assert live.events == behind


@given(
    st.lists(st.tuples(st.integers(1, 200), st.integers(1, 40_000)), min_size=1, max_size=6),
    st.lists(st.integers(1, 70_000), max_size=8),
)
@settings(max_examples=settings().max_examples // 4, deadline=None)
def test_a_record_that_is_complete_is_handled_though_nothing_follows(
    keys: Keys, sizes: list[tuple[int, int]], cuts: list[int]
) -> None:
    """However events lie in records, and records in what is sent: after each piece the socket is silent for ever."""
    with ExitStack() as stack:
        live = Secured(keys, stack, buffer=1 << 18)
        sealed, clear, ends = b"", b"", [(0, 0)]
        for count, record in sizes:
            data = b"".join(publish(n) for n in range(count))
            for at in range(0, len(data), record):
                part = data[at : at + record]
                for begin in range(0, len(part), 16_384):
                    clear += part[begin : begin + 16_384]
                    sealed += live.ann.seal(part[begin : begin + 16_384])
                    ends.append((len(sealed), len(clear)))
        at = 0
        for cut in [*cuts, len(sealed)]:
            live.send_all(sealed[at : at + cut])
            at = min(len(sealed), at + cut)
            live.pump()
            known = max(open_bytes for sealed_bytes, open_bytes in ends if sealed_bytes <= at)
            assert live.events == len(list(frames(clear[:known])))
        got = numbers(live.bob_gets())
        assert got == [n for count, _ in sizes for n in range(count)]


@given(st.lists(st.tuples(st.integers(1, 100), st.sampled_from([0, 900, 20_000]), st.booleans()), max_size=6))
@settings(max_examples=settings().max_examples // 4, deadline=None)
def test_a_reader_that_pauses_gets_everything_in_order(keys: Keys, turns: list[tuple[int, int, bool]]) -> None:
    with ExitStack() as stack:
        live = Secured(keys, stack, buffer=1 << 14, bound=1 << 30)
        got, sent = b"", 0
        for count, body, reads in turns:
            said = b"".join(publish(sent + n, body=bytes(body)) for n in range(count))
            live.send_all(live.ann.seal(said))
            live.pump()
            live.engine.send(BOB, message_frame(Ping(sent)), "control")
            live.engine.flush(BOB)
            sent += count
            got += live.bob_gets() if reads else b""
        got += live.bob_gets()
        assert numbers(got) == list(range(sent))
        assert sum(kind == MESSAGE for kind, _ in frames(got)) == len(turns)


def test_who_does_not_read_has_the_bound_of_its_queue(keys: Keys, stack: ExitStack) -> None:
    live = Secured(keys, stack, bound=100_000)
    sealed, state = live.ann.seal(b"".join(publish(n, body=bytes(900)) for n in range(2000))), "idle"
    while state != "blocked":
        try:
            sealed = sealed[live.ann.theirs.send(sealed) :]
        except BlockingIOError:
            received = live.engine.pump(ANN, now_ns=NOW)
            state = "idle" if received is None else received.state
    assert live.engine.traffic(BOB).queued_bytes < 100_000 + 5 * 16_384
    before = live.engine.work().memory_bytes
    for _ in range(100):  # it is not read on
        assert live.engine.pump(ANN, now_ns=NOW) is not None
    assert live.engine.work().memory_bytes == before


def test_what_was_said_before_the_end_is_heard(keys: Keys, stack: ExitStack) -> None:
    """In one piece: an event, a message, an event, and that there is no more; the socket stays open."""
    live = Secured(keys, stack)
    live.ann.theirs.send(live.ann.seal(publish(1) + message_frame(Flush(1)) + publish(2)) + live.ann.goodbye())
    (received,) = live.pump()
    assert (received.message is not None, received.ended) == (True, [])
    assert live.engine.resume(ANN, now_ns=NOW).ended == [(ANN, 0)]
    assert numbers(live.bob_gets()) == [1, 2]


def test_a_socket_that_just_ends_has_ended(keys: Keys, stack: ExitStack) -> None:
    live = Secured(keys, stack)
    live.ann.theirs.close()
    assert [one.ended for one in live.pump()] == [[(ANN, 0)]]


@pytest.mark.parametrize("bad", ["changed", "cut short", "not TLS"])
def test_what_is_no_tls_ends_the_connection_and_says_why(keys: Keys, stack: ExitStack, bad: str) -> None:
    live = Secured(keys, stack)
    good, sealed = live.ann.seal(publish(1)), live.ann.seal(publish(2))
    if bad == "changed":
        sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    elif bad == "cut short":
        sealed = sealed[:3] + (len(sealed) - 6).to_bytes(2, "big") + sealed[5:-1]
    else:
        sealed = b"GET / HTTP/1.1\r\n\r\n"
    live.ann.theirs.send(good + sealed + live.ann.seal(publish(3)))
    assert [one.ended for one in live.pump()] == [[(ANN, errno.EPROTO)]]
    assert numbers(live.bob_gets()) == [1]
    with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
        live.ann.opened()
    live.engine.close(ANN)


def test_a_ping_is_answered_without_asking_anyone(keys: Keys, stack: ExitStack) -> None:
    live = Secured(keys, stack)
    live.ann.theirs.send(live.ann.seal(message_frame(Ping(7))))
    assert live.pump() == []
    ((_, payload),) = frames(live.ann.opened())
    assert decode_message(payload) == Pong(7, NOW, NOW)


def test_new_keys_are_taken_up_by_both_sides(keys: Keys, stack: ExitStack) -> None:
    live = Secured(keys, stack)
    for n in range(10):
        live.ann.theirs.send(live.ann.renew_keys() + live.ann.seal(publish(n) + message_frame(Ping(n))))
        assert live.pump() == []
        ((_, payload),) = frames(live.ann.opened())
        assert decode_message(payload) == Pong(n, NOW, NOW)
    assert numbers(live.bob_gets()) == list(range(10))


def test_who_only_asks_for_new_keys_is_ended(keys: Keys, stack: ExitStack) -> None:
    live = Secured(keys, stack)
    live.ann.theirs.send(b"".join(live.ann.renew_keys() for _ in range(500)))
    assert [one.ended for one in live.pump()] == [[(ANN, errno.EPROTO)]]


def test_we_say_that_we_end(keys: Keys, stack: ExitStack) -> None:
    live = Secured(keys, stack)
    live.ann.theirs.send(live.ann.seal(publish(1)))
    live.pump()
    live.engine.close(BOB)
    assert numbers(live.bob.opened()) == [1]
    assert live.bob.tls.read(1) == b"", "else it would want more"


# -- handshakes --------------------------------------------------------------------------------------------------------


def shaken(line: TlsLine, peer: Peer) -> None:
    """Both sides, as far as ours goes."""
    for _ in range(8):
        with suppress(ssl.SSLError):
            peer.shake_hands()
        if said := peer.take():
            peer.theirs.send(said)
        line.shake_hands()
        peer.hear()


def test_a_certificate_says_who_is_there(keys: Keys, stack: ExitStack) -> None:
    for certificate in (None, keys.client):
        peer = Peer(keys.python(certificate=certificate), stack)
        line = TlsLine(keys.context(), peer.ours.fileno(), None)
        secured(line, peer)
        found = peer_of(line.certificate())
        assert (found and (found.of, found.name)) == (certificate and ("client", "ann"))


def test_we_call_somebody_and_both_know_each_other(keys: Keys, stack: ExitStack) -> None:
    context = keys.python(is_server=True, certificate=keys.broker)
    context.verify_mode = ssl.CERT_REQUIRED
    for name in (HOST, "localhost"):
        peer = Peer(context, stack, is_server=True)
        line = TlsLine(keys.context(is_server=False), peer.ours.fileno(), name)
        assert not line.shake_hands()
        peer.hear()
        secured(line, peer)
        assert peer_of(peer.tls.getpeercert(binary_form=True)) == peer_of(line.certificate())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", "it does not speak TLS as we do: http request"),
        (b"\x00\x00\x00\x05hello, broker", "it does not speak TLS as we do: wrong version number"),
        (b"", "the other side has ended it"),
    ],
)
def test_whoever_does_not_speak_tls_is_told_apart(keys: Keys, stack: ExitStack, said: bytes, why: str) -> None:
    peer = Peer(keys.python(), stack)
    line = TlsLine(keys.context(), peer.ours.fileno(), None)
    assert not line.shake_hands()
    peer.theirs.sendall(said)
    peer.theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(PeerError) as caught:
        line.shake_hands()
    assert caught.value.message == why


def test_an_older_tls_is_not_spoken(keys: Keys, stack: ExitStack) -> None:
    context = keys.python()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    peer = Peer(context, stack)
    with pytest.raises(PeerError, match="it does not speak TLS as we do: unsupported protocol"):
        shaken(TlsLine(keys.context(), peer.ours.fileno(), None), peer)


def test_a_certificate_of_others_is_not_good(keys: Keys, stack: ExitStack, tmp_path: Path) -> None:
    other = Keys(tmp_path)
    stranger = keys.python(certificate=other.client)
    peer = Peer(stranger, stack)
    with pytest.raises(PeerError, match="its certificate is not good: unable to get local issuer certificate"):
        shaken(TlsLine(keys.context(), peer.ours.fileno(), None), peer)
    peer = Peer(other.python(is_server=True, certificate=other.broker), stack, is_server=True)
    with pytest.raises(PeerError, match="its certificate is not good: self-signed certificate in certificate chain"):
        shaken(TlsLine(keys.context(is_server=False), peer.ours.fileno(), HOST), peer)


@pytest.mark.parametrize(
    ("name", "why"), [("192.0.2.1", "IP address mismatch"), ("example.org", "Hostname mismatch"), ("::1", "IP address")]
)
def test_a_broker_at_another_place_is_not_the_one_we_called(keys: Keys, stack: ExitStack, name: str, why: str) -> None:
    peer = Peer(keys.python(is_server=True, certificate=keys.broker), stack, is_server=True)
    with pytest.raises(PeerError, match=f"its certificate is not good: {why}.*'{name}'"):
        shaken(TlsLine(keys.context(is_server=False), peer.ours.fileno(), name), peer)


def test_files_that_are_of_no_use_are_refused_with_the_reason(keys: Keys, tmp_path: Path) -> None:
    authority = str(keys.folder / "authority.pem")
    with pytest.raises(BadConfiguration, match="No such file"):
        TlsContext(True, str(tmp_path / "B.pem"), str(tmp_path / "B.key"), authority)
    with pytest.raises(BadConfiguration, match="key values mismatch"):
        TlsContext(True, str(keys.broker), str(keys.client.with_suffix(".key")), authority)


def test_a_line_has_one_owner(keys: Keys, stack: ExitStack) -> None:
    live = Secured(keys, stack)
    peer = Peer(keys.python(), stack)
    line = TlsLine(keys.context(), peer.ours.fileno(), None)
    secured(line, peer)
    live.engine.open(Conn(7), is_link=False, when_full="wait")
    live.engine.attach(Conn(7), peer.ours.fileno(), line)
    with pytest.raises(UsageError, match="data plane's now"):
        line.shake_hands()
    with pytest.raises(UsageError, match="whom has this client called"):
        TlsLine(keys.context(is_server=False), peer.ours.fileno(), None)
