"""What the machine makes of samples (peer §7.1)."""

from __future__ import annotations

from tidewire._kernel.codec import encode
from tidewire.broker.peer_balancing import wanted_bits
from tidewire.language import compile_filter
from tidewire.model.events import make_event
from tidewire.model.filters import encode_filter
from tidewire.model.values import Value

ARRIVALS: list[dict[str, Value]] = [
    {"class": "STOCK", "volume": 0},
    {"class": "STOCK", "volume": 10},
    {"class": "STOCK", "volume": 20},
    {"class": "SPORTS", "type": "racing"},
    {"class": "STOCK", "volume": 100},
    {"class": "STOCK", "volume": 500},
]


def test_what_the_acceptor_gets_in_any_case() -> None:
    """peer G3: the OR of its covering set's vectors, the first event right-most."""
    events = [encode(make_event(one)) for one in ARRIVALS]
    texts = ["class = 'STOCK' and volume > 50", "class = 'STOCK' and volume < 5", "class = 'MOVIES'"]
    filters = [encode_filter(compile_filter(text)) for text in texts]
    assert wanted_bits(events, filters) == 0b110001
    assert [wanted_bits(events, [one]) for one in filters] == [0b110000, 0b000001, 0]
    assert wanted_bits(events, []) == 0
    assert wanted_bits([], filters) == 0
