"""Settings of a node: from a TOML file, overridden by flags. Unknown keys are errors."""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeGuard, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from tidewire.broker.config import BrokerConfig
from tidewire.coordinator.config import Decides
from tidewire.live.sockets import DEFAULT_PORT, parse_address
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
    config = _checked(settings, BrokerConfig, source)
    try:
        check_addresses(config)
    except BadConfiguration as error:
        raise BadConfiguration(f"{source}: {error.message}") from None
    return config


def check_addresses(config: BrokerConfig) -> None:
    """BadConfiguration if a broker is to dial what is no address: it never will be one."""
    named = [("neighbours", address) for address in config.neighbours]
    named += [] if config.coordinator is None else [("coordinator", config.coordinator)]
    named += [] if config.data_cluster is None else [("data_cluster", config.data_cluster)]
    for name, address in named:
        try:
            parse_address(address)
        except BadConfiguration as error:
            raise BadConfiguration(f"{name}: {error.message}") from None


class CoordinatorConfig(Decides, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A coordinator's settings."""

    address: str = f"127.0.0.1:{DEFAULT_PORT - 1}"
    """Where brokers reach it: host:port."""

    security: str | None = None
    """The folder with its certificate and the keys of the installation; None: everybody may register."""

    store: str | None = None
    """The file in which members are remembered; without one it begins anew with each start."""


def coordinator_config(settings: dict[str, Any], *, source: str) -> CoordinatorConfig:
    """The checked settings of a coordinator."""
    return _checked(settings, CoordinatorConfig, source)


def _checked(settings: dict[str, Any], kind: type[_Config], source: str) -> _Config:
    try:
        return msgspec.convert(settings, kind)
    except msgspec.ValidationError as error:
        raise BadConfiguration(f"{source}: {_in_our_words(str(error), kind)}") from None
    except BadConfiguration as error:
        raise BadConfiguration(f"{source}: {error.message}") from None


def _in_our_words(error: str, kind: type) -> str:
    """What msgspec says of a value, with the known names."""
    what, _, place = error.partition(" - at `$")
    path = re.findall(r"\w+", place.replace("[...]", ""))
    hints = get_type_hints(kind)
    for name in path:
        if not _is_table(hints.get(name)):
            break
        hints = get_type_hints(hints[name])
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        name = ".".join([*path, unknown[1]])
        near = get_close_matches(unknown[1], hints, n=1)
        return f"there is no setting {name}" + (f"; did you mean {near[0]}?" if near else f": {', '.join(hints)}")
    if path and get_origin(hints.get(path[-1])) is Literal:
        return f"{'.'.join(path)} must be one of {', '.join(get_args(hints[path[-1]]))}"
    return f"{'.'.join(path)}: {what.replace('`', '')}" if path else error


def _is_table(hint: object) -> TypeGuard[type[msgspec.Struct]]:
    """Is it a table of settings?"""
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)
