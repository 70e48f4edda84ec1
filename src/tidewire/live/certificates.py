"""Certificates and keys: an authority of one's own, and what it signs. Files are readable by their owner alone.

A certificate says in its subject alternative names who it is for (``tidewire://broker/NAME``, ``.../coordinator/...``,
``.../client/...``) and, for one that listens, where it may be found.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, cast, get_args
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tidewire.live.secret_files import write_secret
from tidewire.model.errors import BadConfiguration
from tidewire.wire.connections import CertificateOf, Peer

AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 825
_SCHEME: Final = "tidewire://"
_AUTHORITY: Final = "Tidewire "
"""How the name of an authority begins; the domain is the rest."""
_STARTED_AGO: Final = timedelta(minutes=5)
"""Clocks of two machines may differ."""


def make_authority(folder: Path, *, name: str) -> None:
    """``authority.pem`` and ``authority.key``, which signs certificates; ``tokens.pub`` and ``tokens.key``."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_AUTHORITY}{name}")])
    signer = (
        _begun(subject, subject, key.public_key(), days=AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    tokens = ed25519.Ed25519PrivateKey.generate()
    write_secret(folder / "authority.key", _pem(key))
    write_secret(folder / "tokens.key", _pem(tokens))
    write_secret(folder / "tokens.pub", _public(tokens))
    write_secret(folder / "authority.pem", signer.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def domain_in(authority: Path) -> str | None:
    """The name of the installation that an authority of ours was made for; None if it is none of ours."""
    try:
        subject = x509.load_pem_x509_certificate(authority.read_bytes()).subject
    except (OSError, ValueError):
        return None
    for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        if str(name.value).startswith(_AUTHORITY):
            return str(name.value).removeprefix(_AUTHORITY)
    return None


def public_key_of(file: Path) -> bytes | None:
    """What verifies the tokens that this key signs; None if it is no such key."""
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), None)
    except (OSError, ValueError, TypeError):
        return None
    return _public(key) if isinstance(key, ed25519.Ed25519PrivateKey) else None


def make_certificate(
    folder: Path, name: str, *, of: CertificateOf, hosts: Sequence[str] = (), into: Path | None = None
) -> Path:
    """``NAME.pem`` and ``NAME.key``, signed by the authority of the folder; the path of the first."""
    try:
        signer_key = serialization.load_pem_private_key((folder / "authority.key").read_bytes(), None)
        signer = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())
    except OSError as error:
        raise BadConfiguration(
            f"there is no authority in {folder} that could sign a certificate ({error.strerror})"
        ) from None
    assert isinstance(signer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(f"{_SCHEME}{of}/{quote(name, safe='')}")]
    names += [_host(host) for host in hosts]
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([] if of == "client" else [ExtendedKeyUsageOID.SERVER_AUTH])
    made = (
        _begun(subject, signer.subject, key.public_key(), days=CERTIFICATE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), critical=False)
        .sign(signer_key, hashes.SHA256())
    )
    where = (into or folder) / f"{name}.pem"
    write_secret(where.with_suffix(".key"), _pem(key))
    write_secret(where, made.public_bytes(serialization.Encoding.PEM))
    return where


class Signers:
    """The authorities in a file, which certificates are verified by: most often one, two while one takes over."""

    def __init__(self, file: Path) -> None:
        try:
            found = x509.load_pem_x509_certificates(file.read_bytes())
        except (OSError, ValueError) as error:
            raise BadConfiguration(f"{file} cannot be read as a certificate: {error}") from None
        self._signers = {_key_of(one): one for one in found}

    @property
    def keys(self) -> dict[str, None]:
        """What they are known by, also when one is made anew with the key that it had."""
        return dict.fromkeys(self._signers)

    def of(self, certificate: x509.Certificate) -> tuple[str, ...]:
        """The key that has signed a certificate, which was verified; any of them, if another one stands between."""
        for key, signer in self._signers.items():
            try:
                certificate.verify_directly_issued_by(signer)
            except (ValueError, TypeError, InvalidSignature):
                continue
            return (key,)
        return tuple(self._signers)


def peer_of(certificate: bytes | None, signers: Signers | None = None) -> Peer | None:
    """Who a certificate (DER), which was verified by these, is for; None if it is for nobody of Tidewire's."""
    if not certificate:
        return None
    found = x509.load_der_x509_certificate(certificate)
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    for uri in names.get_values_for_type(x509.UniformResourceIdentifier):
        of, _, name = uri.removeprefix(_SCHEME).partition("/")
        if uri.startswith(_SCHEME) and name and of in get_args(CertificateOf):
            signed = () if signers is None else signers.of(found)
            return Peer(cast(CertificateOf, of), unquote(name), found.fingerprint(hashes.SHA256()).hex(), signed)
    return None


def fingerprint_of(file: Path) -> str:
    """By which a certificate is known, in revocations and in tokens that are bound to it."""
    try:
        return x509.load_pem_x509_certificate(file.read_bytes()).fingerprint(hashes.SHA256()).hex()
    except (OSError, ValueError) as error:
        raise BadConfiguration(f"{file} cannot be read as a certificate: {error}") from None


def expires_at(file: Path) -> datetime:
    """When a certificate ends."""
    try:
        return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        raise BadConfiguration(f"{file} cannot be read as a certificate: {error}") from None


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _STARTED_AGO)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _key_of(signer: x509.Certificate) -> str:
    return x509.SubjectKeyIdentifier.from_public_key(signer.public_key()).digest.hex()


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _public(key: ed25519.Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
