"""The followers of a broker's clients: where each one is in each stream, and how it comes to where the stream is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tidewire.broker.effects import Effect
from tidewire.broker.stream_events import CatchUp, EndReplay, Owe, RelayReplay
from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.policies import Window, window_policy
from tidewire.dataplane.stream_news import Fallen, Lack, Replayed
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.messages import Done
from tidewire.model.stream_messages import Begun, Follow, Gap, HeldFor, Holding, Progress, Replay, Stop
from tidewire.wire.connections import Send

ASK_BYTES: Final = 64 << 10
"""The first window of a replay that is asked for, and the step that it grows by."""

ASK_BYTES_MAX: Final = 4 << 20
PAUSE_NS: Final = 100_000_000
"""Before one who got nowhere is tried again."""

GAP_NS: Final = 1_000_000_000
"""A loss that goes no further for so long is said."""

PATIENCE_NS: Final = 2_000_000_000
"""For the next piece of an answer; then it is asked for again, with twice the patience."""

PATIENCE_NS_MAX: Final = 60_000_000_000


class _Place:
    """Where a follower is in one stream, as far as the machine knows."""

    def __init__(self, tree: TreeId, place: Tick, sound: Tick, window: Window) -> None:
        self.tree = tree
        self.place = place
        self.sound = sound
        self.window = window
        self.is_joined = False
        self.replay: int | None = None
        """What is under way."""
        self.is_far = False
        """Was it asked for, from the source?"""
        self.asked_at = place
        self.asked_ns = self.heard_ns = Nanoseconds(0)
        """When it was asked for, and when something of it last came."""
        self.patience_ns = PATIENCE_NS
        self.again_ns: Nanoseconds | None = None
        """When to try again; None: it is under way, or not needed."""
        self.taken = place
        """Before this all is settled, as far as was said."""
        self.lost = Tick(0)
        """From here to where it begins everything is lost; 0: nothing is."""

    @property
    def is_waiting(self) -> bool:
        """For what was asked for far away?"""
        return self.replay is not None and self.is_far


class _Gap(msgspec.Struct, frozen=True):
    """What is lost, and not said yet: more of it may follow."""

    first: Tick
    last: Tick
    heard_ns: Nanoseconds


class Follower:
    """A subscription of a client that is owed everything."""

    def __init__(self, conn: Conn, follow: Follow, name: str, wanted: bytes, *, now_ns: Nanoseconds) -> None:
        self.conn = conn
        self.number = follow.number
        self.request: int | None = follow.request
        """Until it has begun."""
        self.name = name
        self.claim = follow.claim
        self.since = follow.since
        self.wanted = wanted
        self.given, self._done = dict(follow.places), dict(follow.done)
        self.places: dict[PubendId, _Place] = {}
        self.began_ns = None if follow.age_ms < 0 else Nanoseconds(now_ns - follow.age_ms * 1_000_000)
        """When its name began, as far as is known."""
        self.is_new = follow.age_ms < 0
        """Is it for the first time that its session follows?"""
        self.origin, self.ended = follow.origin, 0
        """The claim that its name began with; and that of another of its name, which is over."""
        self._ended_ns: Nanoseconds | None = None
        """When that was over, if this one had begun by then and goes on as the next."""
        self.came_ns = self._origin_ns = now_ns if self.began_ns is None else self.began_ns
        """Since when its session has followed."""
        self.trees: dict[TreeId, HeldFor | None] = {}
        """What their sources hold for it; None: that has been asked for."""
        self.told: dict[TreeId, int] = {}
        """Which of its name it is, as they were told."""
        self.ready: dict[TreeId, None] = {}
        """Those that may have something for it, and have been told its routes."""
        self.sounds: dict[PubendId, Tick] = {}
        """From where on their streams have what it wants."""
        self.begun: dict[TreeId, None] = {}
        """Those whose streams it is fed with."""

    def holding(self, now_ns: Nanoseconds) -> Holding:
        """What is to be held for it."""
        places = {**self.given, **{pubend: place.place for pubend, place in self.places.items()}}
        settled = {pubend: self.settled(pubend, place) for pubend, place in places.items()}
        done = [(pubend, tick) for pubend, tick in settled.items() if tick < places[pubend]]
        return Holding(
            self.name, self.claim, self.since, list(places.items()), self.wanted, _age_ms(self.began_ns, now_ns),
            origin=self.origin, ended=self.ended, done=done, claim_age_ms=_age_ms(self.came_ns, now_ns),
            ended_age_ms=_age_ms(self._ended_ns, now_ns),
            joined=[pubend for pubend, place in self.places.items() if place.is_joined],
        )  # fmt: skip

    def settled(self, pubend: PubendId, place: Tick) -> Tick:
        """Before this tick it need not be told anything again, if it goes on at this place."""
        here = self.places.get(pubend)
        return min(place, self._done.get(pubend, place) if here is None else here.taken)

    def left(self) -> Holding:
        """How far it is, for a store that could not be told while it was here."""
        settled = [(pubend, place.taken) for pubend, place in self.places.items()]
        return Holding(self.name, self.claim, self.since, settled, kind="left")

    def known(self, origin: int, began_ns: Nanoseconds) -> None:
        """A store has known its name since then. Of several of this name the one that began last is it."""
        if origin == self.ended or (self.is_other(origin) and began_ns <= self._origin_ns):
            return
        self._origin_ns = min(self._origin_ns, began_ns) if origin == self.origin else began_ns
        self.origin = origin
        self.began_ns = min(self.came_ns, self._origin_ns)

    def is_other(self, origin: int) -> bool:
        """Does a store know another one of this name?"""
        return bool(self.origin) and origin != self.origin

    def must_tell(self, tree: TreeId, origin: int) -> bool:
        """Is its source to hear which one it is?"""
        return self.is_other(origin) and self.told[tree] != self.origin

    def begins_anew(self, *, ended: int) -> None:
        """The one that stores know is over."""
        self.began_ns, self.origin, self.ended, self._ended_ns = None, self.claim, ended, None

    def goes_on(self, *, ended: int, ended_ns: Nanoseconds) -> None:
        """The one that stores know was over when this one came: it stays where it is, as the next."""
        self.began_ns = self._origin_ns = self.came_ns
        self.origin, self.ended, self._ended_ns = self.claim, ended, ended_ns

    def lose(self, tree: TreeId) -> None:
        """The way there is lost: when it is found again, all begins anew."""
        for known in self.trees, self.told, self.ready, self.begun:
            known.pop(tree, None)


def _age_ms(at_ns: Nanoseconds | None, now_ns: Nanoseconds) -> int:
    return -1 if at_ns is None else (now_ns - at_ns) // 1_000_000


Wish = Stop | tuple[Follower, PubendId]
"""What needs to know the way: to have something stopped, and that a follower lacks a stream, which is far away."""


class Followers:
    """All followers at this broker. Methods return effects."""

    def __init__(self, config: CongestionConfig, *, bytes_max: int = ASK_BYTES_MAX) -> None:
        """``bytes_max``: so much is asked for at once at most: a client's queue must have room for it."""
        self._config = config
        self._bytes_max = bytes_max
        self._followers: dict[tuple[Conn, int], Follower] = {}
        self._replays: dict[int, tuple[Follower, PubendId]] = {}
        self._gaps: dict[tuple[Conn, int, PubendId], _Gap] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._followers)

    def all(self) -> list[Follower]:
        """Every one, the oldest first."""
        return list(self._followers.values())

    def behind(self) -> int:
        """How many have not joined every stream that they are owed."""
        return sum(not all(place.is_joined for place in one.places.values()) for one in self._followers.values())

    def get(self, conn: Conn, number: int) -> Follower | None:
        """The follower that is this subscription."""
        return self._followers.get((conn, number))

    def name_replay(self) -> int:
        """A name for a replay that nobody else has here."""
        self._count += 1
        return self._count % 2**32

    def at(self, conn: Conn, number: int) -> Follower:
        """The one that is there."""
        return self._followers[conn, number]

    # -- coming and going ----------------------------------------------------------------------------------------------

    def add(self, follower: Follower) -> Iterator[Effect | Stop]:
        """It follows from now on, in place of the one that had its number."""
        yield from self.taken_back(follower.conn, [follower.number])
        yield from self.remove(follower.conn, [follower.number])
        self._followers[follower.conn, follower.number] = follower

    def leaving(self, conn: Conn, numbers: Iterable[int]) -> list[Holding]:
        """How far those are who leave."""
        found = [self._followers.get((conn, number)) for number in numbers]
        return [one.left() for one in found if one is not None and one.places]

    def taken_back(self, conn: Conn, numbers: Iterable[int]) -> Iterator[Effect]:
        """Their client wants these no longer: those that have not begun never will, and it waits to hear of them."""
        for number in numbers:
            follower = self._followers.get((conn, number))
            if follower is not None and follower.request is not None:
                yield Send(conn, Done(follower.request))
                follower.request = None

    def remove(self, conn: Conn, numbers: Iterable[int]) -> Iterator[Effect | Stop]:
        """These follow no longer here; what is held for them stays."""
        for number in numbers:
            gone = self._followers.pop((conn, number), None)
            self._gaps = {of: gap for of, gap in self._gaps.items() if of[:2] != (conn, number)}
            for place in gone.places.values() if gone is not None else ():
                yield from self._end(place)

    def of(self, conn: Conn) -> list[int]:
        """The numbers of a client's followers."""
        return [number for at, number in self._followers if at == conn]

    def drop(self, follower: Follower) -> None:
        """One that has not begun is not served."""
        del self._followers[follower.conn, follower.number]

    def by(self, name: str, claim: int) -> list[Follower]:
        """Those who follow by this claim on a name."""
        return [one for one in self._followers.values() if one.name == name and one.claim == claim]

    def begin(self, follower: Follower) -> Iterator[Effect]:
        """All that have to hold events for it do, and have said from where on: it is told what it is ready for."""
        begun: dict[PubendId, Tick] = {}
        for tree, answer in follower.trees.items():
            if answer is None or tree in follower.begun or tree not in follower.ready or answer.state != "held":
                continue
            follower.begun[tree] = None
            for pubend, tick in answer.places:
                known = follower.places.get(pubend)
                if known is not None:
                    known.tree = tree
                    continue
                sound, settled = follower.sounds.get(pubend, tick), follower.settled(pubend, tick)
                window = window_policy(self._config)(self._config, first=ASK_BYTES, step=ASK_BYTES, most=ASK_BYTES_MAX)
                follower.places[pubend] = _Place(tree, tick, sound, window)
                follower.places[pubend].lost = dict(answer.lost).get(pubend, Tick(0))
                follower.places[pubend].taken = settled
                begun[pubend] = tick
        request, follower.request = follower.request, None
        if request is not None or begun:
            yield from self._begin(follower, request or 0, begun)

    def _begin(self, follower: Follower, request: int, begun: dict[PubendId, Tick]) -> Iterator[Effect]:
        """It hears where it begins before it hears anything else."""
        yield Send(follower.conn, Begun(request, follower.number, list(begun.items()), follower.origin))
        for pubend, tick in begun.items():
            place = follower.places[pubend]
            if place.lost:
                last = Tick(tick - 1)
                is_back = place.lost > tick
                yield Send(follower.conn, Gap(follower.number, pubend, min(place.lost, last), last, is_back))
            yield Owe(follower.conn, follower.number, pubend, tick, place.sound, place.taken)
            yield from self._near(follower, pubend, place)

    # -- catching up ---------------------------------------------------------------------------------------------------

    def _near(self, follower: Follower, pubend: PubendId, place: _Place) -> Iterator[Effect]:
        """What it lacks may be here."""
        place.again_ns, place.is_far = None, False
        place.asked_at = place.place
        place.replay = self.name_replay()
        self._replays[place.replay] = follower, pubend
        yield CatchUp(place.replay, follower.conn, follower.number, pubend)

    def far(
        self, follower: Follower, pubend: PubendId, *, data: Conn, control: Conn, now_ns: Nanoseconds
    ) -> Iterator[Effect]:
        """Ask for what it lacks, in the direction of the source."""
        place = follower.places[pubend]
        place.again_ns, place.is_far = None, True
        place.asked_at, place.asked_ns, place.heard_ns = place.place, now_ns, now_ns
        place.replay = self.name_replay()
        self._replays[place.replay] = follower, pubend
        yield RelayReplay(data, place.replay, follower.conn, follower.number, pubend)
        bytes_max = max(1, min(int(place.window.size), self._bytes_max))
        asked = Replay(place.tree, pubend, place.replay, place.place, follower.wanted, bytes_max)
        yield Send(control, asked, "control")

    def _end(self, place: _Place) -> Iterator[Effect | Stop]:
        """What is under way is no longer wanted, here or where it comes from."""
        if place.replay is not None:
            self._replays.pop(place.replay, None)
            yield EndReplay(place.replay)
            if place.is_far:
                yield Stop(place.tree, place.replay)
            place.replay = None

    def replayed(self, news: Replayed, *, now_ns: Nanoseconds) -> Iterator[Effect | Wish]:
        """How far one has come. A follower and a stream: it has to be asked for, far away."""
        found = self._replays.get(news.replay)
        if found is None:
            return
        follower, pubend = found
        place = follower.places[pubend]
        if news.place > place.place:
            place.heard_ns, place.patience_ns = now_ns, PATIENCE_NS
        place.place, place.is_joined = news.place, news.is_joined
        yield from self._is_said(follower, pubend, place)
        if not news.is_over:
            return
        del self._replays[news.replay]
        place.replay = None
        if news.is_joined:
            return
        has_moved = news.place > place.asked_at
        if place.is_far:
            yield Stop(place.tree, news.replay)  # the connection may have had no room for all of it
            if has_moved:
                place.window.answered(asked_ns=place.asked_ns, now_ns=now_ns)
                yield from self._near(follower, pubend, place)
            else:
                place.again_ns = Nanoseconds(now_ns + PAUSE_NS)
        else:
            yield follower, pubend

    def fallen(self, news: Fallen) -> Iterator[Effect]:
        """One whose connection has no room: it goes on from here, when there is some."""
        follower = self.get(news.conn, news.number)
        if follower is not None and news.pubend in follower.places:
            place = follower.places[news.pubend]
            place.place, place.is_joined = news.place, False
            yield from self._near(follower, news.pubend, place)

    def lacks(self, lack: Lack, *, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What is lost for good is said, when it is known how far it goes: one loss comes in pieces."""
        of = lack.conn, lack.number, lack.pubend
        gap = self._gaps.get(of)
        if gap is not None and gap.first <= lack.first <= gap.last + 1:
            self._gaps[of] = _Gap(gap.first, max(gap.last, lack.last), now_ns)
            return
        yield from self._say_gap(*of)
        self._gaps[of] = _Gap(lack.first, lack.last, now_ns)

    def _say_gap(self, conn: Conn, number: int, pubend: PubendId) -> Iterator[Effect]:
        gap = self._gaps.pop((conn, number, pubend), None)
        if gap is not None and (conn, number) in self._followers:
            yield Send(conn, Gap(number, pubend, gap.first, gap.last))

    def _is_said(self, follower: Follower, pubend: PubendId, place: _Place) -> Iterator[Effect]:
        """One who is beyond a loss hears of it: no more of it will follow."""
        gap = self._gaps.get((follower.conn, follower.number, pubend))
        if gap is not None and (place.is_joined or place.place > gap.last + 1):
            yield from self._say_gap(follower.conn, follower.number, pubend)

    def tick(self, now_ns: Nanoseconds) -> Iterator[Effect | Wish]:
        """Those who got nowhere, or no answer, are tried again; losses of which no more has come are said."""
        for of in [of for of, gap in self._gaps.items() if now_ns >= gap.heard_ns + GAP_NS]:
            yield from self._say_gap(*of)
        for follower in self._followers.values():
            for pubend, place in follower.places.items():
                is_late = place.is_waiting and now_ns >= place.heard_ns + place.patience_ns
                if is_late:
                    place.patience_ns = min(PATIENCE_NS_MAX, 2 * place.patience_ns)
                    yield from self._end(place)
                if is_late or (place.again_ns is not None and now_ns >= place.again_ns):
                    yield from self._near(follower, pubend, place)

    def pause(self, follower: Follower, pubend: PubendId, *, now_ns: Nanoseconds) -> None:
        """It cannot be asked for at present."""
        follower.places[pubend].again_ns = Nanoseconds(now_ns + PAUSE_NS)

    def deadline_ns(self) -> Nanoseconds | None:
        """When somebody is to be tried again."""
        places = [place for follower in self._followers.values() for place in follower.places.values()]
        times = [place.again_ns for place in places if place.again_ns is not None]
        times += [Nanoseconds(one.heard_ns + one.patience_ns) for one in places if one.is_waiting]
        times += [Nanoseconds(gap.heard_ns + GAP_NS) for gap in self._gaps.values()]
        return min(times, default=None)

    # -- progress ------------------------------------------------------------------------------------------------------

    def took(self, taken: list[tuple[Conn, int, PubendId, Tick]]) -> Iterator[Progress]:
        """What is settled, by tree and stream."""
        grouped: dict[tuple[TreeId, PubendId], list[tuple[str, int, Tick]]] = {}
        for conn, number, pubend, tick in taken:
            follower = self.get(conn, number)
            if follower is None or pubend not in follower.places:
                continue
            follower.places[pubend].taken = tick
            at = follower.places[pubend].tree, pubend
            grouped.setdefault(at, []).append((follower.name, follower.claim, tick))
        for (tree, pubend), found in grouped.items():
            for start in range(0, len(found), 4096):
                names, claims, ticks = zip(*found[start : start + 4096], strict=True)
                yield Progress(tree, pubend, list(names), list(claims), list(ticks))
