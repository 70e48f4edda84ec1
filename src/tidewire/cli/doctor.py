"""`tidewire doctor`: what is wrong with an installation or a running system, and what to do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidewire.cli.credentials import DEFAULT_AT, TokenFile
from tidewire.cli.marked import escape
from tidewire.cli.reach import AtAny, Patience, surveyor
from tidewire.cli.shell import VIOLATION_EXIT, AsJson, console, print_json
from tidewire.model.errors import NotAuthenticated, NotPermitted, Unavailable

if TYPE_CHECKING:
    from tidewire.observe.findings import Finding
    from tidewire.observe.network import Network

_SIGNS: Final = {
    "ok": "[green]ok[/green]     ",
    "warning": "[yellow]warning[/yellow]",
    "problem": "[bold red]problem[/bold red]",
}


def doctor(
    at: AtAny = None,
    state: Annotated[Path, typer.Option(metavar="DIR", help="The folder of `tidewire up`.")] = Path(".tidewire"),
    timeout: Patience = 2.0,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Find what is wrong with this installation, and with the network if one runs, and say what to do.

    One line for each check: ok, warning or problem. Exit code 0 if there is no problem, whatever the warnings; 3 if
    there is one.

    [bold]Examples[/bold]

      tidewire doctor

      tidewire doctor --at 127.0.0.1:7601

      tidewire doctor --json | jq '.findings\\[] | select(.level != "ok")'
    """
    from tidewire.cli.installation import Place, examine

    try:
        looking, where = surveyor(at, token_file, timeout=timeout)
    except ImportError:  # of the kernel: there is a check for that
        findings = examine(Place(state=state, at=(at or [DEFAULT_AT])[0], network=None))
    else:
        network = asyncio.run(looking.look())
        findings = examine(Place(state=state, at=where, network=network)) + _running(network, where, is_wanted=bool(at))
    problems, warnings = (sum(one.level == level for one in findings) for level in ("problem", "warning"))
    if as_json:
        print_json({"problems": problems, "warnings": warnings, "findings": findings})
    else:
        _show(findings, problems, warnings)
    if problems:
        raise typer.Exit(VIOLATION_EXIT)


def _running(network: Network, where: str, *, is_wanted: bool) -> list[Finding]:
    """Of the network, if there is one, or should be."""
    from tidewire.observe.diagnosis import diagnose
    from tidewire.observe.findings import Finding

    is_refused = any(one.code in (NotAuthenticated.code, NotPermitted.code) for one in network.silent)
    if network.brokers or is_wanted or is_refused:
        return diagnose(network)
    if _somebody_listens(where):
        why = "; ".join(one.reason for one in network.silent)
        message, advice = f"whoever listens at {where} does not answer as a broker does: {why}", "look at its log"
        return [Finding(check="answers", level="warning", message=message, advice=advice)]
    nobody = f"no broker runs at {where}"
    return [Finding(check="answers", level="ok", message=nobody, advice="start a network: tidewire up")]


def _somebody_listens(where: str) -> bool:
    from tidewire.live.sockets import is_loopback, listen, parse_address

    host, port = parse_address(where)
    if not is_loopback(host):
        return False
    try:
        listen(host, port).close()
    except Unavailable:
        return True
    return False


def _show(findings: list[Finding], problems: int, warnings: int) -> None:
    out = console()
    for one in findings:
        out.print(f"{_SIGNS[one.level]}  {escape(one.message)}", soft_wrap=True)
        if one.advice:
            out.print(f"         [dim]→ {escape(one.advice)}[/dim]", soft_wrap=True)
    told = [
        f"{count} {what}{'' if count == 1 else 's'}" for count, what in ((problems, "problem"), (warnings, "warning"))
    ]
    out.print(f"\n[bold]{', '.join(told)}[/bold]" if problems or warnings else "\n[bold]all is well[/bold]")
