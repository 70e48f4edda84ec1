"""The servers that store events before they acknowledge them, as safely as each knows, on a real disk: ours too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final

from tidewire.benchmarks import peers
from tidewire.benchmarks.durable_dialects import (
    ConfirmedAmqp,
    DurableDialect,
    JetStream,
    PersistentMqtt,
    RedisStream,
    TidewireStream,
)


class DurableServer(peers.Server):
    """One that acknowledges what it has stored."""

    promise: ClassVar[str]
    """What its acknowledgement says."""

    syncs: ClassVar[bool]
    """Is the event on the disk when it is acknowledged, so that not even a loss of power takes it away?"""

    durable: DurableDialect


class DurableBroker(peers.Broker, DurableServer):
    """Ours: a broker with a store."""

    promise = (
        "The event is in the broker's log, synced once for all that has gathered, before any of it is acknowledged;"
        " said again, it is known by its sequence, and not stored twice."
    )
    syncs = True
    durable = TidewireStream()

    def _launch(self, port: int, folder: Path) -> None:
        self._run_broker(port, folder, "--role", "both", store=str(folder / "store"))


class DurableNats(peers.Nats, DurableServer):
    """JetStream."""

    promise = (
        "sync_interval: always. The event is in the stream's file, and synced by itself, before it is acknowledged."
    )
    syncs = True
    durable = JetStream()
    _STORAGE = ('jetstream {store_dir: "jetstream", sync_interval: always}',)


class DurableRedis(peers.Redis, DurableServer):
    """Streams, in the append-only file."""

    promise = (
        "appendfsync always. The append-only file is synced once for all commands of a turn of the event loop, before"
        " any of them is answered."
    )
    syncs = True
    durable = RedisStream()
    _STORAGE = ("appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0")


class DurableMosquitto(peers.Mosquitto, DurableServer):
    """QoS 1, persistence."""

    promise = (
        "QoS 1, persistence true. PUBACK promises no sync: the event is in memory, and is written with all others every"
        " half hour (autosave_interval) and at a regular end."
    )
    syncs = False
    durable = PersistentMqtt()
    _STORAGE = ("persistence true", "persistence_location ./")


class DurableRabbitMq(peers.RabbitMq, DurableServer):
    """A quorum queue on one node."""

    promise = (
        "A quorum queue with one member, persistent messages, publisher confirms. The write-ahead log is synced once"
        " for all that has gathered, before any of it is confirmed."
    )
    syncs = True
    durable = ConfirmedAmqp()


DURABLE_PEERS: Final[dict[str, Callable[[Path], DurableServer]]] = {
    "nats": DurableNats,
    "redis": DurableRedis,
    "mosquitto": DurableMosquitto,
    "rabbitmq": DurableRabbitMq,
}
