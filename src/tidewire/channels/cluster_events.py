"""What happens to the subscriptions and the runs of a data cluster, and what is to be done about it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewire.channels.messages import Pull, ToBroker, ToCluster, Want
from tidewire.channels.queries import Declaration
from tidewire.channels.results import BEGINNING, Outcome, Result, SubscriptionId, SubscriptionRow
from tidewire.model.ids import BrokerId, Tick

# -- what happens ------------------------------------------------------------------------------------------------------


class Created(msgspec.Struct, frozen=True):
    """A channel is there, since a tick. After a restart: its last run that is stored, and its batch."""

    declaration: Declaration
    batch: int = -1
    tick: Tick = BEGINNING
    since: Tick = BEGINNING


class Dropped(msgspec.Struct, frozen=True):
    """A channel is no more."""

    channel: str


class BrokerGone(msgspec.Struct, frozen=True):
    """A broker is dead, and will not come back as it was: a connection that it may still have is closed."""

    broker: BrokerId


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a channel is done; its results are not stored yet."""

    channel: str
    batch: int
    now_ms: int
    results: tuple[Result, ...]


class Stored(msgspec.Struct, frozen=True):
    """The results of a run are stored."""

    outcome: Outcome


ClusterEvent = Created | Dropped | BrokerGone | Ran | Stored | ToCluster


# -- what is to be done ------------------------------------------------------------------------------------------------


class Follower(msgspec.Struct, frozen=True):
    """A durable subscriber: the claim of the session that has it, or had it last, and what it has dealt with."""

    claim: int
    place: Tick


class Kept(msgspec.Struct, frozen=True):
    """A subscription as it is kept.

    Of a channel that is no more, the names are kept that were away: they are owed to hear that something is lost, if
    there is another channel of its name when they come.
    """

    id: SubscriptionId
    want: Want
    brokers: dict[BrokerId, int]
    """With the life in which each holds it."""

    names: dict[str, Follower]


class Keep(msgspec.Struct, frozen=True):
    """Keep this record, instead of the one with the same id."""

    record: Kept


class Discard(msgspec.Struct, frozen=True):
    """Keep the record with this id no longer."""

    id: SubscriptionId


class AddRow(msgspec.Struct, frozen=True):
    """The table of a kind has one more row, from the next run on."""

    kind: str
    row: SubscriptionRow


class RemoveRow(msgspec.Struct, frozen=True):
    """The table of a kind has this row no longer."""

    kind: str
    id: SubscriptionId


class Store(msgspec.Struct, frozen=True):
    """Store this, all or nothing, then say so."""

    outcome: Outcome


class Trim(msgspec.Struct, frozen=True):
    """The results of a channel up to this tick are no longer needed."""

    channel: str
    upto: Tick


class Answer(msgspec.Struct, frozen=True):
    """Send a broker the results that it asked for, from the store."""

    pull: Pull


class Send(msgspec.Struct, frozen=True):
    """Send this to a broker."""

    broker: BrokerId
    message: ToBroker


ClusterEffect = Keep | Discard | AddRow | RemoveRow | Store | Trim | Answer | Send


def kept_of(effects: Iterable[ClusterEffect]) -> list[Keep | Discard]:
    """What is to be on the disk before anything else."""
    return [one for one in effects if isinstance(one, Keep | Discard)]
