"""What may be wrong with an installation: the machine, the packages, the kernel, the folders and ports.

``CHECKS`` is the list; a new check is a function that gives at least one finding.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from time import time
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

import tidewire
from tidewire.broker.config import BrokerConfig
from tidewire.live.sockets import is_loopback, listen, parse_address
from tidewire.model.errors import Unavailable
from tidewire.model.ids import BrokerId
from tidewire.observe.findings import SPARE_FILES, Finding, Level

if TYPE_CHECKING:
    from tidewire.observe.network import Network

PYTHON_MIN: Final = (3, 11)
PORTS: Final = 6
"""That `tidewire up` takes: a head, two edges, the coordinator, the console, the data cluster if it is asked for."""
LITTLE_BYTES: Final = 1 << 30
TOO_LITTLE_BYTES: Final = 100 << 20
_RELEASED_UNIX_S: Final = 1_750_000_000
"""A calendar before this is wrong: this code is younger."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at."""

    state: Path
    """The folder of what must survive a restart."""

    at: str
    """The first of the ports."""

    network: Network | None
    """What answers; None if nobody could be asked."""


Check = Callable[[Place], Iterator[Finding]]


def _found(check: str, level: Level, message: str, advice: str = "") -> Finding:
    return Finding(check=check, level=level, message=message, advice=advice)


def python_is_new_enough(_place: Place) -> Iterator[Finding]:
    """Which interpreter is this?"""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_MIN:
        yield _found(
            "python", "problem", f"Python {version}", "Tidewire needs 3.11 or newer: PYTHON=python3.12 make setup"
        )
    else:
        yield _found("python", "ok", f"Python {version} at {sys.executable}")


def packages_are_there(_place: Place) -> Iterator[Finding]:
    """Is what the package asks for installed, new enough?"""
    wanted = [line for line in metadata.requires("tidewire") or [] if "extra ==" not in line]
    wrong = []
    for line in wanted:
        parsed = re.match(r"([\w.-]+)\s*(?:>=\s*([\d.]+))?", line)
        assert parsed is not None
        name, least = parsed[1], parsed[2] or "0"
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        if _numbers(installed) < _numbers(least):
            wrong.append(f"{name} {installed} is older than {least}")
    if wrong:
        yield _found("packages", "problem", "; ".join(wrong), "make setup, or pip install --upgrade tidewire")
    else:
        yield _found("packages", "ok", f"tidewire {tidewire.__version__}, and the {len(wanted)} packages that it needs")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version.split("+", maxsplit=1)[0])[:3]]


def kernel_is_current(_place: Place) -> Iterator[Finding]:
    """Is the kernel built, of the sources that are here, and how does it match?"""
    folder = Path(tidewire.__file__).parent / "_kernel"
    try:
        from tidewire._kernel import _native
    except ImportError as error:
        yield _found("kernel", "problem", f"the kernel cannot be loaded: {error}", "build it: make setup")
        return
    built = Path(_native.__file__)
    sources = [file for part in ("cpp", "bindings") for file in (folder / part).rglob("*") if file.is_file()]
    newer = [file for file in sources if file.stat().st_mtime > built.stat().st_mtime]
    if newer:
        message = f"the kernel is older than {len(newer)} of its sources, such as {newer[0].name}"
        yield _found("kernel", "warning", message, "build it again: make setup")
    else:
        yield _found("kernel", "ok", "the kernel is built" + (", of the sources that are here" if sources else ""))
    path = _native.Index().simd
    if path == "scalar":
        yield _found(
            "simd", "warning", "matching uses no SIMD: this processor has no AVX2", "it is slower; nothing else differs"
        )
    else:
        yield _found("simd", "ok", f"matching uses {path} (there are: {', '.join(_native.simd_paths())})")


def files_suffice(_place: Place) -> Iterator[Finding]:
    """May a broker open as many connections as it would take?"""
    _, hard = getrlimit(RLIMIT_NOFILE)  # brokers raise theirs as far as that
    wanted = BrokerConfig(broker=BrokerId("any")).connections_max + SPARE_FILES
    if hard < wanted:
        message = f"a process may open {hard} files at most; a broker takes up to {wanted} connections"
        advice = "raise the hard limit in limits.conf or with LimitNOFILE=, or set connections_max lower"
        yield _found("files", "warning", message, advice)
    else:
        yield _found("files", "ok", f"a process may open {hard} files, enough for {wanted} connections")


def state_can_be_kept(place: Place) -> Iterator[Finding]:
    """Can the state folder be written, and is there room?"""
    folder = place.state.absolute()
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        advice = "choose another with --state, or change its owner"
        yield _found("state", "problem", f"{folder} cannot be written: {there} belongs to somebody else", advice)
        return
    free = shutil.disk_usage(there).free
    level: Level = "problem" if free < TOO_LITTLE_BYTES else "warning" if free < LITTLE_BYTES else "ok"
    message = f"{place.state} can be written, {free / 1e9:.1f} GB are free"
    yield _found("state", level, message, "" if level == "ok" else "make room, or choose another disk with --state")


def clock_is_sane(_place: Place) -> Iterator[Finding]:
    """Is the calendar of this machine possible?"""
    if time() < _RELEASED_UNIX_S:
        yield _found(
            "clock", "problem", "this machine's calendar is in the past", "set it: a time service (chrony, ntpd)"
        )
    else:
        yield _found("clock", "ok", "this machine's calendar is plausible")


def ports_are_known(place: Place) -> Iterator[Finding]:
    """Are the ports of `tidewire up` free, or whose are they?"""
    host, first = parse_address(place.at)
    if place.network is None or not is_loopback(host):
        return
    ours = {parse_address(one.where)[1]: f"broker {one.status.broker}" for one in place.network.brokers}
    ours |= {parse_address(one.address)[1]: "the coordinator" for one in place.network.coordinators if not one.reason}
    clusters = [one.channels for one in place.network.statuses() if one.channels is not None]
    ours |= {parse_address(one.data_cluster)[1]: "the data cluster" for one in clusters if one.is_connected}
    for port in range(first, min(first + PORTS, 65_536)):
        try:
            listen(host, port).close()
        except Unavailable as error:
            listener = None if port in ours else _listener_on(port)
            if port in ours:
                yield _found("port", "ok", f"port {port} is that of {ours[port]}")
            elif listener is not None and listener.is_ours:
                yield _found("port", "ok", f"port {port} is that of {listener.name}")
            else:
                message = f"port {port} is taken" + (f" by {listener.name}" if listener else f": {error.message}")
                yield _found("port", "warning", message, "end that program, or: tidewire up --port, with another")
            continue
        yield _found("port", "ok", f"port {port} is free")


class Listener(NamedTuple):
    """Who listens on a port: a program, with its process."""

    name: str
    is_ours: bool
    """Is it a node or a console of Tidewire's?"""


def _listener_on(port: int) -> Listener | None:
    """The process that listens there, as far as we may know."""
    inodes = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else []:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(file.readlink()) in inodes for file in (process / "fd").iterdir()):
                return _listener(process)
        except OSError:
            continue
    return None


def _listener(process: Path) -> Listener:
    words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    for at, word in enumerate(words[1:3], start=1):
        if Path(word).name == "tidewire" and len(words) > at + 1:
            named = words[words.index("--name") + 1] if "--name" in words[:-1] else ""
            command = next((one for one in words[at + 1 :] if not one.startswith("-")), "")
            told = f"tidewire {command} {named}".strip()
            return Listener(f"{told} (process {process.name})", is_ours=True)
    return Listener(f"{(process / 'comm').read_text().strip()} (process {process.name})", is_ours=False)


def exposure_is_known(place: Place) -> Iterator[Finding]:
    """Who can be reached from other machines?"""
    if place.network is None:
        return
    exposed = [one.status for one in place.network.brokers if not is_loopback(parse_address(one.status.address)[0])]
    for status in exposed:
        message = f"{status.broker} at {status.address} can be reached from other machines"
        yield _found("exposure", "warning", message, "is that what you want? Else listen on 127.0.0.1")
    if place.network.brokers and not exposed:
        yield _found("exposure", "ok", "brokers can be reached from this machine only")


def data_cluster_can_run(place: Place) -> Iterator[Finding]:
    """Is there what it needs? Who has no tables does without."""
    from tidewire.cli.datacluster import why_it_cannot_run

    why = why_it_cannot_run()
    if why is None:
        yield _found("data", "ok", "a data cluster can run here")
    elif (place.state / "data").exists():
        message = f"there are tables in {place.state / 'data'}, and nothing can serve them: {why}"
        yield _found("data", "warning", message, "install that, then start it again: tidewire up --data-cluster")
    else:
        yield _found("data", "ok", f"a data cluster cannot run here, all else can: {why}")


def keys_are_good(place: Place) -> Iterator[Finding]:
    """Certificates that last, and keys that are nobody else's."""
    from tidewire.cli.installation_security import security_of

    yield from security_of(place.state / "security", place.network)


CHECKS: Final[list[Check]] = [
    python_is_new_enough,
    packages_are_there,
    kernel_is_current,
    files_suffice,
    state_can_be_kept,
    clock_is_sane,
    data_cluster_can_run,
    ports_are_known,
    exposure_is_known,
    keys_are_good,
]
"""Every check of an installation. A new one goes here."""


def examine(place: Place) -> list[Finding]:
    """Every check, in order."""
    return [finding for check in CHECKS for finding in check(place)]
