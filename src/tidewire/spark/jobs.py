"""What is one run of a kind? A job for Spark's tasks, in full: nothing else need be known where a task runs.

What is large is in files, which tasks read and remember from run to run: the subscriptions of the kind, as they came
and went, and the datasets that are joined. A job says which of them make up the present.
"""

from __future__ import annotations

import msgspec

from tidewire.channels.plans import Plan
from tidewire.spark.places import Place, here


class Piece(msgspec.Struct, frozen=True):
    """New rows of the driving feed: a part of a file."""

    path: str
    version: int
    """Of the table, with which they came."""

    first: int
    count: int


class Changes(msgspec.Struct, frozen=True):
    """A file of changes to a kind's subscriptions, with their numbers."""

    path: str
    first: int
    last: int


class Subscriptions(msgspec.Struct, frozen=True, kw_only=True):
    """A kind's subscriptions, in files: one who knows those up to a number needs only what came later."""

    life: str
    """Of the process that numbers them: numbers of another one mean nothing."""

    snapshot: tuple[Changes, ...]
    changes: tuple[Changes, ...]
    """In order, up to now; some of them are in the snapshot too."""

    upto: int


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a dataset as they stand: one who knows a version that is late enough needs only what came later."""

    columns: tuple[str, ...]
    """Those that are asked for."""

    key: tuple[str, ...]
    version: int
    base: int
    files: tuple[str, ...]
    """All rows of the version ``base``."""

    more: tuple[tuple[int, str], ...] = ()
    """Files that came with later versions, in order; with some of earlier ones."""

    floor: int
    """What came after this version is in ``more``."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a kind."""

    kind: str
    plan: Plan
    pieces: tuple[Piece, ...]
    seen: dict[int, int]
    """The channels that run, by their number in the kind: the version of the feed that each has seen."""

    subscriptions: Subscriptions
    datasets: dict[int, Standing]
    """By source of the query; not the driving one."""

    upto: int = 0
    """The version of the feed that is looked at; what is new is behind ``seen``."""

    store: Place = msgspec.field(default_factory=here)
    """What has all these files."""

    def looked_at(self) -> dict[str, int]:
        """The versions of the feed, behind one and up to another, and of the datasets that were joined, as they stood.

        Of a dataset with a key and a feed it is the version of its changes.
        """
        names = {f"dataset {self.plan.query.sources[at].dataset}": one.version for at, one in self.datasets.items()}
        return {"after": min(self.seen.values()), "upto": self.upto, **names}
