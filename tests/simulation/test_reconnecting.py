"""A session whose brokers are away: every address has its turn, and the pauses grow."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from tidewire.client.config import ClientConfig
from tidewire.client.core import ClientCore
from tidewire.client.events import Finished, SubscribeTo
from tidewire.model.errors import Unavailable
from tidewire.model.ids import Nanoseconds
from tidewire.wire.connections import Dial, DialFailed, TimePassed


def test_every_address_is_tried_again_and_again() -> None:
    config = ClientConfig(addresses=["X:1", "Y:1", "Z:1"], reconnect_s=0.1, reconnect_s_max=1.0, give_up_s=20.0)
    core = ClientCore(config, chance=Random(1))
    now = 0
    dialled: list[tuple[float, str]] = []
    failed: list[Unavailable] = []
    effects = core.handle(SubscribeTo(1, [1], [b"\x90"]), now_ns=Nanoseconds(now))
    while now < 25 * 10**9:
        for effect in effects:
            if isinstance(effect, Dial):
                dialled.append((now / 1e9, effect.address))
                core.handle(DialFailed(effect.order, "refused"), now_ns=Nanoseconds(now))
            elif isinstance(effect, Finished):
                assert isinstance(effect.error, Unavailable)
                failed.append(effect.error)
        now = max(now + 1, core.deadline_ns() or now + 10**9)
        effects = core.handle(TimePassed(), now_ns=Nanoseconds(now))
    assert {address for _, address in dialled[:6]} == {"X:1", "Y:1", "Z:1"}
    pauses = [after - before for (before, _), (after, _) in pairwise(dialled)]
    assert pauses[0] <= 0.15
    assert all(0.5 <= pause <= 1.5 for pause in pauses[6:])
    assert len(failed) == 1
    assert "X:1, Y:1, Z:1" in failed[0].message
