"""Is it time to move subscribers, and whom? Algorithm 1 of bad §4 with the readings of §4.3, by a policy's name."""

from __future__ import annotations

from typing import Final

import msgspec

from tidewire.model.errors import UnknownName
from tidewire.model.ids import Nanoseconds
from tidewire.placement.config import StageConfig
from tidewire.placement.loads import Balance, Loads, LoadSnapshot
from tidewire.placement.migrations import MIGRATIONS, migrate
from tidewire.placement.plans import Plan, net_moves
from tidewire.placement.shuffles import SHUFFLES


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy does at which stage."""

    migration: str | None = None
    """What moves some, beyond ``migrate_above``."""
    shuffle: str | None = None
    """What chooses all places anew, beyond ``shuffle_above``."""
    shuffles_early: bool = False
    """Does it do so beyond ``migrate_above`` already? It can, if few move."""


POLICIES: Final[dict[str, Policy]] = {
    "never": Policy(),
    "ldm": Policy(migration="ldm"),
    "sdm": Policy(migration="sdm"),
    "gsh": Policy(shuffle="gsh"),
    "ldm-gsh": Policy(migration="ldm", shuffle="gsh"),
    "sdm-gsh": Policy(migration="sdm", shuffle="gsh"),
    "sticky": Policy(shuffle="sticky", shuffles_early=True),
}


class Staged:
    """Decides, snapshot by snapshot. Remembers when it has shuffled last, and nothing else."""

    def __init__(self, policy: str, config: StageConfig) -> None:
        if policy not in POLICIES:
            raise UnknownName(policy, what="balancing policy", known=POLICIES)
        self._policy = POLICIES[policy]
        self._config = config
        self._shuffled_ns: int | None = None

    def is_due(self, balance: Balance, *, now_ns: Nanoseconds) -> bool:
        """Are the loads such that somebody may have to move? If not, no snapshot need be taken."""
        return self._may_migrate(balance) or self._may_shuffle(balance, now_ns)

    def plan(self, snapshot: LoadSnapshot, *, now_ns: Nanoseconds) -> Plan:
        """Who is to move? Nobody, if the load is even enough, too small to matter, or no move helps."""
        loads = Loads(snapshot)
        before = loads.balance()
        moved: list[int] = []
        stages: list[str] = []
        if self._policy.shuffle is not None and self._may_shuffle(before, now_ns):
            shuffled = SHUFFLES[self._policy.shuffle](snapshot, self._config)
            moved += [i for i, j in enumerate(shuffled.where) if j != loads.where[i]]
            if moved:
                stages.append(self._policy.shuffle)
                self._shuffled_ns = now_ns
                loads = shuffled
        if self._policy.migration is not None:
            steps = [one.subscriber for one in migrate(loads, self._config, MIGRATIONS[self._policy.migration])]
            moved += steps
            stages += [self._policy.migration] if steps else []
        predicted = loads.measured()
        return Plan(
            moves=net_moves(snapshot, loads, moved),
            stages=tuple(stages),
            reason=self._reason(predicted),
            before=before,
            predicted=predicted,
            made_ns=now_ns,
        )

    def _may_migrate(self, balance: Balance) -> bool:
        config = self._config
        is_uneven = balance.cov > config.migrate_above and balance.mean > config.migrate_load_min
        return self._policy.migration is not None and is_uneven

    def _may_shuffle(self, balance: Balance, now_ns: Nanoseconds) -> bool:
        config = self._config
        if self._policy.shuffle is None:
            return False
        if self._policy.shuffles_early:
            return balance.cov > config.migrate_above and balance.mean > config.migrate_load_min
        if self._shuffled_ns is not None and now_ns < self._shuffled_ns + int(config.shuffle_pause_s * 1e9):
            return False
        return balance.cov > config.shuffle_above and balance.mean > config.shuffle_load_min

    def _reason(self, balance: Balance) -> str:
        if balance.mean <= self._config.migrate_load_min:
            return "there is little load"
        if balance.cov <= self._config.migrate_above:
            return "even enough"
        return "nothing else helps" if self._policy.migration or self._policy.shuffles_early else "not uneven enough"
