"""`tidewire up`: a whole network in one terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from shlex import quote
from time import time
from typing import Annotated, Any, Final

import msgspec
import typer
from msgspec.structs import replace

from tidewire.cli.credentials import PROFILE, STATE, Profile, write_profile
from tidewire.cli.datacluster import opened_place, why_it_cannot_run
from tidewire.cli.layout import DATA, Layout
from tidewire.cli.marked import escape
from tidewire.cli.serve import Speaker
from tidewire.cli.shell import AsJson, console
from tidewire.model.errors import BadConfiguration, NotAuthenticated, StoreLocked, Unavailable

_TRY: Final = """
[bold]tidewire is up[/bold]: {addresses}. In another terminal, in {folder}:

{profile}  tidewire sub "magnitude >= 6"
  tidewire pub '{{"class": "QUAKE", "magnitude": 6.4}}'

[dim]Ctrl-C ends it.[/dim]
"""

_CHANNELS: Final = """
[bold]The data cluster is there[/bold], at {address}. Store events, and be told what is new in them:

{profile}  tidewire dataset create quakes "magnitude double, place string" --feed "class = 'QUAKE'" --others
  tidewire channel create "create channel strong(least double) period 5s as
    select q.place, q.magnitude from quakes q where q.magnitude >= :least"
  tidewire channel subscribe strong least=6
  tidewire pub '{{"class": "QUAKE", "magnitude": 6.4, "place": "Honshu"}}' --guaranteed
"""
_NO_DATA: Final = "there is no data cluster, and so there are no channels: {why}. All else goes on"

_PROFILE: Final = "  export TIDEWIRE_PROFILE={file}\n"
"""Where it is not found by itself."""

_SECURED: Final = """[bold]It is secured.[/bold] {who} use the first token, {token}, which may do all.
Others get their own:

  tidewire token create ann --subscribe "region = 'north'"{flag}
"""
_OPEN: Final = (
    "this network is open: everybody on this machine may do everything, though there are keys in {folder}."
    " To secure it: tidewire up --secure{flag}"
)
_NO_TOKEN: Final = (
    "the first token, {token}, is no longer good: {why}. Make another one:"
    " tidewire token create admin --all --security {folder} --out {token}"
)
_FIRST_TOKEN_S: Final = 365 * 86_400.0
FIRST_TOKEN: Final = "first.token"
LOCK: Final = "up.lock"
Tables = Annotated[
    str | None,
    typer.Option(
        "--tables",
        metavar="DIR|URL",
        help="Where the data cluster has its tables, such as s3://bucket/path; else below --state.",
    ),
]
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
    with_data: Annotated[
        bool, typer.Option("--data-cluster", help="Tables of events and channels too, on Spark, on the last port.")
    ] = False,
    tables: Tables = None,
    as_json: AsJson = False,
) -> None:
    """Run a whole network in one terminal: coordinator, one head, two edges, the console. Ctrl-C ends it.

    A node that dies is started again; one that fails again and again at its start is given up, and says why.

    [bold]Examples[/bold], the last two in another terminal

      tidewire up

      tidewire up --secure --data-cluster

      tidewire sub "magnitude >= 6"

      tidewire pub '{"class": "QUAKE", "magnitude": 6.4}'
    """
    if tables is not None and not with_data:
        raise BadConfiguration(f"--tables {tables}: they are the data cluster's: --data-cluster is missing")
    layout = Layout(port=port, edges=edges, state=state, with_console=with_console, with_data=with_data)
    if not 1 <= port <= 65_536 - layout.ports:
        raise BadConfiguration(f"--port {port}: it must leave room for {layout.ports - 1} more ports below 65536")
    why = why_it_cannot_run() if with_data else None
    if tables is not None and why is None:
        layout = replace(layout, tables=str(opened_place(tables)))
    with _alone(state):
        _refuse_ports(port, layout.ports)
        layout = _prepared(layout if why is None else replace(layout, with_data=False), secure=secure)
        warnings = [] if why is None else [_NO_DATA.format(why=why)]
        warnings += [one for one in [_warning(layout)] if one is not None]
        _run(layout, _Teller(layout, warnings, as_json=as_json))


def _run(layout: Layout, teller: _Teller) -> None:
    from tidewire.live.process import until_told
    from tidewire.live.supervisor import Supervisor

    async def run() -> None:
        supervisor = Supervisor(say=teller.heard)

        async def start() -> None:
            for child in layout.children():
                supervisor.start(child)

        async def stop() -> None:
            teller.is_stopping = True
            await supervisor.stop()

        await until_told(start, stop)
        teller.say("", "stopped", {})

    asyncio.run(run())


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """StoreLocked if another one is at work in this folder: commands there are for that one, and so are the logs."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        file = (state / LOCK).open("w")
    except OSError as problem:
        raise _unwritable(state, problem) from None
    with file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except OSError:
            raise StoreLocked(
                f"another tidewire up is at work in {state}, and commands in this folder reach that one: end it, or"
                " give this one a folder and ports of its own: tidewire up --state DIR --port PORT"
            ) from None
        yield


def _unwritable(state: Path, problem: OSError) -> BadConfiguration:
    why = f"{problem.filename or state}: {problem.strerror}"
    return BadConfiguration(f"--state {state}: what must survive a restart cannot be written there: {why}")


def _refuse_ports(first: int, count: int) -> None:
    """Unless all of them can be had."""
    from tidewire.live.sockets import listen

    for one in range(first, first + count):
        try:
            listen("127.0.0.1", one).close()
        except Unavailable as problem:
            raise Unavailable(f"{problem.message} tidewire up --port takes {count} others.") from None


class _Teller:
    """What the nodes say, as they say it, and when all of them are there, what to do with them."""

    def __init__(self, layout: Layout, warnings: Sequence[str], *, as_json: bool) -> None:
        self.is_stopping = False
        self._layout, self._warnings, self._as_json = layout, warnings, as_json
        self._speaker = Speaker(as_json=as_json)
        self._missing = {child.name for child in layout.children()} - {DATA}  # nobody waits for Spark
        self._is_data_told = False
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
        is_data = what == DATA
        if is_data and not self._as_json:
            what, facts = "listens", {"on": facts["channels"], "datasets": facts["datasets"]}
        if what in ("broker", "coordinator", "console"):
            self._missing.discard(name)
            self._url = str(facts["address"]) if what == "console" else self._url
            if not self._as_json:  # its settings are for who runs it alone
                what, facts = "listens", {"on": facts["address"], **({"as": facts["role"]} if "role" in facts else {})}
        if name == "head" and what == "neighbour up":
            self._links.add(str(facts.get("broker")))
        if self._as_json or not self.is_stopping:  # that neighbours are lost in the end goes without saying
            self.say(name, what, facts)
        if not self._missing and len(self._links) == self._layout.edges:
            self._missing.add("")  # once
            self._all_there()
        if is_data and not self._is_data_told:
            self._is_data_told = True
            self._data_there()

    def say(self, name: str, what: str, facts: dict[str, Any]) -> None:
        """One line, with its node ahead."""
        if self._as_json:
            self._speaker.say(what, {**({"node": name} if name else {}), **facts})
        else:
            self._speaker.say(f"{name:<11} {what}" if name else what, facts)

    def _all_there(self) -> None:
        addresses = self._layout.brokers
        if self._as_json:
            for warning in self._warnings:
                self._speaker.say("warning", {"why": warning})
            shown = {} if self._url is None else {"console": self._url}
            shown |= {} if self._layout.data_cluster is None else {"data_cluster": self._layout.data_cluster}
            self._speaker.say("tidewire is up", {"head": addresses[0], "edges": addresses[1:], **shown})
            return
        told = f"head {addresses[0]}" + (f", edges {', '.join(addresses[1:])}" if addresses[1:] else "")
        text = _TRY.format(addresses=escape(told), folder=escape(Path.cwd()), profile=self._profile)
        console().print(text, soft_wrap=True)
        if self._url is not None:
            console().print(f"console {escape(self._url)}\n", soft_wrap=True)
        for warning in self._warnings:
            console().print(f"[bold red]warning[/bold red] {escape(warning)}\n", soft_wrap=True)
        security = self._layout.security
        if security is not None and not self._warnings:
            is_usual = self._layout.state == STATE
            who = "Commands in this folder" if is_usual else "Commands with this profile"
            flag = "" if is_usual else escape(f" --security {quote(str(security))}")
            console().print(_SECURED.format(who=who, token=escape(security / FIRST_TOKEN), flag=flag), soft_wrap=True)
        if self._layout.with_data and not self._is_data_told:
            console().print("[dim]The data cluster comes too: Spark takes ten seconds, or more.[/dim]\n")

    def _data_there(self) -> None:
        if not self._as_json:
            told = _CHANNELS.format(address=escape(self._layout.data_cluster), profile=self._profile)
            console().print(told, soft_wrap=True)

    @property
    def _profile(self) -> str:
        """What other commands must know first, if they do not find it by themselves."""
        state = self._layout.state
        return "" if state == STATE else escape(_PROFILE.format(file=quote(str(state / PROFILE))), lines=True)


def _warning(layout: Layout) -> str | None:
    """What somebody who has just started it should know before anything else; None: nothing."""
    from tidewire.live.security import read_authority

    security = layout.security
    if security is None:
        folder = layout.state / "security"
        flag = "" if layout.state == STATE else f" --state {quote(str(layout.state))}"
        return _OPEN.format(folder=folder, flag=flag) if (folder / "authority.pem").exists() else None
    token = security / FIRST_TOKEN
    try:
        read_authority(security).identify(token.read_text().strip(), None, unix_s=time())
    except (NotAuthenticated, OSError, UnicodeDecodeError) as error:
        why = error.message if isinstance(error, NotAuthenticated) else "it cannot be read"
        return _NO_TOKEN.format(token=token, why=why, folder=security)
    return None


def _prepared(layout: Layout, *, secure: bool) -> Layout:
    """Write what other commands and the next start need; with the folder of the keys, if it is to be secure."""
    state = layout.state
    try:
        layout = replace(layout, security=_secured(layout) if secure else None)
        known = Profile(
            at=layout.brokers[0],
            coordinator=layout.coordinator,
            data_cluster=layout.data_cluster,
            tables=layout.tables or _known_tables(layout),
        )
        write_profile(state, replace(known, **_SHOWN) if secure else known)
    except OSError as problem:
        raise _unwritable(state, problem) from None
    return layout


def _known_tables(layout: Layout) -> str | None:
    """Where other commands do not find them by themselves."""
    return str(layout.data_folder.resolve()) if layout.with_data and layout.state != STATE else None


def _secured(layout: Layout) -> Path:
    """The folder of its keys; made, with all that is missing in it."""
    from tidewire.identity.grants import EVERYTHING
    from tidewire.live.security import Security, ensure_certificate, init_security
    from tidewire.live.tokens import issue
    from tidewire.wire.connections import CertificateOf

    folder = layout.state / "security"
    init_security(folder)
    nodes: dict[str, CertificateOf] = {"coordinator": "coordinator", "head": "broker"}
    nodes |= {f"edge{at}": "broker" for at in range(1, layout.edges + 1)}
    nodes |= {DATA: "datacluster"} if layout.with_data else {}
    for name, of in nodes.items():
        ensure_certificate(folder, name, of=of)
        # What is wrong with the keys is told now, once, and not by every node again and again.
        Security(folder, name=name, of=of)
    if not (folder / FIRST_TOKEN).exists():
        issue(folder, "admin", EVERYTHING, seconds=_FIRST_TOKEN_S, out=folder / FIRST_TOKEN)
    return folder
