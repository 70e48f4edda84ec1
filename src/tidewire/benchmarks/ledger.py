"""The ledger of ratios: measured in minutes, kept in the repository, and a drop of 15 % fails.

`make bench-quick` runs ``python -m tidewire.benchmarks.ledger`` in the project's folder. Every figure is a ratio of
two things that this machine did in turn, so that figures of different machines can be compared; data is generated,
so that it is the same everywhere. For each ratio the ledger has what is *expected* of it, which only ``--update`` (or
a new ratio) changes, and what the *latest* run measured, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import numpy as np

from tidewire._kernel._native import Index
from tidewire.benchmarks.match import Plan, run
from tidewire.benchmarks.measure import Contender, Ratio, ratio, take_turns
from tidewire.benchmarks.numpy_scan import FilterTable, NumpyScan
from tidewire.benchmarks.plane import measure_plane
from tidewire.benchmarks.workloads import WORKLOADS, make_workload
from tidewire.language import compile_filter, parse

LEDGER: Final = Path("docs/evidence/ledger.json")
DROP: Final = 0.15
FILTERS: Final = 100_000
EVENTS: Final = 10_000
INSERTED: Final = 20_000
PAIRS: Final = 10
TURN_MS: Final = 200
TEN_PREDICATES: Final = (
    "class = 'STOCK' and symbol in ('AAPL', 'ORCL', 'MSFT') and high > 43.5 and low < 40.25 and volume >= 100000"
    " and open between 38.0 and 45.5 and close <> 41 and exchange = 'NASDAQ' and currency = 'USD' and halted = false"
)
TEN_PREDICATES_IN_PYTHON: Final = (
    "kind == 'STOCK' and symbol in ('AAPL', 'ORCL', 'MSFT') and high > 43.5 and low < 40.25 and volume >= 100000"
    " and 38.0 <= open <= 45.5 and close != 41 and exchange == 'NASDAQ' and currency == 'USD' and halted == False"
)

TEN_MIXED_PREDICATES: Final = (
    "class = 'QUAKE' and network in ('us', 'ak', 'nc') and place like '%Alaska%' and depth between 5.5 and 70.25"
    " and status <> 'deleted' and gap <> 41 and time >= timestamp '2010-02-27T06:34:11Z' and felt is not null"
    " and within(lat, lon, 38.3, 142.4, 300 km) and reviewed = true"
)
TEN_MIXED_PREDICATES_IN_PYTHON: Final = (
    "kind == 'QUAKE' and network in ('us', 'ak', 'nc') and 'Alaska' in place and 5.5 <= depth <= 70.25"
    " and status != 'deleted' and gap != 41 and time >= timestamp('2010-02-27T06:34:11Z') and felt is not None"
    " and within(lat, lon, 38.3, 142.4, 300 * km) and reviewed == True"
)


class Line(msgspec.Struct, frozen=True):
    """One ratio: what is expected, and what was measured last."""

    expected: float
    latest: Ratio

    @property
    def has_dropped(self) -> bool:
        """Surely lower by 15 %: even the upper end of the interval is."""
        return self.latest.high < (1 - DROP) * self.expected


Measure = Callable[[float], dict[str, Ratio]]
"""Given the seconds of a turn, the ratios by name."""


def measure_match(turn_s: float, *, workload: str, filters: int = FILTERS) -> dict[str, Ratio]:
    """The index beside the numpy scan: CPU per event as brokers ask and to the end, and memory."""
    with TemporaryDirectory() as empty:  # without data: it is generated, the same everywhere
        plan = Plan(
            workload=workload,
            filters=filters,
            events=EVENTS,
            folder=Path(empty),
            pairs=PAIRS,
            turn_s=turn_s,
            with_extras=False,
        )
        report = run(plan)
    lighter = report.numpy.bytes_per_filter / report.tidewire.bytes_per_filter
    return {
        f"match.{workload}.numpy_scan": report.ratio,
        f"match_all.{workload}.numpy_scan": report.ratios["find_all"],
        f"memory.{workload}.numpy_scan": Ratio(lighter, lighter, lighter),
    }


def measure_inserting(turn_s: float, *, filters: int = INSERTED) -> dict[str, Ratio]:
    """Subscriptions into an empty index, beside the same into the numpy scan's table."""
    work = make_workload("ranges", filters=filters, events=1, seed=1)
    destinations, numbers = work.owners(np.arange(filters))
    encoded = work.filters()
    ours = Contender("index", [lambda: Index().insert(destinations, numbers, encoded)], events_per_call=filters)
    theirs = Contender("numpy", [lambda: NumpyScan(FilterTable(encoded))], events_per_call=filters)
    take_turns([ours, theirs], pairs=PAIRS, turn_s=turn_s)
    return {"insert.ranges.numpy_scan": ratio(theirs, ours)}


def measure_parsing(turn_s: float) -> dict[str, Ratio]:
    """Ten predicates, plain ones to their normal form and mixed ones to their tree, beside Python's own parser."""
    found: dict[str, Ratio] = {}
    for name, read, text, in_python in (
        ("parse.filter.python_ast", compile_filter, TEN_PREDICATES, TEN_PREDICATES_IN_PYTHON),
        ("parse.mixed_filter.python_ast", parse, TEN_MIXED_PREDICATES, TEN_MIXED_PREDICATES_IN_PYTHON),
    ):
        ours = Contender("tidewire", [partial(read, text)], events_per_call=1)
        theirs = Contender("ast", [partial(ast.parse, in_python, mode="eval")], events_per_call=1)
        take_turns([ours, theirs], pairs=PAIRS, turn_s=turn_s)
        found[name] = ratio(theirs, ours)
    return found


MEASURES: Final[dict[str, Measure]] = {
    "insert": measure_inserting,
    **{f"match.{name}": partial(measure_match, workload=name) for name in WORKLOADS},
    "parse": measure_parsing,
    "plane": measure_plane,
}


def read_ledger(path: Path) -> dict[str, Line]:
    """The lines by name; none if there is no ledger yet."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Line]) if path.is_file() else {}


def write_ledger(path: Path, lines: dict[str, Line]) -> None:
    """Sorted, and rounded to what means something, so that two runs differ in few characters."""
    rounded = {
        name: {
            "expected": _rounded(lines[name].expected),
            "latest": {field: _rounded(getattr(lines[name].latest, field)) for field in ("high", "low", "median")},
        }
        for name in sorted(lines)
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rounded), indent=2) + b"\n")


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")


def renewed(known: dict[str, Line], measured: dict[str, Ratio], *, update: bool) -> dict[str, Line]:
    """The ledger after a run; what was expected stays, unless it is new or to be updated."""
    return known | {
        name: Line(known[name].expected if name in known and not update else found.median, found)
        for name, found in measured.items()
    }


def measured(measure: Measure, known: dict[str, Line], *, turn_s: float) -> dict[str, Ratio]:
    """A drop must show twice before it counts: on a busy machine one run proves nothing."""
    found = measure(turn_s)
    if dropped(known, found):
        again = measure(turn_s)
        found = {name: max(found[name], again[name], key=lambda one: one.median) for name in found}
    return found


def dropped(known: dict[str, Line], found: dict[str, Ratio]) -> list[str]:
    """The names of the ratios that are surely lower than expected by 15 %."""
    lines = renewed(known, found, update=False)
    return [name for name in found if lines[name].has_dropped]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, show, write; 1 if something dropped."""
    parser = argparse.ArgumentParser(prog="python -m tidewire.benchmarks.ledger", description="The ledger of ratios.")
    parser.add_argument("--update", action="store_true", help="expect from now on what this run measures")
    parser.add_argument("--ledger", type=Path, default=LEDGER, help=f"the file (default: {LEDGER})")
    parser.add_argument("--only", choices=MEASURES, action="append", help="measure only this; may be repeated")
    parser.add_argument("--turn-ms", type=int, default=TURN_MS, help="how long a turn takes, about")
    chosen = parser.parse_args(arguments)
    known = read_ledger(chosen.ledger)
    found: dict[str, Ratio] = {}
    for name in chosen.only or MEASURES:
        before = {} if chosen.update else known
        fresh = measured(MEASURES[name], before, turn_s=chosen.turn_ms / 1000)
        found |= fresh
        for line, value in sorted(fresh.items()):
            expected = f"expected {known[line].expected:.3g}" if line in known else "new"
            sys.stdout.write(f"{line:<30} {value!s:<26} {expected}\n")
            sys.stdout.flush()
    lines = renewed(known, found, update=chosen.update)
    fallen = [name for name in found if lines[name].has_dropped]
    write_ledger(chosen.ledger, lines)
    for name in fallen:
        sys.stdout.write(f"DROPPED: {name} by more than {DROP:.0%}; find out why, or accept it with --update\n")
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
