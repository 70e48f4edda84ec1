"""The folder that an installation's security is in, as a node reads it: certificates, keys, revocations, permissions.

authority.pem     signs the certificates of brokers, coordinators and clients
authority.key     ... with this; needed only where certificates are made
tokens.pub        verifies tokens
tokens.key        ... which this signs; needed only where tokens are made
domain            the name of the installation: a token is for one
NAME.pem, .key    the certificate of a node or a client
revoked.json      ids of tokens and fingerprints of certificates that are no longer good
permissions.toml  what clients with a certificate may do, by their names
tokens.json       the tokens that were made here, without their signatures
"""

from __future__ import annotations

import ssl
import tomllib
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from tidewire._kernel._native import TlsContext
from tidewire.identity.authority import Authority
from tidewire.identity.grants import Grant, checked
from tidewire.live.certificates import Signers, domain_in, make_authority, make_certificate, public_key_of
from tidewire.live.credentials import Credentials
from tidewire.live.secret_files import locked, write_secret
from tidewire.live.sockets import is_loopback, parse_address
from tidewire.model.errors import BadConfiguration
from tidewire.wire.connections import CertificateOf

_Seen = tuple[int, int, int]
WATCHED: Final = ("authority.pem", "tokens.pub", "domain", "revoked.json", "permissions.toml")
LOOKS_EVERY_S: Final = 1.0
"""How soon a node sees that something has changed."""


class Security:
    """What a node needs to be secured. BadConfiguration if the folder does not hold it."""

    def __init__(self, folder: Path, *, name: str, of: CertificateOf = "broker") -> None:
        self.folder = folder
        self._name = name
        self._of = of
        self._flaw: tuple[object, str] | None = None
        """How the folder was when it could not be understood, and why."""
        self._seen = self._stamps()  # ahead of all that is read: what changes meanwhile is seen the next time
        self.server = self._context(is_server=True)
        self.client = self._context(is_server=False)
        self.signers = Signers(folder / "authority.pem")
        """That ``server`` and ``client`` verify certificates by."""
        self.authority = msgspec.structs.replace(read_authority(folder), signers=self.signers.keys)

    def credentials(self) -> Credentials:
        """What the node itself shows."""
        return Credentials(
            authority=self.folder / "authority.pem",
            certificate=self.folder / f"{self._name}.pem",
            key=self.folder / f"{self._name}.key",
        )

    def look(self) -> bool:
        """Has something changed? Then ``authority`` has too, and ``server`` and ``client`` for what is yet to come.

        BadConfiguration if it cannot be understood now: then all stays as it was. It is said once, until it changes.
        """
        stamps = self._stamps()
        if stamps == self._seen:
            self._flaw = None
            return False
        try:
            fresh = Security(self.folder, name=self._name, of=self._of)
        except BadConfiguration as error:
            before, self._flaw = self._flaw, (stamps, error.message)
            if self._flaw == before:
                return False
            raise
        self._flaw = None
        self.server, self.client = fresh.server, fresh.client
        self.authority, self.signers, self._seen = fresh.authority, fresh.signers, fresh._seen
        return True

    def _stamps(self) -> tuple[_Seen, ...]:
        return tuple(_stamp(self.folder / name) for name in (*WATCHED, f"{self._name}.pem", f"{self._name}.key"))

    def _context(self, *, is_server: bool) -> TlsContext:
        """For the kernel."""
        shown = self.credentials()
        try:
            return TlsContext(is_server, str(shown.certificate), str(shown.key), str(shown.authority))
        except BadConfiguration as error:
            certificate = self.folder / f"{self._name}.pem"
            if not certificate.exists():
                raise BadConfiguration(f"there is no {certificate}: make it with {self._making()}") from None
            raise BadConfiguration(
                f"{certificate} and its key are of no use ({error.message}): make them anew with {self._making()}"
            ) from None

    def for_asyncio(self) -> ssl.SSLContext:
        """What ``server`` is to the kernel, for a node without one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(self.folder / "authority.pem")
        context.load_cert_chain(self.folder / f"{self._name}.pem", self.folder / f"{self._name}.key")
        return context

    def _making(self) -> str:
        return f"tidewire certificate create {self._name} --{self._of} --security {self.folder}"


def _stamp(file: Path) -> _Seen:
    """Differs when the file does, also if both were written in one moment."""
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_ino, found.st_size


def read_authority(folder: Path) -> Authority:
    """Whom the folder says to trust."""
    try:
        domain, key = (folder / "domain").read_text().strip(), (folder / "tokens.pub").read_text()
    except OSError as error:
        raise BadConfiguration(
            f"{folder} holds no security ({error.strerror}: {error.filename}); make it with tidewire up --secure"
            f" or tidewire certificate init --security {folder}"
        ) from None
    return Authority(domain=domain, token_key=key, revoked=_revoked(folder), certificates=_permissions(folder))


def _revoked(folder: Path) -> dict[str, None]:
    file = folder / "revoked.json"
    if not file.exists():
        return {}
    try:
        return dict.fromkeys(msgspec.json.decode(file.read_bytes(), type=list[str]))
    except (OSError, msgspec.DecodeError) as error:
        raise BadConfiguration(f"{file} is damaged ({error}): it is a JSON list of ids") from None


def _permissions(folder: Path) -> dict[str, Grant]:
    file = folder / "permissions.toml"
    if not file.exists():
        return {}
    try:
        found = msgspec.convert(tomllib.loads(file.read_text()), dict[str, Grant])
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise BadConfiguration(f"{file}: {error}") from None
    return {name: checked(grant, name=name) for name, grant in found.items()}


def init_security(folder: Path) -> bool:
    """Make an authority, unless there is one; then what is missing, if it can be had. Was there none?"""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder):
        if (folder / "authority.pem").exists():
            _complete(folder)
            return False
        left = [name for name in _KEYS if (folder / name).exists()]
        if left:  # a new authority would make worthless whatever the old one has signed
            raise BadConfiguration(
                f"{folder} is not complete: there is {left[0]}, and no authority.pem. Put that back from a copy; or"
                f" move {folder} away, and everything is made anew, for new tokens and certificates for everyone"
            )
        domain = token_hex(8)
        write_secret(folder / "domain", domain.encode())
        make_authority(folder, name=domain)
        return True


_KEYS: Final = ("authority.key", "tokens.key", "tokens.pub", "domain")
"""What was made together with authority.pem."""


def _complete(folder: Path) -> None:
    """Put back what follows from the rest; BadConfiguration if something is missing that does not."""
    if not (folder / "domain").exists():
        domain = domain_in(folder / "authority.pem")
        if domain is None:
            raise BadConfiguration(f"{folder / 'domain'} is missing: put it back from a copy, as other nodes have it")
        write_secret(folder / "domain", domain.encode())
    if not (folder / "tokens.pub").exists():
        public = public_key_of(folder / "tokens.key")
        if public is None:
            raise BadConfiguration(
                f"{folder / 'tokens.pub'} is missing: put it back from a copy, as other nodes have it"
            )
        write_secret(folder / "tokens.pub", public)


def ensure_certificate(folder: Path, name: str, *, of: CertificateOf = "broker") -> None:
    """Of a node on this machine, unless it is there."""
    if not (folder / f"{name}.pem").exists() or not (folder / f"{name}.key").exists():
        hosts = ["127.0.0.1", "::1", "localhost"]
        make_certificate(folder, name, of=of, hosts=hosts)


def revoke(folder: Path, ids: list[str]) -> None:
    """No longer good, from now on."""
    with locked(folder):
        known = _revoked(folder)
        write_secret(folder / "revoked.json", msgspec.json.encode([*known, *(one for one in ids if one not in known)]))


def refuse_exposure(address: str, *, insecure: bool, security: str | None) -> None:
    """Other machines may connect only if all is secured, or if somebody says so."""
    host, _ = parse_address(address)
    if security is None and not insecure and not is_loopback(host):
        raise BadConfiguration(
            f"{address} can be reached from other machines, and anyone could publish and subscribe: secure it with"
            " --security DIR, listen on 127.0.0.1, or say --insecure if that is what you want"
        )
