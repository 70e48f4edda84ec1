"""A look at a whole network: from some addresses, by way of neighbours and coordinators, all at once.

``Surveyor.look`` asks everyone it can find, each with a time limit of its own; who does not answer is named. A second
look has rates. ``survey`` takes both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic, perf_counter, time
from typing import Any, Final

import msgspec

from tidewire.broker.status import BrokerStatus
from tidewire.live.credentials import ANONYMOUS, Credentials
from tidewire.live.operate import balance_of, members_of, status_of
from tidewire.live.sockets import is_loopback, is_secured, parse_address
from tidewire.model.errors import PeerError, TidewireError, Unavailable
from tidewire.observe.network import Answered, CoordinatorView, KnownMember, Network, Unanswered
from tidewire.observe.rates import Rates, rates_between

AT_ONCE_MAX: Final = 64
"""Questions under way."""
ANSWER_S: Final = 2.0
BETWEEN_S: Final = 1.0
SOON_S: Final = 0.1
MEMORY_S: Final = 300.0
"""A broker that has not answered for so long is no longer asked, unless somebody names it."""

_Address = tuple[str, int]


class Surveyor:
    """Looks at one network again and again. It remembers whom it met, and asks them though nobody names them now."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        coordinator: str | None = None,
        seconds: float = ANSWER_S,
        credentials: Credentials = ANONYMOUS,
    ) -> None:
        self._coordinator = coordinator
        self._addresses = {_place(address): address for address in addresses}
        self._seconds = seconds
        self._credentials = credentials
        self._met: dict[str, _Met] = {}
        """By name."""

    async def look(self) -> Network:
        """Ask everyone, and wait until the last has answered or its time is over."""
        look = _Look(self._seconds, self._credentials)
        known = {_place(met.where): name for name, met in self._met.items()}
        for place, address in self._addresses.items():
            look.meet(address, known.get(place, ""), named_by="")
        for name, met in self._met.items():
            look.meet(met.where, name, named_by=name)
        if self._coordinator is not None:
            look.meet_coordinator(self._coordinator)
        await look.done()
        now = monotonic()
        brokers = [self._with_rates(answered, now) for _, answered in sorted(look.brokers.items())]
        self._met = {name: met for name, met in self._met.items() if met.at_s > now - MEMORY_S}
        return Network(at_unix_s=time(), brokers=brokers, silent=look.silent(), coordinators=look.coordinators())

    def _with_rates(self, answered: Answered, now: float) -> Answered:
        met = self._met.setdefault(answered.status.broker, _Met())
        rates = met.rates(answered, now)
        return answered if rates is None else msgspec.structs.replace(answered, rates=rates)


class _Met:
    """A broker that has answered before. Looks that follow each other closely have the rates of a longer time."""

    def __init__(self) -> None:
        self.at_s = 0.0
        """When it last answered."""
        self.where = ""
        self._last: BrokerStatus | None = None
        self._before: BrokerStatus | None = None

    def rates(self, answered: Answered, now: float) -> Rates | None:
        """What has passed since the look before, or since the one before that if this one comes soon."""
        self.at_s, self.where, status = now, answered.where, answered.status
        if self._last is not None and self._last.incarnation != status.incarnation:
            self._last = self._before = None
        is_soon = self._last is not None and status.uptime_s - self._last.uptime_s < SOON_S
        since = self._before if is_soon and self._before is not None else self._last
        if not is_soon:
            self._before, self._last = self._last, status
        return None if since is None else rates_between(since, status)


class _Look:
    """One round of questions. Everyone is asked once, by whatever name and address it is known."""

    def __init__(self, seconds: float, credentials: Credentials) -> None:
        self._seconds = seconds
        self._credentials = credentials
        self._places: dict[_Address, None] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._silent: list[Unanswered] = []
        self.brokers: dict[str, Answered] = {}
        self._coordinators: dict[_Address, CoordinatorView] = {}

    def meet(self, address: str, broker: str, *, named_by: str) -> None:
        """Ask whoever is there, if it is not asked already."""
        place = _place(address)
        if place not in self._places:
            self._places[place] = None
            self._tasks.append(asyncio.create_task(self._ask(address, broker, named_by)))

    def meet_coordinator(self, address: str) -> None:
        """Ask it, though no broker may name it."""
        self._tasks.append(asyncio.create_task(self._ask_coordinator(address)))

    def coordinators(self) -> list[CoordinatorView]:
        """Those that were asked."""
        return list(self._coordinators.values())

    async def done(self) -> None:
        """Everyone has been asked; each answer may have named more."""
        try:
            while waiting := [task for task in self._tasks if not task.done()]:
                await asyncio.gather(*waiting)
            for task in self._tasks:
                task.result()
        finally:
            for task in self._tasks:
                task.cancel()

    def silent(self) -> list[Unanswered]:
        """Who did not answer, but for those that answered at another address."""
        return sorted((one for one in self._silent if one.broker not in self.brokers), key=lambda one: one.address)

    async def _ask(self, address: str, broker: str, named_by: str) -> None:
        try:
            async with self._turns, _within(self._seconds):
                began, asked_at = perf_counter(), time()
                document = await status_of(address, seconds=self._seconds, credentials=self._credentials)
                took_s = perf_counter() - began
            status = msgspec.json.decode(document, type=BrokerStatus)
        except TidewireError as error:
            if named_by or not isinstance(error, PeerError) or not await self._is_coordinator(address):
                self._was_silent(broker, address, error, named_by)
            return
        except msgspec.DecodeError as error:
            unread = PeerError(f"its status cannot be read ({error}): is it of another version?")
            self._was_silent(broker, address, unread, named_by)
            return
        ahead_s = None if status.unix_s is None else status.unix_s - (asked_at + took_s / 2)
        answered = Answered(status=status, where=address, rates=None, took_s=took_s, clock_ahead_s=ahead_s)
        self.brokers.setdefault(status.broker, answered)
        for neighbour in status.neighbours:
            self.meet(_seen_from(address, neighbour.address), neighbour.broker, named_by=status.broker)
        for missing in status.unreached:
            self.meet(_seen_from(address, missing), "", named_by=status.broker)
        if status.coordinator is not None:
            await self._ask_coordinator(_seen_from(address, status.coordinator), told=status.coordinator)

    async def _is_coordinator(self, address: str) -> bool:
        """Whoever was asked is no broker: is it the coordinator?"""
        is_one = await self._ask_coordinator(address)
        if not is_one:
            self._coordinators.pop(_place(address), None)
        return is_one

    def _was_silent(self, broker: str, address: str, error: TidewireError, named_by: str) -> None:
        self._silent.append(
            Unanswered(broker=broker, address=address, code=error.code, reason=error.message, named_by=named_by)
        )

    async def _ask_coordinator(self, where: str, *, told: str = "") -> bool:
        """Does a coordinator answer there? Each is asked once; ``told``: what brokers call it."""
        place, address = _place(where), told or where.removeprefix("tidewires://").removeprefix("tidewire://")
        if place in self._coordinators:
            return not self._coordinators[place].reason
        self._coordinators[place] = CoordinatorView(address=address, members=[], reason="")
        try:
            async with self._turns, _within(self._seconds):
                members = await members_of(where, seconds=self._seconds, credentials=self._credentials)
                balance = await balance_of(where, seconds=self._seconds, credentials=self._credentials)
        except TidewireError as error:
            self._coordinators[place] = CoordinatorView(
                address=address, members=[], reason=error.message, code=error.code
            )
            return False
        known = [
            KnownMember(broker=one.broker, address=one.address, declared=one.declared, is_alive=one.is_alive)
            for one in members
        ]
        self._coordinators[place] = CoordinatorView(
            address=address,
            members=known,
            reason="",
            placement=balance.placement,
            balance=balance if balance.brokers else None,
        )
        for one in members:  # who has left it may be there all the same, or is to be missed
            self.meet(_seen_from(where, one.address), one.broker, named_by=f"the coordinator at {address}")
        return True


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """All of it, dialling too; Unavailable if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable(f"no answer within {seconds:g} s") from None


async def survey(
    addresses: Sequence[str],
    *,
    between_s: float = BETWEEN_S,
    seconds: float = ANSWER_S,
    credentials: Credentials = ANONYMOUS,
) -> Network:
    """Two looks, so much apart: the second one, with rates. With 0: one look, without."""
    surveyor = Surveyor(addresses, seconds=seconds, credentials=credentials)
    network = await surveyor.look()
    if between_s > 0 and network.brokers:
        await asyncio.sleep(between_s)
        network = await surveyor.look()
    return network


def _place(address: str) -> _Address:
    """One spelling for an address."""
    host, port = parse_address(address)
    return ("127.0.0.1" if is_loopback(host) else host.lower()), port


def _seen_from(asked: str, told: str) -> str:
    """An address as we reach it that a broker told, asked there: its loopback, or every interface, is that host.

    Where one is secured, all are.
    """
    (host, _), (theirs, port) = parse_address(asked), parse_address(told)
    if theirs in ("0.0.0.0", "::", "") or (is_loopback(theirs) and not is_loopback(host)):
        theirs = host
    shown = f"[{theirs}]:{port}" if ":" in theirs else f"{theirs}:{port}"
    return f"tidewires://{shown}" if is_secured(asked) else shown
