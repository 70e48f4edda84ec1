"""Connections that never say who they are: a byte of a frame every so many seconds, and a new one when one is ended.

    python -m tidewire.benchmarks.loris PORT CONNECTIONS SECONDS

It prints a line when all are connected, and one more at the end of standard input: how many of them were ended.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from typing import Final

from tidewire.live.process import allow_many_files

_STEPS: Final = 20
"""In which they all have their turn: never all in the same moment."""
_FRAME: Final = b"\x00\x10\x00\x00"
"""The length of a frame that never ends."""


class Attacker:
    """One of them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.ended = -1
        self._connect()

    def _connect(self) -> None:
        self.ended += 1
        self._sent = 0
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._socket.connect_ex(("127.0.0.1", self._port))

    def drip(self) -> None:
        """The next byte; by a new connection if the old one has ended."""
        try:
            self._socket.send(_FRAME[self._sent : self._sent + 1] or b"\0")
            self._sent += 1
        except BlockingIOError:
            pass
        except OSError:
            self._socket.close()
            self._connect()


def main(port: int, count: int, pace_s: float) -> None:
    """Until standard input ends."""
    allow_many_files()
    attackers = [Attacker(port) for _ in range(count)]
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    for step in range(1 << 62):
        started = time.monotonic()
        for attacker in attackers[step % _STEPS :: _STEPS]:
            attacker.drip()
        pause = max(0.0, pace_s / _STEPS - (time.monotonic() - started))
        if select.select([sys.stdin], [], [], pause)[0]:
            break
    sys.stdout.write(f"{sum(attacker.ended for attacker in attackers)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
