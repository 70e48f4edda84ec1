"""What is published and wanted (peer §9.4): real daily quotes if there are some, the thesis's mix of filters."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import msgspec

from tidewire._kernel.codec import encode
from tidewire.benchmarks.data import Quote, load_quotes
from tidewire.language import compile_filter
from tidewire.model.events import make_event
from tidewire.model.filters import encode_filter
from tidewire.model.values import Value

PUBLISHERS: Final = 40
EVENT_BYTES: Final = 250
"""Of an encoded quote; the thesis does not say, 200 to 300 fits what it shows (peer §9.3)."""

QUOTES: Final = 200
"""Different ones that a publisher has; it begins again behind the last."""

_SHARES: Final = (("high", 0.2), ("low", 0.2), ("volume", 0.2), ("symbol", 0.34), ("any volume", 0.05), ("all", 0.01))
"""Table 5.1."""


class Published(msgspec.Struct, frozen=True):
    """What one publisher publishes, and how often."""

    symbol: str
    quotes: list[Quote]
    events: list[dict[str, Value]]
    per_s: float


class Workload(msgspec.Struct, frozen=True):
    """Everything that does not depend on brokers."""

    publishers: list[Published]
    wanted: list[bytes]
    """One filter for each subscriber, in the order in which they join."""

    has_real_quotes: bool

    @property
    def rate(self) -> float:
        """Events per second."""
        return sum(one.per_s for one in self.publishers)


def workload(*, seed: int, subscribers: int, idle_share: float, data: Path | None, rate: float = 20.0) -> Workload:
    """``rate``: of all publishers together, and each has a random share of it: 0 to 60 a minute, with 20 a second."""
    chance = Random(f"{seed}/peer")
    quotes = load_quotes(data)
    symbols = chance.sample([name for name, days in quotes.by_symbol.items() if len(days) >= QUOTES], PUBLISHERS)
    rates = [chance.uniform(0, 1) for _ in symbols]
    scale = rate / sum(rates)
    publishers = []
    for symbol, per_s in zip(symbols, rates, strict=True):
        days = chance.sample(quotes.by_symbol[symbol], QUOTES)
        publishers.append(Published(symbol, days, [_event(symbol, day) for day in days], per_s * scale))
    idle = set(chance.sample(range(subscribers), round(idle_share * subscribers)))
    wanted = [_wanted(publishers, chance, is_idle=number in idle) for number in range(subscribers)]
    return Workload(publishers, wanted, quotes.origin == "real")


def _event(symbol: str, day: Quote) -> dict[str, Value]:
    made: dict[str, Value] = {"class": "STOCK", "symbol": symbol, **day._asdict(), "text": ""}
    made["text"] = "x" * max(0, EVENT_BYTES - len(encode(make_event(made))))
    return made


def _wanted(publishers: list[Published], chance: Random, *, is_idle: bool) -> bytes:
    template = chance.choices([name for name, _ in _SHARES], [share for _, share in _SHARES])[0]
    one = chance.choice(publishers)
    day = chance.choice(one.quotes)
    symbol = f"{one.symbol}.idle" if is_idle else one.symbol
    tests = {
        "high": f"symbol = '{symbol}' and high > {day.high}",
        "low": f"symbol = '{symbol}' and low < {day.low}",
        "volume": f"symbol = '{symbol}' and volume > {day.volume}",
        "symbol": f"symbol = '{symbol}'",
        "any volume": f"volume < -{day.volume + 1}" if is_idle else f"volume > {day.volume}",
        "all": f"volume < -{day.volume + 1}" if is_idle else "volume is not null",
    }
    return encode_filter(compile_filter(f"class = 'STOCK' and {tests[template]}"))
