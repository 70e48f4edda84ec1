"""What the matcher is measured on: three sets of subscriptions with the events that are published to them.

``stock``      the templates of peer §9.4 over 100 symbols; subscriptions and events choose them by Zipf's law (s = 1).
``ranges``     three or four two-sided ranges over eight attributes, no equality; a filter matches 0.5 % of the events.
``selective``  the stock templates over a symbol for every ten subscriptions, chosen by Zipf's law with s = 0.35, so
               that about ten subscriptions match an event, however many there are. The two templates without a
               symbol (6 %) are drawn again, as peer §9.4 allows: each of them would match half of all events, and ten
               matches would be fifty thousand.

Everything follows from the seed. Filters come as bytes in normal form, each distinct one built once, from parts that
are encoded once; a test compares them with what the compiler makes of the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidewire.benchmarks.data import Origin, Quotes, load_quotes
from tidewire.model.errors import UnknownName, UsageError
from tidewire.model.filters import Constraint
from tidewire.model.values import Kind, canonical_number
from tidewire.model.valuesets import ValueSet, above, below, members

FILTERS_MAX: Final = 10_000_000
DESTINATIONS: Final = 100
STOCK_SYMBOLS: Final = 100
STOCK_SKEW: Final = 1.0
SELECTIVE_FILTERS_PER_SYMBOL: Final = 10
SELECTIVE_SKEW: Final = 0.35
RANGE_ATTRIBUTES: Final = tuple("abcdefgh")
RANGE_SELECTIVITY: Final = 0.005

# peer §9.4, Table 5.1: probability, and which of the last day's figures is bounded how, with or without a symbol.
_HIGH, _LOW, _VOLUME, _SYMBOL_ONLY, _ANY_VOLUME, _ANY = range(6)
_TEMPLATES: Final = np.array([0.20, 0.20, 0.20, 0.34, 0.05, 0.01])
_BOUNDED: Final = {_HIGH: "high", _LOW: "low", _VOLUME: "volume", _ANY_VOLUME: "volume"}

_encode = msgspec.msgpack.Encoder().encode
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Attributes = dict[str, Any]


class Subscriptions(NamedTuple):
    """Who subscribed to what: subscription i has the distinct filter ``chosen[i]``."""

    distinct: list[bytes]
    chosen: Integers
    text_of: Callable[[int], str]
    """The text of a distinct filter, by its place."""


class Workload(NamedTuple):
    """Subscriptions, and events for them. Subscription i is number ``i // destinations`` of ``i % destinations``."""

    name: str
    origin: Origin
    subscriptions: Subscriptions
    events: list[Attributes]
    destinations: int

    def __len__(self) -> int:
        return len(self.subscriptions.chosen)

    def filters(self, rows: Integers | None = None) -> list[bytes]:
        """The filters of these subscriptions, of all if none are named."""
        distinct = self.subscriptions.distinct
        chosen = self.subscriptions.chosen if rows is None else self.subscriptions.chosen[rows]
        return [distinct[i] for i in chosen.tolist()]

    def owners(self, rows: Integers) -> tuple[memoryview, memoryview]:
        """Destination and number of these subscriptions, as the kernel takes them."""
        number, destination = np.divmod(rows, self.destinations)
        return destination.astype(np.uint32).data, number.astype(np.uint32).data

    def distinct_of(self, destinations: Integers, numbers: Integers) -> Integers:
        """The distinct filters of the subscriptions with these names, each once, ascending."""
        return np.unique(self.subscriptions.chosen[numbers * self.destinations + destinations])


class _Market(NamedTuple):
    """Symbols, how often each is chosen, and the days that its figures come from."""

    symbols: Sequence[str]
    share: Floats
    first: Integers
    days: Integers
    figures: dict[str, NDArray[Any]]


class _Drawn(NamedTuple):
    """Templates filled in: symbol is -1 where there is none, value is 0 where nothing is bounded."""

    template: Integers
    symbol: Integers
    value: Floats


def make_workload(
    name: str,
    *,
    filters: int,
    events: int,
    seed: int,
    folder: Path | None = None,
    destinations: int = DESTINATIONS,
) -> Workload:
    """The workload of this name, the same for the same seed and data."""
    refuse_impossible(name, filters=filters, events=events)
    rng = np.random.default_rng(seed)
    subscriptions, published, origin = WORKLOADS[name](rng, filters, events, folder)
    return Workload(name, origin, subscriptions, published, destinations)


def refuse_impossible(name: str, *, filters: int, events: int) -> None:
    """Raise if there is no such workload, or none of this size."""
    if name not in WORKLOADS:
        raise UnknownName(name, what="workload", known=WORKLOADS)
    if not 1 <= filters <= FILTERS_MAX:
        raise UsageError(f"{filters} filters: a workload has 1 to {FILTERS_MAX:,}")
    if not 1 <= events <= FILTERS_MAX:
        raise UsageError(f"{events} events: a workload has 1 to {FILTERS_MAX:,}")


_Made = tuple[Subscriptions, list[Attributes], Origin]


def _stock(rng: np.random.Generator, filters: int, events: int, folder: Path | None) -> _Made:
    quotes = load_quotes(folder)
    names = sorted(sorted(quotes.by_symbol), key=lambda name: -len(quotes.by_symbol[name]))[:STOCK_SYMBOLS]
    order = [names[i] for i in rng.permutation(len(names))]
    market = _market(quotes, order, order, STOCK_SKEW)
    drawn = _draw(rng, market, filters, _TEMPLATES)
    return _quote_subscriptions(market, drawn), _quote_events(rng, market, events), quotes.origin


def _selective(rng: np.random.Generator, filters: int, events: int, folder: Path | None) -> _Made:
    quotes = load_quotes(folder)
    listed = list(quotes.by_symbol)
    histories = [listed[i] for i in rng.integers(len(listed), size=max(1, filters // SELECTIVE_FILTERS_PER_SYMBOL))]
    names = [f"{history}.{i:05}" for i, history in enumerate(histories)]
    market = _market(quotes, names, histories, SELECTIVE_SKEW)
    with_symbol = np.where(np.arange(len(_TEMPLATES)) < _ANY_VOLUME, _TEMPLATES, 0.0)
    drawn = _draw(rng, market, filters, with_symbol / with_symbol.sum())
    return _quote_subscriptions(market, drawn), _quote_events(rng, market, events), quotes.origin


def _market(quotes: Quotes, symbols: Sequence[str], histories: Sequence[str], skew: float) -> _Market:
    listed = list(quotes.by_symbol)
    lengths = np.array([len(quotes.by_symbol[name]) for name in listed])
    firsts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    place = {name: i for i, name in enumerate(listed)}
    which = np.array([place[name] for name in histories])
    weight = np.arange(1, len(symbols) + 1, dtype=np.float64) ** -skew
    days = [day for name in listed for day in quotes.by_symbol[name]]
    figures = {field: np.array([getattr(day, field) for day in days]) for field in days[0]._fields}
    return _Market(symbols, weight / weight.sum(), firsts[which], lengths[which], figures)


def _some_days(rng: np.random.Generator, market: _Market, symbols: Integers) -> Integers:
    return market.first[symbols] + (rng.random(len(symbols)) * market.days[symbols]).astype(np.int64)


def _draw(rng: np.random.Generator, market: _Market, count: int, probabilities: Floats) -> _Drawn:
    template = rng.choice(len(probabilities), size=count, p=probabilities)
    symbol = rng.choice(len(market.symbols), size=count, p=market.share)
    day = _some_days(rng, market, symbol)
    value = np.zeros(count)
    for which, field in _BOUNDED.items():
        rows = template == which
        value[rows] = market.figures[field][day[rows]]
    return _Drawn(template, np.where(template >= _ANY_VOLUME, -1, symbol), value)


def _quote_subscriptions(market: _Market, drawn: _Drawn) -> Subscriptions:
    values, code = np.unique(drawn.value, return_inverse=True)
    key = (drawn.template * (len(market.symbols) + 1) + drawn.symbol + 1) * len(values) + code
    _, first, chosen = np.unique(key, return_index=True, return_inverse=True)
    rows = list(
        zip(drawn.template[first].tolist(), drawn.symbol[first].tolist(), drawn.value[first].tolist(), strict=True)
    )

    def text_of(i: int) -> str:
        template, symbol, value = rows[i]
        parts = ["class = 'STOCK'"]
        if symbol >= 0:
            parts.append(f"symbol = '{market.symbols[symbol]}'")
        if template in _BOUNDED:
            parts.append(f"{_BOUNDED[template]} {'<' if template == _LOW else '>'} {value!r}")
        return " and ".join(parts)

    return Subscriptions(_quote_filters(market, rows), chosen.astype(np.int64), text_of)


def _quote_filters(market: _Market, rows: list[tuple[int, int, float]]) -> list[bytes]:
    of_class = _part("class", members(Kind.STRING, ["STOCK"]))
    of_symbol: dict[int, bytes] = {-1: b""}
    of_bound: dict[tuple[int, float], bytes] = {}
    found = []
    for template, symbol, value in rows:
        if symbol not in of_symbol:
            of_symbol[symbol] = _part("symbol", members(Kind.STRING, [market.symbols[symbol]]))
        bound = (template, value)
        if bound not in of_bound:
            of_bound[bound] = _bound_part(template, value)
        constraints = 1 + (symbol >= 0) + (template in _BOUNDED)
        # By name: 'high' and 'low' stand before 'symbol', 'volume' behind it.
        one, other = of_bound[bound], of_symbol[symbol]
        rest = one + other if template in (_HIGH, _LOW) else other + one
        found.append(_filter_bytes(constraints, of_class + rest))
    return found


def _bound_part(template: int, value: float) -> bytes:
    if template not in _BOUNDED:
        return b""
    bound = canonical_number(value)
    allowed = below(Kind.NUMBER, bound) if template == _LOW else above(Kind.NUMBER, bound)
    assert allowed is not None
    return _part(_BOUNDED[template], allowed)


def _part(attribute: str, allowed: ValueSet) -> bytes:
    return _encode(Constraint(attribute, allowed))


def _filter_bytes(constraints: int, parts: bytes) -> bytes:
    """A filter of one conjunction without areas, around its encoded constraints (fewer than 16)."""
    return b"\x91\x91\x92" + bytes([0x90 + constraints]) + parts + b"\x90"


def _quote_events(rng: np.random.Generator, market: _Market, count: int) -> list[Attributes]:
    symbols = rng.choice(len(market.symbols), size=count, p=market.share)
    days = _some_days(rng, market, symbols)
    columns = {field: figures[days].tolist() for field, figures in market.figures.items()}
    return [
        {"class": "STOCK", "symbol": market.symbols[symbol], **{field: columns[field][i] for field in columns}}
        for i, symbol in enumerate(symbols.tolist())
    ]


def _ranges(rng: np.random.Generator, filters: int, events: int, _folder: Path | None) -> _Made:
    width = len(RANGE_ATTRIBUTES)
    sets = [one for size in (3, 4) for one in combinations(range(width), size)]
    sizes = rng.integers(3, 5, size=filters)
    threes = sum(len(one) == 3 for one in sets)
    which = np.where(sizes == 3, rng.integers(threes, size=filters), rng.integers(threes, len(sets), size=filters))
    low, high = np.zeros((filters, width)), np.zeros((filters, width))
    found: list[bytes] = [b""] * filters
    for place, attributes in enumerate(sets):
        rows = np.flatnonzero(which == place)
        spread = _spread(rng, len(rows), len(attributes))
        # Never exactly 0, whose normal form would be an integer of another length.
        start = (1.0 - rng.random(spread.shape)) * (1.0 - spread)
        bounds = np.stack([start, start + spread], axis=2)
        low[rows[:, None], attributes], high[rows[:, None], attributes] = bounds[:, :, 0], bounds[:, :, 1]
        for row, one in zip(rows.tolist(), _range_filters(attributes, bounds), strict=True):
            found[row] = one

    def text_of(i: int) -> str:
        return " and ".join(
            f"{RANGE_ATTRIBUTES[a]} >= {low[i, a].item()!r} and {RANGE_ATTRIBUTES[a]} < {high[i, a].item()!r}"
            for a in sets[which[i]]
        )

    published = [dict(zip(RANGE_ATTRIBUTES, row, strict=True)) for row in rng.random((events, width)).tolist()]
    return Subscriptions(found, np.arange(filters), text_of), published, "generated"


def _spread(rng: np.random.Generator, count: int, ranges: int) -> Floats:
    """Widths that differ, and whose product is the selectivity."""
    uneven = np.exp(rng.uniform(-0.5, 0.5, size=(count, ranges)))
    uneven /= np.prod(uneven, axis=1, keepdims=True) ** (1 / ranges)
    return np.asarray(uneven * RANGE_SELECTIVITY ** (1 / ranges), dtype=np.float64)


def _range_filters(attributes: tuple[int, ...], bounds: Floats) -> list[bytes]:
    """Filters over the same attributes have the same length: only the sixteen bytes of each range differ."""
    blank = ValueSet(Kind.NUMBER, ((0.5, 0.75),))
    parts = b"".join(_part(RANGE_ATTRIBUTES[a], blank) for a in attributes)
    template = np.frombuffer(_filter_bytes(len(attributes), parts), dtype=np.uint8)
    packed = [np.frombuffer(_encode(end), dtype=np.uint8)[1:] for end in (0.5, 0.75)]
    table = np.tile(template, (len(bounds), 1))
    ends = bounds.astype(">f8").view(np.uint8).reshape(len(bounds), len(attributes), 2, 8)
    for i in range(len(attributes)):
        for end in (0, 1):
            at = _nth_place(template.tobytes(), packed[end].tobytes(), i)
            table[:, at : at + 8] = ends[:, i, end]
    size, whole = len(template), table.tobytes()
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def _nth_place(whole: bytes, part: bytes, n: int) -> int:
    at = whole.index(part)
    for _ in range(n):
        at = whole.index(part, at + 1)
    return at


WORKLOADS: Final[dict[str, Callable[[np.random.Generator, int, int, Path | None], _Made]]] = {
    "ranges": _ranges,
    "selective": _selective,
    "stock": _stock,
}
