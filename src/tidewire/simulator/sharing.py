"""What random runs go through with balancing: uneven brokers that share their load, and deaths in the middle of it.

It is drawn apart, as ``trouble.py`` is. Periods are short, so that a few seconds hold many sessions. What is
balanced is output, and how much of it each broker has is drawn too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.drd.config import DrdConfig
from tidewire.model.balance_messages import SessionId
from tidewire.model.messages import DeclaredRole
from tidewire.simulator import faults
from tidewire.simulator.trouble import Deeds
from tidewire.simulator.world import World

_OUTPUTS: Final = (2_000.0, 2_000.0, 5_000.0, 20_000.0)
_LASTING_S: Final = (0.5, 2.0, 5.0)
_POLL_S: Final = 0.02
_MIGRATION_S: Final = 3.0

FAST: Final = BalancingConfig(
    load_window_s=1.0,
    delay_norm_s=1000.0,
    local_pie_s=0.4,
    global_pie_s=0.8,
    local_detect_s_min=0.2,
    local_detect_s_max=0.6,
    global_detect_s_min=0.5,
    global_detect_s_max=1.0,
    stabilise_s=0.5,
    stable_window_s=0.5,
    stable_share=0.5,
    local_ratio=0.05,
    global_ratio=0.1,
    press_samples=8,
    press_s=0.6,
    reply_s=1.0,
    done_s=2.0,
)

DRIVEN: Final = DrdConfig(
    period_s=0.2, low=0.6, high=0.7, reply_s=1.0, migration_s=4.0, profile_samples=50, profile_s=0.4
)
"""Of those policies where the head decides."""

LEASES_S: Final = 60.0
"""So long no session lasts: samples, a dozen clients that have ``_MIGRATION_S`` each, and patience."""


class Sharing:
    """Of one run."""

    def __init__(self, world: World, seed: int, *, policy: str = "peer") -> None:
        self._world = world
        self._policy = policy
        self._chance = Random(f"{seed}/sharing")

    def clusters(self) -> tuple[dict[str, DeclaredRole], list[tuple[str, str]]]:
        """Who there is, in what role, and who is linked to whom: heads in a line, each with its edges."""
        chance = self._chance
        roles: dict[str, DeclaredRole] = {}
        pairs = []
        heads = [f"H{number}" for number in range(chance.choice((1, 1, 2, 3)))]
        for number, head in enumerate(heads):
            roles[head] = "head"
            pairs += [(heads[number - 1], head)] if number else []
            for edge in (f"{head}E{place}" for place in range(chance.choice((2, 2, 3)))):
                roles[edge] = "edge"
                pairs.append((head, edge))
        return roles, pairs

    def populate(self, make_filter: Callable[[Random], str]) -> list[str]:
        """A crowd at one edge: its names."""
        chance, world = self._chance, self._world
        edge = chance.choice([name for name, host in world.brokers.items() if host.config.role == "edge"])
        names = [f"s{number}" for number in range(chance.choice((4, 8, 12)))]
        for name in names:
            client = world.add_client(name, edge, *world.brokers, latency_ms=chance.choice((0.1, 5, 20)))
            client.subscribe(0, make_filter(chance))
        return names

    def broker_options(self) -> dict[str, Any]:
        """Of the next broker."""
        return {
            "balancing": self._policy,
            "balance": FAST,
            "drd": DRIVEN,
            "output_bytes_s": self._chance.choice(_OUTPUTS),
            "load_every_s": 0.2,
            "migration_timeout_s": _MIGRATION_S,
        }

    def episodes(self, *, within_s: float) -> Iterator[tuple[float, float, Deeds]]:
        """Who dies in the middle of a session, and from when to when."""
        chance, start_s = self._chance, self._world.agenda.now_s
        for _ in range(chance.choice((0, 0, 1, 2, 3))):
            begin_s = start_s + chance.random() * within_s
            yield begin_s, begin_s + chance.choice(_LASTING_S), self._death()

    def _death(self) -> Deeds:
        """As soon as there is a session: its donor, its acceptor, or a client that moves."""
        world, kind = self._world, self._chance.choice(("donor", "acceptor", "client"))
        struck: list[str] = []
        is_over = [False]

        def strike() -> None:
            victim = None if is_over[0] else self._victim(kind)
            if victim is not None:
                struck.append(victim)
                faults.crash(world, victim)
            elif not is_over[0]:
                world.at(world.agenda.now_s + _POLL_S, strike)

        def end() -> None:
            is_over[0] = True
            for victim in struck:
                faults.restart(world, victim)

        return strike, end

    def _victim(self, kind: str) -> str | None:
        for name, host in self._world.brokers.items():
            balancing = None if host.node is None else host.node.core.balancing
            if host.node is None or balancing is None or balancing.partner is None or not balancing.is_donor:
                continue
            moving = [conn for conn in balancing.on_their_way(host.now_ns) if conn in host.node.core.clients]
            if kind == "client":
                found = host.node.core.clients.name_of(moving[0]) if moving else None
            else:
                found = name if kind == "donor" else str(balancing.partner)
            if found in self._world.clients or found in self._world.brokers:
                return found
        return None

    def moved(self) -> int:
        """Clients that balancing has moved so far."""
        ended = [
            note
            for host in self._world.brokers.values()
            for _, note in host.notes
            if note.what == "gave clients away" or (note.what == "session ended" and "acceptor" in note.facts)
        ]
        return sum(int(note.facts["moved"]) for note in ended)

    def still_busy(self) -> list[str]:
        """Who does not leave a session? Time passes until those that there are must have ended."""
        world = self._world
        begun, end_s = self._sessions(), world.agenda.now_s + LEASES_S
        while begun and world.agenda.now_s < end_s:
            world.run(1.0)
            now = self._sessions()
            begun = {name: session for name, session in begun.items() if now.get(name) == session}
        return [f"{name} is still in the session {session}" for name, session in begun.items()]

    def _sessions(self) -> dict[str, SessionId]:
        found = {name: host.node.core.balancing.session for name, host in self._world.brokers.items() if host.node}
        return {name: session for name, session in found.items() if session is not None}
