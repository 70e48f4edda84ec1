"""`tidewire bench match`: the kernel's index beside the numpy scan, on one workload, in one run."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidewire._kernel._native import Index, Matches, Poset, encode_event, join_events
from tidewire.benchmarks.data import refuse_missing
from tidewire.benchmarks.measure import PAIRS_MIN, Contender, Ratio, Timing, cpu_seconds, ratio, take_turns
from tidewire.benchmarks.numpy_scan import FilterTable, NumpyScan
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.benchmarks.workloads import Integers, Workload, make_workload, refuse_impossible
from tidewire.matching.protocol import NUMBERS_MAX
from tidewire.model.errors import UsageError

BATCH_EVENTS: Final = 128
INSERT_BATCH: Final = 10_000
REMOVE_BATCH: Final = 1_000
CHURN: Final = 0.1
QUICK_TURN_S: Final = 0.02
POSET_SUBSCRIPTIONS_MAX: Final = 100_000
CHECKED_EVENTS: Final = 32
COUNTED_EVENTS: Final = 1_024
FURTHER_SUBSCRIPTION_BYTES: Final = 8

_Number = TypeVar("_Number", bound=np.generic)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured."""

    workload: str
    filters: int = 100_000
    events: int = 20_000
    seed: int = 1
    folder: Path | None = None
    pairs: int = 11
    turn_s: float = 0.25
    with_extras: bool = True
    """Also the ids of all, the scan by shape, matching after churn, and the poset."""

    def __post_init__(self) -> None:
        if self.pairs < PAIRS_MIN:
            raise UsageError(f"{self.pairs} pairs: an interval of 95 % needs at least {PAIRS_MIN}")

    def shortened(self) -> Plan:
        """The same with as few and as short turns as make any sense."""
        return msgspec.structs.replace(self, pairs=PAIRS_MIN, turn_s=QUICK_TURN_S)


class Rates(msgspec.Struct, frozen=True):
    """Subscriptions taken and given up per second of CPU, many at a time; removals in random order."""

    inserts_per_s: float
    removes_per_s: float


class SingleInserts(msgspec.Struct, frozen=True):
    """What one subscription waits for when each is taken on its own, in µs of CPU."""

    us_median: float
    us_p9999: float
    us_max: float


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one contender."""

    us_per_event: float
    us_per_event_wall: float
    events_per_s: float
    bytes_per_filter: float
    inserts_per_s: float
    removes_per_s: float
    us_per_event_after_churn: float | None = None
    modes: dict[str, Timing] = {}
    single_inserts: SingleInserts | None = None
    with_poset: Rates | None = None
    simd: str | None = None


class Matched(msgspec.Struct, frozen=True):
    """How much an event of the workload finds, on average."""

    subscriptions: float
    filters: float
    destinations: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it: for us, for the peer, and the ratio of CPU time per event (above one: we take less)."""

    benchmark: str
    workload: str
    data: str
    seed: int
    machine: str
    filters: int
    distinct_filters: int
    destinations: int
    events: int
    pairs: int
    events_checked: int
    matches_per_event: Matched
    filters_found_per_event: dict[str, float]
    """By mode: fewer than match, where the mode may stop before the end."""

    tidewire: Side
    numpy: Side
    numpy_by_shape: Timing | None
    ratio: Ratio
    ratios: dict[str, Ratio]


MODES: Final[dict[str, dict[str, Any]]] = {
    "deliver": {"limit": NUMBERS_MAX},
    "find_all": {"limit": NUMBERS_MAX, "settle": False},
    "all_ids": {"limit": 0},
}
"""How the kernel is asked. ``deliver`` is what a broker asks: it may stop as soon as every destination has more than
the limit, when nothing that would be sent can change any more; ``find_all`` finds every filter that matches, as the
scan does, and then groups them likewise; ``all_ids`` names every subscription as well.
"""
FEW_MODES: Final = ("deliver", "find_all")


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """Build both, see that they agree, then let them take turns."""
    refuse_impossible(plan.workload, filters=plan.filters, events=plan.events)
    refuse_missing(plan.folder)
    tell(f"making the workload {plan.workload}: {plan.filters:,} filters, {plan.events:,} events")
    work = make_workload(plan.workload, filters=plan.filters, events=plan.events, seed=plan.seed, folder=plan.folder)
    return Bench(work, plan, tell).report()


class Bench:
    """One workload in both indexes."""

    def __init__(self, work: Workload, plan: Plan, tell: Tell) -> None:
        self._work, self._plan, self._tell = work, plan, tell
        self._index = Index(plan.seed)
        tell("inserting into the kernel's index")
        self._kernel_inserts_per_s = len(work) / _insert(self._index, work, np.arange(len(work)))
        self._further_bytes = FURTHER_SUBSCRIPTION_BYTES * (self._index.subscriptions - self._index.entries)
        self._kernel_bytes = (self._index.memory_bytes - self._further_bytes) / self._index.entries
        tell("building the numpy scan from the same filters")
        filters = work.filters()
        start = thread_time()
        self._table = FilterTable(filters)
        self._scan = NumpyScan(self._table)
        self._scan_inserts_per_s = len(work) / (thread_time() - start)
        self._encoded = [encode_event(event) for event in work.events]
        self._prepared = [self._scan.prepare(event) for event in work.events]

    def report(self) -> Report:
        """Check, measure, and say it all."""
        matched = self._check()
        kernels = {mode: self._kernel(mode) for mode in (MODES if self._plan.with_extras else FEW_MODES)}
        scan = self._numpy("numpy", self._scan)
        by_shape = self._by_shape() if self._plan.with_extras else None
        contenders = [*kernels.values(), scan, *([by_shape] if by_shape else [])]
        take_turns(contenders, pairs=self._plan.pairs, turn_s=self._plan.turn_s, on_pair=self._tell_pair)
        ratios = {mode: ratio(scan, kernel) for mode, kernel in kernels.items()}
        if by_shape is not None:
            ratios["deliver_against_numpy_by_shape"] = ratio(by_shape, kernels["deliver"])
        ours, theirs = self._sides(kernels, scan)
        work = self._work
        return Report(
            benchmark="match",
            workload=work.name,
            data=work.origin,
            seed=self._plan.seed,
            machine=f"{platform.machine()}, {self._index.simd}, Python {platform.python_version()}",
            filters=len(work),
            distinct_filters=self._index.entries,
            destinations=work.destinations,
            events=len(work.events),
            pairs=self._plan.pairs,
            events_checked=min(CHECKED_EVENTS, len(work.events)),
            matches_per_event=matched,
            filters_found_per_event={mode: self._found(mode) for mode in kernels},
            tidewire=ours,
            numpy=theirs,
            numpy_by_shape=by_shape.timing() if by_shape else None,
            ratio=ratios["deliver"],
            ratios=ratios,
        )

    def _tell_pair(self, pair: int) -> None:
        self._tell("taking turns", pair, self._plan.pairs)

    def _kernel(self, mode: str) -> Contender:
        batches = [
            join_events(self._encoded[at : at + BATCH_EVENTS]) for at in range(0, len(self._encoded), BATCH_EVENTS)
        ]
        calls = [partial(self._index.match, batch, **MODES[mode]) for batch in batches]
        return Contender(mode, calls, events_per_call=len(self._encoded) / len(batches))

    def _numpy(self, name: str, scan: NumpyScan) -> Contender:
        return Contender(name, [partial(scan.match, event) for event in self._prepared], events_per_call=1)

    def _by_shape(self) -> Contender:
        return self._numpy("numpy_by_shape", NumpyScan(self._table, by_shape=True))

    def _check(self) -> Matched:
        """Both find the same filters for the first events, in every mode; how many that is, over more events."""
        self._tell("checking that both find the same filters")
        row_of_distinct = np.empty(len(self._work.subscriptions.distinct), dtype=np.int64)
        row_of_distinct[self._work.subscriptions.chosen] = self._table.row_of_subscription
        for number in range(min(CHECKED_EVENTS, len(self._encoded))):
            found = self._index.match(join_events([self._encoded[number]]), limit=0)
            names = np.diff(np.asarray(found.number_first))
            destinations = np.repeat(np.asarray(found.destination), names).astype(np.int64)
            ours = row_of_distinct[self._work.distinct_of(destinations, np.asarray(found.numbers, dtype=np.int64))]
            theirs = self._scan.match(self._prepared[number])
            if not np.array_equal(np.sort(ours), np.sort(theirs)):
                raise AssertionError(f"event {number}: the kernel finds {len(ours)} filters, numpy {len(theirs)}")
            few = self._index.match(join_events([self._encoded[number]]), limit=NUMBERS_MAX)
            if _named(few) != _at_most(_named(found), NUMBERS_MAX):
                raise AssertionError(f"event {number}: the delivery mode tells destinations something else")
        return self._matched()

    def _matched(self) -> Matched:
        subscriptions = filters = destinations = 0
        for found in self._some_matches("all_ids"):
            subscriptions += len(found.numbers)
            filters += found.entries_matched
            destinations += len(found.destination)
        events = min(len(self._encoded), COUNTED_EVENTS)
        return Matched(subscriptions / events, filters / events, destinations / events)

    def _found(self, mode: str) -> float:
        """The distinct filters that this mode finds per event."""
        found = sum(matches.entries_matched for matches in self._some_matches(mode))
        return found / min(len(self._encoded), COUNTED_EVENTS)

    def _some_matches(self, mode: str) -> Iterator[Matches]:
        some = self._encoded[:COUNTED_EVENTS]
        for at in range(0, len(some), BATCH_EVENTS):
            yield self._index.match(join_events(some[at : at + BATCH_EVENTS]), **MODES[mode])

    def _sides(self, kernels: dict[str, Contender], scan: Contender) -> tuple[Side, Side]:
        self._tell("removing and inserting a tenth, in random order")
        kernel_removes, numpy_removes = self._churn()
        after_kernel, after_numpy = self._after_churn() if self._plan.with_extras else (None, None)
        single = self._single_inserts() if self._plan.with_extras else None
        with_poset = self._with_poset() if self._plan.with_extras else None
        ours, theirs = kernels["deliver"].timing(), scan.timing()
        return (
            Side(
                us_per_event=ours.us_per_event,
                us_per_event_wall=ours.us_per_event_wall,
                events_per_s=ours.events_per_s,
                bytes_per_filter=self._kernel_bytes,
                inserts_per_s=self._kernel_inserts_per_s,
                removes_per_s=kernel_removes,
                us_per_event_after_churn=after_kernel,
                modes={mode: kernel.timing() for mode, kernel in kernels.items()},
                single_inserts=single,
                with_poset=with_poset,
                simd=self._index.simd,
            ),
            Side(
                us_per_event=theirs.us_per_event,
                us_per_event_wall=theirs.us_per_event_wall,
                events_per_s=theirs.events_per_s,
                bytes_per_filter=self._scan.nbytes / len(self._scan),
                inserts_per_s=self._scan_inserts_per_s,
                removes_per_s=numpy_removes,
                us_per_event_after_churn=after_numpy,
            ),
        )

    def _churn(self) -> tuple[float, float]:
        """A tenth of the subscriptions leaves, in random order, and comes back. Gives removals per second of both."""
        rng = np.random.default_rng(self._plan.seed + 1)
        leaving = rng.permutation(len(self._work))[: max(1, int(len(self._work) * CHURN))]
        ours = _remove(self._index, self._work, leaving)
        theirs = 0.0
        for rows in _pieces(self._table.row_of_subscription[leaving], INSERT_BATCH):
            theirs += cpu_seconds(partial(self._scan.remove, rows))
        _insert(self._index, self._work, rng.permutation(leaving))
        self._scan.insert_again(self._table.row_of_subscription[leaving])
        return len(leaving) / ours, len(leaving) / theirs

    def _after_churn(self) -> tuple[float, float]:
        both = [self._kernel("deliver"), self._numpy("numpy", self._scan)]
        take_turns(both, pairs=PAIRS_MIN, turn_s=self._plan.turn_s)
        return both[0].timing().us_per_event, both[1].timing().us_per_event

    def _single_inserts(self) -> SingleInserts:
        """The same subscriptions into another index, one by one."""
        self._tell("inserting one by one")
        index = Index(self._plan.seed)
        spent = np.empty(len(self._work))
        for rows in _pieces(np.arange(len(self._work)), INSERT_BATCH):
            destinations, numbers = self._work.owners(rows)
            filters = self._work.filters(rows)
            for i, row in enumerate(rows.tolist()):
                one = destinations[i : i + 1], numbers[i : i + 1], filters[i : i + 1]
                start = thread_time()
                index.insert(*one)
                spent[row] = thread_time() - start
        median, rare = np.quantile(spent, [0.5, 0.9999]).tolist()
        return SingleInserts(median * 1e6, rare * 1e6, spent.max().item() * 1e6)

    def _with_poset(self) -> Rates:
        """An index and a poset of the same subscriptions, both kept, over as many as the poset is meant for."""
        self._tell("inserting and removing with the poset kept")
        rows = np.arange(min(len(self._work), POSET_SUBSCRIPTIONS_MAX))
        index, poset = Index(self._plan.seed), Poset(self._plan.seed)
        inserting = _insert(index, self._work, rows)
        nodes: list[int] = []
        for piece in _pieces(rows, INSERT_BATCH):
            filters = self._work.filters(piece)
            start = thread_time()
            found = poset.insert(filters)
            inserting += thread_time() - start
            nodes += found
        leaving = np.random.default_rng(self._plan.seed).permutation(rows)[: max(1, int(len(rows) * CHURN))]
        removing = _remove(index, self._work, leaving)
        for piece in _pieces(np.array(nodes, dtype=np.uint32)[leaving], REMOVE_BATCH):
            removing += cpu_seconds(partial(poset.remove, piece.data))
        return Rates(len(rows) / inserting, len(leaving) / removing)


def _named(found: Matches) -> dict[int, list[int] | None]:
    """The numbers by destination; None where there are more than the limit."""
    first, numbers, more = found.number_first.tolist(), found.numbers.tolist(), found.more.tolist()
    return {
        to: None if more[i] else sorted(numbers[first[i] : first[i + 1]])
        for i, to in enumerate(found.destination.tolist())
    }


def _at_most(named: dict[int, list[int] | None], limit: int) -> dict[int, list[int] | None]:
    return {to: None if numbers is None or len(numbers) > limit else numbers for to, numbers in named.items()}


def _pieces(rows: NDArray[_Number], size: int) -> Iterator[NDArray[_Number]]:
    return (rows[at : at + size] for at in range(0, len(rows), size))


def _insert(index: Index, work: Workload, rows: Integers) -> float:
    """CPU seconds; what is inserted is made outside of them."""
    seconds = 0.0
    for piece in _pieces(rows, INSERT_BATCH):
        destinations, numbers = work.owners(piece)
        seconds += cpu_seconds(partial(index.insert, destinations, numbers, work.filters(piece)))
    return seconds


def _remove(index: Index, work: Workload, rows: Integers) -> float:
    seconds = 0.0
    for piece in _pieces(rows, REMOVE_BATCH):
        seconds += cpu_seconds(partial(index.remove, *work.owners(piece)))
    return seconds
