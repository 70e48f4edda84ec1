"""What may be wrong with the security of an installation: certificates that end, keys that others can read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidewire.model.errors import BadConfiguration
from tidewire.observe.findings import Finding

if TYPE_CHECKING:
    from tidewire.observe.network import Network

SOON: Final = timedelta(days=30)


def security_of(folder: Path, network: Network | None) -> Iterator[Finding]:
    """Everything about one folder of keys, and whether what runs uses them."""
    from tidewire.live.security import read_authority

    if not (folder / "authority.pem").exists():
        message = "not secured: everything listens on this machine alone, and everybody here may do everything"
        yield Finding(check="security", level="ok", message=message)
        return
    try:
        read_authority(folder)
    except BadConfiguration as error:
        advice = "nodes that run go on with what they have read; others do not start"
        yield Finding(check="security", level="problem", message=error.message, advice=advice)
    bad = [*_open(folder, network), *_read_by_others(folder), *_ending(folder)]
    yield from bad
    if not bad:
        yield Finding(check="security", level="ok", message=f"secured by the keys in {folder}")


def _open(folder: Path, network: Network | None) -> Iterator[Finding]:
    from tidewire.live.sockets import is_secured

    if network is not None and any(not is_secured(one.where) for one in network.brokers):
        message = f"the network that runs is open, though there are keys in {folder}: everybody may do everything"
        advice = "end it, and start it again with: tidewire up --secure"
        yield Finding(check="security", level="warning", message=message, advice=advice)


def _read_by_others(folder: Path) -> Iterator[Finding]:
    for file in sorted([*folder.glob("*.key"), *folder.glob("*.token")]):
        if file.stat().st_mode & 0o077:
            message = f"{file} can be read by others: whoever has it is who it says"
            advice = f"chmod 600 {file}, and make it anew if somebody may have"
            yield Finding(check="security", level="problem", message=message, advice=advice)


def _ending(folder: Path) -> Iterator[Finding]:
    from tidewire.live.certificates import expires_at

    for file in sorted(folder.glob("*.pem")):
        try:
            left = expires_at(file) - datetime.now(UTC)
        except BadConfiguration as error:
            yield Finding(check="security", level="problem", message=error.message, advice="make it anew")
            continue
        again = f"tidewire certificate create {file.stem} --security {folder}, with --broker for a broker"
        if left <= timedelta(0):
            yield Finding(check="security", level="problem", message=f"{file} has ended", advice=again)
        elif left < SOON:
            yield Finding(check="security", level="warning", message=f"{file} ends in {left.days} days", advice=again)
