"""The one routing protocol, over any graph (design §3.3): advertisements, subscriptions, barriers, along source trees.

advertise  →  the tree is offered to all, its advertisements go down it
subscribe  →  the filter goes up every tree that has something for it, as far as it is not covered
publish    →  down the tree of the publisher's broker, once per neighbour that wants it: the data plane's part
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidewire.model.ids import BrokerId, Conn, TreeId
from tidewire.model.routing_messages import (
    Ads,
    AdsGone,
    Join,
    Offer,
    Part,
    Routes,
    RoutesGone,
    RoutingMessage,
    Sync,
    Synced,
    Wave,
    WaveDone,
    Withdraw,
)
from tidewire.routing.answers import Answer, ForgetTree, Install, Reached, SetParent, Tell, Uninstall
from tidewire.routing.barriers import Asker, synced
from tidewire.routing.branch import Branch, ads_messages
from tidewire.routing.incoming import check
from tidewire.routing.trees import Trees


class Router:
    """The routing state of one broker."""

    def __init__(self, broker: BrokerId, own_tree: TreeId, *, covering: bool = True) -> None:
        self._broker = broker
        self._own = own_tree
        self._covering = covering
        self._links: dict[Conn, None] = {}
        self._trees = Trees(broker)
        self._branches: dict[TreeId, Branch] = {}
        self._local: dict[Conn, dict[int, bytes]] = {}
        self._changed: dict[Conn, None] | None = None
        """The subscriptions of local clients."""
        self._ads: dict[Conn, dict[int, bytes]] = {}
        self._ad_uses: dict[bytes, list[int]] = {}
        """What is advertised here: its number in our tree, and by how many."""
        self._ad_count = 0
        self._barriers = 0
        self._pending: dict[int, int] = {}
        """Barriers asked for here: how many trees they still wait for."""
        self._held: list[Asker] | None = None
        """Syncs that are not turned around here before publishers know that they are wanted; None: all are at once."""

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def is_link(self, link: Conn) -> bool:
        """Is this the data lane of a neighbour?"""
        return link in self._links

    def link_up(self, link: Conn) -> list[Answer]:
        """A neighbour is connected."""
        self._links[link] = None
        return self._sifted(self._trees.link_up(link))

    def link_down(self, link: Conn) -> list[Answer]:
        """A neighbour is gone. Its routes need not be uninstalled: its connection has taken them along."""
        del self._links[link]
        answers: list[Answer] = []
        for branch in self._branches.values():
            answers += branch.child_gone(link)
            answers += branch.waves.forget(link)
        answers += self._after_tree_change(list(self._branches), lambda: self._trees.link_down(link))
        return self._sifted(a for a in answers if not (isinstance(a, Uninstall) and a.conn == link))

    def heard(self, link: Conn, message: RoutingMessage) -> list[Answer]:
        """A neighbour says something about a tree; DamagedFrame or DamagedFilter if that cannot be."""
        check(message, broker=self._broker, own_tree=self._own)
        match message:
            case Offer(tree, path):
                return self._sifted(
                    self._after_tree_change([tree], lambda: self._trees.offered(link, tree, tuple(path)))
                )
            case Withdraw(tree):
                return self._sifted(self._after_tree_change([tree], lambda: self._trees.withdrawn(link, tree)))
            case Join(tree):
                return self._sifted(self._joined(link, tree))
        branch = self._branches.get(message.tree)
        if branch is not None:
            return self._sifted(self._heard_in(branch, link, message))
        return [Tell(link, WaveDone(message.tree, message.token))] if isinstance(message, Wave) else []

    def _heard_in(self, branch: Branch, link: Conn, message: RoutingMessage) -> list[Answer]:
        is_parent = branch.tree.parent == link
        match message:
            case Part(tree):
                self._trees.parted(link, tree)
                return branch.child_gone(link) + branch.waves.forget(link)
            case Routes(_, numbers, filters):
                return branch.child_routes(link, numbers, filters)
            case RoutesGone(_, numbers):
                return branch.child_routes_gone(link, numbers)
            case Sync(_, token):
                if self._held is not None and branch.tree.is_own:
                    self._held.append((link, token))
                    return []
                return branch.sync((link, token)) if link in branch.tree.children else []
            case WaveDone(_, token):
                return branch.waves.answered(link, token)
            case Wave(tree, token):
                return branch.wave((link, token)) if is_parent else [Tell(link, WaveDone(tree, token))]
            case Ads(_, numbers, filters, is_last) if is_parent:
                return branch.ads(numbers, filters, is_last=is_last)
            case AdsGone(_, numbers) if is_parent:
                return branch.ads_gone(numbers)
            case Synced(_, token, heads) if is_parent:
                return branch.sync_came_back(token, heads)
        return []

    def _joined(self, link: Conn, tree: TreeId) -> list[Answer]:
        answers = self._after_tree_change([tree], lambda: self._trees.joined(link, tree))
        branch = self._branches.get(tree)
        if branch is not None and link in branch.tree.children:
            answers += branch.child_joined(link)
        return answers

    def _after_tree_change(self, trees: list[TreeId], change: Callable[[], list[Answer]]) -> list[Answer]:
        """Let these trees change, and the branches follow."""
        before = {tree: dict(self._branches[tree].tree.children) for tree in trees if tree in self._branches}
        answers = change()
        for changed in [answer for answer in answers if isinstance(answer, SetParent)]:
            branch = self._branches.get(changed.tree)
            if branch is None:
                tree = self._trees[changed.tree]
                local = [wanted for subscriptions in self._local.values() for wanted in subscriptions.values()]
                self._branches[changed.tree] = Branch(tree, covering=self._covering, local=local)
                continue
            for child in before[changed.tree]:
                if child not in branch.tree.children:
                    answers += branch.child_gone(child)
            answers += branch.parent_changed()
        return answers

    def forget(self, tree: TreeId) -> list[Answer]:
        """A tree that we have not been on for long: forget its positions too, unless it has come back."""
        if not self._trees.forget(tree):
            return []
        self._branches.pop(tree, None)
        return [ForgetTree(tree)]

    def branch(self, tree: TreeId) -> Branch | None:
        """Our part of a tree, if we have one."""
        return self._branches.get(tree)

    def branches(self) -> list[Branch]:
        """Our part of every tree, the oldest first."""
        return list(self._branches.values())

    def trees_for(self, wanted: bytes) -> list[TreeId]:
        """The trees whose events may match this filter, as far as we are on them, the own one first."""
        found = [branch for branch in self._branches.values() if branch.tree.is_on and branch.may_have(wanted)]
        return [branch.tree.id for branch in sorted(found, key=lambda branch: not branch.tree.is_own)]

    def tree_count(self) -> int:
        """How many trees are we on?"""
        return sum(tree.is_on for tree in self._trees.all())

    def lost_trees(self) -> list[TreeId]:
        """The trees that we know and are not on."""
        return self._trees.lost()

    # -- local subscribers ---------------------------------------------------------------------------------------------

    def subscribe(self, conn: Conn, numbers: list[int], filters: list[bytes]) -> list[Answer]:
        """A client subscribes; numbers in use get the new filter."""
        known = self._local.setdefault(conn, {})
        replaced = [known[number] for number in numbers if number in known]
        known.update(zip(numbers, filters, strict=True))
        self._note_change(conn)
        answers: list[Answer] = [Install(conn, None, numbers, filters)]
        for branch in self._branches.values():
            answers += branch.add(filters, replaced=replaced)
        return self._sifted(answers)

    def unsubscribe(self, conn: Conn, numbers: Iterable[int]) -> list[Answer]:
        """A client no longer wants these."""
        known = self._local.get(conn, {})
        there = [number for number in dict.fromkeys(numbers) if number in known]
        if not there:
            return []
        filters = [known.pop(number) for number in there]
        self._note_change(conn)
        answers: list[Answer] = [Uninstall(conn, None, there)]
        for branch in self._branches.values():
            answers += branch.remove(filters)
        return self._sifted(answers)

    def _note_change(self, conn: Conn) -> None:
        if self._changed is not None:
            self._changed[conn] = None

    def changed_subscribers(self) -> list[Conn]:
        """Whose subscriptions have changed since the last call; at the first, all who have some."""
        found = self.subscribers() if self._changed is None else list(self._changed)
        self._changed = {}
        return found

    def subscriptions(self, conn: Conn) -> dict[int, bytes]:
        """What a client has subscribed to."""
        return self._local.get(conn, {})

    def told_upstream(self) -> list[bytes]:
        """What the parents have been told is wanted here: at an edge, the covering set of what its clients want."""
        return list(dict.fromkeys(wanted for branch in self._branches.values() for wanted in branch.upstream.told()))

    def subscribers(self) -> list[Conn]:
        """The clients that have subscribed to something."""
        return [conn for conn, subscriptions in self._local.items() if subscriptions]

    @property
    def has_subscribers(self) -> bool:
        """Is there one?"""
        return any(self._local.values())

    def publishers(self) -> list[Conn]:
        """The clients that have advertised something."""
        return [conn for conn, advertisements in self._ads.items() if advertisements]

    # -- local publishers ----------------------------------------------------------------------------------------------

    def advertise(self, conn: Conn, numbers: list[int], filters: list[bytes]) -> list[Answer]:
        """A client will publish this; numbers in use get the new filter."""
        known = self._ads.setdefault(conn, {})
        replaced = [known[number] for number in numbers if number in known]
        known.update(zip(numbers, filters, strict=True))
        answers = self.begin()
        fresh: dict[int, bytes] = {}
        for advertised in filters:
            if advertised in self._ad_uses:
                self._ad_uses[advertised][1] += 1
                continue
            self._ad_count += 1
            self._ad_uses[advertised] = [self._ad_count, 1]
            fresh[self._ad_count] = advertised
        own = self._branches[self._own]
        own.upstream.advertised.add(fresh, fresh.values())
        for child in own.tree.children:
            answers += [Tell(child, message) for message in ads_messages(self._own, fresh)]
        return self._sifted(answers + self._unadvertised(replaced))

    def unadvertise(self, conn: Conn, numbers: Iterable[int]) -> list[Answer]:
        """A client will no longer publish this."""
        known = self._ads.get(conn, {})
        there = [number for number in dict.fromkeys(numbers) if number in known]
        return self._sifted(self._unadvertised([known.pop(number) for number in there]))

    def advertisements(self, conn: Conn) -> dict[int, bytes]:
        """What a client has advertised."""
        return self._ads.get(conn, {})

    def client_gone(self, conn: Conn) -> list[Answer]:
        """A client has gone, and all that it wanted and offered (peer §1.3)."""
        answers = self.unsubscribe(conn, list(self._local.get(conn, ())))
        answers += self.unadvertise(conn, list(self._ads.get(conn, ())))
        self._local.pop(conn, None)
        self._ads.pop(conn, None)
        return [answer for answer in answers if not isinstance(answer, Uninstall)]

    def begin(self) -> list[Answer]:
        """We may be a source: there is a way to us."""
        if self._own in self._branches:
            return []
        answers = self._trees.begin(self._own)
        self._branches[self._own] = Branch(self._trees[self._own], covering=False, local=())
        return answers

    def _unadvertised(self, filters: list[bytes]) -> list[Answer]:
        gone: list[int] = []
        for advertised in filters:
            use = self._ad_uses[advertised]
            use[1] -= 1
            if use[1] == 0:
                del self._ad_uses[advertised]
                gone.append(use[0])
        if not gone:
            return []
        own = self._branches[self._own]
        own.upstream.advertised.remove(gone)
        return [Tell(child, AdsGone(self._own, gone)) for child in own.tree.children]

    # -- barriers ------------------------------------------------------------------------------------------------------

    def sync(self) -> tuple[int, list[Answer]]:
        """A barrier through the sources of all trees: ``Reached`` with this number when all are back.

        Also where all that is wanted is covered by what has been proven: a broker further up may have another parent
        since then.
        """
        branches = [branch for branch in self._branches.values() if branch.tree.is_on and not branch.tree.is_own]
        self._barriers += 1
        self._pending[self._barriers] = len(branches) + 1
        barrier = self._barriers
        answers: list[Answer] = [Reached(barrier)]
        if self._held is not None:
            self._held.append(barrier)
            self._pending[barrier] += 1
        for branch in branches:
            answers += branch.sync(barrier)
        return barrier, self._sifted(answers)

    def hold_syncs(self) -> None:
        """Publishers here must hear first of what was just wanted: until then nothing is confirmed from here."""
        self._held = [] if self._held is None else self._held

    def let_syncs_go(self) -> list[Answer]:
        """They know."""
        held, self._held = self._held or [], None
        return self._sifted(synced(self._own, held))

    def wave(self) -> tuple[int, list[Answer]]:
        """A barrier through all brokers of our own tree."""
        self._barriers += 1
        self._pending[self._barriers] = 1
        own = self._branches.get(self._own)
        answers = [Reached(self._barriers)] if own is None else own.wave(self._barriers)
        return self._barriers, self._sifted(answers)

    def _sifted(self, answers: Iterable[Answer]) -> list[Answer]:
        """Without what is for neighbours that are gone; a barrier is reached when all its trees have said so."""
        kept: list[Answer] = []
        for answer in answers:
            if isinstance(answer, Tell) and answer.link not in self._links:
                continue
            if isinstance(answer, Reached):
                self._pending[answer.barrier] -= 1
                if self._pending[answer.barrier] > 0:
                    continue
                del self._pending[answer.barrier]
            kept.append(answer)
        return kept
