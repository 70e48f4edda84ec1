"""The names that events are held for: at every store, from when they began, and until they end.

One who follows is told that it has begun when every store that can be reached holds events for its name. A store that
cannot be reached then hears of it later, from the others; and since it hears for how long, nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidewire.broker.asking import Asked, Asker, Asking, Copies, Forgetting, Leavers, Neighbour
from tidewire.broker.effects import Step
from tidewire.broker.followers import Follower, Followers
from tidewire.broker.left import Left
from tidewire.broker.pubends import Pubends
from tidewire.broker.ways import Ways
from tidewire.delivery.holds import Behind
from tidewire.model.errors import FollowedElsewhere, Forgotten, NoStore
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.messages import Done, Refused
from tidewire.model.stream_messages import Held, HeldFor, Hold, Holding, Stop, Superseded, TakenOver
from tidewire.routing.router import Router
from tidewire.wire.connections import Send

HOMELESS_NS: Final = 3_000_000_000
"""For so long it is waited for a store that a new name can be held at."""

RETRY_NS: Final = 500_000_000
"""How often it is looked for one."""

COPY_NS: Final = 2_000_000_000
COPIES_MAX: Final = 1000
"""How often other stores are told of new names, and of how many at once."""

ROUND_MAX: Final = 100
"""Of so many old names they are told again at the same time, in turn, where nobody can tell us that they have ended."""


class Names:
    """What one broker does about names. Methods return effects, and what the router answered."""

    def __init__(self, router: Router, ways: Ways, pubends: Pubends, followers: Followers) -> None:
        self._router = router
        self._ways = ways
        self._pubends = pubends
        self._followers = followers
        self._asking = Asking(ways)
        self._kept: dict[int, tuple[Asked, list[HeldFor]]] = {}
        """What is to become durable here before it is answered."""
        self._homeless: dict[tuple[Conn, int], tuple[Nanoseconds, Nanoseconds]] = {}
        """Followers for whom no store holds events: when that is looked at again, and when a new one is refused."""
        self._uncopied: dict[TreeId, dict[str, None]] = {}
        """Of which names other stores have not heard."""
        self._round: list[str] = []
        self._storeless: dict[TreeId, None] = {}
        self._unproven: dict[TreeId, dict[tuple[Conn, int], None]] = {}
        """Followers that begin in a tree when it is proven that its new parent knows their routes."""
        self._left = Left()
        self._left_ns = Nanoseconds(0)
        """When it is looked for stores that have not heard of those who have left."""
        self._copy_ns: Nanoseconds | None = None
        self._unix_offset_ns = 0

    def begin(self, *, unix_offset_ns: int, now_ns: Nanoseconds) -> None:
        """The log is open, and what is in it is offered."""
        self._unix_offset_ns = unix_offset_ns
        self._pubends.holds.settle(self._may_have)
        self._copy_ns = now_ns

    def _may_have(self, wanted: bytes) -> bool:
        return self._ways.may_have(self._ways.own, wanted)

    def _now_ms(self, now_ns: Nanoseconds) -> int:
        return (now_ns + self._unix_offset_ns) // 1_000_000

    def woken(self) -> None:
        """More may be published here from now on."""
        self._pubends.holds.woken(self._pubends.ends(), self._may_have)

    def behind(self, *, now_ns: Nanoseconds, most: int) -> list[Behind]:
        """The names that are furthest behind at our own store."""
        return self._pubends.holds.behind(self._pubends.ends(), now_ms=self._now_ms(now_ns), most=most)

    def deadline_ns(self) -> Nanoseconds | None:
        """When something is due."""
        times = [self._asking.deadline_ns(), self._copy_ns, *(again for again, _ in self._homeless.values())]
        times += [self._left_ns] if len(self._left) else []
        return min((time for time in times if time is not None), default=None)

    # -- followers -----------------------------------------------------------------------------------------------------

    def hold(
        self, follower: Follower, confirmed: dict[TreeId, dict[PubendId, Tick]], *, now_ns: Nanoseconds
    ) -> Iterator[Step]:
        """The routes of a follower stand: it is held for wherever something that matches may be published some day."""
        for tree in self._stores():
            if tree in follower.ready:
                continue
            is_proven = tree == self._ways.own or tree in confirmed
            if not is_proven:  # there is a new parent since
                self._unproven = {one: keys for one, keys in self._unproven.items() if self._ways.is_on(one)}
                self._unproven.setdefault(tree, {})[follower.conn, follower.number] = None
            if is_proven and self._ways.may_have(tree, follower.wanted):
                follower.ready[tree] = None
                follower.sounds |= confirmed.get(tree, {})
            elif tree in follower.trees:
                continue
            yield from self._hold_at(tree, follower, now_ns)
        yield from self._begin(follower, now_ns)

    def proven(
        self, tree: TreeId, confirmed: dict[TreeId, dict[PubendId, Tick]], *, now_ns: Nanoseconds
    ) -> Iterator[Step]:
        """All that is wanted of this tree stands on the whole way: those begin who had to wait for that."""
        for key in self._unproven.pop(tree, ()):
            follower = self._followers.get(*key)
            if follower is not None and tree in follower.trees:
                yield from self.hold(follower, confirmed, now_ns=now_ns)

    def _stores(self) -> list[TreeId]:
        """Where events may be held."""
        own = [self._ways.own] if len(self._pubends) else []
        return [*own, *self._ways.others()]

    def _hold_at(self, tree: TreeId, follower: Follower, now_ns: Nanoseconds) -> Iterator[Step]:
        yield from self._tell_left(tree, now_ns)  # ahead of who comes back by the same name
        follower.trees[tree] = None
        follower.told[tree] = follower.origin
        yield from self._ask(tree, follower, [follower.holding(now_ns)], now_ns)

    def _ask(self, tree: TreeId, asker: Asker, holdings: list[Holding], now_ns: Nanoseconds) -> Iterator[Step]:
        if tree == self._ways.own:
            yield from self._hold_here(Asked(tree, asker, len(holdings), now_ns), holdings, now_ns)
        else:
            yield from self._asking.ask(tree, asker, holdings, now_ns=now_ns)

    def _held_for(self, follower: Follower, tree: TreeId, answer: HeldFor, now_ns: Nanoseconds) -> Iterator[Step]:
        if self._followers.get(follower.conn, follower.number) is not follower:
            return
        if answer.state == "ended":
            yield from self._ended(follower, answer.origin, answer.age_ms, now_ns)
            return
        if answer.state == "taken":
            yield from self._over(follower, is_ended=False)
            return
        follower.trees[tree] = answer
        if answer.state == "held" and not answer.is_new:
            follower.known(answer.origin, Nanoseconds(now_ns - answer.age_ms * 1_000_000))
        yield from self._begin(follower, now_ns)

    def _ended(self, follower: Follower, origin: int, age_ms: int, now_ns: Nanoseconds) -> Iterator[Step]:
        """Its name has ended. One who follows anew begins anew: a store that knows the old one did not hear of that.
        One who has begun since then, where that was not known, goes on."""
        if origin and origin == follower.ended:  # it has begun anew since this was asked
            return
        ended_ns = Nanoseconds(now_ns - max(0, age_ms) * 1_000_000)
        is_other = origin not in (0, follower.claim)
        if is_other and follower.is_new and follower.request is not None:
            follower.begins_anew(ended=origin)
        elif is_other and follower.came_ns > ended_ns:
            follower.goes_on(ended=origin, ended_ns=ended_ns)
        else:
            yield from self._over(follower, is_ended=True)
            for tree in follower.trees if is_other else ():  # it may have taken it for the next
                ending = [_ending(follower.name, follower.claim)]
                yield from self._ask(tree, Copies(ending), ending, now_ns)
            return
        for tree in list(follower.trees):
            yield from self._hold_at(tree, follower, now_ns)

    def _begin(self, follower: Follower, now_ns: Nanoseconds) -> Iterator[Step]:
        """When all have answered. Those to whom it is new, or another, hear which it is, and how old."""
        answers = [(tree, answer) for tree, answer in follower.trees.items() if answer is not None]
        if len(answers) < len(follower.trees):
            return
        held = [(tree, answer) for tree, answer in answers if answer.state == "held"]
        others = [tree for tree, answer in held if follower.must_tell(tree, answer.origin)]
        for tree in others:
            yield from self._hold_at(tree, follower, now_ns)
        if others:
            return
        if not held:
            key = follower.conn, follower.number
            until_ns = self._homeless.get(key, (now_ns, Nanoseconds(now_ns + HOMELESS_NS)))[1]
            self._homeless[key] = Nanoseconds(now_ns + RETRY_NS), until_ns
            return
        self._homeless.pop((follower.conn, follower.number), None)
        follower.began_ns = now_ns if follower.began_ns is None else follower.began_ns
        follower.origin = follower.origin or held[0][1].origin
        yield from self._followers.begin(follower)

    def _look_for_home(self, now_ns: Nanoseconds) -> Iterator[Step]:
        for key, (again_ns, until_ns) in list(self._homeless.items()):
            if now_ns < again_ns:
                continue
            follower = self._followers.get(*key)
            if follower is None or any(answer is None for answer in follower.trees.values()):
                del self._homeless[key]
            elif follower.request is not None and follower.is_new and now_ns >= until_ns:
                del self._homeless[key]
                yield from self._refuse(follower)
            else:
                self._homeless[key] = Nanoseconds(now_ns + RETRY_NS), until_ns
                for tree in self._stores():
                    yield from self._hold_at(tree, follower, now_ns)

    def _refuse(self, follower: Follower) -> Iterator[Step]:
        assert follower.request is not None
        self._followers.drop(follower)
        yield from self._router.unsubscribe(follower.conn, [follower.number])
        error = NoStore(
            "no broker that can be reached keeps events for a durable subscription: none has a store (see store in its"
            " settings), or their disks are full"
        )
        yield Send(follower.conn, Refused(follower.request, error.code, error.message))

    def gone(self, conn: Conn, numbers: list[int]) -> None:
        """These followers leave. Stores that are within reach have heard how far they are, others will."""
        for number in numbers:
            self._homeless.pop((conn, number), None)
        self._left.add(self._followers.leaving(conn, numbers), self._ways.others())

    def _tell_left(self, tree: TreeId, now_ns: Nanoseconds) -> Iterator[Step]:
        """A store that could not be reached hears of those who have left meanwhile."""
        holdings = [] if tree == self._ways.own else self._left.untold(tree)
        for start in range(0, len(holdings), COPIES_MAX):
            some = holdings[start : start + COPIES_MAX]
            yield from self._asking.ask(tree, Leavers(some), some, now_ns=now_ns)

    # -- the end of a name ---------------------------------------------------------------------------------------------

    def forget(self, conn: Conn, request: int, name: str, *, now_ns: Nanoseconds) -> Iterator[Step]:
        """Nothing is to be held for this name any more. The client hears when all stores within reach have noted it."""
        forgetting = Forgetting(conn, request, name, dict.fromkeys(self._stores()))
        for tree in list(forgetting.waiting):
            yield from self._ask(tree, forgetting, [_ending(name)], now_ns)
        if not forgetting.waiting:
            yield from self._forgotten(forgetting)

    def _noted(self, forgetting: Forgetting, tree: TreeId, answer: HeldFor | None) -> Iterator[Step]:
        forgetting.waiting.pop(tree, None)
        forgetting.is_kept |= answer is not None and answer.state == "ended"
        if not forgetting.waiting:
            yield from self._forgotten(forgetting)

    def _forgotten(self, forgetting: Forgetting) -> Iterator[Step]:
        if forgetting.is_kept:
            yield Send(forgetting.conn, Done(forgetting.request))
            return
        error = NoStore("no broker that keeps events can be reached now, to be told: say it again later")
        yield Send(forgetting.conn, Refused(forgetting.request, error.code, error.message))

    # -- what neighbours ask, and what is answered ---------------------------------------------------------------------

    def asked(self, data: Conn, hold: Hold, *, now_ns: Nanoseconds) -> Iterator[Step]:
        """A neighbour wants names to be held at the source of a tree: us, or further up."""
        yield from self._ask(hold.tree, Neighbour(data, hold.token), hold.holdings, now_ns)

    def _hold_here(self, asked: Asked, holdings: list[Holding], now_ns: Nanoseconds) -> Iterator[Step]:
        if not len(self._pubends):  # there is no store here
            yield from self._answer(asked, [HeldFor("none")] * len(holdings), now_ns)
            return
        number, answers, effects = self._claim(holdings, now_ns)
        yield from effects
        if number is None:
            yield from self._answer(asked, answers, now_ns)
        else:
            self._kept[number] = asked, answers

    def _claim(self, holdings: list[Holding], now_ns: Nanoseconds) -> tuple[int | None, list[HeldFor], list[Step]]:
        """In our own store; those who have a name no more hear of it."""
        now_ms = self._now_ms(now_ns)
        number, claimed, kept = self._pubends.claim(holdings, now_ms=now_ms, may_have=self._may_have)
        effects: list[Step] = [*kept]
        for holding, one in zip(holdings, claimed, strict=True):
            if one.superseded is not None:
                origin = holding.ended if holding.kind == "copy" else one.answer.origin
                age_ms = holding.ended_age_ms if holding.kind == "copy" else holding.age_ms
                is_ended = holding.kind != "claim"
                over = TakenOver(self._ways.own, holding.name, one.superseded, is_ended, origin, age_ms)
                effects += self.taken(over, now_ns=now_ns)
        return number, [one.answer for one in claimed], effects

    def taken(self, over: TakenOver, *, now_ns: Nanoseconds) -> Iterator[Step]:
        """Who follows by this claim, here or behind us, does so no more: somebody else does, or has ended the name.

        A store may have taken its name for another one that has ended: then it hears which it is.
        """
        for follower in self._followers.by(over.name, over.claim):
            if over.is_ended and follower.is_other(over.origin) and over.origin != follower.claim:
                yield from self._hold_at(over.tree, follower, now_ns)
            elif over.is_ended and over.origin:
                yield from self._ended(follower, over.origin, over.age_ms, now_ns)
            else:
                yield from self._over(follower, is_ended=over.is_ended)
        yield from self._ways.down(over.tree, over)

    def _over(self, follower: Follower, *, is_ended: bool) -> Iterator[Step]:
        told: Superseded | Refused = Superseded(follower.number, is_ended)
        if follower.request is not None:
            code = Forgotten.code if is_ended else FollowedElsewhere.code
            told = Refused(follower.request, code, "another session has this name now, or has ended it")
        yield Send(follower.conn, told)
        for effect in self._followers.remove(follower.conn, [follower.number]):
            yield from self._ways.up(effect.tree, effect) if isinstance(effect, Stop) else [effect]
        yield from self._router.unsubscribe(follower.conn, [follower.number])

    def kept(self, number: int, *, now_ns: Nanoseconds) -> Iterator[Step]:
        """All that was to be kept up to this number is durable."""
        for kept in [one for one in self._kept if one <= number]:
            yield from self._answer(*self._kept.pop(kept), now_ns)

    def answered(self, held: Held, *, now_ns: Nanoseconds) -> Iterator[Step]:
        """The source of a tree has answered."""
        asked = self._asking.answered(held.token, len(held.answers))
        if asked is not None:
            yield from self._answer(asked, held.answers, now_ns)

    def _answer(self, asked: Asked, answers: list[HeldFor], now_ns: Nanoseconds) -> Iterator[Step]:
        match asked.asker:
            case Neighbour(link, token):
                control = self._ways.control_of(link)
                if control is not None:
                    yield Send(control, Held(asked.tree, token, answers), "control")
            case Follower() as follower:
                yield from self._held_for(follower, asked.tree, answers[0], now_ns)
            case Forgetting() as forgetting:
                yield from self._noted(forgetting, asked.tree, answers[0])
            case Copies(holdings):
                yield from self._copied(asked, holdings, answers, now_ns)
            case Leavers():
                pass  # it knows them now

    # -- other stores --------------------------------------------------------------------------------------------------

    def _copy(self, now_ns: Nanoseconds) -> Iterator[Step]:
        """Whatever this store knows, and others do not, they are told."""
        holds = self._pubends.holds
        now_ms = self._now_ms(now_ns)
        holds.forget_ended(now_ms=now_ms)
        others, news = dict.fromkeys(self._ways.others()), dict.fromkeys([*holds.news(), *self._next_of_round()])
        self._storeless = {tree: None for tree in self._storeless if tree in others}
        self._uncopied = {tree: names for tree, names in self._uncopied.items() if tree in others}
        for tree in others:
            if tree in self._storeless:
                continue
            if tree in self._uncopied:
                self._uncopied[tree] |= news
            else:
                self._uncopied[tree] = dict.fromkeys(holds.known())
            names = list(self._uncopied[tree])[:COPIES_MAX]
            if names:
                for name in names:
                    del self._uncopied[tree][name]
                copies = holds.copies(names, now_ms=now_ms)
                yield from self._asking.ask(tree, Copies(copies), copies, now_ns=now_ns)

    def _next_of_round(self) -> list[str]:
        """While nothing is published here no way leads to us. So we ask, one after the other: the answer says which
        names have ended."""
        if self._ways.is_on(self._ways.own):
            return []
        self._round = self._round or self._pubends.holds.names()
        found, self._round = self._round[:ROUND_MAX], self._round[ROUND_MAX:]
        return found

    def _copied(
        self, asked: Asked, holdings: list[Holding], answers: list[HeldFor], now_ns: Nanoseconds
    ) -> Iterator[Step]:
        """A name that has ended there ends here too. A store without room is told again."""
        for holding, answer in zip(holdings, answers, strict=True):
            if answer.state == "none":
                self._storeless[asked.tree] = None
            elif answer.state == "full":
                self._uncopied.setdefault(asked.tree, {})[holding.name] = None
            elif answer.state == "ended" and holding.kind == "copy":
                yield from self._claim([_ending(holding.name, holding.origin, answer.age_ms)], now_ns)[2]

    # -- time ----------------------------------------------------------------------------------------------------------

    def tick(self, now_ns: Nanoseconds) -> Iterator[Step]:
        """What is due."""
        for asked in self._asking.overdue(now_ns):
            yield from self._ask_again(asked, now_ns)
        yield from self._look_for_home(now_ns)
        if self._copy_ns is not None and now_ns >= self._copy_ns:
            self._copy_ns = Nanoseconds(now_ns + COPY_NS)
            yield from self._copy(now_ns)
        if len(self._left) and now_ns >= self._left_ns:
            self._left_ns = Nanoseconds(now_ns + COPY_NS)
            for tree in self._ways.others():
                yield from self._tell_left(tree, now_ns)

    def _ask_again(self, asked: Asked, now_ns: Nanoseconds) -> Iterator[Step]:
        """There was no answer. If the tree is gone, so is the question."""
        is_on = self._ways.is_on(asked.tree)
        match asked.asker:
            case Follower() as follower if self._followers.get(follower.conn, follower.number) is follower:
                if is_on:
                    yield from self._hold_at(asked.tree, follower, now_ns)
                else:
                    follower.lose(asked.tree)
                    yield from self._begin(follower, now_ns)
            case Forgetting() as forgetting:
                if is_on:
                    yield from self._ask(asked.tree, forgetting, [_ending(forgetting.name)], now_ns)
                else:
                    yield from self._noted(forgetting, asked.tree, None)
            case Copies(holdings):
                self._uncopied.setdefault(asked.tree, {}).update(dict.fromkeys(one.name for one in holdings))
            case Leavers(holdings):
                if is_on:
                    yield from self._asking.ask(asked.tree, Leavers(holdings), holdings, now_ns=now_ns)
                else:
                    self._left.unheard(asked.tree)


def _ending(name: str, origin: int = 0, age_ms: int = -1) -> Holding:
    return Holding(name, 0, -1, age_ms=age_ms, kind="end", origin=origin)
