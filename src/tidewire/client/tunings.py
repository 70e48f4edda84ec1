"""The channels that a session listens to: where it is in each. It knows best, so it says so to every broker.

A broker tells everything behind the place that it was named, in order. So what two brokers tell, while the session goes
from one to the other, or one tells twice, is known by its tick: nothing waits, and nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tidewire.client.events import ClientEffect, CloseChannelFor, Ended, Finished, Notify, OpenChannelFor, Tell
from tidewire.model.channel_messages import (
    ChannelEnded,
    ChannelOpened,
    News,
    Notified,
    NotifiedLost,
    NotifiedTaken,
    OpenChannel,
)
from tidewire.model.errors import DuplicateSubscription, Unavailable, error_of
from tidewire.model.ids import Conn, Nanoseconds, Tick
from tidewire.wire.connections import Send

AGAIN_NS: Final = 1_000_000_000
"""So long after a broker could not reach the data cluster it is asked again."""

LEFT_MAX: Final = 1000
"""Names that have left a channel, and are remembered."""

FromChannel = ChannelOpened | Notified | NotifiedLost | ChannelEnded


class Tuning:
    """One subscription to a channel."""

    def __init__(self, wanted: OpenChannelFor, *, claim: int) -> None:
        self.wanted = wanted
        self.claim = claim
        self.token: int | None = wanted.token
        """That the application waits with; None: it waits no longer."""
        self.number = wanted.number
        self.place: Tick | None = None
        """What is not behind it has come; None: no broker has confirmed it yet."""
        self.done: Tick | None = None
        """The application is done with everything up to here."""
        self.columns: tuple[str, ...] = ()

    def message(self, request: int) -> OpenChannel:
        """What to say to a broker."""
        wanted = self.wanted
        claim = self.claim if wanted.name else 0
        return OpenChannel(
            request, self.number, wanted.channel, wanted.given, wanted.name, claim=claim, after=self.place
        )


class Tunings:
    """All of a session, by their numbers."""

    def __init__(self) -> None:
        self._tunings: dict[int, Tuning] = {}
        self._pieces: dict[tuple[Conn, int], list[bytes]] = {}
        self._again_ns: dict[int, Nanoseconds] = {}
        self._left: dict[tuple[str, bytes, str], Tick] = {}
        """Of names that have left a channel: what the application was done with, which brokers may not know yet."""

    def tuned(self, wanted: OpenChannelFor, claim: int) -> Tuning:
        """What is to be heard of a channel; a name that this session has had goes on where it was."""
        tuning = Tuning(wanted, claim=claim)
        if wanted.name:
            tuning.place = self._left.get((wanted.channel, wanted.given, wanted.name))
        return tuning

    def closed_for(self, request: CloseChannelFor) -> None:
        """A broker has taken back what the application does not want to hear any more."""
        tuning = self._tunings.get(request.number)
        self.remove(request.number)
        if tuning is None or not tuning.wanted.name:
            return
        left = tuning.wanted.channel, tuning.wanted.given, tuning.wanted.name
        self._left.pop(left, None)
        if not request.is_final and tuning.done is not None:
            self._left[left] = tuning.done
            while len(self._left) > LEFT_MAX:
                del self._left[next(iter(self._left))]

    def all(self) -> list[Tuning]:
        """Every one that has been confirmed."""
        return list(self._tunings.values())

    def get(self, number: int) -> Tuning | None:
        """The one with this number."""
        return self._tunings.get(number)

    def remove(self, number: int) -> None:
        """This one no longer."""
        self._tunings.pop(number, None)
        self._again_ns.pop(number, None)

    def opened(self, conn: Conn, opened: ChannelOpened, tuning: Tuning) -> Iterator[ClientEffect]:
        """A broker has confirmed one: the first that does says where it begins."""
        if tuning.place is None:
            tuning.place = opened.tick
        tuning.columns = tuple(opened.columns)
        self._tunings[tuning.number] = tuning
        if tuning.token is not None:
            yield Finished(tuning.token)
            tuning.token = None
        if tuning.done is not None:  # what was said of it before may not have come through
            yield Send(conn, NotifiedTaken([(tuning.number, tuning.done)]))

    def heard(self, conn: Conn, message: Notified | NotifiedLost | ChannelEnded) -> Iterator[ClientEffect]:
        """A broker says something about one, or about several."""
        if isinstance(message, Notified):
            for news in message.news:
                yield from self._notified(conn, news)
            return
        tuning = self._tunings.get(message.number)
        if tuning is None:
            return
        match message:
            case NotifiedLost(number, after, upto):
                if upto > (tuning.place or 0):
                    tuning.place = upto
                    yield Tell("results lost", {"number": number, "after": after, "upto": upto})
            case ChannelEnded(number, code, reason):
                self.remove(number)
                yield Ended(number, error_of(code, reason))

    def _notified(self, conn: Conn, news: News) -> Iterator[ClientEffect]:
        tuning = self._tunings.get(news.number)
        if tuning is None:
            return
        key = conn, news.number
        if not news.is_last:
            self._pieces.setdefault(key, []).append(news.piece)
            return
        data = b"".join([*self._pieces.pop(key), news.piece]) if key in self._pieces else news.piece
        if tuning.place is not None and news.tick <= tuning.place:
            if tuning.done is not None and news.tick <= tuning.done:  # the broker need not wait for us
                yield Send(conn, NotifiedTaken([(tuning.number, tuning.done)]))
            return
        tuning.place = news.tick
        yield Notify(tuning.number, news.tick, tuning.columns, news.rows, data)

    def took(self, taken: Mapping[int, Tick], conn: Conn | None) -> Iterator[ClientEffect]:
        """The application is done with everything up to these ticks; ``conn``: where that is said, if anywhere."""
        there = {number: tick for number, tick in taken.items() if number in self._tunings}
        for number, tick in there.items():
            self._tunings[number].done = tick
        if conn is not None and there:
            yield Send(conn, NotifiedTaken(list(there.items())))

    def closed(self, conn: Conn) -> None:
        """A connection has ended, and with it what it had begun to say."""
        for key in [key for key in self._pieces if key[0] == conn]:
            del self._pieces[key]

    # -- brokers that cannot reach the data cluster --------------------------------------------------------------------

    def refused(self, tuning: Tuning, code: str, reason: str, *, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        """A broker does not take it. If another one did, it may be for now."""
        if tuning.token is not None:
            yield Finished(tuning.token, error_of(code, reason))
        if self._tunings.get(tuning.number) is not tuning or code == DuplicateSubscription.code:
            return  # it has ended meanwhile, or stands there already
        if code == Unavailable.code:
            self._again_ns[tuning.number] = Nanoseconds(now_ns + AGAIN_NS)
            yield Tell("channel waits", {"channel": tuning.wanted.channel, "reason": reason})
        else:
            self.remove(tuning.number)
            yield Ended(tuning.number, error_of(code, reason))

    def due(self, now_ns: Nanoseconds) -> list[Tuning]:
        """Those to be asked for again. Said once."""
        numbers = [number for number, again_ns in self._again_ns.items() if again_ns <= now_ns]
        for number in numbers:
            del self._again_ns[number]
        return [self._tunings[number] for number in numbers]

    def said_again(self) -> list[Tuning]:
        """All are to be asked for, at another broker."""
        self._again_ns.clear()
        return self.all()

    def deadline_ns(self) -> Nanoseconds | None:
        """When one is to be asked for again."""
        return min(self._again_ns.values(), default=None)
