"""Tables that several benchmarks show: servers beside each other, and a flow alone and beside something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidewire.cli.shell import figure

if TYPE_CHECKING:
    from rich.table import Table

    from tidewire.benchmarks.beside import Flow
    from tidewire.benchmarks.measure import Ratio
    from tidewire.benchmarks.wire import Figures, Ratios


def bench_table(first: str, *others: str) -> Table:
    """A name in the first column, figures in the others."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", title_justify="left")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def servers_table(title: str, servers: Mapping[str, Figures], ratios: Mapping[str, Ratios]) -> Table:
    """One scenario: a row for each server."""
    table = bench_table(title, "CPU µs", "deliveries/s", "p50 µs", "p99 µs", "ours: less CPU (95 %)")
    for name, figures in servers.items():
        ratio = ratios.get(name)
        delay = figures.delay_us
        shown = (figures.cpu_us_per_delivery, figures.deliveries_per_s, delay.p50, delay.p99)
        table.add_row(name, *map(figure, shown), "" if ratio is None else str(ratio.cpu))
    return table


def beside_table(
    what: str, alone: Flow, beside: Flow, ratios: Sequence[Ratio], extra: Sequence[tuple[str, float, float]] = ()
) -> Table:
    """A flow alone and beside something; the ratios are of CPU and of the two delays."""
    table = bench_table("", "alone", f"beside {what}", "more (95 %)")
    cpu, p50, p99 = map(str, ratios)
    rows = [
        ("CPU µs per event", alone.cpu_us_per_event, beside.cpu_us_per_event, cpu),
        ("p50 µs", alone.delay_us.p50, beside.delay_us.p50, p50),
        ("p99 µs", alone.delay_us.p99, beside.delay_us.p99, p99),
        *((label, one, other, "") for label, one, other in extra),
        ("lost", alone.lost, beside.lost, ""),
    ]
    for label, one, other, ratio in rows:
        table.add_row(label, figure(one), figure(other), ratio)
    return table
