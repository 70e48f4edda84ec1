"""What every way to balance gets, and what it must be able to do: one small interface for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from tidewire.broker.balance_documents import BalanceStatus
from tidewire.broker.clients import Clients
from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Effect, Note
from tidewire.broker.events import Counted, Measured, Sampled
from tidewire.broker.links import Links
from tidewire.model.balance_messages import Bulletin, SessionId
from tidewire.model.chance import Chance
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.placement.choices import Location
from tidewire.routing.router import Router


class Parts(msgspec.Struct, frozen=True):
    """The rest of the broker, as far as balancing needs it."""

    config: BrokerConfig
    router: Router
    links: Links
    clients: Clients
    life: int
    chance: Chance


class Balances(Protocol):
    """A broker's part in balancing, by one policy."""

    def deadline_ns(self) -> int | None:
        """When something is due next."""

    def handle(self, event: Measured | Sampled | Counted, *, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What the node has measured, or kept."""

    def heard(self, conn: Conn, bulletin: Bulletin, *, now_ns: Nanoseconds) -> Iterator[Effect]:
        """A neighbour has said something about load."""

    def neighbours_changed(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """Neighbours, or what they and we are, may have changed."""

    def tick(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What is due."""

    def moves_ended(self, ended: Sequence[tuple[Conn, bool]], now_ns: Nanoseconds) -> list[Effect]:
        """Clients have gone where they were sent, or stay."""

    def warnings(self) -> list[Note]:
        """What is unwise about the settings."""

    def placed(self, wanted: Sequence[bytes], location: Location | None, now_ns: Nanoseconds) -> str | None:
        """Where a newcomer that wants this is sent; None: anywhere."""

    def check(self) -> None:
        """Can it be steered here? Unavailable if not."""

    def rebalance(self, conn: Conn, request: int, *, is_dry_run: bool, now_ns: Nanoseconds) -> Iterator[Effect]:
        """An operator wants a look now; or to know what would follow from one."""

    def gone(self, conn: Conn) -> None:
        """This operator waits no longer."""

    def status(self, *, now_ns: Nanoseconds) -> BalanceStatus:
        """How it goes."""

    @property
    def changed_ns(self) -> Nanoseconds | None:
        """When clients last came or went for the sake of the load."""

    @property
    def session(self) -> SessionId | None:
        """The one that this broker is in."""

    @property
    def partner(self) -> BrokerId | None:
        """With whom."""

    @property
    def is_donor(self) -> bool:
        """Is it the one that gives clients away?"""

    def on_their_way(self, now_ns: Nanoseconds) -> list[Conn]:
        """Clients that were sent away and are not there yet."""
