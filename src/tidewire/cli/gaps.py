"""What a durable subscription will not get: each loss told once, where its events would have been."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from tidewire.cli.shell import print_json_line
from tidewire.model.ids import Tick
from tidewire.model.text import visible
from tidewire.model.ticks import ms_of

if TYPE_CHECKING:
    from tidewire.client.events import Tell
    from tidewire.live.notification import Notification
    from tidewire.live.subscription import Subscription

_MORE_S: Final = 0.2
"""A loss may be told in pieces: so long one waits for the next of them."""


class _Gap(msgspec.Struct):
    stream: str
    first: int
    last: int


class Gaps:
    """Those that have not been told, in their order."""

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._name = name
        self._as_json = as_json
        self._waiting: list[_Gap] = []
        self._subscription: Subscription | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add(self, notice: Tell) -> None:
        """A notice of a gap has come."""
        stream, first, last = (notice.facts[name] for name in ("pubend", "first", "last"))
        for known in self._waiting:
            if known.stream == stream and known.last + 1 == first:
                known.last = int(last)
                break
        else:
            self._waiting.append(_Gap(str(stream), int(first), int(last)))
        self._look_later()

    def before(self, notification: Notification) -> None:
        """This event is next: tell the gaps of its stream ahead of it."""
        envelope = notification.event.envelope
        stream, tick = f"{envelope.pubend or 0:016x}", envelope.tick or 0
        self._tell([one for one in self._waiting if one.stream == stream and one.last < tick])

    @contextmanager
    def told_beside(self, subscription: Subscription) -> Iterator[None]:
        """From now on they are also told when no event is next; at the end, all of them."""
        self._subscription = subscription
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._tell(list(self._waiting))

    def _look_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_MORE_S, self._look)

    def _look(self) -> None:
        if self._subscription is None or self._subscription.waiting:
            self._look_later()
        else:
            self._tell(list(self._waiting))

    def _tell(self, gaps: list[_Gap]) -> None:
        for gap in gaps:
            self._waiting.remove(gap)
            begin, end = _time(gap.first), _time(gap.last)
            if self._as_json:
                facts = {"durable": self._name, "stream": gap.stream, "first": gap.first, "last": gap.last}
                print_json_line({"gap": {**facts, "from": begin, "to": end}})
            else:
                told = (
                    f"gap: what was published from {begin} to {end} in the stream {gap.stream} is lost for {self._name}"
                )
                sys.stderr.write(visible(f"{told}: it was no longer kept, or is damaged") + "\n")


def _time(tick: int) -> str:
    try:
        return datetime.fromtimestamp(ms_of(Tick(tick)) / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):  # beyond the calendar
        return str(tick)


def show_loss(notice: Tell, *, as_json: bool) -> None:
    """A connection was too slow for best-effort events."""
    if as_json:
        print_json_line({"lost": {"events": notice.facts["events"]}})
    else:
        sys.stderr.write(f"events lost: {notice.facts['events']}, because they were not read in time\n")
