"""`tidewire bench calibrate`: the constants of the simulator's cost model, measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from tidewire.cli.bench_wire import Quick
from tidewire.cli.shell import AsJson, console, figure, report
from tidewire.model.errors import Unavailable

if TYPE_CHECKING:
    from tidewire.benchmarks.calibrate import Report

_MEANING = {
    "call_ns": "a read",
    "event_ns": "an event in it",
    "doubling_ns": "... per doubling of the filters",
    "copy_ns": "a copy that leaves",
    "write_ns": "a connection written to",
    "message_ns": "a message for the machine",
}


def calibrate(quick: Quick = False, as_json: AsJson = False) -> None:
    """A live broker's CPU in the terms of the simulator's cost model, beside the constants that it has.

    [bold]Example[/bold]

      tidewire bench calibrate --json > costs.json
    """
    try:
        import numpy as np  # noqa: F401 - the fit needs it, and it is better said now than after the measuring
    except ModuleNotFoundError as problem:
        raise Unavailable("the benchmarks need numpy: pip install 'tidewire[bench]'") from problem
    from tidewire.benchmarks.calibrate import Plan, run

    report(lambda tell: run(Plan().shortened() if quick else Plan(), tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    out = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("CPU ns", "measured", "in the simulator"):
        table.add_column(name, justify="left" if name == "CPU ns" else "right", no_wrap=True)
    for name, meaning in _MEANING.items():
        table.add_row(meaning, figure(report.measured[name]), figure(report.in_simulator[name]))
    out.print(table)
    messages = ", ".join(f"{kind} {us:.1f} µs" for kind, us in report.messages_us.items())
    out.print(
        f"\n[dim]Fitted to {len(report.runs)} kinds of reads through sockets, in the middle"
        f" {100 * report.error:.0f} % off. Messages: {messages}. {report.machine}.[/dim]"
    )
