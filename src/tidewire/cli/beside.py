"""A console beside a node: a process of its own, kept running by the node's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tidewire.cli.shell import WITH_PARENT
from tidewire.live.sockets import parse_address
from tidewire.live.supervisor import Child, Supervisor

PROGRAM: Final = (sys.executable, "-m", "tidewire", WITH_PARENT)
"""How a node is begun by who runs it as a child: it ends with that one."""


def console_command(
    listen: str,
    *,
    at: Sequence[str] = (),
    coordinator: str | None = None,
    authority: Path | None = None,
    certificate: Path | None = None,
    insecure: bool = False,
) -> list[str]:
    """The command line of a console, for whoever runs one as a child."""
    given = [("--at", one) for one in at]
    given += [("--coordinator", coordinator)] if coordinator is not None else []
    given += [("--authority", str(authority))] if authority is not None else []
    if certificate is not None:
        given += [("--certificate", str(certificate)), ("--key", str(certificate.with_suffix(".key")))]
    flags = [word for pair in given for word in pair] + (["--insecure"] if insecure else [])
    return [*PROGRAM, "console", "--json", "--listen", listen, *flags]


def seen_from_beside(address: str, *, security: str | None) -> str:
    """A node's address as a process on the same machine reaches it."""
    host, port = parse_address(address)
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{here}]:{port}" if ":" in here else f"{here}:{port}"
    return shown if security is None else f"tidewires://{shown}"


class Beside:
    """A console that runs beside a node, as its child, and is kept running."""

    def __init__(self, command: list[str], say: Callable[[str, dict[str, Any]], None]) -> None:
        self._say = say
        self._child = Child("console", command)
        self._supervisor = Supervisor(say=self._heard)

    def start(self) -> None:
        """From now on."""
        self._supervisor.start(self._child)

    async def stop(self) -> None:
        """No longer."""
        await self._supervisor.stop()

    def _heard(self, _name: str, line: str) -> None:
        try:
            facts = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            facts = {"what": f"console: {line}"}
        self._say(str(facts.pop("what", "")), facts)
