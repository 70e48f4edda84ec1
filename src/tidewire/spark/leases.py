"""One data cluster at a time in a store that many machines reach: who has the lease says so, again and again.

Leases are numbered, and each number is had by one, whoever else tries at the same moment. A holder says every few
seconds that it lives. If it has not for longer than a lease lasts, another takes the next number; and what the first
one notes from then on is where nobody looks any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from tidewire.model.errors import StoreLocked, TidewireError, Unavailable
from tidewire.spark.places import Place

LEASE_S: Final = 20.0
"""One that has said nothing for so long has lost it."""
BEAT_S: Final = 4.0
_DIGITS: Final = 12


class Holder(msgspec.Struct, frozen=True):
    """Who has a lease, or had it."""

    node: str
    """A data cluster's folder on its machine: no two are at work with the same one at a time."""

    machine: str
    beat: int = 0
    is_over: bool = False


class Lease:
    """Ours, once it is taken."""

    def __init__(self, place: Place, *, node: str, machine: str, lease_s: float = LEASE_S) -> None:
        self._place = place
        self._holder = Holder(node, machine)
        self._lease_s = lease_s
        self._beat_s = lease_s * BEAT_S / LEASE_S
        self.number = 0
        self._lost: TidewireError | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._hold, name="lease", daemon=True)

    def take(self, tell: Callable[[str], None]) -> None:
        """Now, or when the last holder is known to be dead; StoreLocked if it lives."""
        last = self._newest()
        if last and self._lives(last, tell):
            known = self._read(last)
            raise StoreLocked(
                f"another data cluster, on {known.machine if known else 'a machine that did not say its name'}, is at"
                f" work in {self._place}: end it, or take another place"
            )
        if not (self._folder(last + 1) / "holder").create(msgspec.json.encode(self._holder)):
            raise StoreLocked(f"another data cluster began at the same moment in {self._place}: end it, or try again")
        self.number = last + 1
        self._write()
        for number in self._numbers():
            if number < last:
                self._folder(number).delete_all()
        self._thread.start()

    def check(self) -> None:
        """StoreLocked or Unavailable if it is ours no longer."""
        if self._lost is not None:
            raise self._lost

    def look(self) -> None:
        """The same, and not as of a moment ago."""
        if self._newest() > self.number:
            self._lost = StoreLocked(
                f"another data cluster has taken over {self._place}: this one was away for too long"
            )
        self.check()

    def release(self) -> None:
        """The next one need not wait."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.number and self._lost is None:
            self._holder = msgspec.structs.replace(self._holder, is_over=True)
            self._write()

    def _lives(self, number: int, tell: Callable[[str], None]) -> bool:
        """Does who has this number say anything, for as long as a lease lasts?"""
        first = self._read(number)
        ours = self._holder.node, self._holder.machine
        if first is not None and (first.is_over or (first.node, first.machine) == ours):
            return False  # its node is ours, and that is locked
        tell(f"waits for up to {self._lease_s:g} s: a data cluster is or was at work in {self._place}")
        until_s = time.monotonic() + self._lease_s
        while time.monotonic() < until_s:
            time.sleep(self._beat_s / 4)
            if (now := self._read(number)) != first:
                return now is None or not now.is_over
        return False

    def _hold(self) -> None:
        said_s = time.monotonic()
        while not self._ending.wait(self._beat_s):
            try:
                self.look()
                self._write()
                said_s = time.monotonic()
            except StoreLocked:
                return
            except TidewireError as error:
                if time.monotonic() - said_s > self._lease_s:
                    self._lost = Unavailable(f"for {self._lease_s:g} s the store could not be written: {error.message}")
                    return

    def _write(self) -> None:
        self._holder = msgspec.structs.replace(self._holder, beat=self._holder.beat + 1)
        self._beat(self.number).write(msgspec.json.encode(self._holder))

    def _read(self, number: int) -> Holder | None:
        try:
            return msgspec.json.decode(self._beat(number).read(), type=Holder)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _numbers(self) -> list[int]:
        return [int(name) for name in self._place.names() if name.isdigit()]

    def _newest(self) -> int:
        return max(self._numbers(), default=0)

    def _folder(self, number: int) -> Place:
        return self._place / f"{number:0{_DIGITS}d}"

    def _beat(self, number: int) -> Place:
        return self._folder(number) / "beat"
