"""A client behind a socket pair that speaks TLS with Python's own ssl, byte by byte as a test wants it."""

from __future__ import annotations

import ctypes
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from tidewire._kernel._native import TlsContext, TlsLine
from tidewire.live.certificates import make_authority, make_certificate

HOST = "127.0.0.1"


class Keys:
    """An authority, and the certificates of a broker and a client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_authority(folder, name="here")
        self.broker = make_certificate(folder, "B", of="broker", hosts=[HOST, "localhost"])
        self.client = make_certificate(folder, "ann", of="client")

    def context(self, *, is_server: bool = True, certificate: Path | None = None) -> TlsContext:
        """The kernel's."""
        shown = certificate or self.broker
        key, authority = shown.with_suffix(".key"), self.folder / "authority.pem"
        return TlsContext(is_server, str(shown), str(key), str(authority))

    def python(self, *, is_server: bool = False, certificate: Path | None = None) -> ssl.SSLContext:
        """Python's, for the other side."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.folder / "authority.pem")
        if certificate is not None:
            context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        return context


class Peer:
    """The other side: what it says is sealed by ``seal``, and sent by whoever called that, in pieces of any size."""

    def __init__(
        self, context: ssl.SSLContext, stack: ExitStack, *, is_server: bool = False, buffer: int = 1 << 16
    ) -> None:
        self.ours, self.theirs = (stack.enter_context(one) for one in socket.socketpair())
        for one in (self.ours, self.theirs):
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = None if is_server else HOST
        self.tls = context.wrap_bio(self._in, self._out, server_side=is_server, server_hostname=name)

    def shake_hands(self) -> bool:
        """As far as it goes; what it answers is left to be sent. True: it is done."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def take(self) -> bytes:
        """What is to be sent."""
        return self._out.read()

    def seal(self, clear: bytes) -> bytes:
        """One record for every 16 KB."""
        self.tls.write(clear)
        return self.take()

    def hear(self) -> None:
        """Take in what has come, and do not open it yet."""
        try:
            while data := self.theirs.recv(1 << 20):
                self._in.write(data)
        except BlockingIOError:
            pass

    def opened(self) -> bytes:
        """All that can be opened now."""
        self.hear()
        return b"".join(self._records())

    def _records(self) -> Iterator[bytes]:
        try:
            while record := self.tls.read(1 << 16):
                yield record
        except ssl.SSLWantReadError:
            pass

    def goodbye(self) -> bytes:
        """That it says no more."""
        with suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self.take()

    def renew_keys(self) -> bytes:
        """Of both directions. Python does not offer it: OpenSSL is asked itself, for the session behind the object."""
        library = ctypes.CDLL("libssl.so.3")
        behind = id(self.tls._sslobj) + 3 * ctypes.sizeof(ctypes.c_void_p)  # type: ignore[attr-defined]
        session = ctypes.c_void_p.from_address(behind)
        assert library.SSL_key_update(session, 1) == 1
        assert library.SSL_do_handshake(session) == 1
        return self.take()


def secured(line: TlsLine, peer: Peer, *, behind: bytes = b"") -> None:
    """Both sides to the end; ``behind`` comes in one piece with the last that the peer says in the handshake."""
    theirs = ours = False
    for _ in range(8):
        theirs = theirs or peer.shake_hands()
        said = peer.take()
        if theirs and behind:
            said, behind = said + peer.seal(behind), b""
        if said:
            peer.theirs.send(said)
        ours = ours or line.shake_hands()
        peer.hear()
        if ours and theirs:
            return
    raise AssertionError("the handshake goes on for ever")
