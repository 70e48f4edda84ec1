"""What do the classes of traffic give to an event that is published here and says nothing itself?"""

from __future__ import annotations

from tidewire.dataplane.protocol import TrafficClass
from tidewire.model.filters import encode_filter
from tidewire.traffic.classes import Classes
from tidewire.traffic.config import TrafficConfig


def stamps(config: TrafficConfig) -> list[TrafficClass]:
    """Of each class its number, the first being 1, how long its events are of use, and what they are worth."""
    return [
        TrafficClass(
            number,
            encode_filter(wanted),
            None if terms.delay_s is None else round(terms.delay_s * 1e9),
            terms.value,
        )
        for number, (_, wanted, terms) in enumerate(Classes(config).configured(), start=1)
    ]
