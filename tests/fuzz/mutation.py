"""Inputs that are almost right: good ones, changed a little, again and again; what leads to something new is kept."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from random import Random
from time import monotonic
from typing import Final

import msgspec

HANG_S: Final = 5.0
CORPUS_MAX: Final = 4096
LEAK_BYTES_MAX: Final = 64 << 20
"""What a process may grow by after the first third of a run."""

_WORDS: Final = (
    b"\x00",
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\x80" * 8,
    b"\xc1",
    b"\xdf\xff\xff\xff\xff",
    b"%s%n",
    b"'",
)


class Campaign(msgspec.Struct):
    """What came of it."""

    tried: int = 0
    kinds: int = 0
    """Of outcomes that differ."""

    slowest_s: float = 0.0
    grown_bytes: int = 0


def mutated(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """One of the corpus, with up to eight changes."""
    data = bytearray(chance.choice(corpus))
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice((1, 1, 2, 4, 16)))
        change = chance.randrange(7)
        if change == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif change == 1 and at < len(data):
            data[at] = chance.randrange(256)
        elif change == 2:
            del data[at:end]
        elif change == 3:
            data[at:at] = chance.choice(_WORDS)
        elif change == 4:
            data[at:at] = data[at:end] * chance.choice((1, 2, 50))
        elif change == 5:
            other = chance.choice(corpus)
            begin = chance.randrange(len(other) + 1)
            data[at:] = other[begin:]
        else:
            del data[at:]
    return bytes(data[: 1 << 20])


def fuzz(attempt: Callable[[bytes], object], corpus: Sequence[bytes], *, seconds: float, seed: int) -> Campaign:
    """Try changed inputs for so long. Whatever ``attempt`` raises ends it, with the input; so does a hang or a leak.

    ``attempt`` answers what kind of outcome it was: an input that leads to a new one is changed further.
    """
    chance, known, found = Random(seed), list(corpus), Campaign()
    seen: dict[object, None] = {}
    began = monotonic()
    settled: int | None = None
    while (now := monotonic()) < began + seconds:
        data = mutated(chance, known)
        try:
            kind = attempt(data)
        except Exception as error:
            raise AssertionError(f"seed {seed}, input {data!r}") from error
        spent = monotonic() - now
        found.slowest_s = max(found.slowest_s, spent)
        assert spent < HANG_S, f"seed {seed}: {spent:.1f} s for {data!r}"
        found.tried += 1
        if kind not in seen:
            seen[kind] = None
            if len(known) < CORPUS_MAX:
                known.append(data)
        if settled is None and now > began + seconds / 3:
            settled = peak_bytes()
    found.kinds = len(seen)
    found.grown_bytes = peak_bytes() - (settled or peak_bytes())
    assert found.grown_bytes < LEAK_BYTES_MAX, f"seed {seed}: it grew by {found.grown_bytes >> 20} MB"
    return found


def peak_bytes() -> int:
    """The most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
