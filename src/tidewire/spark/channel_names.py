"""Which durable subscribers hold something of the channels, and how old is what each of them is owed?"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tidewire.channels.commands import ChannelAnswer, NameDocument, furthest, names_of
from tidewire.channels.subscriptions import Ledger
from tidewire.model.ticks import ms_of
from tidewire.spark.channel_kinds import OpenChannel


def names_in(channels: Mapping[str, OpenChannel], ledger: Ledger) -> ChannelAnswer:
    """By what is stored for them, now."""
    found: list[NameDocument] = []
    now_ms = time.time_ns() // 1_000_000
    for name, one in channels.items():
        records = ledger.named(name)
        places = [(record.id, follower.place) for record in records for follower in record.names.values()]
        results = one.kind.results.find(name, places, upto=one.place.tick, floor=one.noted.floor, rows_max=1)
        owed = (ms_of(result.runs[0][0]) if result.runs else None for result in results)
        for record in records:
            first_ms = [next(owed) for _ in record.names]
            found += names_of(one.channel.declaration, record, first_ms, now_ms=now_ms)
    return ChannelAnswer(names=furthest(found))
