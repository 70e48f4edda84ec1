"""When has everyone who must know been told? Two barriers, both in the data lane, in order with events and routes.

*Sync* goes from a broker to the source of a tree and back. When it is back, the routes that the broker told before
stand on the whole way, and every event that the source sent before turning it around has arrived. It confirms a
subscription, and flushes the events of a subscriber that moves away.

*Wave* goes from the source to every broker and back. When it is back, what the source told before is known to all, the
routes that follow from it have come, each broker knows by a sync from where on they stand, and every event sent before
has reached the queues of its subscribers. It confirms an advertisement, and flushes the events of a publisher that
moves away.

Neither has a bound in time. Behind a long queue an honest answer takes long, and a confirmation that was made up would
break the promise: so one waits as long as the neighbour lives, by the heartbeats of its control lane. When its link
ends, whoever waited for it is told, or asked for again by another way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tidewire.model.ids import Conn, PubendId, Tick, TreeId
from tidewire.model.routing_messages import Sync, Synced, Wave, WaveDone
from tidewire.routing.answers import Answer, Reached, Tell

Asker = tuple[Conn, int] | int
"""A child and its token, or a barrier that was asked for here."""


SYNCS_MAX: Final = 256
"""Of one tree, under way at once."""


class Syncs:
    """The syncs of one tree. Each sets out at once, whatever is under way; beyond a bound the next is shared.

    Else those who ask later would wait for two passages through a long queue, and clients that leave a broker to
    relieve it would not leave.
    """

    def __init__(self, tree: TreeId) -> None:
        self._tree = tree
        self._token = 0
        self._under_way: dict[int, list[Asker]] = {}
        """By token. They come back in order."""
        self._waiting: list[Asker] = []
        self._behind_all = 1
        """The first that sets out, or set out, behind all that the parent has been told."""
        self._back = 0
        """The last that has come back."""
        self._is_wanted = False
        """Is another one to follow, even if nobody asks?"""

    def told_more(self) -> None:
        """The parent has been told of routes: those under way say nothing about them."""
        self._behind_all = self._token + 1

    @property
    def is_proven(self) -> bool:
        """Does all stand that the parent has been told?"""
        return self._back >= self._behind_all

    def awaited(self) -> int | None:
        """Which one will prove what the parent has been told so far? None: nothing is open."""
        if not self._under_way:
            return None
        is_next = self._token < self._behind_all and (bool(self._waiting) or self._is_wanted)
        return self._token + 1 if is_next else self._token

    def ask(self, asker: Asker, *, parent: Conn | None) -> list[Answer]:
        """Somebody wants one. ``parent`` is None while it cannot be sent; then it waits for ``resend``."""
        self._waiting.append(asker)
        return [] if len(self._under_way) >= SYNCS_MAX or parent is None else self._send(parent)

    def came_back(self, token: int, *, parent: Conn) -> tuple[list[Asker], list[Answer], bool] | None:
        """Who has been waiting for this one? And the next one may set out. Was it behind all that the parent knows?

        None: it is not under way.
        """
        if token not in self._under_way:
            return None
        done = [asker for one in list(self._under_way) if one <= token for asker in self._under_way.pop(one)]
        self._back = token
        is_next = bool(self._waiting) or self._is_wanted
        return done, self._send(parent) if is_next else [], self.is_proven

    def resend(self, parent: Conn) -> list[Answer]:
        """There is a new parent, and it has been told everything: whoever still waits is asked for again.

        One goes in any case: when it is back, we know what is confirmed.
        """
        self._waiting = self.give_up()
        self._behind_all = self._token + 1
        return self._send(parent)

    def confirm(self, parent: Conn) -> list[Answer]:
        """The parent has been told more, and nobody asks for one: it goes for us, as soon as one may."""
        self._is_wanted = len(self._under_way) >= SYNCS_MAX
        return [] if self._is_wanted else self._send(parent)

    def give_up(self) -> list[Asker]:
        """The tree is gone: there is nothing left to wait for."""
        askers = [asker for one in self._under_way.values() for asker in one] + self._waiting
        self._under_way, self._waiting = {}, []
        return askers

    def forget(self, link: Conn) -> None:
        """A child has gone and waits no longer."""

        def stays(asker: Asker) -> bool:
            return isinstance(asker, int) or asker[0] != link

        self._waiting = [asker for asker in self._waiting if stays(asker)]
        self._under_way = {token: [one for one in askers if stays(one)] for token, askers in self._under_way.items()}

    def _send(self, parent: Conn) -> list[Answer]:
        self._token += 1
        self._under_way[self._token], self._waiting = self._waiting, []
        self._is_wanted = False
        return [Tell(parent, Sync(self._tree, self._token))]


def synced(tree: TreeId, askers: Iterable[Asker], heads: list[tuple[PubendId, Tick]] | None = None) -> list[Answer]:
    """Tell those who asked; neighbours also how far the source's pubends had come when it turned around.

    A neighbour that has asked often hears of the last one: those before it are back with it.
    """
    ours: list[int] = []
    latest: dict[Conn, int] = {}
    for asker in askers:
        if isinstance(asker, int):
            ours.append(asker)
        else:
            latest[asker[0]] = max(asker[1], latest.get(asker[0], 0))
    return [*map(Reached, ours), *(Tell(link, Synced(tree, token, heads or [])) for link, token in latest.items())]


class _Wave(msgspec.Struct):
    """One that has not passed."""

    asker: Asker
    links: dict[Conn, None]
    """Those who have not answered."""

    sync: int | None
    """What we have told the parent is not proven before this sync is back."""

    @property
    def is_over(self) -> bool:
        """Has it passed?"""
        return not self.links and self.sync is None


class Waves:
    """The waves that pass through this broker, in one tree."""

    def __init__(self, tree: TreeId) -> None:
        self._tree = tree
        self._token = 0
        self._passing: dict[int, _Wave] = {}

    def begin(self, asker: Asker, *, to: Iterable[Conn], sync: int | None) -> list[Answer]:
        """Send a wave on to these; whoever asked is told when all have answered, and this sync is back."""
        wave = _Wave(asker, dict.fromkeys(to), sync)
        if wave.is_over:
            return self._passed(asker)
        self._token += 1
        self._passing[self._token] = wave
        return [Tell(link, Wave(self._tree, self._token)) for link in wave.links]

    def answered(self, link: Conn, token: int) -> list[Answer]:
        """A neighbour says that the wave has passed through it."""
        if token not in self._passing:
            return []
        self._passing[token].links.pop(link, None)
        return self._look(token)

    def synced(self, sync: int, *, is_last: bool) -> list[Answer]:
        """This sync is back. If it is the last, nobody waits for another any more: whoever did has gone."""
        answers: list[Answer] = []
        for token, wave in list(self._passing.items()):
            if wave.sync is not None and (is_last or wave.sync <= sync):
                wave.sync = None
                answers += self._look(token)
        return answers

    def _look(self, token: int) -> list[Answer]:
        return self._passed(self._passing.pop(token).asker) if self._passing[token].is_over else []

    def forget(self, link: Conn) -> list[Answer]:
        """A neighbour is gone or no longer behind us: it need not answer."""
        answers: list[Answer] = []
        for token in list(self._passing):
            answers += self.answered(link, token)
        return answers

    def give_up(self) -> list[Answer]:
        """We are no longer on the tree: those who asked from here are told, the others will find out."""
        passing, self._passing = self._passing, {}
        return [Reached(wave.asker) for wave in passing.values() if isinstance(wave.asker, int)]

    def _passed(self, asker: Asker) -> list[Answer]:
        if isinstance(asker, int):
            return [Reached(asker)]
        return [Tell(asker[0], WaveDone(self._tree, asker[1]))]
