"""Where the network is, and who the person at the keyboard is: flags, then the environment, then what `up` left.

`tidewire up` leaves `.tidewire/client.toml`, so that other commands in the same folder need nothing more.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from tidewire.live.credentials import ANONYMOUS, Credentials
from tidewire.live.sockets import is_secured
from tidewire.model.errors import BadConfiguration

STATE: Final = Path(".tidewire")
PROFILE: Final = "client.toml"
PROFILE_VARIABLE: Final = "TIDEWIRE_PROFILE"
TOKEN_VARIABLE: Final = "TIDEWIRE_TOKEN"
DEFAULT_AT: Final = "127.0.0.1:7600"
DEFAULT_DATA_CLUSTER: Final = "127.0.0.1:7605"
"""Where `tidewire up --data-cluster` has it, with two edges and a console."""

At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="HOST:PORT",
        help="Any broker of the network; [bold]tidewires://[/bold]HOST:PORT if it is secured. Found by itself beside"
        " [bold]tidewire up[/bold].",
    ),
]
DataClusterAt = Annotated[
    str | None,
    typer.Option(
        "--data-cluster",
        metavar="HOST:PORT",
        help="The data cluster. Found by itself beside [bold]tidewire up --data-cluster[/bold].",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help="Who you are; else [bold]$TIDEWIRE_TOKEN[/bold], else what `up` left."
    ),
]


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a network is and what to show there. Paths are as seen from the file."""

    at: str
    coordinator: str | None = None
    """Asked first which broker to use, by commands that publish and subscribe."""
    data_cluster: str | None = None
    tables: str | None = None
    """Of the data cluster, if they are not beside this file."""
    token_file: str | None = None
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None


class Access(msgspec.Struct, frozen=True):
    """Where to go, and what to show there."""

    at: str
    credentials: Credentials


def access(at: str | None, token_file: Path | None = None) -> Access:
    """What flags, environment and profile say together."""
    file, profile = _profile()
    return _access(at or (profile.at if profile is not None else DEFAULT_AT), token_file, file, profile)


def cluster_access(data_cluster: str | None, token_file: Path | None = None) -> Access:
    """The same, of the data cluster."""
    file, profile = _profile()
    known = DEFAULT_DATA_CLUSTER if profile is None else profile.data_cluster
    if data_cluster is None and known is None:
        raise BadConfiguration(
            f"the network of {file} has no data cluster: start it with tidewire up --data-cluster, or say where one is"
            " with --data-cluster HOST:PORT"
        )
    return _access(data_cluster or known or "", token_file, file, profile)


def known_profile() -> Profile | None:
    """What `up` left, or whoever wrote a profile."""
    return _profile()[1]


def _profile() -> tuple[Path, Profile | None]:
    named = os.environ.get(PROFILE_VARIABLE)
    file = Path(named) if named else STATE / PROFILE
    return file, _read(file) if named or file.exists() else None


def _access(where: str, token_file: Path | None, file: Path, profile: Profile | None) -> Access:
    if profile is not None and is_secured(profile.at) and "://" not in where:
        where = f"tidewires://{where}"  # another node of the same network
    known = ANONYMOUS
    if profile is not None and is_secured(where):
        known = _credentials(profile, file.parent)
    token = _token(token_file) or known.token
    return Access(where, msgspec.structs.replace(known, token=token))


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfiguration(f"no token can be read from {file}: {error}") from None


def _read(file: Path) -> Profile:
    try:
        return msgspec.convert(tomllib.loads(file.read_text()), Profile)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadConfiguration(f"{file}: {error}") from None


def _credentials(profile: Profile, beside: Path) -> Credentials:
    def path(name: str | None) -> Path | None:
        return None if name is None else beside / name

    token_file = path(profile.token_file)
    return Credentials(
        token=None if token_file is None else _token(token_file),
        authority=path(profile.authority),
        certificate=path(profile.certificate),
        key=path(profile.key),
    )


def write_profile(state: Path, profile: Profile) -> None:
    """For the commands that come later."""
    state.mkdir(parents=True, exist_ok=True)
    lines = [f'{name} = "{value}"' for name, value in msgspec.structs.asdict(profile).items() if value is not None]
    (state / PROFILE).write_text("\n".join(lines) + "\n")
