"""By which way do the events of each source come? One tree per source, over any graph.

A broker on a tree offers it to its neighbours, with the path from the source to itself. The first offer that comes
makes its sender the parent. When the parent is lost, the shortest of the other offers takes its place. A path that
leads through ourselves is no offer: so no tree can close on itself.
"""

from __future__ import annotations

from hashlib import blake2b

from tidewire.model.ids import BrokerId, Conn, TreeId
from tidewire.model.routing_messages import Join, Offer, Part, Withdraw
from tidewire.routing.answers import Answer, SetParent, Tell

Path = tuple[BrokerId, ...]


def tree_of(broker: BrokerId, incarnation: int) -> TreeId:
    """The id of the source tree of one life of a broker."""
    return TreeId(int.from_bytes(blake2b(f"{broker}/{incarnation}".encode(), digest_size=8).digest(), "little"))


class Tree:
    """What one broker knows of one tree."""

    __slots__ = ("children", "id", "is_own", "offers", "parent", "path", "told")

    def __init__(self, tree: TreeId, *, is_own: bool) -> None:
        self.id = tree
        self.is_own = is_own
        self.parent: Conn | None = None
        self.path: Path = ()
        """From the source to this broker; empty while it is not on the tree."""
        self.offers: dict[Conn, Path] = {}
        self.children: dict[Conn, None] = {}
        self.told: dict[Conn, None] = {}
        """The neighbours that hold our offer."""

    @property
    def is_on(self) -> bool:
        """Is this broker on the tree?"""
        return bool(self.path)


class Trees:
    """All trees that a broker knows."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._links: dict[Conn, None] = {}
        self._trees: dict[TreeId, Tree] = {}

    def __getitem__(self, tree: TreeId) -> Tree:
        return self._trees[tree]

    def get(self, tree: TreeId) -> Tree | None:
        """The tree, if it is known."""
        return self._trees.get(tree)

    def all(self) -> list[Tree]:
        """Every known tree, the oldest first."""
        return list(self._trees.values())

    def lost(self) -> list[TreeId]:
        """Those that we are not on."""
        return [tree.id for tree in self._trees.values() if not tree.path]

    def begin(self, tree: TreeId) -> list[Answer]:
        """This broker is the source of a tree."""
        own = self._trees[tree] = Tree(tree, is_own=True)
        own.path = (self._broker,)
        return self._offer_to_all(own)

    def link_up(self, link: Conn) -> list[Answer]:
        """A neighbour has come: it hears of every tree that we are on."""
        self._links[link] = None
        return [self._offer(tree, link) for tree in self._trees.values() if tree.is_on]

    def link_down(self, link: Conn) -> list[Answer]:
        """A neighbour has gone, with its offers."""
        del self._links[link]
        answers: list[Answer] = []
        for tree in self.all():
            tree.children.pop(link, None)
            tree.told.pop(link, None)
            answers += self.withdrawn(link, tree.id)
        return answers

    def offered(self, link: Conn, tree_id: TreeId, path: Path) -> list[Answer]:
        """A neighbour is on the tree, by this path."""
        if self._broker in path:
            return self.withdrawn(link, tree_id)
        tree = self._trees.setdefault(tree_id, Tree(tree_id, is_own=False))
        tree.offers[link] = path
        if not tree.is_on:
            return self._adopt(tree, link)
        if tree.parent == link and (*path, self._broker) != tree.path:
            tree.path = (*path, self._broker)
            return self._offer_to_all(tree)
        return []

    def withdrawn(self, link: Conn, tree_id: TreeId) -> list[Answer]:
        """A neighbour is no longer on the tree, or only through us."""
        tree = self._trees.get(tree_id)
        if tree is None or tree.offers.pop(link, None) is None or tree.parent != link:
            return []
        answers: list[Answer] = [Tell(link, Part(tree_id))] if link in self._links else []
        if tree.offers:
            shortest = min(tree.offers, key=lambda other: len(tree.offers[other]))
            return answers + self._adopt(tree, shortest)
        tree.parent = None
        tree.path = ()
        tree.children.clear()
        answers.append(SetParent(tree_id, None))
        answers += [Tell(other, Withdraw(tree_id)) for other in tree.told]
        tree.told.clear()
        return answers

    def joined(self, link: Conn, tree_id: TreeId) -> list[Answer]:
        """A neighbour has made us its parent."""
        tree = self._trees.get(tree_id)
        if tree is None or not tree.is_on or link not in self._links:
            return [Tell(link, Withdraw(tree_id))]
        if tree.parent == link:  # both have lost their way and each took the other's old offer
            return self.withdrawn(link, tree_id)
        tree.children[link] = None
        return []

    def parted(self, link: Conn, tree_id: TreeId) -> None:
        """A neighbour has another parent now."""
        tree = self._trees.get(tree_id)
        if tree is not None:
            tree.children.pop(link, None)

    def forget(self, tree_id: TreeId) -> bool:
        """Forget a tree that we are not on; false if we are on it again."""
        tree = self._trees.get(tree_id)
        if tree is None or tree.is_on:
            return False
        del self._trees[tree_id]
        return True

    def _adopt(self, tree: Tree, link: Conn) -> list[Answer]:
        tree.parent = link
        tree.path = (*tree.offers[link], self._broker)
        answers: list[Answer] = [SetParent(tree.id, link)]
        if link in tree.told:
            del tree.told[link]
            answers.append(Tell(link, Withdraw(tree.id)))
        tree.children.pop(link, None)
        answers.append(Tell(link, Join(tree.id)))
        return answers + self._offer_to_all(tree)

    def _offer_to_all(self, tree: Tree) -> list[Answer]:
        return [self._offer(tree, link) for link in self._links if link != tree.parent]

    def _offer(self, tree: Tree, link: Conn) -> Answer:
        tree.told[link] = None
        return Tell(link, Offer(tree.id, list(tree.path)))
