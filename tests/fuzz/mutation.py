"""Inputs that are almost right: good ones, changed a little, again and again; what leads to something new is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from time import monotonic
from typing import Final
from zlib import crc32

import msgspec

HANG_S: Final = 5.0
CORPUS_MAX: Final = 4096
LEAK_BYTES_MAX: Final = 64 << 20
"""What a process may grow by after the first third of a run."""
_KINDS_BITS: Final = 22

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
    """Of outcomes that differ; a few are taken for others."""

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


def fuzz(
    attempt: Callable[[bytes], object],
    corpus: Sequence[bytes],
    *,
    seconds: float,
    seed: int,
    clock: Callable[[], float] = monotonic,
) -> Campaign:
    """Try changed inputs for so long. Whatever ``attempt`` raises ends it, with the input; so does a hang or a leak.

    ``attempt`` answers what kind of outcome it was: an input that leads to a new one is changed further. However many
    kinds there are, what is remembered of them does not grow: it would look like a leak.
    """
    chance, known, found = Random(seed), list(corpus), Campaign()
    seen = bytearray(1 << _KINDS_BITS)
    began = clock()
    settled: int | None = None
    while (now := clock()) < began + seconds:
        data = mutated(chance, known)
        try:
            kind = attempt(data)
        except Exception as error:
            raise AssertionError(f"seed {seed}, input {data!r}") from error
        spent = clock() - now
        found.slowest_s = max(found.slowest_s, spent)
        assert spent < HANG_S, f"seed {seed}: {spent:.1f} s for {data!r}"
        found.tried += 1
        place = crc32(repr(kind).encode()) >> 32 - _KINDS_BITS
        if not seen[place]:
            seen[place] = 1
            found.kinds += 1
            if len(known) < CORPUS_MAX:
                known.append(data)
        if settled is None and now > began + seconds / 3:
            settled = resident_bytes()
    found.grown_bytes = resident_bytes() - (settled or resident_bytes())
    assert found.grown_bytes < LEAK_BYTES_MAX, f"seed {seed}: it grew by {found.grown_bytes >> 20} MB"
    return found


def resident_bytes() -> int:
    """What this process has at present."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
