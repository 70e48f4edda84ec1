"""The security of a benchmark: an authority of its own, one server on 127.0.0.1 that it vouches for, and tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from tidewire.identity.grants import EVERYTHING, Grant
from tidewire.live.certificates import make_certificate
from tidewire.live.security import init_security
from tidewire.live.tokens import issue

SERVER: Final = "bench"
"""The name in the certificate."""

_TOKEN_S: Final = 86_400.0


class Certificates(msgspec.Struct, frozen=True):
    """A folder with all that a server shows and its clients trust."""

    folder: Path

    @property
    def authority(self) -> Path:
        """What clients trust."""
        return self.folder / "authority.pem"

    @property
    def certificate(self) -> Path:
        """What the server shows."""
        return self.folder / f"{SERVER}.pem"

    @property
    def key(self) -> Path:
        """Of the server."""
        return self.folder / f"{SERVER}.key"

    def token(self, name: str, grant: Grant = EVERYTHING) -> str:
        """For a client of ours."""
        return issue(self.folder, name, grant, seconds=_TOKEN_S)[0]


@contextlib.contextmanager
def certificates() -> Iterator[Certificates]:
    """Made anew, and gone at the end."""
    with TemporaryDirectory(prefix="tidewire-certificates-") as place:
        folder = Path(place)
        init_security(folder)
        make_certificate(folder, SERVER, of="broker", hosts=["127.0.0.1"])
        yield Certificates(folder)
