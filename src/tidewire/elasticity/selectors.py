"""Which of several slices is responsible? Stable, and the same in every process (esilbops §1.1).

``modulo`` is the paper's. With ``jump`` and ``rendezvous`` hardly more moves than has to when slices come or go: the
first is for those that come and go at the end, the second for any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, TypeVar

from tidewire.model.errors import UnknownName

_Slice = TypeVar("_Slice", bound=str)
_MASK: Final = 2**64 - 1


def mixed(key: int) -> int:
    """A number of 64 bits, each of which depends on all of the key's (the finaliser of splitmix64)."""
    key = (key + 0x9E3779B97F4A7C15) & _MASK
    key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & _MASK
    return key ^ (key >> 31)


def _modulo(slices: Sequence[str], key: int) -> int:
    return key % len(slices)


def _jump(slices: Sequence[str], key: int) -> int:
    """Lamping and Veach: with one slice more, one in so many keys moves, and to the new one."""
    state, found, next_ = mixed(key), -1, 0
    while next_ < len(slices):
        found = next_
        state = (state * 2862933555777941757 + 1) & _MASK
        next_ = int((found + 1) * (1 << 31) / ((state >> 33) + 1))
    return found


def _rendezvous(slices: Sequence[str], key: int) -> int:
    """The slice that goes best with the key: if it goes, only its keys move; one that comes takes only what it gets."""
    return max(range(len(slices)), key=lambda i: (mixed(key ^ _name_hash(slices[i])), slices[i]))


@lru_cache(maxsize=4096)
def _name_hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


SELECTORS: Final[dict[str, Callable[[Sequence[str], int], int]]] = {
    "modulo": _modulo,
    "jump": _jump,
    "rendezvous": _rendezvous,
}


def chosen(selector: str, slices: Sequence[_Slice], key: int) -> _Slice:
    """The slice that is responsible for this key."""
    if selector not in SELECTORS:
        raise UnknownName(selector, what="selector", known=SELECTORS)
    return slices[SELECTORS[selector](slices, key)]
