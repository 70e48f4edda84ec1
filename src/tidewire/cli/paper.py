"""`tidewire paper`: the experiments of the papers, each with its claims, the paper's figures and ours."""

from __future__ import annotations

import traceback
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from tidewire.cli.environment import DataFolder, data_folder
from tidewire.cli.marked import escape
from tidewire.cli.seeds import seed_runs
from tidewire.cli.shell import ERROR_EXIT, VIOLATION_EXIT, AsJson, console, print_json, progress
from tidewire.model.errors import TidewireError, UsageError

if TYPE_CHECKING:
    from tidewire.papers.report import Experiment, Options, Report

FAILED: Final = "failed"
"""The code of an experiment that ended by no error of ours."""

paper = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Run the experiments of the papers.")


@paper.command(name="list")
def list_experiments(
    sheet: Annotated[str | None, typer.Argument(help="Only those of this sheet, such as gryphon.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the experiments: what each one shows, and what it is run with.

    [bold]Examples[/bold]

      tidewire paper list

      tidewire paper list gryphon --json
    """
    from rich.table import Table

    from tidewire.papers.registry import experiments

    found = experiments(sheet)
    if as_json:
        print_json([{"id": one.id, "shows": one.shows, "parameters": one.parameters} for one in found])
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("id", "shows", "parameters"):
        table.add_column(name)
    for one in found:
        parameters = ", ".join(f"{name} {value}" for name, value in one.parameters.items())
        table.add_row(escape(one.id), escape(one.shows), escape(parameters))
    console().print(table)


@paper.command(name="run", no_args_is_help=True)
def run_experiments(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Experiments, such as gryphon/C1.")],
    quick: Annotated[bool, typer.Option("--quick", help="Seconds, not minutes: the direction shows.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the figures there, as SVG.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="All chance comes from it.")] = 1,
    seeds: Annotated[
        str, typer.Option(metavar="N|A..B", help="So many runs of each, with the seeds from --seed on; or from A to B.")
    ] = "1",
    scale: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="So many times fewer subscribers, at brokers so much weaker: sweeps."),
    ] = 1,
    runs: Annotated[
        int | None,
        typer.Option("--runs", min=1, metavar="N", help="Of each point of a sweep, or mean; else as in the paper."),
    ] = None,
    data: DataFolder = None,
    live: Annotated[
        bool, typer.Option("--live", help="With processes on this machine, in real time: brokers, shaped links, Spark.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run experiments of the papers, and say of each claim whether it holds here.

    They run on the brokers that serve users, in virtual time unless --live is said. Exit code 3 if a claim does
    not hold; 2 if an experiment failed: what came of the others is told all the same, and with --json its "error".

    [bold]Examples[/bold]

      tidewire paper run gryphon/C1

      tidewire paper run gryphon/E1 gryphon/E2 --quick --json

      tidewire paper run gryphon/E2 --out docs/papers/figures

      tidewire paper run gryphon/E2 --live --quick

      tidewire paper run peer/E1 --seeds 5..9 --json

      tidewire paper run peer/E7 --scale 10
    """
    from tidewire.papers.registry import find
    from tidewire.papers.report import Options

    chosen = [find(one) for one in ids]
    _refuse_unfit(chosen, is_live=live, scale=scale, runs=runs)
    asked = Options(is_quick=quick, is_live=live, scale=scale, runs=runs, data=data_folder(data))
    given = [msgspec.structs.replace(asked, seed=one) for one in seed_runs(seeds, first=seed)]
    if out is not None:
        _make_folder(out)
    reports: list[Report] = []
    for experiment, options in product(chosen, given):
        report = _report(experiment, options)
        reports.append(report)
        if not as_json:
            _show(report, experiment.shows)
        if out is not None:
            _draw(report, out, is_live=live)
    _conclude(reports, as_json=as_json)


def _report(experiment: Experiment, options: Options) -> Report:
    """What came of it, also if that is nothing: others may have taken hours, and are not lost by it."""
    from tidewire.papers.report import Failure, Report

    try:
        with progress() as tell:
            return experiment.run(options, tell)
    except TidewireError as error:
        failure = Failure(code=error.code, message=error.message)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this experiment's
        traceback.print_exc()
        failure = Failure(code=FAILED, message=f"{type(error).__name__}: {error}")
    return Report(id=experiment.id, claims=[], failure=failure)


def _conclude(reports: list[Report], *, as_json: bool) -> None:
    if as_json:
        documents = [_document(report) for report in reports]
        print_json(documents[0] if len(documents) == 1 else documents)
    if any(report.failure is not None for report in reports):
        raise typer.Exit(ERROR_EXIT)
    if not all(report.holds for report in reports):
        raise typer.Exit(VIOLATION_EXIT)


def _refuse_unfit(chosen: list[Experiment], *, is_live: bool, scale: int, runs: int | None) -> None:
    if is_live and (simulated := [one.id for one in chosen if not one.is_live_too]):
        raise UsageError(f"{', '.join(simulated)} can be run in the simulator only: leave out --live")
    if scale > 1 and (whole := [one.id for one in chosen if not one.is_scalable]):
        raise UsageError(f"{', '.join(whole)}: there is one size only, so leave out --scale, or say --quick")
    if runs is not None and (single := [one.id for one in chosen if not (one.is_scalable or one.is_repeated)]):
        raise UsageError(f"{', '.join(single)}: one run, so leave out --runs, or say --seeds {runs}")


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None


def _document(report: Report) -> dict[str, object]:
    document: dict[str, object] = {
        "id": report.id,
        "claims": report.claims,
        "holds": report.holds,
        "measured": report.measured,
        "notes": report.notes,
    }
    return document if report.failure is None else {**document, "error": report.failure}


def _draw(report: Report, out: Path, *, is_live: bool) -> None:
    from tidewire.papers.figures import svg

    sheet = report.id.partition("/")[0]
    for figure in report.figures:
        (out / f"{sheet}-{'live-' if is_live else ''}{figure.name}.svg").write_text(svg(figure), encoding="utf-8")


def _show(report: Report, shows: str) -> None:
    out = console()
    out.print(f"[bold]{escape(report.id)}[/bold]: {escape(shows)}")
    if report.failure is not None:
        out.print(f"[red]✗ failed: {escape(report.failure.message, lines=True)}[/red]", soft_wrap=True)
    for claim in report.claims:
        mark = "[green]✓[/green]" if claim.holds else "[red]✗[/red]"
        out.print(f"{mark} {escape(claim.claim)}", soft_wrap=True)
        colour = "green" if claim.holds else "red"
        out.print(f"    [{colour}]{escape(claim.verdict)}[/{colour}]", soft_wrap=True)
        out.print(
            f"    [dim]paper: {escape(claim.paper)}; here: {escape(claim.measured)};"
            f" asked: {escape(claim.tolerance)}[/dim]",
            soft_wrap=True,
        )
    for note in report.notes:
        out.print(f"[dim]· {escape(note)}[/dim]", soft_wrap=True)
