"""Certificates of a benchmark: an authority of its own, and one server on 127.0.0.1 that it vouches for."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificates(msgspec.Struct, frozen=True, kw_only=True):
    """What a server shows and its clients trust, as files in PEM."""

    authority: Path
    certificate: Path
    key: Path


@contextlib.contextmanager
def certificates() -> Iterator[Certificates]:
    """Made anew, and gone at the end."""
    with TemporaryDirectory(prefix="tidewire-certificates-") as folder:
        yield make_certificates(Path(folder))


def make_certificates(folder: Path) -> Certificates:
    """Keys on P-256: they matter for a handshake only, and nobody counts those."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tidewire bench")])
    server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = dt.datetime.now(dt.UTC)

    def signed(subject: x509.Name, public: ec.EllipticCurvePublicKey, extension: x509.ExtensionType) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(extension, critical=True)
        )
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    made = Certificates(
        authority=folder / "authority.pem", certificate=folder / "server.pem", key=folder / "server.key"
    )
    basic = x509.BasicConstraints(ca=True, path_length=0)
    made.authority.write_bytes(signed(authority, authority_key.public_key(), basic))
    made.certificate.write_bytes(signed(server, key.public_key(), place))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    made.key.chmod(0o600)
    return made
