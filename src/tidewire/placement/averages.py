"""What is the rate of each thing, over the last minute or so? An average, so that a peak moves nobody (bad §2.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Generic, TypeVar

from tidewire.model.ids import Nanoseconds

Key = TypeVar("Key")


class Averages(Generic[Key]):
    """Bytes per second by key. What was not told of in a stretch of time had no bytes then."""

    def __init__(self, window_s: float) -> None:
        self._window_ns = int(window_s * 1e9)
        self._stretches: deque[tuple[int, float, Mapping[Key, float]]] = deque()
        """When each one ended, how long it was, and what came."""

    def add(self, counted: Mapping[Key, float], *, seconds: float, now_ns: Nanoseconds) -> None:
        """So many bytes have come in the stretch of time that ends now."""
        assert seconds > 0
        self._stretches.append((now_ns, seconds, counted))
        while self._stretches[0][0] <= now_ns - self._window_ns:
            self._stretches.popleft()

    def told(self) -> dict[Key, tuple[float, float]]:
        """Of each key that was told of within the window: its bytes, and for how many seconds it was told of."""
        found: dict[Key, tuple[float, float]] = {}
        for _, seconds, counted in self._stretches:
            for key, size in counted.items():
                total, told_s = found.get(key, (0.0, 0.0))
                found[key] = (total + size, told_s + seconds)
        return found

    def rates(self) -> dict[Key, float]:
        """Of all that has come within the window."""
        seconds = sum(one[1] for one in self._stretches)
        found: dict[Key, float] = {}
        for _, _, counted in self._stretches:
            for key, size in counted.items():
                found[key] = found.get(key, 0.0) + size
        return {key: size / seconds for key, size in found.items()}
