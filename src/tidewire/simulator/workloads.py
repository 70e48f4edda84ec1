"""Workloads in the manner of the PEER thesis (peer §9.4), played; ``workload_files.py`` says what their lines are.

The quotes are synthetic: a random walk for each symbol, with the attributes of the thesis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from tidewire.model.values import Value
from tidewire.simulator.agenda import SECOND_NS
from tidewire.simulator.costs import Peer
from tidewire.simulator.workload_files import read_workload
from tidewire.simulator.world import World

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# Table 5.1: how often, with a symbol or without, and which figure is bounded how.
TEMPLATES: Final[tuple[tuple[float, bool, str | None, str], ...]] = (
    (0.20, True, "high", ">"),
    (0.20, True, "low", "<"),
    (0.20, True, "volume", ">"),
    (0.34, True, None, ""),
    (0.05, False, "volume", ">"),
    (0.01, False, None, ""),
)


class Quotes:
    """The days of one stock, one after the other."""

    def __init__(self, symbol: str, seed: str) -> None:
        self.symbol = symbol
        self._chance = Random(f"{seed}/quotes/{symbol}")
        self._close = self._chance.uniform(5, 200)
        self._day = 0

    def next(self) -> dict[str, Value]:
        """The next day's."""
        chance = self._chance
        opened = self._close
        self._close = max(1.0, opened * (1 + chance.gauss(0, 0.02)))
        day, self._day = self._day, self._day + 1
        return {
            "class": "STOCK",
            "symbol": self.symbol,
            "open": round(opened, 2),
            "high": round(max(opened, self._close) * (1 + chance.random() * 0.01), 2),
            "low": round(min(opened, self._close) * (1 - chance.random() * 0.01), 2),
            "close": round(self._close, 2),
            "volume": chance.randrange(10_000, 50_000_000),
            "date": f"{day % 28 + 1}-{_MONTHS[day // 28 % 12]}-{96 + day // 336}",
        }


def template(chance: Random, seed: str, symbols: list[str], *, is_zero: bool = False) -> str:
    """A subscription of Table 5.1; one that attracts no traffic asks for a symbol that nobody publishes.

    Templates without a symbol are drawn again for it.
    """
    while True:
        _, has_symbol, bounded, relation = chance.choices(TEMPLATES, [share for share, *_ in TEMPLATES])[0]
        if has_symbol or not is_zero:
            break
    symbol = chance.choice(symbols)
    parts = ["class = 'STOCK'"]
    if has_symbol:
        parts.append("symbol = 'NOBODY'" if is_zero else f"symbol = '{symbol}'")
    if bounded is not None:
        quotes = Quotes(symbol, seed)
        day = [quotes.next() for _ in range(chance.randrange(1, 30))][-1]
        parts.append(f"{bounded} {relation} {day[bounded]!r}")
    return " and ".join(parts)


class _Publisher(msgspec.Struct):
    """A stock, and how often it is told."""

    name: str
    quotes: Quotes
    per_minute: float
    turn: int = 0
    """Counts the changes of its rate: an older pace ends."""

    told_ns: int = 0
    """When it was told last, or began with its rate."""

    @property
    def pause_ns(self) -> int:
        """Between two messages; 0: there are none."""
        return int(60e9 / self.per_minute) if self.per_minute > 0 else 0


class Workload:
    """A file's lines, played in a world."""

    def __init__(self, text: str, world: World, *, options: dict[str, Any] | None = None) -> None:
        self.world = world
        self._options = options or {}
        self._chance = Random(f"{world.seed}/workload")
        self._publishers: dict[str, _Publisher] = {}
        for line in read_workload(text):
            self.world.at(line.at_s, partial(_VERBS[line.what], self, *line.words))

    def broker_add(self, name: str, cpu: str, memory_mb: str, mbps: str) -> None:
        """A broker as the thesis describes it."""
        memory = int(float(memory_mb) * 2**20)
        options = {"role": "auto", "queue_bytes_max": memory, "link_queue_bytes_max": memory} | self._options
        self.world.add_broker(name, costs=Peer(mhz=float(cpu)), mbps=float(mbps), **options)

    def broker_link(self, a: str, b: str) -> None:
        """Two brokers are neighbours."""
        self.world.link(a, b)

    def publisher_add(self, name: str, symbol: str, per_minute: str, broker: str) -> None:
        """A stock is published from now on."""
        client = self.world.add_client(name, broker)
        client.advertise(1, _advertisement(symbol))
        publisher = self._publishers[name] = _Publisher(name, Quotes(symbol, self.world.seed), float(per_minute))
        publisher.told_ns = self.world.agenda.now_ns
        self._pace(publisher, publisher.turn)

    def publisher_chrate(self, name: str, per_minute: str) -> None:
        """It is told more or less often."""
        publisher = self._publishers[name]
        now_ns = self.world.agenda.now_ns
        self._tell(publisher, until_ns=now_ns - 1)  # what is due just now no longer comes
        publisher.told_ns = now_ns
        publisher.per_minute = float(per_minute)
        publisher.turn += 1
        self._pace(publisher, publisher.turn)

    def _pace(self, publisher: _Publisher, turn: int) -> None:
        if publisher.pause_ns:
            at_once = max(1, SECOND_NS // publisher.pause_ns) if self.world.has_flows else 1
            self.world.agenda.after(at_once * publisher.pause_ns, lambda: self._publish(publisher, turn))

    def _publish(self, publisher: _Publisher, turn: int) -> None:
        if turn == publisher.turn:
            self._tell(publisher, until_ns=self.world.agenda.now_ns)
            self._pace(publisher, turn)

    def _tell(self, publisher: _Publisher, *, until_ns: int) -> None:
        """Publish what has come together since it was told last."""
        pause_ns = publisher.pause_ns
        count = (until_ns - publisher.told_ns) // pause_ns if pause_ns else 0
        if count:
            publisher.told_ns += count * pause_ns
            over_s = count * pause_ns / SECOND_NS
            self.world.clients[publisher.name].publish(publisher.quotes.next(), count=count, over_s=over_s)

    def subscriber_add(self, name: str, broker: str, *words: str) -> None:
        """Somebody wants this, or something from the templates."""
        text = " ".join(words)
        if words[0] == "template":
            symbols = [one.quotes.symbol for one in self._publishers.values()]
            text = template(self._chance, self.world.seed, symbols, is_zero="zero" in words)
        self.world.add_client(name, broker).subscribe(1, text)

    def subscriber_remove(self, name: str) -> None:
        """No longer."""
        self.world.clients[name].unsubscribe(1)


_VERBS: Final[dict[str, Callable[..., None]]] = {
    "broker add": Workload.broker_add,
    "broker link": Workload.broker_link,
    "publisher add": Workload.publisher_add,
    "publisher chrate": Workload.publisher_chrate,
    "subscriber add": Workload.subscriber_add,
    "subscriber remove": Workload.subscriber_remove,
}


def _advertisement(symbol: str) -> str:
    figures = " and ".join(f"{name} > 0" for name in ("open", "high", "low", "close", "volume"))
    return f"class = 'STOCK' and symbol = '{symbol}' and {figures} and date like '%'"


def clusters(
    chance: Random, *, brokers: int, edges: int = 4, extra_links: int = 0, publishers: int, subscribers: int
) -> Iterator[str]:
    """A workload file of heads in a random tree, with a few links more, and edges around each of them."""
    heads = [f"H{i}" for i in range(max(1, brokers // (edges + 1)))]
    rest = [f"E{i}" for i in range(brokers - len(heads))]
    for name in [*heads, *rest]:
        yield f"0 broker add {name} 1000 64 100"
    for at, name in enumerate(heads[1:], 1):
        yield f"0.1 broker link {heads[chance.randrange(max(0, at - 8), at)]} {name}"
    for _ in range(extra_links if len(heads) > 2 else 0):
        a, b = chance.sample(heads, 2)
        yield f"0.1 broker link {a} {b}"
    for at, name in enumerate(rest):
        yield f"0.1 broker link {name} {heads[at % len(heads)]}"
    for i in range(publishers):
        rate, where = chance.uniform(10, 60), chance.choice(heads)
        yield f"{2 + 3 * i / publishers:.3f} publisher add P{i} S{i} {rate:.1f} {where}"
    for i in range(subscribers):
        where = chance.choice(rest or heads)
        yield f"{6 + 10 * i / subscribers:.3f} subscriber add C{i} {where} template"
