"""One broker's part of one tree: who behind it wants what, what its parent has been told, which barriers pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidewire.model.ids import Conn, PubendId, Tick, TreeId
from tidewire.model.messages import Message
from tidewire.model.routing_messages import Ads, AdsGone, Routes, RoutesGone
from tidewire.routing.answers import Answer, Confirmed, Install, Tell, Uninstall, Widened
from tidewire.routing.barriers import Asker, Syncs, Waves, synced
from tidewire.routing.trees import Tree
from tidewire.routing.upstream import Change, Upstream

ITEMS_MAX = 4096
BYTES_MAX = 256 << 10
"""Of one message: longer lists are told in several."""


class Branch:
    """The routes of one tree at one broker. ``local`` filters are those of all local subscriptions, in every tree."""

    def __init__(self, tree: Tree, *, covering: bool, local: Iterable[bytes]) -> None:
        self.tree = tree
        self.routes: dict[Conn, dict[int, bytes]] = {}
        """What each child has asked for, by its numbers."""
        self.is_settled = tree.is_own
        """Do we know the advertisements, and does the parent know our routes?"""
        self.upstream = Upstream(covering=covering)
        self.syncs = Syncs(tree.id)
        self.waves = Waves(tree.id)
        self._held_waves: list[Asker] = []
        self._joining: dict[int, bytes] = {}
        """What a new parent has said so far."""
        self._hearing: dict[Conn, None] = {}
        """Children that have not heard of all that is advertised, because we have not."""
        self._proof: int | None = None
        """The sync that proves the routes which a new parent was told at first; None: it has not been told."""
        if not tree.is_own:
            self.upstream.change(add=local)

    # -- subscriptions behind us ---------------------------------------------------------------------------------------

    def add(self, filters: list[bytes], *, replaced: list[bytes]) -> list[Answer]:
        """Subscriptions have come, some in place of others."""
        return [] if self.tree.is_own else self._told(self.upstream.change(add=filters, remove=replaced))

    def remove(self, filters: list[bytes]) -> list[Answer]:
        """Subscriptions have gone."""
        return self.add([], replaced=filters)

    def child_routes(self, child: Conn, numbers: list[int], filters: list[bytes]) -> list[Answer]:
        """A child wants these too."""
        if child not in self.tree.children:
            return []
        known = self.routes.setdefault(child, {})
        replaced = [known[number] for number in numbers if number in known]
        known.update(zip(numbers, filters, strict=True))
        answers: list[Answer] = [Install(child, self.tree.id, numbers, filters)]
        return answers + self.add(filters, replaced=replaced)

    def child_routes_gone(self, child: Conn, numbers: list[int]) -> list[Answer]:
        """A child no longer wants these."""
        known = self.routes.get(child, {})
        there = [number for number in numbers if number in known]
        filters = [known.pop(number) for number in there]
        if not there:
            return []
        answers: list[Answer] = [Uninstall(child, self.tree.id, there)]
        return answers + self.remove(filters)

    def child_gone(self, child: Conn) -> list[Answer]:
        """It is no longer a child, or begins anew."""
        self.syncs.forget(child)
        self._hearing.pop(child, None)
        answers = self.child_routes_gone(child, list(self.routes.get(child, ())))
        self.routes.pop(child, None)
        return answers

    def may_have(self, wanted: bytes) -> bool:
        """Could an event of this tree match this filter?"""
        return bool(self.upstream.advertised.overlapping([wanted]))

    def covers(self, wanted: bytes) -> bool:
        """Has the parent been told of all that matches this filter?"""
        return self.is_settled and self.upstream.covers(wanted)

    # -- the parent ----------------------------------------------------------------------------------------------------

    def parent_changed(self) -> list[Answer]:
        """There is a new parent, or none. It is told everything once it has said what is advertised."""
        self.is_settled = False
        self._proof = None
        self._held_waves.clear()
        self._joining.clear()
        if self.tree.parent is not None:
            return []
        given_up = synced(self.tree.id, self.syncs.give_up())
        answers: list[Answer] = [answer for answer in given_up if not isinstance(answer, Tell)]
        answers += self.waves.give_up()
        for child in list(self.routes):
            answers += self.child_gone(child)
        return answers

    def ads(self, numbers: list[int], filters: list[bytes], *, is_last: bool) -> list[Answer]:
        """The parent says what is advertised: all of it at first, up to the last, and then what is new."""
        if not self.is_settled:
            self._joining.update(zip(numbers, filters, strict=True))
            return self._settle() if is_last else []
        return self._advertise(dict(zip(numbers, filters, strict=True)), gone=[])

    def _settle(self) -> list[Answer]:
        total, self._joining = self._joining, {}
        gone = [number for number in self.upstream.advertised.filters if number not in total]
        answers = self._advertise(total, gone=gone)
        self.is_settled = True
        hearing, self._hearing = self._hearing, {}
        answers += [Tell(child, Ads(self.tree.id, [], [], True)) for child in hearing]
        answers += self._told(self.upstream.everything())
        if self.tree.parent is not None:
            answers += self.syncs.resend(self.tree.parent)
            self._proof = self.syncs.awaited()
        held, self._held_waves = self._held_waves, []
        for asker in held:
            answers += self.wave(asker)
        return answers

    def _advertise(self, ads: dict[int, bytes], *, gone: list[int]) -> list[Answer]:
        known = self.upstream.advertised
        fresh = {number: wanted for number, wanted in ads.items() if known.filters.get(number) != wanted}
        known.remove(gone)
        known.add(fresh, fresh.values())
        answers: list[Answer] = []
        for child in self.tree.children:
            answers += [Tell(child, message) for message in ads_messages(self.tree.id, fresh)]
            answers += [Tell(child, AdsGone(self.tree.id, gone))] if gone else []
        change = self.upstream.readvertised()
        answers += self._told(change)
        if change.filters and self.is_settled and self.tree.parent is not None:
            answers += self.syncs.confirm(self.tree.parent)
        return answers

    def child_joined(self, child: Conn) -> list[Answer]:
        """A neighbour has become a child: it begins without routes, and hears what is advertised.

        That this is all it hears when we know it ourselves: else it would take for silence what it has not asked for.
        """
        answers = self.child_gone(child)
        known = self.upstream.advertised.filters
        if not self.is_settled:
            self._hearing[child] = None
        messages = ads_messages(self.tree.id, known, ends=self.is_settled)
        return answers + [Tell(child, message) for message in messages]

    def ads_gone(self, numbers: list[int]) -> list[Answer]:
        """These advertisements have ended."""
        for number in numbers:
            self._joining.pop(number, None)
        self.upstream.advertised.remove(numbers)
        answers: list[Answer] = [Tell(child, AdsGone(self.tree.id, numbers)) for child in self.tree.children]
        return answers + self._told(self.upstream.readvertised())

    def _told(self, change: Change) -> list[Answer]:
        if not self.is_settled or self.tree.parent is None:
            return []
        answers: list[Answer] = []
        if change.filters:
            self.syncs.told_more()
            answers.append(Widened(self.tree.id))
        messages: list[Message] = [
            Routes(self.tree.id, numbers, filters) for numbers, filters in chunks(change.numbers, change.filters)
        ]
        starts = range(0, len(change.gone), ITEMS_MAX)
        messages += [RoutesGone(self.tree.id, change.gone[start : start + ITEMS_MAX]) for start in starts]
        return answers + [Tell(self.tree.parent, message) for message in messages]

    # -- barriers ------------------------------------------------------------------------------------------------------

    def sync(self, asker: Asker) -> list[Answer]:
        """Somebody here or behind us wants to know when the source has turned a sync around."""
        if self.tree.is_own or not self.tree.is_on:
            return synced(self.tree.id, [asker])
        return self.syncs.ask(asker, parent=self.tree.parent if self.is_settled else None)

    def sync_came_back(self, token: int, heads: list[tuple[PubendId, Tick]]) -> list[Answer]:
        """The parent has sent one back. Whoever waits here is told when it is known what has been confirmed."""
        if self.tree.parent is None:
            return []
        came_back = self.syncs.came_back(token, parent=self.tree.parent)
        if came_back is None:
            return []
        askers, answers, is_behind_all = came_back
        is_proven = self._proof is not None and token >= self._proof
        confirmed = [Confirmed(self.tree.id, heads, is_behind_all)] if is_proven else []
        passed = self.waves.synced(token, is_last=self.syncs.awaited() is None)
        return [*confirmed, *synced(self.tree.id, askers, heads), *answers, *passed]

    def wave(self, asker: Asker) -> list[Answer]:
        """A wave sets out from here, or has come from the parent."""
        if not self.is_settled:
            self._held_waves.append(asker)
            return []
        return self.waves.begin(asker, to=self.tree.told, sync=self.syncs.awaited())


def chunks(numbers: list[int], filters: list[bytes]) -> Iterator[tuple[list[int], list[bytes]]]:
    """Numbers and filters in parts that fit into a message each."""
    start = size = 0
    for at, wanted in enumerate(filters):
        size += len(wanted) + 8
        if size > BYTES_MAX or at - start >= ITEMS_MAX:
            yield numbers[start:at], filters[start:at]
            start, size = at, len(wanted) + 8
    if start < len(filters):
        yield numbers[start:], filters[start:]


def ads_messages(tree: TreeId, ads: dict[int, bytes], *, ends: bool = False) -> list[Message]:
    """What tells a child these advertisements; ``ends``: they answer its Join."""
    parts = [Ads(tree, numbers, filters, False) for numbers, filters in chunks(list(ads), list(ads.values()))]
    return [*parts, Ads(tree, [], [], True)] if ends else [*parts]
