"""What an acceptor tells its donor, made from what was measured, and read again (peer §6.2, step 2')."""

from __future__ import annotations

from collections.abc import Sequence

from tidewire.balancing.estimates import LoadInfo
from tidewire.balancing.load import Capacity, Load, Sample
from tidewire.model.balance_messages import LoadReport


def report_of(load: Load, sample: Sample, capacity: Capacity, covering_set: Sequence[bytes]) -> LoadReport:
    """How loaded a broker is, in full. ``sample``: the last one.

    Its output is what would go out if it kept up with what comes in: clients that move take their part of that, and it
    shows when there is no backlog any more.
    """
    return LoadReport(
        covering_set=list(covering_set),
        subscriptions=load.subscriptions,
        input_rate=load.input_rate,
        input_bytes_s=load.input_bytes_s,
        output_bytes_s=load.output_bytes_s * load.came_per_done,
        matching_delay_s=load.matching_delay_s,
        matching_slope_s=load.matching_slope_s,
        cpu_utilisation=load.cpu_utilisation,
        queued_in_bytes=sample.queued_in_bytes,
        queued_out_bytes=sample.queued_out_bytes,
        engine_bytes=sample.engine_bytes,
        output_bytes_s_max=capacity.output_bytes_s,
        memory_bytes_max=capacity.memory_bytes,
        event_bytes=load.event_bytes,
    )


def info_of(report: LoadReport) -> LoadInfo:
    """What estimates are made from."""
    return LoadInfo(
        input_rate=report.input_rate,
        matching_delay_s=report.matching_delay_s,
        matching_slope_s=report.matching_slope_s,
        cpu_utilisation=report.cpu_utilisation,
        subscriptions=report.subscriptions,
        output_bytes_s=report.output_bytes_s,
        output_bytes_s_max=report.output_bytes_s_max or 1.0,
        queued_in_bytes=report.queued_in_bytes,
        queued_out_bytes=report.queued_out_bytes,
        engine_bytes=report.engine_bytes,
        memory_bytes_max=report.memory_bytes_max or 1.0,
    )
