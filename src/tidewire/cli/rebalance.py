"""`tidewire rebalance`: what balancing would do next, and to make it look now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidewire.cli.credentials import TokenFile, access
from tidewire.cli.marked import escape
from tidewire.cli.reach import AtAny, Patience, refuse_emptiness, surveyor
from tidewire.cli.shell import AsJson, console, print_json
from tidewire.model.errors import BadConfiguration, NotAuthenticated, NotPermitted, TidewireError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidewire.balancing.indices import Reading
    from tidewire.broker.balance_documents import Figures, NextStep, WouldMove
    from tidewire.live.survey import Surveyor
    from tidewire.observe.network import Answered, Network

_NAMED: Final = 3
"""Of clients that would move."""
_VERDICTS: Final = {
    "busy": "is in a session",
    "overloaded": "is overloaded",
    "inert": "is full, but not in need: it takes nothing and asks nobody",
    "stabilizing": "waits until its load has settled after a session",
    "waits": "lets overloaded brokers go first",
    "balanced": "is even with the others",
    "imbalanced": "has more to do than others",
}


def rebalance(
    at: AtAny = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what each broker would do now; nothing changes.")
    ] = False,
    seconds: Annotated[
        float, typer.Option(help="Give up after so many: a dry run waits for events to look at.", min=0.1)
    ] = 90.0,
    timeout: Patience = 2.0,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Make brokers look now whether clients should move, and do what follows; or only show what would.

    It needs a network that balances (balancing = "peer"). To look is for operators; a dry run, for all who may observe.

    [bold]Examples[/bold]

      tidewire rebalance --dry-run

      tidewire rebalance --at 127.0.0.1:7601

      tidewire rebalance --dry-run --json | jq '.brokers\\[].would_move'
    """
    looking, _ = surveyor(at, token_file, timeout=timeout)
    steps, silent = asyncio.run(_ask_all(looking, token_file, is_dry_run=dry_run, seconds=seconds))
    if as_json:
        print_json({"dry_run": dry_run, "brokers": steps, "silent": silent})
        return
    for step in steps:
        _show(step, is_dry_run=dry_run)
    for name, reason in silent.items():
        console().print(f"[yellow]{escape(name)}[/yellow]: {escape(reason)}", soft_wrap=True)
    if not dry_run:
        console().print("[dim]watch it: tidewire top[/dim]")


async def _ask_all(
    looking: Surveyor, token_file: Path | None, *, is_dry_run: bool, seconds: float
) -> tuple[list[NextStep], dict[str, str]]:
    """What each broker answers, and why others do not."""
    network = await looking.look()
    refuse_emptiness(network)
    _refuse_unbalanced(network)
    balancing = [one for one in network.brokers if one.status.balance is not None]

    async def ask(one: Answered) -> NextStep | TidewireError:
        from tidewire.live.operate import rebalance_broker

        to = access(one.where, token_file)
        try:
            return await rebalance_broker(to.at, is_dry_run=is_dry_run, seconds=seconds, credentials=to.credentials)
        except TidewireError as error:
            return error

    answers = await asyncio.gather(*(ask(one) for one in balancing))
    for answer in answers:
        if isinstance(answer, NotPermitted | NotAuthenticated):
            raise answer
    told = [answer for answer in answers if not isinstance(answer, TidewireError)]
    silent = {one.broker or one.address: one.reason for one in network.silent}
    silent |= {
        one.status.broker: answer.message
        for one, answer in zip(balancing, answers, strict=True)
        if isinstance(answer, TidewireError)
    }
    silent |= {
        one.status.broker: "it does not balance (balancing is off)" for one in network.brokers if one not in balancing
    }
    if not told:
        raise Unavailable("; ".join(f"{name}: {reason}" for name, reason in silent.items()))
    return told, silent


def _refuse_unbalanced(network: Network) -> None:
    if not any(status.balance is not None for status in network.statuses()):
        raise BadConfiguration(
            'balancing is off: no broker of this network balances. Set balancing = "peer" or "drd" in the settings of'
            " all its brokers (--config FILE), and start them again"
        )


# -- for people --------------------------------------------------------------------------------------------------------


def _show(step: NextStep, *, is_dry_run: bool) -> None:
    out = console()
    for line in _lines(step, is_dry_run=is_dry_run):
        out.print(line, soft_wrap=False)


def _lines(step: NextStep, *, is_dry_run: bool) -> Iterator[str]:
    by_hand = "" if step.is_automatic else "  [dim]moves nobody by itself[/dim]"
    yield f"[bold]{escape(step.broker)}[/bold]  {step.role}  {step.condition}{by_hand}"
    yield f"  {_verdict(step)}"
    if step.smoothed is not None:
        yield f"  [dim]load[/dim]  {_figures(step.smoothed)}"
    if step.utilisation:
        yield "  [dim]load[/dim]  " + "  ".join(f"{name} {share:.1%}" for name, share in step.utilisation.items())
    for place, one in enumerate(step.candidates[:_NAMED]):
        what = "the matching delay" if one.action == "match" else f"its {one.action}"
        asked = ("would ask" if is_dry_run else "asks") if place == 0 else "then"
        yield f"  {asked} [bold]{escape(one.broker)}[/bold]: {what} differs by {one.difference:.3g}"
    for broker, condition in step.declined.items():
        yield f"  {escape(broker)} would take nothing: {escape(condition)}"
    if step.would_move is not None:
        yield from _moves(step.would_move)
    elif step.would_go:
        yield from _goes(step)
    elif is_dry_run and (step.candidates or step.utilisation) and step.why:
        yield f"  nobody would move: {escape(step.why)}"


def _verdict(step: NextStep) -> str:
    if step.role == "edge" and step.smoothed is None and not step.utilisation:
        return "has not measured its load yet"
    if not step.known and step.verdict in ("balanced", "waits"):
        return "has heard of no other " + ("edge" if step.role == "edge" else "cluster") + " that it could balance with"
    partner = f" with {escape(step.partner)}" if step.partner is not None else ""
    whose = "its cluster " if step.role == "head" else ""
    return f"{whose}{_VERDICTS[step.verdict]}{partner}"


def _goes(step: NextStep) -> Iterator[str]:
    """Where the head decides: class by class, those first who can wait longest."""
    for one in step.would_go:
        many = f"{one.clients} client" + ("" if one.clients == 1 else "s")
        wait = "any time" if one.delay_s is None else f"{one.delay_s:g} s"
        gain = "  ".join(f"{name} −{share:.1%}" for name, share in one.relief.items() if share)
        named = escape(", ".join(one.classes[:_NAMED]))
        yield f"  [green]would move {many}[/green] of {named} ({wait}) to {escape(one.to)}: {gain}"
    yield f"  [dim]then no more, since[/dim] {escape(step.why)}"


def _moves(moves: WouldMove) -> Iterator[str]:
    named = ", ".join(escape(name) for name in moves.names[:_NAMED])
    more = f" and {moves.clients - _NAMED} more" if moves.clients > _NAMED else ""
    many = f"{moves.clients} client" + ("" if moves.clients == 1 else "s")
    yield f"  [green]would move {many}[/green] to {escape(moves.acceptor)}: {named}{more}"
    yield f"  [dim]then no more, since[/dim] {escape(moves.why)}"
    for who, before, after in (
        ("here", moves.donor_before, moves.donor_after),
        ("there", moves.acceptor_before, moves.acceptor_after),
    ):
        yield f"  [dim]{who:5} now [/dim] {_figures(before)}"
        yield f"  [dim]{'':5} then[/dim] {_figures(after)}"


def _figures(load: Figures | Reading) -> str:
    shares = (("in", "input"), ("out", "output"), ("cpu", "cpu"), ("mem", "memory"))
    told = "  ".join(f"{short} {getattr(load, f'{name}_utilisation'):.1%}" for short, name in shares)
    return f"{told}  delay {load.matching_delay_s * 1e3:.3g} ms"
