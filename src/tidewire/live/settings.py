"""Settings of a node: from a TOML file, overridden by flags. Unknown keys are errors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tidewire.broker.config import BrokerConfig
from tidewire.live.sockets import DEFAULT_PORT, is_loopback, parse_address
from tidewire.model.errors import BadConfiguration

_Config = TypeVar("_Config")


def read_settings(file: Path) -> dict[str, Any]:
    """What the file says."""
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise BadConfiguration(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfiguration(f"{file}: {error}") from None


def broker_config(settings: dict[str, Any], *, source: str) -> BrokerConfig:
    """The checked settings of a broker."""
    return _checked(settings, BrokerConfig, source)


class CoordinatorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A coordinator's settings."""

    address: str = f"127.0.0.1:{DEFAULT_PORT - 1}"
    """Where brokers reach it: host:port."""

    store: str | None = None
    """The file in which members are remembered; without one it begins anew with each start."""


def coordinator_config(settings: dict[str, Any], *, source: str) -> CoordinatorConfig:
    """The checked settings of a coordinator."""
    return _checked(settings, CoordinatorConfig, source)


def _checked(settings: dict[str, Any], kind: type[_Config], source: str) -> _Config:
    try:
        return msgspec.convert(settings, kind)
    except msgspec.ValidationError as error:
        raise BadConfiguration(f"{source}: {error}") from None


def refuse_exposure(address: str, *, insecure: bool) -> None:
    """There is no authentication yet: other machines may connect only if somebody says so."""
    host, _ = parse_address(address)
    if not insecure and not is_loopback(host):
        raise BadConfiguration(
            f"{address} can be reached from other machines, and anyone could publish and subscribe: "
            "listen on 127.0.0.1, or say --insecure if that is what you want"
        )
