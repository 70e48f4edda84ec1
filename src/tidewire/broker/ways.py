"""Which way? Along the tree of a stream's host: up, to its source, and down, to those who want something of it."""

from __future__ import annotations

from collections.abc import Iterator

from tidewire.broker.links import Links
from tidewire.model.ids import Conn, TreeId
from tidewire.model.shortage_messages import FlowsTold, Judged, LimitFlows
from tidewire.model.stream_messages import (
    Alerted,
    Held,
    Hold,
    Nack,
    Progress,
    Queried,
    Replay,
    Stop,
    TakenOver,
)
from tidewire.routing.router import Router
from tidewire.wire.connections import Send

TreeMessage = Nack | Replay | Queried | Alerted | Hold | Held | Progress | TakenOver | Stop
AboutFlows = Judged | FlowsTold | LimitFlows


class Ways:
    """Of one broker. What is said about streams goes in the control lane."""

    def __init__(self, router: Router, links: Links, own_tree: TreeId) -> None:
        self._router = router
        self._links = links
        self.own = own_tree

    def control_of(self, data: Conn) -> Conn | None:
        """The control lane of a neighbour, by its data lane."""
        found = self._links.lane_of(data)
        return None if found is None else found[0].lanes.get("control")

    def data_of(self, control: Conn) -> Conn | None:
        """The data lane of a neighbour, by its control lane."""
        found = self._links.lane_of(control)
        return None if found is None else found[0].lanes.get("data")

    def parent(self, tree: TreeId) -> tuple[Conn, Conn] | None:
        """The data and the control lane to the parent in a tree that we are on."""
        branch = self._router.branch(tree)
        if branch is None or branch.tree.parent is None:
            return None
        control = self.control_of(branch.tree.parent)
        return None if control is None else (branch.tree.parent, control)

    def is_on(self, tree: TreeId) -> bool:
        """Does a way lead to its source?"""
        branch = self._router.branch(tree)
        return branch is not None and branch.tree.is_on

    def others(self) -> list[TreeId]:
        """The trees of other brokers that we are on."""
        return [one.tree.id for one in self._router.branches() if one.tree.is_on and not one.tree.is_own]

    def may_have(self, tree: TreeId, wanted: bytes) -> bool:
        """Could an event of this tree match this filter?"""
        branch = self._router.branch(tree)
        return branch is not None and branch.may_have(wanted)

    def up(self, tree: TreeId, message: TreeMessage | AboutFlows) -> Iterator[Send]:
        """To the parent, if there is one."""
        parent = self.parent(tree)
        if parent is not None:
            yield Send(parent[1], message, "control")

    def down(self, tree: TreeId, message: TreeMessage | AboutFlows) -> Iterator[Send]:
        """To the children that want something of this tree."""
        branch = self._router.branch(tree)
        for child in (child for child, routes in branch.routes.items() if routes) if branch is not None else ():
            control = self.control_of(child)
            if control is not None:
                yield Send(control, message, "control")
