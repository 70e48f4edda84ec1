"""Who decides that clients move to where there is less to do? By name: nobody, the edges, or the head."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from tidewire.balancing.drd.policies import DRIVEN_BY_HEADS
from tidewire.balancing.edge_balancer import EdgeBalancer
from tidewire.broker.balance_documents import BalanceStatus
from tidewire.broker.balancing_parts import Balances, Parts
from tidewire.broker.driven_balancing import DrivenBalancing
from tidewire.broker.effects import Effect, Note
from tidewire.broker.events import Counted, Measured, Sampled
from tidewire.broker.peer_balancing import PeerBalancing
from tidewire.model.balance_messages import Bulletin, LoadReport, SessionId
from tidewire.model.errors import BadConfiguration
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import Hello, Welcome
from tidewire.placement.choices import Location

POLICIES: Final[dict[str, Callable[[Parts], Balances | None]]] = {
    "never": lambda _parts: None,
    "peer": PeerBalancing,
    **dict.fromkeys(DRIVEN_BY_HEADS, DrivenBalancing),
}


class Balancing:
    """A broker's part in balancing, whoever decides; nothing happens where nobody does."""

    def __init__(self, parts: Parts) -> None:
        self._config = parts.config
        self.policy = POLICIES[parts.config.balancing](parts)

    @property
    def is_on(self) -> bool:
        """Does somebody decide?"""
        return self.policy is not None

    @property
    def edge(self) -> EdgeBalancer | None:
        """What an edge that decides by itself knows."""
        return self.policy.edge if isinstance(self.policy, PeerBalancing) else None

    def report(self) -> LoadReport:
        """How loaded this broker is, in full: where edges decide."""
        assert isinstance(self.policy, PeerBalancing)
        return self.policy.report()

    def deadline_ns(self) -> int | None:
        """When something is due next."""
        return None if self.policy is None else self.policy.deadline_ns()

    def handle(self, event: Measured | Sampled | Counted, *, now_ns: Nanoseconds) -> Iterable[Effect]:
        """What the node has measured, or kept."""
        return () if self.policy is None else self.policy.handle(event, now_ns=now_ns)

    def heard(self, conn: Conn, bulletin: Bulletin, *, now_ns: Nanoseconds) -> Iterable[Effect]:
        """A neighbour has said something about load."""
        return () if self.policy is None else self.policy.heard(conn, bulletin, now_ns=now_ns)

    def neighbours_changed(self, now_ns: Nanoseconds) -> Iterable[Effect]:
        """Neighbours, or what they and we are, may have changed."""
        return () if self.policy is None else self.policy.neighbours_changed(now_ns)

    def tick(self, now_ns: Nanoseconds) -> Iterable[Effect]:
        """What is due."""
        return () if self.policy is None else self.policy.tick(now_ns)

    def moves_ended(self, ended: Sequence[tuple[Conn, bool]], now_ns: Nanoseconds) -> list[Effect]:
        """Clients have gone where they were sent, or stay."""
        return [] if self.policy is None else self.policy.moves_ended(ended, now_ns)

    def has_found_nobody(self) -> bool:
        """Since this was last asked: was there an overload that nobody at all could take?"""
        return isinstance(self.policy, DrivenBalancing) and self.policy.has_found_nobody()

    def warnings(self) -> list[Note]:
        """What is unwise about the settings: to be told at the start (peer D7)."""
        return [] if self.policy is None else self.policy.warnings()

    def welcome(self, hello: Hello, welcome: Welcome, now_ns: Nanoseconds) -> Welcome:
        """The answer to a greeting, with the place first that the policy has chosen for what is wanted."""
        if self.policy is None or not welcome.subscribe_at:
            return welcome
        location = None if hello.location is None else Location(lat=hello.location[0], lon=hello.location[1])
        placed = self.policy.placed(hello.wanted, location, now_ns)
        if placed is None:
            return welcome
        others = [address for address in welcome.subscribe_at if address != placed]
        return replace(welcome, subscribe_at=[placed, *others])

    # -- people --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Can it be steered here? BadConfiguration or Unavailable if not."""
        if self.policy is None:
            raise BadConfiguration(
                f'{self._config.broker} does not balance (balancing = "{self._config.balancing}"): set balancing ='
                ' "peer" or "drd" in the settings of all brokers of the network, and start them again'
            )
        self.policy.check()

    def rebalance(self, conn: Conn, request: int, *, is_dry_run: bool, now_ns: Nanoseconds) -> Iterator[Effect]:
        """An operator, who may, wants a look now; or to know what would follow from one. See ``check``."""
        assert self.policy is not None
        return self.policy.rebalance(conn, request, is_dry_run=is_dry_run, now_ns=now_ns)

    def gone(self, conn: Conn) -> None:
        """This operator waits no longer."""
        if self.policy is not None:
            self.policy.gone(conn)

    def status(self, *, now_ns: Nanoseconds) -> BalanceStatus | None:
        """How it goes; None if it is not wanted."""
        return None if self.policy is None else self.policy.status(now_ns=now_ns)

    # -- sessions ------------------------------------------------------------------------------------------------------

    @property
    def changed_ns(self) -> Nanoseconds | None:
        """When clients last came or went for the sake of the load."""
        return None if self.policy is None else self.policy.changed_ns

    @property
    def session(self) -> SessionId | None:
        """The one that this broker is in."""
        return None if self.policy is None else self.policy.session

    @property
    def partner(self) -> BrokerId | None:
        """With whom it is in a session; the first, if they are several."""
        return None if self.policy is None else self.policy.partner

    @property
    def is_donor(self) -> bool:
        """Is it the one that gives clients away?"""
        return self.policy is not None and self.policy.is_donor

    def on_their_way(self, now_ns: Nanoseconds) -> list[Conn]:
        """Clients that were sent away and are not there yet."""
        return [] if self.policy is None else self.policy.on_their_way(now_ns)
