"""Is there something to balance, and with whom? Detection in an edge and in a head (peer §5).

A look at the load has no effect of its own: it says what the condition becomes, and whom to ask, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.indices import Reading, differences, index_of, smoothed
from tidewire.balancing.load import Load
from tidewire.balancing.pie import Entry
from tidewire.balancing.states import Cause
from tidewire.model.balance_messages import Action, ClusterCondition, Condition, GlobalPie, Indices, LocalPie
from tidewire.model.chance import Chance
from tidewire.model.ids import BrokerId, Nanoseconds

Verdict = Literal["busy", "overloaded", "inert", "stabilizing", "waits", "balanced", "imbalanced"]
"""In a session; in need of help; full, but not in need; not settled yet; behind the overloaded; even; uneven."""


class Candidate(msgspec.Struct, frozen=True):
    """Somebody to ask: a broker, or a cluster by the name of its head."""

    broker: BrokerId
    cluster: BrokerId
    action: Action
    difference: float
    """By what our index exceeds theirs."""


class Finding(msgspec.Struct, frozen=True):
    """What a look has shown."""

    verdict: Verdict
    causes: tuple[Cause, ...] = ()
    """What happens to the condition, in order."""

    candidates: tuple[Candidate, ...] = ()
    action: Action | None = None
    """Of an overload: what would relieve it."""


class Pace:
    """When to look next: after a random pause, or as soon as somebody is heard of who could take something (PIE7)."""

    def __init__(self, *, least_s: float, most_s: float, chance: Chance, now_ns: Nanoseconds) -> None:
        self._least_s, self._most_s = least_s, most_s
        self._chance = chance
        self.next_ns = now_ns
        self.rest(now_ns)

    def rest(self, now_ns: Nanoseconds) -> None:
        """Looked, just now."""
        pause_s = self._least_s + self._chance.random() * (self._most_s - self._least_s)
        self.next_ns = Nanoseconds(now_ns + int(pause_s * 1e9))

    def wake(self, now_ns: Nanoseconds) -> None:
        """Look now."""
        self.next_ns = min(self.next_ns, now_ns)


class Steadiness:
    """Have the indices of a broker stopped moving? It remembers them for as long as that is asked about (§5.1)."""

    def __init__(self, config: BalancingConfig) -> None:
        self._config = config
        self._before: deque[tuple[Nanoseconds, Indices]] = deque()
        self._looks_min = 1

    def add(self, indices: Indices, *, now_ns: Nanoseconds) -> None:
        """One more. The last from before the window stays: who has not looked for long is not steady for that."""
        self._before.append((now_ns, indices))
        begin_ns = now_ns - int(self._config.stable_window_s * 1e9)
        while len(self._before) > 1 and self._before[1][0] <= begin_ns:
            self._before.popleft()

    def forget(self) -> None:
        """What was is no measure of what will be: two looks must agree from now on."""
        self._before.clear()
        self._looks_min = 2

    def is_steady(self) -> bool:
        """Do the last and each before it, within the window, differ by less than the share?"""
        if len(self._before) < self._looks_min:
            return False
        last = self._before[-1][1]
        moved = (differences(last, then, norm_s=self._config.delay_norm_s) for _, then in self._before)
        return all(abs(by) < self._config.stable_share for one in moved for by in one.values())


def look(
    reading: Reading,
    condition: Condition,
    entries: Sequence[Entry[LocalPie]],
    *,
    is_settled: bool,
    is_stuck: bool = False,
    config: BalancingConfig,
) -> Finding:
    """An edge looks at itself and at those that it has heard of (Fig. 3.5).

    ``is_stuck``: it has been full, and not in need, for longer than it waits.
    """
    if condition == "BUSY":
        return Finding("busy")
    is_full = reading.highest >= config.overload_lower
    causes: tuple[Cause, ...] = ("overloaded",) if is_full and condition != "N/A" else ()
    if reading.highest > config.overload_upper:
        action = overload_action(reading, upper=config.overload_upper)
        return Finding("overloaded", causes, _relief(reading, action, entries), action)
    if is_full:
        found = uneven(reading.indices, entries, ratio=config.local_ratio, delay=config.local_delay, config=config)
        return Finding("inert", causes, tuple(found) if is_stuck else ())
    if condition == "N/A":
        causes = ("relieved",)
    if condition != "OK":
        if not is_settled:
            return Finding("stabilizing", causes)
        causes += ("settled",)
    if any(_goes_first(entry.pie, config) for entry in entries):
        return Finding("waits", causes)
    found = uneven(reading.indices, entries, ratio=config.local_ratio, delay=config.local_delay, config=config)
    return Finding("imbalanced" if found else "balanced", causes, tuple(found))


def overload_action(reading: Reading, *, upper: float) -> Action:
    """What to move away for: input above all, since less input lowers the rest too (D3); then what is worst."""
    if reading.input_utilisation > upper:
        return "input"
    engine = max(reading.cpu_utilisation, reading.memory_utilisation)
    return "output" if reading.output_utilisation >= engine else "match"


def _relief(reading: Reading, action: Action, entries: Sequence[Entry[LocalPie]]) -> tuple[Candidate, ...]:
    """Everybody but the overloaded, the least loaded first. Those that are busy may no longer be (§11 row 14)."""
    able = [entry for entry in entries if entry.pie.condition != "N/A"]
    able.sort(key=lambda entry: (index_of(entry.pie.indices, action), entry.broker))
    ours = index_of(reading.indices, action)
    return tuple(
        Candidate(entry.broker, entry.cluster, action, ours - index_of(entry.pie.indices, action)) for entry in able
    )


def _goes_first(pie: LocalPie, config: BalancingConfig) -> bool:
    """Must this broker be let go first? The overloaded are (D4)."""
    return pie.condition == "N/A" and (pie.is_pressing or not config.only_overloaded_go_first)


def uneven(
    ours: Indices,
    entries: Sequence[Entry[LocalPie]] | Sequence[Entry[GlobalPie]],
    *,
    ratio: float,
    delay: float,
    config: BalancingConfig,
) -> list[Candidate]:
    """Those that are OK and whom we exceed, by broker and index, the largest difference first (D2)."""
    found = []
    for entry in entries:
        if entry.pie.condition != "OK":
            continue
        for action, by in differences(ours, entry.pie.indices, norm_s=config.delay_norm_s).items():
            if by > (delay if action == "match" else ratio):
                found.append(Candidate(entry.broker, entry.cluster, action, by))
    return sorted(found, key=lambda one: (-one.difference, one.broker, one.action))


def balanced_set(
    broker: BrokerId, ours: Indices, entries: Sequence[Entry[LocalPie]], *, config: BalancingConfig
) -> list[BrokerId]:
    """Ourselves, and all whose indices are within the local thresholds of ours (D6)."""
    found = [broker]
    for entry in entries:
        apart = differences(ours, entry.pie.indices, norm_s=config.delay_norm_s)
        limits = {"input": config.local_ratio, "output": config.local_ratio, "match": config.local_delay}
        if all(abs(by) <= limits[action] for action, by in apart.items()):
            found.append(entry.broker)
    return sorted(found)


class LocalDetector:
    """An edge's: it smooths what was measured, from look to look."""

    def __init__(self, config: BalancingConfig, *, chance: Chance, now_ns: Nanoseconds) -> None:
        self._config = config
        self.pace = Pace(
            least_s=config.local_detect_s_min, most_s=config.local_detect_s_max, chance=chance, now_ns=now_ns
        )
        self._steadiness = Steadiness(config)
        self._inert_since_ns: Nanoseconds | None = None
        self._begun_anew_ns: Nanoseconds | None = None
        """After which change it began to look anew."""
        self.reading: Reading | None = None
        """As of the last look."""

    def run(
        self,
        load: Load,
        condition: Condition,
        entries: Sequence[Entry[LocalPie]],
        *,
        session_end_ns: Nanoseconds | None,
        changed_ns: Nanoseconds | None,
        now_ns: Nanoseconds,
    ) -> Finding:
        """Look now, unless in a session (S1). ``changed_ns``: when clients last came or went by one."""
        self.pace.rest(now_ns)
        if condition == "BUSY":
            return Finding("busy")
        if changed_ns != self._begun_anew_ns and self._is_clean(changed_ns, now_ns):
            self._begin_anew(changed_ns)
        self.reading = smoothed(load, self.reading, weight=self._config.smoothing)
        self._steadiness.add(self.reading.indices, now_ns=now_ns)
        finding = self._look(
            self.reading, condition, entries, session_end_ns=session_end_ns, changed_ns=changed_ns, now_ns=now_ns
        )
        if finding.verdict != "inert":
            self._inert_since_ns = None
        elif self._inert_since_ns is None:
            self._inert_since_ns = now_ns
        return finding

    def preview(
        self,
        load: Load,
        condition: Condition,
        entries: Sequence[Entry[LocalPie]],
        *,
        session_end_ns: Nanoseconds | None,
        changed_ns: Nanoseconds | None,
        now_ns: Nanoseconds,
    ) -> Finding:
        """What a look would show now; nothing is remembered of it."""
        reading = smoothed(load, self.reading, weight=self._config.smoothing)
        if self.reading is None:
            is_settled = condition == "OK"
            return look(reading, condition, entries, is_settled=is_settled, config=self._config)
        return self._look(
            reading, condition, entries, session_end_ns=session_end_ns, changed_ns=changed_ns, now_ns=now_ns
        )

    def _look(
        self,
        reading: Reading,
        condition: Condition,
        entries: Sequence[Entry[LocalPie]],
        *,
        session_end_ns: Nanoseconds | None,
        changed_ns: Nanoseconds | None,
        now_ns: Nanoseconds,
    ) -> Finding:
        stabilise_ns = int(self._config.stabilise_s * 1e9)
        has_rested = session_end_ns is None or now_ns - session_end_ns >= stabilise_ns
        is_settled = has_rested and self._is_clean(changed_ns, now_ns) and self._steadiness.is_steady()
        since_ns, patience_ns = self._inert_since_ns, int(self._config.inert_s * 1e9)
        is_stuck = (
            since_ns is not None and now_ns - since_ns >= patience_ns and not self._config.as_printed.inert_for_good
        )
        return look(reading, condition, entries, is_settled=is_settled, is_stuck=is_stuck, config=self._config)

    def _begin_anew(self, changed_ns: Nanoseconds | None) -> None:
        self._begun_anew_ns = changed_ns
        if self._config.settles_anew:
            self._steadiness.forget()
            self.reading = None

    def _is_clean(self, changed_ns: Nanoseconds | None, now_ns: Nanoseconds) -> bool:
        """Is nothing from before the last change in what rates are measured over?

        From then on what was before it counts no more: neither is it smoothed into what is, nor must the two be alike.
        """
        if changed_ns is None or not self._config.settles_anew:
            return True
        return now_ns - changed_ns >= int(self._config.load_window_s * 1e9)


def look_around(
    ours: Indices,
    condition: ClusterCondition,
    entries: Sequence[Entry[GlobalPie]],
    *,
    without: BrokerId | None = None,
    config: BalancingConfig,
) -> Finding:
    """A head compares its cluster with those that it has heard of, one entry for each (§5.2)."""
    if condition == "BUSY":
        return Finding("busy")
    if condition == "OK" and any(entry.pie.condition == "N/A" for entry in entries):
        return Finding("waits")
    found: dict[BrokerId, Candidate] = {}
    for one in uneven(ours, entries, ratio=config.global_ratio, delay=config.global_delay, config=config):
        if one.broker != without:
            found.setdefault(one.broker, one)
    return Finding("imbalanced" if found else "balanced", (), tuple(found.values()))
