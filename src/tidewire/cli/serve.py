"""`tidewire broker` and `coordinator`: nodes that run until they are told to end."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import structs

from tidewire.balancing.config import BalancingConfig
from tidewire.cli.beside import Beside, console_command, seen_from_beside
from tidewire.cli.marked import escape
from tidewire.cli.shell import AsJson, choices, console, print_json_line
from tidewire.congestion.config import CongestionConfig

if TYPE_CHECKING:
    from tidewire.broker.config import BrokerConfig

Listen = Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Let other machines connect, without authentication.")]
Secured = Annotated[
    Path | None,
    typer.Option("--security", metavar="DIR", help="Only TLS, and only those who show who they are: its keys."),
]
Http = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", help="Serve HTTP and the web page there too, in a process of its own."),
]
Settings = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings, as TOML; flags win.")]

SlowSubscriber = Annotated[
    str,
    typer.Option(
        help="Its full queue: drop the oldest events, wait, or end it.", autocompletion=choices("drop", "wait", "end")
    ),
]

FACT_MAX: Final = 1000
"""Characters of one fact in the log: others may say as much as they like."""
_ROLES: Final = "auto, head (hosts publishers), edge (hosts subscribers) or both."


class Speaker:
    """What a node says: lines for people, or a JSON document each."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = console()

    def begin(self, what: str, facts: dict[str, Any], *, first: tuple[str, ...]) -> None:
        """Who it is and all its settings; for people, those that matter most in a line of their own."""
        if self._as_json:
            self.say(what, facts)
            return
        self.say(what, {name: facts[name] for name in first if name in facts})
        self.say("settings", {name: value for name, value in facts.items() if name not in first})

    def say(self, what: str, facts: dict[str, Any]) -> None:
        if self._as_json:
            print_json_line({"what": what, **{name: _short(value) for name, value in facts.items()}})
            return
        told = "  ".join(f"[dim]{escape(name)}[/dim] {escape(_short(value))}" for name, value in facts.items())
        self._console.print(f"{escape(what)}  {told}" if told else escape(what), soft_wrap=True)
        sys.stdout.flush()


def _short(value: Any) -> Any:
    return value if not isinstance(value, str) or len(value) <= FACT_MAX else value[: FACT_MAX - 1] + "…"


DataCluster = Annotated[
    str | None, typer.Option("--data-cluster", metavar="HOST:PORT", help="Offer the channels of this data cluster.")
]


def broker(
    name: Annotated[str | None, typer.Option(help="Unique in the network; by default made from the address.")] = None,
    listen: Listen = "",
    role: Annotated[str, typer.Option(help=_ROLES, autocompletion=choices("auto", "head", "edge", "both"))] = "",
    neighbour: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Connect to it; may be repeated.")
    ] = None,
    coordinator: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Ask it for neighbours.")] = None,
    data_cluster: DataCluster = None,
    slow_subscriber: SlowSubscriber = "",
    covering: Annotated[bool, typer.Option(help="Tell neighbours only of filters that no other covers.")] = True,
    store: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep guaranteed events there; without it there are none.")
    ] = None,
    config: Settings = None,
    http: Http = None,
    security: Secured = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Run one broker until Ctrl-C.

    [bold]Examples[/bold]

      tidewire broker

      tidewire broker --name head --listen 127.0.0.1:7600 --role head

      tidewire broker --name edge1 --listen 127.0.0.1:7601 --role edge --neighbour 127.0.0.1:7600

      tidewire broker --config edge1.toml

      tidewire broker --store /var/lib/tidewire/edge1 --http 127.0.0.1:7680
    """
    from tidewire.live.security import refuse_exposure
    from tidewire.live.settings import broker_config, read_settings
    from tidewire.live.sockets import DEFAULT_PORT

    settings = {"address": f"127.0.0.1:{DEFAULT_PORT}"} | (read_settings(config) if config is not None else {})
    given = {
        "broker": name,
        "address": listen,
        "role": role,
        "neighbours": neighbour,
        "coordinator": coordinator,
        "data_cluster": data_cluster,
        "slow_subscriber": slow_subscriber,
        "security": None if security is None else str(security),
        "store": None if store is None else str(store),
    }
    settings |= {key: value for key, value in given.items() if value}
    if not covering:
        settings["covering"] = False
    port = str(settings["address"]).rpartition(":")[2]
    settings.setdefault("broker", f"broker-{port}" if port != "0" else f"broker-p{os.getpid()}")
    checked = broker_config(settings, source=str(config) if config is not None else "the flags")
    refuse_exposure(checked.address, insecure=insecure, security=checked.security)
    speaker = Speaker(as_json=as_json)
    door = _Door(http, speaker, name=checked.broker, security=checked.security, insecure=insecure)
    _run_broker(checked, speaker, door)


class _Door:
    """The console beside a node, if one is wanted. To other machines it speaks HTTPS, with the node's certificate."""

    def __init__(self, http: str | None, speaker: Speaker, *, name: str, security: str | None, insecure: bool) -> None:
        from tidewire.live.security import refuse_exposure
        from tidewire.live.sockets import is_loopback, parse_address

        self._http, self._speaker, self._security, self._insecure = http, speaker, security, insecure
        self._beside: Beside | None = None
        self._certificate: Path | None = None
        if http is not None:
            refuse_exposure(http, insecure=insecure, security=security)
            if security is not None and not is_loopback(parse_address(http)[0]):
                self._certificate = Path(security) / f"{name}.pem"

    def open(self, *, broker: str | None = None, coordinator: str | None = None) -> None:
        """In front of this node."""
        if self._http is None:
            return
        command = console_command(
            self._http,
            at=[] if broker is None else [seen_from_beside(broker, security=self._security)],
            coordinator=None if coordinator is None else seen_from_beside(coordinator, security=self._security),
            authority=None if self._security is None else Path(self._security) / "authority.pem",
            certificate=self._certificate,
            insecure=self._insecure,
        )
        self._beside = Beside(command, self._speaker.say)
        self._beside.start()

    async def close(self) -> None:
        """Before the node."""
        if self._beside is not None:
            await self._beside.stop()


def _run_broker(config: BrokerConfig, speaker: Speaker, door: _Door) -> None:
    from tidewire.live.broker import LiveBroker
    from tidewire.live.process import allow_many_files, until_told
    from tidewire.live.selector import PlaneSelector

    selector = PlaneSelector()
    files_max = allow_many_files()

    async def run() -> None:
        node = LiveBroker(config, on_note=lambda note: speaker.say(note.what, dict(note.facts)), selector=selector)
        shown = _shown(node.config)
        shown["files_max"] = files_max

        async def start() -> None:
            await node.start()
            speaker.begin("broker", shown, first=("broker", "address", "role", "neighbours", "coordinator"))
            door.open(broker=node.address)

        async def stop() -> None:
            await door.close()
            await node.stop()

        await until_told(start, stop, node.run)
        speaker.say("stopped", {})

    with asyncio.Runner(loop_factory=selector.loop) as runner:
        runner.run(run())


def _shown(config: BrokerConfig) -> dict[str, Any]:
    """What is set. Of congestion control and balancing, whose settings are many, what is not as it is by itself."""
    found = {key: value for key, value in structs.asdict(config).items() if value not in (None, [])}
    changed: dict[str, Any] = {"congestion.rate_policy": config.congestion.rate_policy}
    for name, usual in (("congestion", CongestionConfig()), ("balance", BalancingConfig())):
        mine = structs.asdict(found.pop(name))
        changed |= {f"{name}.{key}": value for key, value in mine.items() if value != getattr(usual, key)}
    return found | changed


def coordinator(
    listen: Listen = "",
    store: Annotated[Path | None, typer.Option(metavar="FILE", help="Where members are remembered.")] = None,
    config: Settings = None,
    http: Http = None,
    security: Secured = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Run the coordinator: it tells a new broker its neighbours. Brokers go on without it.

    [bold]Examples[/bold]

      tidewire coordinator --listen 127.0.0.1:7599 --store members.json

      tidewire coordinator --config coordinator.toml
    """
    from tidewire.live.coordinator import CERTIFICATE, LiveCoordinator
    from tidewire.live.process import allow_many_files, until_told
    from tidewire.live.security import refuse_exposure
    from tidewire.live.settings import coordinator_config, read_settings

    settings = read_settings(config) if config is not None else {}
    given = {
        "address": listen,
        "store": None if store is None else str(store),
        "security": None if security is None else str(security),
    }
    settings |= {key: value for key, value in given.items() if value}
    checked = coordinator_config(settings, source=str(config) if config is not None else "the flags")
    refuse_exposure(checked.address, insecure=insecure, security=checked.security)
    speaker = Speaker(as_json=as_json)
    door = _Door(http, speaker, name=CERTIFICATE, security=checked.security, insecure=insecure)
    files_max = allow_many_files()

    async def run() -> None:
        where = None if checked.store is None else Path(checked.store)
        folder = None if checked.security is None else Path(checked.security)
        node = LiveCoordinator(
            checked.address,
            store=where,
            security=folder,
            decides=checked,
            on_note=lambda note: speaker.say(note.what, dict(note.facts)),
        )

        async def start() -> None:
            facts = {"address": node.address, **({"store": checked.store} if checked.store else {})}
            speaker.say("coordinator", {**facts, "files_max": files_max})
            await node.start()
            door.open(coordinator=node.address)

        async def stop() -> None:
            await door.close()
            await node.stop()

        await until_told(start, stop)
        speaker.say("stopped", {})

    asyncio.run(run())
