"""What brokers say to each other about source trees: who is on them, what is advertised and wanted, and barriers."""

from __future__ import annotations

import msgspec

from tidewire.model.message_fields import Path, Place, Pubend, Tree


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """The base of all messages: an array on the wire, its tag first."""


class Offer(_Message, frozen=True, tag=30):
    """I am on this tree, by this path from its source to me. The first offer that comes makes its sender the parent."""

    tree: Tree
    path: Path


class Withdraw(_Message, frozen=True, tag=31):
    """I am no longer on this tree."""

    tree: Tree


class Join(_Message, frozen=True, tag=32):
    """You are my parent in this tree: tell me its advertisements, and take my routes."""

    tree: Tree


class Part(_Message, frozen=True, tag=33):
    """You are no longer my parent in this tree: forget my routes for it."""

    tree: Tree


class Ads(_Message, frozen=True, tag=34):
    """From parent to child: advertisements of this tree. A Join is answered by all of them, up to ``is_last``."""

    tree: Tree
    numbers: list[int]
    filters: list[bytes]
    is_last: bool = False


class AdsGone(_Message, frozen=True, tag=35):
    """From parent to child: these advertisements have ended."""

    tree: Tree
    numbers: list[int]


class Routes(_Message, frozen=True, tag=36):
    """From child to parent: send me what matches, of this tree. Numbers are the child's own in this tree."""

    tree: Tree
    numbers: list[int]
    filters: list[bytes]


class RoutesGone(_Message, frozen=True, tag=37):
    """From child to parent: no longer."""

    tree: Tree
    numbers: list[int]


class Sync(_Message, frozen=True, tag=38):
    """From child towards the source: turn this around there. See ``routing/barriers.py``."""

    tree: Tree
    token: int


class Synced(_Message, frozen=True, tag=39):
    """From the source back: the routes sent before the Sync stand, the events sent before this have come.

    ``heads``: of each pubend there, the first tick that was not told before this.
    """

    tree: Tree
    token: int
    heads: list[tuple[Pubend, Place]] = []


class Wave(_Message, frozen=True, tag=40):
    """From the source to all: pass it on, and answer WaveDone when all behind you have."""

    tree: Tree
    token: int


class WaveDone(_Message, frozen=True, tag=41):
    """From child to parent: the wave has passed through here and all brokers behind."""

    tree: Tree
    token: int


RoutingMessage = Offer | Withdraw | Join | Part | Ads | AdsGone | Routes | RoutesGone | Sync | Synced | Wave | WaveDone
