"""Who hosts publishers, who hosts subscribers, and where does a client belong (design §3.1, peer A1–A4)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tidewire.model.chance import Chance
from tidewire.model.messages import DeclaredRole, Neighbourhood, Role, Use

_Key = TypeVar("_Key")


def role_of(declared: DeclaredRole, neighbours: Sequence[Neighbourhood | None]) -> Role:
    """A broker's role, by what it knows of its neighbours (None: nothing yet).

    More than one neighbour makes a head; one that has more than one itself makes an edge (A1). In a federation of one
    or two there are no roles (A2).
    """
    if declared != "auto":
        return declared
    if len(neighbours) > 1:
        return "head"
    known = neighbours[0] if neighbours else None
    return "edge" if known is not None and known.neighbours > 1 else "both"


def hosts(role: Role, use: Use, neighbours: Mapping[_Key, Neighbourhood | None], *, chance: Chance) -> list[_Key]:
    """The neighbours to which a client should go for this; none: it is served here.

    A subscriber at a head goes to one of its edges, at random, but not to one that takes no more, unless none does
    (A4). A publisher at an edge goes to its head. Who has no such neighbour serves the client itself.
    """
    wanted: Role = "edge" if use == "subscribe" else "head"
    if role in ("both", wanted):
        return []
    known = {key: about for key, about in neighbours.items() if about is not None}
    fitting = [key for key, about in known.items() if about.role == wanted and not about.is_leaving]
    found = [key for key in fitting if not known[key].is_full] or fitting
    chance.shuffle(found)
    return found
