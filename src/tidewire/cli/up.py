"""`tidewire up`: a whole network in one terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from time import time
from typing import Annotated, Any, Final

import msgspec
import typer

from tidewire.cli.beside import console_command
from tidewire.cli.credentials import STATE, Profile, write_profile
from tidewire.cli.marked import escape
from tidewire.cli.serve import Speaker
from tidewire.cli.shell import AsJson, console
from tidewire.model.errors import BadConfiguration, NotAuthenticated, Unavailable

_TRY: Final = """
[bold]tidewire is up[/bold]: {addresses}. In another terminal, in {folder}:

  tidewire sub "magnitude >= 6"
  tidewire pub '{{"class": "QUAKE", "magnitude": 6.4}}'

[dim]Ctrl-C ends it.[/dim]
"""

_SECURED: Final = """[bold]It is secured.[/bold] Commands in this folder use the first token, {token}, which may do all.
Others get their own:

  tidewire token create ann --subscribe "region = 'north'"
"""
_OPEN: Final = (
    "this network is open: everybody on this machine may do everything, though there are keys in {folder}."
    " To secure it: tidewire up --secure"
)
_NO_TOKEN: Final = (
    "the first token, {token}, is no longer good: {why}. Make another one:"
    " tidewire token create admin --all --security {folder} --out {token}"
)
_FIRST_TOKEN_S: Final = 365 * 86_400.0
FIRST_TOKEN: Final = "first.token"
_SHOWN: Final = {"authority": "security/authority.pem", "token_file": f"security/{FIRST_TOKEN}"}


def up(
    port: Annotated[int, typer.Option(help="Of the head; the edges and the coordinator take the next ones.")] = 7600,
    edges: Annotated[int, typer.Option(help="How many edge brokers.", min=0, max=32)] = 2,
    state: Annotated[Path, typer.Option(metavar="DIR", help="What must survive a restart.")] = STATE,
    secure: Annotated[
        bool, typer.Option("--secure", help="TLS, and a token for everyone; makes the keys and a first token.")
    ] = False,
    with_console: Annotated[
        bool, typer.Option("--console/--no-console", help="Serve HTTP and the web page too, on the port after those.")
    ] = True,
    with_data: Annotated[bool, typer.Option("--data-cluster", help="Store events as tables too, on Spark.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a whole network in one terminal: coordinator, one head, two edges, the console. Ctrl-C ends it.

    A node that dies is started again; one that fails again and again at its start is given up, and says why.

    [bold]Examples[/bold], the last two in another terminal

      tidewire up

      tidewire up --secure

      tidewire sub "magnitude >= 6"

      tidewire pub '{"class": "QUAKE", "magnitude": 6.4}'
    """
    from tidewire.live.process import until_told
    from tidewire.live.sockets import listen
    from tidewire.live.supervisor import Child, Supervisor

    ports = edges + (3 if with_console else 2)
    if not 1 <= port <= 65_536 - ports:
        raise BadConfiguration(f"--port {port}: it must leave room for {ports - 1} more ports below 65536")
    for one in range(port, port + ports):
        try:
            listen("127.0.0.1", one).close()
        except Unavailable as problem:
            raise Unavailable(f"{problem.message} tidewire up --port takes {ports} others.") from None
    security = _prepared(state, port, edges, secure=secure)
    commands = up_commands(port, edges, state, security, with_console=with_console, with_data=with_data)
    teller = _Teller(port, edges, security, dict(commands), warning=_warning(state, security), as_json=as_json)

    async def run() -> None:
        supervisor = Supervisor(say=teller.heard)

        async def start() -> None:
            for name, command in commands:
                supervisor.start(Child(name, command))

        async def stop() -> None:
            teller.is_stopping = True
            await supervisor.stop()

        await until_told(start, stop)
        teller.say("", "stopped", {})

    asyncio.run(run())


class _Teller:
    """What the nodes say, as they say it, and when all of them are there, what to do with them."""

    def __init__(
        self, port: int, edges: int, security: Path | None, nodes: Iterable[str], *, warning: str | None, as_json: bool
    ) -> None:
        self.is_stopping = False
        self._port, self._edges, self._as_json = port, edges, as_json
        self._speaker = Speaker(as_json=as_json)
        self._security = security
        self._warning = warning
        self._missing = set(nodes)
        self._url: str | None = None
        self._links: set[str] = set()

    def heard(self, name: str, line: str) -> None:
        """A node, or the supervisor about it, said a line."""
        try:
            facts = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            facts = {"what": line}
        if isinstance(error := facts.get("error"), dict) and not self._as_json:
            facts = {"what": f"error [{error.get('code')}] {error.get('message')}"}
        what = str(facts.pop("what", "error"))
        if what == "datacluster":
            self._missing.discard(name)
        if what in ("broker", "coordinator", "console"):
            self._missing.discard(name)
            self._url = str(facts["address"]) if what == "console" else self._url
            if not self._as_json:  # its settings are for who runs it alone
                what, facts = "listens", {"on": facts["address"], **({"as": facts["role"]} if "role" in facts else {})}
        if name == "head" and what == "neighbour up":
            self._links.add(str(facts.get("broker")))
        if self._as_json or not self.is_stopping:  # that neighbours are lost in the end goes without saying
            self.say(name, what, facts)
        if not self._missing and len(self._links) == self._edges:
            self._missing.add("")  # once
            self._all_there()

    def say(self, name: str, what: str, facts: dict[str, Any]) -> None:
        """One line, with its node ahead."""
        if self._as_json:
            self._speaker.say(what, {**({"node": name} if name else {}), **facts})
        else:
            self._speaker.say(f"{name:<11} {what}" if name else what, facts)

    def _all_there(self) -> None:
        addresses = [_address(self._port + at, self._security) for at in range(self._edges + 1)]
        if self._as_json:
            if self._warning is not None:
                self._speaker.say("warning", {"why": self._warning})
            shown = {} if self._url is None else {"console": self._url}
            self._speaker.say("tidewire is up", {"head": addresses[0], "edges": addresses[1:], **shown})
            return
        told = f"head {addresses[0]}" + (f", edges {', '.join(addresses[1:])}" if self._edges else "")
        console().print(_TRY.format(addresses=escape(told), folder=escape(Path.cwd())), soft_wrap=True)
        if self._url is not None:
            console().print(f"console {escape(self._url)}\n", soft_wrap=True)
        if self._warning is not None:
            console().print(f"[bold red]warning[/bold red] {escape(self._warning)}\n", soft_wrap=True)
        elif self._security is not None:
            console().print(_SECURED.format(token=escape(self._security / FIRST_TOKEN)), soft_wrap=True)


def _address(port: int, security: Path | None) -> str:
    return f"{'' if security is None else 'tidewires://'}127.0.0.1:{port}"


def _warning(state: Path, security: Path | None) -> str | None:
    """What somebody who has just started it should know before anything else; None: nothing."""
    from tidewire.live.security import read_authority

    if security is None:
        folder = state / "security"
        return _OPEN.format(folder=folder) if (folder / "authority.pem").exists() else None
    token = security / FIRST_TOKEN
    try:
        read_authority(security).identify(token.read_text().strip(), None, unix_s=time())
    except (NotAuthenticated, OSError, UnicodeDecodeError) as error:
        why = error.message if isinstance(error, NotAuthenticated) else "it cannot be read"
        return _NO_TOKEN.format(token=token, why=why, folder=security)
    return None


def _prepared(state: Path, port: int, edges: int, *, secure: bool) -> Path | None:
    """Write what other commands and the next start need; the folder of the keys, if it is to be secure."""
    try:
        security = _secured(state, edges) if secure else None
        at, office = _address(port, security), _address(port + edges + 1, security)
        write_profile(state, Profile(at=at, coordinator=office, **({} if security is None else _SHOWN)))
    except OSError as problem:
        why = f"{problem.filename or state}: {problem.strerror}"
        raise BadConfiguration(f"--state {state}: what must survive a restart cannot be written there: {why}") from None
    return security


def _secured(state: Path, edges: int) -> Path:
    """The folder of its keys; made, with all that is missing in it."""
    from tidewire.identity.grants import EVERYTHING
    from tidewire.live.security import Security, ensure_certificate, init_security
    from tidewire.live.tokens import issue

    folder = state / "security"
    init_security(folder)
    ensure_certificate(folder, "coordinator", is_coordinator=True)
    # What is wrong with the keys is told now, once, and not by every node again and again.
    Security(folder, name="coordinator", of="coordinator")
    for name in ["head", *(f"edge{at}" for at in range(1, edges + 1))]:
        ensure_certificate(folder, name)
        Security(folder, name=name)
    if not (folder / FIRST_TOKEN).exists():
        issue(folder, "admin", EVERYTHING, seconds=_FIRST_TOKEN_S, out=folder / FIRST_TOKEN)
    return folder


def up_commands(
    port: int,
    edges: int,
    state: Path,
    security: Path | None = None,
    *,
    with_console: bool = True,
    with_data: bool = False,
) -> list[tuple[str, list[str]]]:
    """The processes of `up`: their names and command lines."""
    program = [sys.executable, "-m", "tidewire"]
    where = f"127.0.0.1:{port + edges + 1}"
    store = str(state / "members.json")
    keys = [] if security is None else ["--security", str(security)]
    commands = [("coordinator", [*program, "coordinator", "--json", "--listen", where, "--store", store, *keys])]
    for at in range(edges + 1):
        name, role = ("head", "head" if edges else "both") if at == 0 else (f"edge{at}", "edge")
        flags = ["--name", name, "--listen", f"127.0.0.1:{port + at}", "--role", role, "--coordinator", where, *keys]
        flags += ["--store", str(state / "log" / name)]
        commands.append((name, [*program, "broker", "--json", *flags]))
    if with_console:
        brokers = [_address(port + at, security) for at in range(edges + 1)]
        authority = None if security is None else security / "authority.pem"
        office = _address(port + edges + 1, security)
        command = console_command(f"127.0.0.1:{port + edges + 2}", at=brokers, coordinator=office, authority=authority)
        commands.append(("console", command))
    if with_data:
        flags = ["--at", _address(port, security), "--folder", str(state / "data")]
        commands.append(("datacluster", [*program, "datacluster", "--json", *flags]))
    return commands
